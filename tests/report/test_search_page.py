"""Pages of searches hold the numbers and pictures, and escape what comes from data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import plotly.graph_objects
import pytest
from histories import search_row, searches
from pages import EVIL, Page

from comity.report import write_search_report, write_searches_report
from comity.report.html.search_charts import growth_chart, search_front_chart
from comity.report.series.growth import growth_of
from comity.searches import Search
from comity.searches.comparison import SearchComparison

MakeSearch = Callable[..., Search]
EARLY, LATE = [[8.2, -3.0]], [[8.2, -3.0], [14.0, -7.0]]
OPTIMUM = {"hypervolume": 994.3}


@pytest.fixture
def search(made_search: MakeSearch) -> Search:
    told = {"candidates": 4, "environment_steps": {"training": 400}}
    control = {"metrics": {"hypervolume": 385.4}, **told}
    made = made_search([EARLY, LATE], [500.0, 700.0], optimum=OPTIMUM, control=control)
    made_search([EARLY, EARLY], [400.0, 450.0], name="search/control")
    return made


def test_a_search_has_its_numbers_and_pictures(search: Search) -> None:
    path = write_search_report(search)
    assert path == search.path / "report.html"
    page = Page(path)
    assert len(page.images) == 3
    measures = page.table("measure")
    assert measures[0] == ["measure", "found", "control", "trivial", "optimum"]
    assert measures[1] == ["hypervolume ↑", "634.8", "385.4", "0", "994.3"]
    assert page.table("point")[2] == [
        *("1", "14", "−7", "0.00  1.00", "1", "1", "1"),
        "models/point-1.safetensors",
    ]
    effort = {row[0]: row[1:] for row in page.table("environment steps")}
    assert effort["training"] == ["400", "400"]
    assert effort["in all"] == ["460", "460"]
    assert effort["training and validation, per client"] == ["220", "220"]
    settings = {row[0]: row[1] for row in page.table("setting")[1:]}
    assert settings["search.candidates"] == "2"
    assert settings["gap.tolerance"] == "0.001"
    html = path.read_text()
    assert (
        "Weights from gap, models from fedavg with 2 clients; 4 candidates in 2 iterations, "
        f"seed {search.results['seed']}." in html
    )
    assert "<dt>reference point</dt><dd>(0, −50)</dd>" in html
    assert "Attention" not in html


def test_points_cut_by_the_reference_point_are_told(made_search: MakeSearch) -> None:
    html = write_search_report(made_search([LATE], [1.0], cut_by_reference_point=2)).read_text()
    assert "Attention: 2 of the points found do not lie above it" in html


def test_a_search_alone_has_no_columns_for_what_is_missing(made_search: MakeSearch) -> None:
    page = Page(write_search_report(made_search([LATE], [1.0])))
    assert page.table("measure")[0] == ["measure", "found", "trivial"]
    assert page.table("environment steps")[0] == ["environment steps", "search"]


def test_what_comes_from_a_search_is_escaped(made_search: MakeSearch) -> None:
    point = {"point": 0, "objectives": {EVIL: 1.0, "time": -1.0}, "weight": [0.5, 0.5]}
    origin = {"iteration": 0, "candidate": 0, "round": None, "model": EVIL}
    evil = {"generator": EVIL, "algorithm": EVIL, "metrics": {EVIL: 1.0, "hypervolume": 1.0}}
    search = made_search([LATE], [1.0], front=[{**point, **origin}], **evil)
    html = write_search_report(search).read_text()
    assert EVIL not in html
    assert "models from &lt;script&gt;" in html
    assert EVIL not in json.dumps(search_front_chart(search))


def test_the_chart_of_a_front_says_what_is_behind_its_points(search: Search) -> None:
    known, early, late = plotly.graph_objects.Figure(search_front_chart(search)).data
    assert known.name == "known front"
    assert (early.name, list(early.x)) == ("after 2 candidates", [8.2])
    assert (late.name, list(late.y)) == ("the end, as tested", [-3.0, -7.0])
    assert "models/point-1.safetensors" in late.text[1]
    assert "iteration 1, candidate 1, round 1" in late.text[1]


def test_a_chart_of_three_objectives_has_three_panels(made_search: MakeSearch) -> None:
    fronts = [[[1.0, 0.2, -1.0], [0.3, 0.9, -0.8]]]
    chart = search_front_chart(made_search(fronts, [1.0], problem="minecart-deterministic"))
    traces = [trace for trace in chart["data"] if trace["name"] == "the end, as tested"]
    assert [(trace["x"], trace["y"]) for trace in traces] == [
        ([1.0, 0.3], [0.2, 0.9]),
        ([1.0, 0.3], [-1.0, -0.8]),
        ([0.2, 0.9], [-1.0, -0.8]),
    ]
    assert [trace["showlegend"] for trace in traces] == [True, False, False]


def test_the_chart_of_growth_shows_the_control_and_what_is_missing(search: Search) -> None:
    chart = plotly.graph_objects.Figure(growth_chart(growth_of(search)))
    drawn = [(trace.name, trace.yaxis, list(trace.y)) for trace in chart.data]
    assert drawn == [
        ("gap", "y", [500.0, 700.0]),
        ("random weights (control)", "y", [400.0, 450.0]),
        ("gap", "y2", pytest.approx([494.3, 294.3])),
        ("random weights (control)", "y2", pytest.approx([594.3, 544.3])),
        ("known front", None, [994.3, 994.3]),
    ]
    assert chart.layout.yaxis2.type == "log"
    assert chart.data[0].line.shape == "hv"


def test_a_search_that_misses_nothing_leaves_the_chart_readable(made_search: MakeSearch) -> None:
    search = made_search([EARLY] * 3, [894.3, 993.3, 994.3], optimum=OPTIMUM)
    chart = growth_chart(growth_of(search))
    assert chart["data"][1]["y"] == pytest.approx([100.0, 1.0])
    assert chart["layout"]["yaxis2"]["type"] == "log"


def compared(make: MakeSearch, path: Path, entry: str, **baselines: Any) -> SearchComparison:
    rows = [
        search_row(entry, [100.0, 200.0, 300.0, 990.0], hypervolume=990.0, cardinality=7.0),
        search_row("random", [50.0, 400.0, 500.0, 600.0], hypervolume=600.0, cardinality=9.0),
    ]
    results = searches(*rows, trivial={"hypervolume": 1.0}, **baselines)
    search = make([EARLY], [1.0])
    return SearchComparison(path, results, {entry: [search], "random": [search]})


def test_searches_stand_side_by_side(made_search: MakeSearch, tmp_path: Path) -> None:
    path = write_searches_report(compared(made_search, tmp_path, "gap", optimum=OPTIMUM))
    assert path == tmp_path / "report.html"
    page = Page(path)
    (table,) = page.tables
    assert table == [
        [
            *("search", "hypervolume after 25\u00a0% ↑", "hypervolume after 50\u00a0% ↑"),
            *("hypervolume ↑", "cardinality ↑", "candidates", "environment steps"),
        ],
        ["gap", "★ 100 ± 0.25", "200 ± 0.25", "★ 990 ± 0.5", "7 ± 0.5", "20", "2,400"],
        ["random", "50 ± 0.25", "★ 400 ± 0.25", "600 ± 0.5", "★ 9 ± 0.5", "20", "2,400"],
        ["trivial", "–", "–", "1", "–", "–", "–"],
        ["optimum", "–", "–", "994.3", "–", "–", "–"],
    ]
    assert len(page.images) == 2  # growth and solutions
    assert "reference point (0, −50)" in path.read_text()


def test_what_comes_from_an_entry_is_escaped(made_search: MakeSearch, tmp_path: Path) -> None:
    html = write_searches_report(compared(made_search, tmp_path, EVIL)).read_text()
    assert EVIL not in html
    assert "&lt;script&gt;" in html
