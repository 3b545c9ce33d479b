from __future__ import annotations

import pytest
import torch

from comity.algorithms import make
from tests.tiny import (
    ANSWERS,
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
    product,
)


def squared(answer: torch.Tensor) -> torch.Tensor:
    """½ (h b − 2)²."""
    return 0.5 * (answer - 2).square().sum()


def test_head_steps_and_then_a_body_step_by_hand():
    algorithm = make("fedrep", {})
    module = algorithm.build(product(1.0, 0.0), ANSWERS)
    head, body = algorithm.phases(ANSWERS)
    tensors = held(module)
    for wanted in (1.0, 1.5):
        tensors = one_step(head, module, tensors, squared, 0.5)
        torch.testing.assert_close(tensors["head.weight"], torch.tensor([[wanted]]))
        assert tensors["body.0.weight"].item() == 1.0
    tensors = one_step(body, module, tensors, squared, 0.5)
    torch.testing.assert_close(tensors["body.0.weight"], torch.tensor([[1.375]]))
    torch.testing.assert_close(tensors["head.weight"], torch.tensor([[1.5]]))


@pytest.mark.parametrize("share", [1.0, 3.0])
def test_two_rounds_are_those_of_plain_pytorch(share):
    algorithm = make("fedrep", {"head_share": share})
    learner, models, _, problem = fleet_of(
        algorithm, ANSWERS, optimiser="sgd", learning_rate=0.1, weight_decay=0.01
    )
    for round in (1, 2):
        start = learn(algorithm, learner, models, problem, steps=2, round=round)
        for client in range(3):
            network = network_of(problem, start, client, "body.", "head.")
            lose = objective_of(problem, client)
            for phase, part in enumerate((network[-1], network[:-1])):
                descent = torch.optim.SGD(part.parameters(), 0.1, weight_decay=0.01)
                steps = 2 if phase else int(2 * share)
                for batch in batches_of(problem, client, steps, 16, phase, round):
                    network.zero_grad()
                    lose(network(batch["inputs"]), batch).backward()
                    descent.step()
            assert_holds(models, client, "body.", network[:-1])
            assert_holds(models, client, "head.", network[-1])


def test_only_the_body_travels():
    assert_sends("fedrep", {"body"})


def test_heads_stay_and_wait_for_their_client():
    assert_private_stays("fedrep", "head.")
