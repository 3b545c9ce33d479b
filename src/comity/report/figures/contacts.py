"""Contacts as a Gantt chart: passes, messages, mixings."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from comity.links.timetable import Timetable
from comity.report.colours import FAINT, GREY, PALETTE
from comity.report.figures.style import canvas, styled
from comity.report.series.contacts import contact_chart

_PALE = "#dce6ee"
_MOST = 60
"""Clients that have room in the picture."""


@styled
def contacts(table: Timetable) -> Figure | None:
    """Draw one line per client: passes pale, messages dark; mixings are vertical lines."""
    if len(table.names) > _MOST:
        return None
    chart = contact_chart(table)
    figure = canvas(7.2, 1.1 + 0.2 * len(chart.rows))
    axes = figure.subplots()
    for time in chart.mixings:
        axes.axvline(time, color=GREY, linewidth=0.5, zorder=1, gid="mixing")
    for place, row in enumerate(chart.rows):
        _spans(axes, place, row.passes, _PALE, "pass")
        _spans(axes, place, row.up, PALETTE[0], "up", upper=True)
        _spans(axes, place, row.down, PALETTE[1], "down", upper=False)
    axes.set_yticks(range(len(chart.rows)), [row.name for row in chart.rows])
    axes.set(xlabel="hours", xlim=(0, chart.hours), ylim=(len(chart.rows) - 0.4, -0.6))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=12, steps=[1, 2, 3, 6, 10]))
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_color(FAINT)
    handles = [
        Patch(color=_PALE, label="in contact"),
        Patch(color=PALETTE[0], label="update sent"),
        Patch(color=PALETTE[1], label="model received"),
        axes.plot([], [], color=GREY, linewidth=0.5, label=f"mixing ({len(chart.mixings)})")[0],
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=4)
    return figure


def _spans(
    axes: Axes,
    place: int,
    spans: Sequence[tuple[float, float]],
    colour: str,
    kind: str,
    upper: bool | None = None,
) -> None:
    """Draw spans on a client's line: of full height, or in the upper or lower half."""
    bottom, height = (place - 0.36, 0.72) if upper is None else (place - 0.36 * upper, 0.36)
    # a message of seconds in a plan of days is narrower than a pixel: its edge keeps it visible
    edge = 0.0 if upper is None else 0.7
    widths = [(start, end - start) for start, end in spans]
    axes.broken_barh(
        widths, (bottom, height), color=colour, linewidth=edge, zorder=2 + (edge > 0), gid=kind
    )
