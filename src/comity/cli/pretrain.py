"""The command that trains an agent for other federations: pretrain."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from comity.cli.options import (
    LOG,
    RUN,
    Problem,
    Set,
    Workers,
    Workforce,
    apply_settings,
    loggers_of,
    named,
    with_settings,
)
from comity.cli.run import carry_out
from comity.errors import UserError, unknown

_SHARED = (
    *("clients", "rounds", "seed", "partition", "sizes", "split_ratio", "participation"),
    "device",
)


@with_settings({name: RUN[name] for name in _SHARED} | LOG)
def pretrain(
    *,
    algorithm: Annotated[str, typer.Argument(help="What has something to train: pfedrlla.")],
    problem: Problem = None,
    out: Annotated[Path | None, typer.Option(help="The file to write: agent.safetensors.")] = None,
    finished: Annotated[
        Path | None,
        typer.Option("--from", help="Write the agent of a finished run, and train nothing."),
    ] = None,
    values: dict[str, Any],
    settings: Set = None,
    run: Annotated[
        Path | None, typer.Option(help="Directory of the run in which it learns; must not exist.")
    ] = None,
    workers: Workers = None,
) -> None:
    """Train an agent on one federation, as a file that others take (pfedrlla.agent=FILE)."""
    from comity.algorithms.pfedrlla.pretraining import ALGORITHM
    from comity.runs.directory import Run
    from comity.runs.pretraining import check_target, save_agent, start_pretraining

    if algorithm != ALGORITHM:
        raise unknown("algorithm with something to pretrain", algorithm, [ALGORITHM])
    if out is None:
        raise UserError("out is missing: name the file to write, e.g. --out agent.safetensors.")
    check_target(out)
    callbacks = loggers_of(values)
    if finished is not None:
        trained = Run.open(finished)
    else:
        values = named(problem) | values
        apply_settings(values, settings)
        trained = start_pretraining(values, run)
        again = (
            f"comity resume {trained.path}, then: "
            f"comity pretrain {ALGORITHM} --from {trained.path} --out {out}"
        )
        title = f"{trained.configuration.problem_name}, {ALGORITHM} pretraining"
        carry_out(trained, title, Workforce(workers), go_on=again, callbacks=callbacks)
    save_agent(trained, out)
    print(f"Agent: {out} (--set {ALGORITHM}.agent={out})\nRun:   {trained.path}")
