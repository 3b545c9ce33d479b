"""Quality of algorithms and encodings against the bytes that they send."""

from __future__ import annotations

from math import isfinite

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from comity.report.colours import GREY, PALETTE
from comity.report.columns import BYTES, sent_headings
from comity.report.figures.style import MARKERS, canvas, legend_above, plain_numbers, styled
from comity.report.measures import (
    by_preferences,
    compared_measures,
    display_names,
    has_single_objective,
    with_pooled,
)
from comity.runs.schema import ComparisonResults


@styled
def traffic(comparison: ComparisonResults) -> Figure | None:
    """Draw the first measure against megabytes in both directions, one point per entry.

    Whiskers are the standard deviation over seeds; one panel per preference distribution. None
    where all entries send about the same.

    Args:
        comparison: The content of ``comparison.json``.
    """
    rows = [row for row in by_preferences(with_pooled(comparison)) if "communication" in row]
    measures = compared_measures(rows, has_single_objective(comparison))
    if BYTES not in sent_headings(rows) or not measures:
        return None
    measure, names = measures[0], display_names(rows)
    kinds = list(dict.fromkeys(row["preferences"] for row in rows))
    figure = canvas(3.6 * len(kinds), 2.9)
    panels = figure.subplots(1, len(kinds), squeeze=False, sharey=True)[0]
    for axes, kind in zip(panels, kinds, strict=True):
        for index, name in enumerate(names):
            for row in rows:
                value = row["metrics"].get(measure.name)
                if (row["algorithm"], row["preferences"]) != (name, kind) or value is None:
                    continue
                if value["mean"] is None or not isfinite(value["mean"]):
                    continue
                axes.errorbar(
                    row["communication"]["megabytes"]["mean"],
                    value["mean"],
                    yerr=value["std"] or 0.0,
                    color=PALETTE[index % len(PALETTE)],
                    marker=MARKERS[index // len(PALETTE) % len(MARKERS)],
                    markersize=5,
                    linestyle="",
                    elinewidth=0.9,
                    label=names[name],
                    gid=name,
                )
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        corner = 0.97 if measure.better == "higher" else 0.03
        side = "top" if measure.better == "higher" else "bottom"
        axes.text(0.02, corner, "better", transform=axes.transAxes, va=side, color=GREY)
        plain_numbers(axes.xaxis)
        plain_numbers(axes.yaxis)
        axes.set_xlabel("megabytes, both directions")
        if len(kinds) > 1:
            axes.set_title(kind, color=GREY)
        axes.grid(True)
    panels[0].set_ylabel(measure.label + measure.arrow)
    legend_above(figure, panels[0])
    return figure
