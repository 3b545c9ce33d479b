"""The hello: before the first round, sites say who they are, and tell scales if they must.

Columns whose scale is ``federated`` are scaled by the training rows of all sites. Each site tells
count, sum and sum of squares per column, once; the server answers with mean and spread.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from comity.core.envelope import STATISTICS
from comity.core.typing import FloatArray
from comity.federation.wire import SERVER, Kind, Message, WireError
from comity.version import __version__

HELLO_ROUND = 0
"""Round of messages before the first round."""
_SCALES = f"{STATISTICS}scales"
_VERSIONS = ("comity", "torch", "python", "machine")
_MOST = 1e300  # a scale beyond this is nonsense
_MOST_TOLD = 1e100  # a count or sum beyond this, too: float32 values have smaller squares


@dataclass(frozen=True)
class Greeting:
    """A site's answer to the hello."""

    versions: Mapping[str, str]
    """Versions of what decides bits."""
    scales: FloatArray | None
    """Count, sum and sum of squares of each federated column (3 x columns), if any."""


def versions() -> dict[str, str]:
    """Return the versions of what decides bits here."""
    values = (__version__, torch.__version__, platform.python_version(), platform.machine())
    return dict(zip(_VERSIONS, values, strict=True))


def hello_message() -> Message:
    """Return the server's first message."""
    return Message(Kind.REQUEST, SERVER, HELLO_ROUND, 0, {"exchange": "hello"})


def begin_message(scales: Mapping[str, tuple[float, float]]) -> Message:
    """Return the message that tells the scales of columns.

    Args:
        scales: Mean and spread by column.
    """
    pairs = {name: list(scale) for name, scale in scales.items()}
    control = {"exchange": "begin", "scales": pairs}
    return Message(Kind.REQUEST, SERVER, HELLO_ROUND, 1, control)


def greeting_message(
    client: int, request: Message, answers: str, scales: FloatArray | None = None
) -> Message:
    """Return a site's answer to the hello or to the scales.

    Args:
        client: Number of the client.
        request: The server's message.
        answers: Its checksum.
        scales: What the site tells, if it is asked for scales.
    """
    arrays = {} if scales is None else {_SCALES: scales[None]}
    control = {"answers": answers, "versions": versions()}
    return Message(Kind.UPDATE, client, HELLO_ROUND, request.sequence, control, arrays)


def greeting_of(message: Message, columns: int = 0) -> Greeting:
    """Return the greeting in a message.

    Args:
        message: The message of a site.
        columns: Number of columns whose scales the site is asked for.

    Raises:
        WireError: the message is no such greeting.
    """
    versions: Any = message.control.get("versions")
    if set(message.control) != {"answers", "versions"}:
        raise WireError("control fields")
    if not isinstance(versions, dict) or set(versions) != set(_VERSIONS):
        raise WireError("versions")
    if not all(isinstance(value, str) and len(value) < 100 for value in versions.values()):
        raise WireError("versions")
    if set(message.arrays) != ({_SCALES} if columns else set()):
        raise WireError("arrays: unknown")
    if not columns:
        return Greeting(versions, None)
    scales = message.arrays[_SCALES]
    if scales.dtype != np.float64 or scales.shape != (1, 3, columns) or not _possible(scales[0]):
        raise WireError("scales")
    return Greeting(versions, scales[0])


def _possible(scales: FloatArray) -> bool:
    """Return whether there can be rows with these counts, sums and sums of squares."""
    count, total, squares = scales
    if not np.isfinite(scales).all() or (np.abs(scales) > _MOST_TOLD).any():
        return False
    if (count < 1).any() or (count != count[0]).any() or count[0] != np.floor(count[0]):
        return False
    # the mean of squares is at least the square of the mean, but for what rounding takes
    return bool((squares * (1 + 1e-9) >= total * (total / count)).all())


def scales_of(message: Message) -> dict[str, tuple[float, float]]:
    """Return the scales that the server tells.

    Raises:
        WireError: the message has no scales.
    """
    pairs: Any = message.control.get("scales")
    if not isinstance(pairs, dict):
        raise WireError("scales")
    scales: dict[str, tuple[float, float]] = {}
    for name, scale in pairs.items():
        numbers = isinstance(scale, list) and len(scale) == 2
        if not numbers or not all(type(value) in (float, int) for value in scale):
            raise WireError("scales")
        mean, spread = scale
        if not (abs(mean) < _MOST and 0 < spread < _MOST):
            raise WireError("scales")
        scales[name] = float(mean), float(spread)
    return scales
