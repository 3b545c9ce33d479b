"""The steps of a phase: losses, penalties, weights, hooks and random numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from comity.core.phases import Phase, View
from comity.core.rng import stream
from comity.learners import Task
from tests.learners.supervised.helpers import (
    ADAM,
    DEAL,
    UNEVEN,
    assert_row,
    by_hand,
    counted_learner,
    learner_of,
    own_loss,
    passing_through,
    trained,
    watching,
)
from tests.tiny import PEOPLE, fleet_of


def test_stochastic_gradient_descent_with_momentum():
    learner, fleet, weights = learner_of(optimiser="sgd", momentum=0.9, learning_rate=0.1)
    start = fleet.clone()
    trained(learner, fleet)
    sgd = lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)  # noqa: E731
    assert_row(fleet, 1, by_hand(PEOPLE.partitioned(*DEAL), start, weights, 1, 3, sgd))


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


def test_the_penalty_is_inside_the_gradient():
    learner, fleet, weights = learner_of()
    start = fleet.clone()
    phase = Phase(penalty=lambda t, view: sum((t[k] - 2 * view.received[k]).sum() for k in t))
    trained(learner, fleet, phase=phase)
    adam = lambda p: torch.optim.Adam(p, 1e-2)  # noqa: E731

    def penalty(tensors, received):
        return sum((t - 2 * r).sum() for t, r in zip(tensors, received, strict=True))

    expected = by_hand(PEOPLE.partitioned(*DEAL), start, weights, 2, 3, adam, penalty)
    assert_row(fleet, 2, expected)


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


def test_weights_from_a_broadcast_replace_preferences():
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
    trained(learner, fleet, steps=1, phase=phase, broadcast=broadcast, gradients=gradients)
    for client in range(3):
        for name in fleet:
            one, two = gradients[name][2 * client], gradients[name][2 * client + 1]
            expected = start[name][client] - 0.1 * (0.2 * one + 0.8 * two)
            torch.testing.assert_close(fleet[name][client], expected, rtol=1e-4, atol=1e-6)
    # each objective on a batch of its own, which is drawn for the survey
    problem = PEOPLE.partitioned(*DEAL)
    order = stream(1, "survey", 1, 0).permutation(problem.client_rows()[0].train)
    for k in range(2):
        model = start.clone().module(0, problem.model())
        index = torch.from_numpy(order[k * 64 : (k + 1) * 64])
        batch = {n: v[index] for n, v in problem.columns().items()} | {"weight": torch.ones(64)}
        problem.losses(model(batch["inputs"]), batch)[k].backward()
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(gradients[name][k], parameter.grad, rtol=1e-4, atol=1e-6)


def test_smooth_tchebycheff_honours_importance():
    """More weight on accuracy, more accuracy: the direction is the inverse of the importance."""
    ends = []
    for weights in ([0.95, 0.05], [0.05, 0.95]):
        learner, fleet, _ = learner_of(
            deal=(1, 1, "stratified", "equal"),
            preferences=[weights],
            clients=(0,),
            scalarisation="smooth-tchebycheff",
        )
        trained(learner, fleet, steps=150)
        ends.append(learner.survey(fleet, np.array([0]), ("losses",), 1, None)[0]["losses"][0])
    assert ends[0][0] < ends[1][0]
    assert ends[0][1] > ends[1][1]


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


def test_random_numbers_may_depend_on_what_a_client_keeps():
    """As it is when the phase begins, after its update before the first step."""
    seen = []

    def before(parameters, everything, view):
        return {"2.bias": parameters["2.bias"] + 1.0}

    def draw(generator, steps, samples, parameters):
        seen.append(parameters["2.bias"].clone())
        return {"shift": np.full((steps, 1), float(parameters["2.bias"][0]))}

    def loss(parameters, batch, view):
        return (view.drawn["shift"] * parameters["2.bias"]).sum()

    learner, fleet, _ = learner_of(optimiser="sgd", learning_rate=0.1)
    start = fleet.clone()
    start["2.bias"][1] += 5.0
    fleet["2.bias"][1] += 5.0
    trained(learner, fleet, steps=1, phase=Phase(loss=loss, draw=draw, before=before))
    for client in range(3):
        now = start["2.bias"][client] + 1.0
        torch.testing.assert_close(seen[client], now)
        torch.testing.assert_close(fleet["2.bias"][client], now - 0.1 * now)


def test_a_phase_takes_place_in_its_rounds_only():
    """Others then take the steps of their own shares, and no more."""
    phases = [
        Phase(train=("0.*",), share=0.5, when=lambda round, rounds: round < rounds),
        Phase(train=("2.*",), share=0.5),
    ]
    learner, fleet, _, _ = fleet_of("fedavg", rounds=2)
    for round, moving in ((1, {"0", "2"}), (2, {"2"}), (3, {"2"})):
        start = fleet.clone()
        learner.train(fleet, np.arange(3), Task(round, phases, start, np.full(3, 8 * round)))
        moved = {n.partition(".")[0] for n in fleet if not torch.equal(fleet[n], start[n])}
        assert moved == moving
        assert learner.optimiser_steps.tolist() == [4 * len(moving)] * 3


def test_a_loss_of_ones_own_replaces_the_scalarisation():
    learner, fleet, _ = learner_of()
    start, given = fleet.clone(), [0.2, 0.8]
    trained(learner, fleet, phase=Phase(loss=own_loss(given)))
    for client in range(3):
        expected = by_hand(PEOPLE.partitioned(*DEAL), start, np.array([given] * 3), client, 3, ADAM)
        assert_row(fleet, client, expected)


def test_random_numbers_are_the_clients_own_whatever_stack_it_is_in():
    """Also where others in the stack take more steps, and so draw more."""

    def draw(generator, steps, samples, parameters):
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


def test_before_the_first_step_a_client_looks_at_all_its_training_samples():
    learner, fleet, problem = counted_learner(1)
    phase = Phase(before=watching, loss=own_loss([1.0, 0.0]))
    passing_through(learner, fleet, [phase], 1)
    assert fleet["calls"].tolist() == [1, 1, 1]
    assert fleet["passes"].tolist() == [0, 0, 0]
    for client, share in enumerate(problem.client_rows()):
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
    assert fleet["seen"].tolist() == [len(share.train) for share in problem.client_rows()]
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
