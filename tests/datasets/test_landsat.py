from __future__ import annotations

import csv
import gzip
from importlib.resources import files

import numpy as np
import pytest

from comity.datasets import landsat as module
from comity.datasets.landsat import COUNTS, FEATURES, GROUNDS, brightness, landsat
from comity.errors import UserError


def rows():
    """The rows of the shipped file, read by other means."""
    packed = (files("comity.datasets.data") / module.FILE).read_bytes()
    return list(csv.DictReader(gzip.decompress(packed).decode().splitlines()))


def test_the_table_is_that_of_the_file():
    scene, expected = landsat(), rows()
    assert scene.inputs.shape == (6435, 36) == (len(expected), len(FEATURES))
    assert scene.inputs[0, :5].tolist() == [92, 115, 120, 94, 84]
    np.testing.assert_array_equal(scene.inputs[-1], [float(expected[-1][n]) for n in FEATURES])
    names = list(GROUNDS)
    assert [names[code] for code in scene.ground] == [row["label"] for row in expected]
    assert np.bincount(scene.ground).tolist() == [1533, 703, 1358, 626, 707, 1508]
    assert list(GROUNDS.values())[np.bincount(scene.ground).argmin()] == "damp grey soil"
    assert scene.test.sum() == 2000
    assert np.bincount(scene.ground[scene.test == 1]).tolist() == [461, 224, 397, 211, 237, 470]
    assert landsat() is scene


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("SHA256", "0" * 64, "statlog_landsat.csv.gz is absent or not the file"),
        ("FILE", "nowhere.csv.gz", "nowhere.csv.gz is absent"),
        ("COUNTS", (*COUNTS[:-1], 1), r"\[1533, 703, 1358, 626, 707, 1508\] rows per kind"),
        ("TEST", 1999, "2,000 for testing"),
    ],
)
def test_a_damaged_copy_is_refused(monkeypatch, name, value, message):
    monkeypatch.setattr(module, name, value)
    with pytest.raises(UserError, match=f"statlog-landsat: its copy is damaged .*{message}"):
        landsat.__wrapped__()


def test_new_rows_need_all_bands_as_numbers():
    columns = {name: ["50", str(number)] for number, name in enumerate(FEATURES)}
    assert brightness({**columns, "label": ["?", "?"]}).tolist() == [[50] * 36, list(range(36))]
    del columns["p8b3"]
    columns["p0b1"] = ["50", "dark"]
    with pytest.raises(UserError, match=r"'p0b1' must be a number, got 'dark'.*'p8b3' is absent"):
        brightness(columns)
