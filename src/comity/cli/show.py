"""Commands that show what exists: report, list."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from comity.cli.options import FIGURES, Json, with_settings
from comity.cli.terminal import print_json, print_tables, show, show_federation


@with_settings(FIGURES)
def report(
    *,
    path: Annotated[Path, typer.Argument(help="A finished run, search or comparison.")],
    values: dict[str, Any],
    as_json: Json = False,
) -> None:
    """Draw the pictures and the page of a run or search again, and print its tables."""
    from comity import api
    from comity.runs.directory import Run
    from comity.runs.serve import is_served

    if is_served(path):
        show_federation(Run.open(path), as_json)
        return
    show(api.report(path, figures=values.get("figures", "png")), as_json)


def list_(
    what: Annotated[
        Literal[
            "problems", "algorithms", "preferences", "generators", "presets", "grids", "taxonomy"
        ],
        typer.Argument(),
    ],
    as_json: Json = False,
) -> None:
    """List problems, algorithms, preferences, generators, presets, grids, or the taxonomy."""
    from comity.cli.listing import catalogue, catalogue_table

    entries = catalogue(what)
    if as_json:
        print_json({what: entries})
    else:
        print_tables(catalogue_table(what, entries))
