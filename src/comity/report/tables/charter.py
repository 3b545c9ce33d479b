"""Tables of a negotiation: what was agreed, and a session in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from comity.configuration.negotiation import in_words
from comity.report.tables.layout import empty_table

_TITLES = {
    "session": "Session",
    "client": "What a client does (thesis, table 6.2)",
    "server": "What the server does (thesis, table 6.3)",
}


def agreement_table(results: Mapping[str, Any], ranges: Mapping[str, object]) -> Table:
    """Return what was agreed, and who takes part.

    Args:
        results: What ``comity charter agree --json`` prints.
        ranges: What was offered, by negotiable field.
    """
    members = results["members"]
    table = empty_table(f"Charter {results['charter'][:12]}: {len(members)} members", None)
    table.add_column("", no_wrap=True)
    table.add_column("agreed", no_wrap=True)
    table.add_column("offered, or why not")
    for field, value in results["values"].items():
        table.add_row(Text(field), Text(in_words(value)), Text(str(ranges[field])))
    for name, key in members.items():
        table.add_row(Text(name), "takes part", Text(key or "no certificate yet"))
    for name, fields in results["left_out"].items():
        table.add_row(Text(name), "left out", Text(f"does not accept {', '.join(fields)}"))
    for name, reasons in results["refused"].items():
        table.add_row(Text(name), "refuses", Text(" ".join(reasons)))
    return table


def session_tables(results: Mapping[str, Any]) -> list[Table]:
    """Return a session in words: itself, its clients' fields, its server's, its members.

    Args:
        results: What ``comity charter show --json`` prints.
    """
    tables = []
    for part, title in _TITLES.items():
        table = empty_table(title, None)
        table.add_column("field", no_wrap=True)
        table.add_column("")
        for field, words in results[part].items():
            table.add_row(Text(field), Text(words))
        if part == "session":
            table.add_row("state", Text(results["state"], style="bold"))
            table.add_row("SHA-256", Text(results["identity"]))
            for field, range in results["negotiable"].items():
                table.add_row(Text(f"negotiable: {field}"), Text(range))
        tables.append(table)
    if results["members"]:
        members = empty_table("Members", None)
        members.add_column("member", no_wrap=True)
        members.add_column("state")
        for name, state in results["members"].items():
            members.add_row(Text(name), state)
        tables.append(members)
    return tables
