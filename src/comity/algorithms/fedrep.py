"""FedRep (Collins et al., 2021): a shared representation, a private head."""

from __future__ import annotations

from typing import ClassVar

from torch import nn

from comity.algorithms.base import Need
from comity.algorithms.fedavg import FedAvg
from comity.algorithms.parts import Split, split
from comity.algorithms.registry import algorithm
from comity.core.phases import Phase
from comity.problems import Problem
from comity.settings import setting


@algorithm(
    "fedrep",
    title="FedRep",
    paper="Collins et al., 2021",
    place="personalised models",
    method="shared body, local heads",
    communication="the body, both ways; heads stay",
)
class FedRep(FedAvg):
    """In each round train the head on the fixed body, then the body under that head."""

    needs: ClassVar[frozenset[Need]] = frozenset({"losses"})
    sends: ClassVar[tuple[str, ...]] = ("body.*",)

    head_share: float = setting(1.0, "steps for the head, as a multiple of the body's", above=0)

    def build(self, model: nn.Module, problem: Problem) -> nn.Module:
        return Split(*split(model, problem))

    def phases(self, problem: Problem) -> list[Phase]:
        return [Phase(train=("head.*",), share=self.head_share), Phase(train=("body.*",))]
