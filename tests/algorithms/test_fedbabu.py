from __future__ import annotations

import numpy as np
import torch

from comity.algorithms import make
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import RoundLoop
from comity.federation.server import Server
from tests.tiny import (
    ANSWERS,
    assert_holds,
    assert_sends,
    batches_of,
    fleet_of,
    held,
    learn,
    network_of,
    objective_of,
    one_step,
    product,
    tiny,
)
from tests.vectors import fleet, round_of


def squared(answer: torch.Tensor) -> torch.Tensor:
    """½ (h b − 2)²."""
    return 0.5 * (answer - 2).square().sum()


def test_a_local_step_moves_the_body_under_a_head_that_stands_still():
    algorithm = make("fedbabu", {})
    module = algorithm.build(product(1.0, 0.5), ANSWERS)
    (phase,) = algorithm.phases(ANSWERS)
    found = one_step(phase, module, held(module), squared, 0.5)
    torch.testing.assert_close(found["body.0.weight"], torch.tensor([[1.375]]))
    assert found["head.weight"].item() == 0.5


def test_the_server_takes_the_mean_of_the_bodies():
    sent = fleet([[1.375], [1.0]])
    mixing = make("fedbabu", {}).mix(round_of(sent, sent))["*"]
    np.testing.assert_allclose(sent.mix(mixing.weights)["0"], [[1.1875]])


def test_fine_tuning_moves_body_and_head_together():
    algorithm = make("fedbabu", {})
    module = algorithm.build(product(1.375, 0.5), ANSWERS)
    (phase,) = algorithm.local_phases(ANSWERS)
    found = one_step(phase, module, held(module), squared, 0.5)
    torch.testing.assert_close(found["body.0.weight"], torch.tensor([[1.703125]]))
    torch.testing.assert_close(found["head.weight"], torch.tensor([[1.402344]]))


def test_a_round_is_that_of_plain_pytorch():
    algorithm = make("fedbabu", {})
    learner, models, _, problem = fleet_of(algorithm, ANSWERS, optimiser="sgd", learning_rate=0.1)
    start = learn(algorithm, learner, models, problem)
    for client in range(3):
        network = network_of(problem, start, client, "body.", "head.")
        descent = torch.optim.SGD(network[:-1].parameters(), 0.1)
        for batch in batches_of(problem, client, 3, 16):
            network.zero_grad()
            objective_of(problem, client)(network(batch["inputs"]), batch).backward()
            descent.step()
        assert_holds(models, client, "body.", network[:-1])
        assert_holds(models, client, "head.", network[-1])


def test_all_have_one_head_until_they_tune_in_the_end():
    """In the end each has a body and a head of its own; nothing of it before."""
    configuration = tiny(problem="tiny-answers", algorithm="fedbabu", chunk=4)
    assert configuration.fine_tune == "extra:5", "unless somebody says otherwise"
    with EmbeddedEngine(configuration) as engine:
        loop = RoundLoop(engine, Server(configuration))
        first = engine.models(kept=False)["head.weight"].clone()
        for _ in loop.rounds():
            assert torch.equal(engine.models(kept=False)["head.weight"], first)
        assert torch.equal(first[0], first[1])
        loop.finish()
        last = engine.models(kept=False)
        assert (last["head.weight"] != first).flatten(1).any(dim=1).all()
        assert not torch.equal(last["head.weight"][0], last["head.weight"][1])
        assert not torch.equal(last["body.0.weight"][0], last["body.0.weight"][1])


def test_who_says_otherwise_gets_no_tuning():
    configuration = tiny(problem="tiny-answers", algorithm="fedbabu", fine_tune="none")
    assert configuration.fine_tune == "none"


def test_only_the_body_travels():
    assert_sends("fedbabu", {"body"})
