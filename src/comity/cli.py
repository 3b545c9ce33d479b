"""The command line. Heavy imports happen inside the commands, so that help is instant."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from comity.errors import UserError
from comity.version import __version__

if TYPE_CHECKING:
    from comity.comparison import Comparison
    from comity.runs import Run

_USAGE_ERROR: Any = typer.BadParameter.__base__  # what a wrong option or argument raises

app = typer.Typer(
    name="comity",
    help="Federated learning among participants who want different things.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Clients = Annotated[int | None, typer.Option(help="How many clients.")]
Rounds = Annotated[int | None, typer.Option(help="How many rounds.")]
Keep = Annotated[str | None, typer.Option(help="best or last.")]
Participation = Annotated[
    float | None, typer.Option(help="Share of clients that take part in a round.")
]
Guard = Annotated[
    bool | None, typer.Option(help="Clients decline mixed models that serve them worse.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any setting: --set fedpref.top_r=0.4 --set dqn.local_steps=500."),
]
Out = Annotated[Path | None, typer.Option(help="Directory to write; must not exist yet.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Workers = Annotated[int | None, typer.Option(help="Processes to use; results do not depend on it.")]
Seeds = Annotated[str, typer.Option(help="How many seeds (5), or which ones (11,17,29).")]


@app.command()
def run(
    problem: Annotated[
        str | None, typer.Argument(help="What to learn; see: list problems.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with a whole run.")] = None,
    algorithm: Annotated[str | None, typer.Option(help="See: list algorithms.")] = None,
    clients: Clients = None,
    rounds: Rounds = None,
    seed: Annotated[int | None, typer.Option(help="Where all random numbers come from.")] = None,
    preferences: Annotated[str | None, typer.Option(help="See: list preferences.")] = None,
    participation: Participation = None,
    keep: Keep = None,
    guard: Guard = None,
    fine_tune: Annotated[str | None, typer.Option(help="none, replace-last or extra:K.")] = None,
    settings: Set = None,
    out: Out = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Run one federation: a personal model for each client, tables and pictures."""
    from comity.configuration import configure, read_toml
    from comity.execution import default_name, execute, free_path
    from comity.runs import Run

    values = read_toml(config) if config is not None else {}
    given = {
        "problem": problem,
        "algorithm": algorithm,
        "clients": clients,
        "rounds": rounds,
        "seed": seed,
        "preferences": preferences,
        "participation": participation,
        "keep": keep,
        "guard": guard,
        "fine_tune": fine_tune,
    }
    values.update({name: value for name, value in given.items() if value is not None})
    _apply_settings(values, settings)
    configuration = configure(values)
    processes = _workers(workers, configuration.clients / configuration.chunk)
    path = out if out is not None else free_path(default_name(configuration))
    made = Run.create(path, configuration)
    title = f"{configuration.problem}, {configuration.label}"
    with _progress(title, f"comity resume {path}") as tell:
        execute(made, processes, tell)
    _show_run(made, as_json)


@app.command()
def compare(
    problem: Annotated[str, typer.Argument(help="What to learn; see: list problems.")],
    algorithms: Annotated[
        str,
        typer.Option(help="Comma-separated: fedavg,fedavg+ft,'fedpref[clustering=false]'."),
    ],
    seeds: Seeds = "3",
    preferences: Annotated[
        str, typer.Option(help="One or more distributions, separated by spaces.")
    ] = "dirichlet",
    clients: Clients = None,
    rounds: Rounds = None,
    participation: Participation = None,
    keep: Keep = None,
    guard: Guard = None,
    settings: Set = None,
    out: Out = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Run several algorithms over several seeds and set them side by side."""
    from comity.comparison import compare, split_entries
    from comity.execution import free_path

    path = out if out is not None else free_path(f"{problem}-comparison")
    given = {
        "clients": clients,
        "rounds": rounds,
        "participation": participation,
        "keep": keep,
        "guard": guard,
    }
    values: dict[str, Any] = {k: v for k, v in given.items() if v is not None}
    _apply_settings(values, settings)
    with _progress(f"{problem}, comparison", f"comity resume {path}") as tell:
        made = compare(
            problem,
            algorithms=split_entries(algorithms),
            seeds=_seeds(seeds),
            preferences=preferences.split(),
            out=path,
            workers=_workers(workers),
            on_round=tell,
            **values,
        )
    _show_comparison(made, as_json)


@app.command()
def resume(
    path: Annotated[Path, typer.Argument(help="A run or comparison that was interrupted.")],
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Go on with an interrupted run or comparison; it ends as if never interrupted."""
    from comity.comparison import PLAN, carry_out
    from comity.execution import resume
    from comity.runs import Run

    with _progress(str(path), f"comity resume {path}") as tell:
        if (path / PLAN).is_file():
            comparison = carry_out(path, _workers(workers), tell)
            _show_comparison(comparison, as_json)
        else:
            configuration = Run.open(path).configuration
            share = configuration.clients / configuration.chunk
            _show_run(resume(path, workers=_workers(workers, share), on_round=tell), as_json)


@app.command()
def report(
    path: Annotated[Path, typer.Argument(help="A finished run or comparison.")],
    as_json: Json = False,
) -> None:
    """Draw the pictures and the page of a run again, and print its tables."""
    from comity.comparison import Comparison, open
    from comity.report import write_comparison_report, write_report

    found = open(path)
    if isinstance(found, Comparison):
        write_comparison_report(found.path, found.results, found.runs)
        _show_comparison(found, as_json)
    else:
        write_report(found)
        _show_run(found, as_json)


@app.command()
def reproduce(
    table: Annotated[str, typer.Argument(help="thesis-4.1, -4.3, -4.4, -4.5 or -4.6.")],
    only: Annotated[str, typer.Option(help="The problem to run.")] = "deep-sea-treasure",
    seeds: Seeds = "3",
    algorithms: Annotated[
        str | None, typer.Option(help="Some rows only: fedavg,fedpref+ft.")
    ] = None,
    preferences: Annotated[
        str, typer.Option(help="Distributions, separated by spaces.")
    ] = "dirichlet equidistant gaussian",
    settings: Set = None,
    out: Annotated[
        Path | None, typer.Option(help="Directory; runs already in it are used again.")
    ] = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Run a printed table and set our figures beside the printed ones."""
    from comity.comparison import split_entries
    from comity.execution import free_path
    from comity.reproduction import reproduce

    path = out if out is not None else free_path(f"{table}-{only}")
    values: dict[str, Any] = {}
    _apply_settings(values, settings)
    again = f"the same command and --out {path}"
    with _progress(f"{table}, {only}", again) as tell:
        made = reproduce(
            table,
            only=only,
            seeds=_seeds(seeds),
            preferences=preferences.split(),
            algorithms=split_entries(algorithms) if algorithms else None,
            out=path,
            workers=_workers(workers),
            on_round=tell,
            **values,
        )
    if as_json:
        _print_json({**made.results, "run": str(made.path)})
        return
    from comity.report.tables import reproduction_table

    _print_tables(reproduction_table(made.results), footer=f"Runs: {made.path}")


@app.command("list")
def list_(
    what: Annotated[Literal["problems", "algorithms", "preferences"], typer.Argument()],
    as_json: Json = False,
) -> None:
    """List problems, algorithms with their settings, or preference distributions."""
    from comity.catalogue import catalogue, catalogue_table

    entries = catalogue(what)
    if as_json:
        _print_json({what: entries})
    else:
        _print_tables(catalogue_table(what, entries))


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit


def main() -> NoReturn:
    """Entry point: a user's mistake is one line and exit code 2, Ctrl-C is 130."""
    try:
        code = app(standalone_mode=False)
    except UserError as error:
        _fail(str(error))
    except _USAGE_ERROR as error:
        _fail(error.format_message())
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)  # newer typers return 130 after Ctrl-C


def _fail(message: str) -> NoReturn:
    print(f"comity: {message}", file=sys.stderr)
    sys.exit(2)


# -- what the commands share ---------------------------------------------------------------


def _apply_settings(values: dict[str, Any], settings: list[str] | None) -> None:
    from comity.configuration import parse_setting

    for text in settings or []:
        path, value = parse_setting(text)
        if len(path) > 2:
            raise UserError(f"--set {text}: a name has at most one dot, e.g. dqn.local_steps.")
        if len(path) == 1:
            values[path[0]] = value
        else:
            table = values.setdefault(path[0], {})
            if not isinstance(table, dict):
                raise UserError(f"--set {text}: '{path[0]}' is not a table of settings.")
            table[path[1]] = value


def _seeds(text: str) -> int | list[int]:
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 0 or ("," not in text and numbers[0] < 1):
        raise UserError(f"--seeds {text}: give a number of seeds (5) or a list (11,17,29).")
    return numbers if "," in text else numbers[0]


def _workers(asked: int | None, useful: float | None = None) -> int:
    from comity.execution import check_workers

    if asked is not None:
        check_workers(asked)
        return asked
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(cores or 1, int(useful) if useful is not None else 64))


@contextmanager
def _progress(title: str, go_on: str) -> Iterator[Callable[[int, int, str], None]]:
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
        bar.update(task, completed=done, total=total, text=text)
        if bar.disable and time.monotonic() - said > 10:  # a log file gets a line now and then
            said = time.monotonic()
            print(f"{title}: {done}/{total} rounds, {text}", file=sys.stderr, flush=True)

    try:
        with bar:
            yield tell
    except KeyboardInterrupt:
        print(f"interrupted; go on with: {go_on}", file=sys.stderr)
        raise


def _print_json(value: dict[str, Any]) -> None:
    print(json.dumps(value))


def _print_tables(*tables: Any, footer: str = "") -> None:
    from rich.console import Console

    console = Console()
    for table in tables:
        console.print(table)
    if footer:
        console.print(footer, soft_wrap=True, highlight=False)


def _show_run(run: Run, as_json: bool) -> None:
    if as_json:
        _print_json({**run.results, "seconds": run.seconds, "run": str(run.path)})
        return
    from comity.report.tables import clients_table, run_table

    _print_tables(
        clients_table(run.results),
        run_table(run.results),
        footer=f"Report: {run.path / 'report.html'}",
    )


def _show_comparison(comparison: Comparison, as_json: bool) -> None:
    if as_json:
        _print_json({**comparison.results, "run": str(comparison.path)})
        return
    from comity.report.tables import comparison_tables

    _print_tables(
        *comparison_tables(comparison.results),
        footer=f"Report: {comparison.path / 'report.html'}",
    )


if __name__ == "__main__":
    main()
