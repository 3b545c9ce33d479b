"""Contenders without a library: a plain loop, and one in the manner of PFLlib; one process each."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from benchmarks.peers.contender import Clock
from benchmarks.peers.tasks import Federation, Loss, new_optimiser


def plain(federation: Federation, rounds: int, workers: int, clock: Clock) -> dict[str, Tensor]:
    """Train client after client with one model, batches by index; then take the mean."""
    federation.load_all()
    model, clients = federation.network(), federation.task.clients
    common = deepcopy(model.state_dict())
    for round in range(1, rounds + 1):
        states = []
        for client in range(clients):
            model.load_state_dict(common)
            federation.train(model, round, client)
            states.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        common = {name: torch.stack([s[name] for s in states]).mean(dim=0) for name in common}
        clock.round_done(common)
    return common


def pfllib_like(
    federation: Federation, rounds: int, workers: int, clock: Clock
) -> dict[str, Tensor]:
    """Do per client and round what PFLlib's clients and server do, in a loop of our own.

    Every client keeps a deep copy of the model. In each round it copies the global weights, reads
    its file, makes pairs of single samples and a `DataLoader` of them, and goes through it; the
    server makes a deep copy of the first client's model and adds up all models in it. Other than
    in PFLlib, the loader is told the order, and the optimiser is a new one in every round.
    """
    task = federation.task
    shared = federation.network()
    models = [deepcopy(shared) for _ in range(task.clients)]
    loss = Loss(task.kind)
    for round in range(1, rounds + 1):
        for client, model in enumerate(models):
            for kept, given in zip(model.parameters(), shared.parameters(), strict=True):
                kept.data = given.data.clone()
            samples = list(zip(*federation.read_client(client), strict=True))
            order = federation.batches(round, client).tolist()
            optimiser = new_optimiser(task, model)
            model.train()
            for inputs, labels in DataLoader(samples, batch_sampler=order):
                optimiser.zero_grad()
                loss(model(inputs), labels).backward()
                optimiser.step()
        shared = deepcopy(models[0])
        for sums in shared.parameters():
            sums.data.zero_()
        for model in models:
            for sums, trained in zip(shared.parameters(), model.parameters(), strict=True):
                sums.data += trained.data.clone() * (1 / task.clients)
        clock.round_done(shared.state_dict())
    return shared.state_dict()
