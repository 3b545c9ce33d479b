"""Problems small enough to run every algorithm many times."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn

from comity.algorithms import Algorithm, make
from comity.configuration import Configuration, configure
from comity.fleet import Fleet
from comity.learners.supervised import Supervised
from comity.learners.supervised_settings import SupervisedSettings
from comity.local import Setup
from comity.problems import DataProblem, EnvironmentProblem, Objective, Samples, find, register
from comity.problems.fairness import Network
from comity.problems.praffl import Losses, Scores, commonest
from comity.problems.samples import batch_of
from comity.streams import stream, torch_seeded

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
        network=Network((8,)),
        defaults={"batch_size": 64, "learning_rate": 1e-2, "local_steps": 3, "total_steps": 12},
    )
)


CROWD = register(
    replace(
        find("german-credit-gender-age-dp"),
        name="tiny-crowd",
        network=Network((8,)),
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
        losses=Losses("group:z", "printed"),
        scores=Scores("group:z", 3),
        constant=commonest,
        groups={"group:z": 3},
        defaults={"batch_size": 16, "normalise": False, "local_steps": 4, "total_steps": 16},
    )
)


def fleet_of(
    algorithm: Algorithm | str,
    problem: DataProblem = PEOPLE,
    clients: tuple[int, ...] = (0, 1, 2),
    sizes: str = "equal",
    **settings: Any,
) -> tuple[Supervised, Fleet, nn.Module, DataProblem]:
    """A learner of some of three clients of an algorithm, its fleet and module, and the problem."""
    algorithm = make(algorithm, {}) if isinstance(algorithm, str) else algorithm
    problem = problem.dealt(3, 1, "iid", sizes)
    with torch_seeded(1, "model"):
        module = algorithm.build(problem.model(), problem)
    fleet = Fleet.of(module, len(clients))
    objectives = len(problem.objectives)
    weights = np.random.default_rng(1).dirichlet(np.ones(objectives), 3)[list(clients)]
    conditional = algorithm.spanned(objectives, "validation") is not None
    values = {**problem.defaults, "normalise": False, "compile": "no", **settings}
    setup = Setup(module, conditional, pooled=algorithm.centralised)
    learner = Supervised(problem, SupervisedSettings(**values), clients, weights, 1, fleet, setup)
    return learner, fleet, module, problem


def batches_of(
    problem: DataProblem, client: int, steps: int, size: int, phase: int = 0, round: int = 1
) -> list[dict[str, torch.Tensor]]:
    """The batches of a client of `fleet_of` in a phase of a round."""
    rows = problem.shares()[client].train
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
