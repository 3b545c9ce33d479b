"""Groups, and every model for every client, as tables, pictures and sections of the page."""

from __future__ import annotations

import pytest
import tests.tiny  # noqa: F401  (which makes its problems known)
from printing import printed

import comity
from comity.report.figures import cross as cross_figure
from comity.report.figures import groups as groups_figure
from comity.report.html.groups_section import cross_section, groups_section
from comity.report.rates import rate_text
from comity.report.series.cross import served
from comity.report.tables import cross_tables, groups_table
from comity.runs.directory import Run

SHORT = {"rounds": 2, "clients": 2, "names": "north,south", "supervised": {"local_steps": 5}}


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    home = tmp_path_factory.mktemp("groups")
    run = comity.run("tiny-crowd", algorithm="no-communication", out=home / "run", **SHORT)
    comity.cross(run)
    return run


def rate(value, low=None, high=None):
    return {"value": value, "low": low, "high": high}


def test_rates_have_their_interval_in_brackets():
    assert rate_text(rate(0.7312, 0.7021, 0.759)) == "0.731 (0.70–0.76)"
    assert rate_text(rate(0.1, -0.02, 0.2)) == "0.100 (−0.02 to 0.20)"
    assert rate_text(rate(1.0)) == "1"
    assert rate_text(rate(None)) == "–"


def test_the_terminal_has_one_line_per_value_of_all_clients_together(run):
    text = printed(groups_table(run.groups))
    lines = [line for line in text.splitlines() if " = " in line]
    assert [line.split(" = ")[0].strip() for line in lines] == ["gender", "gender", "age", "age"]
    women = run.groups["together"]["attributes"]["gender"]["values"]["female"]
    assert rate_text(women["selection_rate"]) in lines[0]
    assert f" {women['rows']} " in lines[0]
    assert "gender: demographic parity difference" in " ".join(text.split())


def test_the_picture_has_a_panel_per_attribute_and_a_place_per_client(run):
    figure = groups_figure(run)
    assert len(figure.axes) == 2
    names = [label.get_text() for label in figure.axes[1].get_xticklabels()]
    assert names == ["north", "south", "together"]
    labels = figure.axes[0].get_legend_handles_labels()[1]
    assert labels == ["gender = female", "gender = male"]
    heights = figure.axes[0].containers[0].lines[0].get_ydata()
    together = run.groups["together"]["attributes"]["gender"]["values"]["female"]
    assert heights[2] == together["selection_rate"]["value"]


def test_the_page_has_gaps_and_rates_of_every_client(run):
    page = (run.path / "report.html").read_text()
    assert "<h2>Groups by gender</h2>" in page
    assert "<h2>Groups by age</h2>" in page
    north = run.groups["clients"][0]["attributes"]["age"]
    for value in (north["demographic_parity_difference"], north["values"]["over 25"]["auc"]):
        assert rate_text(value) in page


def test_cross_on_the_page_in_the_terminal_and_as_a_picture(run):
    page = (run.path / "report.html").read_text()
    assert "<h2>Every model for every client</h2>" in page
    assert (run.path / "cross.png").is_file()
    figure = cross_figure(run)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["north", "south"]
    assert len(figure.axes[0].patches) == 2  # one frame per client
    text = "".join(printed(table) for table in cross_tables(run.cross))
    assert "north" in text
    assert "its own" in text or "south" in text


def test_a_client_is_served_best_by_the_largest_value_of_its_column():
    table = {
        "clients": ["a", "b", "c"],
        "models": ["a", "b", "c"],
        "scalarised_by_client": [[0.5, 0.9, 0.3], [0.6, 0.8, 0.3], [0.1, 0.4, None]],
        "trivial": [0.2, 0.2, None],
    }
    first, second, third = served(table)
    assert (first.own, first.best, first.best_value, first.others) == (0.5, "b", 0.6, 0.35)
    assert (second.best, second.best_value) == ("a", 0.9)
    assert third.best == "a"  # its own model has no value


def test_runs_without_groups_have_no_section(real):
    assert groups_section(real, {}) == []
    assert cross_section(real, {}) == []
    assert groups_figure(real) is None
    assert cross_figure(real) is None
