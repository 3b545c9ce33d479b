"""Pictures as PNG files: one function a figure, in one style."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from comity.report.figures.agent import agent_rewards, allotted, embeddings
from comity.report.figures.bars import bars
from comity.report.figures.clusters import clusters
from comity.report.figures.conflict import conflict, conflicts
from comity.report.figures.found import found
from comity.report.figures.front import front
from comity.report.figures.fronts import fronts
from comity.report.figures.growth import growth
from comity.report.figures.learning import learning
from comity.report.figures.mixing import mixing
from comity.report.figures.partition import partition
from comity.report.figures.reaches import reaches
from comity.report.figures.reproduced import reproduced
from comity.report.figures.rewards import rewards
from comity.report.figures.rounds import rounds
from comity.report.figures.scores import scores
from comity.report.figures.spans import response, spans
from comity.report.figures.style import save
from comity.report.figures.weights import weights
from comity.report.measures import single
from comity.report.series.growth import growth_of, growths_of
from comity.runs.directory import Run
from comity.searches import Search
from comity.searches.comparison import SearchComparison

Pictures = dict[str, Path]


def draw_run(run: Run) -> Pictures:
    """All pictures of a finished run, by name; those with nothing to show are left out."""
    figures: dict[str, Figure | None]
    if single(run.results):
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
        "allotted": allotted(run),
        "agent_rewards": agent_rewards(run),
        "embeddings": embeddings(run),
        "clusters": clusters(run),
        "partition": partition(run),
    }
    return _save_all(run.path, figures)


def draw_comparison(
    path: Path, comparison: Mapping[str, Any], runs: Mapping[tuple[str, str], Sequence[Run]]
) -> Pictures:
    """All pictures of a comparison, by name."""
    figures: dict[str, Figure | None] = {"bars": bars(comparison)}
    if not single(comparison):
        figures |= {"reaches": reaches(comparison, runs), "fronts": fronts(comparison, runs)}
    figures |= {"learning": learning(comparison, runs), "conflicts": conflicts(comparison, runs)}
    return _save_all(path, figures)


def draw_search(search: Search) -> Pictures:
    """All pictures of a finished search, by name."""
    figures = {
        "front": found(search),
        "growth": growth(growth_of(search)),
        "weights": weights(search),
    }
    return _save_all(search.path, figures)


def draw_searches(comparison: SearchComparison) -> Pictures:
    """The pictures of a comparison of searches, by name."""
    return _save_all(comparison.path, {"growth": growth(growths_of(comparison))})


def draw_reproduction(path: Path, results: Mapping[str, Any]) -> Pictures:
    """The picture of a printed table beside ours, named after the table."""
    return _save_all(path, {results["table"]: reproduced(results)})


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
    "allotted",
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
    "found",
    "front",
    "fronts",
    "growth",
    "learning",
    "mixing",
    "partition",
    "reaches",
    "reproduced",
    "response",
    "rewards",
    "rounds",
    "scores",
    "spans",
    "weights",
]
