"""Commands that use the models of a finished run: predict, export, cross."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from comity.cli.options import Json, preference_of
from comity.cli.terminal import print_json, print_tables
from comity.errors import UserError

if TYPE_CHECKING:
    from comity.runs.directory import Run

RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="A finished run.")]
Client = Annotated[
    str | None,
    typer.Option(help="Whose model: a name, or a number from 0. Default: a site has one."),
]
Preference = Annotated[
    str | None,
    typer.Option(help="One weight per objective, 0.7,0.3; default: the client's own."),
]


def predict(
    path: RunPath,
    data: Annotated[Path, typer.Argument(help="A CSV file (also .gz) with the rows to answer.")],
    client: Client = None,
    preference: Preference = None,
    out: Annotated[Path | None, typer.Option(help="CSV file to write; must not exist yet.")] = None,
    report: Annotated[
        bool,
        typer.Option("--report", help="Measure the answers, per group of people."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Answer the rows of a CSV file with a client's model: probability of yes, and 1 or 0."""
    from comity.runs.export import as_csv, predict, preference_at, write_new
    from comity.runs.measuring import measure_rows

    run, weights = _run_at(path), preference_of(preference)
    number = _client_of(run, client)
    answers = predict(run, data, number, weights)
    measures = measure_rows(run, data, number, weights) if report else None
    if out is not None:
        write_new(out, as_csv(answers))
    if as_json:
        used = preference_at(run, number, weights)
        rows = [answer._asdict() for answer in answers]
        groups = {} if measures is None else {"groups": measures.measured}
        name = run.configuration.get_names()[number]
        whose = {"client": number, "name": name, "preference": used}
        print_json({"run": str(path), **whose, "answers": rows, **groups})
        return
    if measures is not None:
        from comity.report.tables import measured_groups_table

        name = run.configuration.get_names()[number]
        title = f"Groups in {data.name}, model of {name}"
        missing = f" Absent from the file: {', '.join(measures.absent)}." if measures.absent else ""
        note = f"{len(answers):,} rows.{missing}"
        print_tables(measured_groups_table(title, measures.measured, note))
    if out is not None:
        print(f"{len(answers)} answers: {out}")
    elif measures is None:
        print(as_csv(answers), end="")


def export(
    path: RunPath,
    target: Annotated[Path, typer.Argument(help="model.safetensors, model.onnx or model.nnef.")],
    client: Client = None,
    preference: Preference = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a client's model to a file that can be used without Comity, and its card."""
    from comity.report.card import export

    run = _run_at(path)
    export(run, target, _client_of(run, client), preference_of(preference), force=force)
    print(f"Model: {target}\nCard: {target.with_suffix('.card.md')}")


def cross(
    path: RunPath,
    model: Annotated[
        Path | None, typer.Option(help="An exported .safetensors file to try on every client.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Try every client's model on every client's test data: who is served by whose model."""
    from comity import api
    from comity.report.tables import cross_tables

    run = _run_at(path)
    table = api.cross(run, model=model)
    if as_json:
        print_json({**table, "run": str(path)})
        return
    page = f"Picture: {path / 'cross.png'}\nReport: {path / 'report.html'}"
    print_tables(*cross_tables(table), footer=page if model is None else "")


def _client_of(run: Run, client: str | None) -> int:
    """Return the client that was named, or the only one whose results are in a directory."""
    if client is not None:
        return run.client(client)
    known = run.clients
    if len(known) != 1:
        listed = ", ".join(run.configuration.get_names()[:10])
        raise UserError(
            f"client is missing: whose model of {run.path}? Choose with --client, one of {listed}"
            f"{', …' if len(known) > 10 else ''}."
        )
    return known[0]


def _run_at(path: Path) -> Run:
    """Return the run in a directory; searches and comparisons are refused."""
    from comity import api
    from comity.runs.directory import Run
    from comity.runs.serve import is_served

    if is_served(path):
        raise UserError(
            f"{path} is the organiser's side of a federation: models are at the sites. Name a "
            "site's directory."
        )
    run = api.open(path)
    if not isinstance(run, Run):
        raise UserError(f"{path} is not a single run; name a run directory.")
    return run
