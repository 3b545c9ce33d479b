from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from comity.algorithms import make
from comity.algorithms.fedcp import Gated, context
from comity.algorithms.parts import mmd
from comity.core.rng import stream
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import RoundLoop
from comity.federation.server import Server
from tests.tiny import (
    ANSWERS,
    assert_holds,
    assert_private_stays,
    assert_sends,
    batches_of,
    fleet_of,
    learn,
    network_of,
    objective_of,
    tiny,
)

FEATURES = torch.tensor([[1.0, 2.0]])


class Answering(nn.Module):
    """A gate that notes what it is asked and always answers the same."""

    def __init__(self, answer: torch.Tensor) -> None:
        super().__init__()
        self.answer, self.asked = answer, []

    def forward(self, inputs):
        self.asked.append(inputs.detach())
        return self.answer.expand(len(inputs), -1)


def gated(own: list[list[float]], common: list[list[float]]) -> Gated:
    """Features as they come, two heads without bias, and a gate of (¼, ¾) against (¾, ¼)."""
    module = Gated(nn.Identity(), nn.Linear(2, 2))
    for head, rows in ((module.head, own), (module.common, common)):
        head.weight.data, head.bias.data = torch.tensor(rows), torch.zeros(2)
    module.context.data = context(module.head.weight.detach())
    module.gate = Answering(torch.tensor([0.25, 0.75, 0.75, 0.25]).log())
    return module


# -- the module ----------------------------------------------------------------------------


def test_the_gate_is_asked_about_features_in_the_clients_context():
    """The rows of the private head sum to (4, 2), of length one (0.894, 0.447)."""
    module = gated([[1.0, 2.0], [3.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]])
    wanted = torch.tensor([0.894427, 0.447214])
    torch.testing.assert_close(module.context.data, wanted, rtol=0, atol=1e-5)
    module(FEATURES)
    asked = torch.tensor([[0.894427, 0.894427]])
    torch.testing.assert_close(module.gate.asked[0], asked, rtol=0, atol=1e-5)


def test_each_head_answers_to_its_share_of_the_features():
    """h = (1, 2) with p = (¼, ¾): (0.25, 1.5) for the private head, (0.75, 0.5) for the other."""
    one, nothing = [[1.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]
    torch.testing.assert_close(gated(one, nothing)(FEATURES), torch.tensor([[0.25, 1.5]]))
    torch.testing.assert_close(gated(nothing, one)(FEATURES), torch.tensor([[0.75, 0.5]]))
    torch.testing.assert_close(gated(one, one)(FEATURES), FEATURES)


def test_a_head_of_zeros_has_a_context():
    module = gated([[0.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]])
    assert torch.isfinite(module.context).all()


def test_noise_moves_the_gate_and_predictions_have_none():
    """Noise log 3 for the private share turns (¼, ¾) into (½, 0.9)."""
    module = gated([[1.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]])
    noise = torch.tensor([[[3.0, 3.0], [1.0, 1.0]]]).log()
    found = module(FEATURES, noise)
    torch.testing.assert_close(found[:, :2], torch.tensor([[0.5, 1.8]]))
    torch.testing.assert_close(found[:, 2:], torch.cat([FEATURES, FEATURES], dim=1))
    for _ in range(2):
        torch.testing.assert_close(module(FEATURES), torch.tensor([[0.25, 1.5]]))


def test_the_gate_is_the_papers():
    module = make("fedcp", {}).build(ANSWERS.model(), ANSWERS)
    assert [type(layer) for layer in module.gate] == [nn.Linear, nn.LayerNorm, nn.ReLU]
    assert (module.gate[0].in_features, module.gate[0].out_features) == (4, 8)
    trained = {n.partition(".")[0] for n, p in module.named_parameters() if p.requires_grad}
    assert trained == {"body", "head", "gate"}


# -- training ------------------------------------------------------------------------------


@pytest.mark.parametrize("strength", [0.0, 5.0])
def test_a_round_is_that_of_plain_pytorch(strength):
    """With the same noise. The paper's context is made when the client receives, and stays."""
    algorithm = make("fedcp", {"strength": strength})
    learner, models, _, problem = fleet_of(algorithm, ANSWERS, optimiser="sgd", learning_rate=0.1)
    models["common.weight"].add_(0.2)
    models["arrived.0.weight"].zero_()  # of the last round, and of no use
    start = learn(algorithm, learner, models, problem)
    for client in range(3):
        network = network_of(problem, start, client, "body.", "head.")
        body, head = network[:-1], network[-1]
        received = network_of(problem, start, client, "body.", "common.")
        gate = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU())
        gate.load_state_dict({k: start[f"gate.{k}"][client].clone() for k in gate.state_dict()})
        noise = torch.from_numpy(stream(1, "draws 0", 1, client).gumbel(size=(3, 16, 2, 4))).float()
        kept = head.weight.detach().clone()
        descent = torch.optim.SGD([*network.parameters(), *gate.parameters()], 0.1)
        for step, batch in enumerate(batches_of(problem, client, 3, 16)):
            features = body(batch["inputs"])
            scores = gate(features * context(kept)).reshape(-1, 2, 4) + noise[step]
            share = torch.softmax(scores, dim=1)
            outputs = head(share[:, 0] * features) + received[-1](share[:, 1] * features)
            near = mmd(features, received[:-1](batch["inputs"]).detach())
            descent.zero_grad()
            (objective_of(problem, client)(outputs, batch) + strength * near).backward()
            descent.step()
        assert_holds(models, client, "body.", body)
        assert_holds(models, client, "gate.", gate)
        assert_holds(models, client, "head.", head)
        assert_holds(models, client, "common.", received[-1])
        assert_holds(models, client, "arrived.", received[:-1])
        half = nn.Linear(4, 2)
        half.weight.data = (head.weight.data + received[-1].weight.data) / 2
        half.bias.data = (head.bias.data + received[-1].bias.data) / 2
        assert_holds(models, client, "upload.", half)


def test_each_client_and_step_has_noise_of_its_own():
    algorithm = make("fedcp", {})
    (phase,) = algorithm.phases(ANSWERS)
    assert phase.draw is not None
    noise = phase.draw(np.random.default_rng(1), 5, 16, {})["noise"]
    assert noise.shape == (5, 16, 2, 4)
    assert len(np.unique(noise)) == noise.size
    many = phase.draw(np.random.default_rng(1), 500, 16, {})["noise"]
    assert many.mean() == pytest.approx(0.5772, abs=0.02), "Gumbel's mean"


# -- what travels --------------------------------------------------------------------------


def test_body_gate_and_half_of_both_heads_travel():
    assert_sends("fedcp", {"body", "gate", "upload"})


def test_private_heads_stay_and_wait_for_their_client():
    assert_private_stays("fedcp", "head.")


def test_the_mean_of_what_was_uploaded_lands_as_the_common_head():
    configuration = tiny(problem="tiny-answers", algorithm="fedcp", chunk=4, rounds=2)
    with EmbeddedEngine(configuration) as engine:
        federation = Server(configuration)
        next(RoundLoop(engine, federation).rounds())
        own = engine.models(kept=False).clone()
        sizes = [len(share.train) for share in configuration.get_problem().client_rows()]
        request, _ = federation.request()
        assert request.models is not None
        engine.round(request)
        now = engine.models(kept=False)
        shares = torch.tensor(sizes) / sum(sizes)
        for part in ("weight", "bias"):
            mean = torch.einsum("n,n...->...", shares, own[f"upload.{part}"])
            half = (own[f"head.{part}"] + own[f"common.{part}"]) / 2
            torch.testing.assert_close(own[f"upload.{part}"], half)
            for client in range(4):
                torch.testing.assert_close(now[f"common.{part}"][client], mean)
