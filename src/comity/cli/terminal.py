"""Output of the command line: progress on standard error, tables or one JSON object."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from comity.errors import StoppedError

if TYPE_CHECKING:
    from rich.table import Table

    from comity.api import Finished
    from comity.runs.compare import Comparison
    from comity.runs.directory import Run
    from comity.runs.events import OnRound, RoundEvent
    from comity.searches import Search
    from comity.searches.comparison import SearchComparison
    from comity.tuning import Tuning


@contextmanager
def progress(title: str, go_on: str) -> Iterator[OnRound]:
    """Show a progress bar with remaining time on standard error.

    Yields the function to call after each round. SIGTERM and SIGHUP end what is under way as Ctrl-C
    does, with exit codes 143 and 129.

    Args:
        title: The text before the bar.
        go_on: How to go on after an interruption, which is printed then.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True, markup=False)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[text]}", markup=False),
        console=console,
        disable=not console.is_terminal,
    )
    task = bar.add_task(title, total=None, text="", count="preparing")  # rounds not known yet
    printed = time.monotonic()

    def on_round(event: RoundEvent) -> None:
        nonlocal printed
        count, text = f"{event.done}/{event.total} rounds", event.text
        bar.update(task, completed=event.done, total=event.total, text=text, count=count)
        if bar.disable and time.monotonic() - printed > 10:  # lines for a log file
            printed = time.monotonic()
            line = ", ".join(part for part in (f"{title}: {count}", text) if part)
            print(line, file=sys.stderr, flush=True)

    with interruptible(go_on), bar:
        yield on_round


@contextmanager
def interruptible(go_on: str) -> Iterator[None]:
    """Say how to go on after an interruption.

    SIGTERM ends the process with code 143, and SIGHUP with 129 unless it is ignored (nohup). Where
    the machine stops the work, as a full disk does, the error says how to go on.

    Args:
        go_on: The command.
    """

    def end(number: int, frame: object) -> NoReturn:
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, end)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, end)
    try:
        yield
    except (StoppedError, OSError) as error:
        raise StoppedError(f"stopped: {fault(error)}; go on with: {go_on}") from None
    except (KeyboardInterrupt, SystemExit):
        print(f"interrupted; go on with: {go_on}", file=sys.stderr)
        raise


def fault(error: StoppedError | OSError) -> str:
    """Return in words how the machine ended the work: ``r/history.jsonl: disk is full``."""
    if isinstance(error, StoppedError) or error.strerror is None:
        return str(error)
    return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"


def print_json(value: dict[str, Any]) -> None:
    """Print one object on standard output."""
    print(json.dumps(value))


def print_tables(
    *tables: Table, footer: str = "", sentences: Sequence[str] = (), notes: Sequence[str] = ()
) -> None:
    """Print sentences, then tables and notes on standard output, and a last line.

    A pipe counts as a terminal of 80 columns. Tables that need more are wider, and never cut;
    neither is the last line, which has a path.
    """
    from rich.console import Console

    from comity.report.tables import fit

    # names and cells of data may have brackets, which are not rich's markup
    console = Console(markup=False)
    for sentence in sentences:
        console.print(sentence, highlight=False)
    if sentences:
        print()
    for table in tables:
        Console(width=fit(table, console.width), markup=False).print(table)
    for note in notes:
        console.print(note, highlight=False)
    if footer:
        console.print(footer, soft_wrap=True, highlight=False)


def _sentences(results: Mapping[str, Any]) -> list[str]:
    """Return the verdict; older versions wrote none."""
    return list(results.get("verdict", {}).get("sentences", ()))


def _notes(results: Mapping[str, Any]) -> list[str]:
    """Return what was done to the data."""
    return [f"Data: {note}." for note in results.get("notes", ())]


def _page(path: Path) -> str:
    """Return the path of the page."""
    return f"Report: {path / 'report.html'}"


def show(finished: Finished, as_json: bool) -> None:
    """Print what a run, search, comparison or tuning ended with, as tables or one JSON object."""
    from comity.runs.compare import Comparison
    from comity.runs.directory import Run
    from comity.searches import Search
    from comity.tuning import Tuning

    if isinstance(finished, Run):
        show_run(finished, as_json)
    elif isinstance(finished, Search):
        show_search(finished, as_json)
    elif isinstance(finished, Comparison):
        show_comparison(finished, as_json)
    elif isinstance(finished, Tuning):
        show_tuning(finished, as_json)
    else:
        show_searches(finished, as_json)


def show_run(run: Run, as_json: bool) -> None:
    """Print the clients and measures of a run."""
    if as_json:
        print_json({**run.results, "seconds": run.seconds, "run": str(run.path)})
        return
    from comity.report.tables import clients_table, groups_table, run_table

    groups = run.groups
    tables = [clients_table(run.results), run_table(run.results)]
    tables += [] if groups is None else [groups_table(groups)]
    print_tables(
        *tables,
        sentences=_sentences(run.results),
        notes=_notes(run.results),
        footer=_page(run.path),
    )


def show_federation(run: Run, as_json: bool) -> None:
    """Print what the organiser of a deployed federation knows: who took part, what travelled."""
    from comity.report.tables import federation_table
    from comity.runs.serve import served_results

    results = served_results(run)
    if as_json:
        print_json({**results, "run": str(run.path)})
        return

    print_tables(federation_table(results), footer=f"Run: {run.path}")


def show_comparison(comparison: Comparison, as_json: bool) -> None:
    """Print algorithms side by side."""
    if as_json:
        print_json({**comparison.results, "run": str(comparison.path)})
        return
    from comity.report.tables import (
        attack_tables,
        comparison_tables,
        gains_table,
        over_alone_table,
        tunings_table,
    )

    first = next(run for runs in comparison.runs.values() for run in runs)
    tables = (gains_table, over_alone_table, tunings_table)
    further = (table(comparison.results) for table in tables)
    print_tables(
        *comparison_tables(comparison.results, comparison.runs),
        *(table for table in further if table is not None),
        *attack_tables(comparison.results),
        sentences=_sentences(comparison.results),
        notes=_notes(first.results),
        footer=_page(comparison.path),
    )


def show_tuning(tuning: Tuning, as_json: bool) -> None:
    """Print the trials of a tuning, best first, and what was chosen."""
    if as_json:
        print_json({**tuning.results, "seconds": tuning.seconds, "run": str(tuning.path)})
        return
    from comity.report.tables import trials_table

    chosen = "" if tuning.results["chosen"] is None else f"Chosen settings: {tuning.config}\n"
    print_tables(
        trials_table(tuning),
        footer=f"{chosen}{_page(tuning.path)}",
        sentences=_sentences(tuning.results),
    )


def show_search(search: Search, as_json: bool) -> None:
    """Print the front of a search, and its measures beside those of the control."""
    if as_json:
        print_json({**search.results, "seconds": search.seconds, "run": str(search.path)})
        return
    from comity.report.tables import points_table, search_table

    print_tables(
        points_table(search.results),
        search_table(search.results),
        sentences=_sentences(search.results),
        footer=_page(search.path),
    )


def show_searches(comparison: SearchComparison, as_json: bool) -> None:
    """Print searches side by side."""
    if as_json:
        print_json({**comparison.results, "run": str(comparison.path)})
        return
    from comity.report.tables import searches_table

    print_tables(
        searches_table(comparison.results),
        footer=_page(comparison.path),
    )
