from __future__ import annotations

import numpy as np
import pytest
import torch

from comity.algorithms import Round, make
from comity.algorithms.fedfomo import weighed
from comity.core.fleet import Fleet
from comity.core.mixing import Pick
from comity.federation.clients import Clients
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import RoundLoop
from comity.federation.server import Server
from comity.problems.data import batch_of
from tests.sealed_sizes import request_size
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

RECEIVED = [[3.0, 4.0], [1.0, 0.0], [0.0, 2.0]]


def chosen(losses: list[float], received=RECEIVED, own=(0.0, 0.0)):
    """The new model and gains of a client that loses 1 with its own model, cut in two tensors."""
    offers, model = torch.tensor(received), torch.tensor(own)
    new, gains = weighed(
        {"a": model[:1], "b": model[1:]},
        {"a": offers[:, :1], "b": offers[:, 1:]},
        torch.tensor(1.0),
        torch.tensor(losses),
    )
    return torch.cat([new["a"], new["b"]]), gains


# -- what a client makes of its offers -----------------------------------------------------


def test_weights_and_the_new_model_by_hand():
    """q = (0.5 / 5, −0.2 / 1, 0.2 / 2): half of the first and half of the third."""
    model, gains = chosen([0.5, 1.2, 0.8])
    torch.testing.assert_close(gains, torch.tensor([0.1, -0.2, 0.1]), rtol=0, atol=1e-5)
    torch.testing.assert_close(model, torch.tensor([1.5, 3.0]), rtol=0, atol=1e-4)


def test_who_is_helped_by_nobody_keeps_its_own():
    model, gains = chosen([1.5, 1.2, 1.0], own=(0.5, 0.5))
    assert model.tolist() == [0.5, 0.5]
    assert (gains <= 0).all()


def test_ones_own_model_is_no_gain():
    """An offer at no distance is the client's own; what its loss is rounded to says nothing."""
    below = float(np.nextafter(np.float32(1.0), np.float32(0.0)))
    own = (3.0, 4.0)
    _, gains = chosen([below, 1.2, 0.8], own=own)
    assert gains[0].item() == pytest.approx(0.0, abs=1e-6)


def test_where_few_are_there_nobody_counts_twice():
    """Of three givers for five offers, a client's own model fills up: to itself it is no gain."""
    algorithm = make("fedfomo", {"offers": 5})
    pick = algorithm.mix(round_of_gains(np.zeros((3, 5)), participants=(0, 1, 2), clients=range(6)))
    for client in range(3):
        wanted = [3 if giver == client else 1 for giver in range(3)]
        assert np.bincount(pick["*"].givers[client]).tolist() == wanted


def test_a_round_is_that_of_plain_pytorch():
    """Offers are judged on validation samples; then it trains from what it has made of them."""
    algorithm = make("fedfomo", {"offers": 3})
    learner, models, _, problem = fleet_of(algorithm, ANSWERS, optimiser="sgd", learning_rate=0.1)
    g = torch.Generator().manual_seed(2)
    for name in models.group("offers.*"):
        models[name].add_(0.5 * torch.randn(models[name].shape, generator=g))
    start = learn(algorithm, learner, models, problem)
    helped = 0
    for client in range(3):
        network = network_of(problem, start, client, "model.")
        lose = objective_of(problem, client)
        seen = batch_of(problem.columns(), problem.client_rows()[client].validation)
        before = lose(network(seen["inputs"]), seen).item()
        own = {name: tensor.clone() for name, tensor in network.state_dict().items()}
        offers = [
            {name: start[f"offers.{name}"][client, place] for name in own} for place in range(3)
        ]
        gains = []
        for offer in offers:
            network.load_state_dict(offer)
            after = lose(network(seen["inputs"]), seen).item()
            apart = sum((offer[n] - own[n]).square().sum().item() for n in own) ** 0.5
            gains.append((before - after) / (apart + 1e-5))
        shares = np.clip(gains, 0, None)
        helped += shares.any()
        new = own
        if shares.any():
            shares = shares / shares.sum()
            pairs = list(zip(shares.tolist(), offers, strict=True))
            new = {n: sum(share * offer[n] for share, offer in pairs) for n in own}
        network.load_state_dict(new)
        descent = torch.optim.SGD(network.parameters(), 0.1)
        for batch in batches_of(problem, client, 3, 16):
            descent.zero_grad()
            lose(network(batch["inputs"]), batch).backward()
            descent.step()
        np.testing.assert_allclose(models["gains"][client], gains, rtol=1e-3, atol=1e-5)
        assert_holds(models, client, "model.", network)
    assert helped, "somebody was helped, or the test says little"


# -- whose models a client is offered ------------------------------------------------------


def round_of_gains(gains: np.ndarray, participants, clients, number: int = 1) -> Round:
    sent = Fleet({"model.a": torch.arange(float(len(participants)))[:, None]})
    told = {"gains": np.asarray(gains, dtype=float)}
    sizes = np.ones(len(participants))
    return Round(number, tuple(participants), tuple(clients), sent, sent, sizes, told)


def offered(pick: Pick, present) -> dict[int, list[int]]:
    return {client: [present[p] for p in pick.givers[row]] for client, row in pick.route.items()}


def test_everybody_is_offered_its_own_model_and_others_in_turn_at_first():
    algorithm = make("fedfomo", {})
    seen: dict[int, set[int]] = {client: set() for client in range(6)}
    for number in (1, 2, 3, 4, 5):
        pick = algorithm.mix(round_of_gains(np.zeros((6, 2)), range(6), range(6), number))["*"]
        for client, givers in offered(pick, range(6)).items():
            assert givers[0] == client
            seen[client].add(givers[1])
    assert all(len(others - {client}) >= 4 for client, others in seen.items()), seen


def test_those_who_have_helped_most_are_offered_again():
    """Gains add up, each for whom it was; who has done harm comes last."""
    algorithm, everybody = make("fedfomo", {}), range(3)
    first = offered(
        algorithm.mix(round_of_gains(np.zeros((3, 3)), everybody, everybody))["*"], everybody
    )
    worth = {0: 0.0, 1: 5.0, 2: -1.0}  # to client 0
    gains = np.zeros((3, 3))
    gains[0] = [worth[giver] for giver in first[0]]
    pick = algorithm.mix(round_of_gains(gains, everybody, everybody, 2))["*"]
    assert offered(pick, everybody)[0] == [1, 0, 2]
    # and once more: 5 − 4.5 is less than its own 1
    worth = {0: 0.0, 1: -4.5, 2: 0.0}
    gains[0] = [worth[giver] for giver in (1, 0, 2)]
    pick = algorithm.mix(round_of_gains(gains, everybody, everybody, 3))["*"]
    assert offered(pick, everybody)[0] == [0, 1, 2]


def test_affinity_knows_no_favourites():
    """With distinct affinities, clients under other names are offered the same models."""
    rng, n = np.random.default_rng(1), 5
    affinity, order = rng.normal(size=(n, n)), rng.permutation(n)
    picks = []
    for matrix in (affinity, affinity[np.ix_(order, order)]):
        algorithm = make("fedfomo", {})
        known = {str(i): list(enumerate(matrix[i].tolist())) for i in range(n)}
        algorithm.load({"affinity": known, "offered": []})
        pick = algorithm.mix(round_of_gains(np.zeros((n, 3)), range(n), range(n)))["*"]
        picks.append(offered(pick, range(n)))
    for new, old in enumerate(order.tolist()):
        assert [order[giver] for giver in picks[1][new]] == picks[0][old]
        assert picks[0][old] == np.argsort(-affinity[old])[:3].tolist()


def test_only_those_who_sent_are_offered_also_to_the_absent():
    present = (1, 3, 4)
    algorithm = make("fedfomo", {})
    pick = algorithm.mix(round_of_gains(np.zeros((3, 2)), present, range(5)))["*"]
    pick.check(3)
    found = offered(pick, present)
    assert set(found) == set(range(5))
    assert all(set(givers) <= set(present) for givers in found.values())
    assert found[3][0] == 3


def test_a_pick_of_somebody_who_did_not_send_is_noticed():
    with pytest.raises(AssertionError, match="picked"):
        Pick(np.array([[0, 3]]), 3, {0: 0}).check(3)


# -- what travels --------------------------------------------------------------------------


def test_whole_models_land_as_offers():
    configuration = tiny(
        problem="tiny-answers", algorithm="fedfomo", chunk=4, rounds=2, fedfomo={"offers": 2}
    )
    with EmbeddedEngine(configuration) as engine:
        federation = Server(configuration)
        next(RoundLoop(engine, federation).rounds())
        own = engine.models(kept=False).clone()
        givers = dict(federation.algorithm.state()["offered"])
        request, _ = federation.request()
        seen = {}
        original = Clients._train

        def watched(self, rows, request, *more):
            seen["models"] = self._models.clone()
            return original(self, rows, request, *more)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Clients, "_train", watched)
            engine.round(request)
    for client in range(4):
        for place, giver in enumerate(givers[client]):
            found = seen["models"]["offers.0.weight"][client, place]
            assert torch.equal(found, own["model.0.weight"][giver])
    assert torch.equal(seen["models"]["model.0.weight"], own["model.0.weight"])


def test_every_offered_model_is_counted_as_sent():
    configuration = tiny(
        problem="tiny-answers", algorithm="fedfomo", chunk=4, rounds=2, fedfomo={"offers": 3}
    )
    with EmbeddedEngine(configuration) as engine:
        first, second = (record for (record,) in RoundLoop(engine, Server(configuration)).rounds())
    size = 4 * sum(p.numel() for p in ANSWERS.model().parameters())
    assert first.bytes_down == 4 * request_size("round")
    offers = [["0.weight", [4, 4]], ["0.bias", [4]], ["2.weight", [2, 4]], ["2.bias", [2]]]
    listed = ",".join(
        f'["models/model.{name}","f4",[1,3,{",".join(map(str, shape))}]]' for name, shape in offers
    )
    offered = request_size("round", 3 * size, taken=1, agreed=False, listed=listed)
    assert second.bytes_down == 4 * offered


def test_models_travel_and_gains_are_told():
    assert_sends("fedfomo", {"model"}, statistics={"gains"})


def test_models_are_never_overwritten():
    assert_private_stays("fedfomo", "model.")


def test_nobody_is_offered_more_models_than_there_are_clients():
    problem = ANSWERS.partitioned(3, 1, "stratified", "equal")
    module = make("fedfomo", {"offers": 5}).build(problem.model(), problem)
    assert len(module.gains) == 3
    assert module.get_parameter("offers.0.weight").shape == (3, 4, 4)
