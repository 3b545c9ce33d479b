"""Pretraining of pFedRLLA's agent: a run in which it learns, and a file that other runs take."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from comity.algorithms.pfedrlla import PFedRLLA, agent_file
from comity.algorithms.pfedrlla.pretraining import (
    ALGORITHM,
    ORIGIN,
    check_learning,
    with_defaults,
)
from comity.configuration import Configuration, check_complete, configure
from comity.errors import UserError
from comity.runs.directory import Run
from comity.runs.places import free_path


def configure_pretraining(values: Mapping[str, Any]) -> Configuration:
    """Return the configuration of a run in which an agent learns; ``values`` as for any run."""
    configuration = configure(with_defaults(values))
    check_learning(configuration.algorithm_settings)
    return configuration


def start_pretraining(values: Mapping[str, Any], out: str | Path | None = None) -> Run:
    """Configure a run in which an agent learns and create its directory.

    Args:
        values: Settings as a TOML file holds them: see `configure`.
        out: The directory to create; default: a new one under ``runs/``.
    """
    configuration = configure_pretraining(values)
    check_complete(configuration)
    if out is None:
        seed = f"seed{configuration.seed}"
        out = free_path(configuration.problem_name, "pretraining", seed)
    return Run.create(Path(out), configuration)


def check_target(out: Path) -> None:
    """Refuse a file that cannot be written, before the agent is trained."""
    if out.exists():
        raise UserError(f"out: {out} exists already. Choose another file.")
    if not out.absolute().parent.is_dir():
        raise UserError(f"out: there is no directory {out.absolute().parent}.")


def save_agent(run: Run, out: Path) -> Path:
    """Write the agent of a finished run of pfedrlla to a file for other runs; return the file."""
    configuration = run.configuration
    algorithm = configuration.get_algorithm()
    if not isinstance(algorithm, PFedRLLA) or not run.finished or not run.server_arrays:
        raise UserError(f"{run.path} is no finished run of {ALGORITHM}: it has no agent to save.")
    arrays, header = algorithm.agent_of(run.server_arrays)
    origin = {name: getattr(configuration, name) for name in ORIGIN}
    agent_file.save(out, arrays, {**header, "problem": configuration.problem_name, **origin})
    return out
