from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from torch import nn

from comity.algorithms import make
from comity.core.fleet import Fleet
from comity.core.mixing import mixed
from comity.core.running import forward
from comity.errors import UserError
from tests.algorithms.referee import Referee, ends, federated
from tests.tiny import ANSWERS, NORMS, fleet_of, learn, tiny
from tests.vectors import FEDBN, round_of

NAMES = ("0.", "1.", "3.")
OWN = {"1.weight", "1.bias", "1.running_mean", "1.running_var"}


def test_clients_answer_with_the_shared_layer_and_their_own_normalisation():
    """One convolution of one weight, then batch normalisation, by the vector."""
    network = nn.Sequential(nn.Conv1d(1, 1, 1, bias=False), nn.BatchNorm1d(1)).eval()
    models = Fleet.of(network, 2)
    layers = {"weight": "gamma", "bias": "beta", "running_mean": None, "running_var": None}
    for name, vector in layers.items():
        models[f"1.{name}"][:, 0] = torch.tensor(FEDBN[vector or name])
    models["0.weight"][:, 0, 0, 0] = torch.tensor(FEDBN["conv"])
    algorithm = make("fedbn", {})
    sent = models.group(*algorithm.travelling(network))
    assert set(sent) == {"0.weight"}
    round = round_of(sent, sent, sizes=FEDBN["sizes"])
    delivered, route = mixed(algorithm.mix(round), sent, sent)
    models.put([0, 1], delivered.select([route[0], route[1]]))
    assert models["0.weight"].flatten().tolist() == pytest.approx([FEDBN["new_conv"]] * 2)
    inputs = torch.full((2, 1, 1, 1), FEDBN["input"])
    outputs = forward(network)(models.tensors, inputs).flatten().tolist()
    assert outputs == pytest.approx(FEDBN["outputs"], abs=1e-4)
    everything = models.mean([100.0, 300.0])
    one = forward(network)(everything.tensors, inputs[:1]).item()
    assert one == pytest.approx(FEDBN["output_if_statistics_were_averaged"], abs=1e-4)


def test_layers_are_found_by_their_kind():
    """Under any name, however deep, and twice if a layer is used twice; other norms are shared."""

    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bn = nn.Linear(2, 2)  # not what its name says
            self.inner = nn.Sequential(nn.Sequential(nn.BatchNorm2d(2)), nn.GroupNorm(1, 2))
            self.layer = nn.LayerNorm(2)
            self.again = self.inner[0]
            self.single = nn.InstanceNorm1d(2, affine=True)

    travelling = make("fedbn", {}).travelling(Deep())
    assert set(travelling) == {
        "bn.weight", "bn.bias", "inner.1.weight", "inner.1.bias", "layer.weight", "layer.bias",
        "single.weight", "single.bias",
    }  # fmt: skip
    assert make("fedbn", {}).travelling(nn.BatchNorm1d(2)) == []


@pytest.mark.parametrize("weighting", ["sizes", "uniform"])
def test_three_rounds_are_those_of_plain_pytorch(weighting):
    """Statistics too: who is absent keeps its own, and nobody's reach another client."""
    configuration = federated("fedbn", "tiny-norms", weighting=weighting)
    referee = Referee(configuration, {name: name for name in NAMES})
    found = ends(configuration)
    averaged = referee.averaged(lambda name: not name.startswith("1."), weighting == "uniform")
    for models, all_models in zip(found, averaged, strict=True):
        for client, model in enumerate(all_models):
            referee.assert_holds(models, client, model)
    for name in OWN:
        assert torch.equal(found[1][name][1], found[0][name][1])
        assert not torch.equal(found[-1][name][0], found[-1][name][1]), name
    assert torch.equal(found[-1]["0.weight"][0], found[-1]["0.weight"][1])


def test_a_network_without_batch_normalisation_is_refused():
    for network in (ANSWERS, layer_norms()):
        with pytest.raises(UserError, match=r"has none: it would be fedavg\. Use .* -bn"):
            make("fedbn", {}).build(network.model(), network)
    assert make("fedbn", {}).build(NORMS.model(), NORMS)
    with pytest.raises(UserError, match="the network of tiny-answers has none"):
        tiny(problem="tiny-answers", algorithm="fedbn")  # before anything is written


def layer_norms():
    """The same people, by a network with the kinds of normalisation that keep no statistics."""
    layers = (nn.Linear(4, 4), nn.GroupNorm(2, 4), nn.ReLU(), nn.LayerNorm(4), nn.Linear(4, 2))
    return replace(ANSWERS, name="layer-norms", network=lambda _: nn.Sequential(*deepcopy(layers)))


@pytest.mark.parametrize("problem", [NORMS, layer_norms()], ids=lambda problem: problem.name)
def test_clients_train_alike_together_and_alone(problem):
    """Layers and groups are normalised for all clients at once, batches client by client."""
    algorithm = make("fedbn" if problem is NORMS else "fedavg", {})
    together, models, _, dealt = fleet_of(algorithm, problem)
    assert bool(together.remarks) == (problem is NORMS)
    learn(algorithm, together, models, dealt)
    for client in range(3):
        learner, alone, _, _ = fleet_of(algorithm, problem, clients=(client,))
        learn(algorithm, learner, alone, dealt)
        for name in alone:
            torch.testing.assert_close(models[name][client], alone[name][0], rtol=1e-4, atol=1e-6)
