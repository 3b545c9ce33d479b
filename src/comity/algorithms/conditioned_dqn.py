"""Federated preference-conditioned DQN (Comity's own): one network that serves any preference.

Where FedPref trains one network per preference, clients here train one network Q(s, a; w) for all
preferences w. They then minimise the same loss, so their networks can be averaged, and a client may
change its preference without training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from comity.algorithms.base import Need
from comity.algorithms.fedavg import FedAvg
from comity.algorithms.parts import linear
from comity.algorithms.registry import algorithm
from comity.core.phases import Batch, Phase, View
from comity.core.typing import FloatArray, Tree
from comity.errors import UserError
from comity.problems import Problem
from comity.settings import setting

Conditioning = Literal["film", "concat"]
Head = Literal["vector", "scalar"]


class Film(nn.Module):
    """Features h at preferences w: h ⊙ (1 + Γ w) + B w, with Γ = B = 0 at first."""

    def __init__(self, objectives: int, width: int) -> None:
        super().__init__()
        self.gain, self.shift = (nn.Linear(objectives, width, bias=False) for _ in range(2))
        nn.init.zeros_(self.gain.weight)
        nn.init.zeros_(self.shift.weight)

    def forward(self, features: Tensor, preference: Tensor) -> Tensor:
        """Return features (…, batch, width) at preferences (…, objectives)."""
        gain, shift = self.gain(preference).unsqueeze(-2), self.shift(preference).unsqueeze(-2)
        modulated: Tensor = features * (1 + gain) + shift
        return modulated

    def folded(self, after: nn.Linear, preference: Tensor) -> nn.Linear:
        """Return the layer ``after`` this one with both at a preference in one."""
        weight = after.weight * (1 + self.gain(preference))
        return linear(weight, after.bias + after.weight @ self.shift(preference))


class Concat(nn.Module):
    """A first layer that takes the observation and, after it, the preference."""

    def __init__(self, first: nn.Linear, objectives: int) -> None:
        super().__init__()
        self.seen = first.in_features
        self.linear = nn.Linear(self.seen + objectives, first.out_features)

    def forward(self, inputs: Tensor, preference: Tensor) -> Tensor:
        """Return what a layer on [s, w] gives, at preferences (…, objectives)."""
        weight, bias = self.linear.weight, self.linear.bias
        shift = preference @ weight[:, self.seen :].T
        return F.linear(inputs, weight[:, : self.seen], bias) + shift.unsqueeze(-2)

    def folded(self, preference: Tensor) -> nn.Linear:
        """Return the layer at a preference, which takes the observation alone."""
        weight, bias = self.linear.weight, self.linear.bias
        return linear(weight[:, : self.seen], bias + weight[:, self.seen :] @ preference)


class ConditionedNetwork(nn.Module):
    """A problem's network that takes a preference, with one value per action and objective.

    With ``head = scalar`` it has one value per action, the same for all objectives, so that w·Q is
    that value.

    Args:
        layers: The problem's network: linear layers with activations between.
        objectives: Number of objectives.
        conditioning: Place where the preference enters.
        head: One value per action and objective, or one per action.
    """

    def __init__(
        self, layers: Sequence[nn.Module], objectives: int, conditioning: Conditioning, head: Head
    ) -> None:
        super().__init__()
        first, *middle, last = layers
        assert isinstance(first, nn.Linear)
        assert isinstance(last, nn.Linear)
        self._objectives, self._vector = objectives, head == "vector"
        outputs = last.out_features * (objectives if self._vector else 1)
        self.first: nn.Linear | Concat = first
        self.film: Film | None = None
        if conditioning == "concat":
            self.first = Concat(first, objectives)
        else:
            self.film = Film(objectives, first.out_features)
        self.activation, *rest = middle
        self.rest = nn.Sequential(*rest, nn.Linear(last.in_features, outputs))

    def forward(self, inputs: Tensor, preference: Tensor) -> Tensor:
        """Return Q (…, batch, actions, objectives) at preferences (…, objectives)."""
        if isinstance(self.first, Concat):
            features = self.activation(self.first(inputs, preference))
        else:
            assert self.film is not None
            features = self.film(self.activation(self.first(inputs)), preference)
        values: Tensor = self.rest(features)
        if self._vector:
            return values.reshape(*values.shape[:-1], -1, self._objectives)
        return values.unsqueeze(-1).expand(*values.shape, self._objectives)

    @torch.no_grad()
    def at(self, preference: Tensor) -> nn.Sequential:
        """Return the plain network at one preference, of the problem's own architecture."""
        first, (second, *rest) = self.first, list(self.rest)
        if isinstance(first, Concat):
            first = first.folded(preference)
        if self.film is not None:
            assert isinstance(second, nn.Linear)
            second = self.film.folded(second, preference)
        *middle, last = [second, *rest]
        assert isinstance(last, nn.Linear)
        if self._vector:
            weight = last.weight.reshape(-1, self._objectives, last.in_features)
            bias = last.bias.reshape(-1, self._objectives)
            last = linear(torch.einsum("amh,m->ah", weight, preference), bias @ preference)
        return nn.Sequential(first, self.activation, *middle, last)


def grid(objectives: int) -> FloatArray:
    """Return evenly spaced preferences: 11 for two objectives, 21 for three, 35 for four.

    They are all weights in steps of 1/10, 1/5 and, from four objectives on, 1/4.
    """
    parts = {1: 1, 2: 10, 3: 5}.get(objectives, 4)
    whole = [row for row in product(range(parts + 1), repeat=objectives) if sum(row) == parts]
    return np.array(whole, dtype=np.float64) / parts


@algorithm(
    "conditioned-dqn",
    title="Federated preference-conditioned DQN",
    paper="Comity's own design",
    place="client-led",
    method="linearised preferences, drawn; one network that takes any of them",
    communication="the conditioned network and its target network, both ways; preferences never",
)
class ConditionedDQN(FedAvg):
    """θ ← mean of θ_i; each client minimises the mean over w of (1−h) ‖Q − y‖ + h |w·Q − w·y|.

    w is drawn, ‖·‖ and |·| are Huber's, y = r + γ Q⁻(s', a*; w) with a* = argmax_a w·Q⁻(s', a; w);
    h rises from 0 to ``ranking`` over all steps.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"rewards"})
    run_defaults: ClassVar[Mapping[str, Any]] = {"keep_scope": "federation"}
    learner_defaults: ClassVar[Mapping[str, Any]] = {"average_targets": True}
    select_by: ClassVar[Literal["hypervolume", "utility"]] = "utility"

    conditioning: Conditioning = setting(
        "film", "where the preference enters: scales of the first features, or inputs"
    )
    head: Head = setting("vector", "one value per action and objective, or one per action")
    own_share: float = setting(
        0.0, "share of episodes, and of drawn preferences, at the own one", at_least=0, at_most=1
    )
    drawn: PositiveInt = setting(4, "preferences at which every batch is judged", at_most=1024)
    targets: Literal["scalarised", "envelope"] = setting(
        "scalarised", "best next action at w, or of all drawn preferences (Yang et al., 2019)"
    )
    ranking: float = setting(
        1.0, "h at the end of training: weight of w·Q in the loss", at_least=0, at_most=1
    )

    def build(self, model: nn.Module, problem: Problem) -> ConditionedNetwork:
        layers = list(model) if isinstance(model, nn.Sequential) else []
        if len(layers) < 3 or not all(isinstance(layer, nn.Linear) for layer in layers[::2]):
            raise UserError(
                f"{self.declaration.name} puts the preference behind the first layer of a network; "
                f"that of {problem.name} must be an nn.Sequential of two or more nn.Linear with "
                "activations between."
            )
        return ConditionedNetwork(layers, len(problem.objectives), self.conditioning, self.head)

    def predictor(self, module: nn.Module, preference: FloatArray) -> nn.Module:
        assert isinstance(module, ConditionedNetwork)
        return module.at(torch.as_tensor(preference, dtype=torch.float32))

    def evaluation_preferences(self, objectives: int, purpose: str) -> FloatArray:
        return grid(objectives)

    def acting_preference(self, generator: np.random.Generator, own: FloatArray) -> FloatArray:
        drawn = generator.dirichlet(np.ones(len(own)))
        return own if generator.random() < self.own_share else drawn

    def phases(self, problem: Problem) -> list[Phase]:
        flat = np.ones(len(problem.objectives))

        def draw(
            generator: np.random.Generator, steps: int, samples: int, parameters: Tree
        ) -> dict[str, FloatArray]:
            importance = generator.dirichlet(flat, (steps, self.drawn))
            coins = generator.random((steps, self.drawn, 1))
            return {"importance": importance, "coins": coins}

        return [Phase(loss=self.loss, draw=draw)]

    def loss(self, parameters: Tree, batch: Batch, view: View) -> Tensor:
        """Return the loss of one client on a batch, at drawn preferences."""
        own = view.drawn["coins"] < self.own_share
        weights = torch.where(own, view.preference, view.drawn["importance"])
        values = view.forward(parameters, batch["before"], weights)
        chosen = values[:, batch["before_row"], batch["action"]]
        with torch.no_grad():
            after = view.forward(view.target, batch["after"], weights)[:, batch["after_row"]]
            choosing = after
            if self.targets == "envelope":  # what overestimates least: chosen by the online network
                choosing = view.forward(parameters, batch["after"], weights)[:, batch["after_row"]]
            target = self.target(batch["reward"], batch["discount"], choosing, after, weights)
        h = self.ranking * view.progress if self.head == "vector" else torch.ones(())
        worth, best = (torch.einsum("kbm,km->kb", each, weights) for each in (chosen, target))
        return (1 - h) * F.smooth_l1_loss(chosen, target) + h * F.smooth_l1_loss(worth, best)

    def target(
        self, reward: Tensor, discount: Tensor, choosing: Tensor, after: Tensor, weights: Tensor
    ) -> Tensor:
        """Return y (drawn, batch, objectives).

        Args:
            reward: Reward vectors (batch, objectives).
            discount: γ, or 0 after an end (batch).
            choosing: Q of the network that chooses a* (drawn, batch, actions, objectives).
            after: Q of the network whose values count, likewise.
            weights: The drawn preferences (drawn, objectives).
        """
        count, size, actions, _ = after.shape
        worth = torch.einsum("jbam,km->kbja", choosing, weights)
        if self.targets == "scalarised":  # each preference looks at its own values only
            place = torch.arange(count)
            others = place[:, None] != place
            worth = worth.masked_fill(others[:, None, :, None], -torch.inf)
        best = worth.flatten(2).argmax(dim=2)
        listed = after.transpose(0, 1).reshape(size, count * actions, -1)
        return reward + discount.unsqueeze(1) * listed[torch.arange(size), best]
