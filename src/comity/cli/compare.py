"""The command that compares algorithms: compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from comity.cli.options import (
    ATTACKS,
    FIGURES,
    RUN,
    Json,
    Out,
    Problem,
    Seeds,
    Set,
    Workers,
    apply_settings,
    named,
    pop_problem,
    read_config,
    seeds_of,
    with_settings,
)
from comity.cli.run import carry_out
from comity.cli.terminal import show

_SHARED = (
    *("preset", "clients", "rounds", "partition", "sizes", "split_ratio"),
    *("participation", "keep", "guard", "attack", "wrapper"),
)


@with_settings({name: RUN[name] for name in _SHARED} | ATTACKS | FIGURES)
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
    from comity.configuration import split_attacks, with_attacks
    from comity.runs.compare import split_entries, start_comparison, with_wrapper

    wrapper = values.pop("wrapper", None)  # further entries, not a setting of all
    figures = values.pop("figures", "png")
    attacks = split_attacks(values.pop("attacks", "none"))
    values = read_config(config) | named(problem) | values
    apply_settings(values, settings)
    subject = pop_problem(values)
    for name in ("algorithm", "seed"):  # a comparison has several
        values.pop(name, None)
    distributions = values.pop("preferences", None)
    path = start_comparison(
        subject,
        algorithms=with_attacks(with_wrapper(split_entries(algorithms), wrapper), attacks),
        seeds=seeds_of(seeds),
        preferences=distributions if preferences is None else preferences.split(),
        out=out,
        **values,
    )
    show(carry_out(path, path.name, workers, figures), as_json)
