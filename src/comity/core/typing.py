"""Names of the array types, defined once for the whole package."""

from __future__ import annotations

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
"""Arrays by name: the form in which values are saved and sent."""
Tree = dict[str, Tensor]
"""Tensors by name: of one client, or stacked with the client axis first."""
