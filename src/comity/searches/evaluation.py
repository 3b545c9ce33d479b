"""Evaluation of models by the server, on what belongs to no client.

Where clients have environments, the server has one of its own. Where they have data, it holds some
rows in their place (`search.server_share`); final tests are on the test rows of all clients.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap

from comity.core.devices import in_double, moved
from comity.core.fleet import Fleet
from comity.core.running import convolves, forward
from comity.core.typing import AnyArray, FloatArray
from comity.problems import DataProblem, EnvironmentProblem
from comity.problems.data import batch_of
from comity.problems.simulators import Environments, environments, idle_returns
from comity.searches.configuration import SearchConfiguration

Purpose = Literal["server", "test"]
"""While the search looks for candidates, or at its end."""
_SAMPLES, _PICTURES = 1024, 128  # samples that are evaluated at once; with convolutions


class Evaluation(ABC):
    """Evaluates all models on the same episodes or samples."""

    steps = 0
    """Environment steps that evaluations took."""

    @abstractmethod
    def evaluate(self, models: Fleet, purpose: Purpose) -> FloatArray:
        """Return the objective vectors of models (models x objectives), rounded.

        Args:
            models: The models to evaluate.
            purpose: Names the episodes or samples: ``"server"`` or ``"test"``.
        """

    @abstractmethod
    def trivial(self) -> FloatArray:
        """Return the test result of a model that has learned nothing (1 x objectives)."""

    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """Return the number of episodes or samples for each use, for the results."""


def evaluation_of(configuration: SearchConfiguration) -> Evaluation:
    """Return the server's evaluation for the problem of a search."""
    problem = configuration.problem
    if isinstance(problem, DataProblem):
        return SampleEvaluation(problem)
    assert isinstance(problem, EnvironmentProblem)
    episodes: dict[Purpose, int] = {
        "server": configuration.search.evaluation_episodes,
        "test": configuration.federation.test_episodes,
    }
    return EpisodeEvaluation(problem, configuration.seed, episodes)


class EpisodeEvaluation(Evaluation):
    """Evaluates in environments that belong to no client, and counts the steps.

    Args:
        problem: The problem whose environments are used.
        seed: The seed of the search, from which the episodes derive.
        episodes: Number of episodes per model, by purpose.
    """

    def __init__(
        self, problem: EnvironmentProblem, seed: int, episodes: Mapping[Purpose, int]
    ) -> None:
        self._problem, self._seed, self._episodes = problem, seed, episodes
        self._forward = forward(moved(problem.model()))
        self._discrete = hasattr(problem.environment().action_space, "n")
        self._environments: dict[int, Environments] = {}

    def evaluate(self, models: Fleet, purpose: Purpose) -> FloatArray:
        """Return the mean returns of models; they are rounded, as rewards are sums of float32."""
        count = len(models)
        if count not in self._environments:
            self._environments[count] = environments(self._problem, [0] * count, self._seed)
        places = self._environments[count]

        @torch.no_grad()
        def policy(observations: AnyArray) -> AnyArray:
            if places.features is not None:
                features = torch.as_tensor(places.features)
                inputs = features.expand(count, *features.shape)
            else:
                inputs = torch.as_tensor(observations)
            outputs = self._forward(models.tensors, inputs)
            # one value per action, or the action itself
            actions = outputs.argmax(dim=2) if self._discrete else outputs
            return np.asarray(actions.numpy(force=True))

        vectors, steps = places.evaluate(np.arange(count), policy, self._episodes[purpose], purpose)
        self.steps += int(steps.sum())
        return vectors.round(6)

    def trivial(self) -> FloatArray:
        """Return what doing nothing brings."""
        return idle_returns(self._problem, [0], self._seed, self._episodes["test"]).round(6)

    def sizes(self) -> dict[str, int]:
        """Return the numbers of episodes."""
        return {"evaluation": self._episodes["server"], "test": self._episodes["test"]}


class SampleEvaluation(Evaluation):
    """Evaluates on the server's rows, and at the end on the test rows of all clients.

    Args:
        problem: The problem as the clients of one federation have it, with rows of the server.
    """

    def __init__(self, problem: DataProblem) -> None:
        self._problem = problem
        module = moved(problem.model()).eval()
        self._forward = forward(module)
        self._piece = _PICTURES if convolves(module) else _SAMPLES
        clients = problem.client_rows()
        self._train = np.concatenate([rows.train for rows in clients])
        test = np.concatenate([rows.test for rows in clients])
        self._rows = {"server": problem.server_rows(), "test": test}
        self._batch = cache(lambda purpose: batch_of(problem.columns(), self._rows[purpose]))

    @torch.no_grad()
    def evaluate(self, models: Fleet, purpose: Purpose) -> FloatArray:
        """Return the scores of models on all samples for a purpose."""
        batch, count = self._batch(purpose), len(models)
        pieces = [
            self._forward(models.tensors, piece.expand(count, *piece.shape))
            for piece in torch.split(batch["inputs"], self._piece)
        ]
        return self._scores(torch.cat(pieces, dim=1), batch)

    def trivial(self) -> FloatArray:
        """Return the scores of the constant answer that is commonest in training."""
        output = self._problem.constant(batch_of(self._problem.columns(), self._train))
        batch = self._batch("test")
        return self._scores(output.expand(1, len(batch["weight"]), *output.shape), batch)

    def sizes(self) -> dict[str, int]:
        """Return the numbers of samples."""
        rows = self._rows
        sizes = {"training": self._train, "evaluation": rows["server"], "test": rows["test"]}
        return {use: len(of_use) for use, of_use in sizes.items()}

    def _scores(self, outputs: Tensor, batch: Mapping[str, Tensor]) -> FloatArray:
        scores: Tensor = vmap(self._problem.scores, in_dims=(0, None))(outputs, dict(batch))
        return in_double(scores).round(6)
