"""Fair learning by how losses are brought to one scale: which models end as constant answers.

    python -m benchmarks.fair_losses --settings "units;initial" --seeds 3
    python -m benchmarks.fair_losses --table

Runs every setting on every problem with every algorithm, seed after seed. What each run ended with
is added to a JSON file at once, so a second call goes on where the first was stopped. Then it
prints, per setting, and per setting and problem:

- *constant*: the share of clients whose kept model gives all its test rows the same answer; of all
  clients, and of those whose weight on fairness is at most 0.95;
- *fair, last*: the share of last models whose gap is below 0.001, of the same clients;
- hypervolume and mean scalarised value of the kept models, less those of the constant classifier:
  mean over the runs, and how many of the runs are above it.
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

from benchmarks.records import Record, add, key, options_of, read_records
from comity.runs.execute import execute, start_run

SETTINGS: dict[str, dict[str, Any]] = {
    "initial": {"normalise": "initial"},
    "units": {"normalise": "units"},
    "none": {"normalise": "none"},
    "ends": {"normalise": "ends"},
    "ends, Tchebycheff": {"normalise": "ends", "scalarisation": "smooth-tchebycheff"},
    "initial, warm-up": {"normalise": "initial", "warm_up": 0.25},
    "units, warm-up": {"normalise": "units", "warm_up": 0.25},
}
"""Settings of the learner by the name of a row; ``initial`` is the thesis'."""
PROBLEMS: dict[str, dict[str, Any]] = {
    "adult-gender-dp": {"clients": 10},
    "credit-default-gender-dp": {"clients": 10},
    "compas-race-dp": {"clients": 10},
    "german-credit-gender-dp": {"clients": 4},
    "heart-disease-gender-eo": {"clients": 4, "partition": "natural"},
}
"""Run-level settings by problem; the smaller tables have rows for a few clients only."""
ALGORITHMS = ("fedpref", "no-communication")
PREFERENCES = "dirichlet"
EXTREME = 0.95
"""Weight on fairness above which a constant answer may be the best that there is."""
FILE = Path(__file__).parent / "results" / "fair-losses.json"
KEYS = ("setting", "problem", "algorithm", "seed", "preferences")


def measured(setting: str, problem: str, algorithm: str, seed: int, preferences: str) -> Record:
    """Return the figures of one run."""
    values = {
        "problem": problem,
        "algorithm": algorithm,
        "seed": seed,
        "preferences": preferences,
        "supervised": SETTINGS[setting],
        **PROBLEMS[problem],
    }
    with tempfile.TemporaryDirectory() as directory:
        run = execute(start_run(values, Path(directory) / "run"))
        results = run.results
        weights = run.configuration.get_preferences()[:, 1:].sum(axis=1)
        measures = ("hypervolume", "strict_hypervolume", "mean_scalarised")
        return {
            "setting": setting,
            "problem": problem,
            "algorithm": algorithm,
            "seed": seed,
            "preferences": preferences,
            "fairness_weight": weights.round(6).tolist(),
            "kept": run.vectors.tolist(),
            "last": run.vectors_last.tolist(),
            "constant": [client["constant"] for client in results["per_client"]],
            **{
                name: {measure: results[name][measure] for measure in measures}  # type: ignore[literal-required]
                for name in ("metrics", "metrics_last", "trivial")
            },
        }


def summary(records: Sequence[Record]) -> list[str]:
    """Return the cells of a row about some runs."""
    weights = np.concatenate([record["fairness_weight"] for record in records])
    flat = np.concatenate([record["constant"] for record in records])
    last = np.concatenate([np.array(r["last"])[:, 1:].min(axis=1) > 0.999 for r in records])
    usual = weights <= EXTREME
    cells = [f"{100 * np.mean(part):.0f} %" for part in (flat, flat[usual], last, last[usual])]
    for measure in ("hypervolume", "mean_scalarised"):
        gains = [record["metrics"][measure] - record["trivial"][measure] for record in records]
        cells.append(f"{np.mean(gains):+.3f} ({np.sum(np.array(gains) > 0)} of {len(gains)})")
    return cells


def tables(records: Sequence[Record]) -> Iterator[Table]:
    """Yield one table about all problems and one per problem, a row per setting."""
    kinds = dict.fromkeys((record["setting"], record["preferences"]) for record in records)
    for name in ("all problems", *PROBLEMS):
        table = Table(title=name, title_justify="left")
        for heading in ("setting", "preferences", "constant", "≤ 0.95", "fair, last", "≤ 0.95"):
            table.add_column(heading)
        for heading in ("hypervolume − constant's", "mean scalarised − constant's"):
            table.add_column(heading)
        for setting, preferences in kinds:
            some = [
                record
                for record in records
                if (record["setting"], record["preferences"]) == (setting, preferences)
                and name in ("all problems", record["problem"])
            ]
            if some:
                table.add_row(setting, preferences, *summary(some))
        yield table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--settings", default=";".join(SETTINGS), help="separated by semicolons")
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--algorithms", default=",".join(ALGORITHMS))
    parser.add_argument("--preferences", default=PREFERENCES)
    parser.add_argument("--seeds", type=int, default=3)
    options = options_of(parser, FILE)
    records = read_records(options.file)
    done = {key(record, KEYS) for record in records}
    seeds, problems = range(1, options.seeds + 1), options.problems.split(",")
    algorithms = options.algorithms.split(",")
    runs = product(seeds, options.settings.split(";"), problems, algorithms)
    for seed, setting, problem, algorithm in () if options.table else runs:
        place = (setting, problem, algorithm, seed, options.preferences)
        if place not in done:
            add(measured(*place), records, options.file)
    for table in tables(records):
        Console(width=150).print(table)


if __name__ == "__main__":
    main()
