"""Commands that show what is there: report, list."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from comity.cli.options import Json
from comity.cli.terminal import (
    print_json,
    print_tables,
    show_comparison,
    show_run,
    show_search,
    show_searches,
)


def report(
    path: Annotated[Path, typer.Argument(help="A finished run, search or comparison.")],
    as_json: Json = False,
) -> None:
    """Draw the pictures and the page of a run or search again, and print its tables."""
    from comity.opening import open
    from comity.report import (
        write_comparison_report,
        write_report,
        write_search_report,
        write_searches_report,
    )
    from comity.runs.compare import Comparison
    from comity.runs.directory import Run
    from comity.searches import Search

    found = open(path)
    if isinstance(found, Run):
        write_report(found)
        show_run(found, as_json)
    elif isinstance(found, Comparison):
        write_comparison_report(found.path, found.results, found.runs)
        show_comparison(found, as_json)
    elif isinstance(found, Search):
        write_search_report(found)
        show_search(found, as_json)
    else:
        write_searches_report(found)
        show_searches(found, as_json)


def list_(
    what: Annotated[
        Literal["problems", "algorithms", "preferences", "generators"], typer.Argument()
    ],
    as_json: Json = False,
) -> None:
    """List problems, algorithms, preference distributions, or generators of searches."""
    from comity.cli.listing import catalogue, catalogue_table

    entries = catalogue(what)
    if as_json:
        print_json({what: entries})
    else:
        print_tables(catalogue_table(what, entries))
