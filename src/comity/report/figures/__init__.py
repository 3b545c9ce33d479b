"""Pictures as PNG files: one function a figure, in one style."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from comity.report.figures.bars import bars
from comity.report.figures.clusters import clusters
from comity.report.figures.front import front
from comity.report.figures.learning import learning
from comity.report.figures.mixing import mixing
from comity.report.figures.rewards import rewards
from comity.report.figures.style import save
from comity.runs import Run

Pictures = dict[str, Path]


def draw_run(run: Run) -> Pictures:
    """All pictures of a finished run, by name; those with nothing to show are left out."""
    figures = {
        "front": front(run),
        "rewards": rewards(run),
        "mixing": mixing(run),
        "clusters": clusters(run),
    }
    return _save_all(run.path, figures)


def draw_comparison(
    path: Path, comparison: Mapping[str, Any], runs: Mapping[str, Sequence[Run]]
) -> Pictures:
    """All pictures of a comparison, by name."""
    return _save_all(path, {"bars": bars(comparison), "learning": learning(comparison, runs)})


def _save_all(path: Path, figures: Mapping[str, Figure | None]) -> Pictures:
    pictures = {}
    for name, figure in figures.items():
        if figure is not None:
            pictures[name] = path / f"{name}.png"
            save(figure, pictures[name])
    return pictures


__all__ = [
    "Pictures",
    "bars",
    "clusters",
    "draw_comparison",
    "draw_run",
    "front",
    "learning",
    "mixing",
    "rewards",
]
