"""Patients of four hospitals, as FLamby cuts them: 740 with complete records, 13 inputs.

J. Ogier du Terrail et al., *FLamby* (NeurIPS 2022), Fed-Heart-Disease: the columns slope, ca and
thal, which three hospitals hardly record, are left out; so are patients with a missing cell in
another column. Kind of chest pain and electrocardiogram become 0/1 inputs without the first value.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from comity.core.typing import BoolArray, Float32Array, IntArray
from comity.datasets.files import damaged
from comity.datasets.shipped import DATASETS, shipped, shipped_columns

NAME = "heart-disease"
LICENCE = DATASETS[NAME].licence
TEST_FILE = "heart_disease_flamby_test_rows.csv"
TEST_SHA256 = "754e5c9324695bfd6601b5c1e8806c69ae33e08830433b3dd2fbb00e6240d8c8"
HOSPITALS = {
    "cleveland": "Cleveland",
    "hungarian": "Hungary",
    "switzerland": "Switzerland",
    "va": "Long Beach",
}
"""Names of the hospitals by their codes in the file, in FLamby's order."""
COUNTS = ((199, 104), (172, 89), (30, 16), (85, 45))
"""Rows for training and for testing of each hospital in a whole copy."""
NUMBERS = ("age", "sex", "trestbps", "chol", "fbs", "thalach", "exang", "oldpeak")
CATEGORIES = {"cp": ("2.0", "3.0", "4.0"), "restecg": ("1.0", "2.0")}
"""Values that become inputs, by column; the first one of each column has none."""
FEATURES = (*NUMBERS, *(f"{column}={value[0]}" for column, v in CATEGORIES.items() for value in v))


class Patients(NamedTuple):
    """All patients with complete records, hospital by hospital."""

    inputs: Float32Array
    """Patients x 13, as they are in the file; see `FEATURES`."""
    ill: IntArray
    """Whether each is ill, 0 or 1."""
    hospital: IntArray
    """Hospital of each, an index into `HOSPITALS`."""
    test: BoolArray
    """Whether FLamby tests on each."""


@lru_cache(maxsize=1)
def patients() -> Patients:
    """Return the shipped patients; both files are checked first."""
    columns = shipped(NAME)
    needed = (*NUMBERS, *CATEGORIES)
    complete = [row for row in range(len(columns["site"])) if all(columns[n][row] for n in needed)]
    kept = {name: np.array(columns[name])[complete] for name in (*needed, "site", "num")}
    codes = list(HOSPITALS)
    hospital = np.array([codes.index(site) for site in kept["site"].tolist()])
    inputs = [kept[name].astype(np.float32) for name in NUMBERS]
    for name, values in CATEGORIES.items():
        inputs += [(kept[name] == value).astype(np.float32) for value in values]
    test = _tested(hospital)
    sides = (~test, test)
    counts = tuple(
        tuple(int((hospital[side] == number).sum()) for side in sides)
        for number in range(len(codes))
    )
    if counts != COUNTS:
        raise damaged(NAME, f"{counts} patients for training and testing instead of {COUNTS}")
    ill = (kept["num"] != "0").astype(np.int64)
    return Patients(np.stack(inputs, axis=1), ill, hospital, test)


def _tested(hospital: IntArray) -> BoolArray:
    """Return which patients are in the file of test rows, which counts within each hospital."""
    listed, codes = shipped_columns(NAME, TEST_FILE, TEST_SHA256), list(HOSPITALS)
    test = np.zeros(len(hospital), dtype=bool)
    for site, row in zip(listed["site"], listed["row"], strict=True):
        test[np.flatnonzero(hospital == codes.index(site))[int(row)]] = True
    return test
