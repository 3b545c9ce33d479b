"""FedPer (Arivazhagan et al., 2019): a shared base and a private head, trained together."""

from __future__ import annotations

from typing import ClassVar

from torch import nn

from comity.algorithms.base import Need
from comity.algorithms.fedavg import FedAvg
from comity.algorithms.parts import Split, split
from comity.algorithms.registry import algorithm
from comity.problems import Problem


@algorithm(
    "fedper",
    title="FedPer",
    paper="Arivazhagan et al., 2019",
    place="personalised models",
    method="shared body, local heads, trained together",
    communication="the body, both ways; heads stay",
)
class FedPer(FedAvg):
    """Clients train (b, h_i) together, in every step; b ← Σ_i n_i b_i' / Σ_j n_j.

    The head is the last layer. All heads start alike; in the paper each starts at random.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"losses"})
    sends: ClassVar[tuple[str, ...]] = ("body.*",)

    def build(self, model: nn.Module, problem: Problem) -> nn.Module:
        return Split(*split(model, problem))
