"""Histories as columns, read as they grow."""

from __future__ import annotations

import json

import numpy as np
import pytest

from comity.errors import UserError
from comity.explore.arrays import LONG
from comity.explore.rounds import MOST_CELLS, MOST_EVENTS, Rounds
from comity.report.series.curves import KINDS, curves
from tests.explore.test_arrays import unpacked

WEIGHTS = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])


def line(round, clients=(0, 1, 2), **others):
    vectors = [[round + client, 10.0 * round] for client in clients]
    entry = {
        "round": round,
        "clients": list(clients),
        "received": None,
        "trained": vectors,
        "kept": vectors,
        "declined": [False] * len(clients),
        "clusters": None,
        "mixing": None,
        "bytes_up": 5,
        "bytes_down": 7,
        "events": [],
    }
    return json.dumps({**entry, **others}) + "\n"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "history.jsonl"


def rounds_of(file, weights=WEIGHTS):
    rounds = Rounds(file, range(len(weights)), weights)
    rounds.update()
    return rounds


def test_columns_equal_the_curves_of_reports(credit):
    rows = credit.results["per_client"]
    weights = np.array([row["preference"] for row in rows])
    columns = rounds_of(credit.path / "history.jsonl", weights).columns()
    known = curves(credit)
    assert columns["rounds"] == known.rounds.tolist()
    for kind in KINDS:
        mean = [None if np.isnan(value) else value for value in known.mean(kind)]
        assert columns["mean"][kind] == pytest.approx(mean, abs=1e-6, nan_ok=True)
        low = [None if np.isnan(value) else value for value in known.quartiles(kind)[0]]
        assert columns["low"][kind] == pytest.approx(low, abs=1e-6)
        values = unpacked(columns["clients"][kind])
        np.testing.assert_allclose(values, known.values[kind], atol=1e-6)


def test_scalarised_values_by_hand(file):
    # round 1: vectors (1, 10), (2, 10), (3, 10): 1, 6, 10; round 2: client 1 alone: (3, 20): 11.5
    file.write_text(line(1) + line(2, clients=[1]))
    columns = rounds_of(file).columns()
    assert columns["clients"]["kept"] == [[1.0, 6.0, 10.0], [1.0, 11.5, 10.0]]
    assert columns["mean"]["kept"] == pytest.approx([17 / 3, 22.5 / 3], abs=1e-6)
    assert columns["low"]["kept"] == [3.5, 5.5]
    assert columns["objectives"]["kept"] == [[2.0, 10.0], [3.0, 20.0]]
    assert columns["clients"]["received"] == [[None] * 3] * 2
    assert columns["participants"] == [3, 1]
    assert (columns["bytes_up"], columns["bytes_down"]) == ([5, 5], [7, 7])


def test_only_new_lines_are_read(file):
    file.write_text(line(1))
    rounds = rounds_of(file)
    with file.open("a") as end:
        end.write(line(2))
        end.write(line(3)[:-20])  # still being written
    rounds.update()
    assert rounds.columns()["rounds"] == [1, 2]
    assert rounds.columns(since=1)["rounds"] == [2]
    with file.open("a") as end:
        end.write(line(3)[-20:])
    rounds.update()
    assert rounds.columns(since=1)["rounds"] == [2, 3]


def test_a_history_that_was_cut_is_read_again(file, tmp_path):
    file.write_text(line(1) + line(2) + line(3))
    rounds = rounds_of(file)
    (tmp_path / "other").write_text(line(1) + line(2, clients=[0]))
    (tmp_path / "other").replace(file)
    rounds.update()
    assert rounds.columns()["participants"] == [3, 1]


def test_a_damaged_line_is_named(file):
    file.write_text(line(1) + "{\n")
    with pytest.raises(UserError, match=r"history.jsonl is damaged: line 2"):
        rounds_of(file)


def test_matrices_and_clusters(file):
    mixing = [[0.5, 0.5, 0.0], [None] * 3, [0.0, 0.0, 1.0]]
    similarity = {"similarity": [[1.0, 0.2, 0.3]] * 3}
    file.write_text(
        line(1, mixing=mixing, clusters=[[0, 1, 2]], server=similarity)
        + line(2, mixing=mixing, clusters=[[0, 1, 2]])
        + line(3, clusters=[[0], [1, 2]])
        + line(4, clusters=[[0], [1, 2]])
    )
    rounds = rounds_of(file)
    assert rounds.matrices("mixing") == {
        "rounds": [1, 2],
        "recorded": [1, 2],
        "matrices": [[[0.5, 0.5, 0.0], [None] * 3, [0.0, 0.0, 1.0]]] * 2,
    }
    assert rounds.matrices("similarity")["rounds"] == [1]
    assert rounds.at(2)["mixing"] == mixing
    assert rounds.at(2)["similarity"] is None
    # preferences order clusters by the weight of the first objective: client 2 has least
    clusters = rounds.clusters()
    assert clusters["rounds"] == [1, 3]
    assert clusters["labels"] == [[0, 0, 0], [0, 1, 1]]
    assert sorted(clusters["order"]) == [0, 1, 2]


def test_long_histories_of_many_clients_are_sampled_and_say_so(file):
    clients = 1000
    lines = (line(number, clients=range(clients)) for number in range(1, 401))
    file.write_text("".join(lines))
    rounds = rounds_of(file, np.full((clients, 2), 0.5))
    columns = rounds.columns()
    assert len(columns["rounds"]) == 400
    assert len(columns["mean"]["kept"]) == 400
    shown = columns["clients"]["rounds"]
    assert len(shown) == MOST_CELLS // clients
    assert (shown[0], shown[-1]) == (1, 400)
    assert MOST_CELLS > LONG
    values = unpacked(columns["clients"]["kept"])
    # client c in round r: (r + c + 10 r) / 2, in steps of the span over 65,534
    expected = (11 * np.array(shown)[:, None] + np.arange(clients)) / 2
    np.testing.assert_allclose(values, expected, atol=0.05)
    assert rounds.left_out() == [
        "Curves of single clients have 150 of 400 rounds; means and quartiles have all."
    ]
    assert len(json.dumps(columns)) < 1_500_000


def test_only_the_latest_events_are_sent(file):
    file.write_text(line(1, events=[str(number) for number in range(MOST_EVENTS + 5)]))
    rounds = rounds_of(file)
    events = rounds.columns()["events"]
    assert (len(events), events[0]) == (MOST_EVENTS, [1, "5"])
    assert rounds.left_out() == ["The latest 1,000 of 1,005 events are shown."]


def test_ages_and_hearing(file):
    file.write_text(line(1, age=[0, 2, 4], time=7200.0) + line(2, heard={"0": [1, 2], "2": []}))
    rounds = rounds_of(file)
    assert rounds.ages() == {"rounds": [1], "mean": [2.0], "most": [4]}
    assert rounds.columns()["hours"] == [2.0, None]
    assert rounds.heard() == {"rounds": [2], "pairs": [[[0, 1], [0, 2]]]}
