"""Model selection of clients: which model is kept, and when a delivered one is declined.

``keep = best`` keeps the best validated model: of each client by itself, or, with ``keep_scope =
federation``, of one round for all, which the server chooses by the validation that clients report.
``guard`` lets a client decline a delivered model that does worse on its validation than its own.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from comity.configuration import Configuration
from comity.core.fleet import Fleet
from comity.core.storage import strip_prefix
from comity.core.typing import BoolArray, FloatArray, IntArray, NamedArrays

Reach = Callable[[IntArray, FloatArray], FloatArray]
"""(rows, validation vectors): hypervolume of what each client's present model reaches."""


class ModelSelection:
    """Kept models of some clients, and the values by which they are chosen.

    Args:
        configuration: The run's configuration (``keep``, ``keep_scope``, ``guard``).
        preferences: Preferences of these clients, one row per client.
        models: The models that the clients start from.
        reach: Hypervolume of the clients' present models.
        conditional: Models take any preference, so a client chooses by hypervolume.
        after_training: The server chooses a round by the trained models, not the delivered ones.
    """

    def __init__(
        self,
        configuration: Configuration,
        preferences: FloatArray,
        models: Fleet,
        reach: Reach,
        *,
        conditional: bool,
        after_training: bool,
    ) -> None:
        count, objectives = preferences.shape
        self._preferences, self._reach = preferences, reach
        self._conditional, self._after_training = conditional, after_training
        self._guard, self._together = configuration.guard, configuration.keeps_together
        self.kept = models.clone()
        self.kept_value = np.full((count, objectives), -np.inf)
        """Validation vectors of the kept models."""
        self.kept_worth = np.full(count, -np.inf)
        """Values of the kept models to their clients: scalarised, or hypervolumes."""
        self._own_value = np.full((count, objectives), -np.inf)
        self._start_value = np.full((count, objectives), -np.inf)
        self._reported = np.full(count, np.nan)

    def declines(self, rows: IntArray, value: FloatArray) -> BoolArray:
        """Return which clients decline delivered models with these validation vectors."""
        if not self._guard:
            return np.zeros(len(rows), dtype=bool)
        preference = self._preferences[rows]
        return scores(value, preference) < scores(self._own_value[rows], preference)

    def received(self, rows: IntArray, value: FloatArray, declined: BoolArray) -> None:
        """Note the validation vectors of delivered models, and who declined them."""
        accepted = np.flatnonzero(~declined)
        self._own_value[rows[accepted]] = value[accepted]
        self._start_value[rows] = value

    def trained(self, rows: IntArray, value: FloatArray) -> None:
        """Note the validation vectors after local training."""
        self._own_value[rows] = value

    def validated(self, rows: IntArray, models: Fleet, value: FloatArray, delivered: bool) -> None:
        """Keep each client's model if it is its best so far.

        Where the server chooses the round to keep, only the hypervolume to report is noted: of
        delivered models or, if the algorithm says so, of trained ones.

        Args:
            rows: Rows of the clients in the fleet.
            models: Their present models, one row per client.
            value: Validation vectors of these models.
            delivered: The models were just delivered, not trained.
        """
        if self._together:
            if delivered != self._after_training:
                # a model that is not finite may still score
                self._reported[rows] = np.where(models.finite(), self._reach(rows, value), np.nan)
            return
        worth = self._worth(rows, value)
        better = np.flatnonzero((worth > self.kept_worth[rows]) & models.finite())
        self.kept.put(rows[better], models.select(better))
        self.kept_value[rows[better]] = value[better]
        self.kept_worth[rows[better]] = worth[better]

    def keep_round(self, rows: IntArray, models: Fleet, start: Fleet) -> None:
        """Keep the models whose validation was reported: the server has chosen this round.

        Args:
            rows: Rows of the clients in the fleet.
            models: All present models of the fleet.
            start: All models of the fleet as the round began.
        """
        trained = self._after_training
        self.kept.put(rows, (models if trained else start).select(rows))
        self.kept_value[rows] = (self._own_value if trained else self._start_value)[rows]

    def handed_over(self, rows: IntArray, value: FloatArray) -> None:
        """Note the validation vectors of kept models that were put there without validation."""
        self.kept_value[rows], self.kept_worth[rows] = value, self._worth(rows, value)

    def rolled_back(self, rows: IntArray) -> None:
        """Forget the value of models that these clients no longer hold."""
        self._own_value[rows] = -np.inf

    def statistics(self, rows: IntArray) -> dict[str, FloatArray]:
        """Return what the server needs to choose the round that is kept for all."""
        return {"validation": self._reported[rows]} if self._together else {}

    def _worth(self, rows: IntArray, value: FloatArray) -> FloatArray:
        if self._conditional:
            return self._reach(rows, value)
        return scores(value, self._preferences[rows])

    # -- persistence -----------------------------------------------------------------------

    _ARRAYS = ("kept_value", "kept_worth", "_own_value", "_start_value", "_reported")

    def state(self) -> NamedArrays:
        """Return everything that is remembered between rounds, client first."""
        values = {name.strip("_"): getattr(self, name) for name in self._ARRAYS}
        return values | {
            f"kept/{name}": t.numpy(force=True) for name, t in self.kept.tensors.items()
        }

    def load(self, state: NamedArrays) -> None:
        """Restore what `state` returned."""
        for name in self._ARRAYS:
            setattr(self, name, state[name.strip("_")].copy())
        for name, array in strip_prefix(state, "kept/").items():
            self.kept[name].copy_(torch.from_numpy(array))


def scores(values: FloatArray, preferences: FloatArray) -> FloatArray:
    """Return scalarised values; minus infinity stays so even where a preference is zero."""
    unknown: BoolArray = np.asarray(np.isneginf(values).any(axis=1))
    products = np.where(unknown[:, None], 0.0, values) * preferences
    return np.where(unknown, -np.inf, products.sum(axis=1))
