"""Tables of algorithms under attack."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from comity.report.measures import number
from comity.report.series.attacks import attacked
from comity.report.tables.layout import empty_table
from comity.runs.schema import ComparisonResults


def attack_tables(comparison: ComparisonResults) -> list[Table]:
    """Return one table per distribution of preferences, a row per entry, a column per attack.

    Args:
        comparison: The content of ``comparison.json``; without attacks there are no tables.
    """
    tables = []
    several = any(len(row["seeds"]) > 1 for row in comparison["rows"])
    for part in attacked(comparison):
        table = empty_table(
            "Under attack",
            "Mean scalarised value of honest clients, ± over seeds. Under none all clients are "
            "honest and count; none:K leaves out the same clients as an attack of K.",
        )
        table.add_column("algorithm", no_wrap=True)
        for attack in part.attacks:
            table.add_column(Text(attack.replace(",", "\n")), justify="right")
        for entry, means, stds in zip(part.entries, part.means, part.stds, strict=True):
            cells = [
                number(mean, 3) + (f" ± {number(std, 2)}" if several else "")
                for mean, std in zip(means, stds, strict=True)
            ]
            table.add_row(Text(entry), *cells)
        tables.append(table)
    return tables
