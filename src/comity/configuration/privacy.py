"""Differential privacy of what clients send: the settings, and the accountant.

Before anything is encoded or sent, the update Δ of a client, which is what it would send minus what
it last received, over all tensors that travel, becomes

    Δ min(1, C / ‖Δ‖) + N(0, (z C)² I)        C: clip, z: noise

Two neighbouring federations differ in everything that one client holds: all its rows and its
preference are replaced by any others. A clipped update then moves by 2 C at most, so k updates of a
client are together one Gaussian mechanism whose noise is z / (2 √k) times the sensitivity. Each
receiver sees every update by itself and knows who took part, so nothing is taken off for drawing
participants or for summing over clients.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from comity.errors import UserError
from comity.settings import Settings, build, setting

SENSITIVITY = 2.0
"""Largest distance of two clipped updates, in lengths C."""
LEAST = 1e-6
"""Smallest epsilon and noise that are taken: beyond, nothing is private, or nothing is learned."""
_DECIMALS = 1e6  # noise is rounded up to the sixth decimal, so that epsilon is never exceeded


class Privacy(Settings):
    """Settings of differential privacy; the unit of it is everything that one client holds."""

    epsilon: float = setting(
        0.0,
        "largest epsilon of a client over the whole run; 0: noise decides",
        at_least=0,
        at_most=1e6,
    )
    noise: float = setting(
        0.0,
        "noise multiplier: standard deviation of each coordinate's noise in units of clip; filled "
        "in from epsilon",
        at_least=0,
        at_most=1e6,
    )
    delta: float = setting(
        1e-5, "probability with which epsilon may be exceeded", at_least=1e-15, below=1
    )
    clip: float = setting(
        1.0, "largest length of an update; longer ones are scaled down to it", above=0, at_most=1e6
    )

    def spent(self, updates: int) -> float:
        """Return the epsilon of a client that has sent this many updates.

        Args:
            updates: Number of updates that left the client.
        """
        if not updates:
            return 0.0
        multiplier = self.noise / (SENSITIVITY * math.sqrt(updates))
        return float(_accountant("get_epsilon_gaussian")(multiplier, self.delta))

    def with_noise(self, updates: int) -> Privacy:
        """Return the settings with the noise that keeps epsilon over some updates of a client.

        Args:
            updates: The most updates that any client sends in the run.

        Raises:
            UserError: Noise is given, too, and is too small for it.
        """
        if not self.epsilon or not updates:
            return self
        multiplier = _accountant("get_sigma_gaussian")(self.epsilon, self.delta)
        exact = float(multiplier) * SENSITIVITY * math.sqrt(updates)
        noise = math.ceil(exact * _DECIMALS) / _DECIMALS
        if not self.noise:
            return build(Privacy, {**self.model_dump(), "noise": noise}, where="privacy")
        if self.noise < exact:
            raise UserError(
                f"privacy.noise = {self.noise:g}: privacy.epsilon = {self.epsilon:g} takes at "
                f"least {noise:g} over {updates} updates of a client. Leave out one of them: noise "
                "is computed from epsilon."
            )
        return self


def read_privacy(table: Any) -> Privacy:
    """Return the settings in a table.

    Args:
        table: The values, or the settings themselves.
    """
    privacy = table if isinstance(table, Privacy) else build(Privacy, table, where="privacy")
    if not privacy.epsilon and not privacy.noise:
        raise UserError(
            "privacy: name its epsilon (--set privacy.epsilon=8), from which the noise is "
            "computed, or its noise (--set privacy.noise=1), from which epsilon follows."
        )
    for name in ("epsilon", "noise"):
        if 0 < (value := getattr(privacy, name)) < LEAST:
            raise UserError(f"privacy.{name} = {value:g}: must be at least {LEAST:g}.")
    return privacy


def _accountant(name: str) -> Callable[[float, float], float]:
    """Return a function of dp-accounting, which knows the exact curve of Gaussian mechanisms."""
    try:
        import dp_accounting
    except ImportError:
        raise UserError(
            "privacy: its accountant is the package dp-accounting: pip install 'comity[privacy]'."
        ) from None
    function: Callable[[float, float], float] = getattr(dp_accounting, name)
    return function
