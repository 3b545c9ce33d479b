"""Lists: the taxonomy has everything once, the grids are those that are printed."""

from __future__ import annotations

import pytest

from comity.algorithms import algorithms, taxonomy
from comity.algorithms.base import algorithm
from comity.algorithms.wrappers import wrappers
from comity.cli.listing import catalogue

SURVEYED = {  # thesis, tables 2.1 and 2.2: label and level of those that are shipped
    "fedmgda-plus": ("clients as objectives", "federation"),
    "fsmgda": ("single solution", "client"),
    "fedcmoo": ("single solution", "client"),
    "comity search": ("server-led", "client"),
    "fedpref": ("preference-driven", "client"),
}


def test_everything_that_is_shipped_is_in_the_taxonomy_once():
    cells = catalogue("taxonomy")
    shipped = [work["shipped_as"] for cell in cells for work in cell["works"] if work["shipped_as"]]
    names = [*algorithms(), *(f"ALGORITHM+{name}" for name in wrappers()), "comity search"]
    assert sorted(shipped) == sorted(names)
    places = {
        work["shipped_as"]: (cell["label"], cell["level"])
        for cell in cells
        for work in cell["works"]
    }
    assert {name: places[name] for name in SURVEYED} == SURVEYED


def test_works_that_are_not_shipped_are_in_the_cells_of_the_survey():
    cells = {cell["label"]: cell for cell in catalogue("taxonomy")}
    others = {
        label: [work["name"] for work in cell["works"] if work["shipped_as"] is None]
        for label, cell in cells.items()
    }
    assert others["offline hyper-parameter tuning"] == ["Kan24b", "Mor24", "Gen24"]
    assert others["multi-criteria aggregation"] == ["Meh22"]
    assert others["multi-task"] == ["FedMTL"]
    assert sum(map(len, others.values())) == len(taxonomy.works()) == 15
    assert [label for label, cell in cells.items() if not cell["explored"]] == [
        "client-led",
        "fully distributed",
    ]


def test_a_place_that_is_no_cell_is_refused():
    words = {"title": "x", "paper": "x", "method": "x", "communication": "x"}
    with pytest.raises(ValueError, match=r"'somewhere': must be one of .*'single solution'"):
        algorithm("lost", place="somewhere", **words)


def test_grids_have_as_many_runs_as_their_tables_allow():
    entries = {
        (entry["entries"][0], entry["problems"][0]): entry["combinations"]
        for entry in catalogue("grids")
    }
    assert entries["fedpref[grid]", "deep-sea-treasure"] == 3 * 3 * 2 * 2
    assert entries["matfl[grid]", "halfcheetah"] == 3 * 3
    assert entries["fedpref[grid]", "adult-gender-dp"] == 3 * 3 * 4 * 2 * 2
    assert entries["no-communication[grid]", "adult-gender-dp"] == 3
