"""What a contact plan allows, as figures and in words."""

from __future__ import annotations

import pytest

import tests.tiny  # noqa: F401  (which registers its problems)
from comity.errors import UserError
from comity.runs.plans import make_plan
from tests.links.plans import passes, plan, row


@pytest.fixture
def made(tmp_path):
    """Return a function that makes the plan of some contacts."""

    def make(*contacts, **links):
        path = tmp_path / "plan.csv"
        path.write_text(plan(*contacts).to_csv())
        rules = {"contacts": str(path), "work": "60s", "collect": "count:1", "overhead": 1.0}
        values = {"problem": "tiny-people", "algorithm": "fedavg", "links": {**rules, **links}}
        return make_plan(values)

    return make


def test_figures_of_a_plan(made):
    results = made(
        passes("a/1", (100, 130), (500, 530)),
        passes("a/2", (200, 260), (7400, 7430)),
    ).results
    assert results["update_bytes"] % 1000 == 0
    assert [client["name"] for client in results["clients"]] == ["a/1", "a/2"]
    assert [client["passes"] for client in results["clients"]] == [2, 2]
    assert [client["updates"] for client in results["clients"]] == [2, 2]
    assert results["rounds"] == results["updates"] == 4
    assert results["updates_per_client"] == {"least": 2, "median": 2.0, "most": 2}
    assert results["clients"][1]["longest_gap_hours"] == pytest.approx(7140 / 3600, abs=1e-3)
    assert results["clients"][0]["longest_gap_hours"] == pytest.approx(6900 / 3600, abs=1e-3)
    assert results["limit"] == "contacts"
    assert results["verdict"] == [
        "Contacts are the limit: messages of no size would give the same 4 updates."
    ]
    assert results["mixings_hours"] == sorted(results["mixings_hours"])
    moved = results["update_bytes"] * 4 + results["delivery_bytes"] * 4
    assert results["pass_use"] == pytest.approx(moved / 1000 / (2 * 150), abs=1e-3)


def test_bytes_are_named_as_the_limit_and_silent_clients_with_their_volume(made):
    made_plan = made(passes("a/1", (100, 300)), [row("a/2", "ground/g", 400, 400.001, 1000)])
    assert made_plan.timetable.updates[1] == 0
    silent = made_plan.sentences[1]
    assert silent.startswith("a/2 takes part in no round: its update takes ")
    assert "its 1 contacts to the server after hour 0.0 carry 0 bytes" in silent
    assert made_plan.results["clients"][1]["silent"] in silent


def test_relays_that_are_not_used_are_explained(made):
    one = passes("a/1", (100, 300))
    two = passes("a/2", (100, 300), station="ground/h")
    assert "no contact from client to client" in made(one, two, relays="any").sentences[-1]
    short = row("a/1", "a/2", 90, 90.01)
    text = made(one, two, short, relays="any").sentences[-1]
    assert "the largest contact from client to client carries 10; a relay needs it whole" in text
    late = row("a/1", "a/2", 200, 290)
    assert "none is earlier" in made(one, two, late, relays="any").sentences[-1]
    assert len(made(one, two, late).sentences) == 1


def test_a_plan_needs_links():
    with pytest.raises(UserError, match=r"links\.contacts is missing"):
        make_plan({"problem": "tiny-people"})
