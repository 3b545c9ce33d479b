"""One policy network for any preference, beside one network per client: regret over preferences.

    python -m benchmarks.conditioned --seeds 3 --workers 2
    python -m benchmarks.conditioned --table

Everybody gets the same number of environment steps: Deep Sea Treasure with its own defaults, 20
clients, or one client with 20 times the steps and 20 times the buffer. Compared are
conditioned-dqn, the same without federation (the first five clients alone: they do not depend on
each other), the same as one client, and separate networks: FedPref and no communication. All are
judged on the same 11 preferences. Separate networks serve a preference twice: by the best of all 20
for it, which nobody could choose without trying, and by the one whose own preference is nearest.

What each run ended with is added to a JSON file at once, so a second call goes on where the first
was stopped. Then it prints tables in Markdown: means over seeds, regret by preference, and
differences to conditioned-dqn, paired by seed, with Student's 95 % intervals.

About 8 minutes of one core per seed and conditioned entry, 2 per separate one.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from benchmarks.records import Record, key, options_of, read_records, row_of, rule_of, spread
from comity.algorithms import algorithm
from comity.algorithms.conditioned_dqn import ConditionedDQN, grid
from comity.core.pareto import hypervolume
from comity.core.spans import dominated_share, regrets
from comity.core.storage import write_whole
from comity.core.typing import FloatArray
from comity.problems import find
from comity.runs.differences import tested
from comity.runs.directory import Run
from comity.runs.events import Event, RoundEvent
from comity.runs.execute import execute, start_run


@algorithm(
    "conditioned-alone",
    title="Preference-conditioned DQN without federation",
    paper="a baseline of this benchmark",
    place="not federated",
    method="linearised preferences, drawn; one network per client that takes any of them",
    communication="nothing",
)
class ConditionedAlone(ConditionedDQN):
    """The conditioned network of each client, trained alone."""

    personal: ClassVar[bool] = True
    communicates: ClassVar[bool] = False


CLIENTS, ALONE = 20, 5
FEDERATED = "conditioned-dqn"
CONDITIONED: dict[str, dict[str, Any]] = {
    FEDERATED: {"algorithm": "conditioned-dqn"},
    "conditioned, no federation": {
        "algorithm": "benchmarks.conditioned:ConditionedAlone",
        "clients": ALONE,
        "keep": "last",
    },
    f"conditioned, one client, {CLIENTS} x steps": {"algorithm": "conditioned-dqn", "clients": 1},
}
"""Entries whose networks take any preference.

Without others one preference says nothing of the rest, so no round is chosen by it: lone clients
keep their last networks.
"""
SEPARATE: dict[str, dict[str, Any]] = {
    "FedPref": {"algorithm": "fedpref"},
    "no communication": {"algorithm": "no-communication"},
}
"""Entries with one network per client."""
SERVED_BY = {"best": "best of 20", "nearest": "nearest"}
FILE = Path(__file__).parent / "results" / "conditioned.json"
KEYS = ("problem", "entry", "seed", "rounds")


def settings(entry: str, problem: str, rounds: int | None) -> dict[str, Any]:
    """Return the settings of an entry's run, but for the seed.

    Args:
        entry: One of `CONDITIONED` or `SEPARATE`.
        problem: Name of the problem.
        rounds: Number of rounds; None: the problem's own.
    """
    values = {"problem": problem, "clients": CLIENTS, **{**CONDITIONED, **SEPARATE}[entry]}
    values |= {} if rounds is None else {"rounds": rounds}
    if values["clients"] == 1:
        defaults = find(problem).defaults
        scaled = ("local_steps", "total_steps", "buffer_size")
        steps = {name: CLIENTS * defaults[name] for name in scaled}
        if rounds is not None:
            steps["total_steps"] = rounds * steps["local_steps"]
        even = [[1.0 / len(find(problem).objectives)] * len(find(problem).objectives)]
        values |= {"dqn": steps, "keep": "last", "preferences": even}
    return values


def measured(problem: str, entry: str, seed: int, rounds: int | None) -> list[Record]:
    """Return the figures of one run: one record, or one per way to serve a preference."""
    values = {**settings(entry, problem, rounds), "seed": seed}
    with tempfile.TemporaryDirectory() as directory:
        run = start_run(values, Path(directory) / "run")
        execute(run, notify=partial(_progress, f"{entry}, seed {seed}"))
        return [
            {
                **{"problem": problem, "entry": entry, "served_by": served_by, "seed": seed},
                "rounds": run.configuration.rounds,
                "steps": sum(run.results["environment_steps"].values()),
                **{f"own_regret{part}": value for part, value in _own_regrets(run).items()},
                **_judged(run, sets),
            }
            for served_by, sets in served(run).items()
        ]


def _progress(name: str, event: Event) -> None:
    if isinstance(event, RoundEvent):
        print(f"{name}: round {event.round} of {event.total}", file=sys.stderr, flush=True)


def served(run: Run) -> dict[str, FloatArray]:
    """Return the returns at each preference of the grid (sets x preferences x objectives)."""
    if run.spans is not None:
        return {"itself": run.spans.vectors}
    preferences, vectors = grid(run.vectors.shape[1]), run.vectors
    of_clients = run.configuration.get_preferences()
    best = (preferences @ vectors.T).argmax(axis=1)
    nearest = np.linalg.norm(preferences[:, None] - of_clients[None], axis=2).argmin(axis=1)
    return {"best": vectors[best][None], "nearest": vectors[nearest][None]}


def _own_regrets(run: Run) -> dict[str, float]:
    """Return the mean regret at clients' own preferences, of kept and of last models."""
    kept = run.results["metrics"]
    both = {"": kept, "_last": run.results.get("metrics_last", kept)}
    return {part: round(metrics["mean_regret"], 6) for part, metrics in both.items()}


def _judged(run: Run, sets: FloatArray) -> dict[str, Any]:
    """Return what is measured of the returns at each preference, as means over sets."""
    problem = run.configuration.get_problem()
    best = problem.target()
    assert best is not None
    missed = regrets(grid(sets.shape[2]), sets, best)
    volumes = [hypervolume(vectors, problem.reference_point) for vectors in sets]
    return {
        "regret": round(float(missed.mean()), 6),
        "per_preference": missed.mean(axis=0).round(6).tolist(),
        "hypervolume": round(float(np.mean(volumes)), 6),
        "dominated": round(float(np.mean([dominated_share(vectors) for vectors in sets])), 6),
    }


# -- tables --------------------------------------------------------------------------------


def lines(records: Sequence[Record]) -> Iterator[str]:
    """Yield the tables in Markdown: means, regret by preference, paired differences."""
    rows: dict[str, list[Record]] = {}
    for record in records:
        rows.setdefault(label(record), []).append(record)
    kinds = {"regret": "regret", "own_regret": "own", "own_regret_last": "own, last"}
    yield row_of(["entry", *kinds.values(), "hypervolume", "dominated", "steps", "seeds"])
    yield rule_of(5 + len(kinds))
    for name, row in rows.items():
        cells = (spread([r[kind] for r in row], 2) for kind in kinds)
        volume = f"{np.mean([r['hypervolume'] for r in row]):,.0f}"
        share = f"{np.mean([r['dominated'] for r in row]):.0%}"
        yield row_of([name, *cells, volume, share, f"{row[0]['steps']:,}", str(len(row))])
    preferences = grid(2)
    yield "\nRegret by the weight of the first objective, mean over seeds\n"
    yield row_of(["entry", *(f"{weight:.1f}" for weight in preferences[:, 0])])
    yield rule_of(1 + len(preferences))
    for name, row in rows.items():
        mean = np.mean([record["per_preference"] for record in row], axis=0) + 0.0
        yield row_of([name, *(f"{value:.2f}" for value in mean)])
    yield from differences(rows)


def differences(rows: Mapping[str, Sequence[Record]]) -> Iterator[str]:
    """Yield by how much each entry misses more than conditioned-dqn, paired by seed."""
    reference = {record["seed"]: record["regret"] for record in rows.get(FEDERATED, ())}
    yield f"\nRegret less that of {FEDERATED}, paired by seed (more: {FEDERATED} is better)\n"
    yield row_of(["entry", "mean", "95 % interval", "p", "each seed"])
    yield rule_of(5)
    for name, row in rows.items():
        each = [r["regret"] - reference[r["seed"]] for r in row if r["seed"] in reference]
        if name == FEDERATED or not each:
            continue
        interval, p = tested(np.array(each))
        between = "–" if interval is None else f"{interval[0]:+.2f} to {interval[1]:+.2f}"
        chance = "–" if p is None else f"{p:.3f}"
        listed = ", ".join(f"{value:+.2f}" for value in each)
        yield row_of([name, f"{np.mean(each):+.2f}", between, chance, listed])


def label(record: Record) -> str:
    """Return the name of a record's row."""
    served_by = SERVED_BY.get(record["served_by"])
    return record["entry"] if served_by is None else f"{record['entry']}, {served_by}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", default="deep-sea-treasure")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, help="default: the problem's own")
    parser.add_argument("--entries", default=";".join([*CONDITIONED, *SEPARATE]))
    parser.add_argument("--workers", type=int, default=1, help="processes, one run each")
    options = options_of(parser, FILE)
    records = read_records(options.file)
    done = {key(record, KEYS) for record in records}
    defaults = find(options.problem).defaults
    rounds = options.rounds or round(defaults["total_steps"] / defaults["local_steps"])
    jobs = [
        (options.problem, entry, seed, options.rounds)
        for seed in range(1, options.seeds + 1)
        for entry in options.entries.split(";")
        if not options.table and (options.problem, entry, seed, rounds) not in done
    ]
    if jobs:
        with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
            for future in as_completed([pool.submit(measured, *job) for job in jobs]):
                records += future.result()
                write_whole(options.file, f"{json.dumps(records, indent=1)}\n".encode())
    shown = [r for r in records if (r["problem"], r["rounds"]) == (options.problem, rounds)]
    for line in lines(shown):
        print(line)


if __name__ == "__main__":
    main()
