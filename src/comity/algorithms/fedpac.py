"""FedPAC (Xu et al., 2023): features aligned to class centroids, one combined head per client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import PrivateAttr
from torch import Tensor, nn

from comity.algorithms.base import Need, Round, Survey
from comity.algorithms.fedavg import FedAvg
from comity.algorithms.parts import split
from comity.algorithms.registry import algorithm
from comity.core.mixing import Mixing
from comity.core.phases import Batch, Phase, Update, View
from comity.core.solvers import min_norm
from comity.core.typing import FloatArray, Tree
from comity.problems import Problem
from comity.settings import setting

_LEAST = 1e-3  # smaller weights of heads count as zero


class Aligned(nn.Module):
    """Body and head, and the centroid of each class in the client's features."""

    def __init__(self, body: nn.Module, head: nn.Linear) -> None:
        super().__init__()
        self.body, self.head = body, head
        classes, width = head.out_features, head.in_features
        self.centroids = nn.Parameter(torch.zeros(classes, width), requires_grad=False)
        self.counts = nn.Parameter(torch.zeros(classes), requires_grad=False)

    def forward(self, inputs: Tensor, features: bool = False) -> Tensor:
        """Return outputs, or the features under the head."""
        hidden: Tensor = self.body(inputs)
        return hidden if features else self.head(hidden)


def by_class(features: Tensor, batch: Batch, classes: int) -> tuple[Tensor, Tensor]:
    """Return features summed by class (classes x width), and the number of samples per class."""
    of_class = batch["label"].unsqueeze(-1) == torch.arange(classes)
    weights = of_class * batch["weight"].unsqueeze(-1)
    return weights.T @ features, weights.sum(dim=0)


def combination(moments: FloatArray, variances: FloatArray, client: int) -> FloatArray:
    """Return a client's weights over all heads: argmin_α αᵀ (diag V + D) α on the simplex.

    Args:
        moments: inner products ⟨h_j, h_k⟩ of the clients' moments (n x n).
        variances: V (n).
        client: row i; D_jk = ⟨h_i − h_j, h_i − h_k⟩.
    """
    row = moments[client]
    distances = row[client] - row[:, None] - row[None] + moments
    weights = min_norm(np.diag(variances + 1e-8) + distances)
    weights = np.where(weights < _LEAST, 0.0, weights)
    return np.asarray(weights / weights.sum())


@algorithm(
    "fedpac",
    title="FedPAC",
    paper="Xu et al., 2023",
    place="personalised models",
    method="feature alignment; heads combined by estimated risk",
    communication=(
        "body, head, class centroids and moments of features; back, body, own head, centroids"
    ),
)
class FedPAC(FedAvg):
    """First the head, then the body on f_i + λ mean ‖z − c_y‖²; heads by how alike the data are.

    All clients get the new body; heads are combined for the participants alone.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"classes", "losses"})
    shared_update: ClassVar[tuple[str, ...]] = ("body.*",)
    sends: ClassVar[tuple[str, ...]] = ("body.*", "head.*")
    statistics: ClassVar[tuple[str, ...]] = ("centroids", "counts")
    surveys: ClassVar[tuple[str, ...]] = ("moments", "variance")
    amounts: ClassVar[tuple[str, ...]] = ("counts",)

    strength: float = setting(1.0, "λ: pull of features to their class' centroid", at_least=0)
    head_passes: float = setting(1.0, "passes over the data for the head in a round", above=0)

    _centroids: FloatArray | None = PrivateAttr(None)
    _known: FloatArray | None = PrivateAttr(None)
    _moments: dict[int, tuple[FloatArray, float]] = PrivateAttr(default_factory=dict)
    """h_i and V_i of each client in this round."""
    _transient: ClassVar[tuple[str, ...]] = ("_moments",)

    def build(self, model: nn.Module, problem: Problem) -> nn.Module:
        return Aligned(*split(model, problem))

    def survey_client(self, problem: Problem) -> Update:
        def counted(parameters: Tree, everything: Batch, view: View) -> Tree:
            features = view.forward(parameters, everything["inputs"], True)
            sums, _ = by_class(features, everything, len(parameters["counts"]))
            size = everything["weight"].sum()
            moments = sums / size
            squares = (features.square().sum(dim=-1) * everything["weight"]).sum() / size
            return {"moments": moments, "variance": (squares - moments.square().sum()) / size}

        return counted

    def broadcast(self, survey: Survey) -> dict[str, FloatArray]:
        pairs = zip(survey.values["moments"], survey.values["variance"], strict=True)
        self._moments = {
            c: (h, float(v)) for c, (h, v) in zip(survey.participants, pairs, strict=True)
        }
        shape = survey.values["moments"].shape[1:]
        if self._centroids is None or self._known is None:
            return {"centroids": np.zeros(shape), "known": np.zeros(shape[0])}
        return {"centroids": self._centroids, "known": self._known}

    def phases(self, problem: Problem) -> list[Phase]:
        def aligned(parameters: Tree, batch: Batch, view: View) -> Tensor:
            features = view.forward(parameters, batch["inputs"], True)
            outputs = F.linear(features, parameters["head.weight"], parameters.get("head.bias"))
            label = batch["label"].long()
            away = (features - view.broadcast["centroids"][label]).square().mean(dim=-1)
            pull = (away * view.broadcast["known"][label]).mean()
            return view.objective(outputs, batch) + self.strength * pull

        def centred(parameters: Tree, everything: Batch, view: View) -> Tree:
            features = view.forward(parameters, everything["inputs"], True)
            sums, counts = by_class(features, everything, len(parameters["counts"]))
            return {"centroids": sums / counts.clamp(min=1).unsqueeze(-1), "counts": counts}

        return [
            Phase(train=("head.*",), passes=self.head_passes),
            Phase(train=("body.*",), loss=aligned, after=centred),
        ]

    def local_phases(self, problem: Problem) -> list[Phase]:
        return [Phase()]

    def mix(self, round: Round) -> Mapping[str, Mixing]:
        counts = round.statistics["counts"]
        sums = (round.statistics["centroids"] * counts[..., None]).sum(axis=0)
        self._known = (counts.sum(axis=0) > 0).astype(np.float64)
        self._centroids = sums / np.maximum(counts.sum(axis=0), 1.0)[:, None]
        body = Mixing.shared(round.sizes, receivers=round.clients)
        heads = Mixing.personal(self._head_weights(round), receivers=round.participants)
        return {"head.*": heads, "*": body}

    def _head_weights(self, round: Round) -> FloatArray:
        """Return weights over the sent heads, one row per participant.

        A participant whose moments were not finite keeps the head that it sent, for itself alone.
        """
        places = [i for i, client in enumerate(round.participants) if client in self._moments]
        weights = np.eye(len(round.participants))
        if places:
            known = [self._moments[round.participants[i]] for i in places]
            stacked = np.stack([moments.ravel() for moments, _ in known])
            products, variances = stacked @ stacked.T, np.array([v for _, v in known])
            rows = [combination(products, variances, i) for i in range(len(places))]
            weights[np.ix_(places, places)] = np.stack(rows)
        return weights
