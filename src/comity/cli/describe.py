"""The command that looks at a user's file and drafts a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from comity.cli.options import Json
from comity.cli.terminal import print_json, print_tables


def describe(
    data: Annotated[Path, typer.Argument(help="A CSV file (also .gz) or a Parquet file.")],
    out: Annotated[
        Path | None, typer.Option(help="TOML file to write; must not exist yet. Default: print.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Look at a table and draft the configuration of a run: types, roles, warnings."""
    from rich.table import Table

    from comity.problems.drafts import draft
    from comity.runs.export import write_new

    drafted = draft(data)
    if out is not None:
        write_new(out, drafted.toml)
    if as_json:
        print_json(drafted.as_json())
        return
    if out is None:
        print(drafted.toml, end="")
        return
    table = Table(title=f"{drafted.file}: {drafted.rows:,} rows", title_justify="left")
    for name in ("column", "kind", "values", "missing", "such as"):
        table.add_column(name)
    for column in drafted.columns:
        counts = f"{column.values:,}", f"{column.missing:,}" if column.missing else ""
        table.add_row(column.name, column.kind, *counts, ", ".join(column.examples))
    print_tables(table)
    for warning in drafted.warnings:
        print(f"- {warning}")
    for choice in drafted.choices:
        print(f"To choose in {out}: {choice}")
    print(f"Draft: {out}. {'Then run' if drafted.choices else 'Run'}: comity run --config {out}")
