"""Pictures as PNG files: one function per figure, in one style."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from matplotlib.figure import Figure

from comity.report.figures.agent import agent_rewards, agent_weights, embeddings
from comity.report.figures.bars import bars
from comity.report.figures.clusters import clusters
from comity.report.figures.conflict import conflict, conflicts
from comity.report.figures.front import front
from comity.report.figures.fronts import fronts
from comity.report.figures.growth import growth
from comity.report.figures.learning import learning
from comity.report.figures.mixing import mixing, similarity
from comity.report.figures.partition import partition
from comity.report.figures.picture_tables import picture_table_figure
from comity.report.figures.reaches import reaches
from comity.report.figures.reproduction import reproduction_figure, setting_figure
from comity.report.figures.rewards import rewards
from comity.report.figures.rounds import rounds
from comity.report.figures.scores import scores
from comity.report.figures.search_front import search_front
from comity.report.figures.spans import response, spans
from comity.report.figures.style import save
from comity.report.figures.weights import weights
from comity.report.measures import has_single_objective
from comity.report.series.growth import growth_of, growths_of
from comity.report.series.learning import Runs
from comity.runs.directory import Run
from comity.runs.picture_schema import PictureResults
from comity.runs.schema import ComparisonResults, PerClientResults, ReproductionResults
from comity.searches import Search
from comity.searches.comparison import SearchComparison

Pictures = dict[str, Path]
"""Files of pictures by name."""


def draw_run(run: Run) -> Pictures:
    """Draw all pictures of a finished run; those with nothing to show are left out."""
    figures: dict[str, Figure | None]
    if has_single_objective(run.results):
        figures = {"scores": scores(run), "rounds": rounds(run)}
    else:
        figures = {
            "front": front(run),
            "spans": spans(run),
            "response": response(run),
            "rewards": rewards(run),
        }
    figures |= {
        "conflict": conflict(run),
        "mixing": mixing(run),
        "similarity": similarity(run),
        "allotted": agent_weights(run),
        "agent_rewards": agent_rewards(run),
        "embeddings": embeddings(run),
        "clusters": clusters(run),
        "partition": partition(run),
    }
    return _save_all(run.path, figures)


def draw_comparison(path: Path, comparison: ComparisonResults, runs: Runs) -> Pictures:
    """Draw all pictures of a comparison into the directory ``path``."""
    figures: dict[str, Figure | None] = {"bars": bars(comparison)}
    if not has_single_objective(comparison):
        figures |= {"reaches": reaches(comparison, runs), "fronts": fronts(comparison, runs)}
    figures |= {"learning": learning(comparison, runs), "conflicts": conflicts(comparison, runs)}
    return _save_all(path, figures)


def draw_search(search: Search) -> Pictures:
    """Draw all pictures of a finished search."""
    figures = {
        "front": search_front(search),
        "growth": growth(growth_of(search)),
        "weights": weights(search),
    }
    return _save_all(search.path, figures)


def draw_searches(comparison: SearchComparison) -> Pictures:
    """Draw the pictures of a comparison of searches."""
    return _save_all(comparison.path, {"growth": growth(growths_of(comparison))})


def draw_reproduction(path: Path, results: Mapping[str, Any]) -> Pictures:
    """Draw a printed table beside ours: on pictures, per client, or against a setting.

    Args:
        path: The directory of the picture, which is named after the table.
        results: The JSON content of the reproduction.
    """
    if "measures" in results:
        figure = picture_table_figure(cast(PictureResults, results))
    elif results["measure"] == "own_hypervolume":
        figure = reproduction_figure(cast(PerClientResults, results))
    else:
        figure = setting_figure(cast(ReproductionResults, results))
    return _save_all(path, {results["table"]: figure})


def _save_all(path: Path, figures: Mapping[str, Figure | None]) -> Pictures:
    pictures = {}
    for name, figure in figures.items():
        if figure is not None:
            pictures[name] = path / f"{name}.png"
            save(figure, pictures[name])
    return pictures


__all__ = [
    "Pictures",
    "agent_rewards",
    "agent_weights",
    "bars",
    "clusters",
    "conflict",
    "conflicts",
    "draw_comparison",
    "draw_reproduction",
    "draw_run",
    "draw_search",
    "draw_searches",
    "embeddings",
    "front",
    "fronts",
    "growth",
    "learning",
    "mixing",
    "partition",
    "picture_table_figure",
    "reaches",
    "reproduction_figure",
    "response",
    "rewards",
    "rounds",
    "scores",
    "search_front",
    "setting_figure",
    "similarity",
    "spans",
    "weights",
]
