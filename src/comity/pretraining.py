"""Training pFedRLLA's agent on one federation, for use in others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from comity.algorithms.pfedrlla import agent_file
from comity.algorithms.pfedrlla.algorithm import PFedRLLA
from comity.algorithms.pfedrlla.pretraining import (
    ALGORITHM,
    ORIGIN,
    check_learning,
    with_defaults,
)
from comity.configuration import Configuration, configure
from comity.core.storage import strip_prefix
from comity.core.typing import OnRound
from comity.errors import UserError
from comity.problems import Problem, register
from comity.runs.directory import Run
from comity.runs.execute import check_workers, execute, free_path


def pretraining(values: Mapping[str, Any]) -> Configuration:
    """Return the configuration of a run in which an agent learns; ``values`` as for `configure`."""
    configuration = configure(with_defaults(values))
    check_learning(configuration.algorithm_settings)
    return configuration


def pretrain(
    problem: str | Problem,
    out: str | Path,
    *,
    run: str | Path | None = None,
    workers: int = 1,
    on_round: OnRound | None = None,
    **settings: Any,
) -> Path:
    """Train an agent and write it to the file ``out``, which other runs name as ``pfedrlla.agent``.

    The federation that it learns on is a run like any other, in the directory ``run`` or a new one
    under ``runs/``; ``settings`` are those of `comity.run`.
    """
    check_workers(workers)
    if isinstance(problem, Problem):
        problem = register(problem).name
    configuration = pretraining({"problem": problem, **settings})
    check_target(Path(out))
    path = Path(run) if run is not None else free_path(default_name(configuration))
    made = Run.create(path, configuration)
    return save_agent(execute(made, workers, on_round), Path(out))


def default_name(configuration: Configuration) -> str:
    return f"{configuration.problem_name}-pretraining-seed{configuration.seed}".replace(":", "-")


def check_target(out: Path) -> None:
    """Refuse a file that cannot be written, before the work and not after it."""
    if out.exists():
        raise UserError(f"out: {out} exists already. Choose another file.")
    if not out.absolute().parent.is_dir():
        raise UserError(f"out: there is no directory {out.absolute().parent}.")


def save_agent(run: Run, out: Path) -> Path:
    """The agent of a finished run of pfedrlla, as a file for others."""
    configuration = run.configuration
    found = run.load_checkpoint()
    algorithm = configuration.get_algorithm()
    if not isinstance(algorithm, PFedRLLA) or not run.finished or found is None:
        raise UserError(f"{run.path} is no finished run of {ALGORITHM}: it has no agent to save.")
    arrays, header = algorithm.agent_of(strip_prefix(found[0], "0/algorithm/"))
    origin = {name: getattr(configuration, name) for name in ORIGIN}
    agent_file.save(out, arrays, {**header, "problem": configuration.problem_name, **origin})
    return out


__all__ = ["ALGORITHM", "check_target", "default_name", "pretrain", "pretraining", "save_agent"]
