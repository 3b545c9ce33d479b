"""Do the claims about personalised learning hold with many clients, few pictures, enough rounds?

    python -m benchmarks.pictures --workers 2
    python -m benchmarks.pictures --table

USPS digits and the papers' CNN, 100 clients of whom a tenth takes part in each of 60 rounds, one
pass per round in batches of 10, one last pass; kept models, test accuracy on own pictures. Clients
alone train in all of 40 rounds, after which their accuracy no longer rises. All rows are tuned
equally: four learning rates, one run each with another seed than those that are reported, chosen
by validation. What each run ended with is added to a JSON file at once, so a second call goes on
where the first was stopped. Then it prints tables in Markdown, differences paired by seed. About 20
s of one core per run, 70 s alone.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.records import Record, add, key, options_of, read_records, row_of, rule_of, spread
from comity.core.typing import FloatArray
from comity.reproductions.pictures import AGENT, ALONE, PRETRAINING, PROTOCOL
from comity.runs.differences import tested
from comity.runs.entries import entry_values, merge
from comity.runs.execute import execute, start_run
from comity.runs.how_soon import first_round
from comity.runs.pretraining import save_agent, start_pretraining
from comity.runs.validated import validated_vectors

LONE, PRETRAINED = "alone", "pfedrlla, pretrained"
HOSTS = (
    *("fedavg", "fedavg[fine_tune=none]", "fedrep", "fedper", "lg-fedavg", "fedbabu", "fedrod"),
    *("apfl", "ditto", "fedala", "fedpac", "fedcp", "fedphp", "fedamp", "fedfomo", "per-fedavg"),
    *("pfedme", "fedfew", "pfedrlla"),
)
LENGTHENED = ("fedavg", "fedrep", "ditto")
"""Hosts beside which ConFREE and its control of equal step length stand."""
WRAPPED = tuple(f"{host}+{w}" for host in LENGTHENED for w in ("confree", "scaled-mean"))
ROWS = (LONE, *HOSTS, PRETRAINED, *WRAPPED)
PARTITIONS = ("pathological:5", "dirichlet:0.1")
RATES = (0.02, 0.05, 0.1, 0.2)
TUNING_SEED, PRETRAINING_SEED = 101, 102
"""Other seeds than those that are reported."""
TARGETS = (0.8, 0.9)
FILE = Path(__file__).parent / "results" / "pictures.json"


class Job(NamedTuple):
    """One run."""

    problem: str
    partition: str
    row: str
    rate: float
    seed: int
    rounds: int


def settings(job: Job) -> dict[str, Any]:
    """Return the settings of a run; those of pFedRLLA's agent without its file."""
    learned = {"rounds": job.rounds, "supervised": {"learning_rate": job.rate}}
    common = {**PROTOCOL, **learned, "problem": job.problem, "partition": job.partition}
    if job.row == LONE:
        rounds = ALONE * job.rounds // 60
        own = {"algorithm": "no-communication", "participation": 1.0, "rounds": rounds}
        common.pop("fine_tune")
    elif job.row in (PRETRAINED, "pfedrlla"):
        own = {"algorithm": "pfedrlla", "pfedrlla": dict(AGENT)}
    else:
        own = entry_values(job.row)
    return {**merge(common, own), "seed": job.seed}


def measured(job: Job) -> Record:
    """Return the figures of one run."""
    with tempfile.TemporaryDirectory() as directory:
        values, place = settings(job), Path(directory)
        if job.row == PRETRAINED:
            rounds = PRETRAINING * job.rounds // 60
            learning = {**values, "seed": PRETRAINING_SEED, "rounds": rounds}
            learned = execute(start_pretraining(learning, place / "learning"))
            agent = save_agent(learned, place / "agent.safetensors")
            values["pfedrlla"]["agent"] = str(agent)
        run = execute(start_run(values, place / "run"))
        test = [client["objectives"]["accuracy"] for client in run.results["per_client"]]
        return {
            **job._asdict(),
            "test": round(float(np.mean(test)), 6),
            "validation": round(float(validated_vectors(run.configuration, run.history).mean()), 6),
            "rounds_to": {str(target): first_round(run, target) for target in TARGETS},
            "seconds": round(run.seconds, 1),
        }


def chosen_rate(records: Iterable[Record], partition: str, row: str) -> float:
    """Return the learning rate with the highest validation accuracy of the tuning runs."""
    tuning = [
        record
        for record in records
        if (record["partition"], record["row"], record["seed"]) == (partition, row, TUNING_SEED)
    ]
    return float(max(tuning, key=lambda record: (record["validation"], -record["rate"]))["rate"])


def tables(records: Sequence[Record]) -> Iterator[str]:
    """Yield the lines of one table per partition."""
    for partition in dict.fromkeys(record["partition"] for record in records):
        here = [record for record in records if record["partition"] == partition]
        reported = [record for record in here if record["seed"] != TUNING_SEED]
        rows = list(dict.fromkeys(record["row"] for record in reported))
        seeds = sorted({record["seed"] for record in reported})
        accuracy = {row: _accuracies(reported, row, seeds) for row in rows}
        reach = [f"rounds to {target:.0%}" for target in TARGETS]
        title = f"{partition}, seeds {seeds[0]} to {seeds[-1]}"
        heads = ("rate", "accuracy, %", "over alone", "over fedavg", "over its host", *reach)
        yield row_of([title, *heads])
        yield rule_of(1 + len(heads))
        for row in sorted(rows, key=lambda row: -accuracy[row].mean()):
            runs = [record for record in reported if record["row"] == row]
            others = (LONE, "fedavg", row.partition("+")[0])
            gains = [_gain(accuracy, row, other) for other in others]
            first = [_first(runs, target) for target in TARGETS]
            known = accuracy[row][~np.isnan(accuracy[row])]
            yield row_of([row, f"{runs[0]['rate']:g}", spread(known, 2), *gains, *first])
        yield ""


def _accuracies(records: Sequence[Record], row: str, seeds: Sequence[int]) -> FloatArray:
    """Return test accuracies in per cent by seed; NaN where a run is missing."""
    by_seed = {record["seed"]: 100 * record["test"] for record in records if record["row"] == row}
    return np.array([by_seed.get(seed, np.nan) for seed in seeds])


def _gain(accuracy: dict[str, FloatArray], row: str, other: str) -> str:
    """Return the mean difference over seeds with Student's 95 % interval and p."""
    if row == other or other not in accuracy:
        return "–"
    each = accuracy[row] - accuracy[other]
    each = each[~np.isnan(each)]
    if not len(each):
        return "–"
    interval, p = tested(each)
    around = "" if interval is None else f" ({interval[0]:+.1f} to {interval[1]:+.1f}; {p:.3f})"
    return f"{each.mean():+.2f}{around}"


def _first(runs: Sequence[Record], target: float) -> str:
    """Return the rounds to a target by seed; alone all clients train in each."""
    return ", ".join(str(run["rounds_to"][str(target)] or "–") for run in runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", default="usps")
    parser.add_argument("--partitions", default=" ".join(PARTITIONS), help="separated by spaces")
    parser.add_argument("--rows", help="some only, separated by ;")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1, help="processes; results are the same")
    options = options_of(parser, FILE)
    records = read_records(options.file)

    def run_missing(jobs: Iterable[Job]) -> None:
        done = {key(record, Job._fields) for record in records}
        missing = [job for job in jobs if job not in done]
        with ProcessPoolExecutor(
            options.workers, mp_context=multiprocessing.get_context("spawn")
        ) as pool:
            for future in as_completed(pool.submit(measured, job) for job in missing):
                add(record := future.result(), records, options.file, indent=0)
                kind = f"{record['partition']}, {record['row']}, rate {record['rate']:g}"
                print(f"{kind}, seed {record['seed']}: {record['test']:.4f}", flush=True)

    if not options.table:
        rows = ROWS if options.rows is None else options.rows.split(";")
        problem, rounds = options.problem, options.rounds
        for partition in options.partitions.split():
            run_missing(
                Job(problem, partition, row, rate, TUNING_SEED, rounds)
                for row in rows
                for rate in RATES
            )
            run_missing(
                Job(problem, partition, row, chosen_rate(records, partition, row), seed, rounds)
                for seed in range(1, options.seeds + 1)
                for row in rows
            )
    print("\n".join(tables(records)))


if __name__ == "__main__":
    main()
