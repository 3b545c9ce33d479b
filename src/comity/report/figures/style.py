"""Style that all pictures share: type sizes, line styles, legends, axes, files."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from comity.core.storage import write_whole
from comity.core.typing import FloatArray
from comity.report.colours import PALETTE
from comity.report.measures import number

DPI = 200
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (5, 1.2, 1, 1.2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

# Any: matplotlib types its settings' names as a Literal that differs between its versions
_STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.minor.size": 1.5,
    "ytick.minor.size": 1.5,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 1.8,
    "lines.linewidth": 1.5,
    "hatch.linewidth": 0.5,
    "hatch.color": "#b0b0b0",
    "figure.constrained_layout.h_pad": 0.03,
    "figure.constrained_layout.w_pad": 0.03,
    # names come from users: a dollar sign in one is no formula
    "text.parse_math": False,
}

styled = matplotlib.rc_context(_STYLE)
"""Decorator: draw a figure in this style, and leave matplotlib's settings as they were."""


def canvas(width: float, height: float) -> Figure:
    """Return an empty figure, size in inches, whose parts are kept from overlapping."""
    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Figure, path: Path) -> None:
    """Write a figure in print quality, in the format that the file's name ends with.

    Equal figures have equal bytes: no format has a date, and SVG's names are not random.
    """
    kind = path.suffix.removeprefix(".")
    undated: dict[str, Any] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    with matplotlib.rc_context({"svg.hashsalt": "comity", "pdf.fonttype": 42}):
        content = BytesIO()
        figure.savefig(content, dpi=DPI, format=kind, metadata=undated.get(kind))
    write_whole(path, content.getvalue())


def line_style(index: int) -> dict[str, Any]:
    """Return the colour and dashes of one of many lines."""
    dashes = DASHES[index // len(PALETTE) % len(DASHES)]
    return {"color": PALETTE[index % len(PALETTE)], "linestyle": dashes}


def legend_above(figure: Figure, axes: Axes) -> None:
    """Put one legend for all panels above them, in as many columns as there is room for."""
    handles, labels = axes.get_legend_handles_labels()
    columns = legend_columns(figure, labels)
    # more than two lines need room that must not be taken from the panels
    more = -(-len(labels) // columns) - 2
    figure.set_figheight(figure.get_figheight() + 0.15 * max(0, more))
    figure.legend(handles, labels, loc="outside upper center", ncols=columns)


def legend_columns(figure: Figure, labels: Sequence[str]) -> int:
    """Return how many labels fit side by side above a figure."""
    # an entry is its longest label and a stroke; about 15 characters fit on an inch
    room = 15 * figure.get_figwidth() / (max(map(len, labels)) + 6)
    return max(1, min(len(labels), int(room)))


def plain_numbers(axis: Axis) -> None:
    """Print numbers as in tables, also on a logarithmic axis."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(value, 3)))
    axis.set_minor_formatter(NullFormatter())


def thousands(axis: Axis) -> None:
    """Print counts of steps with separators."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def log_scale(axes: Axes, values: FloatArray) -> None:
    """Make y logarithmic after the values are drawn; zeros, if any, stand at its foot."""
    values = values[np.isfinite(values)]
    positive = values[values > 1e-9]
    smallest = float(positive.min()) if len(positive) else 1.0
    if len(positive) < len(values):
        # the axis is logarithmic down to a power of ten, whose label keeps away from that of zero
        seam = 10.0 ** np.floor(np.log10(smallest))
        axes.set_yscale("symlog", linthresh=seam, linscale=0.4)
        axes.set_ylim(bottom=0)
    else:
        axes.set_yscale("log")
        reach = values.max(initial=0.0) / smallest
        if reach < 10:  # too few powers and their halves to read values from
            axes.yaxis.set_major_locator(MaxNLocator(6))
            axes.yaxis.set_minor_locator(NullLocator())
        elif reach < 100:
            axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.set_ylim(bottom=0.7 * smallest)  # an error band that nears zero has no end here
    plain_numbers(axes.yaxis)
