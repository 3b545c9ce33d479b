"""Campaigns: the comparisons behind a printed table, executed or used again."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from comity.configuration import read_toml
from comity.core.storage import write_whole
from comity.errors import UserError
from comity.runs import compare
from comity.runs.cluster import Workers
from comity.runs.compare import Comparison
from comity.runs.directory import Run
from comity.runs.events import Event, Notify, RoundEvent
from comity.runs.places import free_path
from comity.searches import comparison as search_comparison
from comity.searches.comparison import SearchComparison

C = TypeVar("C", bound=Comparison | SearchComparison)

Prepare = Callable[[Path, Notify | None], Mapping[str, Mapping[str, Any]]]
"""Does what comes first in a campaign's directory and returns the plans that hold from then on.

Its arguments are the directory and what to call with each event.
"""


@dataclass(frozen=True)
class Kind(Generic[C]):
    """Way of starting and executing one kind of comparison."""

    file: str
    """Name of the file with the plan."""
    start: Callable[..., Path]
    """Checks the plan and creates the directory."""
    execute: Callable[..., C]
    """Executes what is not finished: path, workers, notify."""


RUNS: Kind[Comparison] = Kind(compare.PLAN, compare.start_comparison, compare.run_plan)
SEARCHES: Kind[SearchComparison] = Kind(
    search_comparison.PLAN, search_comparison.start_searches, search_comparison.run_search_plan
)


@dataclass(frozen=True)
class Campaign(Generic[C]):
    """The comparisons behind a printed table, and how their results make up ours."""

    kind: Kind[C]
    name: str
    """Name of the directory where none is given."""
    plans: Mapping[str, Mapping[str, Any]]
    """Arguments of each comparison's ``start``, by directory."""
    tabulate: Callable[[Mapping[str, C]], dict[str, Any]]
    """Returns the table from the finished comparisons, by directory."""
    checked: Collection[str] = ()
    """Arguments that must equal those of comparisons that exist already, or be absent in both."""
    align: Callable[[Mapping[str, C]], Mapping[str, C]] = dict
    """Returns the finished comparisons with measures that can be compared with each other."""
    prepare: Prepare | None = None
    """Completes the plans, where something must be trained first."""


@dataclass(frozen=True)
class Reproduction:
    """A printed table with our own measurements beside each of its rows."""

    path: Path
    """Directory of the comparisons."""
    results: dict[str, Any]
    """The table, as in the JSON file of its name."""
    comparisons: tuple[Comparison | SearchComparison, ...] = ()
    """The comparisons behind the table."""


def execute_campaign(
    table: str,
    campaign: Campaign[C],
    *,
    out: str | Path | None = None,
    workers: Workers = 1,
    notify: Notify | None = None,
) -> Reproduction:
    """Execute what is not finished of a campaign, and write the table beside it as JSON.

    Args:
        table: Name of the printed table.
        campaign: Its comparisons.
        out: Directory, in which finished runs are used again; None: a new one under ``runs/``.
        workers: Processes that share the runs or searches, or a cluster.
        notify: Called with each event.
    """
    path = Path(out) if out is not None else free_path(campaign.name)
    plans = campaign.prepare(path, notify) if campaign.prepare else campaign.plans
    comparisons: dict[str, C] = {}
    for number, (name, plan) in enumerate(plans.items()):
        part = _part_of(notify, number, len(plans))
        place, file = path / name, path / name / campaign.kind.file
        if file.is_file():
            check_plan(file, **{key: plan.get(key) for key in campaign.checked})
        else:
            campaign.kind.start(**plan, out=place)
        comparisons[name] = campaign.kind.execute(place, workers, part)
    aligned = campaign.align(comparisons)
    results = campaign.tabulate(aligned)
    write_whole(path / f"{table}.json", (json.dumps(results, indent=2) + "\n").encode())
    return Reproduction(path, results, tuple(aligned.values()))


def _part_of(notify: Notify | None, number: int, count: int) -> Notify:
    """Return the progress of one comparison as part of that of ``count`` equal ones."""

    def forward(event: Event) -> None:
        if isinstance(event, RoundEvent):
            done, total = event.done + number * event.total, count * event.total
            event = replace(event, done=done, total=total)
        if notify is not None:
            notify(event)

    return forward


def check_plan(file: Path, **values: Any) -> None:
    """Refuse to use the runs of an earlier plan for another problem or other settings.

    Args:
        file: The earlier plan.
        **values: What it must hold.
    """
    plan = read_toml(file)
    earlier = {**plan.pop("settings"), **plan}
    for name, value in values.items():
        if earlier.get(name) != value:
            raise UserError(
                f"out: {file.parent} holds runs with {name} = {earlier.get(name)}, not {value}. "
                "Choose another directory."
            )


def models_of(*comparisons: Comparison) -> str:
    """Return which models the measures of comparisons are about: ``last`` or ``kept`` ones."""
    every = [run for each in comparisons for runs in each.runs.values() for run in runs]
    keep = {"last" if run.configuration.keep == "last" else "kept" for run in every}
    return " or ".join(sorted(keep))


def runs_of(comparison: Comparison, entry: str) -> list[Run]:
    """Return all runs of an entry, whatever their preferences; an error if there are none.

    Args:
        comparison: A finished comparison, perhaps of an earlier command.
        entry: The entry.
    """
    check_entries(comparison, [entry])
    return [run for (name, _), runs in comparison.runs.items() if name == entry for run in runs]


def check_entries(comparison: Comparison, entries: Iterable[str]) -> None:
    """Refuse a comparison, perhaps of an earlier command, that lacks the runs of an entry.

    Args:
        comparison: A finished comparison.
        entries: The entries that a table needs.
    """
    names = {name for name, _ in comparison.runs}
    for entry in entries:
        if entry not in names:
            raise UserError(
                f"{comparison.path}: it holds no runs of {entry}. Choose another directory."
            )


def igd_reference(parts: str | None) -> dict[str, str]:
    """Return what IGD is measured from, for a table's JSON file.

    Args:
        parts: Number and kind of what the reference set is the union of, such as ``12 runs``; None:
            the front is known.
    """
    if parts is None:
        return {"igd_reference": "the known front"}
    union_of = f"the non-dominated union of all {parts} of this reproduction"
    return {"igd_reference": f"{union_of}; the thesis' set is not published"}
