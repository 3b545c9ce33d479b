from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from comity.datasets.shipped import DATASETS, dataset, shipped
from comity.errors import UserError
from comity.problems import find


@pytest.mark.parametrize(
    ("name", "rows", "features", "numbers", "positives", "groups"),
    [
        ("adult", 48842, 107, 5, 11687, {"gender": [16192, 32650], "race": [7080, 41762]}),
        ("compas", 7214, 456, 5, 7214 - 3251, {"gender": [1395, 5819], "race": [3696, 3518]}),
        ("law-school", 21791, 23, 3, 19360, {"gender": [9537, 12254], "race": [3506, 18285]}),
        ("credit-default", 30000, 31, 20, 6636, {"gender": [18112, 11888], "age": [3871, 26129]}),
        ("bank-marketing", 45211, 38, 6, 5289, {"age": [1997, 43214], "marital": [17997, 27214]}),
        ("german-credit", 1000, 61, 7, 700, {"gender": [310, 690], "age": [190, 810]}),
        ("heart-disease", 920, 33, 8, 509, {"gender": [194, 726]}),
    ],
)
def test_every_data_set_has_its_known_counts(name, rows, features, numbers, positives, groups):
    table = dataset(name)
    assert table.inputs.shape == (rows, features) == (len(table.label), len(table.features))
    assert np.isfinite(table.inputs).all()
    assert (table.numeric.shape, table.numeric.sum()) == ((features,), numbers)
    assert table.label.sum() == positives
    assert {key: np.bincount(codes).tolist() for key, codes in table.sensitive.items()} == groups
    assert set(table.attribute_values) == set(DATASETS[name].attributes)
    assert dataset(name) is table


def test_groups_are_those_of_the_data():
    """The share of the label in each group, counted by other means."""
    adult = dataset("adult")
    assert adult.attribute_values == {"gender": ("female", "male"), "race": ("not white", "white")}
    women = adult.sensitive["gender"] == 0
    assert (adult.inputs[:, adult.features.index("sex=Female")] == women).all()
    assert adult.label[women].sum() == 1769
    assert adult.inputs[0, :2].tolist() == [39, 0]
    law = dataset("law-school")
    assert (
        law.label[law.sensitive["race"] == 0].mean() < law.label[law.sensitive["race"] == 1].mean()
    )
    compas = dataset("compas")
    black = compas.sensitive["race"] == 0
    assert (~compas.label[black].astype(bool)).sum() == 1901


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("adult", {"fnlwgt", "split", "income"}),
        ("compas", {"id", "decile_score", "is_recid", "two_year_recid"}),
        ("law-school", {"sander_index", "first_pf"}),
        ("credit-default", {"ID"}),
        ("bank-marketing", {"day", "month", "y"}),
        ("heart-disease", {"site", "num"}),
    ],
)
def test_what_must_not_be_learned_from_is_no_input(name, inputs):
    assert inputs.isdisjoint(feature.partition("=")[0] for feature in dataset(name).features)


def test_heart_disease_is_a_federation_of_four_hospitals():
    table = dataset("heart-disease")
    assert table.silo_names == ("cleveland", "hungarian", "switzerland", "va")
    assert np.bincount(table.silos).tolist() == [303, 294, 123, 200]
    assert np.bincount(table.silos, weights=table.label).tolist() == [139, 106, 115, 149]
    unknown = table.inputs[:, table.features.index("chol missing")] == 1
    assert np.bincount(table.silos[unknown]).tolist() == [0, 23, 123, 56]
    assert any("ca (611)" in note for note in table.notes)


def test_law_school_has_ten_regions_one_row_aside():
    table = dataset("law-school")
    assert len(table.silo_names) == 10
    assert np.bincount(table.silos)[table.silo_names.index("NE")] == 4302 + 1
    assert any("PO" in note for note in table.notes)


def test_an_unknown_name_is_refused():
    with pytest.raises(UserError, match=r"unknown data set 'adlut'\. Did you mean 'adult'\?"):
        dataset("adlut")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sha256": "0" * 64}, "heart_disease_4_hospitals.csv.gz is absent or not the file"),
        ({"file": "nowhere.csv.gz"}, "nowhere.csv.gz is absent"),
        ({"rows": 921}, "920 rows instead of 921"),
        ({"positives": 500}, "509 positives instead of 500"),
        ({"counts": {"gender": {"female": 193}}}, "194 female instead of 193"),
        ({"counts": {"silo": {"va": 201}}}, "200 va instead of 201"),
    ],
)
def test_a_damaged_copy_is_refused(monkeypatch, change, message):
    monkeypatch.setitem(DATASETS, "damaged", replace(DATASETS["heart-disease"], **change))
    with pytest.raises(UserError, match=rf"damaged: its copy is damaged \({message}"):
        dataset("damaged")


@pytest.mark.parametrize("name", ["adult", "law-school", "credit-default", "heart-disease"])
def test_rows_of_the_shipped_file_are_encoded_as_they_were(name):
    """Codes are renamed on the way, and 0 for an unknown cholesterol is missing, too."""
    table, columns = dataset(name), shipped(name)
    del columns[DATASETS[name].label]
    last = {column: cells[-100:] for column, cells in columns.items()}
    np.testing.assert_array_equal(table.encode(last), table.inputs[-100:])
    np.testing.assert_array_equal(table.encode(columns), table.inputs)


def test_a_fairness_problem_encodes_new_people():
    problem = pickle.loads(pickle.dumps(find("heart-disease-gender-dp")))
    columns = shipped("heart-disease")
    np.testing.assert_array_equal(problem.encode(columns), problem.samples().columns["inputs"])
    with pytest.raises(UserError, match=r"row 2, column 'cp' is '9.0', .* no symptoms"):
        problem.encode(columns | {"cp": ["9.0"] * 920})
