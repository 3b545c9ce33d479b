"""The server's own evaluation: models judged in environments that no client has."""

from __future__ import annotations

import numpy as np
import torch

from comity.core.fleet import Fleet, forward
from comity.core.typing import AnyArray, FloatArray
from comity.problems.environments import EnvironmentProblem
from comity.problems.simulators import Environments, environments


class Evaluation:
    """Judges models on the same episodes, whoever trained them, and counts the steps."""

    def __init__(self, problem: EnvironmentProblem, seed: int) -> None:
        self._problem, self._seed = problem, seed
        self._forward = forward(problem.model())
        self._discrete = hasattr(problem.environment().action_space, "n")
        self._places: dict[int, Environments] = {}
        self.steps = 0

    def evaluate(self, models: Fleet, purpose: str, episodes: int) -> FloatArray:
        """The objective vector of each model (rounded: rewards are sums of float32)."""
        count = len(models)
        if count not in self._places:
            self._places[count] = environments(self._problem, [0] * count, self._seed)
        places = self._places[count]

        @torch.no_grad()
        def policy(observations: AnyArray) -> AnyArray:
            if places.features is not None:
                features = torch.from_numpy(places.features)
                inputs = features.expand(count, *features.shape)
            else:
                inputs = torch.from_numpy(observations)
            outputs = self._forward(models.tensors, inputs)
            # one value an action, or the action itself
            return np.asarray((outputs.argmax(dim=2) if self._discrete else outputs).numpy())

        vectors, steps = places.evaluate(np.arange(count), policy, episodes, purpose)
        self.steps += int(steps.sum())
        return vectors.round(6)
