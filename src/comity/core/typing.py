"""Names for the array types that everything shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

AnyArray = NDArray[Any]
FloatArray = NDArray[np.float64]
Float32Array = NDArray[np.float32]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
ByteArray = NDArray[np.uint8]
NamedArrays = dict[str, AnyArray]
"""Arrays by name: what is saved and what travels."""
Tree = dict[str, Tensor]
"""One client's tensors by name."""
OnRound = Callable[[int, int, str], None]
"""Called after each round with rounds done, rounds in all, and a short text."""
