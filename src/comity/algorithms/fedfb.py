"""FedFB (Zeng et al., 2021): FairBatch's weights, kept by the server for all clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np
from pydantic import PrivateAttr
from torch import Tensor

from comity.algorithms.base import Algorithm, Need, Round, Survey
from comity.algorithms.fairbatch import PUBLIC_PASSES, Cells, cross_entropy, public_average
from comity.algorithms.registry import algorithm
from comity.core.mixing import Mixing
from comity.core.phases import Batch, Phase, Update, View
from comity.core.typing import FloatArray, Tree
from comity.errors import UserError
from comity.problems import Problem
from comity.settings import setting


@algorithm(
    "fedfb",
    title="FedFB",
    paper="Zeng et al., 2021",
    place="global model",
    method="weights of groups kept by the server (FairBatch)",
    communication=(
        "the model, losses and counts by label and group; back, the model and weights of these"
    ),
)
class FedFB(Algorithm):
    """Clients train on Σ_i λ(y_i, z_i) / m_{z_i} · CE_i; the server moves λ to level the groups.

    f_z = Σ_k (−l_00 + l_10) / m_0 + (l_0z − l_1z) / m_z, plus m_00 / m_0 − m_0z / m_z once;
    λ(0,z) += α / √t f_z for z ≥ 1, λ(0,0) −= their sum, within [0, 2 m_z / n], and
    λ(1,z) = 2 m_z / n − λ(0,z).
    """

    personal: ClassVar[bool] = False
    needs: ClassVar[frozenset[Need]] = frozenset({"attribute", "losses"})
    surveys: ClassVar[tuple[str, ...]] = ("cell_losses", "cells")
    amounts: ClassVar[tuple[str, ...]] = ("cells", "cell_losses")

    alpha: float = setting(0.3, "step size of the weights λ", at_least=0)
    average: Literal["weighted", "public"] = setting(
        "weighted", "weighted mean of models; public: the public code's, first client unweighted"
    )

    _balance: FloatArray | None = PrivateAttr(None)
    _sample_weights: FloatArray | None = PrivateAttr(None)
    """n λ(y, z) / m_z, as last broadcast."""
    _moves: int = PrivateAttr(0)
    _totals: dict[int, float] = PrivateAttr(default_factory=dict)
    """Sum of the sample weights of each client in this round."""
    _transient: ClassVar[tuple[str, ...]] = ("_totals",)

    def survey_client(self, problem: Problem) -> Update:
        cells = Cells(problem)

        def counted(parameters: Tree, everything: Batch, view: View) -> Tree:
            entropy = cross_entropy(
                view.forward(parameters, everything["inputs"]), everything["label"]
            )
            return {
                "cell_losses": cells.sums(entropy, everything),
                "cells": cells.counts(everything),
            }

        return counted

    def broadcast(self, survey: Survey) -> dict[str, FloatArray]:
        """Move λ by the losses under the received model; return n λ(y,z) / m_z as ``weights``."""
        counts = survey.values["cells"]
        if not survey.participants:
            if self._sample_weights is None:
                raise UserError("No client has finite losses at the first model: check the data.")
            return {"weights": self._sample_weights}
        cells = counts.sum(axis=0)
        members = np.maximum(cells.sum(axis=0), 1.0)
        if self._balance is None:  # losses of the common initial model mean nothing
            self._balance = np.stack([members, members]) / cells.sum()
        else:
            losses = survey.values["cell_losses"].sum(axis=0)
            self._balance = self._moved(self._balance, losses, cells)
        weights = self._balance / members
        self._totals = {
            client: float((count * weights).sum())
            for client, count in zip(survey.participants, counts, strict=True)
        }
        self._sample_weights = cells.sum() * weights
        return {"weights": self._sample_weights}

    def _moved(self, balance: FloatArray, losses: FloatArray, cells: FloatArray) -> FloatArray:
        """Return λ after a step, from l_yz and m_yz summed over participants."""
        members = np.maximum(cells.sum(axis=0), 1.0)
        g = (losses[0] - losses[1]) / members
        f = g[1:] - g[0] + cells[0, 0] / members[0] - cells[0, 1:] / members[1:]
        self._moves += 1
        step = self.alpha / np.sqrt(self._moves) * f
        most = 2 * members / cells.sum()
        first = np.clip(balance[0] + np.concatenate([[-step.sum()], step]), 0.0, most)
        return np.stack([first, most - first])

    def phases(self, problem: Problem) -> list[Phase]:
        cells = Cells(problem)

        def loss(parameters: Tree, batch: Batch, view: View) -> Tensor:
            entropy = cross_entropy(view.forward(parameters, batch["inputs"]), batch["label"])
            return (cells.pick(view.broadcast["weights"], batch) * entropy).mean()

        return [Phase(loss=loss)]

    def local_phases(self, problem: Problem) -> list[Phase]:
        """Train on the client's own objective: there is no λ."""
        return [Phase()]

    def mix(self, round: Round) -> Mapping[str, Mixing]:
        totals = np.array([self._totals.get(client, 0.0) for client in round.participants])
        weights = totals if totals.any() else round.sizes
        if self.average == "public":
            return {"*": public_average(PUBLIC_PASSES * weights, round)}
        return {"*": Mixing.shared(weights, receivers=round.clients)}
