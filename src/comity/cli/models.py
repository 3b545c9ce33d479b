"""Commands that use the models of a finished run: predict, export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from comity.cli.options import Json, preference_of
from comity.cli.terminal import print_json
from comity.errors import UserError

if TYPE_CHECKING:
    from comity.runs.directory import Run

RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="A finished run.")]
Client = Annotated[
    int | None,
    typer.Option(help="Whose model; the first client is 0. Default: a site's directory has one."),
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
    as_json: Json = False,
) -> None:
    """Answer the rows of a CSV file with a client's model: probability of yes, and 1 or 0."""
    from comity.runs.export import as_csv, predict, preference_at, write_new

    run, weights = _run_at(path), preference_of(preference)
    client = _client_of(run, client)
    answers = predict(run, data, client, weights)
    if out is not None:
        write_new(out, as_csv(answers))
    if as_json:
        used = preference_at(run, client, weights)
        rows = [answer._asdict() for answer in answers]
        print_json({"run": str(path), "client": client, "preference": used, "answers": rows})
    elif out is not None:
        print(f"{len(answers)} answers: {out}")
    else:
        print(as_csv(answers), end="")


def export(
    path: RunPath,
    target: Annotated[Path, typer.Argument(help="model.safetensors or model.onnx.")],
    client: Client = None,
    preference: Preference = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a client's model to one file that can be used without Comity."""
    from comity.runs.export import export

    run = _run_at(path)
    export(run, target, _client_of(run, client), preference_of(preference), force=force)
    print(f"Model: {target}")


def _client_of(run: Run, client: int | None) -> int:
    """Return the client that was named, or the only one whose results are in a directory."""
    if client is not None:
        return client
    known = run.clients
    if len(known) != 1:
        raise UserError(
            f"client is missing: whose model of {run.path}? Choose with --client NUMBER, from 0."
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
