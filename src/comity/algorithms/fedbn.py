"""FedBN (Li et al., 2021): everything is averaged but batch normalisation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np
from torch import nn

from comity.algorithms.base import Algorithm, Need, Round
from comity.algorithms.registry import algorithm
from comity.core.mixing import Mixing
from comity.core.running import BATCH_NORM
from comity.errors import UserError
from comity.problems import Problem
from comity.settings import setting


@algorithm(
    "fedbn",
    title="FedBN",
    paper="Li et al., 2021",
    place="personalised models",
    method="local batch normalisation, all other layers shared",
    communication="all layers but batch normalisation, both ways",
)
class FedBN(Algorithm):
    """θ ← Σ_i p_i θ_i' for all tensors but those of layers that normalise batches.

    Such a layer computes γ (x − μ) / √(σ² + ε) + β. Its γ, β and running μ, σ² are the client's
    own. Other kinds of normalisation (layers, groups) keep no statistics and are shared. A client
    that never took part predicts with the initial statistics, not with somebody else's.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"losses"})
    personal: ClassVar[bool] = False
    reads_start: ClassVar[bool] = False
    shared_update: ClassVar[tuple[str, ...]] = ("*",)

    weighting: Literal["sizes", "uniform"] = setting(
        "sizes", "p: shares of the data, or all clients alike as in the authors' code"
    )

    def build(self, model: nn.Module, problem: Problem) -> nn.Module:
        if not any(isinstance(layer, BATCH_NORM) for layer in model.modules()):
            raise UserError(
                f"fedbn keeps batch normalisation to the clients, and the network of {problem.name}"
                " has none: it would be fedavg. Use a problem whose name ends in -bn, or fedavg."
            )
        return model

    def travelling(self, module: nn.Module) -> list[str]:
        """Return the names of all tensors outside batch normalisation, found by type of layer."""
        own = {
            f"{layer}.{name}" if layer else name
            for layer, part in module.named_modules(remove_duplicate=False)
            if isinstance(part, BATCH_NORM)
            for name in part.state_dict()
        }
        return [name for name in module.state_dict() if name not in own]

    def mix(self, round: Round) -> Mapping[str, Mixing]:
        weights = round.sizes if self.weighting == "sizes" else np.ones(len(round.participants))
        return {"*": Mixing.shared(weights, receivers=round.clients)}
