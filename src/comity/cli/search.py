"""The command that searches for a front: search."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from comity.cli.options import (
    CLUSTER,
    FIGURES,
    LOG,
    SEARCH,
    SEARCH_FEDERATION,
    Json,
    Out,
    Problem,
    Set,
    Workers,
    apply_settings,
    loggers_of,
    named,
    pop_problem,
    read_config,
    seeds_of,
    with_settings,
    workforce_of,
)
from comity.cli.run import carry_out
from comity.cli.terminal import show


@with_settings(SEARCH | SEARCH_FEDERATION | CLUSTER | FIGURES | LOG)
def search(
    *,
    problem: Problem = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with a whole search.")] = None,
    values: dict[str, Any],
    seeds: Annotated[
        str | None, typer.Option(help="A comparison over several: 3, or 11,17,29.")
    ] = None,
    settings: Set = None,
    out: Out = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Search for a whole front of models (MOFL/D), when preferences are not known yet."""
    from comity.runs.entries import split_entries
    from comity.searches.configuration import split_search_settings
    from comity.searches.execution import start_search

    generator, figures = values.pop("generator", ""), values.pop("figures", "png")
    callbacks, workforce = loggers_of(values), workforce_of(workers, values)
    options = {name: values.pop(name) for name in SEARCH if name in values}
    values = split_search_settings(read_config(config) | named(problem) | values)
    values["search"] |= options
    apply_settings(values, settings)
    entries = split_entries(generator)
    if seeds is not None or len(entries) > 1 or "[" in generator:
        path = _start_comparison(values, entries or ["annealing"], seeds, out)
        show(carry_out(path, path.name, workforce, figures, callbacks=callbacks), as_json)
        return
    if entries:
        values["search"]["generator"] = entries[0]
    started = start_search(values, out)
    configuration = started.configuration
    title = f"{configuration.federation.problem_name}, {configuration.label} search"
    show(carry_out(started, title, workforce, figures, callbacks=callbacks), as_json)


def _start_comparison(
    values: dict[str, Any], generators: list[str], seeds: str | None, out: Path | None
) -> Path:
    """Start a comparison of searches."""
    from comity.searches.comparison import start_searches

    problem = pop_problem(values)
    seed = values.pop("seed", 1)
    numbers = [seed] if seeds is None else seeds_of(seeds)
    return start_searches(problem, generators=generators, seeds=numbers, out=out, **values)
