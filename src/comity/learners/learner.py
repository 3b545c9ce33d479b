"""What a learner is: how the clients of a fleet improve their models locally."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from comity.fleet import Fleet
from comity.local import Phase

Rows = NDArray[np.int64]
Values = dict[str, NDArray[Any]]


class Learner(Protocol):
    """Local training of some clients, all at once. ``rows`` are places in the fleet."""

    def receive(self, rows: Rows, received: Fleet) -> None:
        """Clients took over received models: adjust what the learner keeps beside the model."""

    def train(
        self, fleet: Fleet, rows: Rows, phase: Phase, start: Fleet, round: int, goal: Rows
    ) -> None:
        """Train some clients in place until each has taken ``goal`` steps since the run began."""

    def judge(
        self, fleet: Fleet, rows: Rows, purpose: str, episodes: int
    ) -> tuple[NDArray[np.float64], Rows]:
        """Objective vector of each client's model, and what judging cost in steps."""

    def restart(self, rows: Rows, models: Fleet) -> None:
        """Training of these clients went wrong: start anew from given models."""

    def companions(self) -> Fleet | None:
        """Tensors that travel beside the model, if the settings say so."""

    @property
    def steps(self) -> Rows:
        """Training steps each client has taken."""

    def state(self) -> Values: ...

    def load(self, state: Values) -> None: ...
