"""The thesis' pictures of clusters: `comity reproduce thesis-4.3.5` and `thesis-A.12`.

Section 4.3.5 lets several clients share a preference and shows which of them FedPref keeps
together (figures 4.11, 4.12 and A.3 to A.11); figures A.12 and A.13 show sizes of CFL's clusters
under Dirichlet preferences. The thesis has pictures only, so there is no printed figure beside
ours: cluster sizes by round and, where preferences are shared, the adjusted Rand index against
groups of equal preferences. Runs keep their last models, as in the thesis: validation that decides
about a model would cost steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from comity.algorithms import algorithms, find
from comity.algorithms.clustered import Clustered
from comity.core.clusters import adjusted_rand, labels_of
from comity.core.preferences import shared_groups
from comity.errors import UserError, unknown
from comity.reproductions.campaign import RUNS, Campaign, runs_of
from comity.reproductions.federations import DISTRIBUTIONS, PROBLEMS, RUN_HOURS
from comity.reproductions.printed import Needs
from comity.runs.compare import Comparison, seed_list
from comity.runs.directory import Run
from comity.runs.entries import entry_values


@dataclass(frozen=True)
class Pictured:
    """Pictures of clusters in the thesis."""

    title: str
    rows: tuple[str, ...]
    """Entries of a comparison where none are chosen."""
    shared: bool
    """Whether several clients share each preference."""
    findings: Mapping[str, str]
    """Content of the thesis' pictures, by problem."""


SINGLE = "where clusters split, mostly single clients leave"
RARELY = f"clusters rarely split; {SINGLE}"
TABLES = {
    "thesis-4.3.5": Pictured(
        "FedPref's clusters where clients share preferences (pictures in the thesis)",
        ("fedpref", "fedpref[split=earned]"),
        True,
        {
            "deep-sea-treasure": "groups largely intact at round 25 of 28",
            "minecart-deterministic": "similarities stay low, groups are found in part",
            "lunar-lander": "equal groups whole and apart from round 16 on; of the unequal ones "
            "two stay together",
            "lunar-lander-continuous": "groups nearly perfectly apart",
            "halfcheetah": "groups found in part",
        },
    ),
    "thesis-A.12": Pictured(
        "Sizes of CFL's clusters (pictures in the thesis)",
        ("cfl",),
        False,
        {
            "deep-sea-treasure": RARELY,
            "minecart-deterministic": SINGLE,
            "lunar-lander": RARELY,
            "lunar-lander-continuous": SINGLE,
            "halfcheetah": SINGLE,
        },
    ),
}
EQUAL, UNEQUAL = "shared:5,5,5,5", "shared:2,3,6,9"
SHARED = dict.fromkeys(PROBLEMS, (EQUAL, UNEQUAL)) | {
    "halfcheetah": ("shared:3,3,3", "shared:1,4,3,2")
}
"""Numbers of clients with the same preference, by problem."""
SHOWN = {("lunar-lander", EQUAL): (5, 14, 26), ("lunar-lander", UNEQUAL): (5, 14, 24)}
"""Rounds that the thesis shows, by problem and preferences; elsewhere `USUALLY_SHOWN`."""
USUALLY_SHOWN = (5, 15, 25)


def plan(
    table: str,
    *,
    only: str = "deep-sea-treasure",
    seeds: int | Sequence[int] = 3,
    preferences: Sequence[str] | None = None,
    rows: Sequence[str] | None = None,
    **settings: Any,
) -> Campaign[Comparison]:
    """Plan the runs whose clusters are shown: one comparison per specification of preferences.

    Args:
        table: One of `TABLES`.
        only: The problem.
        seeds: Number of seeds, or the seeds.
        preferences: Specifications ``shared:N,N,…``, or distributions; None: the thesis' own.
        rows: Entries of a comparison that form clusters, with any settings
            (``fedpref[threshold=2.5]``); None: the table's.
        **settings: Settings of all runs.
    """
    about = TABLES[table]
    if only not in PROBLEMS:
        raise unknown("problem of this table", only, PROBLEMS)
    entries = list(rows or about.rows)
    for entry in entries:
        _check_row(table, entry)
    fixed = {"keep": "last", **settings, "problem": only}
    plans = {
        spec.replace(":", "-").replace(",", "-"): {
            **fixed,
            **_clients(table, spec, settings),
            "algorithms": entries,
            "seeds": seeds,
            "preferences": [spec],
        }
        for spec in preferences or (SHARED[only] if about.shared else ["dirichlet"])
    }

    def tabulate(comparisons: Mapping[str, Comparison]) -> dict[str, Any]:
        return _tabulate(table, only, entries, comparisons)

    checked = (*fixed, "preferences", *(("clients",) if about.shared else ()))
    return Campaign(RUNS, f"{table}-{only}", plans, tabulate, checked)


def needs(table: str) -> Needs:
    """Return contents and cost of a table."""
    hours = {}
    for problem, cost in RUN_HOURS.items():
        plans = list(plan(table, only=problem).plans.values())
        seeds = len(seed_list(plans[0]["seeds"]))
        hours[problem] = cost * seeds * sum(len(each["algorithms"]) for each in plans)
    return Needs(TABLES[table].title, hours, seeds)


def _check_row(table: str, entry: str) -> None:
    """Refuse an entry whose algorithm forms no clusters."""
    name = entry_values(entry)["algorithm"]
    if not issubclass(find(name), Clustered):
        valid = sorted(n for n, cls in algorithms().items() if issubclass(cls, Clustered))
        raise UserError(
            f"rows: {table} shows clusters, and {name} forms none. Valid: {', '.join(valid)}, each "
            "with any settings, e.g. fedpref[threshold=2.5]."
        )


def _clients(table: str, spec: str, settings: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of clients that a specification of preferences decides, if it does."""
    kind, _, counts = spec.partition(":")
    if not TABLES[table].shared:
        if kind not in DISTRIBUTIONS:
            raise unknown("distribution of this table", spec, DISTRIBUTIONS)
        return {}
    try:
        numbers = [int(count) for count in counts.split(",")]
    except ValueError:
        numbers = []
    if kind != "shared" or not numbers or min(numbers) < 1:
        raise UserError(
            f"preferences: {table} needs groups with equal preferences, not '{spec}'. Give their "
            f"numbers of clients, e.g. {EQUAL}."
        )
    if "clients" in settings:
        raise UserError(
            f"clients: {spec} has {sum(numbers)} clients; leave it out, or choose other numbers "
            "with --preferences shared:N,N."
        )
    return {"clients": sum(numbers)}


def _tabulate(
    table: str, problem: str, entries: Sequence[str], comparisons: Mapping[str, Comparison]
) -> dict[str, Any]:
    rows = []
    for comparison in comparisons.values():
        (spec,) = {spec for _, spec in comparison.runs}
        for entry in entries:
            runs = runs_of(comparison, entry)
            last = runs[0].configuration.rounds
            shown = SHOWN.get((problem, spec), USUALLY_SHOWN)
            rows.append(
                {
                    "algorithm": entry,
                    "preferences": spec,
                    "clients": runs[0].configuration.clients,
                    "seeds": [run.configuration.seed for run in runs],
                    "shown": [number for number in shown if number < last] + [last],
                    "rounds": by_round(runs),
                }
            )
    finding = TABLES[table].findings[problem]
    return {
        "table": table,
        "problem": problem,
        "measure": "clusters",
        "note": f"Nothing is printed: the thesis has pictures only ({finding})",
        "rows": rows,
    }


def by_round(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return cluster sizes and agreement with groups of equal preferences after each round.

    Args:
        runs: Runs with the same settings apart from their seeds.
    """
    partitions = [_partitions(run) for run in runs]
    groups = [shared_groups(run.configuration.get_preferences()) for run in runs]
    rounds = []
    for index, together in enumerate(zip(*partitions, strict=True)):
        entry: dict[str, Any] = {
            "round": index + 1,
            "sizes": [sorted(map(len, clusters), reverse=True) for clusters in together],
        }
        if all(group is not None for group in groups):
            entry["adjusted_rand"] = [
                adjusted_rand(labels_of(clusters, len(group)), group)
                for clusters, group in zip(together, groups, strict=True)
                if group is not None
            ]
        rounds.append(entry)
    return rounds


def _partitions(run: Run) -> list[list[list[int]]]:
    """Return the clusters after each round; a round without mixing leaves them as they were."""
    clusters = [list(range(run.configuration.clients))]
    partitions = []
    for entry in run.history[: run.configuration.rounds]:
        clusters = entry["clusters"] or clusters
        partitions.append(clusters)
    return partitions
