"""How good the clients' models were, over the rounds."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from comity.core.typing import FloatArray
from comity.report.figures.style import (
    DASHES,
    GREY,
    PALETTE,
    canvas,
    log_scale,
    styled,
    thousands,
)
from comity.report.measures import number
from comity.report.series.curves import KINDS, MEANINGS, Curves, curves, validated
from comity.report.terms import words_of
from comity.runs.directory import Run

_COLOURS = dict(zip(KINDS, PALETTE[:3], strict=True))
_DASHES = dict(zip(KINDS, DASHES[:3], strict=True))


@styled
def rewards(run: Run) -> Figure:
    """Scalarised validation values against steps and, where the optimum is known, the regret."""
    found = curves(run)
    regret = found.optimum is not None
    figure = canvas(7.0 if regret else 4.4, 2.75)
    panels = figure.subplots(1, 2 if regret else 1, squeeze=False)[0]
    panels[0].set_ylabel(validated(run))
    _returns(panels[0], found, run.results)
    if regret:
        _regret(panels[1], found, run.results)
    for axes in panels:
        axes.grid(True, axis="y")
        thousands(axes.xaxis)
        axes.locator_params(axis="x", nbins=6)
        _rounds_on_top(axes, found, run.configuration.rounds)
    figure.supxlabel(words_of(run.results).steps, fontsize=8)
    _legend(figure, panels)
    return figure


def _returns(axes: Axes, found: Curves, results: Mapping[str, Any]) -> None:
    low, high = found.quartiles("kept")
    axes.fill_between(found.steps, low, high, color=_COLOURS["kept"], alpha=0.15, linewidth=0)
    shown = {kind: found.mean(kind) for kind in KINDS}
    for kind in reversed(KINDS):
        _curve(axes, found, kind, shown[kind])
    for name in ("optimum", "trivial"):
        value = results.get(name, {}).get("mean_scalarised")
        if value is not None:
            shown[name] = np.array([value])
            _yardstick(axes, name, value)
    floor, ceiling = window(low, high, list(shown.values()))
    axes.set_ylim(floor, ceiling)
    _note(axes, {name: np.min(v, initial=np.inf, where=v < floor) for name, v in shown.items()})


def window(low: FloatArray, high: FloatArray, others: Sequence[FloatArray]) -> tuple[float, float]:
    """The part of the y axis where the kept models are, and whatever else is near.

    Freshly mixed or trained models can be worse by orders of magnitude for a while.
    """
    known = [line[np.isfinite(line)] for line in (low, high, *others)]
    if not len(known[0]):
        return -1.0, 1.0  # no client ever had a model that could be judged
    top = max(float(line.max()) for line in known if len(line))
    floor = float(np.quantile(known[0], 0.1))
    reach = top - 2.5 * (top - floor)
    bottoms = [float(line.min()) for line in known[2:] if len(line)]
    floor = min([floor, *(bottom for bottom in bottoms if bottom > reach)])
    margin = 0.06 * (top - floor) or 0.5
    return floor - margin, top + margin


def _note(axes: Axes, lowest: Mapping[str, float]) -> None:
    """What lies below the axis, so that nobody takes its absence for success."""
    parts = [
        f"{name}\u00a0{number(value, 3)}" for name, value in lowest.items() if np.isfinite(value)
    ]
    if parts:
        note = textwrap.fill("reaching below the axis: " + ", ".join(parts), 62)
        axes.set_xlabel(note, fontsize=6, color=GREY)


def _regret(axes: Axes, found: Curves, results: Mapping[str, Any]) -> None:
    axes.set_ylabel("mean regret (validation)")
    lines = {kind: found.regret(kind) for kind in KINDS}
    for kind in reversed(KINDS):
        line = lines[kind]
        assert line is not None
        _curve(axes, found, kind, line)
    trivial = results.get("trivial", {}).get("mean_regret")
    if trivial is not None:
        _yardstick(axes, "trivial", trivial)
    log_scale(axes, np.concatenate([line for line in lines.values() if line is not None]))


def _yardstick(axes: Axes, name: str, value: float) -> None:
    colour, dashes = ("#222222", (6, 2)) if name == "optimum" else (GREY, (1, 1.5))
    axes.axhline(value, color=colour, linewidth=0.9, linestyle=(0, dashes), label=name)


def _curve(axes: Axes, found: Curves, kind: str, line: FloatArray) -> None:
    known = np.isfinite(line)
    if known.any():
        axes.plot(
            found.steps[known],
            line[known],
            color=_COLOURS[kind],
            linestyle=_DASHES[kind],
            label=MEANINGS[kind],
        )


def _legend(figure: Figure, panels: Sequence[Axes]) -> None:
    """One legend for all panels, kept models first."""
    found: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    labels = [name for name in (*MEANINGS.values(), "optimum", "trivial") if name in found]
    handles = [found[label] for label in labels]
    figure.legend(handles, labels, loc="outside upper center", ncols=5, columnspacing=1.4)


def _rounds_on_top(axes: Axes, found: Curves, rounds: int) -> None:
    """The same axis counted in rounds; the final delivery comes after them."""
    places = np.unique(np.linspace(0, len(found.rounds) - 1, 7).round().astype(int))
    names = [str(found.rounds[p]) if found.rounds[p] <= rounds else "end" for p in places]
    top = axes.secondary_xaxis("top")
    top.set_xticks(found.steps[places], names)
    top.set_xlabel("round", color=GREY, fontsize=7)
    top.tick_params(colors=GREY, length=2)
    top.spines["top"].set_visible(False)
