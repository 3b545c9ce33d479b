"""Thin links: what ten satellites can do in three days, and what it is worth.

    python -m benchmarks.links --seeds 3
    python -m benchmarks.links --table

Three parts, each on the orbits and stations of ``examples/space`` (three operators, three days, one
channel of 9,600 bit/s each way, an hour's work, one antenna per station):

- *timetables*: rounds and updates per collection rule, encoding and model, for one and for two
  stations; exact, seconds (skyfield is needed);
- *late*: FedAvg with late updates as sent, rebased, and rebased with damp 0.5, beside staying
  alone, on two problems;
- *days*: FedPref and FedAvg beside staying alone on the same timetable.

What each run ended with is added to a JSON file at once, so a second call goes on where the first
was stopped. Three seeds take about a quarter of an hour of one core.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.records import Record, add, key, options_of, read_records, spread
from comity.configuration import configure, message_sizes
from comity.links.contacts import ContactPlan
from comity.links.orbits import Passes, plan_from_orbits
from comity.links.settings import Links
from comity.links.timetable import timetable
from comity.runs.execute import execute, start_run

SPACE = Path(__file__).parents[1] / "examples" / "space"
FILE = Path(__file__).parent / "results" / "links.json"
KEYS = ("part", "problem", "variant", "seed")
MEASURE = "mean_scalarised"

MODELS = {"MLP": "deep-sea-treasure", "CNN": "cifar10-small"}
"""Problems whose networks are planned for."""
PLANNED = [("MLP", "none"), ("MLP", "int8"), ("MLP", "int4")]
PLANNED += [("CNN", "exact"), ("CNN", "int8"), ("CNN", "int4")]
RULES: dict[str, dict[str, Any]] = {
    "all": {"collect": "all"},
    "every:6h": {"collect": "every:6h"},
    "count:5": {"collect": "count:5"},
    "count:5 + relays": {"collect": "count:5", "relays": "any"},
    "count:half/12h": {"collect": "count:half/12h"},
}

LATE: dict[str, dict[str, Any]] = {
    "as sent": {"rebase": False},
    "rebased": {},
    "rebased, damp 0.5": {"damp": 0.5},
}
LATE_PROBLEMS: dict[str, dict[str, Any]] = {
    "usps-mlp": {"partition": "dirichlet:0.3", "supervised": {"local_steps": 50}},
    "adult-gender-dp": {"partition": "dirichlet:0.5", "supervised": {"local_steps": 50}},
}
DAYS_PROBLEMS: dict[str, dict[str, Any]] = {
    "deep-sea-treasure": {"dqn": {"local_steps": 1000}},
    "usps-mlp": LATE_PROBLEMS["usps-mlp"],
}
ALGORITHMS = ("no-communication", "fedavg", "fedpref")


def satellites(between: bool) -> ContactPlan:
    """Return the contact plan of the example, with contacts between satellites if wanted."""
    passes = Passes(days=3.0, between=between)
    return plan_from_orbits(SPACE / "orbits.tle", SPACE / "stations.csv", passes).plan


def timetables() -> Iterator[Table]:
    """Yield rounds and updates of one and of two stations."""
    whole = satellites(between=True)
    stations = [node for node in whole.nodes if node.startswith("ground/")]
    sizes = {
        (model, encoding): message_sizes(
            configure({"problem": MODELS[model], "algorithm": "fedavg", "encoding": encoding})
        )
        for model, encoding in PLANNED
    }
    for used in (stations[:1], stations):
        left_out = set(stations) - set(used)
        plan = ContactPlan.of(c for c in whole.contacts if not {c.source, c.target} & left_out)
        table = Table(title=f"rounds / updates, {', '.join(used)}", title_justify="left")
        table.add_column("model, encoding")
        table.add_column("bytes up", justify="right")
        for rule in RULES:
            table.add_column(rule, justify="right")
        for (model, encoding), (up, down) in sizes.items():
            cells = []
            for rule in RULES.values():
                links = Links(contacts="", **rule)
                made = timetable(plan, links, len(plan.clients(links.server)), up, down)
                cells.append(f"{len(made.rounds)} / {sum(made.updates)}")
            table.add_row(f"{model} {encoding}", f"{up:,}", *cells)
        yield table


def runs(seeds: Sequence[int]) -> Iterator[tuple[Record, dict[str, Any]]]:
    """Yield what identifies each run, and its settings."""
    links = {"collect": "count:5"}
    for seed, (problem, values) in product(seeds, LATE_PROBLEMS.items()):
        for variant, more in LATE.items():
            identity = {"part": "late", "problem": problem, "variant": variant, "seed": seed}
            yield identity, {**values, "algorithm": "fedavg", "links": {**links, **more}}
        identity = {"part": "late", "problem": problem, "variant": "alone", "seed": seed}
        yield identity, {**values, "algorithm": "no-communication", "links": links}
    for seed, (problem, values) in product(seeds, DAYS_PROBLEMS.items()):
        for algorithm in ALGORITHMS:
            identity = {"part": "days", "problem": problem, "variant": algorithm, "seed": seed}
            yield identity, {**values, "algorithm": algorithm, "links": links}


def measured(identity: Record, values: Mapping[str, Any], contacts: Path) -> Record:
    """Return the figures of one run."""
    links = {**values["links"], "contacts": str(contacts)}
    settings = {**values, "problem": identity["problem"], "seed": identity["seed"], "links": links}
    with tempfile.TemporaryDirectory() as directory:
        results = execute(
            start_run({**settings, "encoding": "int8"}, Path(directory) / "run")
        ).results
    return {
        **identity,
        "links": dict(results["links"]),
        "metrics": dict(results["metrics"]),
        "metrics_last": dict(results.get("metrics_last", results["metrics"])),
    }


def tables(records: Sequence[Record]) -> Iterator[Table]:
    """Yield one table per part and problem, one row per variant."""
    for part, problem in dict.fromkeys((r["part"], r["problem"]) for r in records):
        some = [r for r in records if (r["part"], r["problem"]) == (part, problem)]
        links = some[0]["links"]
        title = f"{part}: {problem}, {links['rounds']} rounds, {links['updates']} updates"
        table = Table(title=title, title_justify="left")
        for heading in ("", "seeds", "kept", "last", "age"):
            table.add_column(heading, justify="right" if heading else "left")
        for variant in dict.fromkeys(r["variant"] for r in some):
            mine = [r for r in some if r["variant"] == variant]
            ages = float(np.mean([r["links"]["age"]["mean"] for r in mine]))
            cells = (spread([r[k][MEASURE] for r in mine], 4) for k in ("metrics", "metrics_last"))
            table.add_row(variant, str(len(mine)), *cells, f"{ages:.2f}")
        yield table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--parts", default="timetables,late,days")
    options = options_of(parser, FILE)
    console = Console(width=130)
    parts = options.parts.split(",")
    if "timetables" in parts:
        for table in timetables():
            console.print(table)
    records = read_records(options.file)
    done = {key(record, KEYS) for record in records}
    with tempfile.TemporaryDirectory() as directory:
        contacts = Path(directory) / "contacts.csv"
        contacts.write_text(satellites(between=False).to_csv())
        for identity, values in () if options.table else runs(range(1, options.seeds + 1)):
            if identity["part"] in parts and key(identity, KEYS) not in done:
                add(measured(identity, values, contacts), records, options.file)
    for table in tables(records):
        console.print(table)


if __name__ == "__main__":
    main()
