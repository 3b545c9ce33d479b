"""Whole rounds of supervised learning against plain PyTorch, client by client."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from comity.core.phases import Phase
from comity.federation.initial_model import initial_fleet
from comity.learners import Task
from comity.problems import DataProblem, Objective, Samples, find
from tests.learners.supervised.helpers import (
    ADAM,
    DEAL,
    UNEVEN,
    assert_row,
    by_hand,
    counted_learner,
    learner_of,
    passing_through,
    trained,
    watching,
)
from tests.tiny import PEOPLE, batches_of, tiny


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


def test_unequal_clients_train_as_they_would_alone():
    """Some have less than a batch: they use all they have, and nothing is padded."""
    deal = (3, 1, "stratified", "8,2,1")
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


def test_clients_with_different_numbers_of_steps_train_like_plain_pytorch():
    learner, fleet, weights = learner_of(deal=UNEVEN, local_epochs=1)
    start, problem = fleet.clone(), PEOPLE.partitioned(*UNEVEN)
    passing_through(learner, fleet, [Phase()], 1)
    steps = learner.round_steps
    assert len(set(steps)) == 3
    for client in range(3):
        expected = by_hand(problem, start, weights, client, int(steps[client]), ADAM)
        assert_row(fleet, client, expected)


@pytest.mark.parametrize("epochs", [1, 2, 5])
def test_epochs_are_steps_of_each_clients_own_number(epochs):
    learner, fleet, _ = learner_of(deal=UNEVEN, local_epochs=epochs)
    sizes = learner.sizes
    assert sizes.min() < 64 < sizes.max()
    expected = [math.ceil(epochs * n / min(n, 64)) for n in sizes]
    assert learner.round_steps.tolist() == expected
    passing_through(learner, fleet, [Phase()], epochs)
    assert learner.steps.tolist() == expected
    plain, _, _ = learner_of(deal=UNEVEN)
    assert plain.round_steps.tolist() == [3, 3, 3], "without epochs, local_steps"


def test_losses_are_divided_by_what_they_are_at_the_start():
    learner, fleet, weights = learner_of(normalise="initial")
    problem, start = PEOPLE.partitioned(*DEAL), fleet.clone()
    rows = torch.from_numpy(problem.client_rows()[0].train)
    model = fleet.module(0, problem.model())
    batch = {k: v[rows] for k, v in problem.columns().items()} | {"weight": torch.ones(len(rows))}
    scale = problem.losses(model(batch["inputs"]), batch).detach()
    assert scale[0] > 2 * scale[1]
    trained(learner, fleet)
    adam = lambda p: torch.optim.Adam(p, 1e-2)  # noqa: E731
    assert_row(fleet, 0, by_hand(problem, start, weights, 0, 3, adam, scale=scale))


def test_each_objective_is_trained_alone_from_the_same_start():
    learner, fleet, _ = learner_of()
    start = fleet.clone()
    task = Task(1, [Phase()], start, np.full(3, 3))
    copies = learner.train_per_objective(fleet, np.arange(3), task)
    assert fleet.distance(start).max() == 0, "the models themselves stay"
    assert len(copies) == 6
    adam = lambda p: torch.optim.Adam(p, 1e-2)  # noqa: E731
    for k, weights in enumerate(np.eye(2)):
        expected = by_hand(PEOPLE.partitioned(*DEAL), start, [weights] * 3, 1, 3, adam)
        assert_row(copies, 2 + k, expected)
    assert learner.steps.tolist() == [3, 3, 3]


def counting(counts, number, train=("*",), share=1.0):
    """Return a phase that counts the calls of its loss: one per step of a cohort."""

    def loss(parameters, batch, view):
        counts[number] += 1
        return view.losses(view.forward(parameters, batch["inputs"]), batch)[0]

    return Phase(loss=loss, train=train, share=share)


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ((0.5, 0.5), [5, 5]),
        ((0.3, 0.7), [3, 7]),
        ((0.25, 0.5, 0.25), [2, 6, 2]),
        ((1.0, 1.0), [10, 10]),
        ((1.0, 0.2), [10, 2]),
    ],
)
def test_phases_have_their_shares_of_the_steps_of_a_round(shares, expected):
    """They may come to more than all of them; a client's steps are counted once."""
    learner, fleet, _ = learner_of()
    counts = [0] * len(shares)
    phases = [counting(counts, i, share=share) for i, share in enumerate(shares)]
    learner.train(fleet, np.arange(3), Task(1, phases, fleet.clone(), np.full(3, 10)))
    assert counts == expected
    assert learner.steps.tolist() == [10, 10, 10]


def test_a_batch_is_used_for_several_steps_in_a_row():
    """Two batches, three steps of Adam on each, are what PyTorch makes of them."""
    learner, fleet, weights = learner_of()
    start = fleet.clone()
    trained(learner, fleet, steps=2, phase=Phase(repeat=3))
    assert learner.steps.tolist() == [2, 2, 2], "a round is as long as without it"
    assert learner.optimiser_steps.tolist() == [6, 6, 6]
    problem = PEOPLE.partitioned(*DEAL)
    for client in range(3):
        model = start.clone().module(client, problem.model())
        descent, aim = torch.optim.Adam(model.parameters(), 1e-2), torch.tensor(weights[client])
        for batch in batches_of(problem, client, 2, 64):
            for _ in range(3):
                descent.zero_grad()
                (aim.float() * problem.losses(model(batch["inputs"]), batch)).sum().backward()
                descent.step()
        assert_row(fleet, client, dict(model.named_parameters()))


def test_passes_are_counted_in_batches_that_are_used_several_times():
    learner, fleet, _ = counted_learner(epochs=2)
    passing_through(learner, fleet, [Phase(after_pass=watching, repeat=3, train=("model.*",))], 2)
    assert fleet["calls"].tolist() == fleet["passes"].tolist() == [2, 2, 2]
    np.testing.assert_array_equal(learner.optimiser_steps, 3 * learner.round_steps)


def test_phases_see_batches_and_an_optimiser_of_their_own():
    """Two phases of two steps are not one of four."""
    ends = []
    for phases in ([Phase(share=0.5), Phase(share=0.5)], [Phase()]):
        learner, fleet, _ = learner_of()
        learner.train(fleet, np.arange(3), Task(1, phases, fleet.clone(), np.full(3, 4)))
        ends.append(fleet)
    assert ends[0].distance(ends[1]).min() > 1e-4


def numbers() -> Samples:
    g = torch.Generator().manual_seed(1)
    inputs = torch.randn(90, 4, generator=g)
    columns = {"inputs": inputs, "sum": inputs.sum(1), "product": inputs.prod(1)}
    return Samples(columns, np.zeros(90, dtype=np.int64), {})


def square_errors(outputs, batch):
    weight = batch["weight"] / batch["weight"].sum()
    expected = torch.stack([batch["sum"], batch["product"]], dim=-1)
    return (F.mse_loss(outputs, expected, reduction="none") * weight[:, None]).sum(0)


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


def test_the_seed_deals_and_draws(tmp_path):
    one, other = (tiny(problem="tiny-people", seed=seed) for seed in (1, 2))
    shares = [c.get_problem().client_rows()[0].train for c in (one, other)]
    assert not np.array_equal(*shares)
    assert initial_fleet(one, 1).distance(initial_fleet(other, 1)).max() > 0
    assert find("adult-gender-dp").partition_spec is None
