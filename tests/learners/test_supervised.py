from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from comity.configuration import configure
from comity.core.fleet import Fleet
from comity.core.phases import ClientModel, Phase, View
from comity.core.rng import stream, torch_seeded
from comity.federation.clients import initial_fleet
from comity.learners import Task
from comity.learners.adam import adam_step
from comity.learners.scalarisation import direction_of, smooth_tchebycheff
from comity.learners.supervised import compiling
from comity.learners.supervised.learner import Supervised
from comity.learners.supervised.settings import SupervisedSettings
from comity.problems import DataProblem, Objective, Samples, find
from tests.tiny import PEOPLE, tiny

DEAL = (3, 1, "iid", "equal")


def learner_of(problem=PEOPLE, deal=DEAL, preferences=None, clients=None, **settings):
    problem = problem.partitioned(*deal)
    ids = tuple(range(deal[0])) if clients is None else clients
    weights = np.array([[0.3, 0.7], [0.5, 0.5], [0.9, 0.1]])[list(ids)]
    weights = weights if preferences is None else np.array(preferences)
    with torch_seeded(1, "model"):
        fleet = Fleet.of(problem.model(), len(ids))
    values = {**problem.defaults, "normalise": False, "compile": "no", **settings}
    learner = Supervised(
        problem, SupervisedSettings(**values), ids, weights, 1, fleet, ClientModel(problem.model())
    )
    return learner, fleet, weights


def trained(learner, fleet, steps=3, phase=None, broadcast=None, round=1, rows=None):
    rows = np.arange(len(fleet)) if rows is None else rows
    goal = learner.steps[rows] + steps
    learner.train(
        fleet, rows, Task(round, [phase or Phase()], fleet.clone(), goal, broadcast or {})
    )
    return fleet


def by_hand(problem, fleet, weights, client, steps, optimiser, penalty=None, scale=None):
    """The same training of one client, as a beginner would write it."""
    model = fleet.clone().module(client, problem.model())
    rows = problem.shares()[client].train
    order = np.concatenate(
        [g.permutation(rows) for g in [stream(1, "batches", 1, client)] for _ in range(3)]
    )
    size = min(64, len(rows))
    columns, start = problem.columns(), [p.detach().clone() for p in model.parameters()]
    steps_of = optimiser(model.parameters())
    for number in range(steps):
        index = torch.from_numpy(order[number * size : (number + 1) * size])
        batch = {k: v[index] for k, v in columns.items()} | {"weight": torch.ones(len(index))}
        losses = problem.losses(model(batch["inputs"]), batch)
        if scale is not None:
            losses = losses / scale
        total = (torch.tensor(weights[client]).float() * losses).sum()
        if penalty is not None:
            total = total + penalty(list(model.parameters()), start)
        steps_of.zero_grad()
        total.backward()
        steps_of.step()
    return {k: v.detach() for k, v in model.named_parameters()}


def assert_row(fleet, row, wanted, atol=1e-5):
    for name, tensor in wanted.items():
        torch.testing.assert_close(fleet[name][row], tensor, rtol=1e-4, atol=atol)


@pytest.mark.parametrize("compiled", ["no", "yes"])
def test_a_fleet_trains_like_plain_pytorch(compiled):
    learner, fleet, weights = learner_of(compile=compiled)
    start = fleet.clone()
    trained(learner, fleet, steps=4)
    for client in range(3):
        adam = lambda p: torch.optim.Adam(p, 1e-2)  # noqa: E731
        assert_row(
            fleet, client, by_hand(PEOPLE.partitioned(*DEAL), start, weights, client, 4, adam)
        )
    assert learner.steps.tolist() == [4, 4, 4]


def test_programs_are_made_once_a_phase_and_shape(monkeypatch):
    """What is compiled, not compiled: that takes seconds and is shown above."""
    made = []

    def noted(function, arguments):
        made.append(function)
        return function

    monkeypatch.setattr(compiling, "_compiled", noted)
    plain, wanted, _ = learner_of()
    learner, fleet, _ = learner_of(compile="yes")
    counts = []
    for round, rows in enumerate([[0, 1, 2], [0, 1, 2], [0, 2]], start=1):
        for own, models in ((plain, wanted), (learner, fleet)):
            trained(own, models, steps=3 * round, round=round, rows=np.array(rows))
        counts.append(len(made))
    assert counts == [1, 1, 2]
    for client in range(3):
        assert_row(fleet, client, {name: wanted[name][client] for name in wanted})


def test_batches_that_are_too_small_are_not_compiled(monkeypatch):
    monkeypatch.setattr(compiling, "_compiled", lambda *_: pytest.fail("compiled"))
    learner, fleet, _ = learner_of(compile="yes", batch_size=10_000)
    start = fleet.clone()
    trained(learner, fleet)
    assert fleet.distance(start).min() > 0


def test_stochastic_gradient_descent_with_momentum():
    learner, fleet, weights = learner_of(optimiser="sgd", momentum=0.9, learning_rate=0.1)
    start = fleet.clone()
    trained(learner, fleet)
    sgd = lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)  # noqa: E731
    assert_row(fleet, 1, by_hand(PEOPLE.partitioned(*DEAL), start, weights, 1, 3, sgd))


def test_the_penalty_is_inside_the_gradient():
    learner, fleet, weights = learner_of()
    start = fleet.clone()
    phase = Phase(penalty=lambda t, view: sum((t[k] - 2 * view.received[k]).sum() for k in t))
    trained(learner, fleet, phase=phase)
    adam = lambda p: torch.optim.Adam(p, 1e-2)  # noqa: E731

    def penalty(tensors, received):
        return sum((t - 2 * r).sum() for t, r in zip(tensors, received, strict=True))

    wanted = by_hand(PEOPLE.partitioned(*DEAL), start, weights, 2, 3, adam, penalty)
    assert_row(fleet, 2, wanted)


def test_losses_are_divided_by_what_they_are_at_the_start():
    learner, fleet, weights = learner_of(normalise=True)
    problem, start = PEOPLE.partitioned(*DEAL), fleet.clone()
    rows = torch.from_numpy(problem.shares()[0].train)
    model = fleet.module(0, problem.model())
    batch = {k: v[rows] for k, v in problem.columns().items()} | {"weight": torch.ones(len(rows))}
    scale = problem.losses(model(batch["inputs"]), batch).detach()
    assert scale[0] > 2 * scale[1]
    trained(learner, fleet)
    adam = lambda p: torch.optim.Adam(p, 1e-2)  # noqa: E731
    assert_row(fleet, 0, by_hand(problem, start, weights, 0, 3, adam, scale=scale))


def test_unequal_clients_train_as_they_would_alone():
    """Some have less than a batch: they use all they have, and nothing is padded."""
    deal = (3, 1, "iid", "8,2,1")
    together, fleet, weights = learner_of(deal=deal, batch_size=128)
    assert len(set(np.minimum(together.sizes, 128))) > 1
    start = fleet.clone()
    trained(together, fleet)
    for client in range(3):
        alone, one, _ = learner_of(
            deal=deal, batch_size=128, clients=(client,), preferences=weights[[client]]
        )
        for name in one:
            one[name][:] = start[name][client]
        trained(alone, one)
        assert_row(fleet, client, {name: one[name][0] for name in one})


def test_the_weights_of_a_brief_replace_preferences():
    learner, fleet, _ = learner_of()
    start = fleet.clone()
    phase = Phase(weights=lambda view: view.broadcast["weights"])
    broadcast = {"weights": np.array([[0.5, 0.5]] * 3)}
    trained(learner, fleet, phase=phase, broadcast=broadcast)
    equal = np.array([[0.5, 0.5]] * 3)
    adam = lambda p: torch.optim.Adam(p, 1e-2)  # noqa: E731
    assert_row(fleet, 0, by_hand(PEOPLE.partitioned(*DEAL), start, equal, 0, 3, adam))


def test_gradients_of_a_survey_are_the_first_step():
    learner, fleet, _ = learner_of(optimiser="sgd", learning_rate=0.1)
    rows, start = np.arange(3), fleet.clone()
    values, gradients = learner.survey(fleet, rows, ("gradients", "losses", "preferences"), 1, None)
    assert gradients is not None
    assert len(gradients) == 6
    assert values["losses"].shape == (3, 2)
    broadcast = {"weights": np.array([[0.2, 0.8]] * 3)}
    phase = Phase(weights=lambda view: view.broadcast["weights"], surveyed=True)
    trained(learner, fleet, steps=1, phase=phase, broadcast=broadcast)
    for client in range(3):
        for name in fleet:
            one, two = gradients[name][2 * client], gradients[name][2 * client + 1]
            wanted = start[name][client] - 0.1 * (0.2 * one + 0.8 * two)
            torch.testing.assert_close(fleet[name][client], wanted, rtol=1e-4, atol=1e-6)
    # each objective on a batch of its own, which is drawn for the survey
    problem = PEOPLE.partitioned(*DEAL)
    order = stream(1, "survey", 1, 0).permutation(problem.shares()[0].train)
    for k in range(2):
        model = start.clone().module(0, problem.model())
        index = torch.from_numpy(order[k * 64 : (k + 1) * 64])
        batch = {n: v[index] for n, v in problem.columns().items()} | {"weight": torch.ones(64)}
        problem.losses(model(batch["inputs"]), batch)[k].backward()
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(gradients[name][k], parameter.grad, rtol=1e-4, atol=1e-6)


def test_objectives_apart_are_trained_from_the_same_start():
    learner, fleet, _ = learner_of()
    start = fleet.clone()
    task = Task(1, [Phase()], start, np.full(3, 3))
    copies = learner.train_per_objective(fleet, np.arange(3), task)
    assert fleet.distance(start).max() == 0, "the models themselves stay"
    assert len(copies) == 6
    adam = lambda p: torch.optim.Adam(p, 1e-2)  # noqa: E731
    for k, weights in enumerate(np.eye(2)):
        wanted = by_hand(PEOPLE.partitioned(*DEAL), start, [weights] * 3, 1, 3, adam)
        assert_row(copies, 2 + k, wanted)
    assert learner.steps.tolist() == [3, 3, 3]


@pytest.mark.parametrize(
    ("direction", "value", "slope"),
    [
        ((0.5, 0.5), 1.7132616875, (1.4621171573, 0.5378828427)),
        ((0.9, 0.1), 2.2581823233, (0.2528284635, 7.7245438281)),
        ((0.1, 0.9), 7.0011381548, (9.9886249264, 0.0012638971)),
    ],
)
def test_smooth_tchebycheff(direction, value, slope):
    losses = torch.tensor([0.7, 0.2], dtype=torch.float64, requires_grad=True)
    found = smooth_tchebycheff(losses, torch.tensor(direction, dtype=torch.float64))
    (grad,) = torch.autograd.grad(found, losses)
    assert found.item() == pytest.approx(value, abs=1e-8)
    np.testing.assert_allclose(grad, slope, atol=1e-8)
    sharp = smooth_tchebycheff(losses.detach(), torch.tensor([0.5, 0.5]).double(), 10.0)
    assert sharp.item() == pytest.approx(1.4000045399, abs=1e-8)


def test_the_direction_of_an_importance():
    found = direction_of(torch.tensor([[0.3, 0.7], [1.0, 0.0]]), 0.01)
    torch.testing.assert_close(found, torch.tensor([[0.7, 0.3], [0.01 / 1.01, 1 / 1.01]]))


def test_smooth_tchebycheff_honours_importance():
    """More weight on accuracy, more accuracy: the direction is the inverse of the importance."""
    ends = []
    for weights in ([0.95, 0.05], [0.05, 0.95]):
        learner, fleet, _ = learner_of(
            deal=(1, 1, "iid", "equal"),
            preferences=[weights],
            clients=(0,),
            scalarisation="smooth-tchebycheff",
        )
        trained(learner, fleet, steps=150)
        ends.append(learner.survey(fleet, np.array([0]), ("losses",), 1, None)[0]["losses"][0])
    assert ends[0][0] < ends[1][0]
    assert ends[0][1] > ends[1][1]


# -- networks that cannot be mapped --------------------------------------------------------


class Choosy(nn.Module):
    """Which of two layers answers depends on the data."""

    def __init__(self, width):
        super().__init__()
        self.one, self.two = nn.Linear(width, 1), nn.Linear(width, 1)

    def forward(self, x):
        return self.one(x) if x.sum() > 0 else self.two(x)


def choosy(samples):
    return Choosy(samples.columns["inputs"].shape[1])


def dropping(samples):
    width = samples.columns["inputs"].shape[1]
    return nn.Sequential(nn.Linear(width, 8), nn.Dropout(0.5), nn.Linear(8, 1))


def normalising(samples):
    width = samples.columns["inputs"].shape[1]
    return nn.Sequential(nn.Linear(width, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))


@pytest.mark.parametrize("network", [choosy, dropping, normalising])
def test_a_network_that_cannot_be_mapped_is_run_client_by_client(network):
    problem = replace(PEOPLE, network=network)
    learner, fleet, weights = learner_of(problem)
    (remark,) = learner.remarks
    assert "one by one" in remark
    trained(learner, fleet)
    for client in range(3):  # what others do changes nothing, not even random numbers
        alone, one, _ = learner_of(problem, clients=(client,), preferences=weights[[client]])
        trained(alone, one)
        assert_row(fleet, client, {name: one[name][0] for name in one})
    again, same, _ = learner_of(problem)
    trained(again, same)
    assert all((same[name] == fleet[name]).all() for name in fleet)
    first, _ = learner.evaluate(fleet, np.arange(3), "validation", 1)
    second, _ = learner.evaluate(fleet, np.arange(3), "validation", 1)
    np.testing.assert_array_equal(first, second)


def test_statistics_of_batches_belong_to_the_client():
    learner, fleet, _ = learner_of(replace(PEOPLE, network=normalising))
    trained(learner, fleet)
    means = fleet["1.running_mean"]
    assert means.abs().max() > 0
    assert not torch.equal(means[0], means[1])


# -- any problem ---------------------------------------------------------------------------


def numbers() -> Samples:
    g = torch.Generator().manual_seed(1)
    inputs = torch.randn(90, 4, generator=g)
    columns = {"inputs": inputs, "sum": inputs.sum(1), "product": inputs.prod(1)}
    return Samples(columns, np.zeros(90, dtype=np.int64), {})


def square_errors(outputs, batch):
    weight = batch["weight"] / batch["weight"].sum()
    wanted = torch.stack([batch["sum"], batch["product"]], dim=-1)
    return (F.mse_loss(outputs, wanted, reduction="none") * weight[:, None]).sum(0)


REGRESSION = DataProblem(
    name="two-sums",
    title="A sum and a product",
    objectives=(Objective("sum", "", "-error"), Objective("product", "", "-error")),
    reference_point=(-20.0, -20.0),
    samples=numbers,
    network=lambda samples: nn.Linear(4, 2),
    losses=square_errors,
    scores=lambda outputs, batch: -square_errors(outputs, batch),
    constant=lambda batch: torch.stack([batch["sum"].mean(), batch["product"].mean()]),
)


def test_any_network_and_any_losses():
    learner, fleet, _ = learner_of(REGRESSION, learning_rate=0.05)
    before, _ = learner.evaluate(fleet, np.arange(3), "test", 1)
    trained(learner, fleet, steps=60)
    after, steps = learner.evaluate(fleet, np.arange(3), "test", 1)
    assert (after[:, 0] > before[:, 0]).all()
    assert steps.tolist() == [0, 0, 0], "looking at validation data costs no steps"


def test_judging_does_not_depend_on_padding():
    problem = PEOPLE.partitioned(3, 1, "iid", "8,2,1")
    learner, fleet, _ = learner_of(deal=(3, 1, "iid", "8,2,1"))
    trained(learner, fleet, steps=20)
    found, _ = learner.evaluate(fleet, np.arange(3), "test", 1)
    for client in range(3):
        rows = torch.from_numpy(problem.shares()[client].test)
        batch = {k: v[rows] for k, v in problem.columns().items()}
        model = fleet.module(client, problem.model())
        outputs = model(batch["inputs"]).detach()
        wanted = problem.scores(outputs, batch | {"weight": torch.ones(len(rows))})
        np.testing.assert_allclose(found[client], wanted, atol=1e-6)


def test_whether_to_compile_is_decided_once_and_written_down():
    short = tiny(problem="tiny-people")
    assert short.learner_settings["compile"] == "no"
    long = configure(
        {"problem": "adult-gender-dp", "clients": 10, "supervised": {"total_steps": 20_000}}
    )
    assert long.learner_settings["compile"] == "yes"
    assert 'compile = "yes"' in long.to_toml()
    asked = tiny(problem="tiny-people", supervised={"compile": "yes"})
    assert asked.learner_settings["compile"] == "yes"


def test_the_seed_deals_and_draws(tmp_path):
    one, other = (tiny(problem="tiny-people", seed=seed) for seed in (1, 2))
    shares = [c.get_problem().shares()[0].train for c in (one, other)]
    assert not np.array_equal(*shares)
    assert initial_fleet(one, 1).distance(initial_fleet(other, 1)).max() > 0
    assert find("adult-gender-dp").partition_spec is None


def test_views_show_what_was_received():
    learner, fleet, _ = learner_of()
    start = fleet.clone()
    seen = []

    def penalty(tensors, view: View):
        seen.append(view)
        return sum((tensors[k] - view.received[k]).square().sum() for k in tensors) * 1e6

    trained(learner, fleet, phase=Phase(penalty=penalty), steps=5)
    free, other, _ = learner_of()
    trained(free, other, steps=5)
    assert seen
    assert fleet.distance(start).max() < other.distance(start).max()


# -- how much a client works in a round ----------------------------------------------------

UNEVEN = (3, 1, "iid", "8,3,1")
ADAM = lambda p: torch.optim.Adam(p, 1e-2)  # noqa: E731


def passing_through(learner, fleet, phases, epochs, round=1):
    """All clients go so often through their data in a round of these phases."""
    rows = np.arange(len(fleet))
    assert learner.settings.local_epochs == epochs
    task = Task(round, phases, fleet.clone(), learner.steps[rows] + learner.round_steps)
    learner.train(fleet, rows, task)


def own_loss(weights):
    """A loss of one's own that is nothing but a plain weighting of the problem's."""
    given = torch.tensor(weights)

    def loss(parameters, batch, view):
        outputs = view.forward(parameters, batch["inputs"])
        return (given * view.losses(outputs, batch)).sum()

    return loss


@pytest.mark.parametrize("epochs", [1, 2, 5])
def test_epochs_are_steps_of_each_clients_own_number(epochs):
    learner, fleet, _ = learner_of(deal=UNEVEN, local_epochs=epochs)
    sizes = learner.sizes
    assert sizes.min() < 64 < sizes.max()
    wanted = [math.ceil(epochs * n / min(n, 64)) for n in sizes]
    assert learner.round_steps.tolist() == wanted
    passing_through(learner, fleet, [Phase()], epochs)
    assert learner.steps.tolist() == wanted
    plain, _, _ = learner_of(deal=UNEVEN)
    assert plain.round_steps.tolist() == [3, 3, 3], "without epochs, local_steps"


def test_clients_with_different_numbers_of_steps_train_like_plain_pytorch():
    learner, fleet, weights = learner_of(deal=UNEVEN, local_epochs=1)
    start, problem = fleet.clone(), PEOPLE.partitioned(*UNEVEN)
    passing_through(learner, fleet, [Phase()], 1)
    steps = learner.round_steps
    assert len(set(steps)) == 3
    for client in range(3):
        wanted = by_hand(problem, start, weights, client, int(steps[client]), ADAM)
        assert_row(fleet, client, wanted)


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_weight_decay_is_that_of_pytorch(optimiser, momentum):
    settings = {"optimiser": optimiser, "momentum": momentum, "weight_decay": 0.5}
    learner, fleet, weights = learner_of(**settings)
    start = fleet.clone()
    trained(learner, fleet)

    def make(parameters):
        if optimiser == "adam":
            return torch.optim.Adam(parameters, 1e-2, weight_decay=0.5)
        return torch.optim.SGD(parameters, 1e-2, momentum=momentum, weight_decay=0.5)

    assert_row(fleet, 1, by_hand(PEOPLE.partitioned(*DEAL), start, weights, 1, 3, make))
    free, other, _ = learner_of(**{**settings, "weight_decay": 0.0})
    trained(free, other)
    assert fleet.distance(other).min() > 1e-3


def test_compiled_steps_decay_as_well():
    """The function that is compiled; compiling it here would take seconds and show no more."""
    g = torch.Generator().manual_seed(1)
    found = [torch.randn(2, 3, generator=g)]
    wanted = [found[0][row].clone().requires_grad_() for row in range(2)]
    optimisers = [torch.optim.Adam([w], 1e-2, weight_decay=0.5) for w in wanted]
    first, second = [torch.zeros(2, 3)], [torch.zeros(2, 3)]
    for step in range(3):
        gradient = torch.randn(2, 3, generator=g)
        adam_step(found, [gradient], first, second, torch.tensor(float(step)), 1e-2, 0.5)
        for row, optimiser in enumerate(optimisers):
            wanted[row].grad = gradient[row].clone()
            optimiser.step()
    torch.testing.assert_close(found[0], torch.stack(wanted).detach())


# -- phases --------------------------------------------------------------------------------


def counting(counts, number, train=("*",), share=1.0):
    """A phase that notes how often its loss is asked for, which is once a step of a crew."""

    def loss(parameters, batch, view):
        counts[number] += 1
        return view.losses(view.forward(parameters, batch["inputs"]), batch)[0]

    return Phase(loss=loss, train=train, share=share)


@pytest.mark.parametrize(
    ("shares", "wanted"),
    [
        ((0.5, 0.5), [5, 5]),
        ((0.3, 0.7), [3, 7]),
        ((0.25, 0.5, 0.25), [2, 6, 2]),
        ((1.0, 1.0), [10, 10]),
        ((1.0, 0.2), [10, 2]),
    ],
)
def test_phases_have_their_shares_of_the_steps_of_a_round(shares, wanted):
    """They may come to more than all of them; a client's steps are counted once."""
    learner, fleet, _ = learner_of()
    counts = [0] * len(shares)
    phases = [counting(counts, i, share=share) for i, share in enumerate(shares)]
    learner.train(fleet, np.arange(3), Task(1, phases, fleet.clone(), np.full(3, 10)))
    assert counts == wanted
    assert learner.steps.tolist() == [10, 10, 10]


def test_phases_see_batches_and_an_optimiser_of_their_own():
    """Two phases of two steps are not one of four."""
    ends = []
    for phases in ([Phase(share=0.5), Phase(share=0.5)], [Phase()]):
        learner, fleet, _ = learner_of()
        learner.train(fleet, np.arange(3), Task(1, phases, fleet.clone(), np.full(3, 4)))
        ends.append(fleet)
    assert ends[0].distance(ends[1]).min() > 1e-4


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_what_a_phase_does_not_train_stands_still(optimiser):
    """Bit for bit, also under weight decay and momentum."""
    settings = {"optimiser": optimiser, "weight_decay": 0.1, "momentum": 0.5}
    for pattern, moving in (("0.*", {"0.weight", "0.bias"}), ("*.bias", {"0.bias", "2.bias"})):
        learner, fleet, _ = learner_of(**settings)
        start = fleet.clone()
        trained(learner, fleet, phase=Phase(train=(pattern,)))
        moved = {name for name in fleet if not torch.equal(fleet[name], start[name])}
        assert moved == moving


def test_a_loss_of_ones_own_replaces_the_scalarisation():
    learner, fleet, _ = learner_of()
    start, given = fleet.clone(), [0.2, 0.8]
    trained(learner, fleet, phase=Phase(loss=own_loss(given)))
    for client in range(3):
        wanted = by_hand(PEOPLE.partitioned(*DEAL), start, np.array([given] * 3), client, 3, ADAM)
        assert_row(fleet, client, wanted)


def test_random_numbers_are_the_clients_own_whatever_stack_it_is_in():
    """Also where others in the stack take more steps, and so draw more."""

    def draw(generator, steps, samples):
        return {"noise": generator.normal(size=(steps, 4))}

    def loss(parameters, batch, view):
        outputs = view.forward(parameters, batch["inputs"])
        push = sum(p.sum() for p in parameters.values())
        return view.losses(outputs, batch)[0] + view.drawn["noise"].sum() * push

    phases = [Phase(loss=loss, draw=draw)]
    together, fleet, weights = learner_of(deal=UNEVEN, local_epochs=2)
    start = fleet.clone()
    passing_through(together, fleet, phases, 2)
    for client in range(3):
        alone, one, _ = learner_of(
            deal=UNEVEN, local_epochs=2, clients=(client,), preferences=weights[[client]]
        )
        passing_through(alone, one, phases, 2)
        assert_row(fleet, client, {name: one[name][0] for name in one})
    again, same, _ = learner_of(deal=UNEVEN, local_epochs=2)
    passing_through(again, same, phases, 2, round=2)
    assert fleet.distance(same).min() > 1e-3, "every round draws anew"
    moves = [torch.cat([(fleet[n] - start[n])[c].flatten() for n in fleet]) for c in (0, 1)]
    assert not torch.allclose(*moves, atol=1e-3), "every client draws for itself"


class Counted(nn.Module):
    """A network, and two numbers that its client keeps beside it."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.seen = nn.Parameter(torch.zeros(()), requires_grad=False)
        self.sum = nn.Parameter(torch.zeros(()), requires_grad=False)
        self.passes = nn.Parameter(torch.zeros(()), requires_grad=False)
        self.calls = nn.Parameter(torch.zeros(()), requires_grad=False)

    def forward(self, inputs):
        return self.model(inputs)


def counted_learner(epochs, problem=PEOPLE, clients=(0, 1, 2), **settings):
    problem = problem.partitioned(*UNEVEN)
    with torch_seeded(1, "model"):
        module = Counted(problem.model())
    fleet = Fleet.of(module, len(clients))
    values = {**problem.defaults, "normalise": False, "compile": "no", "local_epochs": epochs}
    weights = np.array([[0.3, 0.7], [0.5, 0.5], [0.9, 0.1]])[list(clients)]
    learner = Supervised(
        problem,
        SupervisedSettings(**{**values, **settings}),
        clients,
        weights,
        1,
        fleet,
        ClientModel(module),
    )
    return learner, fleet, problem


def watching(parameters, everything, view):
    """A hook that notes what it is shown."""
    weight = everything["weight"]
    return {
        "seen": weight.sum(),
        "sum": (weight * everything["inputs"][:, 0]).sum(),
        "passes": view.passes + 0.0,
        "calls": parameters["calls"] + 1,
    }


def test_before_the_first_step_a_client_looks_at_all_its_training_samples():
    learner, fleet, problem = counted_learner(1)
    phase = Phase(before=watching, loss=own_loss([1.0, 0.0]))
    passing_through(learner, fleet, [phase], 1)
    assert fleet["calls"].tolist() == [1, 1, 1]
    assert fleet["passes"].tolist() == [0, 0, 0]
    for client, share in enumerate(problem.shares()):
        assert fleet["seen"][client] == len(share.train)
        column = problem.columns()["inputs"][torch.from_numpy(share.train), 0]
        torch.testing.assert_close(fleet["sum"][client], column.sum(), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("epochs", "batch"), [(1, 64), (3, 64), (10, 64), (10, 58), (10, 150)])
def test_after_every_pass_a_client_looks_at_all_its_training_samples(epochs, batch):
    """As often as it goes through its data, whatever the others in the stack do.

    Batches go on from one pass to the next: 175 samples in batches of 58 are ten times through
    after 31 steps, not after 40.
    """
    learner, fleet, problem = counted_learner(epochs, batch_size=batch)
    phase = Phase(after_pass=watching, loss=own_loss([1.0, 0.0]))
    passing_through(learner, fleet, [phase], epochs)
    assert fleet["seen"].tolist() == [len(share.train) for share in problem.shares()]
    assert fleet["calls"].tolist() == [epochs] * 3
    assert fleet["passes"].tolist() == [epochs] * 3


def test_what_a_hook_sets_is_what_the_loss_sees():
    learner, fleet, _ = counted_learner(1)
    start = fleet.clone()

    def loss(parameters, batch, view):
        entropy = view.losses(view.forward(parameters, batch["inputs"]), batch)[0]
        return torch.where(parameters["seen"] > 0, 0.0, 1.0) * entropy

    passing_through(learner, fleet, [Phase(before=watching, loss=loss)], 1)
    assert torch.equal(fleet["model.0.weight"], start["model.0.weight"])


def test_passes_side_by_side_are_passes_alone():
    """A hook that changes the loss from pass to pass, in a stack and for each client alone."""

    def loss(parameters, batch, view):
        entropy = view.losses(view.forward(parameters, batch["inputs"]), batch)
        return (1 + parameters["passes"]) * entropy[0] + entropy[1]

    phases = [Phase(before=watching, loss=loss, after_pass=watching)]
    together, fleet, _ = counted_learner(3, optimiser="sgd", momentum=0.5)
    passing_through(together, fleet, phases, 3)
    for client in range(3):
        alone, one, _ = counted_learner(3, clients=(client,), optimiser="sgd", momentum=0.5)
        passing_through(alone, one, phases, 3)
        assert_row(fleet, client, {name: one[name][0] for name in one})


@pytest.mark.parametrize("network", [dropping, normalising])
def test_losses_of_ones_own_work_where_networks_cannot_be_mapped(network):
    """Clients one by one, each with its own random numbers and statistics."""
    problem = replace(PEOPLE, network=network)

    def loss(parameters, batch, view):
        outputs = view.forward(parameters, batch["inputs"])
        return view.losses(outputs, batch)[0] + view.drawn["noise"].sum() * outputs.mean()

    def draw(generator, steps, samples):
        return {"noise": generator.normal(size=(steps, 2))}

    phase = Phase(loss=loss, draw=draw)
    together, fleet, weights = learner_of(problem, deal=UNEVEN, local_epochs=2)
    start = fleet.clone()
    passing_through(together, fleet, [phase], 2)
    assert fleet.finite().all()
    assert fleet.distance(start).min() > 1e-3
    for client in range(3):
        alone, one, _ = learner_of(
            problem,
            deal=UNEVEN,
            local_epochs=2,
            clients=(client,),
            preferences=weights[[client]],
        )
        passing_through(alone, one, [phase], 2)
        assert_row(fleet, client, {name: one[name][0] for name in one})


@pytest.mark.parametrize("network", [dropping, normalising])
def test_hooks_that_look_at_all_samples_do_not_see_padding(network):
    """What a network says of a sample must not depend on who else is in the stack.

    While it trains, a network that normalises its batch, or draws for it, sees the batch as a
    whole, so the samples that only fill up must not be there.
    """

    def noting(parameters, everything, view):
        losses = view.losses(view.forward(parameters, everything["inputs"]), everything)
        return {"sum": losses[0]}

    phases = [Phase(before=noting, loss=own_loss([1.0, 0.0]), after_pass=noting)]
    problem = replace(PEOPLE, network=network)
    together, fleet, _ = counted_learner(1, problem)
    passing_through(together, fleet, phases, 1)
    for client in range(3):
        alone, one, _ = counted_learner(1, problem, clients=(client,))
        passing_through(alone, one, phases, 1)
        assert_row(fleet, client, {name: one[name][0] for name in one})


@pytest.mark.parametrize("network", [dropping, normalising])
def test_a_survey_asks_the_network_as_it_predicts(network):
    """Without drawing anything, and without moving the statistics that it keeps."""
    problem = replace(PEOPLE, network=network)
    learner, fleet, _ = learner_of(problem, deal=UNEVEN)
    start = fleet.clone()

    def answer(parameters, everything, view):
        yes = (view.forward(parameters, everything["inputs"])[:, 0] > 0).float()
        return {"yes": (yes * everything["weight"]).sum()}

    said, _ = learner.survey(fleet, np.arange(3), ("yes",), 1, answer)
    for name in fleet:
        assert torch.equal(fleet[name], start[name])
    partitioned = problem.partitioned(*UNEVEN)
    for client, share in enumerate(partitioned.shares()):
        inputs = partitioned.columns()["inputs"][torch.from_numpy(share.train)]
        model = start.module(client, partitioned.model()).eval()
        assert said["yes"][client] == (model(inputs)[:, 0] > 0).sum()
