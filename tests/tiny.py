"""Problems small enough to run every algorithm many times."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from comity.algorithms import Algorithm, Survey, make
from comity.algorithms import find as find_algorithm
from comity.configuration import Configuration, configure
from comity.core.fleet import Fleet
from comity.core.phases import Batch, ClientModel, Phase, View
from comity.core.rng import stream, torch_seeded
from comity.core.typing import Tree
from comity.federation.clients import Clients
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import RoundLoop
from comity.federation.server import Server
from comity.learners import LearnerContext, Task
from comity.learners.supervised.learner import Supervised
from comity.learners.supervised.settings import SupervisedSettings
from comity.problems import DataProblem, EnvironmentProblem, Objective, Samples, find, register
from comity.problems.data import batch_of
from comity.problems.parity import commonest, parity_losses, parity_scores

TINY = register(
    replace(
        find("deep-sea-treasure"),
        name="tiny-treasure",
        hidden=(16, 16),
        defaults={
            "learning_rate": 4e-3,
            "batch_size": 16,
            "buffer_size": 200,
            "learning_starts": 16,
            "gamma": 0.98,
            "target_update_interval": 32,
            "train_freq": 8,
            "gradient_steps": 4,
            "local_steps": 48,
            "total_steps": 192,
        },
        search={"reference_point": [0.0, -50.0]},
    )
)


class Trolley(gymnasium.Env):
    """Two engines push a trolley along a rail; what they push costs strength."""

    observation_space = gymnasium.spaces.Box(-10.0, 10.0, (2,), np.float32)
    action_space = gymnasium.spaces.Box(np.float32([-2.0, -1.0]), np.float32([2.0, 3.0]))

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.speed = self.np_random.uniform(-1.0, 1.0), 0.0
        return self._see(), {}

    def step(self, action):
        assert action in self.action_space
        self.speed = 0.8 * self.speed + 0.1 * float(action.sum())
        self.place += self.speed
        reward = np.array([self.speed, -0.1 * float(np.square(action).sum())])
        return self._see(), reward, abs(self.place) > 5.0, False, {}

    def _see(self):
        return np.array([self.place, self.speed], dtype=np.float32)


gymnasium.register("Trolley-v0", Trolley, max_episode_steps=20)

TROLLEY = register(
    EnvironmentProblem(
        name="tiny-trolley",
        title="A trolley with two engines",
        objectives=(
            Objective("way", "m", "how far it came"),
            Objective("strength", "points", "minus the strength spent"),
        ),
        environment=lambda: gymnasium.make("Trolley-v0", disable_env_checker=True),
        reference_point=(-10.0, -30.0),
        learner="ddpg",
        hidden=(16, 16),
        defaults={
            "batch_size": 16,
            "buffer_size": 200,
            "learning_starts": 16,
            "train_freq": 4,
            "gradient_steps": 1,
            "local_steps": 48,
            "total_steps": 192,
        },
    )
)


PEOPLE = register(
    replace(
        find("german-credit-gender-dp"),
        name="tiny-people",
        hidden=(8,),
        defaults={"batch_size": 64, "learning_rate": 1e-2, "local_steps": 3, "total_steps": 12},
    )
)


CROWD = register(
    replace(
        find("german-credit-gender-age-dp"),
        name="tiny-crowd",
        hidden=(8,),
        defaults={"batch_size": 64, "learning_rate": 1e-2, "local_steps": 4, "total_steps": 16},
    )
)
"""Three objectives: accuracy, and fairness to two attributes."""


@lru_cache
def _answers() -> Samples:
    g = torch.Generator().manual_seed(7)
    inputs = torch.randn(240, 4, generator=g)
    leaning = inputs[:, 0] + torch.randn(240, generator=g)
    group = torch.bucketize(leaning, torch.tensor([-0.6, 0.6]))
    label = (inputs.sum(dim=1) + torch.randn(240, generator=g) > 0).float()
    columns = {"inputs": inputs, "label": label, "group:z": group}
    return Samples(columns, (2 * group + label.long()).numpy(), {})


ANSWERS = register(
    DataProblem(
        name="tiny-answers",
        title="People of three groups who say yes or no, one logit each",
        objectives=(
            Objective("accuracy", "share", "right answers"),
            Objective("fairness", "1 - D", "1 - the distance of a group from all"),
        ),
        reference_point=(0.0, 0.0),
        samples=_answers,
        network=lambda samples: nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)),
        losses=partial(parity_losses, column="group:z", kind="printed"),
        scores=partial(parity_scores, column="group:z", values=3),
        constant=commonest,
        attributes={"group:z": 3},
        classified=True,
        defaults={"batch_size": 16, "normalise": "none", "local_steps": 4, "total_steps": 16},
    )
)


NORMS = register(
    replace(
        ANSWERS,
        name="tiny-norms",
        title="The same people, by a network that normalises batches",
        network=lambda samples: nn.Sequential(
            nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)
        ),
    )
)


def fleet_of(
    algorithm: Algorithm | str,
    problem: DataProblem = PEOPLE,
    clients: tuple[int, ...] = (0, 1, 2),
    sizes: str = "equal",
    rounds: int = 1,
    participation: float = 1.0,
    **settings: Any,
) -> tuple[Supervised, Fleet, nn.Module, DataProblem]:
    """A learner of some of three clients of an algorithm, its fleet and module, and the problem."""
    algorithm = make(algorithm, {}) if isinstance(algorithm, str) else algorithm
    problem = problem.partitioned(3, 1, "stratified", sizes)
    with torch_seeded(1, "model"):
        module = algorithm.build(problem.model(), problem)
    fleet = Fleet.of(module, len(clients))
    objectives = len(problem.objectives)
    weights = preferences_of(problem)[list(clients)]
    conditional = algorithm.evaluation_preferences(objectives, "validation") is not None
    values = {**problem.defaults, "normalise": "none", "compile": "no", **settings}
    setup = ClientModel(module, conditional, rounds, participation, pooled=algorithm.centralised)
    learner = Supervised(
        LearnerContext(problem, SupervisedSettings(**values), clients, weights, 1, fleet, setup)
    )
    return learner, fleet, module, problem


def preferences_of(problem: DataProblem) -> np.ndarray:
    """The preferences of the three clients of `fleet_of`."""
    return np.random.default_rng(1).dirichlet(np.ones(len(problem.objectives)), 3)


def objective_of(problem: DataProblem, client: int) -> Callable[[Tensor, Batch], Tensor]:
    """What a client of `fleet_of` makes small: its losses, as they matter to it."""
    weights = torch.from_numpy(preferences_of(problem)[client]).float()
    return lambda outputs, batch: (weights * problem.losses(outputs, batch)).sum()


def learn(
    algorithm: Algorithm,
    learner: Supervised,
    models: Fleet,
    problem: DataProblem,
    steps: int = 3,
    round: int = 1,
    **told: np.ndarray,
) -> Fleet:
    """A round's work of all clients of `fleet_of`; what they held before."""
    rows, start = np.arange(len(models)), models.clone()
    goal = np.full(len(rows), steps * round)
    learner.train(models, rows, Task(round, algorithm.phases(problem), start, goal, told))
    return start


def network_of(problem: DataProblem, models: Fleet, client: int, *prefixes: str) -> nn.Sequential:
    """The problem's network as a client holds it under a prefix, or body and head under two."""
    network = problem.model()
    assert isinstance(network, nn.Sequential)
    parts = [network] if len(prefixes) == 1 else [network[:-1], network[-1]]
    for part, prefix in zip(parts, prefixes, strict=True):
        part.load_state_dict({k: models[prefix + k][client].clone() for k in part.state_dict()})
    return network


def assert_holds(models: Fleet, client: int, prefix: str, module: nn.Module) -> None:
    """A client holds, under a prefix, what is in a plain module."""
    for name, tensor in module.state_dict().items():
        found = models[prefix + name][client]
        torch.testing.assert_close(found, tensor, rtol=1e-5, atol=1e-6)


def one_step(
    phase: Phase,
    module: nn.Module,
    tensors: Tree,
    objective: Callable[[Tensor], Tensor],
    rate: float,
    **shown: Any,
) -> Tree:
    """What one plain step of a phase makes of one client's tensors, without any learner."""

    def forward(parameters: Tree, *inputs: Tensor) -> Tensor:
        outputs: Tensor = functional_call(module, parameters, inputs)
        return outputs

    def own(outputs: Tensor, batch: Batch) -> Tensor:
        return objective(outputs)

    view = View(**{"received": tensors, "forward": forward, "objective": own, **shown}, rate=rate)
    batch = {"inputs": torch.ones(1, 1)}
    trained = {name for name, p in module.named_parameters() if p.requires_grad}
    leaves = {
        name: tensor.clone().requires_grad_()
        for name, tensor in tensors.items()
        if name in trained and any(fnmatchcase(name, pattern) for pattern in phase.train)
    }
    parameters = {**tensors, **leaves}
    if phase.loss is None:
        loss = own(forward(parameters, batch["inputs"]), batch)
    else:
        loss = phase.loss(parameters, batch, view)
    if phase.penalty is not None:
        loss = loss + phase.penalty(parameters, view)
    found = torch.autograd.grad(loss, list(leaves.values()), materialize_grads=True)
    grads = dict(zip(leaves, found, strict=True))
    length = rate if phase.rate is None else phase.rate
    moved = {name: (leaf - length * grads[name]).detach() for name, leaf in leaves.items()}
    after = {**tensors, **moved}
    return after if phase.after_step is None else {**after, **phase.after_step(after, grads, view)}


class Number(nn.Module):
    """A network that is nothing but a few numbers: its answer, whatever it is asked."""

    def __init__(self, *values: float) -> None:
        super().__init__()
        self.t = nn.Parameter(torch.tensor(values))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.t


def product(b: float, h: float) -> nn.Sequential:
    """A body and a head of one number each, so that the answer to one is their product."""
    chain = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
    for layer, value in zip(chain, (b, h), strict=True):
        nn.init.constant_(layer.weight, value)
    return chain


def held(module: nn.Module) -> Tree:
    """Everything that a module holds, by name."""
    return {name: tensor.detach().clone() for name, tensor in module.named_parameters()}


def batches_of(
    problem: DataProblem, client: int, steps: int, size: int, phase: int = 0, round: int = 1
) -> list[dict[str, torch.Tensor]]:
    """The batches of a client of `fleet_of` in a phase of a round."""
    rows = problem.client_rows()[client].train
    return draw_batches(problem, rows, client, steps, size, phase, round)


def draw_batches(
    problem: DataProblem,
    rows: np.ndarray,
    client: int,
    steps: int,
    size: int,
    phase: int = 0,
    round: int = 1,
) -> list[dict[str, torch.Tensor]]:
    """Batches of given rows: shuffled from the client's stream, pass after pass."""
    generator = stream(1, f"batches {phase}" if phase else "batches", round, client)
    size = min(size, len(rows))
    passes = -(-steps * size // len(rows))
    order = np.concatenate([generator.permutation(rows) for _ in range(passes)])
    order = order[: steps * size].reshape(steps, size)
    return [batch_of(problem.columns(), chosen) for chosen in order]


def tiny(**values: Any) -> Configuration:
    """A run of four clients and four rounds, in two chunks."""
    return configure({"problem": "tiny-treasure", "clients": 4, "chunk": 2, **values})


# -- what travels and what stays -----------------------------------------------------------


def assert_sends(algorithm: str, parts: set[str], statistics: Collection[str] = ()) -> None:
    """Messages hold all tensors of just these parts, and the statistics that are declared."""
    configuration = tiny(problem="tiny-answers", algorithm=algorithm, chunk=4, rounds=1)
    with EmbeddedEngine(configuration) as engine:
        request, _ = Server(configuration).request()
        if asked := find_algorithm(algorithm).surveys:
            said = engine.survey(request)
            assert set(said.statistics) == set(asked)
            assert said.models is None
            broadcast = configuration.get_algorithm().broadcast(
                Survey(request.clients, said.statistics)
            )
            rows = len(request.clients)
            broadcast = {
                name: np.repeat(values[None], rows, 0) for name, values in broadcast.items()
            }
            request = replace(request, broadcast=broadcast)
        message = engine.round(request)
        names = set(engine.models(kept=False))
    assert message.models is not None
    assert {name.partition(".")[0] for name in message.models} == parts
    assert set(message.models) == {name for name in names if name.partition(".")[0] in parts}
    assert set(message.models) < names
    assert set(message.statistics) == {"size", "unsound", *statistics}


def assert_private_stays(algorithm: str, *prefixes: str, **settings: Any) -> None:
    """Whose turn it is not keeps what is private, and no delivery ever lands in it.

    Those whose turn it is change it, each in its own way.
    """
    configuration = tiny(
        problem="tiny-answers", algorithm=algorithm, chunk=4, participation=0.5, **settings
    )
    delivered: dict[int, dict[str, np.ndarray]] = {}
    original = Clients._train

    def watched(self: Clients, rows: Any, request: Any, *more: Any) -> Any:
        delivered[request.round] = private(self._models)
        return original(self, rows, request, *more)

    def private(models: Fleet) -> dict[str, np.ndarray]:
        return {n: t.numpy().copy() for n, t in models.tensors.items() if n.startswith(prefixes)}

    with pytest.MonkeyPatch.context() as patch, EmbeddedEngine(configuration) as engine:
        patch.setattr(Clients, "_train", watched)
        federation, seen = Server(configuration), set[int]()
        state = private(engine.models(kept=False))
        assert state
        for (record,) in RoundLoop(engine, federation).rounds():
            for name, tensor in delivered[record.round].items():
                np.testing.assert_array_equal(tensor, state[name], err_msg="changed by a delivery")
            now = private(engine.models(kept=False))
            absent = [c for c in federation.clients if c not in record.clients]
            for name, tensor in now.items():
                np.testing.assert_array_equal(tensor[absent], state[name][absent])
            learned = [any((now[n][c] != state[n][c]).any() for n in now) for c in record.clients]
            assert all(learned) or record.round == 1, "what is private is learned"
            seen |= set(record.clients)
            state = now
        first, second = sorted(seen)[:2]
        assert any((state[n][first] != state[n][second]).any() for n in state)
