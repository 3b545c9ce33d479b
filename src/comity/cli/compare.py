"""The command that compares algorithms: compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from comity.cli.options import (
    CLUSTER,
    COMPARED,
    FIGURES,
    LINKS,
    LOG,
    RUN,
    Json,
    Out,
    Problem,
    Seeds,
    Set,
    Workers,
    apply_settings,
    loggers_of,
    named,
    pop_problem,
    read_config,
    seeds_of,
    with_links,
    with_settings,
    workforce_of,
)
from comity.cli.run import carry_out
from comity.cli.terminal import show

_SHARED = (
    *("preset", "clients", "rounds", "partition", "sizes", "split_ratio"),
    *("participation", "topology", "graph", "keep", "guard", "alone_share"),
    *("attack", "encoding", "device", "wrapper"),
)


@with_settings({name: RUN[name] for name in _SHARED} | COMPARED | LINKS | CLUSTER | FIGURES | LOG)
def compare(
    *,
    algorithms: Annotated[
        str,
        typer.Option(help="Comma-separated: fedavg,fedavg+ft,'fedpref[clustering=false]'."),
    ],
    problem: Problem = None,
    config: Annotated[
        Path | None, typer.Option(help="A TOML file with a [problem] of your own, and settings.")
    ] = None,
    seeds: Seeds = "3",
    preferences: Annotated[
        str | None, typer.Option(help="One or more distributions, separated by spaces.")
    ] = None,
    values: dict[str, Any],
    settings: Set = None,
    out: Out = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Run several algorithms over several seeds and set them side by side."""
    from comity.configuration import split_attacks
    from comity.runs.compare import start_comparison
    from comity.runs.entries import split_entries, with_wrapper

    wrapper = values.pop("wrapper", None)  # further entries, not a setting of all
    encodings = values.pop("encodings", None)
    figures, callbacks = values.pop("figures", "png"), loggers_of(values)
    workforce = workforce_of(workers, values)
    attacks = values.pop("attacks", None)
    values = with_links(read_config(config), values) | named(problem) | values
    apply_settings(values, settings)
    subject = pop_problem(values)
    for name in ("algorithm", "seed"):  # a comparison has several
        values.pop(name, None)
    distributions = values.pop("preferences", None)
    path = start_comparison(
        subject,
        algorithms=with_wrapper(split_entries(algorithms), wrapper),
        seeds=seeds_of(seeds),
        preferences=distributions if preferences is None else preferences.split(),
        encodings=None if encodings is None else encodings.split(","),
        attacks=None if attacks is None else split_attacks(attacks),
        out=out,
        **values,
    )
    show(carry_out(path, path.name, workforce, figures, callbacks=callbacks), as_json)
