"""Model cards: what a model is, what it learned from, how well it does for whom, and its limits."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from comity.problems import DataProblem, Problem
from comity.problems.fairness import FairnessProblem
from comity.problems.praffl import PraFFLProblem
from comity.runs.base import CONFIG, GROUPS, RESULTS
from comity.runs.directory import Run
from comity.runs.export import model_at, preference_at
from comity.runs.group_schema import Measured
from comity.runs.groups import FEW
from comity.runs.schema import ClientResult
from comity.version import __version__

Card = dict[str, Any]
"""A model card as plain values."""

POORLY_CALIBRATED = 0.1
"""Calibration error above which probabilities are called unreliable."""


def card(run: Run, client: int | str, preference: Sequence[float] | None = None) -> Card:
    """Return the card of a client's model as plain values; `export` writes it beside the model.

    Args:
        run: A finished run.
        client: Number or name of the client.
        preference: One weight per objective, for models that take any preference; default: the
            client's own. Of another than its own the run has measured nothing.
    """
    number, configuration, problem = run.client(client), run.configuration, _problem(run)
    model_at(run, number, preference)  # refuses a preference that the model does not take
    row = run.results["per_client"][run.clients.index(number)]
    weights = preference_at(run, number, preference)
    tested = weights == [float(weight) for weight in row["preference"]]
    groups = run.groups
    measured = None
    if groups is not None and tested:
        measured = groups["clients"][run.clients.index(number)]
    names = [objective.name for objective in problem.objectives]
    return {
        "problem": configuration.problem_name,
        "title": problem.title,
        "client": number,
        "name": row["name"],
        "preference": dict(zip(names, weights, strict=True)),
        "objectives": {o.name: {"unit": o.unit, "meaning": o.meaning} for o in problem.objectives},
        "training": _training(run, row),
        "data": _data(run, problem, number),
        "results": _results(row) if tested else None,
        "groups": None
        if measured is None
        else {"all": measured["all"], "attributes": measured["attributes"]},
        "limits": [*_limits(run, problem, row if tested else None, measured)],
        "run": {
            "seed": configuration.seed,
            "sha256": {
                name: checksum(run.path / name)
                for name in (CONFIG, RESULTS, GROUPS)
                if (run.path / name).is_file()
            },
        },
        "versions": {
            "comity": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _problem(run: Run) -> Problem:
    return run.configuration.get_problem()


def _training(run: Run, row: ClientResult) -> dict[str, Any]:
    configuration = run.configuration
    declared = type(configuration.get_algorithm()).declaration
    chosen = {name: getattr(configuration, name) for name in ("wrapper", "encoding", "attack")}
    return {
        "algorithm": configuration.algorithm,
        "title": declared.title,
        "paper": declared.paper,
        "method": declared.method,
        "communication": declared.communication,
        "settings": configuration.algorithm_settings,
        "learner": _problem(run).learner,
        "learner_settings": configuration.learner_settings,
        **{name: value for name, value in chosen.items() if value != "none"},
        **_links(run),
        "clients": configuration.clients,
        "rounds": configuration.rounds,
        "keep": configuration.keep,
        "kept_round": row.get("kept_round"),
        "fine_tune": configuration.fine_tune,
        "simulated": is_simulated(run),
        **({"privacy": run.results["privacy"]} if "privacy" in run.results else {}),
    }


def _links(run: Run) -> dict[str, Any]:
    """Return what a contact plan let through, where there was one."""
    if run.configuration.links is None:
        return {}
    names = ("days", "updates", "updates_per_client", "age", "late_dropped")
    links: Mapping[str, Any] = {**run.results.get("links", {})}
    return {"links": {name: links[name] for name in names if name in links}}


def is_simulated(run: Run) -> bool:
    """Return whether all clients of a run were on one machine; a site's directory has one."""
    return len(run.clients) == run.configuration.clients


def _data(run: Run, problem: Problem, client: int) -> dict[str, Any]:
    results = run.results
    if not isinstance(problem, DataProblem):
        return {"kind": "environment", "episodes": results.get("episodes", {})}
    samples = results.get("samples", {})
    return {
        "kind": "rows",
        "rows": {part: counts[client] for part, counts in samples.items()},
        "rows_of_all_clients": {part: sum(counts) for part, counts in samples.items()},
        "partition": results.get("partition"),
        "columns": _columns(problem),
        "inputs": len(problem.features()) or None,
        "attributes": _attributes(problem),
        "notes": results.get("notes", []),
        "licence": problem.licence or None,
    }


def _columns(problem: DataProblem) -> list[str]:
    """Return the columns that the model learned from, so far as they have names."""
    if isinstance(problem, FairnessProblem):
        return [column.name for column in problem.schema.inputs]
    return list(dict.fromkeys(name.partition("=")[0] for name in problem.features()))


def _attributes(problem: DataProblem) -> dict[str, Any]:
    """Return the values of each sensitive attribute, and whether the model sees its column."""
    seen: dict[str, bool | None] = dict.fromkeys(problem.attribute_values())
    if isinstance(problem, FairnessProblem):
        columns = _columns(problem)
        seen = {a.name: a.column in columns for a in problem.schema.sensitive if a.name in seen}
    elif isinstance(problem, PraFFLProblem):
        seen = dict.fromkeys(seen, True)
    values = problem.attribute_values()
    return {name: {"values": list(values[name]), "input": seen[name]} for name in values}


def _results(row: ClientResult) -> dict[str, Any]:
    return {
        "objectives": row["objectives"],
        "scalarised": row["scalarised"],
        "trivial": row.get("trivial"),
        "optimum": row.get("optimum"),
        "mark": row.get("mark"),
        "constant": row.get("constant"),
    }


# -- limits --------------------------------------------------------------------------------


def _limits(
    run: Run, problem: Problem, row: ClientResult | None, measured: Measured | None
) -> Iterator[str]:
    """Yield what a reader must know before use, the gravest first."""
    if row is None:
        yield (
            "Nothing was measured at this preference: the run tested the client's own. Measure it "
            "on labelled rows (comity predict --report) before use."
        )
    else:
        yield from _outcome_limits(row, problem)
    if measured is not None:
        yield from _group_limits(measured)
    if run.configuration.attackers:
        yield (
            f"Trained under a simulated attack ({run.configuration.attack}): it is evidence about "
            "a defence, not a model for use."
        )
    if not isinstance(problem, DataProblem):
        yield "Returns are those of a simulated environment; nothing is known about others."
        return
    for name, attribute in _attributes(problem).items():
        if attribute["input"]:
            yield f"The model sees the sensitive attribute {name}: its column is an input."
    yield (
        "Measured on rows of the same origin as the training rows. Nothing is known about other "
        "populations, other clients or later times."
    )
    yield (
        "Test rows were used once, after training. Whoever chooses among models by these figures "
        "needs fresh rows for a fair figure."
    )
    if problem.attributes:
        yield (
            "A yes is a probability above 0.5; another threshold changes every rate. Equal rates "
            "between groups say nothing about single people, nor about attributes that were not "
            "measured."
        )
    if is_simulated(run):
        yield "Trained in a simulation: the rows of all clients were on one machine."


def _outcome_limits(row: ClientResult, problem: Problem) -> Iterator[str]:
    trivial = "a constant answer" if isinstance(problem, DataProblem) else "doing nothing"
    if row.get("constant"):
        yield "It gives every test row the same answer: it tells nobody apart. Do not use it."
    elif row.get("mark") == "below":
        yield f"At this preference it is worse than {trivial}."
    elif row.get("mark") == "level":
        yield f"At this preference it is no better than {trivial}."
    undefined = [name for name, value in row["objectives"].items() if value is None]
    if undefined:
        yield f"Undefined on the client's test rows: {', '.join(undefined)}."


def _group_limits(measured: Measured) -> Iterator[str]:
    for name, attribute in measured["attributes"].items():
        few = {v: g["rows"] for v, g in attribute["values"].items() if g["rows"] < FEW}
        if few:
            listed = ", ".join(f"{value} ({rows})" for value, rows in few.items())
            yield (
                f"Fewer than {FEW} test rows of {name} = {listed}: their rates are uncertain, see "
                "the intervals."
            )
    error = measured["all"]["calibration"]["error"]
    if error is not None and error > POORLY_CALIBRATED:
        yield (
            f"Its probabilities are off by {error:.2f} on average: use its answers, or calibrate "
            "it on fresh rows first."
        )
