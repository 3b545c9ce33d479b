"""Statlog's Landsat table: light from the ground in four bands, and what the ground is.

A row is a square of 3 x 3 pixels of one scene; the label is the ground of the pixel in the middle.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from comity.core.typing import Float32Array, IntArray
from comity.datasets.files import damaged
from comity.datasets.reading import Columns
from comity.datasets.schema import Column, column_findings, refuse
from comity.datasets.shipped import shipped_columns

NAME = "statlog-landsat"
FILE = "statlog_landsat.csv.gz"
SHA256 = "a8ff85ce970cd9f61b275e0c3ee674ce78c2e4b22c9ddb91fa2e25481f2a8442"
LICENCE = "CC BY 4.0"
FEATURES = tuple(f"p{pixel}b{band}" for pixel in range(9) for band in range(4))
"""Columns of the inputs: pixels from the upper left to the lower right, four bands each."""
GROUNDS = {
    "1": "red soil",
    "2": "cotton crop",
    "3": "grey soil",
    "4": "damp grey soil",
    "5": "soil with vegetation stubble",
    "7": "very damp grey soil",
}
"""Kinds of ground by their codes in the file; code 6, a mixture, does not occur."""
COUNTS = (1_533, 703, 1_358, 626, 707, 1_508)
"""Rows of each kind in a whole copy."""
TEST = 2_000
"""Rows of the official test part in a whole copy."""


class Scene(NamedTuple):
    """The rows of the table."""

    inputs: Float32Array
    """Rows x 36, brightness from 0 to 255; see `FEATURES`."""
    ground: IntArray
    """Kind of ground of each row, an index into `GROUNDS`."""
    test: IntArray
    """Whether each row is of the official test part, 0 or 1."""


@lru_cache(maxsize=1)
def landsat() -> Scene:
    """Return the shipped table; its copy is checked first."""
    columns = shipped_columns(NAME, FILE, SHA256)
    codes = list(GROUNDS)
    ground = np.array([codes.index(code) for code in columns["label"]])
    test = np.array([part == "test" for part in columns["split"]], dtype=np.int64)
    counts = tuple(np.bincount(ground).tolist())
    if (counts, int(test.sum())) != (COUNTS, TEST):
        raise damaged(NAME, f"{list(counts)} rows per kind of ground, {test.sum():,} for testing")
    return Scene(brightness(columns), ground, test)


def brightness(columns: Columns) -> Float32Array:
    """Return the inputs of rows (rows x 36), from the columns of a file like the shipped one.

    Args:
        columns: Columns as `read_columns` gives them; others than `FEATURES` are not used.
    """
    inputs = [Column(name) for name in FEATURES]
    refuse(column_findings(inputs, columns), f"new rows of {NAME}")
    return np.concatenate([column.encoding.inputs(columns[column.name]) for column in inputs], 1)
