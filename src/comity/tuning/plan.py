"""The plan of a tuning: what is tried, how often, with which seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import tomli_w

from comity.algorithms import find, name_of
from comity.configuration import (
    Configuration,
    check_complete,
    configure,
    printed_axes,
    read_toml,
)
from comity.configuration.files import read_document
from comity.errors import UserError
from comity.problems import find as find_problem
from comity.problems import plain_problem
from comity.runs.contacts import save_contacts, with_own_contacts
from comity.runs.entries import entry_values, merge
from comity.runs.places import free_path, make_directory
from comity.runs.tuning_schema import Direction
from comity.settings import Settings, build, setting
from comity.tuning.objectives import directions
from comity.tuning.sampling import check_optuna
from comity.tuning.space import Space, combinations, plain_space, read_space, settled

PLAN = "tuning.toml"
FIRST_SEED = 1001
"""First seed of a number of seeds: comparisons count from 1, so that both have different ones."""
TRIALS = 20
MOST_TRIALS = 10_000


class TuningSettings(Settings):
    """Settings of a tuning, beside those of its runs."""

    trials: int | None = setting(
        None,
        "number of trials, the settings as they are (trial 0) included; default: 20, of a grid all",
        at_least=1,
        at_most=MOST_TRIALS,
    )
    seeds: int | list[int] = setting(
        3, "runs per trial: a number of seeds, counted from 1001, or the seeds"
    )
    objectives: list[str] = setting(
        [],
        "what is good, on validation data: mean_scalarised (default), worst_scalarised, "
        "hypervolume, an objective of the problem, megabytes",
    )
    sampler: Literal["tpe", "random", "grid"] | None = setting(
        None,
        "where proposals come from: tpe (default: by the trials before), random, or grid: all "
        "combinations (default for a printed grid)",
    )
    batch: int = setting(
        4,
        "tpe: trials that are proposed together, from those before; results depend on it, and not "
        "on the number of workers",
        at_least=1,
    )
    seed: int = setting(1, "where the proposals' random numbers come from", at_least=0)


@dataclass(frozen=True)
class TuningPlan:
    """A tuning, complete: the content of ``tuning.toml``."""

    problem: str | dict[str, Any]
    algorithm: str
    """An entry of a comparison without settings: ``fedprox``, ``fedavg+clip``."""
    objectives: dict[str, Direction]
    sampler: str
    trials: int
    batch: int
    seed: int
    seeds: list[int]
    settings: dict[str, Any]
    """What all runs have in common, beside problem and algorithm."""
    over: dict[str, Any]
    """The space, as a file has it."""

    @classmethod
    def read(cls, path: Path) -> TuningPlan:
        """Return the plan in the directory of a tuning."""
        values = read_toml(path / PLAN)
        try:
            return cls(**values)
        except TypeError:
            raise UserError(f"{path / PLAN} is damaged: it is no plan of a tuning.") from None

    @property
    def common(self) -> dict[str, Any]:
        """Values of a configuration that all runs share."""
        return merge({**self.settings, "problem": self.problem}, entry_values(self.algorithm))

    def space(self) -> Space:
        """Return what is tried of each setting."""
        return read_space(self.over, self.common, PLAN)

    def configurations(self, trial: int, settings: Mapping[str, Any]) -> list[Configuration]:
        """Return the runs of a trial, one per seed.

        Args:
            trial: Its number; trial 0 has the settings as they are.
            settings: Values of the tuned settings.
        """
        values = self.common if trial == 0 else settled(self.common, settings)
        return [configure({**values, "seed": seed}) for seed in self.seeds]


def start_tuning(
    values: Mapping[str, Any],
    over: str | Path | Mapping[str, Any] | None = None,
    out: str | Path | None = None,
) -> Path:
    """Check the plan of a tuning and write it to a new directory; nothing is trained yet.

    Args:
        values: Problem, algorithm, settings of a run by name and tables of its parts, and those of
            `TuningSettings`.
        over: What is tried: a TOML file, or the same as a mapping; None: the grid that the papers
            print for this algorithm on this problem.
        out: The directory to create; default: a new one under ``runs/``.
    """
    own = {name: values[name] for name in TuningSettings.model_fields if name in values}
    tuning = build(TuningSettings, own, where="run")
    settings = {name: value for name, value in values.items() if name not in own}
    problem, algorithm = _problem(settings), _algorithm(settings)
    common = merge({**settings, "problem": problem}, entry_values(algorithm))
    first = configure({**common, "seed": FIRST_SEED})
    check_complete(first)
    ways = directions(first.get_problem(), tuning.objectives)
    document, where = _document(over, common)
    space = read_space(document, common, where)
    sampler, trials = _extent(tuning, space, printed=over is None)
    if sampler != "grid":
        check_optuna()
    if "device" in settings:  # all runs on one, also those that are resumed elsewhere
        settings["device"] = first.device
    path = Path(out) if out is not None else free_path(first.problem_name, "tune", algorithm)
    if (kept := with_own_contacts(first, path)).links is not None:
        settings["links"] = kept.links.model_dump()
    plan = TuningPlan(
        problem,
        algorithm,
        ways,
        sampler,
        trials,
        tuning.batch,
        tuning.seed,
        tuning_seeds(tuning.seeds),
        settings,
        plain_space(space),
    )
    make_directory(path, PLAN, tomli_w.dumps(asdict(plan)).encode(), "tuning")
    save_contacts(path, first)
    return path


def tuning_seeds(seeds: int | list[int]) -> list[int]:
    """Return as many seeds from 1001 on, or the given ones."""
    numbers = list(range(FIRST_SEED, FIRST_SEED + seeds)) if isinstance(seeds, int) else seeds
    if not numbers or min(numbers) < 0 or len(set(numbers)) < len(numbers):
        raise UserError(f"seeds = {seeds}: give a number of seeds, or different seeds from 0 on.")
    return list(numbers)


def _problem(settings: dict[str, Any]) -> str | dict[str, Any]:
    """Take the problem out of the settings."""
    if "problem" not in settings:
        raise UserError("problem is missing: name what is to be learned, e.g. deep-sea-treasure.")
    return plain_problem(settings.pop("problem"))


def _algorithm(settings: dict[str, Any]) -> str:
    """Take the algorithm out of the settings, as an entry without brackets."""
    entry = name_of(settings.pop("algorithm", "fedpref"))
    if "[" in entry:
        raise UserError(
            f"algorithm = {entry}: give the name alone; settings that all trials share are given "
            "with --set."
        )
    find(entry_values(entry)["algorithm"])
    return entry


def _document(
    over: str | Path | Mapping[str, Any] | None, common: Mapping[str, Any]
) -> tuple[Mapping[str, Any], str]:
    """Return what is tried, and its name for messages."""
    if isinstance(over, Mapping):
        return over, "over"
    if over is not None:
        return read_document(Path(over))[1], str(over)
    problem, algorithm = find_problem(common["problem"]), find(common["algorithm"]).declaration.name
    grid = printed_axes(problem, algorithm)
    if grid is None:
        raise UserError(
            f"over: no paper prints a grid for {algorithm} on {problem.name} (see: comity list "
            "grids). Say what to try in a TOML file, e.g. "
            f"{problem.learner}.learning_rate = {{ low = 1e-4, high = 1e-1, log = true }}, and "
            "give it with --over FILE."
        )
    return grid, f"the printed grid of {algorithm}"


def _extent(tuning: TuningSettings, space: Space, printed: bool) -> tuple[str, int]:
    """Return the sampler and the number of trials."""
    sampler, trials = tuning.sampler, tuning.trials
    if sampler is None:
        sampler = "grid" if printed and trials is None else "tpe"
    if sampler != "grid":
        return sampler, TRIALS if trials is None else trials
    if trials is not None:
        raise UserError(f"trials = {trials}: a grid tries all combinations; leave it out.")
    for name, axis in space.items():
        if axis.points() is None:
            raise UserError(f"sampler = grid: {name} has endlessly many values; give it a step.")
    count = len(combinations(space) or ())
    if count > MOST_TRIALS:
        raise UserError(f"sampler = grid: {count:,} combinations, {MOST_TRIALS:,} at most.")
    return sampler, count + 1
