"""The models of all clients handed to everybody, after the last round of some algorithms."""

from __future__ import annotations

import numpy as np
import torch

from comity.algorithms import Algorithm
from comity.core.fleet import Fleet
from comity.federation.messages import ClientUpdate


def ensembled(algorithm: Algorithm, update: ClientUpdate, clients: int) -> Fleet:
    """Return what clients get of the models that all hand over, the same in each row.

    Args:
        algorithm: An algorithm that ensembles.
        update: The models that clients hand over, and the sizes of their data. Those that are not
            finite count for nothing.
        clients: Number of clients.
    """
    assert update.models is not None
    sound = update.models.finite()
    models = update.models.clone()
    broken = np.flatnonzero(~sound)  # a weight of zero would not remove what is not finite
    models.put(broken, Fleet({k: torch.zeros_like(t[broken]) for k, t in models.tensors.items()}))
    tensors = algorithm.ensemble(models, np.where(sound, update.statistics["size"], 0.0))
    return Fleet({k: t.expand(clients, *t.shape) for k, t in tensors.items()})
