"""Pictures of links: contacts as bars and as text, quality over hours, ages."""

from __future__ import annotations

import numpy as np
import pytest
from tests.links.plans import links, passes, plan

import comity
from comity.configuration import planned
from comity.errors import UserError
from comity.links.timetable import timetable
from comity.report.card import card_text
from comity.report.figures import ages, contacts, draw_plan, hours, hours_compared
from comity.report.series.contacts import contact_chart, text_chart
from comity.report.series.hours import ages_of, hours_of
from comity.runs.card import card

CONTACTS = plan(
    passes("a/1", (3600, 7200)),
    passes("bb/2", (0, 3600), (10_800, 14_400), station="ground/h"),
)


@pytest.fixture(scope="module")
def table():
    return timetable(CONTACTS, links(collect="all", work="30m"), 2, 900_000, 900_000)


def test_contacts_messages_and_mixings_in_hours(table):
    chart = contact_chart(table)
    # 900 s each: up 1:00-1:15 and 0:30-0:45; mixed at 1:15; down 1:15-1:30 and 3:00-3:15; the
    # second has time for another update, which waits for the first's until the end
    assert chart.rows[0].up == ((1.0, 1.25),)
    assert chart.rows[1].up == ((0.5, 0.75), (3.75, 4.0))
    assert chart.rows[0].down == ((1.25, 1.5),)
    assert chart.rows[1].down == ((3.0, 3.25),)
    assert chart.rows[1].passes == ((0.0, 1.0), (3.0, 4.0))
    assert chart.mixings == (1.25,)
    assert chart.hours == 4


def test_the_chart_as_text(table):
    lines = text_chart(contact_chart(table), 8 + 16)
    # sixteen columns of a quarter of an hour
    assert lines[0].index("▼") == 8 + 5
    assert lines[1].index("█") == 8 + 4
    assert lines[2][8:13] == "░░██░"
    assert lines[3].split() == ["0", "h", "2", "h", "4", "h"]


def test_the_chart_as_a_picture(table, tmp_path):
    figure = contacts(table)
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a/1", "bb/2"]
    assert sum(line.get_gid() == "mixing" for line in axes.lines) == 1
    kinds = [collection.get_gid() for collection in axes.collections]
    assert kinds.count("up") == kinds.count("down") == kinds.count("pass") == 2
    draw_plan(tmp_path / "plan.svg", table)
    assert (tmp_path / "plan.svg").read_text().startswith("<?xml")
    with pytest.raises(UserError, match=r"must end in \.png, \.pdf, \.svg"):
        draw_plan(tmp_path / "plan.txt", table)


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    home = tmp_path_factory.mktemp("links")
    path = home / "plan.csv"
    names = [f"a/{n}" for n in range(3)]
    spans = [((0, 9000),), ((3600, 5400), (8000, 9000)), ((0, 9000),)]
    rows = [
        passes(name, *span, station=f"ground/{name[-1]}")
        for name, span in zip(names, spans, strict=True)
    ]
    path.write_text(plan(*rows).to_csv())
    return comity.compare(
        "german-credit-gender-dp",
        algorithms=["no-communication", "fedavg"],
        seeds=2,
        links={"contacts": str(path), "collect": "count:2", "work": "20m"},
        supervised={"local_steps": 5},
        out=home / "comparison",
    )


def test_quality_over_hours_with_the_line_to_beat(comparison):
    figure = hours_compared(comparison.results, comparison.runs)
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    assert set(lines) == {"no-communication (to beat)", "fedavg"}
    run = next(runs[0] for (name, _), runs in comparison.runs.items() if name == "fedavg")
    table = planned(run.configuration)
    times = hours_of(run)
    np.testing.assert_allclose(times[:-1], [r.time / 3.6e6 for r in table.rounds])
    assert times[-1] == table.plan.end / 3.6e6
    shown = lines["fedavg"].get_xdata()
    # the second client sends for the first time after an hour: lines begin then
    first = next(r.time for r in table.rounds if 1 in r.senders) / 3.6e6
    assert shown[0] == pytest.approx(first)
    assert shown[-1] == pytest.approx(2.5)
    assert (comparison.path / "hours.png").is_file()
    assert "Over the hours of the contact plan" in (comparison.path / "report.html").read_text()


def test_the_report_of_a_run_shows_its_links(comparison):
    run = next(runs[0] for (name, _), runs in comparison.runs.items() if name == "fedavg")
    comity.api.report(run.path)
    for name in ("contacts", "hours", "ages"):
        assert (run.path / f"{name}.png").is_file()
    page = (run.path / "report.html").read_text()
    assert "updates per client: least, median, most" in page
    assert "Late updates" in page
    assert "100% per round" not in page
    links = run.results["links"]
    assert f"by the contact plan: {links['updates']} updates in {links['rounds']} rounds" in page
    counts = ages_of(run)
    assert sum(counts.values()) == run.results["links"]["updates"]
    bars = ages(run).axes[0].patches
    assert [bar.get_height() for bar in bars] == list(counts.values())
    assert hours(run).axes[0].get_xlabel() == "hours"


def test_the_comparison_keeps_its_own_plan(comparison):
    assert (comparison.path / "contacts.csv").is_file()
    text = (comparison.path / "comparison.toml").read_text()
    assert str(comparison.path / "contacts.csv") in text


def test_the_card_of_a_model_says_when_messages_travelled(comparison):
    run = next(runs[0] for (name, _), runs in comparison.runs.items() if name == "fedavg")
    content, links = card(run, 0), run.results["links"]
    assert content["training"]["links"]["updates_per_client"] == links["updates_per_client"]
    text = card_text(content)
    assert f"- When: by a contact plan of 0.104 days: {links['updates']} updates, " in text
