from __future__ import annotations

import pytest
import torch

from comity.algorithms import make
from tests.tiny import (
    ANSWERS,
    Number,
    assert_holds,
    assert_private_stays,
    assert_sends,
    batches_of,
    fleet_of,
    held,
    learn,
    network_of,
    objective_of,
    one_step,
)


def test_a_private_step_by_hand():
    """v ← v − η (∇f(v) + λ (v − w)): 2 − 0.1 (0.4 + 0.5 · 1)."""
    algorithm = make("ditto", {"pull": 0.5})
    module = algorithm.build(Number(1.0), ANSWERS)
    tensors = {**held(module), "personal.t": torch.tensor([2.0])}
    private, common = algorithm.phases(ANSWERS)
    found = one_step(private, module, tensors, lambda answer: 0.4 * answer.sum(), 0.1)
    torch.testing.assert_close(found["personal.t"], torch.tensor([1.91]))
    assert torch.equal(found["shared.t"], tensors["shared.t"])
    found = one_step(common, module, tensors, lambda answer: 0.4 * answer.sum(), 0.1)
    torch.testing.assert_close(found["shared.t"], torch.tensor([0.96]))
    assert torch.equal(found["personal.t"], tensors["personal.t"])


def test_the_private_model_is_pulled_to_what_was_received():
    """Not to the model that is being trained beside it."""
    algorithm = make("ditto", {"pull": 1.0})
    module = algorithm.build(Number(1.0), ANSWERS)
    tensors = {"shared.t": torch.tensor([5.0]), "personal.t": torch.tensor([2.0])}
    received = {"shared.t": torch.tensor([1.0]), "personal.t": torch.tensor([9.0])}
    phase = algorithm.phases(ANSWERS)[0]
    found = one_step(
        phase, module, tensors, lambda answer: 0 * answer.sum(), 0.1, received=received
    )
    torch.testing.assert_close(found["personal.t"], torch.tensor([1.9]))


def test_the_private_model_predicts():
    module = make("ditto", {}).build(Number(1.0), ANSWERS)
    module.personal.t.data.fill_(3.0)
    assert module(torch.zeros(1)).item() == 3.0
    assert module(torch.zeros(1), True).item() == 1.0


@pytest.mark.parametrize(("pull", "share"), [(0.5, 1.0), (2.0, 2.0)])
def test_two_rounds_are_those_of_plain_pytorch(pull, share):
    algorithm = make("ditto", {"pull": pull, "personal_share": share})
    learner, models, _, problem = fleet_of(
        algorithm, ANSWERS, optimiser="sgd", learning_rate=0.1, momentum=0.5
    )
    for round in (1, 2):
        start = learn(algorithm, learner, models, problem, round=round)
        for client in range(3):
            w = network_of(problem, start, client, "shared.")
            v = network_of(problem, start, client, "personal.")
            received, lose = (
                [p.detach().clone() for p in w.parameters()],
                objective_of(problem, client),
            )
            descent = torch.optim.SGD(v.parameters(), 0.1, momentum=0.5)
            for batch in batches_of(problem, client, int(3 * share), 16, 0, round):
                away = sum(
                    (p - r).square().sum() for p, r in zip(v.parameters(), received, strict=True)
                )
                descent.zero_grad()
                (lose(v(batch["inputs"]), batch) + pull / 2 * away).backward()
                descent.step()
            descent = torch.optim.SGD(w.parameters(), 0.1, momentum=0.5)
            for batch in batches_of(problem, client, 3, 16, 1, round):
                descent.zero_grad()
                lose(w(batch["inputs"]), batch).backward()
                descent.step()
            assert_holds(models, client, "personal.", v)
            assert_holds(models, client, "shared.", w)


def test_only_the_global_model_travels():
    assert_sends("ditto", {"shared"})


def test_private_models_stay_and_wait_for_their_client():
    assert_private_stays("ditto", "personal.")
