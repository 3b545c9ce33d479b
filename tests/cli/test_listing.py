"""Lists: the taxonomy has everything once, the grids are those that are printed."""

from __future__ import annotations

import io
from typing import get_args

import pytest
from rich.console import Console

from comity.algorithms import algorithms, taxonomy
from comity.algorithms.registry import algorithm
from comity.algorithms.wrappers import wrappers
from comity.cli.listing import What, catalogue, catalogue_table
from comity.errors import unknown

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


@pytest.mark.parametrize("what", get_args(What))
def test_text_has_room_on_eighty_columns(what):
    """Words are not squeezed into a column of a few letters."""
    table = catalogue_table(what, catalogue(what))
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(table)
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 80
    (edges,) = [line for line in lines if line.startswith("┏")]
    assert len(edges.strip("┏┓").split("┳")[-1]) >= 30


def test_names_are_in_order():
    for what in ("problems", "algorithms", "generators"):
        names = [entry["name"] for entry in catalogue(what)]
        assert names == sorted(names)


def test_an_unknown_name_among_many_is_followed_by_near_ones_and_the_first():
    names = [f"adult-{n:02}" for n in range(7)] + [f"name-{n:02}" for n in range(43)]
    assert str(unknown("problem", "Adult", reversed(names))) == (
        "unknown problem 'Adult'. Did you mean 'adult-00', 'adult-01', 'adult-02', 'adult-03' or "
        "'adult-04'? Valid: adult-00, adult-01, adult-02, adult-03, adult-04, adult-05, adult-06, "
        "name-00, name-01, name-02 and 40 more."
    )
    assert "Did you mean 'name-07'?" in str(unknown("problem", "nme-07", names))
    assert "mean" not in str(unknown("problem", "", names))
