"""Evaluation of models by the server, in environments that belong to no client."""

from __future__ import annotations

import numpy as np
import torch

from comity.core.fleet import Fleet, forward
from comity.core.typing import AnyArray, FloatArray
from comity.problems.environments import EnvironmentProblem
from comity.problems.simulators import Environments, environments


class Evaluation:
    """Evaluates all models on the same episodes, and counts the steps.

    Args:
        problem: The problem whose environments are used.
        seed: The seed of the search, from which the episodes derive.
    """

    def __init__(self, problem: EnvironmentProblem, seed: int) -> None:
        self._problem, self._seed = problem, seed
        self._forward = forward(problem.model())
        self._discrete = hasattr(problem.environment().action_space, "n")
        self._environments: dict[int, Environments] = {}
        self.steps = 0

    def evaluate(self, models: Fleet, purpose: str, episodes: int) -> FloatArray:
        """Return the objective vectors of models (models x objectives).

        They are rounded, because rewards are sums of float32.

        Args:
            models: The models to evaluate.
            purpose: Names the stream of episodes: ``"server"`` or ``"test"``.
            episodes: Number of episodes per model.
        """
        count = len(models)
        if count not in self._environments:
            self._environments[count] = environments(self._problem, [0] * count, self._seed)
        places = self._environments[count]

        @torch.no_grad()
        def policy(observations: AnyArray) -> AnyArray:
            if places.features is not None:
                features = torch.from_numpy(places.features)
                inputs = features.expand(count, *features.shape)
            else:
                inputs = torch.from_numpy(observations)
            outputs = self._forward(models.tensors, inputs)
            # one value per action, or the action itself
            return np.asarray((outputs.argmax(dim=2) if self._discrete else outputs).numpy())

        vectors, steps = places.evaluate(np.arange(count), policy, episodes, purpose)
        self.steps += int(steps.sum())
        return vectors.round(6)
