"""Validation values of the clients' models over the rounds."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from comity.core.typing import FloatArray
from comity.report.colours import GREY, PALETTE
from comity.report.figures.style import (
    DASHES,
    canvas,
    log_scale,
    styled,
    thousands,
)
from comity.report.measures import baselines, number
from comity.report.series.curves import (
    KINDS,
    MEANINGS,
    Curves,
    Kind,
    curves,
    validation_label,
)
from comity.report.series.limits import value_limits
from comity.report.terms import terms_of
from comity.runs.directory import Run
from comity.runs.schema import Results

_COLOURS = dict(zip(KINDS, PALETTE[:3], strict=True))
_DASHES = dict(zip(KINDS, DASHES[:3], strict=True))


@styled
def rewards(run: Run) -> Figure:
    """Draw scalarised validation values against steps, and the regret where it is known."""
    history = curves(run)
    regret = history.optimum is not None
    figure = canvas(7.0 if regret else 4.4, 2.75)
    panels = figure.subplots(1, 2 if regret else 1, squeeze=False)[0]
    panels[0].set_ylabel(validation_label(run))
    _values(panels[0], history, run.results)
    if regret:
        _regret(panels[1], history, run.results)
    for axes in panels:
        axes.grid(True, axis="y")
        thousands(axes.xaxis)
        axes.locator_params(axis="x", nbins=6)
        _rounds_on_top(axes, history, run.configuration.rounds)
    figure.supxlabel(terms_of(run.results).steps, fontsize=8)
    _legend(figure, panels)
    return figure


def _values(axes: Axes, history: Curves, results: Results) -> None:
    low, high = history.quartiles("kept")
    axes.fill_between(history.steps, low, high, color=_COLOURS["kept"], alpha=0.15, linewidth=0)
    lines = {kind: history.mean(kind) for kind in KINDS}
    for kind in reversed(KINDS):
        _curve(axes, history, kind, lines[kind])
    shown: dict[str, FloatArray] = {str(kind): line for kind, line in lines.items()}
    for name in ("optimum", "trivial"):
        value = baselines(results).get(name, {}).get("mean_scalarised")
        if value is not None:
            shown[name] = np.array([value])
            _baseline(axes, name, value)
    floor, ceiling = value_limits(low, high, list(shown.values()))
    axes.set_ylim(floor, ceiling)
    _note(axes, {name: np.min(v, initial=np.inf, where=v < floor) for name, v in shown.items()})


def _note(axes: Axes, lowest: Mapping[str, float]) -> None:
    """Name what lies below the axis: its absence must not pass for success."""
    parts = [
        f"{name}\u00a0{number(value, 3)}" for name, value in lowest.items() if np.isfinite(value)
    ]
    if parts:
        note = textwrap.fill("reaching below the axis: " + ", ".join(parts), 62)
        axes.set_xlabel(note, fontsize=6, color=GREY)


def _regret(axes: Axes, history: Curves, results: Results) -> None:
    axes.set_ylabel("mean regret (validation)")
    lines = {kind: history.regret(kind) for kind in KINDS}
    for kind in reversed(KINDS):
        line = lines[kind]
        assert line is not None
        _curve(axes, history, kind, line)
    trivial = baselines(results).get("trivial", {}).get("mean_regret")
    if trivial is not None:
        _baseline(axes, "trivial", trivial)
    log_scale(axes, np.concatenate([line for line in lines.values() if line is not None]))


def _baseline(axes: Axes, name: str, value: float) -> None:
    colour, dashes = ("#222222", (6, 2)) if name == "optimum" else (GREY, (1, 1.5))
    axes.axhline(value, color=colour, linewidth=0.9, linestyle=(0, dashes), label=name)


def _curve(axes: Axes, history: Curves, kind: Kind, line: FloatArray) -> None:
    known = np.isfinite(line)
    if known.any():
        axes.plot(
            history.steps[known],
            line[known],
            color=_COLOURS[kind],
            linestyle=_DASHES[kind],
            label=MEANINGS[kind],
        )


def _legend(figure: Figure, panels: Sequence[Axes]) -> None:
    """Put one legend for all panels above them, kept models first."""
    handles_by_label: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles_by_label.setdefault(label, handle)
    labels = [
        name for name in (*MEANINGS.values(), "optimum", "trivial") if name in handles_by_label
    ]
    handles = [handles_by_label[label] for label in labels]
    figure.legend(handles, labels, loc="outside upper center", ncols=5, columnspacing=1.4)


def _rounds_on_top(axes: Axes, history: Curves, rounds: int) -> None:
    """Add the same axis counted in rounds; the final delivery comes after them."""
    chosen = np.unique(np.linspace(0, len(history.rounds) - 1, 7).round().astype(int))
    near = history.steps[-1] - 0.05 * np.ptp(history.steps)
    if len(chosen) > 2 and history.steps[chosen[-2]] > near:
        chosen = np.delete(chosen, -2)  # its name would stand in that of the end
    numbers = history.rounds[chosen]
    names = [str(number) if number <= rounds else "end" for number in numbers]
    top = axes.secondary_xaxis("top")
    top.set_xticks(history.steps[chosen], names)
    top.set_xlabel("round", color=GREY, fontsize=7)
    top.tick_params(colors=GREY, length=2)
    top.spines["top"].set_visible(False)
