"""Cells of a terminal table, and the table as printed."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table


def rows_of(table: Table) -> list[list[str]]:
    columns = [[str(cell).strip() for cell in column.cells] for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def printed(table: Table, width: int = 200) -> str:
    console = Console(width=width, file=io.StringIO())
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
