"""Pictures of a tuning: from trial to trial, by setting, front of trials."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from comity.report.colours import FAINT, GREY, PALETTE
from comity.report.figures.style import canvas, plain_numbers, styled
from comity.report.tunings import objective_measures, setting_text
from comity.runs.tuning_schema import TrialRow, TuningResults

_PER_LINE = 3  # panels side by side
_BLUE, _ORANGE = PALETTE[0], PALETTE[1]


@styled
def trials(results: TuningResults) -> Figure | None:
    """Draw each objective over the trials; None where no trial has a value."""
    done = _done(results)
    if not done:
        return None
    measures = objective_measures(results)
    figure = canvas(6.4, 2.3 * len(measures) + 0.2)
    panels = figure.subplots(len(measures), 1, squeeze=False, sharex=True)[:, 0]
    for axes, measure in zip(panels, measures, strict=True):
        numbers = [row["trial"] for row in done]
        means = np.array([row["means"][measure.name] for row in done], dtype=np.float64)
        for row in done:
            values = [value for value in row["values"][measure.name] if value is not None]
            axes.plot([row["trial"]] * len(values), values, ".", color=FAINT, markersize=3.5)
        best = (np.maximum if measure.better == "higher" else np.minimum).accumulate(means)
        axes.step(numbers, best, where="post", color=_BLUE, linewidth=1.2)
        axes.plot(numbers, means, "o", color=_BLUE, markersize=4, markerfacecolor="white")
        if done[0]["trial"] == 0:
            axes.axhline(means[0], color=GREY, linewidth=0.9, linestyle=(0, (4, 2)))
        _mark_chosen(axes, results, list(zip(numbers, means, strict=True)), done)
        axes.set_ylabel(measure.label + measure.arrow)
        axes.grid(True, axis="y")
        plain_numbers(axes.yaxis)
    panels[-1].set_xlabel("trial")
    panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


@styled
def tuned_settings(results: TuningResults) -> Figure | None:
    """Draw the first objective against each setting; None where no trial has a value."""
    done, names = _done(results), list(results["space"])
    if not done:
        return None
    measure = objective_measures(results)[0]
    lines = -(-len(names) // _PER_LINE)
    figure = canvas(2.4 * min(len(names), _PER_LINE) + 0.4, 2.3 * lines)
    panels = figure.subplots(lines, min(len(names), _PER_LINE), squeeze=False, sharey=True)
    for axes, name in zip(panels.flat, names, strict=False):
        places, labels = _places(done, name, results["space"][name])
        points = [(places[row["trial"]], row["means"][measure.name]) for row in done]
        later = [p for p, row in zip(points, done, strict=True) if row["trial"]]
        axes.plot(*zip(*later, strict=True) if later else ([], []), "o", color=_BLUE, markersize=4)
        if done[0]["trial"] == 0:
            axes.axhline(points[0][1], color=GREY, linewidth=0.9, linestyle=(0, (4, 2)))
        _mark_chosen(axes, results, points, done)
        if labels is not None:
            axes.set_xticks(range(len(labels)), labels)
            axes.set_xlim(-0.5, len(labels) - 0.5)
        elif results["space"][name].get("log"):
            axes.set_xscale("log")
        axes.set_xlabel(name)
        axes.grid(True, axis="y")
        plain_numbers(axes.yaxis)
    for axes in panels.flat[len(names) :]:
        axes.set_visible(False)
    for row_of_panels in panels:
        row_of_panels[0].set_ylabel(measure.label + measure.arrow)
    return figure


@styled
def trial_front(results: TuningResults) -> Figure | None:
    """Draw trials among the first two objectives; None where there is one."""
    done, measures = _done(results), objective_measures(results)[:2]
    if len(measures) < 2 or not done:
        return None
    figure = canvas(3.8, 2.9)
    axes = figure.subplots()
    points = [(row["means"][measures[0].name], row["means"][measures[1].name]) for row in done]
    axes.plot(*zip(*points, strict=True), "o", color=FAINT, markersize=4)
    best = [p for p, row in zip(points, done, strict=True) if row["trial"] in results["front"]]
    axes.plot(*zip(*best, strict=True), "o", color=_BLUE, markersize=5.5)
    for point, row in zip(points, done, strict=True):
        if row["trial"] in (0, *results["front"]):
            axes.annotate(
                str(row["trial"]), point, (4, 3), textcoords="offset points", fontsize=6.5
            )
    _mark_chosen(axes, results, points, done)
    axes.set_xlabel(measures[0].label + measures[0].arrow)
    axes.set_ylabel(measures[1].label + measures[1].arrow)
    axes.grid(True)
    plain_numbers(axes.xaxis)
    plain_numbers(axes.yaxis)
    return figure


def _done(results: TuningResults) -> list[TrialRow]:
    return [row for row in results["trials"] if row["state"] == "done"]


def _mark_chosen(
    axes: Axes, results: TuningResults, points: list[Any], rows: list[TrialRow]
) -> None:
    """Mark the chosen trial by a star; one point per row."""
    for point, row in zip(points, rows, strict=True):
        if row["trial"] == results["chosen"]:
            axes.plot(*point, "*", color=_ORANGE, markersize=10, zorder=4)


def _places(rows: list[TrialRow], name: str, tried: Any) -> tuple[dict[int, Any], list[str] | None]:
    """Return where each trial stands on the axis of a setting, and labels of words or choices."""
    values = {row["trial"]: row["settings"][name] for row in rows}
    if not isinstance(tried, list) and all(isinstance(v, int | float) for v in values.values()):
        return values, None
    known = list(tried) if isinstance(tried, list) else []
    others = [value for value in values.values() if value not in known]
    known += [value for place, value in enumerate(others) if value not in others[:place]]
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in known):
        known = sorted(known)
    places = {trial: known.index(value) for trial, value in values.items()}
    return places, [setting_text(value) for value in known]
