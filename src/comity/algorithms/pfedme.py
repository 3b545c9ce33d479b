"""pFedMe (Dinh et al., 2020): personal models near a local one, by Moreau envelopes."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from comity.algorithms.base import Algorithm, Need, Round
from comity.algorithms.registry import algorithm
from comity.core.mixing import Mixing
from comity.core.phases import Batch, Phase, Update, View
from comity.core.storage import add_prefix, strip_prefix
from comity.core.typing import FloatArray, Tree
from comity.problems import Problem
from comity.settings import setting


class Envelope(nn.Module):
    """The local model w, and the personal one θ, which predicts."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.local, self.personal = model, deepcopy(model)
        self.steps = nn.Parameter(torch.zeros(()), requires_grad=False)
        """Number of inner steps that the client has taken."""

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.personal(inputs)
        return outputs


@algorithm(
    "pfedme",
    title="pFedMe",
    paper="Dinh et al., 2020",
    place="personalised models",
    method="personal models near local ones (Moreau envelopes)",
    communication="the local model, both ways; personal models stay",
)
class PFedMe(Algorithm):
    """min_x Σ_i F_i(x), F_i(w) = min_θ f_i(θ) + λ/2 ‖θ − w‖². A client's round, from w = θ = x:

    for each batch, K times: θ ← θ − η_p (∇f(θ) + λ (θ − w)); then w ← w − η λ (w − θ).

    Server: x ← (1 − β) x + β · mean of the clients' w. η is the learner's step size; η λ < 1 and
    η_p (λ + curvature of f) < 2 keep the steps stable. The inner steps are those of the learner's
    optimiser, in the paper plain ones (``supervised.optimiser = sgd``). A client predicts with the
    θ of its last round; one that has not trained yet with what it received.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"losses"})
    personal: ClassVar[bool] = False
    sends: ClassVar[tuple[str, ...]] = ("local.*",)
    shared_update: ClassVar[tuple[str, ...]] = ("*",)

    pull: float = setting(15.0, "λ: how strongly θ is pulled to w", above=0)
    inner_steps: int = setting(5, "K: steps of θ on each batch", at_least=1)
    personal_rate: float = setting(0.05, "η_p: step size of θ", above=0)
    server_rate: float = setting(1.0, "β: length of the server's step", above=0)

    @property
    def needs_server(self) -> str:
        return "steps from one model that all clients hold"

    def build(self, model: nn.Module, problem: Problem) -> nn.Module:
        return Envelope(model)

    def predictor(self, module: nn.Module, preference: FloatArray) -> nn.Module:
        assert isinstance(module, Envelope)
        return module.personal

    def phases(self, problem: Problem) -> list[Phase]:
        def restarted(parameters: Tree, everything: Batch, view: View) -> Tree:
            return add_prefix(strip_prefix(parameters, "local."), "personal.")

        def away(parameters: Tree, view: View) -> Tensor:
            """λ/2 ‖θ − w‖²."""
            squares = [
                (parameters[f"personal.{name}"] - parameters[f"local.{name}"]).square().sum()
                for name in strip_prefix(view.received, "personal.")
            ]
            return self.pull / 2 * torch.stack(squares).sum()

        def outer_step(parameters: Tree, grads: Tree, view: View) -> Tree:
            """Count an inner step; after K of them w ← w − η λ (w − θ)."""
            steps = parameters["steps"] + 1
            length = torch.where(steps % self.inner_steps == 0, view.rate * self.pull, 0.0)
            changed = {"steps": steps}
            for name, theta in strip_prefix(parameters, "personal.").items():
                if f"personal.{name}" in grads:
                    w = parameters[f"local.{name}"]
                    changed[f"local.{name}"] = w - length * (w - theta)
            return changed

        def with_statistics(parameters: Tree, everything: Batch, view: View) -> Tree:
            """Let w have the statistics of batches that θ has seen."""
            own = strip_prefix(parameters, "personal.")
            return {f"local.{n}": t for n, t in own.items() if f"local.{n}" not in view.received}

        return [
            Phase(
                train=("personal.*",),
                penalty=away,
                repeat=self.inner_steps,
                rate=self.personal_rate,
                before=restarted,
                after_step=outer_step,
                after=with_statistics,
            )
        ]

    def local_phases(self, problem: Problem) -> list[Phase]:
        return [Phase(train=("personal.*",))]

    def on_receipt(self, problem: Problem) -> Update:
        def first(parameters: Tree, everything: Batch, view: View) -> Tree:
            """Take the received model for θ until the client has trained one."""
            x, own = (strip_prefix(parameters, prefix) for prefix in ("local.", "personal."))
            fresh = parameters["steps"] == 0
            return {f"personal.{name}": torch.where(fresh, x[name], own[name]) for name in x}

        return first

    def mix(self, round: Round) -> Mapping[str, Mixing]:
        count = len(round.participants)
        weights = np.full(count, self.server_rate / count)
        step = Mixing.step(weights, receivers=round.clients, base=round.start.select([0]))
        return {"*": step}
