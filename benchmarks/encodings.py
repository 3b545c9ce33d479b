"""Encodings: bytes per update and quality, on rewards, a table and pictures.

    python -m benchmarks.encodings --seeds 3
    python -m benchmarks.encodings --table

Runs every encoding on every problem, seed after seed. Federations are smaller than the papers': few
clients and short rounds, so that three seeds take about 25 minutes of one core. What each run ended
with is added to a JSON file at once, so a second call goes on where the first was stopped. Then it
prints, per problem and encoding:

- *bytes per update*: mean length of the sealed message of one client in one round, and its share of
  that of `none`;
- *megabytes*: of the whole run, both directions;
- the mean scalarised value of kept and of last models, mean ± population standard deviation over
  seeds; and the difference of the kept ones from `none`, seed by seed.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.records import Record, add, key, options_of, read_records, spread
from comity.core.encodings import ENCODINGS
from comity.runs.execute import execute, start_run

PROBLEMS: dict[str, dict[str, Any]] = {
    "deep-sea-treasure": {
        "algorithm": "fedpref", "clients": 6, "rounds": 20, "dqn": {"local_steps": 1000},
    },
    "adult-gender-dp": {"algorithm": "fedpref", "clients": 6, "rounds": 10},
    "cifar10-small": {
        "algorithm": "fedavg", "clients": 3, "rounds": 6, "supervised": {"local_epochs": 1},
    },
}  # fmt: skip
"""Settings of a run by problem."""
MEASURE = "mean_scalarised"
FILE = Path(__file__).parent / "results" / "encodings.json"
KEYS = ("problem", "encoding", "seed")


def measured(problem: str, encoding: str, seed: int) -> Record:
    """Return the figures of one run."""
    values = {"problem": problem, "encoding": encoding, "seed": seed, **PROBLEMS[problem]}
    with tempfile.TemporaryDirectory() as directory:
        run = execute(start_run(values, Path(directory) / "run"))
        results = run.results
    return {
        "problem": problem,
        "encoding": encoding,
        "seed": seed,
        "communication": dict(results["communication"]),
        "metrics": dict(results["metrics"]),
        "metrics_last": dict(results.get("metrics_last", results["metrics"])),
    }


def tables(records: Sequence[Record]) -> Iterator[Table]:
    """Yield one table per problem, one row per encoding."""
    for problem, settings in PROBLEMS.items():
        runs = {(r["encoding"], r["seed"]): r for r in records if r["problem"] == problem}
        whole = {seed: run for (encoding, seed), run in runs.items() if encoding == "none"}
        table = Table(title=f"{problem}, {settings['algorithm']}", title_justify="left")
        for heading in ("encoding", "seeds", "bytes per update", "share", "megabytes"):
            table.add_column(heading, justify="right" if heading != "encoding" else "left")
        for heading in ("kept", "last", "kept − none's"):
            table.add_column(heading, justify="right")
        plain = _bytes(list(whole.values()))
        for encoding in ENCODINGS:
            some = {seed: run for (name, seed), run in runs.items() if name == encoding}
            if not some:
                continue
            size = _bytes(list(some.values()))
            sent = [run["communication"] for run in some.values()]
            total = np.mean([each["bytes_up"] + each["bytes_down"] for each in sent]) / 1e6
            gains = [
                run["metrics"][MEASURE] - whole[seed]["metrics"][MEASURE]
                for seed, run in some.items()
                if seed in whole
            ]
            table.add_row(
                *(encoding, str(len(some)), f"{size:,.0f}"),
                f"{100 * size / plain:.1f} %" if whole else "–",
                f"{total:.2f}",
                *(
                    spread([run[kind][MEASURE] for run in some.values()], 4)
                    for kind in ("metrics", "metrics_last")
                ),
                spread(gains, 4, "+") if gains else "–",
            )
        if runs:
            yield table


def _bytes(runs: Sequence[Record]) -> float:
    sizes = [run["communication"]["bytes_per_update"] for run in runs]
    return float(np.mean(sizes)) if sizes else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--encodings", default=",".join(ENCODINGS))
    parser.add_argument("--seeds", type=int, default=3)
    options = options_of(parser, FILE)
    records = read_records(options.file)
    done = {key(record, KEYS) for record in records}
    seeds = range(1, options.seeds + 1)
    runs = product(seeds, options.problems.split(","), options.encodings.split(","))
    for seed, problem, encoding in () if options.table else runs:
        if (problem, encoding, seed) not in done:
            add(measured(problem, encoding, seed), records, options.file)
    for table in tables(records):
        Console(width=150).print(table)


if __name__ == "__main__":
    main()
