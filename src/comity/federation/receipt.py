"""What a delivery of models did at the clients that got it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from comity.core.fleet import Fleet
from comity.core.typing import BoolArray, FloatArray
from comity.federation.messages import ClientUpdate


@dataclass(frozen=True)
class Receipt:
    """Outcome of a delivery to some clients, one row per client."""

    round: int
    clients: tuple[int, ...]
    value: FloatArray | None
    """Validation vectors of the delivered models; None if nothing was delivered."""
    declined: BoolArray
    gradients: Fleet | None = None
    """Gradients that a survey took of the delivered models."""

    def only(self, clients: tuple[int, ...]) -> Receipt:
        """Return the outcome at some of its clients, in the order given."""
        index = np.array([self.clients.index(client) for client in clients], dtype=np.int64)
        survey = ClientUpdate(self.clients, self.gradients, {}).only(clients)
        value = None if self.value is None else self.value[index]
        return Receipt(self.round, clients, value, self.declined[index], survey.models)
