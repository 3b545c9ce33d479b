"""Parts of terminal tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from comity.report.measures import Cell, Measure, available_measures, baselines, number
from comity.runs.schema import ComparisonResults, Metrics
from comity.runs.search_schema import SearchComparisonResults

# short headings: all columns must fit on a terminal of 80 characters
_NARROW = {
    "pooled_hypervolume": "pooled hyper- volume",
    "hypervolume": "hyper- volume",
    "strict_hypervolume": "strict hyper- volume",
    "served_regret": "regret over prefer- ences",
    "own_hypervolume": "hyper- volume per client",
    "cardinality": "cardi- nality",
    "sparsity": "spar- sity",
    "mean_scalarised": "mean scala- rised",
    "hypervolume_50": "hyper- volume halfway",
    "accuracy": "accu- racy",
    "fairness": "fair- ness",
    "dropped": "drop- ped",
}


def empty_table(title: str, caption: str | None) -> Table:
    """Return a table without columns, in the style of all tables."""
    return Table(
        title=Text(title, style="bold"),
        caption=None if caption is None else Text(caption),
        title_justify="left",
        caption_justify="left",
        header_style="bold",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )


def entry_text(name: str) -> Text:
    """Return an entry of a comparison in lines that are short, one per setting.

    Its brackets are not read as markup.

    Args:
        name: What readers see of it: ``fedprox[mu=0.1,supervised.momentum=0.9]``.
    """
    lines = name.replace("[", "\n[")
    return Text(re.sub(r",(?! )|(?<=[a-z])\.(?=[a-z])", "\\g<0>\n", lines))


def fit(table: Table, width: int) -> int:
    """Fit a table to a width by breaking cells between words, and return the width that it has.

    No word and no number is cut: a table with too many of them becomes wider than asked for.

    Args:
        table: The table, whose columns get their widths.
        width: The number of characters in a line.
    """
    console = Console(width=100_000, markup=False)
    whole = Measurement.get(console, console.options, table).maximum
    if whole <= width:
        return width
    widths, whole_cells, largest = [], [], []
    for column in table.columns:
        sizes = [
            Measurement.get(console, console.options, cell)
            for cell in (column.header, *column.cells)
        ]
        largest.append(max(1, *(size.maximum for size in sizes), column.min_width or 0))
        least = largest[-1] if column.no_wrap else max(size.minimum for size in sizes)
        widths.append(max(1, least, column.min_width or 0))
        whole_cells.append(max([widths[-1], *(size.maximum for size in sizes[1:])]))
    others = whole - sum(largest)
    room = max(0, width - others - sum(widths))
    for limits in (whole_cells, largest):  # headings are broken before cells
        for _ in range(min(room, sum(limits) - sum(widths))):
            lines = [limit / current for limit, current in zip(limits, widths, strict=True)]
            widths[lines.index(max(lines))] += 1
            room -= 1
    for column, chosen in zip(table.columns, widths, strict=True):
        column.width = chosen
    return max(width, others + sum(widths))


def fill_measures(
    table: Table, columns: Mapping[str, Metrics], single_objective: bool = False
) -> Table:
    """Fill a table with one row per measure that the first of the columns has."""
    table.add_column("measure")
    main = next(iter(columns))
    for name in columns:
        table.add_column(name, justify="right", style="bold" if name == main else "")
    for measure in available_measures(columns[main], single_objective):
        cells = [number(values.get(measure.name)) for values in columns.values()]
        table.add_row(Text(measure.label + measure.arrow), *cells)
    return table


def add_measures(table: Table, measures: Sequence[Measure], narrow: bool = True) -> None:
    """Add one column per measure; narrow ones have short headings."""
    if len(measures) > 6:
        table.padding = 0
    for measure in measures:
        short = _NARROW.get(measure.name, measure.label.replace("fairness-", "fair- ness- "))
        heading = short if narrow else measure.label
        # a strict hypervolume has zeros before its digits
        width = 7 if measure.name == "strict_hypervolume" else 6
        table.add_column(
            Text(heading + measure.arrow), justify="right", overflow="fold", min_width=width
        )


def add_baselines(
    table: Table,
    results: ComparisonResults | SearchComparisonResults,
    measures: Sequence[Measure],
    *others: str,
) -> None:
    """Add rows of the trivial baseline and the optimum; ``others`` are cells after the measures."""
    for name, values in baselines(results).items():
        cells = [Text(f"{number(values.get(measure.name))}  ") for measure in measures]
        table.add_row(Text(name, style="dim"), *cells, *others)


def measure_cell(cell: Cell) -> Text:
    """Return the cell of a measure; the best has a star, one worse than trivial is grey."""
    if cell.best:
        return Text(f"{cell.text} ★", style="bold green")
    if cell.text == "–":
        return Text(cell.text)
    return Text(f"{cell.text}  ", style="bright_black" if cell.below else "")
