"""Epsilon and delta wherever a run is shown."""

from __future__ import annotations

import pytest
import tests.tiny  # noqa: F401  (which makes its problems known)
from tests.report.printing import printed, rows_of

import comity
from comity.report.card import card_text
from comity.report.columns import EPSILON, sent_headings
from comity.report.html.run_page import _effort
from comity.report.tables.comparisons import comparison_tables
from comity.report.tables.runs import clients_table, run_table
from comity.runs.compare import run_plan, start_comparison

SHORT = {"rounds": 2, "clients": 3, "supervised": {"local_steps": 2}}
ABSENT = {"absences": [[2, 1, "round"]]}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("comity.report.write_report", lambda run, kind: None)
        out = tmp_path_factory.mktemp("privacy") / "run"
        privacy = {"epsilon": 8.0, "clip": 0.5}
        values = {"algorithm": "fedavg", "privacy": privacy, **SHORT, **ABSENT}
        yield comity.run("tiny-people", out=out, **values)


def test_the_table_of_a_run_has_epsilon_and_delta(run):
    text = " ".join(printed(run_table(run.results)).split())
    assert "Differential privacy: epsilon 8, delta 1e-05 per client, over 2 updates" in text
    assert "noise 1.7, clip 0.5. Simulated: its noise can be repeated, so nothing" in text


def test_clients_that_sent_less_have_spent_less(run):
    table = clients_table(run.results)
    column = [str(c.header) for c in table.columns].index("epsilon")
    assert [row[column] for row in rows_of(table)] == ["8", "5.3", "8"]


def test_the_card_says_that_the_model_itself_has_no_noise(run):
    text = card_text({**comity.card(run, 1), "files": {}})
    assert "- Differential privacy: epsilon 8, delta 1e-05 per client" in text
    assert "The model itself, kept here, has no noise." in text


def test_the_page_has_epsilon_and_delta(run):
    page = _effort(run)
    assert "epsilon of a client, at delta = 1e-05" in page
    assert "simulated: nothing is private" in page
    assert "epsilon of each client" in page


def test_a_comparison_shows_epsilon_where_entries_differ(tmp_path):
    entries = ["no-communication", "fedavg", "fedavg[privacy.epsilon=8]", "fedavg[privacy.noise=3]"]
    path = start_comparison("tiny-people", algorithms=entries, seeds=1, out=tmp_path / "c", **SHORT)
    results = run_plan(path).results
    assert sent_headings(results["rows"])[-1] == EPSILON
    (table,) = comparison_tables(results)
    last = [row[-1] for row in rows_of(table)]
    assert last == ["none", "none", "8", "4.09", "–"]
    assert "Epsilon: differential privacy of everything that one client holds" in " ".join(
        printed(table).split()
    )
    assert EPSILON not in sent_headings(results["rows"][:2])
