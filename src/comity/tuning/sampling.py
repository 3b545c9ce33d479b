"""Proposals of trials by Optuna; the only module that imports it.

A study is made anew for each batch, from the trials before it and the number of the batch, so that
no state of a sampler has to be saved: a resumed tuning proposes what the uninterrupted one does.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from comity.core.rng import stream
from comity.errors import UserError
from comity.runs.tuning_schema import Direction
from comity.tuning.space import Choices, Range, Space, rounded

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study


class Outcome(NamedTuple):
    """A trial that is over."""

    settings: Mapping[str, Any]
    values: Sequence[float] | None
    """One per objective; None where the trial has no value."""


class Sampler:
    """Proposals for one batch of trials.

    Args:
        kind: ``"tpe"`` (tree-structured Parzen estimators) or ``"random"``.
        space: What is tried of each setting.
        directions: Which values of each objective are better.
        outcomes: All trials of the batches before.
        seed: Seed of the tuning.
        batch: Number of the batch.
    """

    def __init__(
        self,
        kind: str,
        space: Space,
        directions: Sequence[Direction],
        outcomes: Sequence[Outcome],
        seed: int,
        batch: int,
    ) -> None:
        self._space = space
        self._distributions = _distributions(space)
        draw = int(stream(seed, "tuning", batch).integers(2**32))
        self._study = _study(kind, directions, draw)
        for settings, values in outcomes:
            self._tell(settings, values)

    def _tell(self, settings: Mapping[str, Any], values: Sequence[float] | None) -> None:
        """Add a trial to the study, unless its settings lie outside the space."""
        from optuna.trial import TrialState, create_trial

        for name, distribution in self._distributions.items():
            try:
                inside = distribution._contains(distribution.to_internal_repr(settings[name]))
            except (ValueError, TypeError):
                inside = False
            if not inside:
                return
        self._study.add_trial(
            create_trial(
                state=TrialState.FAIL if values is None else TrialState.COMPLETE,
                params=dict(settings),
                distributions=self._distributions,
                values=None if values is None else [float(value) for value in values],
            )
        )

    def propose(self) -> dict[str, Any]:
        """Return the settings of another trial; floats have four digits."""
        settings = self._study.ask(self._distributions).params
        return {name: self._plain(name, settings[name]) for name in self._space}

    def _plain(self, name: str, value: Any) -> Any:
        axis = self._space[name]
        if isinstance(axis, Choices) or axis.integer:
            return value
        points = axis.points()
        if points is not None:
            return min(points, key=lambda point: abs(point - value))
        return min(max(rounded(value), axis.low), axis.high)


def check_optuna() -> None:
    """Refuse to tune where Optuna is not installed."""
    if importlib.util.find_spec("optuna") is None:
        raise UserError(
            "comity tune needs Optuna: pip install 'comity[tune]'. A grid (--sampler grid) needs "
            "nothing."
        )


def _study(kind: str, directions: Sequence[Direction], seed: int) -> Study:
    import optuna
    from optuna.samplers import BaseSampler, RandomSampler, TPESampler
    from optuna.study import StudyDirection

    sampler: BaseSampler = RandomSampler(seed) if kind == "random" else TPESampler(seed=seed)
    ways = [
        StudyDirection.MAXIMIZE if each == "higher" else StudyDirection.MINIMIZE
        for each in directions
    ]
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # a line per study is no news here
    try:
        return optuna.create_study(directions=ways, sampler=sampler)
    finally:
        optuna.logging.set_verbosity(level)


def _distributions(space: Space) -> dict[str, BaseDistribution]:
    return {name: _distribution(axis) for name, axis in space.items()}


def _distribution(axis: Choices | Range) -> BaseDistribution:
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    if isinstance(axis, Choices):
        return CategoricalDistribution(axis.values)
    points = axis.points()
    high = axis.high if points is None else points[-1]  # a whole number of steps above low
    if axis.integer:
        step = 1 if axis.step is None else int(axis.step)
        return IntDistribution(int(axis.low), int(high), log=axis.log, step=step)
    return FloatDistribution(axis.low, high, log=axis.log, step=axis.step)
