"""Documents say what the files of runs, comparisons and searches say."""

from __future__ import annotations

import json

import numpy as np
import pytest

from comity.explore.items import Shelf
from comity.explore.run_document import RunView
from comity.report.table_files import comparison_csv, comparison_latex
from comity.runs.compare import open_comparison
from comity.runs.differences import difference
from tests.explore.conftest import finished
from tests.explore.test_arrays import unpacked


def test_a_run_is_told_in_the_words_of_its_results(explorer, credit):
    document, results = explorer.document("credit"), credit.results
    rows = results["per_client"]
    clients = document["clients"]
    assert document["verdict"]["sentences"] == results["verdict"]["sentences"]
    assert clients["name"] == [row["name"] for row in rows]
    assert clients["mark"] == [row["mark"] for row in rows]
    assert clients["scalarised"] == [row["scalarised"] for row in rows]
    assert clients["kept_round"] == [row["kept_round"] for row in rows]
    assert unpacked(clients["objectives"]).tolist() == [
        list(row["objectives"].values()) for row in rows
    ]
    np.testing.assert_allclose(
        unpacked(clients["preference"]), [row["preference"] for row in rows], atol=1e-6
    )
    gains = [row["scalarised"] - row["trivial"] for row in rows]
    assert clients["gain"] == pytest.approx(gains, abs=1e-6)
    values = {metric["name"]: metric["value"] for metric in document["metrics"]}
    assert values["mean_scalarised"] == results["metrics"]["mean_scalarised"]
    assert unpacked(document["front"]).tolist() == results["front"]
    assert document["trivial_point"] == [results["trivial"][n] for n in ("accuracy", "fairness")]
    assert document["configuration"] == (credit.path / "config.toml").read_text()
    state = document["state"]
    assert (state["state"], state["done"], state["of"]) == ("finished", 2, 2)
    assert state["bytes_up"] == results["communication"]["bytes_up"]
    assert state["resume"] is None


def test_received_vectors_are_of_the_last_round_that_has_them(explorer, credit):
    received = [entry for entry in credit.history if entry["received"] is not None][-1]
    vectors = unpacked(explorer.document("credit")["clients"]["received"])
    np.testing.assert_allclose(vectors, np.array(received["received"]), atol=1e-6)


def test_groups_are_columns(explorer, credit):
    groups = explorer.document("credit")["groups"]
    ((attribute, values),) = groups["attributes"].items()
    for value in values:
        rates = groups["rates"][attribute][value]
        for client, known in enumerate(credit.groups["clients"]):
            group = known["attributes"][attribute]["values"][value]
            assert rates["rows"][client] == group["rows"]
            assert rates["selection_rate"][client] == group["selection_rate"]["value"]


def test_mixing_is_that_of_the_history(explorer, credit):
    document = explorer.document("credit")
    recorded = {e["round"]: e["mixing"] for e in credit.history if e["mixing"] is not None}
    assert document["mixing"]["rounds"] == list(recorded)
    np.testing.assert_allclose(
        unpacked(document["mixing"]["matrices"]), list(recorded.values()), atol=1e-6
    )
    at = explorer.matrices("credit", 1)
    np.testing.assert_allclose(unpacked(at["mixing"]), recorded[1], atol=1e-6)


def test_spans_are_those_of_the_run(explorer, spanning):
    document = explorer.document("spanning")
    assert document["takes_any"]
    assert not explorer.document("credit")["takes_any"]
    spans = document["spans"]
    known = spanning.spans
    for place, preference in enumerate(unpacked(spans["preferences"])):
        nearest = int(np.abs(known.preferences - preference).sum(axis=1).argmin())
        np.testing.assert_allclose(
            unpacked(spans["vectors"])[:, place], known.vectors[:, nearest], atol=1e-6
        )
    assert document["sampled"] == ["Fronts of clients have 101 of 1,000 tested preferences."]


def test_commands_and_python_lines_are_complete(explorer, credit, tmp_path, monkeypatch):
    document = explorer.document("credit")
    assert len(document["python"].splitlines()) == 5
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    exec(document["python"], scope)
    assert (tmp_path / "model.safetensors").is_file()
    assert document["commands"]["report"] == f"comity report {credit.path}"
    assert "--client 0" in document["commands"]["export"]


def test_the_trivial_point_of_environments_follows_from_its_values(shelf, tmp_path):
    learner = {"dqn": {"local_steps": 32, "learning_starts": 16}}
    path = tmp_path / "treasure"
    run = finished(
        path, problem="deep-sea-treasure", clients=3, rounds=1, test_episodes=1, **learner
    )
    (item,) = Shelf([path]).items()
    document = RunView(item).document()
    assert document["trivial_point"] == [0.0, -100.0]  # doing nothing for 100 steps
    front = run.configuration.get_problem().front()
    np.testing.assert_allclose(unpacked(document["known_front"]), front)
    assert document["problem"]["kind"] == "environment"
    assert document["clients"]["optimum"] == [r["optimum"] for r in run.results["per_client"]]


def test_differences_of_a_comparison_are_paired_by_seed(explorer, shelf):
    document = explorer.document("comparison")
    comparison = open_comparison(shelf / "comparison")
    entries = [entry["entry"] for entry in document["entries"]]
    assert entries == ["fedavg", "fedpref", "no-communication"]
    assert len(document["differences"]) == 3
    for line in document["differences"]:
        runs = comparison.runs[entries[line["entry"]], "interior"]
        others = comparison.runs[entries[line["over"]], "interior"]
        known = difference(runs, others)
        assert line["each"] == known["each"]
        assert line["interval"] == known["interval"]
        assert line["seeds"] == [1, 2]
        for seed, run, other in zip((0, 1), runs, others, strict=True):
            gains = [
                ours["scalarised"] - theirs["scalarised"]
                for ours, theirs in zip(
                    run.results["per_client"], other.results["per_client"], strict=True
                )
            ]
            assert line["clients"]["each"][seed] == pytest.approx(gains, abs=1e-6)
    corrected = comparison.results["rows"][1]["paired"]["fedavg"]["p_holm"]
    assert document["differences"][0]["p_holm"] == corrected
    assert document["verdict"]["sentences"] == comparison.results["verdict"]["sentences"]


def test_the_interval_of_a_client_is_students(explorer):
    line = explorer.document("comparison")["differences"][0]
    each = np.array(line["clients"]["each"], dtype=float)
    # two seeds: mean ± 12.7062 · |a − b| / 2
    half = 12.7062 * np.abs(each[0] - each[1]) / 2
    for place, mean in enumerate(each.mean(axis=0)):
        if half[place] > 1e-6:
            assert line["clients"]["low"][place] == pytest.approx(mean - half[place], abs=1e-4)
            assert line["clients"]["high"][place] == pytest.approx(mean + half[place], abs=1e-4)


def test_runs_that_were_made_one_by_one_can_be_compared(explorer):
    children = [item.id for item in explorer.shelf.items() if item.parent == "comparison"]
    chosen, whole = explorer.compare(children), explorer.document("comparison")
    assert [entry["entry"] for entry in chosen["entries"]] == [
        entry["entry"] for entry in whole["entries"]
    ]
    for ours, known in zip(chosen["differences"], whole["differences"], strict=True):
        assert ours["each"] == known["each"]
        assert ours["clients"] == known["clients"]
    mixed = explorer.compare(["credit", children[2]])  # one algorithm and seed, twice
    assert len(mixed["entries"]) == 2


def test_tables_are_those_of_the_report(explorer, shelf):
    results = open_comparison(shelf / "comparison").results
    assert explorer.table("comparison", "csv") == comparison_csv(results)
    assert explorer.table("comparison", "latex") == comparison_latex(results)


def test_a_search_is_its_front(explorer, search):
    document = explorer.document("search")
    front = unpacked(document["front"]["objectives"])
    np.testing.assert_allclose(front, search.front.vectors, atol=1e-6)
    for weight in (0.0, 0.5, 1.0):
        judged = explorer.judge("search", None, [weight, 1 - weight])
        assert judged["point"] == search.front.choose([weight, 1 - weight])
        assert not judged["made"]
    assert document["history"]["hypervolume"] == [e["hypervolume"] for e in search.history]


def test_documents_are_json_without_nan(explorer):
    for item in explorer.shelf.items():
        json.dumps(explorer.document(item.id), allow_nan=False)
