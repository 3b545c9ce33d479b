"""Tables of searches have the right numbers, mark the right ones, and fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from histories import search_row, searches
from printing import printed, rows_of

from comity.report.tables import points_table, search_table, searches_table
from comity.searches import Search

FRONT = [[8.2, -3.0], [14.0, -7.0]]
CONTROL = {
    "metrics": {"hypervolume": 650.0},
    "candidates": 4,
    "environment_steps": {"training": 1000, "evaluation": 234},
}


@pytest.fixture
def results(made_search: Callable[..., Search]) -> dict[str, Any]:
    metrics = {"hypervolume": 730.0, "igd": 3.459, "cardinality": 2.0}
    others = {"control": CONTROL, "optimum": {"hypervolume": 994.3}}
    return made_search([FRONT, FRONT], [500.0, 730.0], metrics=metrics, **others).results


def test_each_point_says_where_it_comes_from(results: dict[str, Any]) -> None:
    table = points_table(results)
    assert rows_of(table) == [
        ["0", "8.2", "−3", "0.00  1.00", "1", "1", "end"],
        ["1", "14", "−7", "0.00  1.00", "1", "1", "1"],
    ]
    assert [str(column.header) for column in table.columns][:3] == ["point", "treasure", "time"]
    assert "models/point-0.safetensors" in printed(table)


def test_measures_stand_beside_the_control_and_the_baselines(results: dict[str, Any]) -> None:
    table = search_table(results)
    headings = [str(column.header) for column in table.columns]
    assert headings == ["measure", "found", "control", "trivial", "optimum"]
    assert rows_of(table) == [
        ["hypervolume ↑", "730", "650", "0", "994.3"],
        ["IGD ↓", "3.459", "–", "–", "–"],
        ["cardinality ↑", "2", "–", "–", "–"],
    ]
    text = " ".join(printed(table).split())
    assert "gap search on deep-sea-treasure" in text
    assert "Reference point of the hypervolume: (0, −50)." in text
    assert "Found with 4 candidates and 460 environment steps." in text
    assert "Control: random weights, 4 candidates and 1,234 environment steps." in text


def test_without_a_control_there_is_no_column_for_it(results: dict[str, Any]) -> None:
    del results["control"]
    table = search_table(results)
    headings = [str(column.header) for column in table.columns]
    assert headings == ["measure", "found", "trivial", "optimum"]
    assert "Control" not in printed(table)


@pytest.mark.parametrize(
    ("cut", "said"),
    [(0, None), (1, "1 of the points found does not"), (3, "3 of the points found do not")],
)
def test_points_cut_by_the_reference_point_are_told_only_if_there_are_any(
    results: dict[str, Any], cut: int, said: str | None
) -> None:
    text = " ".join(printed(search_table({**results, "cut_by_reference_point": cut})).split())
    assert ("Attention" in text) == (said is not None)
    assert said is None or said in text


MEASURES = {"hypervolume": 980.0, "igd": 0.5, "sparsity": 20.0, "cardinality": 9.0}


def test_searches_are_told_halfway_and_at_the_end_and_the_best_is_marked() -> None:
    better = search_row("gap", [100.0, 200.0, 960.0], **{**MEASURES, "hypervolume": 990.0})
    earlier = search_row("random", [100.0, 900.0, 950.0], **MEASURES)
    baselines = {"trivial": {"hypervolume": 1.0}, "optimum": {"hypervolume": 994.3}}
    table = searches_table(searches(better, earlier, **baselines))
    assert [line[:3] + line[-2:] for line in rows_of(table)] == [
        ["gap", "200 ± 0.25", "990 ± 0.5 ★", "15", "1.8 k"],
        ["random", "900 ± 0.25 ★", "980 ± 0.5", "15", "1.8 k"],
        ["trivial", "–", "1", "–", "–"],
        ["optimum", "–", "994.3", "–", "–"],
    ]
    text = " ".join(printed(table).split())
    assert "(0, −50)" in text
    assert "over 2 seeds" in text


def test_a_long_entry_is_folded_and_not_read_as_markup() -> None:
    entry = "gap[spread=true,clients=15,candidates=15]"
    figures = {"hypervolume": 2283.4, "igd": 0.9459, "sparsity": 139.38, "cardinality": 16.6}
    text = printed(searches_table(searches(search_row(entry, [2000.25], **figures))), width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    words = ("[spread=true,", "clients=15,", "candidates=15]", "2,283", "0.9459", "139.4", "16.6")
    for word in (*words, "600", "steps"):
        assert word in text
