"""Verdicts on runs: marks, sentences and kept rounds, against values computed by hand."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from comity.configuration import Configuration, configure
from comity.runs.results import summarise
from comity.runs.verdict import (
    TOLERANCE,
    chosen_round,
    compare_values,
    count_marks,
    kept_rounds,
    mark_of,
    run_verdict,
)
from tests.tiny import tiny


def people(clients: int = 3, **settings: Any) -> Configuration:
    values = {"problem": "tiny-answers", "clients": clients, "algorithm": "fedavg", "rounds": 2}
    return configure({**values, **settings})


def line(round: int, kept: Any, clients: Any = None, **others: Any) -> dict[str, Any]:
    return {
        "round": round,
        "clients": list(range(len(kept))) if clients is None else clients,
        "kept": kept,
        **others,
    }


def client(value: float | None, trivial: float | None, constant: bool | None = None) -> Any:
    mark = mark_of(value, trivial, constant)
    return {"scalarised": value, "trivial": trivial, "mark": mark}


HISTORY: Any = [line(1, [[0.5, 0.5]])]
KEPT = "Each client holds its best validated model, from round 1 of 2."
OPEN = "One run does not tell whether federating paid: compare it with no-communication."


def sentences(*clients: Any, **settings: Any) -> list[str]:
    return run_verdict(people(**settings), clients, HISTORY)["sentences"]


# -- marks ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "other", "standing"),
    [
        (0.9011, 0.9, 1),
        (0.9009, 0.9, 0),
        (0.8991, 0.9, 0),
        (0.8989, 0.9, -1),
        (-99.95, -100.0, 0),  # a thousandth of 100 is 0.1
        (-99.8, -100.0, 1),
    ],
)
def test_values_are_compared_with_a_tolerance(value: float, other: float, standing: int) -> None:
    assert TOLERANCE == 0.001
    assert compare_values(value, other) == standing


def test_a_constant_answer_is_no_gain_however_good() -> None:
    assert mark_of(0.95, 0.9, constant=True) == "constant"
    assert mark_of(0.95, 0.9, constant=False) == "gained"
    assert mark_of(0.9, 0.9, constant=None) == "level"
    assert mark_of(0.8, 0.9, constant=False) == "below"
    assert mark_of(None, 0.9, constant=False) == "undefined"
    assert mark_of(0.9, None, constant=False) == "undefined"


# -- sentences -----------------------------------------------------------------------------


def test_a_mixed_outcome_is_told_by_kind() -> None:
    clients = [
        client(0.9, 0.9, True),
        client(0.93, 0.9),
        client(0.91, 0.9),
        client(0.9, 0.9),
        client(0.85, 0.9),
        client(None, 0.9),
    ]
    verdict = run_verdict(people(6), clients, HISTORY)
    assert verdict["sentences"] == [
        "1 of 6 clients holds a model that gives every test sample the same answer.",
        "Of the other 4, 2 gained over a constant answer (+0.02 on average), 1 is level with it "
        "(within 0.001) and 1 is below it (-0.05 on average).",
        "1 of 6 clients has no value, because a score is undefined.",
        OPEN,
        KEPT,
    ]
    assert verdict["counts"] == {
        "gained": 2,
        "level": 1,
        "below": 1,
        "constant": 1,
        "undefined": 1,
    }
    assert count_marks(clients) == verdict["counts"]
    assert verdict["mean_gain"] == pytest.approx(-0.002)  # (0 + 0.03 + 0.01 + 0 - 0.05) / 5
    assert verdict["mean_gain_of_gained"] == pytest.approx(0.02)
    assert verdict["kept"] == {"rule": "client", "first": 1, "last": 1}
    json.dumps(verdict, allow_nan=False)


def test_nobody_gained() -> None:
    assert sentences(client(0.9, 0.9, True), client(0.8, 0.8, True))[0] == (
        "2 of 2 clients hold a model that gives every test sample the same answer: nothing was "
        "gained over a constant answer."
    )
    assert sentences(client(0.8, 0.9), client(0.7, 0.9))[0] == (
        "Of 2 clients, none gained over a constant answer and 2 are below it (-0.15 on average)."
    )


@pytest.mark.parametrize(
    ("value", "constant", "sentence"),
    [
        (0.93, False, "The client gained 0.03 over a constant answer."),
        (0.9, False, "The client is level with a constant answer (within 0.001)."),
        (0.85, False, "The client is worse off than with a constant answer, by 0.05."),
        (0.9, True, "The client holds a model that gives every test sample the same answer."),
        (None, None, "A score of the client is undefined, so it has no value."),
    ],
)
def test_a_single_client(value: float | None, constant: bool | None, sentence: str) -> None:
    assert sentences(client(value, 0.9, constant))[0] == sentence


def test_nothing_is_known_at_all() -> None:
    verdict = run_verdict(people(2), [client(None, None), client(None, None)], [])
    assert verdict["mean_gain"] is None
    assert verdict["mean_gain_of_gained"] is None
    assert verdict["sentences"][0].startswith("2 of 2 clients have no value")
    assert verdict["sentences"][-1].startswith("No model was validated")
    json.dumps(verdict, allow_nan=False)


def test_what_training_added_and_who_federates() -> None:
    validation = {"received": 0.912, "trained": 0.9345}
    clients = [client(0.93, 0.9), client(0.93, 0.9)]
    texts = run_verdict(people(2), clients, HISTORY, validation)["sentences"]
    assert texts[1] == (
        "On validation data models had 0.912 as received and 0.934 after local training (mean "
        "scalarised value, last round that has both)."
    )
    alone = sentences(*clients, algorithm="no-communication")
    assert alone[1] == "Clients learned alone."
    assert OPEN not in alone


def test_environments_are_measured_against_doing_nothing() -> None:
    clients = [client(1.0, -50.0), client(-50.01, -50.0)]
    configuration = tiny(clients=2, algorithm="fedavg")
    assert run_verdict(configuration, clients, HISTORY)["sentences"][0] == (
        "Of 2 clients, 1 gained over doing nothing (+51 on average) and 1 is level with it (within "
        "0.001)."
    )


# -- kept rounds ---------------------------------------------------------------------------


def test_the_kept_round_is_the_last_in_which_validation_changed() -> None:
    history: Any = [
        line(1, [[0.5, 0.5], [None, None], [0.1, 0.1]]),
        line(2, [[0.6, 0.5], [0.7, 0.5]], clients=[0, 1]),
        line(3, [[0.6, 0.5], [0.8, 0.5], [0.1, 0.1]]),
    ]
    assert kept_rounds(people(), history) == {0: 2, 1: 3, 2: 1}
    verdict = run_verdict(people(), [client(0.9, 0.9)] * 3, history)
    assert verdict["kept"] == {"rule": "client", "first": 1, "last": 3}
    assert verdict["sentences"][-1] == (
        "Each client holds its best validated model, from round 1 to the last delivery."
    )
    longer = run_verdict(people(rounds=5), [client(0.9, 0.9)] * 3, history)
    assert longer["sentences"][-1] == (
        "Each client holds its best validated model, from rounds 1 to 3 of 5."
    )


def test_one_round_for_all_and_last_models() -> None:
    history: Any = [line(n, [[0.5, 0.5]] * 3, chosen=n == 2) for n in (1, 2, 3)]
    together = people(keep_scope="federation")
    assert chosen_round(together, history) == 1  # what is sent in round 2 is round 1's
    verdict = run_verdict(together, [client(0.9, 0.9)] * 3, history)
    assert verdict["kept"] == {"rule": "federation", "first": 1, "last": 1}
    assert verdict["sentences"][-1] == (
        "All clients hold the models of round 1 of 2, the best one for all together on validation."
    )
    last = run_verdict(people(keep="last"), [client(0.9, 0.9)] * 3, history)
    assert last["kept"] == {"rule": "last"}
    assert last["sentences"][-1] == "Clients hold the models that they ended with (keep = last)."


# -- in the results ------------------------------------------------------------------------


def test_results_have_the_verdict_first_and_a_mark_per_client() -> None:
    configuration = people(names=["North", "South", "West"])
    problem = configuration.get_problem()
    trivial = problem.trivial(range(3), configuration.seed, 1)
    preferences = configuration.get_preferences()
    values = (trivial * preferences).sum(axis=1)
    kept = trivial + np.array([[0.0, 0.0], [0.05, 0.05], [-0.05, -0.05]])
    extra = {"bytes_up": 0, "bytes_down": 0, "clusters": None, "received": None, "trained": None}
    extra |= {"steps": [1] * 3, "skipped": [0] * 3}
    history: Any = [line(1, kept.tolist(), **extra)]
    results = summarise(configuration, kept, kept, history, constant=[True, False, None])
    assert next(iter(results)) == "verdict"
    marks = [(row["name"], row["mark"]) for row in results["per_client"]]
    assert marks == [("North", "constant"), ("South", "gained"), ("West", "below")]
    for row, value in zip(results["per_client"], values, strict=True):
        assert row["trivial"] == pytest.approx(value, abs=1e-6)
        assert row["kept_round"] == 1
    assert [row.get("constant") for row in results["per_client"]] == [True, False, None]
    assert results["verdict"]["counts"]["constant"] == 1
