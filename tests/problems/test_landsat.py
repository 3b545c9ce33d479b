from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.func import vmap

from comity.datasets.landsat import FEATURES, GROUNDS, landsat
from comity.errors import UserError
from comity.problems import find
from comity.problems.data import batch_of
from comity.problems.landsat import RARE

PROBLEM = find("statlog-landsat")
OTHER = 0  # red soil


def batch(labels, weight=None):
    weight = [1.0] * len(labels) if weight is None else weight
    return {"label": torch.tensor(labels), "weight": torch.tensor(weight)}


def answers(*classes):
    """Outputs that name these classes."""
    return torch.nn.functional.one_hot(torch.tensor(classes), 6).float()


# -- by hand -------------------------------------------------------------------------------


def test_scores_by_hand():
    labels = [RARE, RARE, RARE, RARE, 0, 0, 1, 2, 4, 5]
    given = answers(RARE, RARE, RARE, 2, 0, RARE, 1, 2, 4, 4)
    accuracy, detection = PROBLEM.scores(given, batch(labels)).tolist()
    assert accuracy == pytest.approx(7 / 10)
    assert detection == pytest.approx(3 / 4 - 1 / 6)
    # a sample without weight is padding
    padded = batch([*labels, RARE], [1.0] * 10 + [0.0])
    more = PROBLEM.scores(torch.cat([given, answers(0)]), padded)
    assert more.tolist() == pytest.approx([accuracy, detection])


@pytest.mark.parametrize("label", [RARE, OTHER])
def test_detection_is_undefined_where_there_is_nothing_to_compare(label):
    accuracy, detection = PROBLEM.scores(answers(label, label), batch([label] * 2)).tolist()
    assert accuracy == 1
    assert math.isnan(detection)
    assert PROBLEM.undefined(batch([label] * 2)).tolist() == [False, True]
    assert PROBLEM.undefined(batch([OTHER, RARE])).tolist() == [False, False]


def test_losses_by_hand():
    """The rare ground has chance 1/2 in every sample; the other five share the rest."""
    logits = torch.zeros(3, 6)
    logits[:, RARE] = math.log(5)
    entropy, rarely = PROBLEM.losses(logits, batch([RARE, OTHER, OTHER])).tolist()
    assert entropy == pytest.approx((math.log(2) + 2 * math.log(10)) / 3)
    assert rarely == pytest.approx(math.log(2))
    # one half each: doubling other ground changes nothing in the second loss
    logits[1:, RARE] = math.log(15)
    for count in (1, 2):
        labels = [RARE] + [OTHER] * count
        rarely = PROBLEM.losses(logits[: count + 1], batch(labels))[1].item()
        assert rarely == pytest.approx((math.log(2) + math.log(4)) / 2)
    # a half that is absent is left out
    assert PROBLEM.losses(logits[:1], batch([RARE]))[1].item() == pytest.approx(math.log(2) / 2)


def test_losses_stay_finite_and_have_gradients_where_a_half_is_absent():
    outputs = torch.full((2, 6), -200.0)
    outputs[:, RARE] = 200.0
    outputs.requires_grad_()
    losses = PROBLEM.losses(outputs, batch([OTHER, OTHER]))
    losses.sum().backward()
    assert torch.isfinite(losses).all()
    assert torch.isfinite(outputs.grad).all()
    assert outputs.grad.abs().sum() > 0


# -- a constant answer ---------------------------------------------------------------------


@given(
    answer=st.integers(0, 5),
    labels=st.lists(st.integers(0, 5), min_size=1, max_size=20),
)
def test_no_constant_answer_detects_anything(answer, labels):
    labels = [*labels, RARE, OTHER]
    detection = PROBLEM.scores(answers(*[answer] * len(labels)), batch(labels))[1].item()
    assert detection == 0


def test_the_trivial_baseline_is_the_commonest_ground():
    problem = PROBLEM.partitioned(10, 1, "dirichlet:1", "equal")
    trivial = problem.trivial(range(10), seed=1, episodes=1)
    ground = landsat().ground
    for row, share in zip(trivial, problem.client_rows(), strict=True):
        commonest = np.bincount(ground[share.train]).argmax()
        assert row[0] == pytest.approx((ground[share.test] == commonest).mean())
        assert row[1] == 0


# -- the problem ---------------------------------------------------------------------------


def test_every_client_has_damp_grey_soil_in_each_part():
    defaults = PROBLEM.run_defaults
    ground = landsat().ground
    for seed in range(5):
        problem = PROBLEM.partitioned(
            defaults["clients"], seed, defaults["partition"], "equal", defaults["split_ratio"]
        )
        rows = problem.client_rows()
        for share in rows:
            for part in (share.train, share.validation, share.test):
                assert (ground[part] == RARE).any()
        sizes = [np.concatenate([r.train, r.validation, r.test]) for r in rows]
        assert len(np.unique(np.concatenate(sizes))) == 6435 == sum(map(len, sizes))


def test_a_fleet_is_judged_as_each_client():
    labels = torch.randint(6, (3, 40), generator=torch.Generator().manual_seed(1))
    outputs = torch.randn(3, 40, 6, generator=torch.Generator().manual_seed(2))
    together = {"label": labels, "weight": torch.ones(3, 40)}
    for function in (PROBLEM.losses, PROBLEM.scores, PROBLEM.undefined):
        arguments = (outputs, together) if function != PROBLEM.undefined else (together,)
        mapped = vmap(function)(*arguments)
        for row in range(3):
            one = {name: column[row] for name, column in together.items()}
            alone = (outputs[row], one) if function != PROBLEM.undefined else (one,)
            torch.testing.assert_close(mapped[row], function(*alone))


def test_brightness_is_scaled_by_training_rows():
    problem = PROBLEM.partitioned(2, 1, "stratified", "equal")
    learned = np.concatenate([share.train for share in problem.client_rows()])
    inputs = problem.columns()["inputs"].numpy()
    np.testing.assert_allclose(inputs[learned].mean(0), 0, atol=1e-4)
    np.testing.assert_allclose(inputs[learned].std(0, ddof=1), 1, atol=1e-4)
    columns = {name: [f"{v:g}" for v in landsat().inputs[:3, i]] for i, name in enumerate(FEATURES)}
    np.testing.assert_allclose(problem.inputs_of(columns).numpy(), inputs[:3], rtol=1e-5)
    assert problem.features() == FEATURES
    with pytest.raises(UserError, match=r"new rows of statlog-landsat: .*'p0b0' is absent"):
        problem.encode({})


def test_the_two_objectives_conflict():
    """The same network, trained for either objective alone, is better at that one."""
    problem = PROBLEM.partitioned(1, 1, "stratified", "equal", "50:20:30")
    columns, rows = problem.columns(), problem.client_rows()[0]
    train, test = batch_of(columns, rows.train), batch_of(columns, rows.test)
    scores = []
    for weights in ([1.0, 0.0], [0.1, 0.9]):
        torch.manual_seed(1)
        network = problem.model()
        optimiser = torch.optim.Adam(network.parameters(), 5e-3)
        for _ in range(100):
            optimiser.zero_grad()
            (torch.tensor(weights) @ problem.losses(network(train["inputs"]), train)).backward()
            optimiser.step()
        with torch.inference_mode():
            scores.append(problem.scores(network(test["inputs"]), test).tolist())
    (accurate, missed), (rougher, found) = scores
    assert accurate > rougher + 0.01
    assert found > missed + 0.05
    assert len(GROUNDS) == network(test["inputs"][:1]).shape[1]
