"""Commands about links: contacts, plan."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from comity.cli.options import (
    LINKS,
    PASSES,
    RUN,
    Json,
    Problem,
    Set,
    apply_settings,
    named,
    pop_problem,
    read_config,
    with_links,
    with_settings,
)
from comity.cli.terminal import print_json, print_tables

_PLANNED = ("algorithm", "preset", "clients", "names", "encoding", "guard")


@with_settings(PASSES)
def contacts(
    *,
    elements: Annotated[Path, typer.Argument(help="Orbital elements: TLE or OMM.")],
    stations: Annotated[
        Path, typer.Argument(help="Ground stations: CSV with name, latitude, longitude, height.")
    ],
    values: dict[str, Any],
    out: Annotated[Path, typer.Option(help="Contact plan to write; must not exist yet.")],
    as_json: Json = False,
) -> None:
    """Compute a contact plan from orbits: who can send to whom, when, how fast."""
    from comity.links.orbits import Passes, plan_from_orbits
    from comity.runs.export import write_new
    from comity.settings import build

    made = plan_from_orbits(elements, stations, build(Passes, values, where="contacts"))
    write_new(out, made.plan.to_csv())
    for warning in made.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    count, volume = len(made.plan.contacts), sum(c.bytes for c in made.plan.contacts)
    if as_json:
        print_json(
            {
                "contacts": count,
                "nodes": list(made.plan.nodes),
                "days": made.plan.days,
                "start": made.start.isoformat(),
                "bytes": volume,
                "warnings": list(made.warnings),
                "file": str(out),
            }
        )
        return
    print(
        f"{out}: {count:,} contacts of {len(made.plan.nodes)} nodes in {made.plan.days:.2f} days "
        f"from {made.start:%Y-%m-%d %H:%M:%S} UTC, {volume / 1e6:,.1f} MB in all. Then: comity "
        f"plan PROBLEM --links {out}"
    )


@with_settings({name: RUN[name] for name in _PLANNED} | LINKS)
def plan(
    *,
    problem: Problem = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with a whole run.")] = None,
    values: dict[str, Any],
    settings: Set = None,
    out: Annotated[Path | None, typer.Option(help="Picture to write (png, pdf or svg).")] = None,
    as_json: Json = False,
) -> None:
    """Plan a federation over thin links: rounds, updates, what limits them. Trains nothing."""
    from comity.report.plan import plan as make_plan

    values = with_links(read_config(config), values) | named(problem) | values
    apply_settings(values, settings)
    made = make_plan(pop_problem(values), out=out, **values)
    results = made.results
    if as_json:
        print_json({**results, **({} if out is None else {"picture": str(out)})})
        return
    from rich.console import Console

    from comity.report.series.contacts import contact_chart, text_chart
    from comity.report.tables import plan_table, planned_clients_table

    tables = plan_table(results), planned_clients_table(results)
    print_tables(*tables, sentences=results["verdict"])
    print("\n".join(text_chart(contact_chart(made.timetable), min(100, Console().width))))
    print("░ in contact  █ message sent  ▼ mixing" + ("" if out is None else f". Picture: {out}"))
