"""Pictures as files: one function per figure, in one style."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast, get_args

from matplotlib.figure import Figure

from comity.configuration import planned
from comity.errors import UserError
from comity.links.timetable import Timetable
from comity.report import FigureKind
from comity.report.figures.agent import agent_rewards, agent_weights, embeddings
from comity.report.figures.attacks import attacks
from comity.report.figures.bars import bars
from comity.report.figures.cluster_rounds import cluster_rounds, cluster_sizes
from comity.report.figures.clusters import clusters
from comity.report.figures.conflict import conflict, conflicts
from comity.report.figures.contacts import contacts
from comity.report.figures.cross import cross
from comity.report.figures.front import front
from comity.report.figures.fronts import fronts
from comity.report.figures.groups import groups
from comity.report.figures.growth import growth
from comity.report.figures.hours import ages, hours, hours_compared
from comity.report.figures.learning import learning
from comity.report.figures.losses import losses
from comity.report.figures.mixing import mixing, similarity
from comity.report.figures.partition import partition
from comity.report.figures.picture_tables import picture_table_figure
from comity.report.figures.ranges import ranges_figure, ranks_figure
from comity.report.figures.reaches import reaches
from comity.report.figures.reproduction import reproduction_figure, setting_figure
from comity.report.figures.rewards import rewards
from comity.report.figures.rounds import rounds
from comity.report.figures.scores import scores
from comity.report.figures.search_front import search_front
from comity.report.figures.served import served
from comity.report.figures.solutions import solutions
from comity.report.figures.spanned import spanned_figure
from comity.report.figures.spans import response, spans
from comity.report.figures.style import save
from comity.report.figures.traffic import traffic
from comity.report.figures.tuning import trial_front, trials, tuned_settings
from comity.report.figures.two_tasks import two_tasks
from comity.report.figures.weights import weights
from comity.report.measures import has_data, has_single_objective
from comity.report.series.growth import growth_of, growths_of
from comity.report.series.learning import Runs, first_run
from comity.report.series.solutions import solutions_of_runs, solutions_of_searches
from comity.runs.compare import Comparison
from comity.runs.directory import Run
from comity.runs.reproduction_schema import (
    ClusterResults,
    PerClientResults,
    PictureResults,
    RangeResults,
    ReproductionResults,
    TwoTaskResults,
)
from comity.runs.schema import ComparisonResults
from comity.searches import Search
from comity.searches.comparison import SearchComparison
from comity.tuning import Tuning

Pictures = dict[str, Path]
"""Files of pictures by name."""
Drawings = dict[str, Callable[[], Figure | None]]
"""What draws each picture, by name; it returns None where there is nothing to show."""


def run_drawings(run: Run) -> Drawings:
    """Return what draws each picture of a finished run."""
    drawings: Drawings
    if has_single_objective(run.results):
        drawings = {"scores": partial(scores, run), "rounds": partial(rounds, run)}
    else:
        drawings = {
            "front": partial(front, run),
            "spans": partial(spans, run),
            "response": partial(response, run),
            "served": partial(served, run),
            "losses": partial(losses, run),
            "rewards": partial(rewards, run),
        }
    drawings |= {
        "conflict": partial(conflict, run),
        "mixing": partial(mixing, run),
        "similarity": partial(similarity, run),
        "allotted": partial(agent_weights, run),
        "agent_rewards": partial(agent_rewards, run),
        "embeddings": partial(embeddings, run),
        "clusters": partial(clusters, run),
        "partition": partial(partition, run),
        "groups": partial(groups, run),
        "cross": partial(cross, run),
    }
    if run.configuration.links is not None:
        drawings |= {"hours": partial(hours, run), "ages": partial(ages, run)}
        if run.configuration.topology == "star":
            drawings["contacts"] = lambda: contacts(planned(run.configuration))
    return drawings


def draw_run(run: Run, kind: FigureKind = "png") -> Pictures:
    """Draw all pictures of a finished run; those with nothing to show are left out.

    Args:
        run: The run.
        kind: Format in which pictures are written beside PNG.
    """
    return _draw_all(run.path, run_drawings(run), kind)


def comparison_drawings(comparison: ComparisonResults, runs: Runs) -> Drawings:
    """Return what draws each picture of a finished comparison."""
    drawings: Drawings = {
        "attacks": partial(attacks, comparison),
        "bars": partial(bars, comparison),
        "traffic": partial(traffic, comparison),
    }
    if not has_single_objective(comparison):
        drawings |= {
            "reaches": partial(reaches, comparison, runs),
            "fronts": partial(fronts, comparison, runs),
        }
    first = first_run(runs)
    if first is not None and not has_data(comparison):
        problem = first.configuration.get_problem()
        drawings["solutions"] = lambda: solutions(solutions_of_runs(runs), problem)
    return drawings | {
        "learning": partial(learning, comparison, runs),
        "conflicts": partial(conflicts, comparison, runs),
        "hours": partial(hours_compared, comparison, runs),
    }


def draw_comparison(
    path: Path, comparison: ComparisonResults, runs: Runs, kind: FigureKind = "png"
) -> Pictures:
    """Draw all pictures of a comparison into the directory ``path``; ``kind`` as of a run."""
    return _draw_all(path, comparison_drawings(comparison, runs), kind)


def draw_plan(path: Path, table: Timetable) -> None:
    """Draw the contacts of a timetable into a file, in the format that its name ends with."""
    kinds = get_args(FigureKind)
    if path.suffix.removeprefix(".") not in kinds:
        raise UserError(f"out: {path} must end in .{', .'.join(kinds)}.")
    figure = contacts(table)
    if figure is None:
        raise UserError(f"out: {len(table.names)} clients have no room in a picture.")
    try:
        save(figure, path)
    except OSError as error:
        raise UserError(f"out: cannot write {path}: {error.strerror}.") from None


def search_drawings(search: Search) -> Drawings:
    """Return what draws each picture of a finished search."""
    return {
        "front": partial(search_front, search),
        "growth": lambda: growth(growth_of(search)),
        "weights": partial(weights, search),
    }


def draw_search(search: Search, kind: FigureKind = "png") -> Pictures:
    """Draw all pictures of a finished search; ``kind`` as of a run."""
    return _draw_all(search.path, search_drawings(search), kind)


def searches_drawings(comparison: SearchComparison) -> Drawings:
    """Return what draws each picture of a comparison of searches."""
    drawings: Drawings = {"growth": lambda: growth(growths_of(comparison))}
    sets = solutions_of_searches(comparison)
    if sets:
        first = next(iter(comparison.searches.values()))[0]
        drawings["solutions"] = lambda: solutions(sets, first.configuration.problem)
    return drawings


def draw_searches(comparison: SearchComparison, kind: FigureKind = "png") -> Pictures:
    """Draw the pictures of a comparison of searches; ``kind`` as of a run."""
    return _draw_all(comparison.path, searches_drawings(comparison), kind)


def tuning_drawings(tuning: Tuning) -> Drawings:
    """Return what draws each picture of a finished tuning."""
    results = tuning.results
    return {
        "trials": partial(trials, results),
        "settings": partial(tuned_settings, results),
        "front": partial(trial_front, results),
    }


def draw_tuning(tuning: Tuning, kind: FigureKind = "png") -> Pictures:
    """Draw all pictures of a finished tuning; ``kind`` as of a run."""
    return _draw_all(tuning.path, tuning_drawings(tuning), kind)


def draw_reproduction(
    path: Path,
    results: Mapping[str, Any],
    comparisons: Sequence[Comparison | SearchComparison] = (),
    kind: FigureKind = "png",
) -> Pictures:
    """Draw our figures of a printed table, beside the printed ones where there are any.

    Args:
        path: The directory of the pictures, which are named after the table.
        results: The JSON content of the reproduction.
        comparisons: The comparisons behind it, for pictures of single runs.
        kind: Format in which pictures are written beside PNG.
    """
    table, measure = results["table"], results.get("measure")
    figures: dict[str, Figure | None] = {}
    if "measures" in results:
        figures[table] = picture_table_figure(cast(PictureResults, results))
    elif "shows" in results:
        runs = [part.runs for part in comparisons if isinstance(part, Comparison)]
        figures[table] = spanned_figure(cast(PerClientResults, results), runs)
    elif measure == "own_hypervolume":
        figures[table] = reproduction_figure(cast(PerClientResults, results))
    elif measure == "clusters":
        clustered = cast(ClusterResults, results)
        figures = {
            table: cluster_rounds(clustered),
            f"{table}-sizes": cluster_sizes(clustered),
            **_similarities(clustered, comparisons),
        }
    elif measure == "ranges":
        figures[table] = ranges_figure(cast(RangeResults, results))
    elif measure == "two_tasks":
        figures[table] = two_tasks(cast(TwoTaskResults, results))
    elif results.get("across"):
        figures[table] = setting_figure(cast(ReproductionResults, results))
    elif any("ranks" in row for row in results["rows"]):
        figures[f"{table}-ranks"] = ranks_figure(cast(ReproductionResults, results))
    return _save_all(path, figures, kind)


def _similarities(
    results: ClusterResults, comparisons: Sequence[Comparison | SearchComparison]
) -> dict[str, Figure | None]:
    """Draw the similarities of each row's first seed at the rounds that the thesis shows."""
    runs = {
        key: seeds[0]
        for comparison in comparisons
        if isinstance(comparison, Comparison)
        for key, seeds in comparison.runs.items()
    }
    figures = {}
    for row in results["rows"]:
        key = row["algorithm"], row["preferences"]
        if key in runs:
            name = re.sub(r"[^\w.+=-]+", "_", "/".join(key))
            figures[f"similarity-{name}"] = similarity(runs[key], row["shown"])
    return figures


def _draw_all(path: Path, drawings: Drawings, kind: FigureKind) -> Pictures:
    """Draw pictures and write them."""
    return _save_all(path, {name: draw() for name, draw in drawings.items()}, kind)


def _save_all(path: Path, figures: Mapping[str, Figure | None], kind: FigureKind) -> Pictures:
    """Write figures as PNG, which pages show, and beside it in another format if there is one."""
    pictures = {}
    for name, figure in figures.items():
        if figure is not None:
            pictures[name] = path / f"{name}.png"
            for suffix in dict.fromkeys(("png", kind)):
                save(figure, path / f"{name}.{suffix}")
    return pictures


__all__ = [
    "Drawings",
    "Pictures",
    "agent_rewards",
    "agent_weights",
    "ages",
    "attacks",
    "bars",
    "cluster_rounds",
    "cluster_sizes",
    "clusters",
    "comparison_drawings",
    "conflict",
    "conflicts",
    "contacts",
    "cross",
    "draw_comparison",
    "draw_plan",
    "draw_reproduction",
    "draw_run",
    "draw_search",
    "draw_searches",
    "draw_tuning",
    "embeddings",
    "front",
    "fronts",
    "groups",
    "growth",
    "hours",
    "hours_compared",
    "learning",
    "losses",
    "mixing",
    "partition",
    "picture_table_figure",
    "ranges_figure",
    "ranks_figure",
    "reaches",
    "reproduction_figure",
    "response",
    "rewards",
    "rounds",
    "run_drawings",
    "scores",
    "search_drawings",
    "search_front",
    "searches_drawings",
    "served",
    "setting_figure",
    "similarity",
    "solutions",
    "spanned_figure",
    "spans",
    "traffic",
    "trial_front",
    "trials",
    "tuned_settings",
    "tuning_drawings",
    "two_tasks",
    "weights",
]
