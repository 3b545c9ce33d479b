"""Contents of files, as data sets have them."""

from __future__ import annotations

import io
import struct

import numpy as np
from PIL import Image


def idx(array):
    """An IDX file of bytes."""
    head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype(np.uint8).tobytes()


def encoded(pixels, kind="png", mode=None):
    """A picture's file."""
    stream = io.BytesIO()
    image = Image.fromarray(pixels)
    (image.convert(mode) if mode else image).save(stream, kind)
    return stream.getvalue()
