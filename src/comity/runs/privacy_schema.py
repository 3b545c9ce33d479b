"""Schema of what is written about differential privacy."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class PrivacyResult(TypedDict):
    """Epsilon and delta of a run; the unit is everything that one client holds."""

    epsilon: float
    """That of the client which sent most updates."""
    delta: float
    noise: float
    """Noise multiplier: standard deviation of each coordinate's noise in units of ``clip``."""
    clip: float
    updates: int
    """The most updates that a client sent."""
    per_client: NotRequired[list[float]]
    """Epsilon of each client, where they differ."""
    simulated: bool
    """Whether noise came from the run's seed, so that nothing is private."""
