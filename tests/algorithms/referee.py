"""Three clients, three rounds, one of them absent in the second: here, and by plain PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from comity.configuration import Configuration
from comity.core.fleet import Fleet
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.initial_model import initial_fleet
from comity.federation.loop import RoundLoop
from comity.federation.server import Server
from comity.problems import DataProblem
from tests.tiny import draw_batches, tiny

ROUNDS = {1: (0, 1, 2), 2: (0, 2), 3: (0, 1, 2)}
"""Clients that take part, by round."""
STEPS, BATCH, RATE = 3, 16, 0.1


def federated(algorithm: str, problem: str = "tiny-answers", **settings: Any) -> Configuration:
    """The configuration of a federation of three clients with unequal data."""
    return tiny(
        algorithm=algorithm,
        problem=problem,
        clients=3,
        chunk=3,
        rounds=3,
        seed=1,
        sizes="3,2,1",
        keep="last",
        fine_tune="none",
        absences=[(2, 1, "round")],
        supervised={"optimiser": "sgd", "learning_rate": RATE, "local_steps": STEPS},
        **{algorithm: settings},
    )


def ends(configuration: Configuration) -> list[Fleet]:
    """All that clients hold after each round, and after the last delivery."""
    held = []
    with EmbeddedEngine(configuration) as engine:
        loop = RoundLoop(engine, Server(configuration))
        for (record,) in loop.rounds():
            assert record.clients == ROUNDS[record.round]
            held.append(engine.models(kept=False).clone())
        loop.finish()
        return [*held, engine.models(kept=False).clone()]


class Referee:
    """The same clients with plain modules, optimisers and loops.

    Args:
        configuration: The federation.
        names: Prefixes of the network's tensors in what clients hold, by their prefixes there.
    """

    def __init__(self, configuration: Configuration, names: Mapping[str, str]) -> None:
        problem = configuration.get_problem()
        assert isinstance(problem, DataProblem)
        self.problem = problem
        self.rows = [share.train for share in problem.client_rows()]
        self.sizes = [float(len(rows)) for rows in self.rows]
        assert len(set(self.sizes)) == 3
        self._weights = torch.from_numpy(configuration.get_preferences()).float()
        self._names, start = names, initial_fleet(configuration, 1)
        self.initial = problem.model()
        state = {name: start[local][0] for name, local in self._held(self.initial).items()}
        self.initial.load_state_dict(state, strict=False)

    def _held(self, model: nn.Module) -> dict[str, str]:
        """Where clients hold each tensor of the network; counters they do not."""
        return {
            name: name.replace(prefix, local, 1)
            for name, tensor in model.state_dict().items()
            for prefix, local in self._names.items()
            if name.startswith(prefix) and tensor.is_floating_point()
        }

    def assert_holds(self, fleet: Fleet, client: int, model: nn.Module) -> None:
        """A client holds a plain network."""
        held, state = self._held(model), model.state_dict()
        assert set(held) == {n for n, tensor in state.items() if tensor.is_floating_point()}
        for name, local in held.items():
            torch.testing.assert_close(fleet[local][client], state[name], rtol=1e-4, atol=1e-6)

    def loss(self, model: nn.Module, batch: Mapping[str, Tensor], client: int) -> Tensor:
        """What a client makes small: its losses, as they matter to it."""
        losses = self.problem.losses(model(batch["inputs"]), batch)
        return (self._weights[client] * losses).sum()

    def batches(self, client: int, round: int) -> list[dict[str, Tensor]]:
        """The batches of a client's round."""
        return draw_batches(self.problem, self.rows[client], client, STEPS, BATCH, 0, round)

    def everything(self, client: int) -> dict[str, Tensor]:
        """All training samples of a client."""
        rows = torch.from_numpy(self.rows[client])
        columns = {name: column[rows] for name, column in self.problem.columns().items()}
        return {**columns, "weight": torch.ones(len(rows))}

    def averaged(
        self, shared: Callable[[str], bool], uniform: bool = False
    ) -> Iterator[list[nn.Module]]:
        """Yield all clients' models after each round, and after the last delivery.

        Clients train whole models; the tensors that are shared are averaged.
        """
        models = [deepcopy(self.initial) for _ in range(3)]
        server: dict[str, Tensor] = {}
        for round, present in ROUNDS.items():
            for client in present:
                model = models[client]
                model.load_state_dict(server, strict=False)
                model.train()
                descent = torch.optim.SGD(model.parameters(), RATE)
                for batch in self.batches(client, round):
                    descent.zero_grad()
                    self.loss(model, batch, client).backward()
                    descent.step()
            shares = np.array([1.0 if uniform else self.sizes[c] for c in present])
            server = mean([models[c].state_dict() for c in present], shares, shared)
            yield models
        for model in models:
            model.load_state_dict(server, strict=False)
        yield models


def mean(
    states: list[dict[str, Tensor]], shares: Any, shared: Callable[[str], bool] = lambda name: True
) -> dict[str, Tensor]:
    """The weighted mean of the shared tensors of several models."""
    weights = [float(share) / float(sum(shares)) for share in shares]
    return {
        name: torch.stack([w * s[name] for w, s in zip(weights, states, strict=True)]).sum(0)
        for name in states[0]
        if shared(name) and states[0][name].is_floating_point()
    }
