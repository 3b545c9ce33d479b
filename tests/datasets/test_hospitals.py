"""The patients of four hospitals, against an independent reading and FLamby's own cut."""

from __future__ import annotations

import csv
import gzip
from importlib.resources import files

import numpy as np
import pytest

from comity.datasets import hospitals as module
from comity.datasets.hospitals import COUNTS, FEATURES, HOSPITALS, patients
from comity.errors import UserError

LEFT_OUT = ("slope", "ca", "thal")


def complete() -> list[dict[str, str]]:
    """Rows without a missing cell but in the three columns that are left out."""
    path = files("comity.datasets.data") / "heart_disease_4_hospitals.csv.gz"
    with path.open("rb") as raw, gzip.open(raw, "rt") as file:
        rows = list(csv.DictReader(file))
    return [r for r in rows if all(value for name, value in r.items() if name not in LEFT_OUT)]


def test_patients_are_those_with_complete_records():
    rows, people = complete(), patients()
    assert people.inputs.shape == (740, 13) == (len(rows), len(FEATURES))
    codes = list(HOSPITALS)
    assert [codes[number] for number in people.hospital] == [row["site"] for row in rows]
    assert people.ill.tolist() == [int(row["num"] != "0") for row in rows]
    for name in ("age", "sex", "trestbps", "chol", "fbs", "thalach", "exang", "oldpeak"):
        column = people.inputs[:, FEATURES.index(name)]
        np.testing.assert_allclose(column, [float(row[name]) for row in rows], rtol=1e-6)
    for feature in FEATURES[8:]:
        name, _, value = feature.partition("=")
        expected = [float(row[name] == f"{value}.0") for row in rows]
        assert people.inputs[:, FEATURES.index(feature)].tolist() == expected


def test_the_cut_is_the_published_one():
    """FLamby draws 34 % of each hospital with scikit-learn and seed 43, by label if it can."""
    selection = pytest.importorskip("sklearn.model_selection")
    people = patients()
    for number, (train, test) in enumerate(COUNTS):
        rows = np.flatnonzero(people.hospital == number)
        ill = people.ill[rows]
        few = min(np.bincount(ill, minlength=2)) <= 2  # all but one are ill in Switzerland
        assert few == (number == 2)
        drawn = selection.train_test_split(
            np.arange(len(rows)),
            test_size=1 - 0.66,
            train_size=0.66,
            random_state=43,
            stratify=None if few else ill,
        )
        assert [len(part) for part in drawn] == [train, test]
        assert sorted(drawn[1]) == np.flatnonzero(people.test[rows]).tolist()


def test_a_damaged_copy_is_refused(monkeypatch):
    monkeypatch.setattr(module, "COUNTS", ((200, 103), *COUNTS[1:]))
    with pytest.raises(UserError, match=r"heart-disease: its copy is damaged.*199, 104"):
        patients.__wrapped__()
    monkeypatch.setattr(module, "TEST_SHA256", "0" * 64)
    with pytest.raises(UserError, match=r"flamby_test_rows\.csv is absent or not the file"):
        patients.__wrapped__()
