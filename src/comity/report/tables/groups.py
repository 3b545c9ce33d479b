"""Tables of groups: people with one value of an attribute."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from comity.report.measures import number
from comity.report.rates import INTERVALS, gap_sentences, rate_text
from comity.report.tables.layout import empty_table
from comity.runs.group_schema import Group, Groups, Measured


def groups_table(groups: Groups) -> Table:
    """Return the measures per attribute value of all clients' test rows together."""
    note = "Test rows of all clients, each answered by its own client's model."
    more = "Each client's are in groups.json and on the page."
    return measured_groups_table("Groups, all clients together", groups["together"], note, more)


def measured_groups_table(title: str, measured: Measured, note: str, more: str = "") -> Table:
    """Return the measures of some rows, one line per attribute value.

    Args:
        title: The title.
        measured: The measures.
        note: Which rows these are.
        more: The last sentence below the table.
    """
    sentences = [note, f"{INTERVALS}.", *gap_sentences(measured), *([more] if more else [])]
    table = empty_table(title, " ".join(sentences))
    table.add_column("group")
    for heading in ("rows", "answered yes", "true positive rate", "false positive rate"):
        table.add_column(heading, justify="right")
    for heading in ("accuracy", "AUC"):
        table.add_column(heading, justify="right")
    _add(table, "all", measured["all"])
    for name, attribute in measured["attributes"].items():
        for value, group in attribute["values"].items():
            _add(table, f"{name} = {value}", group)
    return table


def _add(table: Table, name: str, group: Group) -> None:
    table.add_row(
        Text(name),
        f"{group['rows']:,}",
        rate_text(group["selection_rate"]),
        number(group["true_positive_rate"]["value"], 3),
        number(group["false_positive_rate"]["value"], 3),
        number(group["accuracy"]["value"], 3),
        number(group["auc"]["value"], 3),
    )
