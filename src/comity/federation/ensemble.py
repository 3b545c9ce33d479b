"""The models of all clients handed to everybody, after the last round of some algorithms."""

from __future__ import annotations

import numpy as np
import torch

from comity.algorithms import Algorithm
from comity.core.fleet import Fleet
from comity.federation.checks import Checks
from comity.federation.messages import ClientUpdate
from comity.federation.record import RoundRecord


def ensembled(
    algorithm: Algorithm, update: ClientUpdate, clients: int, checks: Checks, record: RoundRecord
) -> Fleet:
    """Return what clients get of the models that all hand over, the same in each row.

    Args:
        algorithm: An algorithm that ensembles.
        update: The models that clients hand over, and the sizes of their data. Those that are not
            usable count for nothing.
        clients: Number of clients.
        checks: The checks of the server.
        record: The record of the last delivery, which names those that are not usable.
    """
    assert update.models is not None
    sound = checks.sound(update, None, record.round, record.events)
    models = update.models.clone()
    broken = np.flatnonzero(~sound)  # a weight of zero would not remove what is not finite
    models.put(broken, Fleet({k: torch.zeros_like(t[broken]) for k, t in models.tensors.items()}))
    senders = np.array(update.clients)[sound].tolist()
    sizes = np.zeros(len(sound))
    sizes[sound] = checks.sizes(
        senders, update.statistics["size"][sound], record.round, record.events
    )
    tensors = algorithm.ensemble(models, sizes)
    return Fleet({k: t.expand(clients, *t.shape) for k, t in tensors.items()})
