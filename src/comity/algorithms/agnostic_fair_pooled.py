"""AgnosticFair as its public code runs it: one model on the pooled data of all clients.

The published method (Du et al., 2021) is a federated minimax over reweighted clients; published
comparisons use this one. It is not federated: raw data leave every client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from comity.algorithms.base import Algorithm, Need, Round
from comity.algorithms.fairbatch import Cells, cross_entropy
from comity.algorithms.registry import algorithm
from comity.core.mixing import Mixing
from comity.core.phases import Batch, Phase, View
from comity.core.typing import Tree
from comity.problems import DataProblem, Problem
from comity.settings import setting


def covariation(outputs: Tensor, group: Tensor, mean: float) -> Tensor:
    """Return Σ_c mean_i [(a_i − ā)² (o_ic − ō_c)²], small where outputs do not vary by group."""
    products = (group - mean).unsqueeze(-1) * (outputs - outputs.mean(dim=0))
    return products.square().mean(dim=0).sum()


@algorithm(
    "agnostic-fair-pooled",
    title="AgnosticFair, pooled",
    paper="Du et al., 2021 (public code)",
    place="not federated",
    method="weights of groups and labels against the worst case, on pooled data",
    communication="the raw data of all clients to one place; back, the model",
)
class AgnosticFairPooled(Algorithm):
    """Minimise Σ_i CE_i + strength · `covariation` of outputs and attribute, on pooled data."""

    personal: ClassVar[bool] = False
    centralised: ClassVar[bool] = True
    needs: ClassVar[frozenset[Need]] = frozenset({"attribute", "losses"})

    strength: float = setting(2.0, "weight of the fairness term", at_least=0)

    def phases(self, problem: Problem) -> list[Phase]:
        assert isinstance(problem, DataProblem)
        column = Cells(problem).column
        rows = np.concatenate([share.train for share in problem.client_rows()])
        mean = float(problem.columns()[column][torch.from_numpy(rows)].double().mean())

        def loss(parameters: Tree, batch: Batch, view: View) -> Tensor:
            outputs = view.forward(parameters, batch["inputs"])
            error = cross_entropy(outputs, batch["label"]).sum()
            return error + self.strength * covariation(outputs, batch[column], mean)

        return [Phase(loss=loss)]

    def mix(self, round: Round) -> Mapping[str, Mixing]:
        first = np.array([client == round.clients[0] for client in round.participants], dtype=float)
        # if its training broke, the others hold the model from which it started
        weights = first if first.any() else np.ones(len(round.participants))
        return {"*": Mixing.shared(weights, receivers=round.clients)}
