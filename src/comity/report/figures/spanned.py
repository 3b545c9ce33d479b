"""Pictures of a reproduction about models that take any preference."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from comity.core.pareto import front
from comity.core.rates import Rate
from comity.core.spans import undominated
from comity.core.typing import FloatArray
from comity.report.colours import GREY, PALETTE
from comity.report.figures.losses import losses_figure
from comity.report.figures.spans import draw_response, importance_label, response_handles
from comity.report.figures.style import MARKERS, canvas, legend_columns, styled
from comity.report.measures import display_names, objective_label
from comity.report.names import client_labels
from comity.report.series.learning import Runs
from comity.runs.directory import Run
from comity.runs.reproduction_schema import PerClientResults, PerClientRow

_SIZE = 4
_COLOURS = (PALETTE[0], *PALETTE[3:])  # those that stand for no share of PraFFL's front
_BEST: dict[str, Any] = {"color": "#009E73", "marker": "*", "markersize": 5, "linestyle": ""}
_BEATEN: dict[str, Any] = {**_BEST, "color": "#D55E00", "markerfacecolor": "white", "zorder": 2}
_EXTENTS = {
    "hypervolume": "hypervolume per client",
    "width": "width of the front",
    "distance": "distance to (1, 1)",
}


@styled
def spanned_figure(results: PerClientResults, runs: Sequence[Runs]) -> Figure:
    """Draw what a table shows beside the hypervolume.

    Args:
        results: The JSON content of the reproduction.
        runs: The runs of each comparison behind it. Of several seeds the first is drawn, where a
            picture has single clients.
    """
    shows = results.get("shows")
    if shows == "splits":
        return _splits(results["rows"])
    if shows == "rounds":
        return _rounds(results["rows"])
    names = display_names(results["rows"])
    parts = [_first(part, names) for part in runs]
    if shows == "fronts":
        return _fronts(parts, names, results["across"] == "partition")
    first = {_title(run): run for part in parts for run in part.values()}
    return losses_figure(first) if shows == "losses" else _responses(first)


def _first(runs: Runs, entries: Collection[str]) -> dict[str, Run]:
    """Return the run of the first seed of each of some entries; a comparison may have others."""
    return {entry: seeds[0] for (entry, _), seeds in runs.items() if entry in entries}


def _title(run: Run) -> str:
    return run.configuration.problem_name.removeprefix("praffl-")


def _legend(figure: Figure, handles: Sequence[Line2D], title: str | None = None) -> None:
    columns = legend_columns(figure, [str(handle.get_label()) for handle in handles])
    place: dict[str, Any] = {"loc": "outside upper center", "ncols": columns}
    figure.legend(handles=list(handles), title=title, title_fontsize=7, **place)


# -- fronts of several algorithms ----------------------------------------------------------


def _fronts(
    parts: Sequence[Mapping[str, Run]], names: Mapping[str, str], by_partition: bool
) -> Figure:
    """Draw one row per problem or partition, one column per client."""
    reached = [{entry: run.reached for entry, run in part.items()} for part in parts]
    clients = [len(next(iter(sets.values()))) for sets in reached]
    columns = max(clients)
    lowest = [
        [part for part, count in zip(parts, clients, strict=True) if count > client][-1]
        for client in range(columns)
    ]
    figure = canvas(2.35 * columns + 0.4, 1.9 * len(parts) + 0.9)
    grid = figure.subplots(len(parts), columns, squeeze=False)
    looks: dict[str, dict[str, Any]] = {}
    for part, sets, panels in zip(parts, reached, grid, strict=True):
        run = next(iter(part.values()))
        name = run.configuration.partition if by_partition else _title(run)
        x, y = map(objective_label, run.configuration.get_problem().objectives)
        for client, axes in enumerate(panels):
            if client >= run.configuration.clients:
                axes.axis("off")
                continue
            _front(axes, {entry: vectors[client] for entry, vectors in sets.items()}, looks)
            axes.set_title(f"{name}, client {client}")
            axes.set(xlabel=x if part is lowest[client] else "", ylabel=y if client == 0 else "")
    handles = [
        Line2D([], [], label=f"praffl, {label}", **look)
        for label, look in (
            ("dominated by no other algorithm", _BEST),
            ("dominated by another", _BEATEN),
        )
    ]
    handles += [Line2D([], [], label=names[entry], **look) for entry, look in looks.items()]
    _legend(figure, handles, "the fronts of single clients, first seed")
    return figure


def _front(axes: Axes, sets: Mapping[str, FloatArray], looks: dict[str, dict[str, Any]]) -> None:
    """Draw one client: the front of what takes preferences, and all other models."""
    for entry, vectors in sets.items():
        others = [others for name, others in sets.items() if name != entry]
        if len(vectors) == 1:
            index = len(looks)
            colour, marker = _COLOURS[index % len(_COLOURS)], MARKERS[index % len(MARKERS)]
            single = {"color": colour, "marker": marker, "markersize": _SIZE, "linestyle": ""}
            axes.plot(*vectors[0], gid=entry, zorder=4, **looks.setdefault(entry, single))
            continue
        best = front(vectors)
        left = undominated(best, np.concatenate(others)) if others else np.ones(len(best), bool)
        axes.plot(*best[~left].T, gid="dominated", markeredgewidth=0.5, **_BEATEN)
        axes.plot(*best[left].T, gid="undominated", markeredgewidth=0, **_BEST)
    axes.locator_params(nbins=4)
    axes.grid(True)


# -- one algorithm -------------------------------------------------------------------------


def _splits(rows: Sequence[PerClientRow]) -> Figure:
    """Draw hypervolume, width and distance against the split, one line per problem."""
    figure = canvas(7.2, 2.7)
    panels = figure.subplots(1, len(_EXTENTS))
    handles = []
    for index, problem in enumerate(dict.fromkeys(row["problem"] for row in rows)):
        selected = [row for row in rows if row["problem"] == problem]
        look: dict[str, Any] = {"color": PALETTE[index], "marker": MARKERS[index], "markersize": 4}
        for axes, name in zip(panels, _EXTENTS, strict=True):
            spreads = [{"hypervolume": row["ours"], **row["measures"]}[name] for row in selected]
            means, stds = ([spread[key] or 0.0 for spread in spreads] for key in ("mean", "std"))
            x = [row["split"] for row in selected]
            axes.errorbar(x, means, stds, elinewidth=0.8, gid=problem, **look)
        handles.append(Line2D([], [], label=problem.removeprefix("praffl-"), **look))
    for axes, label in zip(panels, _EXTENTS.values(), strict=True):
        axes.set_title(label)
        axes.set_xticks(sorted({row["split"] for row in rows}))
        axes.grid(True, axis="y")
    figure.supxlabel("split: share of local training for the communicated network", fontsize=8)
    _legend(figure, handles, "mean over clients, ± population std over seeds")
    return figure


def _responses(runs: Mapping[str, Run]) -> Figure:
    """Draw outcomes over preferences, one row per problem."""
    figure = canvas(7.2, 1.9 * len(runs) + 0.8)
    grid = figure.subplots(len(runs), 2, squeeze=False)
    clients: list[str] = []
    for (title, run), panels in zip(runs.items(), grid, strict=True):
        spans = run.spans
        assert spans is not None
        draw_response(panels, run, spans)
        panels[0].set_title(title, loc="left")
        clients = max(clients, client_labels(run.results), key=len)
    first = next(iter(runs.values()))
    figure.supxlabel(importance_label(first.configuration.get_problem().objectives), fontsize=8)
    _legend(figure, response_handles(clients), "first seed")
    return figure


def _rounds(rows: Sequence[PerClientRow]) -> Figure:
    """Draw the hypervolume by round and its nearest curve of linear convergence."""
    figure = canvas(max(4.4, 2.2 * len(rows)), 2.8)
    panels = figure.subplots(1, len(rows), squeeze=False)[0]
    for axes, row in zip(panels, rows, strict=True):
        curves = np.array(row["rounds"])
        x = np.arange(1, curves.shape[1] + 1)
        axes.plot(x, curves.T, color=PALETTE[0], linewidth=0.7, alpha=0.5, gid="seed")
        axes.plot(x, curves.mean(axis=0), color=PALETTE[0], marker="o", markersize=3, gid="mean")
        title = row["problem"].removeprefix("praffl-")
        if fit := row["fit"]:
            rate = Rate(**fit)
            dense = np.linspace(1, x[-1], 100)
            axes.plot(dense, rate.at(dense), color=GREY, linestyle=(0, (4, 1.5)), gid="fit")
            title += f"\nq = {rate.factor:.2f}, R² = {rate.explained:.2f}"
        axes.set_title(title)
        axes.locator_params(axis="x", integer=True, nbins=6)
        axes.grid(True, axis="y")
    panels[0].set_ylabel("validation hypervolume")
    figure.supxlabel("round", fontsize=8)
    handles = [
        Line2D([], [], color=PALETTE[0], marker="o", markersize=3, label="mean over seeds"),
        Line2D([], [], color=PALETTE[0], linewidth=0.7, alpha=0.5, label="each seed"),
        Line2D([], [], color=GREY, linestyle=(0, (4, 1.5)), label="nearest limit − gap · q^round"),
    ]
    _legend(figure, handles)
    return figure
