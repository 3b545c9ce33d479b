from __future__ import annotations

from copy import deepcopy

import pytest
import torch

from comity.algorithms import make
from comity.core.phases import View
from comity.core.storage import strip_prefix
from comity.errors import UserError
from tests.algorithms.referee import RATE, ROUNDS, Referee, ends, federated, mean
from tests.tiny import (
    ANSWERS,
    NORMS,
    Number,
    assert_sends,
    batches_of,
    fleet_of,
    held,
    learn,
    objective_of,
    one_step,
)
from tests.vectors import PER_FEDAVG, fleet, round_of


def quartic(answer: torch.Tensor) -> torch.Tensor:
    """w⁴ / 4."""
    return answer.pow(4).sum() / 4


def algorithm_of(variant: str = "fo", **settings: float):
    return make("per-fedavg", {"variant": variant, "adaptation": PER_FEDAVG["alpha"], **settings})


@pytest.mark.parametrize("variant", ["fo", "hf", "exact"])
def test_a_step_by_hand(variant):
    """From w, not from the adapted w̃; δ is relative to the length of the gradient."""
    delta = PER_FEDAVG["delta"] * PER_FEDAVG["gradient_at_adapted"]
    algorithm = algorithm_of(variant, delta=delta)
    module = algorithm.build(Number(PER_FEDAVG["w"]), ANSWERS)
    tensors, (phase,) = held(module), algorithm.phases(ANSWERS)
    received = {"model.t": tensors["model.t"]}
    found = one_step(phase, module, tensors, quartic, PER_FEDAVG["beta"], received=received)
    wanted = PER_FEDAVG["new"][variant]
    # differences of float32 gradients have no more digits
    tolerance = 1e-3 if variant == "hf" else 1e-6
    assert found["model.t"].item() == pytest.approx(wanted, abs=tolerance)
    assert abs(found["model.t"].item() - PER_FEDAVG["from_the_adapted"]) > 0.05
    assert torch.equal(found["adapted.t"], tensors["adapted.t"])


def test_the_adapted_model_predicts_and_is_made_on_receipt_and_after_training():
    algorithm = algorithm_of()
    module = algorithm.build(Number(PER_FEDAVG["w"]), ANSWERS)
    tensors, (phase,) = held(module), algorithm.phases(ANSWERS)
    view = View(
        {"model.t": tensors["model.t"]},
        forward=lambda parameters, inputs, start: parameters["model.t" if start else "adapted.t"],
        objective=lambda outputs, batch: quartic(outputs),
    )
    for update in (algorithm.on_receipt(ANSWERS), phase.after):
        found = update(tensors, {"inputs": torch.ones(3, 1)}, view)
        assert set(found) == {"adapted.t"}
        assert found["adapted.t"].item() == pytest.approx(PER_FEDAVG["adapted"])
    module.adapted.t.data.fill_(3.0)
    assert module(torch.zeros(1)).item() == 3.0
    assert module(torch.zeros(1), True).item() == 1.0
    assert algorithm.predictor(module, torch.ones(1)) is module.adapted


def test_the_server_takes_the_plain_mean():
    sent = fleet([[1.0], [2.0]])
    mixing = algorithm_of().mix(round_of(sent, sent, sizes=[1.0, 3.0]))["*"]
    assert sent.mix(mixing.weights)["0"].item() == 1.5


def gradients(referee, model, batch, client):
    return torch.autograd.grad(referee.loss(model, batch, client), list(model.parameters()))


def moved(model, step, directions):
    """A copy of a network, moved."""
    copy = deepcopy(model)
    with torch.no_grad():
        for parameter, direction in zip(copy.parameters(), directions, strict=True):
            parameter += step * direction
    return copy


def direction_of(variant, referee, model, batch, client, alpha):
    """The meta-gradient, as a beginner would write it; exact: by a product with the Hessian."""
    count = 3 if variant == "hf" else 2
    parts = [{k: v[start::count] for k, v in batch.items()} for start in range(count)]
    adapted = moved(model, -alpha, gradients(referee, model, parts[0], client))
    g = gradients(referee, adapted, parts[1], client)
    if variant == "fo":
        return g
    if variant == "exact":
        loss = referee.loss(model, parts[0], client)
        slopes = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
        along = sum((a * b).sum() for a, b in zip(slopes, g, strict=True))
        products = torch.autograd.grad(along, list(model.parameters()))
    else:
        delta = 1e-3 / torch.cat([t.flatten() for t in g]).norm().item()
        ahead, behind = (
            gradients(referee, moved(model, sign * delta, g), parts[2], client) for sign in (1, -1)
        )
        products = [(a - b) / (2 * delta) for a, b in zip(ahead, behind, strict=True)]
    return [a - alpha * b for a, b in zip(g, products, strict=True)]


@pytest.mark.parametrize("variant", ["fo", "hf", "exact"])
def test_three_rounds_are_those_of_plain_pytorch(variant):
    """Who is absent keeps the copy that it adapted; all adapt what the last delivery brings."""
    alpha = 0.5
    configuration = federated("per-fedavg", variant=variant, adaptation=alpha)
    found = ends(configuration)
    referee = Referee(configuration, {"": "model."})
    adapted_names = Referee(configuration, {"": "adapted."})
    models = [deepcopy(referee.initial) for _ in range(3)]
    adapted = [deepcopy(referee.initial) for _ in range(3)]

    def adapt(client):
        slopes = gradients(referee, models[client], referee.everything(client), client)
        adapted[client] = moved(models[client], -alpha, slopes)

    def check(fleet):
        for client in range(3):
            referee.assert_holds(fleet, client, models[client])
            adapted_names.assert_holds(fleet, client, adapted[client])

    server = {}
    for round, present in ROUNDS.items():
        for client in present:
            models[client].load_state_dict(server, strict=False)
            for batch in referee.batches(client, round):
                direction = direction_of(variant, referee, models[client], batch, client, alpha)
                models[client] = moved(models[client], -RATE, direction)
            adapt(client)
        server = mean([models[c].state_dict() for c in present], [1] * len(present))
        check(found[round - 1])
    for client in range(3):
        models[client].load_state_dict(server)
        adapt(client)
    check(found[-1])
    assert not torch.equal(found[-1]["adapted.0.weight"][0], found[-1]["adapted.0.weight"][1])


def test_without_a_step_of_adaptation_it_is_fedavg_on_a_part_of_each_batch():
    """α = 0: the second half of each batch is all that counts."""
    configuration = federated("per-fedavg", adaptation=0.0)
    found = ends(configuration)[-1]
    referee = Referee(configuration, {"": "model."})
    halves = Referee(configuration, {"": "model."})
    halves.batches = lambda client, round: [
        {k: v[1::2] for k, v in batch.items()} for batch in referee.batches(client, round)
    ]
    *_, models = halves.averaged(lambda name: True, uniform=True)
    for client, model in enumerate(models):
        referee.assert_holds(found, client, model)
    for name in found:
        if name.startswith("model."):
            assert torch.equal(found[name], found[name.replace("model.", "adapted.")])


def test_a_batch_that_is_too_small_is_used_whole():
    """Batches of one sample: D, D' and D'' are that sample."""
    for variant in ("fo", "hf"):
        algorithm = algorithm_of(variant)
        learner, models, _, problem = fleet_of(algorithm, ANSWERS, batch_size=1)
        start = learn(algorithm, learner, models, problem)
        assert models.finite().all()
        assert (models.group("model.*").distance(start.group("model.*")) > 0).all()


@pytest.mark.parametrize("variant", ["fo", "exact"])
def test_statistics_of_batches_are_those_of_the_adapted_network_s_batches(variant):
    """The second part of each batch renews them, once; the gradients in between do not."""
    algorithm = algorithm_of(variant)
    learner, models, _, problem = fleet_of(algorithm, NORMS, optimiser="sgd", learning_rate=1e-9)
    start = learn(algorithm, learner, models, problem, steps=1)
    for client in range(3):
        (batch,) = batches_of(problem, client, 1, 16)
        network, initial = problem.model(), strip_prefix(start.tensors, "model.")
        network.load_state_dict({n: t[client] for n, t in initial.items()}, strict=False)
        half = {name: column[::2] for name, column in batch.items()}
        loss = objective_of(problem, client)(network(half["inputs"]), half)
        slopes = torch.autograd.grad(loss, list(network.parameters()))
        adapted = moved(network, -PER_FEDAVG["alpha"], slopes)
        adapted[1].reset_running_stats()
        adapted(batch["inputs"][1::2])
        for name in ("running_mean", "running_var"):
            found = models[f"model.1.{name}"][client]
            torch.testing.assert_close(found, getattr(adapted[1], name))
            assert torch.equal(found, models[f"adapted.1.{name}"][client])


def test_differences_of_gradients_renew_no_statistics():
    with pytest.raises(UserError, match=r"variant = hf: the network of tiny-norms keeps"):
        algorithm_of("hf").build(NORMS.model(), NORMS)


def test_fine_tuning_trains_the_client_s_own_objective():
    algorithm = algorithm_of()
    module = algorithm.build(Number(1.0), ANSWERS)
    (phase,) = algorithm.local_phases(ANSWERS)
    tensors = held(module)
    received = {"model.t": tensors["model.t"]}
    found = one_step(phase, module, tensors, quartic, 0.1, received=received)
    assert found["model.t"].item() == pytest.approx(0.9)
    taken = phase.after(found, {}, View(received))
    assert taken["adapted.t"].item() == pytest.approx(0.9)


def test_only_the_start_travels():
    assert_sends("per-fedavg", {"model"})
