"""Commands that execute: run, resume."""

from __future__ import annotations

import sys
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from comity.cli.options import (
    FIGURES,
    LINKS,
    RUN,
    Json,
    Out,
    Problem,
    Set,
    Workers,
    apply_settings,
    named,
    read_config,
    with_links,
    with_settings,
    workers_of,
)
from comity.cli.terminal import progress, show

if TYPE_CHECKING:
    from comity.api import Finished
    from comity.report import FigureKind
    from comity.runs.directory import Run
    from comity.searches import Search


@with_settings(RUN | LINKS | FIGURES)
def run(
    *,
    problem: Problem = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with a whole run.")] = None,
    values: dict[str, Any],
    settings: Set = None,
    out: Out = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Run one federation: a personal model for each client, tables and pictures."""
    from comity.runs.execute import start_run

    figures = values.pop("figures", "png")
    values = with_links(read_config(config), values) | named(problem) | values
    apply_settings(values, settings)
    started = start_run(values, out)
    configuration = started.configuration
    title = f"{configuration.problem_name}, {configuration.label}"
    show(carry_out(started, title, workers, figures), as_json)


@with_settings(FIGURES)
def resume(
    *,
    path: Annotated[Path, typer.Argument(help="A run, search or comparison that stopped.")],
    values: dict[str, Any],
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Continue an interrupted run, search or comparison; it ends as if never interrupted."""
    from comity import api

    started = path if api.is_comparison(path) else api.open_directory(path)
    if not isinstance(started, Path) and api.lacks_report(started):
        print(f"{path} is finished; only its report is missing, and is drawn now.", file=sys.stderr)
    show(carry_out(started, str(path), workers, values.get("figures", "png")), as_json)


def carry_out(
    started: Run | Search | Path,
    title: str,
    workers: int | None,
    figures: FigureKind = "png",
    go_on: str | None = None,
) -> Finished:
    """Bring something started to its end under a progress bar.

    Args:
        started: A run, a search, or the directory of a comparison.
        title: The text before the bar.
        workers: Processes to use; None: as many as are useful here.
        figures: Format in which pictures are written beside PNG.
        go_on: How to go on after Ctrl-C; default: ``comity resume``.
    """
    from comity import api

    path = started if isinstance(started, Path) else started.path
    processes = workers_of(workers, _useful_workers(started))
    with progress(title, go_on or f"comity resume {path}") as on_round:
        return api.resume(started, workers=processes, on_round=on_round, figures=figures)


def _useful_workers(started: Run | Search | Path) -> float:
    """Return the largest number of processes that have something to do."""
    from comity.searches import Search

    if isinstance(started, Path):
        return inf
    if isinstance(started, Search):
        return started.configuration.chunks
    return started.configuration.clients / started.configuration.chunk
