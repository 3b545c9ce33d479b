"""What the command line writes: progress on standard error, tables or one JSON object."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from comity.runs.compare import Comparison
    from comity.runs.directory import Run
    from comity.searches import Search
    from comity.searches.comparison import SearchComparison


@contextmanager
def progress(title: str, go_on: str) -> Iterator[Callable[[int, int, str], None]]:
    """A progress bar with remaining time on standard error; Ctrl-C says how to go on."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} rounds"),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[text]}"),
        console=console,
        disable=not console.is_terminal,
    )
    task = bar.add_task(title, total=1, text="")
    said = time.monotonic()

    def tell(done: int, total: int, text: str) -> None:
        nonlocal said
        bar.update(task, resolved=done, total=total, text=text)
        if bar.disable and time.monotonic() - said > 10:  # a log file gets a line now and then
            said = time.monotonic()
            print(f"{title}: {done}/{total} rounds, {text}", file=sys.stderr, flush=True)

    try:
        with bar:
            yield tell
    except KeyboardInterrupt:
        print(f"interrupted; go on with: {go_on}", file=sys.stderr)
        raise


def print_json(value: dict[str, Any]) -> None:
    """One object on standard output."""
    print(json.dumps(value))


def print_tables(*tables: Any, footer: str = "") -> None:
    """Tables on standard output, and a last line."""
    from rich.console import Console

    console = Console()
    for table in tables:
        console.print(table)
    if footer:
        console.print(footer, soft_wrap=True, highlight=False)


def _footer(results: Mapping[str, Any], path: Path) -> str:
    """What was done to the data, and where the page is."""
    notes = (f"Data: {note}." for note in results.get("notes", ()))
    return "\n".join([*notes, f"Report: {path / 'report.html'}"])


def show_run(run: Run, as_json: bool) -> None:
    """What a run ended with: its clients and measures."""
    if as_json:
        print_json({**run.results, "seconds": run.seconds, "run": str(run.path)})
        return
    from comity.report.tables import clients_table, run_table

    footer = _footer(run.results, run.path)
    print_tables(clients_table(run.results), run_table(run.results), footer=footer)


def show_comparison(comparison: Comparison, as_json: bool) -> None:
    """Algorithms side by side."""
    if as_json:
        print_json({**comparison.results, "run": str(comparison.path)})
        return
    from comity.report.tables import comparison_tables

    one = next(run for runs in comparison.runs.values() for run in runs)
    footer = _footer(one.results, comparison.path)
    print_tables(*comparison_tables(comparison.results, comparison.runs), footer=footer)


def show_search(search: Search, as_json: bool) -> None:
    """What a search found: the front, and its measures beside the control's."""
    if as_json:
        print_json({**search.results, "seconds": search.seconds, "run": str(search.path)})
        return
    from comity.report.tables import points_table, search_table

    print_tables(
        points_table(search.results),
        search_table(search.results),
        footer=f"Report: {search.path / 'report.html'}",
    )


def show_searches(comparison: SearchComparison, as_json: bool) -> None:
    """Searches side by side."""
    if as_json:
        print_json({**comparison.results, "run": str(comparison.path)})
        return
    from comity.report.tables import searches_table

    print_tables(
        searches_table(comparison.results),
        footer=f"Report: {comparison.path / 'report.html'}",
    )
