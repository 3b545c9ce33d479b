"""Entries of a comparison whose settings a tuning chose, and whether their budgets are equal.

``fedprox[tuned=DIRECTORY]`` stands for the algorithm with the settings that a tuning has chosen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from comity.configuration import assignment, difference
from comity.errors import UserError
from comity.problems import Problem
from comity.runs.base import TIMING
from comity.runs.checksums import read_json, read_results
from comity.runs.comparison_verdict import comparison_verdict
from comity.runs.schema import ComparisonResults
from comity.runs.tuning_schema import Tuned, TuningResults

RESULTS = "tuning.json"
"""Results of a tuning, in its directory."""
_ENTRY = re.compile(r"(?P<algorithm>[^\[]+)\[tuned=(?P<path>[^\],]+)\]")


def with_tuned(entries: Sequence[str], problem: Problem) -> tuple[list[str], list[Tuned]]:
    """Return entries with chosen settings in place of ``NAME[tuned=DIRECTORY]``, and their tunings.

    A tuning that chose the settings as they were adds no entry where that is one already.

    Args:
        entries: Entries of a comparison.
        problem: What is learned.
    """
    expanded: list[str] = []
    tunings: list[Tuned] = []
    for entry in entries:
        match = _ENTRY.fullmatch(entry)
        if match is not None:
            tuned = _tuned(entry, match["algorithm"], Path(match["path"].strip()), problem)
            tunings.append(tuned)
            entry = tuned["algorithm"]
            if entry in expanded:
                continue
        expanded.append(entry)
    return expanded, tunings


def _tuned(entry: str, algorithm: str, path: Path, problem: Problem) -> Tuned:
    if not (path / RESULTS).is_file():
        raise UserError(
            f"algorithms: {entry}: {path} is no finished tuning. Make one with comity tune, or "
            f"finish it with: comity resume {path}"
        )
    results = cast(TuningResults, read_results(path / RESULTS, ["problem", "trials", "chosen"]))
    for name, value in (("problem", problem.name), ("algorithm", algorithm)):
        if (other := results.get(name)) != value:
            raise UserError(f"algorithms: {entry}: {path} tuned the {name} {other}, not {value}.")
    if results["chosen"] is None:
        raise UserError(f"algorithms: {entry}: no trial of {path} has a value, none was chosen.")
    chosen = results["trials"][results["chosen"]]
    settings = chosen["settings"] if chosen["trial"] else {}
    inside = ",".join(assignment(name, value) for name, value in settings.items())
    return {
        "algorithm": f"{algorithm}[{inside}]" if inside else algorithm,
        "tuning": str(path),
        "objective": next(iter(results["objectives"])),
        "sampler": results["sampler"],
        "trials": len(results["trials"]),
        "seeds": results["seeds"],
        **results["budget"],
        "seconds": round(seconds_of(path, results), 1),
        "settings": results["settings"],
    }


def seconds_of(path: Path, results: TuningResults) -> float:
    """Return the time of all runs of a tuning together.

    Args:
        path: Its directory.
        results: Its results.
    """
    places = [path / place / TIMING for row in results["trials"] for place in row["runs"]]
    return sum(float(read_json(place, ["seconds"])["seconds"]) for place in places)


def with_tunings(results: ComparisonResults, plan: Mapping[str, Any]) -> ComparisonResults:
    """Return the table of a comparison with how its entries were tuned, if any were.

    Args:
        results: The table, whose verdict gets the sentences about it.
        plan: The comparison's plan.
    """
    tunings: list[Tuned] = plan.get("tuned", [])
    if not tunings or "verdict" not in results:
        return results
    entries = dict.fromkeys(row["algorithm"] for row in results["rows"])
    plain = [entry for entry in entries if not any(_comes_of(entry, each) for each in tunings)]
    labels = _labels(entries, tunings)
    rows = [row.copy() for row in results["rows"]]
    for row in rows:
        if row["algorithm"] in labels:
            row["label"] = labels[row["algorithm"]]
    verdict = comparison_verdict(rows, results["verdict"]["tests"])
    sentences = [*verdict["sentences"], *_texts(tunings, plain, plan)]
    return {
        **results,
        "rows": rows,
        "verdict": {**verdict, "sentences": sentences},
        "tuned": tunings,
        "equal_budgets": equal_budgets(tunings),
    }


def equal_budgets(tunings: Sequence[Tuned]) -> bool:
    """Return whether tunings had equally many trials, seeds and runs.

    Steps may differ where they are tuned themselves, and seconds as algorithms are not equally
    fast.
    """
    kinds = {(each["trials"], len(each["seeds"]), each["runs"]) for each in tunings}
    return len(kinds) == 1


def _texts(tunings: Sequence[Tuned], untuned: Sequence[str], plan: Mapping[str, Any]) -> list[str]:
    """Return what a reader must know of tunings: budgets, seeds, settings."""
    first = tunings[0]
    texts = []
    if not equal_budgets(tunings):
        budgets = ", ".join(f"{_name(each)} {_budget(each)}" for each in tunings)
        texts.append(f"Attention: not tuned with the same budget: {budgets}.")
    else:
        texts.append(
            f"Tuned on validation data, {'each ' * (len(tunings) > 1)}with the same budget of "
            f"{_budget(first)}: {', '.join(map(_name, tunings))}."
        )
    if untuned:
        names = {_name(each) for each in tunings}
        listed = ", ".join(f"{entry}{' as it is' * (entry in names)}" for entry in untuned)
        texts.append(f"Not tuned: {listed}.")
    shared = sorted({seed for each in tunings for seed in each["seeds"]} & set(plan["seeds"]))
    if shared:
        listed = ", ".join(map(str, shared))
        texts.append(
            f"Attention: seeds {listed} were tuned with and are compared here; choose others."
        )
    for each in tunings:
        if changed := difference(each["settings"], plan["settings"]):
            texts.append(f"Attention: {_name(each)} was tuned under other settings: {changed}.")
    return texts


def _comes_of(entry: str, tuned: Tuned) -> bool:
    """Return whether an entry is a tuned one, perhaps under an attack or encoding."""
    name = tuned["algorithm"]
    more = f"{name.removesuffix(']')}," if name.endswith("]") else f"{name}["
    return entry == name or entry.startswith((f"{more}attack=", f"{more}encoding="))


def _labels(entries: Iterable[str], tunings: Sequence[Tuned]) -> dict[str, str]:
    """Return ``fedavg[tuned]`` by entry whose settings a tuning chose; none if two were alike."""
    labels = {}
    for tuned in tunings:
        name, _, settings = tuned["algorithm"].removesuffix("]").partition("[")
        for entry in entries:
            if settings and _comes_of(entry, tuned):
                labels[entry] = entry.replace(f"{name}[{settings}", f"{name}[tuned", 1)
    return labels if len(set(labels.values())) == len(labels) else {}


def _budget(tuned: Tuned) -> str:
    """Return trials and seeds: ``20 trials × 3 seeds``."""
    seeds = len(tuned["seeds"])
    return f"{tuned['trials']} trials × {seeds} seed{'s' * (seeds > 1)}"


def _name(tuned: Tuned) -> str:
    return tuned["algorithm"].partition("[")[0]
