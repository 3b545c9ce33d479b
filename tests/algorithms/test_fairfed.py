from __future__ import annotations

import json

import numpy as np
import pytest

from comity.algorithms import Round, Survey, make
from comity.algorithms.fairfed import disparity
from comity.problems.data import batch_of
from tests.tiny import ANSWERS, PEOPLE, fleet_of
from tests.vectors import fleet

SIZES = np.array([500.0, 300.0, 200.0])


def survey(disparities, together, participants=None, right=None, sizes=SIZES) -> Survey:
    """Counts of clients with these disparities, whose pooled disparity is also given."""
    half, rates = sizes / 2, np.array(disparities)
    yes = np.stack([(0.5 + rates) * half, (0.5 - rates) * half], axis=1)
    members = np.stack([half, half], axis=1)
    found = disparity(yes.sum(axis=0), members.sum(axis=0))
    assert found == pytest.approx(together)
    values = {
        "yes": yes,
        "members": members,
        "right": sizes / 2 if right is None else np.array(right, dtype=float),
    }
    return Survey(tuple(range(len(sizes))) if participants is None else participants, values)


def mixed(algorithm, count=3, sizes=SIZES, participants=None) -> np.ndarray:
    sent = fleet([[float(i)] for i in range(count)])
    ids = tuple(range(count)) if participants is None else participants
    mixing = algorithm.mix(Round(1, ids, (0, 1, 2, 3), sent, sent, sizes))["*"]
    mixing.check(count)
    return mixing.weights[0]


@pytest.mark.parametrize(
    ("yes", "members", "wanted"),
    [
        ([30, 60], [100, 100], 0.15),
        ([30, 60, 10], [100, 100, 50], 0.2),
        ([30, 0], [100, 0], 0.3),  # nobody there: as if all of them were told no
    ],
)
def test_disparity_vectors(yes, members, wanted):
    assert disparity(np.array(yes, float), np.array(members, float)) == pytest.approx(wanted)


def test_disparities_of_many_clients_at_once():
    yes, members = np.array([[30.0, 60.0], [50.0, 50.0]]), np.full((2, 2), 100.0)
    np.testing.assert_allclose(disparity(yes, members), [0.15, 0.0], atol=1e-12)


@pytest.fixture
def vector(monkeypatch) -> Survey:
    """A survey in which F_k = (.1, .25, .4) and F = .2, as the specification has it."""

    def given(yes, members):
        return np.array([0.1, 0.25, 0.4]) if yes.ndim == 2 else np.array(0.2)

    monkeypatch.setattr("comity.algorithms.fairfed.disparity", given)
    members = SIZES[:, None] / 2 * np.ones(2)
    return Survey((0, 1, 2), {"yes": members / 2, "members": members, "right": SIZES / 2})


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ("exp", [0.5006894363, 0.3049538329, 0.1943567309]),
        ("additive", [0.505, 0.32, 0.175]),
    ],
)
def test_weights_of_the_specification(rule, wanted, vector):
    """F_k = (.1, .25, .4), F = .2, β = .3."""
    algorithm = make("fairfed", {"rule": rule, "beta": 0.3})
    assert algorithm.broadcast(vector) == {}
    np.testing.assert_allclose(mixed(algorithm), wanted, atol=1e-9)


def test_the_public_codes_average_does_not_weigh_the_first_client(vector):
    """w = (.4852, .2955, .1884) before they are divided by their sum, .9691."""
    algorithm = make("fairfed", {"beta": 0.3, "average": "public"})
    algorithm.broadcast(vector)
    np.testing.assert_allclose(mixed(algorithm), [1.0319, 0.3050, 0.1944], atol=1e-4)


@pytest.mark.parametrize("rule", ["exp", "additive"])
def test_weights_come_from_counts(rule):
    """Without anything replaced: disparities .1, .25, .4, pooled (50 + 75 + 80) / 1000."""
    algorithm = make("fairfed", {"rule": rule, "beta": 0.3})
    algorithm.broadcast(survey([0.1, 0.25, 0.4], 0.205))
    away = np.array([0.105, 0.045, 0.195])
    shares = SIZES / 1000
    if rule == "exp":
        wanted = np.exp(-0.3 * away) * shares
        wanted = wanted / wanted.sum()
    else:
        wanted = shares - 0.3 * (away - away.mean())
    np.testing.assert_allclose(mixed(algorithm), wanted, atol=1e-9)


def test_the_additive_rule_is_carried_on_and_the_other_is_not(vector):
    found = {}
    for rule in ("exp", "additive"):
        algorithm = make("fairfed", {"rule": rule, "beta": 0.3})
        for _ in range(2):
            algorithm.broadcast(vector)
        found[rule] = mixed(algorithm)
    np.testing.assert_allclose(found["exp"][0], 0.5006894363, atol=1e-9)
    np.testing.assert_allclose(found["additive"], [0.51, 0.34, 0.15], atol=1e-9)


def test_a_client_without_one_of_the_groups_is_measured_by_accuracy():
    members = np.array([[250.0, 250.0], [300.0, 0.0]])
    values = {"yes": np.array([[200.0, 50.0], [0.0, 0.0]]), "members": members}
    values["right"] = np.array([300.0, 240.0])  # .6 and .8, all together .675
    algorithm = make("fairfed", {"rule": "additive", "beta": 0.2})
    algorithm.broadcast(Survey((0, 1), values))
    own, pooled = 0.3, 250 / 800
    rates = np.array([200 / 550, 50 / 250])
    away = np.array([abs(own - np.abs(rates - pooled).max()), abs(0.8 - 0.675)])
    wanted = np.array([500, 300]) / 800 - 0.2 * (away - away.mean())
    np.testing.assert_allclose(mixed(algorithm, 2, SIZES[:2]), wanted / wanted.sum(), atol=1e-9)


def test_weights_are_never_negative():
    algorithm = make("fairfed", {"rule": "additive", "beta": 20.0})
    algorithm.broadcast(survey([0.1, 0.25, 0.4], 0.205))
    found = mixed(algorithm)
    assert found.min() == 0.0
    assert found.sum() == pytest.approx(1.0)


def test_without_any_weight_sizes_decide():
    np.testing.assert_allclose(mixed(make("fairfed", {})), SIZES / 1000)


def test_absent_clients_keep_their_weight_for_later():
    algorithm = make("fairfed", {"rule": "additive", "beta": 0.3})
    algorithm.broadcast(survey([0.1, 0.25, 0.4], 0.205))
    first = mixed(algorithm)
    algorithm.broadcast(survey([0.1, 0.1], 0.1, participants=(0, 1), sizes=SIZES[:2]))
    # equal deviations move nothing; weights are those of the two, renormalised
    kept = mixed(algorithm, 2, SIZES[:2], participants=(0, 1))
    np.testing.assert_allclose(kept, first[:2] / first[:2].sum(), atol=1e-9)
    assert algorithm.state()["weights"][2] == (2, pytest.approx(first[2]))


def test_its_state_is_plain_values():
    algorithm, other = (make("fairfed", {"rule": "additive"}) for _ in range(2))
    algorithm.broadcast(survey([0.1, 0.25, 0.4], 0.205))
    other.load(json.loads(json.dumps(algorithm.state())))
    np.testing.assert_array_equal(mixed(other), mixed(algorithm))


@pytest.mark.parametrize("problem", [PEOPLE, ANSWERS], ids=["one-logit", "two-logits"])
def test_clients_count_the_answers_of_the_model_that_they_received(problem):
    """Also where clients have unequal numbers of samples: padding is not counted."""
    learner, models, module, problem = fleet_of("fairfed", problem, sizes="4,2,1")
    algorithm = make("fairfed", {})
    asked = learner.survey(
        models, np.arange(3), algorithm.surveys, 1, algorithm.survey_client(problem)
    )
    said, gradients = asked
    assert gradients is None
    ((column, groups),) = problem.attributes.items()
    for client, share in enumerate(problem.client_rows()):
        data = batch_of(problem.columns(), share.train)
        outputs = module(data["inputs"]).detach()
        yes = outputs[:, 0] > 0 if outputs.shape[1] == 1 else outputs[:, 1] > outputs[:, 0]
        for z in range(groups):
            own = data[column] == z
            assert said["members"][client, z] == own.sum()
            assert said["yes"][client, z] == yes[own].sum()
        assert said["right"][client] == (yes == data["label"].bool()).sum()
