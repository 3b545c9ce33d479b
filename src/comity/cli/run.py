"""Commands that execute: run, resume."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from comity.cli.options import (
    CHARTER,
    CLUSTER,
    FIGURES,
    LINKS,
    LOG,
    RUN,
    Json,
    Out,
    Problem,
    Set,
    Workers,
    Workforce,
    apply_settings,
    loggers_of,
    named,
    read_config,
    with_links,
    with_settings,
    workers_of,
    workforce_of,
)
from comity.cli.terminal import progress, show
from comity.errors import UserError

if TYPE_CHECKING:
    from comity.api import Finished
    from comity.callbacks import Callback
    from comity.report import FigureKind
    from comity.runs.directory import Run
    from comity.searches import Search


@with_settings(RUN | LINKS | CLUSTER | FIGURES | LOG | CHARTER)
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

    figures, charter = values.pop("figures", "png"), values.pop("charter", None)
    sites, callbacks = values.pop("site", None) or [], loggers_of(values)
    workforce = workforce_of(workers, values)
    if charter is None and sites:
        raise UserError("--site means nothing without --charter.")
    values = with_links(read_config(config), values) | named(problem) | values
    apply_settings(values, settings)
    started = start_run(values, out) if charter is None else _session(charter, sites, values, out)
    configuration = started.configuration
    title = f"{configuration.problem_name}, {configuration.label}"
    show(carry_out(started, title, workforce, figures, callbacks=callbacks), as_json)


def _session(charter: Path, sites: list[Path], values: dict[str, Any], out: Path | None) -> Run:
    """Return the run that simulates a charter's session, in which nothing else may be set."""
    from comity.configuration.federation_file import read_federation, read_site
    from comity.runs.session import start_session

    preferences = values.pop("preferences", None)
    if values:
        raise UserError(
            f"{next(iter(values))}: the charter decides it; leave it out, or negotiate anew. Only "
            "--preferences may be given, and --site."
        )
    file, known = read_federation(charter), [read_site(path) for path in sites]
    started, strangers = start_session(file, known, preferences, out)
    if strangers:
        print(
            f"random rows stand in for those of {', '.join(strangers)}, from which nothing can be "
            "learned; give site files with --site",
            file=sys.stderr,
        )
    return started


@with_settings(CLUSTER | FIGURES | LOG)
def resume(
    *,
    path: Annotated[Path, typer.Argument(help="A run, search, comparison or tuning that stopped.")],
    values: dict[str, Any],
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Continue an interrupted run, search, comparison or tuning, as if never interrupted."""
    from comity import api

    figures, callbacks = values.pop("figures", "png"), loggers_of(values)
    workforce = workforce_of(workers, values)
    started = path if api.has_plan(path) else api.open_directory(path)
    if not isinstance(started, Path) and api.lacks_report(started):
        print(f"{path} is finished; only its report is missing, and is drawn now.", file=sys.stderr)
    show(carry_out(started, str(path), workforce, figures, callbacks=callbacks), as_json)


def carry_out(
    started: Run | Search | Path,
    title: str,
    workforce: Workforce,
    figures: FigureKind = "png",
    go_on: str | None = None,
    callbacks: Sequence[Callback] = (),
) -> Finished:
    """Bring something started to its end under a progress bar.

    Args:
        started: A run, a search, or the directory of a comparison or tuning.
        title: The text before the bar.
        workforce: Processes to use, or a cluster.
        figures: Format in which pictures are written beside PNG.
        go_on: How to go on after Ctrl-C; default: ``comity resume``.
        callbacks: Loggers.
    """
    from comity import api

    path = started if isinstance(started, Path) else started.path
    workers = workers_of(workforce, _useful_workers(started))
    with progress(title, go_on or f"comity resume {path}") as on_round:
        return api.resume(
            started,
            workers=workers,
            cluster=workforce.cluster,
            on_round=on_round,
            callbacks=callbacks,
            figures=figures,
        )


def _useful_workers(started: Run | Search | Path) -> float:
    """Return the largest number of processes that have something to do."""
    from comity.searches import Search

    if isinstance(started, Path):
        return inf
    if isinstance(started, Search):
        return started.configuration.chunks
    return started.configuration.clients / started.configuration.chunk
