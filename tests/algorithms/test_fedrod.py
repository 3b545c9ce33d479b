from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from comity.algorithms import make
from comity.algorithms.fedrod import TwoHeads
from comity.core.phases import View
from comity.problems.data import batch_of
from tests.tiny import (
    ANSWERS,
    assert_holds,
    assert_private_stays,
    assert_sends,
    batches_of,
    fleet_of,
    learn,
    network_of,
)


def lost(generic: list[float], own: list[float], counts: list[float], label: int) -> torch.Tensor:
    """FedROD's loss of one sample with these logits."""
    (phase,) = make("fedrod", {}).phases(ANSWERS)
    assert phase.loss is not None
    view = View({}, forward=lambda *_: torch.tensor([[*generic, *own]]))
    batch = {"inputs": torch.zeros(1, 4), "label": torch.tensor([float(label)])}
    return phase.loss({"counts": torch.tensor(counts)}, batch, view)


def entropy(logits: list[float], label: int) -> torch.Tensor:
    return F.cross_entropy(torch.tensor([logits]), torch.tensor([label]))


def test_the_generic_loss_makes_up_for_how_many_samples_a_class_has():
    """CE(s + log c): 1.386294 for logits (1, 1), counts (3, 1) and label 1."""
    found = lost([1.0, 1.0], [0.0, 0.0], [3.0, 1.0], 1) - entropy([1.0, 1.0], 1)
    torch.testing.assert_close(found, torch.tensor(1.386294), rtol=0, atol=1e-5)


def test_the_private_loss_is_that_of_the_sum():
    found = lost([1.0, 0.0], [0.0, 2.0], [1.0, 1.0], 0) - entropy([1.0, 0.0], 0)
    torch.testing.assert_close(found, torch.tensor(1.313262), rtol=0, atol=1e-5)


def test_a_class_that_a_client_does_not_have_counts_for_nothing_and_breaks_nothing():
    for counts in ([4.0, 0.0], [400.0, 0.0]):
        logits = torch.tensor([[1.0, 2.0, 0.0, 0.0]], requires_grad=True)
        (phase,) = make("fedrod", {}).phases(ANSWERS)
        batch = {"inputs": torch.zeros(1, 4), "label": torch.zeros(1)}
        view = View({}, forward=lambda *_, logits=logits: logits)
        loss = phase.loss({"counts": torch.tensor(counts)}, batch, view)
        torch.testing.assert_close(loss.detach(), entropy([1.0, 2.0], 0))  # of the private head
        (slope,) = torch.autograd.grad(loss, logits)
        assert torch.isfinite(slope).all()
        assert not slope[0, :2].any(), "the generic head has nothing to learn from one class"


def test_the_sum_of_both_heads_predicts():
    head = nn.Linear(2, 2)
    module = TwoHeads(nn.Identity(), head)
    for part, rows in (("head", [[1.0, 0.0], [0.0, 0.0]]), ("personal", [[0.0, 0.0], [0.0, 2.0]])):
        getattr(module, part).weight.data = torch.tensor(rows)
        getattr(module, part).bias.data.zero_()
    ones = torch.ones(1, 2)
    assert module.eval()(ones).tolist() == [[1.0, 2.0]]
    assert module(ones).argmax().item() == 1
    assert module.train()(ones).tolist() == [[1.0, 0.0, 0.0, 2.0]]


def test_the_private_head_starts_as_the_generic_one():
    module = make("fedrod", {}).build(ANSWERS.model(), ANSWERS)
    assert torch.equal(module.personal.weight, module.head.weight)
    assert module.personal.weight is not module.head.weight


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_two_rounds_are_those_of_plain_pytorch(optimiser):
    """Two losses and two optimisers on one forward pass, as the paper has it."""
    algorithm = make("fedrod", {})
    learner, models, _, problem = fleet_of(
        algorithm, ANSWERS, optimiser=optimiser, learning_rate=0.1 if optimiser == "sgd" else 1e-3
    )
    rate = learner.settings.learning_rate
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[optimiser]
    for round in (1, 2):
        start = learn(algorithm, learner, models, problem, round=round)
        for client in range(3):
            network = network_of(problem, start, client, "body.", "head.")
            own = network_of(problem, start, client, "body.", "personal.")[-1]
            everything = batch_of(problem.columns(), problem.client_rows()[client].train)
            counts = torch.bincount(everything["label"].long(), minlength=2).float()
            assert (counts > 0).all()
            first, second = kind(network.parameters(), rate), kind(own.parameters(), rate)
            for batch in batches_of(problem, client, 3, 16, 0, round):
                label = batch["label"].long()
                features = network[:-1](batch["inputs"])
                generic = network[-1](features)
                first.zero_grad()
                F.cross_entropy(generic + counts.log(), label).backward()
                second.zero_grad()
                F.cross_entropy(generic.detach() + own(features.detach()), label).backward()
                first.step()
                second.step()
            assert_holds(models, client, "body.", network[:-1])
            assert_holds(models, client, "head.", network[-1])
            assert_holds(models, client, "personal.", own)
            np.testing.assert_array_equal(models["counts"][client], counts)


def test_body_and_generic_head_travel():
    assert_sends("fedrod", {"body", "head"})


def test_private_heads_and_counts_stay_and_wait_for_their_client():
    assert_private_stays("fedrod", "personal.", "counts")
