"""The command that chooses settings: tune."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from comity.cli.options import (
    CLUSTER,
    FIGURES,
    LINKS,
    LOG,
    OVER,
    RUN,
    TUNE,
    Json,
    Out,
    Problem,
    Set,
    Workers,
    apply_settings,
    loggers_of,
    named,
    read_config,
    seeds_of,
    with_links,
    with_settings,
    workforce_of,
)
from comity.cli.run import carry_out
from comity.cli.terminal import show

_SHARED = (
    *("algorithm", "preset", "clients", "rounds", "preferences", "partition", "sizes"),
    *("split_ratio", "participation", "topology", "graph", "keep", "guard", "alone_share"),
    *("fine_tune", "attack", "encoding", "device"),
)
_OPTIONS = OVER | TUNE | {name: RUN[name] for name in _SHARED} | LINKS


@with_settings(_OPTIONS | CLUSTER | FIGURES | LOG)
def tune(
    *,
    problem: Problem = None,
    config: Annotated[
        Path | None, typer.Option(help="A TOML file with a [problem] of your own, and settings.")
    ] = None,
    seeds: Annotated[
        str, typer.Option(help="Runs per trial: a number (3: from 1001 on), or the seeds.")
    ] = "3",
    values: dict[str, Any],
    settings: Set = None,
    out: Out = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Choose an algorithm's settings by validation: trials, each over several seeds."""
    from comity.tuning import start_tuning

    figures, callbacks = values.pop("figures", "png"), loggers_of(values)
    workforce, seed = workforce_of(workers, values), values.pop("seed", None)
    over = values.pop("over", None)
    values = with_links(read_config(config), values) | named(problem) | values
    values.pop("seed", None)  # a file's is that of one run
    apply_settings(values, settings)
    values |= {"seeds": seeds_of(seeds)} | ({} if seed is None else {"seed": seed})
    path = start_tuning(values, over, out)
    show(carry_out(path, path.name, workforce, figures, callbacks=callbacks), as_json)
