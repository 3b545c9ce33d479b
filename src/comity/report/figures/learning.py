"""Learning curves of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from comity.report.figures.style import (
    canvas,
    legend_above,
    line_style,
    log_scale,
    styled,
    thousands,
)
from comity.report.measures import display_names, has_single_objective
from comity.report.series.learning import (
    LearningCurve,
    Runs,
    has_regret,
    learning_curves,
    y_label,
)
from comity.report.terms import comparison_terms
from comity.runs.schema import ComparisonResults


@styled
def learning(comparison: ComparisonResults, runs: Runs) -> Figure | None:
    """Draw kept models' regret, or mean return, against steps; one panel per distribution."""
    curves = learning_curves(comparison, runs)
    if not curves:
        return None
    regret = has_regret(runs)
    kinds = list(dict.fromkeys(kind for _, kind in curves))
    names = display_names(comparison["rows"])
    figure = canvas(max(4.0, 2.45 * len(kinds)), 2.9)
    panels = figure.subplots(1, len(kinds), squeeze=False, sharey=True)[0]
    for axes, kind in zip(panels, kinds, strict=True):
        shown = {
            label: curves[name, kind] for name, label in names.items() if (name, kind) in curves
        }
        _panel(axes, shown, list(names.values()))
        axes.set_title("" if has_single_objective(comparison) else kind)
    if regret:
        log_scale(panels[0], np.concatenate([curve.mean for curve in curves.values()]))
    panels[0].set_ylabel(y_label(runs))
    figure.supxlabel(comparison_terms(comparison).steps, fontsize=8)
    legend_above(figure, panels[0])
    return figure


def _panel(axes: Axes, curves: Mapping[str, LearningCurve], algorithms: Sequence[str]) -> None:
    axes.grid(True, axis="y")
    for name, curve in curves.items():
        look = line_style(algorithms.index(name))
        axes.plot(curve.steps, curve.mean, label=name, **look)
        axes.fill_between(
            curve.steps,
            curve.mean - curve.std,
            curve.mean + curve.std,
            color=look["color"],
            alpha=0.09,
            linewidth=0,
        )
    thousands(axes.xaxis)
    axes.locator_params(axis="x", nbins=4)
