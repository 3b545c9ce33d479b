"""The command that runs a printed table: reproduce."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from comity.cli.options import (
    CLUSTER,
    FIGURES,
    LOG,
    RUN,
    Json,
    Set,
    SettingOption,
    Workers,
    apply_settings,
    loggers_of,
    seeds_of,
    with_settings,
    workers_of,
    workforce_of,
)
from comity.cli.terminal import print_json, print_tables, progress
from comity.errors import UserError, unknown

_OPTIONS = {
    "only": SettingOption(str, "The problem to run; default: the table's first."),
    "preferences": SettingOption(str, "Some distributions only, separated by spaces."),
    "protocol": SettingOption(str, "One protocol only: paper (last models) or ours (kept)."),
    "device": RUN["device"],
}
"""Arguments of a table's plan, and a setting of its runs."""


@with_settings(_OPTIONS | CLUSTER | FIGURES | LOG)
def reproduce(
    *,
    table: Annotated[str | None, typer.Argument(help="The table's name, as in --list.")] = None,
    values: dict[str, Any],
    seeds: Annotated[
        str | None, typer.Option(help="Number of seeds (5), or the seeds (11,17,29).")
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option("--rows", "--algorithms", help="Some only: fedavg,fedpref+ft; 3/10k,alone."),
    ] = None,
    settings: Set = None,
    out: Annotated[
        Path | None, typer.Option(help="Directory; runs already in it are used again.")
    ] = None,
    workers: Workers = None,
    list_tables: Annotated[
        bool, typer.Option("--list", help="Print all tables, their problems and CPU hours.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a printed table and set our figures beside the printed ones."""
    from comity import api
    from comity.report.tables import reproduction_table, search_reproduction_table
    from comity.reproductions import TABLES, clusterings, federations, searches
    from comity.runs.entries import split_entries
    from comity.runs.places import free_path

    if list_tables:
        _show_list(as_json)
        return
    if table is None:
        raise UserError("table: name one; comity reproduce --list prints all.")
    if table not in TABLES:
        raise unknown("table", table, TABLES)
    if seeds is not None:
        values["seeds"] = seeds_of(seeds)
    if "preferences" in values:
        if table in searches.TABLES:
            raise UserError(f"--preferences means nothing for {table}: a search chooses them.")
        if table not in {*federations.TABLES, *clusterings.TABLES}:
            raise UserError(f"--preferences means nothing for {table}: the table has its own.")
        values["preferences"] = values["preferences"].split()
    if "protocol" in values and table not in {*federations.TABLES, *searches.TABLES}:
        raise UserError(f"--protocol means nothing for {table}: it has one, or its runs show both.")
    callbacks, workforce = loggers_of(values), workforce_of(workers, values)
    apply_settings(values, settings)
    path = out if out is not None else free_path(*filter(None, (table, values.get("only"))))
    with progress(table, f"the same command and --out {path}") as on_round:
        made = api.reproduce(
            table,
            rows=split_entries(rows) if rows else None,
            out=path,
            workers=workers_of(workforce),
            cluster=workforce.cluster,
            on_round=on_round,
            callbacks=callbacks,
            **values,
        )
    if as_json:
        print_json({**made.results, "run": str(made.path)})
        return
    shown = search_reproduction_table if table in searches.TABLES else reproduction_table
    print_tables(shown(made.results), footer=f"Runs: {made.path}")


def _show_list(as_json: bool) -> None:
    """Print contents, problems, cost and measurements of every table that can be reproduced."""
    from comity.reproductions import catalogue, measured

    done = measured()
    tables = {
        name: {**asdict(needs), "measured": [asdict(entry) for entry in done[name]]}
        for name, needs in catalogue().items()
    }
    if as_json:
        print_json({"tables": [{"name": name, **about} for name, about in tables.items()]})
        return
    from comity.report.tables import measured_table, needs_table

    print_tables(needs_table(tables), measured_table(tables))
