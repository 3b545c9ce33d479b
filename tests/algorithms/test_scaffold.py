from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from comity.algorithms import make
from comity.algorithms.scaffold import Controlled
from comity.configuration import configure
from comity.errors import UserError
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.server import Server
from comity.problems import DataProblem, Objective, Samples, register
from tests.algorithms.plain import Plain, assert_close, federation, initial, present, run_of
from tests.tiny import Number, assert_private_stays, assert_sends, tiny
from tests.vectors import SCAFFOLD, fleet, round_of


@lru_cache
def _parabolas() -> Samples:
    client = torch.arange(3).repeat_interleave(12)
    columns = {
        "inputs": torch.zeros(36, 1),
        "curvature": torch.tensor(SCAFFOLD["curvature"])[client],
        "optimum": torch.tensor(SCAFFOLD["optimum"])[client],
    }
    return Samples(columns, np.zeros(36, dtype=np.int64), {}, client.numpy(), ("a", "b", "c"))


def _bowl(outputs: Tensor, batch: Any) -> Tensor:
    away = outputs.mean() - batch["optimum"]
    loss = (0.5 * batch["curvature"] * away.square() * batch["weight"]).sum()
    return torch.stack([loss / batch["weight"].sum()])


register(
    DataProblem(
        name="tiny-parabolas",
        title="f_i(x) = a_i (x − b_i)² / 2",
        objectives=(Objective("depth", "points", "minus the loss"),),
        reference_point=(-100.0,),
        samples=_parabolas,
        network=lambda samples: Number(1.0),
        losses=_bowl,
        scores=lambda outputs, batch: -_bowl(outputs, batch),
        constant=lambda labels: 0,
        run_defaults={"partition": "natural"},
        defaults={
            "batch_size": 4,
            "normalise": "none",
            "learning_rate": 0.1,
            "optimiser": "sgd",
            "local_steps": 2,
            "total_steps": 4,
        },
    )
)
BOWLS = {"problem": "tiny-parabolas", "clients": 3, "rounds": 2, "chunk": 3}


def test_by_hand_with_absent_clients():
    """Clients 0 and 1, then 1 and 2, two steps of 0.1 each, from x = 1 and c = 0."""
    absences = [[1, 2, "round"], [2, 0, "round"]]
    configuration = configure({**BOWLS, "algorithm": "scaffold", "absences": absences})
    for (held, delivered), expected in zip(
        federation(configuration), SCAFFOLD["rounds"], strict=True
    ):
        for client, y in expected["y"].items():
            assert held["model.t"][client].item() == pytest.approx(y, abs=1e-5)
            sent = held["common.t"][client].item()
            assert sent == pytest.approx(expected["sent_common"][client], abs=1e-5)
        np.testing.assert_allclose(held["own.t"].flatten(), expected["own"], atol=1e-5)
        np.testing.assert_allclose(delivered["common.t"].flatten(), expected["c"], atol=1e-5)
        np.testing.assert_allclose(delivered["model.t"].flatten(), expected["x"], atol=1e-5)
        # c is the mean of all c_i, present or not
        assert held["own.t"].mean().item() == pytest.approx(expected["c"], abs=1e-5)


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_a_run_with_absent_clients_equals_a_plain_loop(momentum):
    """Without momentum c_i is option II of the paper, with it the mean of the raw gradients."""
    configuration = run_of(
        "scaffold", scaffold={"server_rate": 0.7}, supervised={"momentum": momentum}
    )
    plain, steps = Plain(configuration), configuration.learner_settings["local_steps"]
    x = initial(configuration, "model.")
    c = {name: torch.zeros_like(tensor) for name, tensor in x.items()}
    own = [dict(c) for _ in range(4)]
    attended = present(configuration)
    assert len(set(attended)) > 1, "different clients are absent"
    for round, clients in enumerate(attended, start=1):
        ends, changes = [], []
        for client in clients:
            y, seen = dict(x), []
            speed = {n: torch.zeros_like(tensor) for n, tensor in x.items()}
            for batch in plain.batches(client, round, steps):
                grads = plain.gradients(y, client, batch)
                seen.append(grads)
                for n in y:
                    speed[n] = momentum * speed[n] + grads[n] + c[n] - own[client][n]
                y = {n: y[n] - 0.2 * speed[n] for n in y}
            if momentum:
                new = {n: torch.stack([grads[n] for grads in seen]).mean(dim=0) for n in y}
            else:
                new = {n: own[client][n] - c[n] + (x[n] - y[n]) / (steps * 0.2) for n in y}
            changes.append({n: new[n] - own[client][n] for n in y})
            own[client] = new
            ends.append(y)
        x = {n: x[n] + 0.7 * torch.stack([y[n] - x[n] for y in ends]).mean(dim=0) for n in x}
        c = {n: c[n] + torch.stack([d[n] for d in changes]).sum(dim=0) / 4 for n in c}
    held, delivered = federation(configuration)[-1]
    assert_close(delivered, x, "model.")
    assert_close(delivered, c, "common.")
    for client in range(4):
        assert_close(held.select([client]), own[client], "own.")


def test_clients_that_take_unlike_numbers_of_steps():
    """The mean of the gradients is over the client's own steps: c_i stays option II."""
    configuration = run_of(
        "scaffold", rounds=1, sizes="8,4,2,1", supervised={"local_epochs": 2, "batch_size": 12}
    )
    plain, x = Plain(configuration), initial(configuration, "model.")
    held, _ = federation(configuration)[-1]
    (clients,) = present(configuration)
    counts = []
    for client in clients:
        rows = len(plain.rows[client])
        counts.append(-(-2 * rows // min(12, rows)))
        for name in x:
            first = (x[name] - held[f"model.{name}"][client]) / (counts[-1] * plain.rate)
            torch.testing.assert_close(held[f"own.{name}"][client], first, rtol=1e-3, atol=1e-5)
    assert len(set(counts)) > 1


def test_one_client_is_plain_descent():
    """With one client c = c_i, so that nothing is corrected."""
    values = {"problem": "tiny-people", "clients": 1, "rounds": 3, "chunk": 1}
    learner = {"optimiser": "sgd", "learning_rate": 0.2}
    ends = [
        federation(configure({**values, "algorithm": name, "supervised": learner}))[-1][1]
        for name in ("scaffold", "fedavg")
    ]
    for name in ends[1]:
        torch.testing.assert_close(ends[0][f"model.{name}"], ends[1][name], rtol=1e-4, atol=1e-5)


def test_corrections_lead_to_the_optimum_of_all():
    """Where FedAvg ends elsewhere: Σ a_i (x − b_i) = 0 at x = 14 / 6."""
    values = {**BOWLS, "rounds": 60}
    learner = {"local_steps": 10, "total_steps": 600, "learning_rate": 0.1}
    ends = {
        name: federation(configure({**values, "algorithm": name, "supervised": learner}))[-1][1]
        for name in ("scaffold", "fedavg")
    }
    assert ends["scaffold"]["model.t"][0].item() == pytest.approx(14 / 6, abs=1e-3)
    assert abs(ends["fedavg"]["t"][0].item() - 14 / 6) > 0.2


def test_a_broken_client_loses_its_new_control_variate():
    configuration = configure({**BOWLS, "algorithm": "scaffold"})
    with EmbeddedEngine(configuration) as engine:
        server = Server(configuration)
        request, record = server.request()
        update = engine.round(request)
        assert update.models is not None
        update.models["model.t"][1] = torch.nan
        server.take(request, update, record)
        assert "client 1 (b), round 1: its model is no longer finite" in record.events[0]
        before = engine.models(kept=False)["own.t"].clone()
        engine.evaluate_delivery(server.last_request()[0])  # the verdict comes with it
        after = engine.models(kept=False)["own.t"]
        assert before[1].item() != 0.0
        assert after[1].item() == 0.0
        assert torch.equal(after[[0, 2]], before[[0, 2]])


def test_own_control_variates_stay():
    assert_sends("scaffold", {"model", "common"})
    assert_private_stays("scaffold", "own.")


def test_buffers_have_no_variates_and_are_averaged():
    network = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    names = {name for name, _ in network.named_parameters()}
    module = Controlled(network)
    for part in (module.common, module.own):
        assert set(part.state_dict()) == names
        assert not any(tensor.any() for tensor in part.state_dict().values())
        assert not any(parameter.requires_grad for parameter in part.parameters())
    round = round_of(fleet([[1.0], [3.0]]), fleet([[4.0]]))
    algorithm = make("scaffold", {"server_rate": 2.0})
    assert algorithm.mix(round)["*"].base is not None
    mixing = algorithm.mix(replace(round, buffers=("0",)))["0"]
    assert mixing.base is None
    np.testing.assert_allclose(mixing.weights, [[0.5, 0.5]])


def test_environments_are_refused():
    with pytest.raises(UserError, match="scaffold needs objectives that are differentiable losses"):
        tiny(algorithm="scaffold")
