"""HetPFL: sampling that is learned, and fused hypernetworks. PraFFL's own parts: test_praffl."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import moocore
import numpy as np
import pytest
import torch
from scipy.special import digamma
from torch import nn
from torch.func import functional_call

from comity.algorithms import Round, make
from comity.algorithms.hetpfl import Heterogeneous, HetPFL
from comity.algorithms.hetpfl.model import shares
from comity.algorithms.praffl import Hypernetwork
from comity.core.fleet import Fleet
from comity.core.mixing import Mixing, Pick
from comity.core.phases import View
from comity.core.rng import stream
from comity.core.scalarisations import direction_of, smooth_tchebycheff
from comity.errors import UserError
from comity.federation.clients import Clients
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import RoundLoop
from comity.federation.server import Server
from tests.tiny import (
    ANSWERS,
    assert_private_stays,
    assert_sends,
    batches_of,
    fleet_of,
    learn,
    tiny,
)
from tests.vectors import HETPFL


def hetpfl(**settings: Any) -> HetPFL:
    algorithm = make("hetpfl", settings)
    assert isinstance(algorithm, HetPFL)
    return algorithm


def vector_of(values: list[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def vector(name: str) -> torch.Tensor:
    return vector_of(HETPFL[name])


def sampling(**values: list[float]) -> dict[str, torch.Tensor]:
    zero = torch.zeros(2).double()
    plain = {"alpha": vector("alpha"), "slope": zero, "first": zero, "second": zero}
    plain |= {"steps": torch.tensor(1.0), "updates": torch.tensor(0.0).double()}
    given = {name: torch.tensor(value).double() for name, value in values.items()}
    return {f"sampling.{name}": tensor for name, tensor in {**plain, **given}.items()}


# -- preference sampling adaptation --------------------------------------------------------


def test_the_gradient_of_the_specification():
    alpha = vector("alpha").requires_grad_()
    draws = vector("losses"), vector("reference"), vector("preferences"), alpha
    (slope,) = torch.autograd.grad(hetpfl(baseline="none").aim(*draws), alpha)
    np.testing.assert_allclose(slope, HETPFL["alpha_gradient"], atol=1e-6)
    (slope,) = torch.autograd.grad(hetpfl().aim(*draws), alpha)
    gains = np.array(HETPFL["contribution"]) - np.mean(HETPFL["contribution"])
    np.testing.assert_allclose(slope, -gains @ np.array(HETPFL["score"]) / 4, atol=1e-6)


def test_the_step_of_the_specification_is_torchs_adam():
    found = hetpfl().adapted(sampling(slope=HETPFL["alpha_gradient"]), {}, View({}))
    np.testing.assert_allclose(
        found["sampling.alpha"], HETPFL["alpha_after_adam_lr_0_05"], atol=1e-5
    )
    algorithm, referee = (
        hetpfl(alpha_decay=0.01, alpha_rate=0.2),
        torch.nn.Parameter(vector("alpha")),
    )
    adam = torch.optim.Adam([referee], lr=0.2, weight_decay=0.01)
    state = sampling()
    for slope in ([0.3, -0.1], [-0.2, -0.4], [0.1, -0.3]):
        sums = {"sampling.slope": 4 * torch.tensor(slope), "sampling.steps": torch.tensor(4.0)}
        state = {**state, **algorithm.adapted({**state, **sums}, {}, View({}))}
        referee.grad = torch.tensor(slope).double()
        adam.step()
        np.testing.assert_allclose(state["sampling.alpha"], referee.detach(), atol=1e-6)
    assert not state["sampling.slope"].any()
    assert not state["sampling.steps"].any()


def test_alpha_stays_in_its_range():
    algorithm = hetpfl(alpha_rate=3.0, alpha_most=4.5)
    found = algorithm.adapted(sampling(slope=[0.1, -9.0]), {}, View({}))
    np.testing.assert_allclose(found["sampling.alpha"], [1.0, 4.0], atol=1e-6)
    found = algorithm.adapted(sampling(slope=[-0.1, -9.0]), {}, View({}))
    np.testing.assert_allclose(found["sampling.alpha"], [4.5, 4.0], atol=1e-6)


def test_a_round_is_that_of_other_code():
    """One step of ψ and one of β: contributions by moocore, scores by scipy, on PraFFL's draws."""
    algorithm = hetpfl(sampled=5, split=0.5, alpha=1.0, alpha_rate=0.3)
    learner, models, module, problem = fleet_of(algorithm, ANSWERS, optimiser="sgd")
    start = learn(algorithm, learner, models, problem, steps=2)
    for client in range(3):
        gammas = -np.log1p(-stream(1, "draws 1", 1, client).random((1, 5, 2)))[0]
        importance = gammas / gammas.sum(axis=1, keepdims=True)
        (batch,) = batches_of(problem, client, 1, 16, phase=1)
        held = {n: (models if n.startswith("body.") else start)[n][client] for n in models}
        leaves = {n: t.clone().requires_grad_() for n, t in held.items() if n.startswith("hyper.")}
        weights = torch.from_numpy(importance).float()
        outputs = functional_call(module, {**held, **leaves}, (batch["inputs"], weights))
        losses = torch.stack([problem.losses(output, batch) for output in outputs])
        points, reference = losses.detach().double().numpy(), np.ones(2)
        reference = np.maximum(reference, points.max(axis=0))
        whole = moocore.hypervolume(points, ref=reference)
        gains = np.array(
            [whole - moocore.hypervolume(np.delete(points, i, 0), ref=reference) for i in range(5)]
        )
        score = digamma(2.0) - digamma(1.0) + np.log(importance.clip(0.01))
        slope = -(gains - gains.mean()) @ score / 5
        found = {n.removeprefix("sampling."): t[client] for n, t in models.tensors.items()}
        np.testing.assert_allclose(found["first"], 0.1 * slope, rtol=1e-3, atol=1e-7)
        np.testing.assert_allclose(found["alpha"], np.where(slope < 0, 1.3, 1.0), atol=1e-3)
        np.testing.assert_allclose(found["reference"], reference, rtol=1e-5)
        assert not found["largest"].any()
        assert found["updates"] == 1
        # β's own step is PraFFL's
        inverse = 1 / weights.clamp(min=0.01)
        direction = inverse / inverse.sum(dim=1, keepdim=True)
        torch.log(torch.exp(losses / direction).sum(dim=1)).mean().backward()
        for name, leaf in leaves.items():
            wanted = leaf.detach() - learner.settings.learning_rate * leaf.grad
            torch.testing.assert_close(models[name][client], wanted, rtol=1e-4, atol=1e-6)


def test_the_values_of_beta_are_those_of_the_specification():
    """The specification's preferences are directions; importance is their inverse."""
    found = smooth_tchebycheff(vector("losses"), vector("preferences"))
    np.testing.assert_allclose(found, HETPFL["smooth_tchebycheff"], atol=1e-6)
    back = direction_of(vector("preferences"), 0.01)
    np.testing.assert_allclose(back, vector("preferences").flip(1), atol=1e-9)


def test_draws_follow_the_clients_own_alpha():
    """And differ from client to client and from round to round."""
    _, second = hetpfl().phases(ANSWERS)
    assert second.draw is not None

    def drawn(alpha: list[float], *place: int) -> np.ndarray:
        parameters = {"sampling.alpha": torch.tensor(alpha)}
        return second.draw(stream(1, "draws", *place), 400, 16, parameters)["importance"]

    assert drawn([1.0, 1.0], 1, 1).shape == (400, 8, 2)
    assert drawn([4.0, 1.0], 1, 1)[..., 0].mean() == pytest.approx(0.8, abs=0.01)
    assert drawn([1.0, 3.0], 1, 1)[..., 0].mean() == pytest.approx(0.25, abs=0.01)
    assert not np.isclose(drawn([1.0, 1.0], 1, 1), drawn([1.0, 1.0], 2, 1)).any()


def test_sampling_learns_where_a_front_grows():
    """Draws of which those with more weight on the first objective extend the front."""
    algorithm, rng = hetpfl(), np.random.default_rng(3)
    state = sampling(alpha=[1.05, 1.05])
    for _ in range(40):
        importance = rng.dirichlet(state["sampling.alpha"].numpy(), 8)
        first = importance[:, 0]
        # a concave front on the side of large weights; all others end in one dominated corner
        losses = np.where(first[:, None] > 0.5, np.stack([1 - first, first], 1) ** 2, 0.99)
        alpha = state["sampling.alpha"].clone().requires_grad_()
        draws = (torch.from_numpy(v) for v in (losses, np.ones(2), importance))
        (slope,) = torch.autograd.grad(algorithm.aim(*draws, alpha), alpha)
        state |= {"sampling.slope": slope, "sampling.steps": torch.tensor(1.0)}
        state = {**state, **algorithm.adapted(state, {}, View({}))}
    assert state["sampling.alpha"][0] > state["sampling.alpha"][1] + 0.4


# -- what travels, fusion ------------------------------------------------------------------


def test_only_the_communicated_network_travels():
    assert_sends("hetpfl", {"body"}, ("validation",))


def test_hypernetworks_and_samplings_stay_and_wait_for_their_client():
    assert_private_stays("hetpfl", "hyper.", "sampling.")


def federation(
    absences: Sequence[Any] = (), **settings: Any
) -> Iterator[tuple[int, Fleet, Fleet, Fleet]]:
    """Yield number, received, trained and sent models of each round of four clients."""
    configuration = tiny(
        problem="tiny-answers",
        algorithm="hetpfl",
        chunk=4,
        hetpfl=settings,
        keep="last",
        rounds=4,
        absences=absences,
    )
    sent: list[Fleet] = []
    original = Clients.round

    def listening(self: Clients, request: Any) -> Any:
        update = original(self, request)
        sent.append(update.models.clone())
        return update

    with pytest.MonkeyPatch.context() as patch, EmbeddedEngine(configuration) as engine:
        patch.setattr(Clients, "round", listening)
        loop = RoundLoop(engine, Server(configuration))
        for number, _ in enumerate(loop.rounds(), start=1):
            start = {
                name.removeprefix("0/start/"): torch.from_numpy(value.copy())
                for name, value in engine.state().items()
                if name.startswith("0/start/")
            }
            yield number, Fleet(start), engine.models(kept=False).clone(), sent[-1]
        loop.finish()
        models = engine.models(kept=False).clone()
        yield 5, models, models, sent[-1]


def test_hypernetworks_are_sent_once_and_tuned_by_all():
    """Four rounds, of which the last trains the mean of the hypernetworks of the third."""
    rounds = {number: rest for number, *rest in federation(front="global")}
    names = [name for name in rounds[1][1] if name.startswith("fused.hyper.")]
    assert names
    for number in (1, 2):
        start, trained, sent = rounds[number]
        assert not sent["fused.ready"].any()
        for name in names:
            assert torch.equal(sent[name], start[name]), "it says nothing about its client"
            assert torch.equal(sent[name][0], sent[name][3])
    own, sent = rounds[3][1:]
    received, trained, tuned = rounds[4]
    last = rounds[5][0]
    assert sent["fused.ready"].all()
    for name in names:
        assert torch.equal(sent[name], own[name.removeprefix("fused.")])
        torch.testing.assert_close(received[name][2], sent[name].mean(dim=0))
        torch.testing.assert_close(last[name][2], tuned[name].mean(dim=0))
    assert any(not torch.equal(trained[name], received[name]) for name in names)
    for name in trained:
        if not name.startswith("fused."):
            assert torch.equal(trained[name], received[name]), "all else stands still"
    assert not torch.equal(rounds[3][0]["body.0.weight"], own["body.0.weight"])


def test_a_mean_is_made_in_the_last_round():
    rounds = {number: rest for number, *rest in federation(front="global", fusion="mean")}
    own, last = rounds[4][1], rounds[5][0]
    for name in last:
        if name.startswith("fused.hyper."):
            wanted = own[name.removeprefix("fused.")].mean(dim=0)
            torch.testing.assert_close(last[name][1], wanted)
    assert not torch.equal(rounds[4][0]["body.0.weight"], own["body.0.weight"])


# -- weights that depend on the preference -------------------------------------------------

WEIGHTS = {"front": "global", "fusion": "weights"}


def test_the_weights_of_the_specification():
    fusion = HETPFL["fusion"]
    found = shares(torch.tensor(fusion["logits"], dtype=torch.float64))
    np.testing.assert_allclose(found, fusion["weights"], atol=1e-6)
    assert found @ vector_of(fusion["hypernets"]) == pytest.approx(fusion["fused"], abs=1e-6)


def weighed() -> tuple[Heterogeneous, list[Hypernetwork]]:
    """A module with three unlike hypernetworks that is ready to weigh them, and these."""
    _, _, module, _ = fleet_of(hetpfl(**WEIGHTS), ANSWERS)
    assert isinstance(module, Heterogeneous)
    assert module.fused is not None
    assert module.bank is not None
    torch.manual_seed(3)
    hypers = [deepcopy(module.hyper) for _ in range(3)]
    for hyper in hypers:
        for parameter in hyper.parameters():
            torch.nn.init.normal_(parameter)
    for name, stacked in module.bank.named_parameters():
        stacked.data = torch.stack([hyper.get_parameter(name).detach() for hyper in hypers])
    module.fused.ready.data.fill_(1.0)
    return module, hypers


def test_a_head_is_that_of_hypernetworks_mixed_by_other_code():
    module, hypers = weighed()
    assert module.fused is not None
    first, _, last = module.fused.weigher
    torch.nn.init.normal_(last.weight)
    last.bias.data = torch.tensor([-3.0, 0.0, 3.0])
    importance = torch.tensor([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]])
    together = module.head(importance)
    for place, one in enumerate(importance):
        direction = direction_of(one, module.least)
        hidden = (first.weight @ direction + first.bias).clamp(min=0)
        raw = 1 / (1 + torch.exp(-(last.weight @ hidden + last.bias)))
        weights = raw / raw.sum()
        assert weights.max() > weights.min() + 0.02
        mixed = deepcopy(module.hyper)
        for name, parameter in mixed.named_parameters():
            values = [hyper.get_parameter(name) for hyper in hypers]
            parameter.data = sum(w * v for w, v in zip(weights, values, strict=True)).detach()
        for found, alone, wanted in zip(together, module.head(one), mixed(direction), strict=True):
            torch.testing.assert_close(found[place], wanted, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(alone, wanted, rtol=1e-4, atol=1e-5)


def test_all_clients_weigh_the_same_at_first():
    """Then the fused hypernetwork is the plain mean."""
    module, hypers = weighed()
    mean = deepcopy(module.hyper)
    for name, parameter in mean.named_parameters():
        parameter.data = torch.stack([h.get_parameter(name) for h in hypers]).mean(dim=0).detach()
    one = torch.tensor([0.3, 0.7])
    for found, wanted in zip(module.head(one), mean(direction_of(one, module.least)), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_hypernetworks_go_to_everybody_once_and_all_train_their_weights():
    rounds = {number: rest for number, *rest in federation(**WEIGHTS)}
    names = [name for name in rounds[1][1] if name.startswith("bank.")]
    assert names
    for number in (1, 2):
        start, trained, sent = rounds[number]
        for name in names:
            upload = name.replace("bank.", "upload.")
            assert torch.equal(sent[upload], start[upload]), "it says nothing about its client"
            assert torch.equal(sent[upload][0], sent[upload][3])
    own, sent = rounds[3][1:]
    received, trained, tuned = rounds[4]
    last = rounds[5][0]
    for name in names:
        hypers = own[name.replace("bank.", "hyper.")]
        assert torch.equal(sent[name.replace("bank.", "upload.")], hypers)
        assert not torch.equal(hypers[0], hypers[1])
        for models in (received, trained, last):
            assert all(torch.equal(bank, hypers) for bank in models[name]), "one per client"
        assert name not in tuned.tensors, "what a client was given does not travel"
    moved = [name for name in trained if not torch.equal(trained[name], received[name])]
    assert moved
    assert all(name.startswith("fused.weigher.") for name in moved), "all else stands still"
    assert "fused.weigher.2.bias" in moved
    for name in moved:
        torch.testing.assert_close(last[name][2], tuned[name].mean(dim=0))


def picked(present: list[int], ready: float, clients: int = 5) -> Pick:
    tensors = {"body.w": torch.zeros(5, 2), "upload.w": torch.arange(10.0).reshape(5, 2)}
    fleet = Fleet({**tensors, "fused.ready": torch.full((5, 1), ready)})
    ids = tuple(range(clients))
    round = Round(3, ids, ids, fleet, fleet, np.ones(clients), asked=clients).only(present)
    mixings = hetpfl(**WEIGHTS).mix(round)
    assert isinstance(mixings["*"], Mixing)
    pick = mixings["upload.*"]
    assert isinstance(pick, Pick)
    pick.check(len(present))
    return pick


def test_the_places_of_absent_clients_are_taken_by_others_and_nothing_changes_afterwards():
    assert picked([0, 1, 2, 3, 4], 0.0).givers.tolist() == [[0, 1, 2, 3, 4]]
    absent = picked([1, 4], 0.0)  # rows 0 and 1; clients 0, 2, 3 are replaced in turn
    assert absent.givers.tolist() == [[0, 0, 0, 1, 1]]
    assert set(absent.route) == {0, 1, 2, 3, 4}
    assert picked([1, 4], 1.0).route == {}


def test_who_was_absent_gets_what_the_others_got():
    """Client 0 misses the third of four rounds, in which hypernetworks are handed over."""
    rounds = {number: rest for number, *rest in federation(absences=[[3, 0, "round"]], **WEIGHTS)}
    own, last = rounds[3][1], rounds[5][0]
    for name in (name for name in last if name.startswith("bank.")):
        hypers = own[name.replace("bank.", "hyper.")]
        assert torch.equal(last[name][0], last[name][2])
        assert torch.equal(last[name][0], hypers[[1, 1, 2, 3]])
    assert last["fused.ready"].all()


def test_weights_need_a_server_and_exact_models():
    algorithm = hetpfl(**WEIGHTS)
    assert "hypernetworks of all" in algorithm.needs_server
    assert "hypernetworks of all" in algorithm.needs_exact(ANSWERS)
    for settings in ({"fusion": "weights"}, {"front": "global"}):
        assert not hetpfl(**settings).needs_server
        assert not hetpfl(**settings).needs_exact(ANSWERS)


def test_the_fused_hypernetwork_predicts_once_there_is_one():
    _, _, module, problem = fleet_of(hetpfl(front="global"), ANSWERS)
    assert isinstance(module, Heterogeneous)
    assert module.fused is not None
    inputs, even = problem.columns()["inputs"][:4], torch.tensor([0.5, 0.5])
    own = module(inputs, even)
    for parameter in module.fused.hyper.parameters():
        parameter.data.mul_(2.0)
    torch.testing.assert_close(module(inputs, even), own)
    module.fused.ready.data.fill_(1.0)
    fused = module(inputs, even)
    assert not torch.allclose(fused, own)
    torch.testing.assert_close(module.at(even)(inputs), fused)
    module.hyper.load_state_dict(module.fused.hyper.state_dict())
    module.fused.ready.data.zero_()
    torch.testing.assert_close(module(inputs, even), fused)


def test_a_network_of_another_kind_is_refused_in_its_own_name():
    problem = replace(ANSWERS, network=lambda samples: nn.Linear(4, 2))
    with pytest.raises(UserError, match=r"hetpfl makes the last layer"):
        hetpfl().build(problem.model(), problem)
