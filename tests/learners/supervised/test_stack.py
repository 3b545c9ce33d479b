"""Networks that cannot be mapped, and what they see of their samples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from comity.core.phases import Phase
from comity.errors import UserError
from tests.learners.supervised.helpers import (
    UNEVEN,
    assert_row,
    counted_learner,
    dropping,
    learner_of,
    normalising,
    own_loss,
    passing_through,
    trained,
)
from tests.tiny import PEOPLE


class Choosy(nn.Module):
    """A network of two layers, of which the data choose one."""

    def __init__(self, width):
        super().__init__()
        self.one, self.two = nn.Linear(width, 1), nn.Linear(width, 1)

    def forward(self, x):
        return self.one(x) if x.sum() > 0 else self.two(x)


def choosy(samples):
    return Choosy(samples.columns["inputs"].shape[1])


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


def test_batches_of_one_sample_cannot_be_normalised():
    problem = replace(PEOPLE, network=normalising)
    with pytest.raises(UserError, match="client 0: its batches have one sample"):
        learner_of(problem, batch_size=1)
    learner_of(batch_size=1)


def test_judging_does_not_depend_on_padding():
    problem = PEOPLE.partitioned(3, 1, "stratified", "8,2,1")
    learner, fleet, _ = learner_of(deal=(3, 1, "stratified", "8,2,1"))
    trained(learner, fleet, steps=20)
    found, _ = learner.evaluate(fleet, np.arange(3), "test", 1)
    for client in range(3):
        rows = torch.from_numpy(problem.client_rows()[client].test)
        batch = {k: v[rows] for k, v in problem.columns().items()}
        model = fleet.module(client, problem.model())
        outputs = model(batch["inputs"]).detach()
        expected = problem.scores(outputs, batch | {"weight": torch.ones(len(rows))})
        np.testing.assert_allclose(found[client], expected, atol=1e-6)


@pytest.mark.parametrize("network", [dropping, normalising])
def test_losses_of_ones_own_work_where_networks_cannot_be_mapped(network):
    """Clients one by one, each with its own random numbers and statistics."""
    problem = replace(PEOPLE, network=network)

    def loss(parameters, batch, view):
        outputs = view.forward(parameters, batch["inputs"])
        return view.losses(outputs, batch)[0] + view.drawn["noise"].sum() * outputs.mean()

    def draw(generator, steps, samples, parameters):
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
    """The output for a sample must not depend on which other clients are in the stack.

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

    statistics, _ = learner.survey(fleet, np.arange(3), ("yes",), 1, answer)
    for name in fleet:
        assert torch.equal(fleet[name], start[name])
    partitioned = problem.partitioned(*UNEVEN)
    for client, share in enumerate(partitioned.client_rows()):
        inputs = partitioned.columns()["inputs"][torch.from_numpy(share.train)]
        model = start.module(client, partitioned.model()).eval()
        assert statistics["yes"][client] == (model(inputs)[:, 0] > 0).sum()
