from __future__ import annotations

import numpy as np
import pytest
import torch

from comity.algorithms import make
from comity.algorithms.fedala import adapted
from comity.core.fleet import Fleet
from comity.federation.clients import Clients, RoundRequest
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import RoundLoop
from comity.federation.server import Server
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
    tiny,
)


def start():
    """θ_i = (1, 1), θ = (3, 0) and W = (1, 1), all of one tensor."""
    module = make("fedala", {"top": 1}).build(Number(1.0, 1.0), ANSWERS)
    return module, {**held(module), "arrived.t": torch.tensor([3.0, 0.0])}


def test_a_step_of_the_weights_by_hand():
    """W ← clip(W − η ∇ ∘ (θ − θ_i)): all of θ is taken at first, then (2.2, 0.5)."""
    module, tensors = start()
    weights, training = make("fedala", {"top": 1}).phases(ANSWERS)
    torch.testing.assert_close(adapted(tensors)["model.t"], torch.tensor([3.0, 0.0]))
    slope = torch.tensor([0.2, -0.5])
    found = one_step(weights, module, tensors, lambda answer: (slope * answer).sum(), 0.7)
    torch.testing.assert_close(found["top.t"], torch.tensor([0.6, 0.5]))
    assert torch.equal(found["model.t"], tensors["model.t"]), "θ_i stands still meanwhile"
    assert training.before is not None
    taken = training.before(found, {}, None)
    assert set(taken) == {"model.t", "started"}
    assert taken["started"] == 1
    torch.testing.assert_close(taken["model.t"], torch.tensor([2.2, 0.5]))


def test_weights_stay_between_zero_and_one():
    module, tensors = start()
    weights = make("fedala", {"top": 1}).phases(ANSWERS)[0]
    slope = torch.tensor([9.0, 9.0])
    found = one_step(weights, module, tensors, lambda answer: (slope * answer).sum(), 0.7)
    assert found["top.t"].tolist() == [0.0, 1.0]


def test_where_nothing_new_has_arrived_weights_stay():
    module, tensors = start()
    tensors["arrived.t"] = tensors["model.t"].clone()
    weights = make("fedala", {"top": 1}).phases(ANSWERS)[0]
    found = one_step(weights, module, tensors, lambda answer: answer.sum(), 0.7)
    assert torch.equal(found["top.t"], tensors["top.t"])


@pytest.mark.parametrize(("top", "names"), [(2, {"2/weight", "2/bias"}), (1, {"2/bias"})])
def test_only_the_last_tensors_have_weights_and_others_are_overwritten(top, names):
    module = make("fedala", {"top": top}).build(ANSWERS.model(), ANSWERS)
    tensors = {n: torch.full_like(t, 2.0) for n, t in held(module).items()}
    tensors |= {n: torch.zeros_like(t) for n, t in tensors.items() if n.startswith("top.")}
    tensors |= {n: torch.ones_like(t) for n, t in tensors.items() if n.startswith("arrived.")}
    assert {n.removeprefix("top.") for n in tensors if n.startswith("top.")} == names
    for name, tensor in adapted(tensors).items():
        kept = name.removeprefix("model.").replace(".", "/") in names
        assert (tensor == (2.0 if kept else 1.0)).all(), name


def test_three_rounds_are_those_of_plain_pytorch():
    """In the first nothing has arrived; then W has three passes, and one in each later round."""
    algorithm = make("fedala", {"rate": 0.7, "share": 0.5, "start_passes": 3})
    learner, models, _, problem = fleet_of(algorithm, ANSWERS, optimiser="sgd", learning_rate=0.1)
    for round in (1, 2, 3):
        if round > 1:  # as if something had arrived
            for name in models.group("arrived.*"):
                models[name].copy_(models[name.replace("arrived.", "model.")].mean(0) * 0.8)
        start = learn(algorithm, learner, models, problem, steps=4, round=round)
        for client in range(3):
            own = network_of(problem, start, client, "model.").state_dict()
            arrived = network_of(problem, start, client, "arrived.").state_dict()
            network = network_of(problem, start, client, "arrived.")
            top = {n: start["top." + n.replace(".", "/")][client].clone() for n in list(own)[-2:]}
            lose = objective_of(problem, client)

            def mix(network=network, own=own, arrived=arrived, top=top):
                with torch.no_grad():
                    for name, weight in top.items():
                        wanted = own[name] + (arrived[name] - own[name]) * weight
                        network.get_parameter(name).copy_(wanted)

            mix()
            whole = -(-len(problem.client_rows()[client].train) // 16)
            passes = {1: 0.0, 2: 3 * 0.5, 3: 0.5}[round]
            assert start["started"][client] == (round == 3)
            steps = int(np.rint(passes * whole))
            for batch in batches_of(problem, client, steps, 16, 0, round) if steps else ():
                network.zero_grad()
                lose(network(batch["inputs"]), batch).backward()
                for name in top:
                    slope = network.get_parameter(name).grad * (arrived[name] - own[name])
                    top[name] = (top[name] - 0.7 * slope).clamp(0, 1)
                mix()
            descent = torch.optim.SGD(network.parameters(), 0.1)
            for batch in batches_of(problem, client, 4, 16, 1, round):
                descent.zero_grad()
                lose(network(batch["inputs"]), batch).backward()
                descent.step()
            assert_holds(models, client, "model.", network)
            for name, weight in top.items():
                found = models["top." + name.replace(".", "/")][client]
                torch.testing.assert_close(found, weight)
    assert (models["top.2/weight"] < 1).any(), "somebody did not take everything"


def test_the_global_model_arrives_beside_the_clients_own():
    configuration = tiny(problem="tiny-answers", algorithm="fedala", chunk=4, rounds=2)
    with EmbeddedEngine(configuration) as engine:
        federation = Server(configuration)
        next(RoundLoop(engine, federation).rounds())
        own = engine.models(kept=False).clone()
        request, _ = federation.request()
        assert request.models is not None
        seen = {}
        original = Clients._train

        def watched(self, rows, request, *more):
            seen["models"] = self._models.clone()
            return original(self, rows, request, *more)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Clients, "_train", watched)
            engine.round(request)
    for name in request.models:
        here = name.replace("model.", "arrived.")
        torch.testing.assert_close(seen["models"][here], request.models[name])
        assert torch.equal(seen["models"][name], own[name])


def test_who_starts_from_a_given_model_goes_on_from_it():
    """As the candidates of a search do: what has arrived is that model, not the initial one."""
    configuration = tiny(problem="tiny-answers", algorithm="fedala", chunk=4, rounds=2)
    with EmbeddedEngine(configuration) as engine:
        federation = Server(configuration)
        given = Fleet({name: t + 1.0 for name, t in federation.initial.tensors.items()})
        engine.install(RoundRequest(0, federation.clients, given))
        engine.round(RoundRequest(1, federation.clients, None))
        now = engine.models(kept=False)
        for name in given:
            assert (now[name] - given[name]).abs().max() < 0.5


def test_the_model_travels_and_its_weights_do_not():
    assert_sends("fedala", {"model"})


def test_weights_and_models_stay_and_wait_for_their_client():
    assert_private_stays("fedala", "top.", fedala={"rate": 1.0})
    assert_private_stays("fedala", "model.")
