"""Pictures with one class each, as loaders return them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from comity.core.typing import ByteArray, IntArray
from comity.datasets.files import Images


@dataclass(frozen=True)
class Album:
    """Pictures and the class of each."""

    pixels: ByteArray
    """Pictures x channels x height x width."""
    labels: IntArray
    """Class of each picture, 0, 1, …"""
    silos: IntArray | None = None
    """Natural origin of each picture, an index into ``silo_names``."""
    silo_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """Remarks on what was done to the pictures."""


def album(parts: Sequence[Images], *notes: str) -> Album:
    """Return the images of all parts together; grey ones get a channel."""
    pixels = np.concatenate([images for images, _ in parts])
    labels = np.concatenate([labels for _, labels in parts]).astype(np.int64)
    return Album(pixels if pixels.ndim == 4 else pixels[:, None], labels, notes=notes)
