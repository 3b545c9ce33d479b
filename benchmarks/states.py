"""Is federating worth it for each of 47 states that want to be fair in different ways?

    python -m benchmarks.states acs_income_states.csv.gz
    python -m benchmarks.states --table

The configuration is examples/states/feda4fair.toml with your copy of FeDa4Fair's rows: 3,000 rows
per state, accuracy against the gap by sex or by race, whichever is larger in the state's own
training labels (``largest-gap:0.3``). Each client keeps its best validated model. Rows are the same
under all seeds; who trains, validates and tests on which, initial models and batches differ. What
each run ended with is added to a JSON file at once, so a second call goes on where the first was
stopped. Then it prints tables in Markdown. A state is better off than alone where the value of its
test result by its own preference is higher. About 15 s of one core per run.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.hospitals import KEYS, by_variant
from benchmarks.records import Record, add, key, options_of, read_records, row_of, rule_of, spread
from comity.configuration import read_toml
from comity.core.typing import FloatArray
from comity.runs.differences import tested
from comity.runs.execute import execute, start_run

ALONE = "alone"
VARIANTS: dict[str, dict[str, Any]] = {
    ALONE: {"algorithm": "no-communication"},
    "FedAvg": {"algorithm": "fedavg"},
    "FedAdam": {"algorithm": "fedadam"},
    "FedYogi": {"algorithm": "fedyogi"},
    "FedPref": {"algorithm": "fedpref"},
    "Ditto": {"algorithm": "ditto"},
    "FedRep": {"algorithm": "fedrep"},
    "FedAvg, guard": {"algorithm": "fedavg", "guard": True},
}
CONFIG = Path(__file__).parents[1] / "examples" / "states" / "feda4fair.toml"
FILE = Path(__file__).parent / "results" / "states.json"
KINDS = ("sex", "race")


def measured(data: Path, variant: str, seed: int) -> Record:
    """Return the figures of one run, state by state."""
    values = read_toml(CONFIG)
    values["problem"]["data"] = str(data)
    with tempfile.TemporaryDirectory() as directory:
        run = execute(
            start_run({**values, **VARIANTS[variant], "seed": seed}, Path(directory) / "run")
        )
        clients, preferences = run.results["per_client"], run.configuration.get_preferences()
    return {
        "variant": variant,
        "seed": seed,
        "states": [client["name"] for client in clients],
        "kinds": [KINDS[int(weights[1:].argmax())] for weights in preferences],
        "value": [client["scalarised"] for client in clients],
        "trivial": [client["trivial"] for client in clients],
        "objectives": [list(client["objectives"].values()) for client in clients],
    }


def tables(records: Sequence[Record]) -> Iterator[str]:
    """Yield the lines of all tables."""
    runs = by_variant(records)
    alone, states = runs[ALONE], records[0]["states"]
    heads = ("value", "accuracy", "wanted fairness", "over alone", "states better / worse")
    yield row_of(["test rows, mean over states", *heads])
    yield rule_of(1 + len(heads))
    trivial = np.array([record["trivial"] for record in alone.values()])
    worth = _counts(trivial - _values(alone))
    yield row_of(["constant answer", spread(trivial.mean(axis=1), 4), "–", "1", "–", worth])
    for variant, of_seeds in runs.items():
        value = _values(of_seeds)
        accuracy = np.array([np.mean(r["objectives"], axis=0)[0] for r in of_seeds.values()])
        wanted = np.array([np.mean(_wanted(record)) for record in of_seeds.values()])
        cells = [spread(values, 4) for values in (value.mean(axis=1), accuracy, wanted)]
        gains = value - _values(alone)
        cells += ["–", "–"] if variant == ALONE else [_gain(gains.mean(axis=1)), _counts(gains)]
        yield row_of([variant, *cells])
    yield ""
    yield row_of(["over alone, by what states want", "by sex", "by race"])
    yield rule_of(3)
    for variant, of_seeds in runs.items():
        if variant != ALONE:
            gains = _values(of_seeds) - _values(alone)
            kinds = np.array([record["kinds"] for record in of_seeds.values()])
            means = (f"{gains[kinds == kind].mean():+.4f}" for kind in KINDS)
            yield row_of([variant, *means])
    yield ""
    yield row_of([f"in all {len(alone)} seeds", "better off than alone", "worse off"])
    yield rule_of(3)
    for variant, of_seeds in runs.items():
        if variant != ALONE:
            gains = np.round(_values(of_seeds) - _values(alone), 6)
            lists = [(gains > 0).all(axis=0), (gains < 0).all(axis=0)]
            yield row_of([variant, *(_names(states, chosen) for chosen in lists)])


def _values(of_seeds: dict[int, Record]) -> FloatArray:
    """Return the value of each state's result by its own preference (seeds x states)."""
    return np.array([of_seeds[seed]["value"] for seed in sorted(of_seeds)])


def _wanted(record: Record) -> list[float]:
    """Return each state's fairness in the sense that it wants."""
    pairs = zip(record["objectives"], record["kinds"], strict=True)
    return [objectives[1 + KINDS.index(kind)] for objectives, kind in pairs]


def _counts(gains: FloatArray) -> str:
    """Return how many states are better and worse off on average over seeds."""
    means = np.round(gains.mean(axis=0), 6)
    return f"{(means > 0).sum()} / {(means < 0).sum()}"


def _gain(gains: FloatArray) -> str:
    """Return the mean over seeds and Student's 95 % interval."""
    interval, _ = tested(gains)
    around = "" if interval is None else f" ({interval[0]:+.4f} to {interval[1]:+.4f})"
    return f"{gains.mean():+.4f}{around}"


def _names(states: Sequence[str], chosen: Any) -> str:
    names = [name for name, here in zip(states, chosen, strict=True) if here]
    return f"{len(names)}: {', '.join(names)}" if names else "none"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, nargs="?", help="your copy of FeDa4Fair's rows")
    parser.add_argument("--seeds", type=int, default=3)
    options = options_of(parser, FILE)
    if options.data is None and not options.table:
        parser.error("name your copy of FeDa4Fair's rows, or say --table")
    records = read_records(options.file)
    done = {key(record, KEYS) for record in records}
    for seed in () if options.table else range(1, options.seeds + 1):
        for variant in VARIANTS:
            if (variant, seed) not in done:
                add(measured(options.data, variant, seed), records, options.file)
                print(f"{variant}, seed {seed}: {np.mean(records[-1]['value']):.4f}", flush=True)
    print("\n".join(tables(records)))


if __name__ == "__main__":
    main()
