"""Differential privacy on a client: its update is clipped, and noised before it leaves.

The formula and what it promises are in `comity.configuration.privacy`. The base of an update is
what the client last received, which everybody may know; what is encoded afterwards, fed back or
mixed is computed from noised updates alone. An update that is not finite counts as none, so that
even a broken model tells nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import numpy as np
import torch

from comity.configuration import Configuration
from comity.configuration.privacy import Privacy
from comity.core.devices import in_double
from comity.core.fleet import Fleet
from comity.core.rng import stream
from comity.core.typing import FloatArray

Draw = Callable[[int, int, int], FloatArray]
"""Takes round, client and count; returns as many independent standard normal numbers."""


def drawn_from_seed(seed: int) -> Draw:
    """Return the noise of a simulation, which everybody can repeat who knows the seed.

    Args:
        seed: Seed of the run.
    """

    def draw(number: int, client: int, count: int) -> FloatArray:
        return stream(seed, "privacy", number, client).standard_normal(count)

    return draw


def drawn_from_entropy(number: int, client: int, count: int) -> FloatArray:
    """Return the noise of a site, from the random bytes of its operating system.

    Args:
        number: The round, which does not count.
        client: The client, which does not count.
        count: How many numbers.
    """
    from scipy.special import ndtri  # slow to import, and few runs need it

    bits = np.frombuffer(os.urandom(8 * count), dtype=np.uint64) >> np.uint64(11)
    normal: FloatArray = ndtri((bits.astype(np.float64) + 0.5) * 2.0**-53)
    return normal


class Mechanism:
    """The Gaussian mechanism of some clients.

    Args:
        privacy: Clip and noise.
        draw: Draws standard normal numbers.
    """

    def __init__(self, privacy: Privacy, draw: Draw) -> None:
        self._clip, self._deviation = privacy.clip, privacy.clip * privacy.noise
        self._draw = draw

    def released(self, number: int, clients: Sequence[int], models: Fleet, base: Fleet) -> Fleet:
        """Return base + clipped update + noise of each client, in float64 and rounded once.

        Args:
            number: The round.
            clients: The clients.
            models: What they would send, one row per client.
            base: What they last received, one row per client.
        """
        tensors = {name: torch.empty_like(tensor) for name, tensor in models.tensors.items()}
        for row, client in enumerate(clients):
            start = _flat(base, tuple(tensors), row)
            update = _flat(models, tuple(tensors), row) - start
            noise = self._deviation * self._draw(number, client, len(update))
            moved = torch.from_numpy(start + self._clipped(update) + noise)
            place = 0
            for tensor in tensors.values():
                count = tensor[row].numel()
                tensor[row] = moved[place : place + count].reshape(tensor[row].shape)
                place += count
        return Fleet(tensors)

    def _clipped(self, update: FloatArray) -> FloatArray:
        if not np.isfinite(update).all():
            return np.zeros_like(update)
        length = float(np.linalg.norm(update))
        return update if length <= self._clip else update * (self._clip / length)


def mechanism_of(configuration: Configuration, draw: Draw | None) -> Mechanism | None:
    """Return the mechanism of a run's clients; None without differential privacy.

    Args:
        configuration: The run's configuration.
        draw: Draws standard normal numbers; None: from the run's seed.
    """
    if configuration.privacy is None or not configuration.get_algorithm().communicates:
        return None
    return Mechanism(configuration.privacy, draw or drawn_from_seed(configuration.seed))


def _flat(models: Fleet, names: Sequence[str], row: int) -> FloatArray:
    """Return a client's tensors as one vector."""
    return np.concatenate([in_double(models[name][row]).ravel() for name in names])
