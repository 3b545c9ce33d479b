"""Supervised learners of three clients, and the same training written by hand."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from comity.core.fleet import Fleet
from comity.core.phases import ClientModel, Phase
from comity.core.rng import stream, torch_seeded
from comity.learners import LearnerContext, Task
from comity.learners.supervised.learner import Supervised
from comity.learners.supervised.settings import SupervisedSettings
from tests.tiny import PEOPLE

DEAL = (3, 1, "stratified", "equal")
UNEVEN = (3, 1, "stratified", "8,3,1")
ADAM = lambda p: torch.optim.Adam(p, 1e-2)  # noqa: E731


def learner_of(problem=PEOPLE, deal=DEAL, preferences=None, clients=None, **settings):
    """Return a learner of some clients, their fleet and their preferences."""
    problem = problem.partitioned(*deal)
    ids = tuple(range(deal[0])) if clients is None else clients
    weights = np.array([[0.3, 0.7], [0.5, 0.5], [0.9, 0.1]])[list(ids)]
    weights = weights if preferences is None else np.array(preferences)
    with torch_seeded(1, "model"):
        fleet = Fleet.of(problem.model(), len(ids))
    values = {**problem.defaults, "normalise": "none", "compile": "no", **settings}
    settings, model = SupervisedSettings(**values), ClientModel(problem.model())
    learner = Supervised(LearnerContext(problem, settings, ids, weights, 1, fleet, model))
    return learner, fleet, weights


def trained(learner, fleet, steps=3, phase=None, round=1, rows=None, **task):
    """Train clients in place for some steps of one phase, and return their fleet."""
    rows = np.arange(len(fleet)) if rows is None else rows
    goal = learner.steps[rows] + steps
    learner.train(fleet, rows, Task(round, [phase or Phase()], fleet.clone(), goal, **task))
    return fleet


def passing_through(learner, fleet, phases, epochs, round=1):
    """Train all clients for a round of some phases: ``epochs`` passes through their data."""
    rows = np.arange(len(fleet))
    assert learner.settings.local_epochs == epochs
    task = Task(round, phases, fleet.clone(), learner.steps[rows] + learner.round_steps)
    learner.train(fleet, rows, task)


def by_hand(problem, fleet, weights, client, steps, optimiser, penalty=None, scale=None):
    """Return one client's tensors after the same training, as a beginner would write it."""
    model = fleet.clone().module(client, problem.model())
    rows = problem.client_rows()[client].train
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


def assert_row(fleet, row, expected, atol=1e-5):
    """One row of a fleet holds given tensors, to tolerance."""
    for name, tensor in expected.items():
        torch.testing.assert_close(fleet[name][row], tensor, rtol=1e-4, atol=atol)


def own_loss(weights):
    """Return a loss for a phase: a plain weighting of the problem's losses."""
    fixed = torch.tensor(weights)

    def loss(parameters, batch, view):
        outputs = view.forward(parameters, batch["inputs"])
        return (fixed * view.losses(outputs, batch)).sum()

    return loss


def dropping(samples):
    """A network that draws random numbers while it trains."""
    width = samples.columns["inputs"].shape[1]
    return nn.Sequential(nn.Linear(width, 8), nn.Dropout(0.5), nn.Linear(8, 1))


def normalising(samples):
    """A network that keeps statistics of its batches."""
    width = samples.columns["inputs"].shape[1]
    return nn.Sequential(nn.Linear(width, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))


class Counted(nn.Module):
    """A network, and four numbers that its client keeps beside it."""

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
    """Return a learner of `Counted` networks, its fleet and the problem."""
    problem = problem.partitioned(*UNEVEN)
    with torch_seeded(1, "model"):
        module = Counted(problem.model())
    fleet = Fleet.of(module, len(clients))
    values = {**problem.defaults, "normalise": "none", "compile": "no", "local_epochs": epochs}
    weights = np.array([[0.3, 0.7], [0.5, 0.5], [0.9, 0.1]])[list(clients)]
    settings, model = SupervisedSettings(**{**values, **settings}), ClientModel(module)
    learner = Supervised(LearnerContext(problem, settings, clients, weights, 1, fleet, model))
    return learner, fleet, problem


def watching(parameters, everything, view):
    """A hook that stores what it is shown."""
    weight = everything["weight"]
    return {
        "seen": weight.sum(),
        "sum": (weight * everything["inputs"][:, 0]).sum(),
        "passes": view.passes + 0.0,
        "calls": parameters["calls"] + 1,
    }
