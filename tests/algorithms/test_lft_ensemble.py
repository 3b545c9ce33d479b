from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn

import comity.report
from comity.algorithms import Algorithm, find, make
from comity.algorithms.lft_ensemble import Ensemble
from comity.core.fleet import Fleet
from comity.core.rng import torch_seeded
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import RoundLoop
from comity.federation.server import Server
from comity.learners import Supervised
from comity.problems.data import batch_of
from comity.runs.directory import Run
from comity.runs.execute import execute
from tests.sealed_sizes import SIZE, answer_size, request_size
from tests.tiny import ANSWERS, PEOPLE, tiny

INPUTS = torch.randn(7, 4, generator=torch.Generator().manual_seed(1))


def network(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, outputs))


def ensemble(outputs: int, members: int = 3) -> tuple[Ensemble, list[nn.Module], Fleet]:
    """A client's module, everybody's networks, and these as they arrive at the server."""
    with torch_seeded(1, "ensemble"):
        module = Ensemble(network(outputs), 2, members)
        models = [network(outputs) for _ in range(members)]
    states = [model.state_dict() for model in models]
    sent = {f"model.{k}": torch.stack([state[k] for state in states]) for k in states[0]}
    return module, models, Fleet(sent)


def arrived(module: Ensemble, sent: Fleet, sizes) -> Ensemble:
    votes = make("lft-ensemble", {}).ensemble(sent, np.array(sizes, dtype=float))
    module.load_state_dict({**module.state_dict(), **votes})
    module.eval()
    return module


def probabilities(logits: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(logits) if logits.shape[1] == 1 else torch.softmax(logits, dim=1)


@pytest.mark.parametrize("outputs", [1, 2])
def test_the_vote_is_the_mean_of_probabilities_weighted_by_sizes(outputs):
    """Of each sample alone: what else is in the batch changes nothing."""
    module, models, sent = ensemble(outputs)
    arrived(module, sent, [500, 300, 200])
    torch.testing.assert_close(module.shares.detach(), torch.tensor([0.5, 0.3, 0.2]))
    pairs = zip((0.5, 0.3, 0.2), models, strict=True)
    wanted = sum(share * probabilities(model(INPUTS)) for share, model in pairs)
    torch.testing.assert_close(probabilities(module(INPUTS)), wanted)
    torch.testing.assert_close(module(INPUTS[:1]), module(INPUTS)[:1])
    of_logits = sum(share * m(INPUTS) for share, m in zip((0.5, 0.3, 0.2), models, strict=True))
    assert not torch.allclose(probabilities(module(INPUTS)), probabilities(of_logits), atol=1e-4)


@pytest.mark.parametrize("outputs", [1, 2])
def test_before_the_members_arrive_it_predicts_with_its_own(outputs):
    module, _, sent = ensemble(outputs)
    own = module.model(INPUTS)
    module.eval()
    torch.testing.assert_close(module(INPUTS), own)
    arrived(module, sent, [1, 1, 1])
    assert not torch.allclose(module(INPUTS), own)


def test_members_predict_with_the_statistics_that_are_theirs():
    """A network that keeps statistics of its batches predicts with them as well as with weights."""

    def normalising() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 1))

    with torch_seeded(1, "ensemble"):
        module = Ensemble(normalising(), 2, 2)
        models = [normalising() for _ in range(2)]
        for number, model in enumerate(models):
            model(3 * number + INPUTS)
    fleets = [Fleet.of(model.eval(), 1) for model in models]
    sent = {f"model.{k}": torch.cat([f[k] for f in fleets]) for k in fleets[0]}
    arrived(module, Fleet(sent), [3, 1])
    wanted = (3 * probabilities(models[0](INPUTS)) + probabilities(models[1](INPUTS))) / 4
    torch.testing.assert_close(probabilities(module(INPUTS)), wanted)


def test_alone_it_answers_with_its_own():
    module, _, sent = ensemble(1)
    arrived(module, sent, [1, 1, 1]).train()
    torch.testing.assert_close(module(INPUTS, True), module.model(INPUTS))
    module(INPUTS, True).sum().backward()
    trained = {name for name, p in module.named_parameters() if p.requires_grad}
    assert trained == {f"model.{layer}.{part}" for layer in "02" for part in ("weight", "bias")}


def test_where_all_are_broken_everybody_keeps_its_own():
    module, _, sent = ensemble(1)
    arrived(module, sent, [0, 0, 0])
    torch.testing.assert_close(module(INPUTS), module.model(INPUTS))


@pytest.mark.parametrize("keep", ["best", "last"])
@pytest.mark.parametrize("problem", [PEOPLE, ANSWERS], ids=["one-logit", "two-logits"])
def test_after_a_run_all_clients_predict_the_same(problem, keep, monkeypatch, tmp_path):
    """With the vote of those models that they hand over; these are trained alone."""
    monkeypatch.setattr(comity.report, "write_report", lambda run, kind: None)
    configuration = tiny(
        problem=problem.name, algorithm="lft-ensemble", rounds=2, keep=keep, sizes="4,3,2,1"
    )
    run = execute(Run.create(tmp_path / "run", configuration))
    partitioned = configuration.get_problem()
    inputs = partitioned.columns()["inputs"][:20]
    answers = [run.model(client)(inputs).detach() for client in range(4)]
    for other in answers[1:]:
        torch.testing.assert_close(answers[0], other)
    members = run._module(0).members.state_dict()
    sizes = torch.tensor([len(share.train) for share in partitioned.client_rows()])
    votes = []
    for client in range(4):
        plain = partitioned.model()
        plain.load_state_dict({name: tensor[client] for name, tensor in members.items()})
        votes.append(probabilities(plain(inputs)))
    wanted = torch.einsum("m,m...->...", sizes / sizes.sum(), torch.stack(votes))
    torch.testing.assert_close(probabilities(answers[0]), wanted.detach())
    assert not torch.allclose(votes[0], votes[1], atol=1e-4), "everybody has learned its own"
    if keep == "last":
        own = {k.removeprefix("model."): t for k, t in run._module(2).state_dict().items()}
        for name, tensor in members.items():
            torch.testing.assert_close(own[name], tensor[2])
    # and it is what they were judged by
    test = batch_of(partitioned.columns(), partitioned.client_rows()[1].test)
    scores = partitioned.scores(run.model(1)(test["inputs"]), test).detach()
    np.testing.assert_allclose(scores, run.vectors[1], atol=1e-5)


def test_clients_train_alone_and_models_travel_once():
    algorithm: type[Algorithm] = find("lft-ensemble")
    assert not algorithm.communicates
    assert algorithm.sends == ("model.*",)
    configuration = tiny(problem="tiny-people", algorithm="lft-ensemble", rounds=2, chunk=4)
    with EmbeddedEngine(configuration) as engine:
        loop = RoundLoop(engine, Server(configuration))
        records = [record for (record,) in loop.rounds()]
        assert all(record.mixing is None for record in records)
        assert [record.bytes_up for record in records] == [4 * answer_size()] * 2
        down = [4 * request_size("round", taken=taken) for taken in (0, 1)]
        assert [record.bytes_down for record in records] == down, "requests without models"
        (last,) = loop.finish()
    each = sum(p.numel() for p in PEOPLE.model().parameters())
    sent = answer_size(4 * each + 8, listed=SIZE)
    assert last.bytes_up == 4 * (sent + answer_size()), "and the size of its data"
    module = configuration.get_module().state_dict()
    listed = ",".join(
        json.dumps([f"models/{name}", "f4", [1, *module[name].shape]], separators=(",", ":"))
        for name in sorted(n for n in module if n.startswith("members.") or n == "shares")
    )
    told = 4 * (4 * each) + 4 * 4
    voted = request_size("finish", told, alone=True, taken=2, agreed=False, listed=listed)
    asked = request_size("collect", alone=True, taken=2)
    assert last.bytes_down == 4 * (asked + voted), "all four, and their shares"


@pytest.mark.parametrize("problem", [PEOPLE, ANSWERS], ids=["one-logit", "two-logits"])
@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_a_client_that_ends_broken_has_no_vote(broken, problem, monkeypatch):
    """keep = last: nothing stands between a broken model and the ensemble."""
    original = Supervised.train

    def poisoned(self, fleet, rows, task):
        original(self, fleet, rows, task)
        if task.round == 2:
            for name in fleet:
                if name.startswith("model."):
                    fleet[name][1] = broken

    monkeypatch.setattr(Supervised, "train", poisoned)
    configuration = tiny(
        problem=problem.name, algorithm="lft-ensemble", rounds=2, chunk=4, keep="last"
    )
    with EmbeddedEngine(configuration) as engine:
        loop = RoundLoop(engine, Server(configuration))
        list(loop.rounds())
        loop.finish()
        models = engine.models(kept=False)
    partitioned = configuration.get_problem()
    sizes = torch.tensor([len(share.train) for share in partitioned.client_rows()]).float()
    sizes[1] = 0.0
    inputs, votes = partitioned.columns()["inputs"][:20], 0.0
    for client in (0, 2, 3):
        plain = partitioned.model()
        own = {name: models[f"model.{name}"][client] for name in plain.state_dict()}
        plain.load_state_dict(own)
        votes = votes + sizes[client] / sizes.sum() * probabilities(plain(inputs))
    for client in range(4):
        module = models.module(client, configuration.get_module()).eval()
        torch.testing.assert_close(probabilities(module(inputs)), votes)
