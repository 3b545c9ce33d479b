"""Model selection: best model per client, one round for all, and declined deliveries."""

from __future__ import annotations

import numpy as np
import torch

from comity.core.fleet import Fleet
from comity.federation.selection import ModelSelection, scores
from tests.tiny import tiny

ROWS = np.arange(2)
PREFERENCES = np.array([[1.0, 0.0], [0.5, 0.5]])


def fleet(first: float, second: float) -> Fleet:
    return Fleet({"w": torch.tensor([[first], [second]], dtype=torch.float32)})


def selection(*, after_training: bool = False, **settings) -> ModelSelection:
    configuration = tiny(clients=2, **settings)
    return ModelSelection(
        configuration,
        PREFERENCES,
        fleet(0, 0),
        reach=lambda rows, value: value.prod(axis=1),
        conditional=False,
        after_training=after_training,
    )


def test_each_client_keeps_its_best_validated_model():
    chosen = selection()
    chosen.validated(ROWS, fleet(1, 1), np.array([[3.0, 0.0], [2.0, 2.0]]), delivered=True)
    # the first client weighs only the first objective, the second both alike
    chosen.validated(ROWS, fleet(2, 2), np.array([[2.0, 9.0], [0.0, 6.0]]), delivered=False)
    assert chosen.kept["w"][:, 0].tolist() == [1, 2]
    assert chosen.kept_value.tolist() == [[3.0, 0.0], [0.0, 6.0]]


def test_a_model_that_is_not_finite_is_never_kept():
    chosen = selection()
    chosen.validated(ROWS, fleet(float("nan"), 1), np.full((2, 2), 5.0), delivered=True)
    assert chosen.kept["w"][:, 0].tolist() == [0, 1]


def test_a_guarded_client_declines_what_scores_below_its_own():
    chosen = selection(guard=True)
    chosen.trained(ROWS, np.array([[4.0, 0.0], [1.0, 1.0]]))
    delivered = np.array([[3.9, 9.0], [0.0, 2.0]])
    assert chosen.declines(ROWS, delivered).tolist() == [True, False]
    chosen.received(ROWS, delivered, np.array([True, False]))
    # the first client still compares with its own 4.0, the second with what it took over
    assert chosen.declines(ROWS, np.array([[3.95, 0.0], [0.0, 1.9]])).tolist() == [True, True]
    chosen.rolled_back(ROWS)
    assert not chosen.declines(ROWS, np.full((2, 2), -100.0)).any()


def test_without_guard_nothing_is_declined():
    chosen = selection()
    chosen.trained(ROWS, np.full((2, 2), 4.0))
    assert not chosen.declines(ROWS, np.zeros((2, 2))).any()


def test_one_round_for_all_is_kept_only_when_the_server_says_so():
    chosen = selection(keep_scope="federation")
    value = np.array([[2.0, 3.0], [4.0, 5.0]])
    chosen.received(ROWS, value, np.zeros(2, dtype=bool))
    chosen.validated(ROWS, fleet(1, 1), value, delivered=True)
    chosen.validated(ROWS, fleet(2, 2), value + 1, delivered=False)
    assert chosen.statistics(ROWS)["validation"].tolist() == [6.0, 20.0]
    assert chosen.kept["w"][:, 0].tolist() == [0, 0]
    chosen.keep_round(np.array([1]), models=fleet(2, 2), start=fleet(1, 1))
    assert chosen.kept["w"][:, 0].tolist() == [0, 1]
    assert chosen.kept_value[1].tolist() == [4.0, 5.0]


def test_the_round_may_be_chosen_by_trained_models():
    chosen = selection(keep_scope="federation", after_training=True)
    value = np.array([[2.0, 3.0], [4.0, 5.0]])
    chosen.validated(ROWS, fleet(1, 1), value, delivered=True)
    assert np.isnan(chosen.statistics(ROWS)["validation"]).all()
    chosen.trained(ROWS, value)
    chosen.validated(ROWS, fleet(2, 2), value, delivered=False)
    assert chosen.statistics(ROWS)["validation"].tolist() == [6.0, 20.0]
    chosen.keep_round(ROWS, models=fleet(2, 2), start=fleet(1, 1))
    assert chosen.kept["w"][:, 0].tolist() == [2, 2]


def test_state_holds_everything_that_a_later_verdict_needs():
    before = selection(keep_scope="federation")
    value = np.array([[2.0, 3.0], [4.0, 5.0]])
    before.received(ROWS, value, np.zeros(2, dtype=bool))
    before.validated(ROWS, fleet(1, 1), value, delivered=True)
    after = selection(keep_scope="federation")
    after.load({name: array.copy() for name, array in before.state().items()})
    assert after.statistics(ROWS)["validation"].tolist() == [6.0, 20.0]
    after.keep_round(ROWS, models=fleet(2, 2), start=fleet(1, 1))
    assert after.kept_value.tolist() == value.tolist()


def test_minus_infinity_stays_even_with_a_preference_of_zero():
    values = np.array([[1.0, -np.inf], [1.0, 3.0]])
    assert scores(values, PREFERENCES).tolist() == [-np.inf, 2.0]
