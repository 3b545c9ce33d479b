from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from fairlearn.metrics import (
    demographic_parity_difference,
    equal_opportunity_difference,
    equalized_odds_difference,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import vmap

from comity.configuration import configure
from comity.problems import find, problems
from comity.problems.fairness import FairnessProblem, fairness_problem
from comity.problems.gaps import Aim, gap, relaxed

REFEREES = {
    "dp": demographic_parity_difference,
    "eo": equal_opportunity_difference,
    "eodds": equalized_odds_difference,
}


def logit(share: float) -> float:
    return float(np.log(share / (1 - share)))


def batch(label, sex, weight=None):
    return {
        "label": torch.tensor(label).float(),
        "group:sex": torch.tensor(sex),
        "weight": torch.ones(len(label)) if weight is None else torch.tensor(weight).float(),
    }


def posed(*aims: Aim, **settings: float) -> FairnessProblem:
    """A problem with some aims and no table."""
    problem = fairness_problem("aims", "aims", list, {"sex": 2}, ["dp"])
    return replace(problem, aims=aims, **settings)


def test_relaxed_answers_are_the_thesis():
    logits = torch.tensor([logit(f) for f in (0.2, 0.5, 0.6, 0.9)])
    wanted = [0.5, 0.5, 0.7685247835, 0.9918374288]
    np.testing.assert_allclose(relaxed(logits, 3.0), wanted, atol=1e-6)


def test_relaxed_and_hard_gaps_of_the_specification():
    shares, sex = (0.9, 0.6, 0.2, 0.8, 0.3), torch.tensor([0, 0, 0, 1, 1])
    logits = torch.tensor([logit(f) for f in shares])
    value, defined = gap(relaxed(logits, 3.0), sex, torch.ones(5), 2)
    assert defined
    assert value.item() == pytest.approx(0.0167525676, abs=1e-6)
    hard, _ = gap((logits > 0).float(), sex, torch.ones(5), 2)
    assert hard.item() == pytest.approx(0.1666666667, abs=1e-6)


def test_losses_use_logits_and_a_tenth_of_the_entropy():
    """logits (2, -1), y = (1, 0): 0.2200948894; squashed twice it would be 0.59."""
    losses = posed(Aim("sex", "dp", 2), slope=3.0, scale=1.0, regulariser=0.1).losses
    found = losses(torch.tensor([[2.0], [-1.0]]), batch([1, 0], [0, 1]))
    share = torch.sigmoid(torch.tensor(2.0))
    gap_hat = torch.tanh(3 * (2 * share - 1)) / 2
    np.testing.assert_allclose(found[0], 0.2200948894, atol=1e-6)
    np.testing.assert_allclose(found[1], gap_hat + 0.02200948894, atol=1e-6)


def test_losses_do_not_see_padding():
    losses = posed(Aim("sex", "eo", 2), slope=3.0, scale=2.0, regulariser=0.1).losses
    outputs = torch.tensor([[2.0], [-1.0], [0.5]])
    whole = losses(outputs, batch([1, 1, 0], [0, 1, 1]))
    padded = losses(
        torch.cat([outputs, torch.full((2, 1), 9.0)]),
        batch([1, 1, 0, 1, 1], [0, 1, 1, 0, 1], weight=[1, 1, 1, 0, 0]),
    )
    torch.testing.assert_close(padded, whole)


def test_a_batch_without_one_of_the_groups_is_skipped_and_counted():
    aims = (Aim("sex", "dp", 2), Aim("sex", "eo", 2), Aim("sex", "eodds", 2))
    problem = posed(*aims, slope=3.0, scale=1.0, regulariser=0.1)
    outputs = torch.tensor([[2.0], [1.0], [-1.0]], requires_grad=True)
    alone = batch([1, 0, 1], [1, 1, 1])
    found = problem.losses(outputs, alone)
    (grad,) = torch.autograd.grad(found[1:].sum(), outputs)
    np.testing.assert_allclose(found[1:].detach(), 0.1 * found[0].detach().expand(3), atol=1e-6)
    assert torch.isfinite(grad).all()
    assert problem.undefined(alone).tolist() == [False, True, True, True]
    # both groups, but only one of them with a positive label
    half = batch([1, 0, 0], [1, 0, 1])
    assert problem.undefined(half).tolist() == [False, False, True, True]
    scores = problem.scores(outputs.detach(), half)
    assert not torch.isnan(scores[:2]).any()
    assert torch.isnan(scores[2:]).all(), "undefined must never read as fair"


@settings(deadline=None)  # fairlearn's first call is slow
@given(seed=st.integers(0, 2**30), groups=st.integers(2, 4))
def test_hard_metrics_agree_with_fairlearn(seed, groups):
    g = np.random.default_rng(seed)
    label = np.concatenate([np.tile([0, 1], groups), g.integers(2, size=40)])
    sex = np.concatenate([np.repeat(np.arange(groups), 2), g.integers(groups, size=40)])
    outputs = torch.from_numpy(g.standard_normal((len(label), 1))).float()
    aims = tuple(Aim("sex", metric, groups) for metric in REFEREES)
    found = posed(*aims).scores(outputs, batch(label, sex))
    answers = (outputs[:, 0] > 0).int().numpy()
    assert found[0].item() == pytest.approx((answers == label).mean(), abs=1e-6)
    for value, referee in zip(found[1:], REFEREES.values(), strict=True):
        wanted = 1 - referee(label, answers, sensitive_features=sex)
        assert value.item() == pytest.approx(wanted, abs=1e-6)


def test_losses_of_several_clients_are_those_of_each():
    aims = Aim("sex", "dp", 2), Aim("sex", "eodds", 2)
    losses = posed(*aims, slope=3.0, scale=1.0, regulariser=0.1).losses
    g = torch.Generator().manual_seed(3)
    outputs = torch.randn(3, 20, 1, generator=g)
    label = torch.randint(2, (3, 20), generator=g).float()
    many = {"label": label, "group:sex": torch.randint(2, (3, 20), generator=g)}
    many["weight"] = torch.ones(3, 20)
    together = vmap(losses)(outputs, many)
    for client in range(3):
        alone = losses(outputs[client], {k: v[client] for k, v in many.items()})
        torch.testing.assert_close(together[client], alone)


def test_every_data_set_attribute_and_metric_is_a_problem():
    names = set(problems())
    assert {"adult-gender-dp", "adult-gender-eo", "adult-race-dp", "law-school-gender-eo"} <= names
    assert {"law-school-race-dp", "credit-default-gender-eo", "compas-race-eodds"} <= names
    assert {"credit-default-age-dp", "credit-default-age-eo"} <= names
    three = {"adult-gender-race-eo": 3, "adult-gender-dp-eo": 3, "heart-disease-gender-dp-eo": 3}
    for name, count in three.items():
        assert len(find(name).objectives) == count


def test_trivially_fair_points_do_not_count():
    points = np.array([[0.8, 0.9], [0.76, 1.0], [0.76, 0.9995], [0.7, 0.999]])
    problem = find("adult-gender-dp")
    assert problem.counted(points).tolist() == [True, False, False, True]
    measures = problem.measures(points, np.full((4, 2), 0.5))
    assert measures["dropped"] == 0.5
    assert measures["hypervolume"] == pytest.approx(0.8 * 0.9 + 0.7 * 0.099)
    assert measures["accuracy"] == pytest.approx(0.755)
    # 76.07 % do not earn so much: reference (0.7107, 0.5); the last point is not above it
    assert measures["strict_hypervolume"] == pytest.approx((0.8 - 0.710718) * 0.4)
    unknown = problem.measures(np.array([[0.8, 0.9], [0.8, np.nan]]), np.full((2, 2), 0.5))
    assert (unknown["undefined"], unknown["dropped"]) == (0.5, 0.0)
    assert unknown["hypervolume"] == pytest.approx(0.72)


def test_the_constant_classifier_stands_beside():
    problem = find("german-credit-gender-dp").partitioned(4, 1, "stratified", "equal")
    vectors = problem.trivial(range(4), 1, 1)
    np.testing.assert_allclose(vectors[:, 1], 1.0)
    np.testing.assert_allclose(vectors[:, 0], 0.7, atol=0.02)  # 700 of 1000 are good
    measures = problem.trivial_measures(vectors, np.full((4, 2), 0.5))
    assert measures["hypervolume"] == pytest.approx(vectors[:, 0].max())


# -- defaults ------------------------------------------------------------------------------


def test_losses_are_brought_to_the_unit_of_scores():
    """Cross entropy in bits: a coin has 1; a relaxed gap lies between 0 and 1/2."""
    problem = posed(Aim("sex", "dp", 2), Aim("sex", "eo", 2), regulariser=0.0)
    assert problem.loss_units() == (pytest.approx(0.6931472), 0.5, 0.5)
    everybody = batch([1, 0, 1, 0], [0, 0, 1, 1])
    coin = problem.losses(torch.zeros(4, 1), everybody) / torch.tensor(problem.loss_units())
    torch.testing.assert_close(coin, torch.tensor([1.0, 0.0, 0.0]))
    # yes to the first group, no to the second: half of the answers are wrong, and the gap is whole
    sure = torch.tensor([[9.0], [9.0], [-9.0], [-9.0]])
    bad = problem.losses(sure, everybody) / torch.tensor(problem.loss_units())
    assert bad[0] > 0.5
    torch.testing.assert_close(bad[1:], torch.ones(2), atol=0.01, rtol=0)


@pytest.mark.parametrize(
    "name", ["adult-gender-dp", "law-school-race-eo", "heart-disease-gender-dp"]
)
def test_every_client_wants_something_of_everything_by_default(name):
    configuration = configure({"problem": name, "clients": 4, "seed": 3})
    assert configuration.learner_settings["normalise"] == "units"
    assert configuration.preferences == "interior"
    assert configuration.get_preferences().min() >= 0.1


def test_the_thesis_rules_are_a_preset():
    values = {"problem": "adult-gender-dp", "algorithm": "fedpref", "preset": "thesis-fairness"}
    configuration = configure(values)
    assert configuration.learner_settings["normalise"] == "initial"
    assert configuration.learner_settings["learning_rate"] == 0.01  # table A.12
    assert (configuration.preferences, configuration.partition) == ("dirichlet", "naive")
