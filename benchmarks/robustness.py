"""Algorithms under attack, with and without defences: accuracy of the honest clients.

    python -m benchmarks.robustness
    python -m benchmarks.robustness --table

Runs every algorithm under every attack with every defence, on even and on uneven data, seed after
seed: 10 clients of USPS, a small network, 8 short rounds, the last models. What each run ended with
is added to a JSON file at once, so a second call goes on where the first was stopped. Then it
prints, per algorithm and data, the accuracy of the honest clients on their own test data (mean over
seeds, ± population standard deviation), and what ``clip`` changes, seed by seed. The column
``none:3`` is the clean figure: the same honest clients, and nobody attacks. The attackers of
``size:1`` and ``scale:1`` are one client only, so their honest clients are two more.

About 0.5 s of one core per run, 15 minutes in all. Rules that are told a share of bad members
(multi-krum, nearest-neighbour-mixing) are told the true one, 0.3.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.records import Record, add, key, options_of, read_records, row_of, rule_of, spread
from comity.runs.differences import tested
from comity.runs.execute import execute, start_run

ALGORITHMS = ("fedavg", "fedpref", "ditto", "fedrep")
ATTACKS = (
    *("none:3", "sign-flip:3", "collude:3", "ipm:3", "alie:3", "alie:3,factor=1.5"),
    *("label-flip:3", "replay:3", "size:1", "scale:1"),
)
DEFENCES = (
    *("none", "clip", "geometric-median", "clip,geometric-median", "multi-krum"),
    *("centered-clipping", "nearest-neighbour-mixing,geometric-median"),
)
PARTITIONS = {"even": "stratified", "uneven": "dirichlet:0.3"}
SETTINGS: dict[str, Any] = {
    "problem": "usps-mlp",
    "clients": 10,
    "rounds": 8,
    "keep": "last",
    "evaluate_every": 0,
    "global_test": 0,
    "supervised": {"local_steps": 15, "learning_rate": 0.1},
}
"""The run, but for what is varied."""
SEEDS = 3
"""Seeds of the tables; comparisons of `clip` take all that there are."""
FILE = Path(__file__).parent / "results" / "robustness.json"
KEYS = ("data", "algorithm", "attack", "defence", "seed")


def measured(data: str, algorithm: str, attack: str, defence: str, seed: int) -> Record:
    """Return the figures of one run."""
    values = {
        **SETTINGS,
        "partition": PARTITIONS[data],
        "algorithm": algorithm,
        "attack": attack,
        "wrapper": defence,
        "seed": seed,
    }
    with tempfile.TemporaryDirectory() as directory:
        results = execute(start_run(values, Path(directory) / "run")).results
    rows = [row for row in results["per_client"] if not row.get("attacker")]
    return {
        **dict(zip(KEYS, (data, algorithm, attack, defence, seed), strict=True)),
        "accuracy": round(results["metrics"]["accuracy"], 6),
        "worst": min(row["objectives"]["accuracy"] or 0.0 for row in rows),
    }


def lines(records: Sequence[Record]) -> Iterator[str]:
    """Yield a Markdown table per algorithm and kind of data: a row per defence, attacks across."""
    values: dict[tuple[str, ...], list[float]] = {}
    for record in records:
        if record["seed"] <= SEEDS:
            values.setdefault(key(record, KEYS[:-1]), []).append(record["accuracy"])
    chosen = {record["algorithm"]: None for record in records}
    for algorithm, data in product(chosen, PARTITIONS):
        rows = [
            [defence.replace(",", " + ")]
            + [_cell(values.get((data, algorithm, attack, defence))) for attack in ATTACKS]
            for defence in DEFENCES
        ]
        yield f"\n**{algorithm}, {data} data**\n"
        yield row_of(["defence", *(f"`{attack}`" for attack in ATTACKS)])
        yield rule_of(1 + len(ATTACKS))
        yield from (row_of(row) for row in rows if set(row[1:]) != {"–"})


def gains(records: Sequence[Record], attack: str, defence: str) -> Iterator[str]:
    """Yield per algorithm and kind of data what a defence changes, seed by seed.

    Args:
        records: The runs.
        attack: The attack under which it is compared.
        defence: The defence, against none.
    """
    yield f"\n**`{defence}` less none under `{attack}`**\n"
    yield row_of(["algorithm", "data", "mean difference", "95 % interval", "seeds"])
    yield rule_of(5)
    kept = {key(record, KEYS): record["accuracy"] for record in records}
    for algorithm, data in product(dict.fromkeys(r["algorithm"] for r in records), PARTITIONS):
        pairs = [
            value - kept[data, algorithm, attack, "none", seed]
            for (*place, seed), value in kept.items()
            if place == [data, algorithm, attack, defence]
            and (data, algorithm, attack, "none", seed) in kept
        ]
        if len(pairs) > 1:
            each = np.array(pairs)
            interval, _ = tested(each)
            between = "–" if interval is None else f"{interval[0]:+.3f} to {interval[1]:+.3f}"
            yield row_of([algorithm, data, f"{each.mean():+.3f}", between, str(len(each))])


def _cell(values: Sequence[float] | None) -> str:
    return spread(values) if values else "–"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--algorithms", default=",".join(ALGORITHMS))
    parser.add_argument("--attacks", default=";".join(ATTACKS), help="separated by semicolons")
    parser.add_argument("--defences", default=";".join(DEFENCES), help="separated by semicolons")
    parser.add_argument("--data", default=",".join(PARTITIONS))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    options = options_of(parser, FILE)
    records = read_records(options.file)
    done = {key(record, KEYS) for record in records}
    places = product(
        options.data.split(","),
        options.algorithms.split(","),
        options.attacks.split(";"),
        options.defences.split(";"),
        range(1, options.seeds + 1),
    )
    for place in () if options.table else places:
        if place not in done:
            add(measured(*place), records, options.file)
    print("\n".join(lines(records)))
    for attack in ("none:3", "scale:1"):
        print("\n".join(gains(records, attack, "clip")))


if __name__ == "__main__":
    main()
