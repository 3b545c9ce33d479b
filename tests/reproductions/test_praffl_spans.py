"""What PraFFL's figures claim, measured on vectors made by hand."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from comity.errors import UserError
from comity.reproductions.praffl_spans import span_measures
from comity.runs.spans import Spans

ASKED = np.array([[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]])
VECTORS = np.array([[[0.6, 1.0], [0.7, 0.9], [0.8, 0.7]]])
# the second is dominated by the first, and it is not cheaper in the first loss
LOSSES = np.array([[[0.5, 0.1], [0.6, 0.2], [0.3, 0.4]]])


def spanning(vectors: Any = VECTORS, losses: Any = LOSSES) -> Any:
    return SimpleNamespace(path=Path("run"), spans=Spans(ASKED, vectors, losses), reached=vectors)


def single(*vector: float) -> Any:
    return SimpleNamespace(path=Path("run"), spans=None, reached=np.array([[vector]]))


def test_solutions_are_held_against_those_of_the_same_seed():
    runs = {
        "praffl": [spanning(), spanning()],
        "strong": [single(0.75, 0.9), single(0.1, 0.1)],
        "weak": [single(0.65, 0.8), single(0.65, 0.8)],
    }
    found = span_measures("fronts", runs)
    # (.7, .9) falls to (.75, .9) in the first seed only
    assert found["praffl"]["each"] == [
        [{"front": 3, "undominated": 2, "share": 2 / 3}],
        [{"front": 3, "undominated": 3, "share": 1.0}],
    ]
    assert found["praffl"]["measures"]["undominated"] == {"mean": 2.5, "std": 0.5}
    assert [seed[0]["undominated"] for seed in found["strong"]["each"]] == [1, 0]
    assert [seed[0]["undominated"] for seed in found["weak"]["each"]] == [0, 0]


def test_the_two_fronts_are_counted_at_the_same_preferences():
    (client,) = span_measures("losses", {"praffl": [spanning()]})["praffl"]["each"][0]
    assert (client["loss_front"], client["front"]) == (2, 3)
    # accuracy ranks 1, 2, 3, its loss turned round 2, 1, 3; fairness 3, 2, 1 and 3, 2, 1
    assert client["accuracy_agreement"] == pytest.approx(0.5)
    assert client["fairness_agreement"] == pytest.approx(1.0)


def test_the_map_of_preferences_is_steady_and_distinct_or_not():
    flat = np.array([[[0.6, 0.9], [0.6, 0.9], [0.8, 0.9]]])
    runs = {"praffl": [spanning(), spanning(flat)]}
    steady, plain = span_measures("responses", runs)["praffl"]["each"]
    assert steady[0]["monotony"] == pytest.approx(1)
    assert steady[0]["distinct"] == 1
    # accuracy: ranks 1.5, 1.5, 3 against 1, 2, 3; fairness never moves
    assert plain[0]["monotony"] == pytest.approx(0.5 * np.sqrt(3) / 2)
    assert plain[0]["distinct"] == pytest.approx(2 / 3)


def test_a_run_without_losses_is_refused():
    with pytest.raises(UserError, match="before losses were kept"):
        span_measures("losses", {"praffl": [spanning(losses=None)]})


def converging(values: list[float], after_training: bool) -> Any:
    """A run whose history has one line per round and one for the last delivery."""
    lines = [{"round": n, "validation_hypervolume": v} for n, v in enumerate(values, start=1)]
    if not after_training:  # the first delivery is the initial model
        lines = [{"round": 1}, *({**line, "round": line["round"] + 1} for line in lines)]
    algorithm = SimpleNamespace(select_after_training=after_training)
    configuration = SimpleNamespace(rounds=len(values), get_algorithm=lambda: algorithm)
    return SimpleNamespace(path=Path("run"), history=lines, configuration=configuration)


@pytest.mark.parametrize("after_training", [True, False])
def test_the_rate_is_that_of_the_rounds(after_training):
    values = [0.9 - 0.4 * 0.5**n for n in range(1, 7)]
    found = span_measures("rounds", {"praffl": [converging(values, after_training)]})["praffl"]
    assert found["rounds"] == [values]
    assert found["measures"]["factor"]["mean"] == pytest.approx(0.5)
    assert found["measures"]["limit"]["mean"] == pytest.approx(0.9)
    assert found["fit"]["explained"] == pytest.approx(1)


def test_too_few_rounds_have_no_rate_and_missing_ones_are_named():
    found = span_measures("rounds", {"praffl": [converging([0.1, 0.2], True)]})["praffl"]
    assert found["measures"]["factor"] == {"mean": None, "std": None}
    assert found["fit"] is None
    run = converging([0.1, 0.2], True)
    del run.history[0]
    with pytest.raises(UserError, match="lacks the validation hypervolume of some rounds"):
        span_measures("rounds", {"praffl": [run]})
