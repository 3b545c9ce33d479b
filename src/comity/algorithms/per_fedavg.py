"""Per-FedAvg (Fallah et al., 2020): a start from which one gradient step serves each client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import grad

from comity.algorithms.base import Algorithm, Need, Round
from comity.algorithms.parts import frozen
from comity.algorithms.registry import algorithm
from comity.core.mixing import Mixing
from comity.core.phases import Batch, Phase, Update, View
from comity.core.typing import FloatArray, Tree
from comity.errors import UserError
from comity.problems import Problem
from comity.settings import setting

_TINY = 1e-8


class Adapted(nn.Module):
    """The common start w, and what one step makes of it at this client, which predicts."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.adapted = model, frozen(model)

    def forward(self, inputs: Tensor, start: bool = False) -> Tensor:
        outputs: Tensor = (self.model if start else self.adapted)(inputs)
        return outputs


@algorithm(
    "per-fedavg",
    title="Per-FedAvg",
    paper="Fallah et al., 2020",
    place="personalised models",
    method="a common start, adapted by one gradient step",
    communication="the start, both ways; adapted models stay",
)
class PerFedAvg(Algorithm):
    """min_w Σ_i f_i(w − α ∇f_i(w)). A client's step, on parts D, D', D'' of a batch:

    w̃ = w − α ∇f(w; D), g = ∇f(w̃; D'), and from w, not from w̃,
    ``fo``: w ← w − β g;
    ``hf``: w ← w − β (g − α [∇f(w + δ g; D'') − ∇f(w − δ g; D'')] / 2δ);
    ``exact``: w ← w − β (I − α ∇²f(w; D)) g. Server: w ← mean of the clients' w.

    β is the learner's step size; with Adam the step is another. δ is ``delta`` / ‖g‖. A batch of
    fewer samples than parts is used whole for each. A client predicts with w − α ∇f(w) over all its
    training samples, made anew whenever w reaches it and after it has trained.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"losses"})
    personal: ClassVar[bool] = False
    reads_start: ClassVar[bool] = False
    sends: ClassVar[tuple[str, ...]] = ("model.*",)
    shared_update: ClassVar[tuple[str, ...]] = ("*",)

    adaptation: float = setting(0.01, "α: step size of the adaptation", at_least=0)
    variant: Literal["fo", "hf", "exact"] = setting(
        "fo", "second derivatives: left out, by differences of gradients, or exact"
    )
    delta: float = setting(1e-3, "length of the step whose gradients hf compares", above=0)

    def build(self, model: nn.Module, problem: Problem) -> nn.Module:
        if self.variant == "hf" and any(True for _ in model.buffers()):
            raise UserError(
                f"per-fedavg.variant = hf: the network of {problem.name} keeps statistics of its "
                "batches, which differences of gradients do not renew. Say fo or exact."
            )
        return Adapted(model)

    def predictor(self, module: nn.Module, preference: FloatArray) -> nn.Module:
        assert isinstance(module, Adapted)
        return module.adapted

    def phases(self, problem: Problem) -> list[Phase]:
        return [Phase(train=("model.*",), loss=self._meta_loss, after=self._adapt)]

    def local_phases(self, problem: Problem) -> list[Phase]:
        """Train w on the client's own objective, without a step to come, and predict with it."""

        def plain(parameters: Tree, batch: Batch, view: View) -> Tensor:
            return _risk(_trained(parameters, view), parameters, batch, view)

        def taken(parameters: Tree, everything: Batch, view: View) -> Tree:
            return _as_adapted(parameters, {})

        return [Phase(train=("model.*",), loss=plain, after=taken)]

    def on_receipt(self, problem: Problem) -> Update:
        return self._adapt

    def _adapt(self, parameters: Tree, everything: Batch, view: View) -> Tree:
        """Return w − α ∇f(w) over all training samples."""
        w = _trained(parameters, view)
        slope = _slope(w, parameters, everything, view)
        return _as_adapted(parameters, _moved(w, -self.adaptation, slope))

    def _meta_loss(self, parameters: Tree, batch: Batch, view: View) -> Tensor:
        """Return a scalar whose gradient by w is the client's direction."""
        parts = _parts(batch, 3 if self.variant == "hf" else 2)
        w = _trained(parameters, view)
        fixed = {name: tensor.detach() for name, tensor in w.items()}
        inner = _slope(w if self.variant == "exact" else fixed, parameters, parts[0], view)
        if self.variant != "hf":
            return _risk(_moved(w, -self.adaptation, inner), parameters, parts[1], view)
        g = _slope(_moved(fixed, -self.adaptation, inner), parameters, parts[1], view)
        norm = torch.stack([tensor.square().sum() for tensor in g.values()]).sum().sqrt()
        delta = self.delta / norm.clamp(min=_TINY)
        ahead, behind = (
            _slope(_moved(fixed, sign * delta, g), parameters, parts[2], view)
            for sign in (1.0, -1.0)
        )
        curved = {k: (ahead[k] - behind[k]) / (2 * delta) for k in g}
        direction = _moved(g, -self.adaptation, curved)
        return torch.stack([(direction[k].detach() * w[k]).sum() for k in w]).sum()

    def mix(self, round: Round) -> Mapping[str, Mixing]:
        return {"*": Mixing.shared(np.ones(len(round.participants)), receivers=round.clients)}


def _trained(parameters: Tree, view: View) -> Tree:
    """Return w: the tensors of the model that gradients train."""
    return {name: parameters[name] for name in view.received}


def _risk(w: Tree, parameters: Tree, batch: Batch, view: View) -> Tensor:
    """Return f(w) of the client's objective on some samples."""
    return view.objective(view.forward({**parameters, **w}, batch["inputs"], True), batch)


def _slope(w: Tree, parameters: Tree, batch: Batch, view: View) -> Tree:
    """Return ∇f(w) on some samples; statistics of batches stay as they are."""

    def risk(w: Tree) -> Tensor:
        model = {n: t for n, t in parameters.items() if n.startswith("model.") and n not in w}
        statistics = {name: tensor.clone() for name, tensor in model.items()}
        return _risk(w, {**parameters, **statistics}, batch, view)

    slopes: Tree = grad(risk)(w)
    return slopes


def _moved(w: Tree, step: float | Tensor, direction: Tree) -> Tree:
    return {name: tensor + step * direction[name] for name, tensor in w.items()}


def _as_adapted(parameters: Tree, w: Tree) -> Tree:
    """Return w, and the model's tensors that are not trained, as the adapted model."""
    model = {name: t for name, t in {**parameters, **w}.items() if name.startswith("model.")}
    return {name.replace("model.", "adapted.", 1): tensor for name, tensor in model.items()}


def _parts(batch: Batch, count: int) -> list[Batch]:
    """Return every ``count``-th sample from the first, the second ...; all of a smaller batch."""
    if len(batch["inputs"]) < count:
        return [batch] * count
    return [{name: c[start::count] for name, c in batch.items()} for start in range(count)]
