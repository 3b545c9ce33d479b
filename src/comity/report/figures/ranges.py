"""Fairness tables as pictures: ranges on fronts, and the hypervolumes of fronts by rank."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from comity.report.captions import model_heading
from comity.report.colours import GREY, PALETTE
from comity.report.figures.style import MARKERS, canvas, legend_columns, line_style, styled
from comity.report.series.baselines import CONSTANT
from comity.runs.reproduction_schema import RangeResults, Ranges, ReproductionResults

_COLUMNS = {"printed": GREY, "paper_protocol": PALETTE[0], "our_defaults": PALETTE[1]}
_CONSTANT: dict[str, Any] = {"color": GREY, "linewidth": 1, "linestyle": (0, (1, 1.5))}


@styled
def ranges_figure(results: RangeResults) -> Figure:
    """Draw the range of each objective on each algorithm's front, printed and ours."""
    rows = results["rows"]
    objectives = list(rows[0]["printed"])
    figure = canvas(6.4, 0.42 * len(rows) + 1.2)
    grid = figure.subplots(1, len(objectives), squeeze=False, sharey=True)[0]
    for axes, objective in zip(grid, objectives, strict=True):
        for offset, (column, colour) in zip((-0.25, 0.0, 0.25), _COLUMNS.items(), strict=True):
            for y, row in enumerate(rows):
                values = cast(Ranges | None, row[column])  # type: ignore[literal-required]
                if values is not None:
                    axes.plot(
                        values[objective],
                        [y + offset] * 2,
                        color=colour,
                        marker="|",
                        markersize=5,
                        gid=column,
                    )
        axes.set(xlabel=f"{objective}, smallest to largest on the front")
        axes.grid(True, axis="x")
    grid[0].axvline(float(np.mean([row["trivial"] for row in rows])), **_CONSTANT)
    grid[0].set_yticks(range(len(rows)), [row["algorithm"] for row in rows])
    grid[0].set_ylim(len(rows) - 0.5, -0.5)
    figure.suptitle(results["problem"], fontsize=8.5)
    handles = [
        Line2D([], [], color=colour, marker="|", label=model_heading(results, column))
        for column, colour in _COLUMNS.items()
    ]
    handles.append(Line2D([], [], label=CONSTANT, **_CONSTANT))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


@styled
def ranks_figure(results: ReproductionResults) -> Figure:
    """Draw the hypervolume of the front and of those behind it, last and kept models.

    A front that owes much to few outliers falls steeply from rank 0 to rank 1.
    """
    figure = canvas(6.4, 3.0)
    grid = figure.subplots(1, 2, sharey=True)
    columns = ("paper_protocol", "our_defaults")
    for axes, column in zip(grid, columns, strict=True):
        for index, row in enumerate(results["rows"]):
            values = row["ranks"][column]
            marker = MARKERS[index % len(MARKERS)]
            look = {**line_style(index), "marker": marker, "markersize": 4}
            axes.plot(range(len(values)), values, label=row["algorithm"], gid=column, **look)
        constant = float(np.mean([row["trivial"] for row in results["rows"]]))
        axes.axhline(constant, label=CONSTANT, **_CONSTANT)
        axes.set(xlabel="rank of the front", title=model_heading(results, column))
        axes.set_xticks(range(max(len(row["ranks"][column]) for row in results["rows"])))
        axes.grid(True, axis="y")
    grid[0].set_ylabel("hypervolume")
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=legend_columns(figure, labels))
    return figure
