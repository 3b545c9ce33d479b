"""Results and lines of the history, against values computed by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from comity.configuration import configure
from comity.core.pareto import hypervolume
from comity.federation.messages import RoundMetrics
from comity.federation.record import RoundRecord
from comity.problems import find
from comity.runs.results import finite, history_entry, summarise
from comity.runs.schema import HistoryEntry
from comity.runs.span_results import span_result
from comity.runs.spans import Spans
from tests.tiny import TINY, tiny

METRICS = RoundMetrics(
    received=None,
    trained=np.array([[1.0, -2.0], [np.nan, -3.0]]),
    kept=np.array([[1.0, -2.0], [4.0, -3.0]]),
    declined=np.array([False, True]),
    steps=np.array([5, 6]),
    validation_steps=np.array([1, 2]),
    skipped=np.array([0, 0]),
    remarks=("trained one by one",),
)


def entry(metrics: RoundMetrics = METRICS, **values: object) -> HistoryEntry:
    record = RoundRecord(1, (0, 2), bytes_up=7, bytes_down=8, events=["an event"])
    return history_entry(replace(record, **values), metrics)


def test_numbers_that_json_lacks_are_none():
    assert finite([1, np.float32(0.5), np.nan, np.inf]) == [1.0, 0.5, None, None]


def test_a_round_is_one_plain_line():
    line = entry(mixing=np.eye(2))
    assert json.loads(json.dumps(line)) == line
    assert line["received"] is None
    assert line["trained"] == [[1.0, -2.0], [None, -3.0]]
    assert line["declined"] == [False, True]
    assert line["mixing"] == [[1.0, 0.0], [0.0, 1.0]]
    assert not {"everyone", "server", "absent"} & line.keys()


def test_who_did_not_answer_is_noted_by_exchange():
    assert entry(absent={"round": (1,)})["absent"] == {"round": (1,)}


def test_remarks_stand_in_the_first_line_only_and_diagnostics_where_there_are_any():
    assert entry()["events"] == ["an event", "trained one by one"]
    assert entry(round=2)["events"] == ["an event"]
    assert entry(diagnostics={"weights": [1.0]})["server"] == {"weights": [1.0]}


def test_spans_are_measured_client_by_client():
    vectors = np.array([[[1.0, 2.0], [2.0, 1.0]], [[1.0, 1.0], [np.nan, 5.0]]])
    spans = Spans(np.array([[0.2, 0.8], [0.8, 0.2]]), vectors)
    assert span_result(spans, replace(find("tiny-people"), reference_point=(0.0, 0.0))) == {
        "preferences": 2,
        "hypervolume": 2.0,
        "per_client": [3.0, 1.0],
    }


def test_policies_are_measured_at_every_preference():
    """The test vector of the specification: each of three preferences misses 1."""
    asked = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    good = [[9.0, 0.0], [6.0, 5.0], [1.0, 8.0]]
    bad = [[9.0, 0.0], [6.0, 5.0], [6.0, 4.0]]  # the last is dominated, and misses 4 more
    best = np.array([[10.0, 0.0], [7.0, 6.0], [0.0, 9.0]])
    problem = replace(TINY, known_front=lambda: best)
    spans = Spans(asked, np.array([good, bad]))
    served = span_result(spans, problem)["served"]
    assert served["preferences"] == asked.tolist()
    assert served["returns"] == [[9.0, 0.0], [6.0, 5.0], [3.5, 6.0]]
    assert served["dominated"] == pytest.approx(1 / 6)
    assert served["regret"] == {
        "against": "known front",
        "mean": pytest.approx(10 / 6),
        "per_preference": [1.0, 1.0, 3.0],
        "per_client": [1.0, pytest.approx(7 / 3, abs=1e-6)],
    }
    honest = span_result(spans, problem, attackers=[1])["served"]
    assert honest["dominated"] == 0.0
    assert honest["regret"]["mean"] == 1.0
    assert "regret" not in span_result(spans, replace(TINY, known_front=None))["served"]


def test_the_results_of_environments():
    configuration = tiny(clients=2, preferences=[[1.0, 0.0], [0.25, 0.75]], algorithm="fedavg")
    kept = np.array([[8.2, -3.0], [0.7, -1.0]])
    last = np.array([[8.2, -3.0], [0.0, -4.0]])
    lines = [entry(bytes_up=10, bytes_down=20), entry(bytes_up=1, bytes_down=2)]
    results = summarise(configuration, kept, last, lines)
    first, second = results["per_client"]
    assert first["objectives"] == {"treasure": 8.2, "time": -3.0}
    assert second["objectives_last"] == {"treasure": 0.0, "time": -4.0}
    assert second["scalarised"] == pytest.approx(0.25 * 0.7 - 0.75)
    assert results["metrics"]["mean_scalarised"] == pytest.approx((8.2 - 0.575) / 2)
    assert results["preferences"] == "given"
    assert results["communication"] == {
        "bytes_up": 11,
        "bytes_down": 22,
        "bytes_per_update": 2.8,  # 11 bytes of two clients in two rounds
    }
    assert results["environment_steps"] == {"training": 11, "validation": 3}
    assert sorted(results["front"]) == [[0.7, -1.0], [8.2, -3.0]]
    problem = configuration.get_problem()
    target = problem.target()
    assert target is not None
    assert results["optimum"]["hypervolume"] == hypervolume(target, problem.reference_point)
    assert "validation" not in results
    equal = summarise(configuration, kept, kept, lines)
    assert "metrics_last" not in equal
    assert "objectives_last" not in equal["per_client"][0]


def test_the_results_of_data():
    configuration = configure({"problem": "tiny-answers", "clients": 3, "algorithm": "fedavg"})
    preferences = configuration.get_preferences()
    kept = np.array([[0.5, 1.0], [0.75, 0.5], [np.nan, 0.25]])
    both = replace(METRICS, received=np.array([[0.5, 0.5], [0.25, 1.0]]), trained=METRICS.kept)
    lines = [entry(both), entry(round=2)]
    results = summarise(configuration, kept, kept, lines, on_all_test_data=kept)
    assert results["metrics"]["global_accuracy"] == 0.625
    assert results["metrics"]["global_fairness"] == pytest.approx(1.75 / 3, abs=1e-6)
    assert results["per_client"][2]["objectives"] == {"accuracy": None, "fairness": 0.25}
    weights = preferences[[0, 2]]
    received = (weights * [[0.5, 0.5], [0.25, 1.0]]).sum(axis=1).mean()
    trained = (weights * [[1.0, -2.0], [4.0, -3.0]]).sum(axis=1).mean()
    assert results["validation"] == {"received": received, "trained": trained}
    assert results["training_steps"] == 11
    assert [sum(part) for part in zip(*results["samples"].values(), strict=True)] == [
        len(share.train) + len(share.validation) + len(share.test)
        for share in configuration.get_problem().client_rows()
    ]
