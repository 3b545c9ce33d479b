"""Contact plans as CSV: both kinds of times, canonical order, faults with their lines."""

from __future__ import annotations

import random

import pytest

from comity.errors import UserError
from comity.links.contacts import Contact, parse_plan, read_plan
from comity.links.settings import Links, collection, duration
from comity.settings import build

TEXT = """from,to,start,end,rate
sat/1,ground/a,10,20.5,9600
ground/a,sat/1,10,20.5,1200
sat/2,ground/a,0.0004,5,9600
"""


def test_seconds_become_whole_milliseconds():
    plan = parse_plan(TEXT, "plan.csv")
    assert plan.contacts == (
        Contact(0, 5_000, "sat/2", "ground/a", 9600),
        Contact(10_000, 20_500, "ground/a", "sat/1", 1200),
        Contact(10_000, 20_500, "sat/1", "ground/a", 9600),
    )
    assert plan.clients("ground/*") == ("sat/1", "sat/2")
    assert plan.end == 20_500
    assert plan.contacts[2].bytes == 12_600  # 10.5 s of 1,200 bytes per second


def test_dates_count_from_the_first_contact():
    text = """rate,to,from,end,start
9600,ground/a,sat/1,2026-03-01T00:10:00Z,2026-03-01T00:00:01.5Z
9600,ground/a,sat/2,2026-03-01T02:00:00+01:00,2026-03-01T00:30:00
"""
    plan = parse_plan(text, "plan.csv")
    assert [(c.source, c.start, c.end) for c in plan.contacts] == [
        ("sat/1", 0, 598_500),
        ("sat/2", 1_798_500, 3_598_500),
    ]


def test_the_order_of_rows_changes_nothing_and_text_comes_back():
    head, *rows = TEXT.splitlines()
    plan = parse_plan(TEXT, "plan.csv")
    for seed in range(5):
        random.Random(seed).shuffle(rows)
        shuffled = parse_plan("\n".join([head, *rows]), "plan.csv")
        assert shuffled == plan
        assert shuffled.sha256 == plan.sha256
    assert parse_plan(plan.to_csv(), "again.csv") == plan


def test_all_faults_are_named_with_their_lines(tmp_path):
    path = tmp_path / "plan.csv"
    path.write_text(
        "from,to,start,end,rate\n"
        "a,g,10,5,9600\n"
        "a,g,0,5,0\n"
        "a,g,0,50,9600\n"
        "a,g,49,60,9600\n"
        "\n"
        "a,a,0,1,9600\n"
        "a,g,soon,60,9600\n"
        "a,g,2026-03-01T00:00:00Z,2026-03-01T00:01:00Z,9600\n"
        "b,g,-1,60,9600\n"
        "b,g,1\n"
    )
    with pytest.raises(UserError) as error:
        read_plan(path)
    text = str(error.value)
    for part in [
        "line 2: end = 5 must be after start",
        "line 3: rate = '0' must be a whole number",
        "line 5: this contact from a to g overlaps that of line 4",
        "line 7: from and to must name two nodes",
        "line 8: start = 'soon' is neither seconds nor a date",
        "line 9: times must be all seconds or all ISO-8601, unlike line 4",
        "line 10: start = -1 is before 0",
        "line 11: 3 cells; the header has 5",
    ]:
        assert part in text
    assert "8 faults" in text


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("from,to,start,end\n", "columns from, to, start, end; a contact plan has"),
        ("from,to,start,end,rate\n", "has no contact"),
        ("", "columns none"),
    ],
)
def test_other_files_are_refused(text, part):
    with pytest.raises(UserError, match=part):
        parse_plan(text, "plan.csv")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"contact plan .*none\.csv cannot be read"):
        read_plan(tmp_path / "none.csv")


def test_the_first_days_cut_a_contact_that_goes_on():
    plan = parse_plan(TEXT, "plan.csv").first(15 / 86_400)
    assert [(c.start, c.end) for c in plan.contacts] == [(0, 5000)] + [(10_000, 15_000)] * 2


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("90s", 90_000), ("30m", 1_800_000), ("1.5d", 129_600_000)]
)
def test_durations(text, milliseconds):
    assert duration(text) == milliseconds


def test_collection_rules():
    assert (collection("all", 7).count, collection("all", 7).patience) == (7, None)
    assert collection("count:half/12h", 7).count == 4
    assert collection("count:3/30m", 7).patience == 1_800_000
    assert (collection("every:6h", 7).count, collection("every:6h", 7).patience) == (
        None,
        21_600_000,
    )


@pytest.mark.parametrize(
    ("name", "value", "part"),
    [
        ("work", "1 hour", "not a duration like"),
        ("work", "0s", "must be above 0"),
        ("collect", "count:", "none of all, count:K"),
        ("collect", "count:0", "needs 0 updates"),
        ("collect", "every:6", "not a duration"),
        ("collect", "some", "none of all"),
        ("antennas", 0, "greater than or equal to 1"),
        ("relays", "two", "'none', 'same-operator' or 'any'"),
        ("overhead", 0.9, "greater than or equal to 1"),
    ],
)
def test_wrong_settings_are_refused_with_their_name(name, value, part):
    with pytest.raises(UserError, match=rf"links\.{name} = .*{part}"):
        build(Links, {"contacts": "x.csv", name: value}, where="links")
