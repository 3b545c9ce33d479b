"""FedBABU (Oh et al., 2022): train the body under the initial head; fine-tune in the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import nn

from comity.algorithms.base import Need
from comity.algorithms.fedavg import FedAvg
from comity.algorithms.parts import Split, split
from comity.algorithms.registry import algorithm
from comity.core.phases import Phase
from comity.problems import Problem


@algorithm(
    "fedbabu",
    title="FedBABU",
    paper="Oh et al., 2022",
    place="personalised models",
    method="shared body, head fine-tuned in the end",
    communication="the body, both ways; the head is the common initial one",
)
class FedBABU(FedAvg):
    """b ← mean of the bodies; after the last round every client trains body and head.

    The head is still the initial one, so fine-tuning takes the work of five rounds by default.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"losses"})
    sends: ClassVar[tuple[str, ...]] = ("body.*",)
    run_defaults: ClassVar[Mapping[str, Any]] = {"fine_tune": "extra:5"}

    def build(self, model: nn.Module, problem: Problem) -> nn.Module:
        return Split(*split(model, problem))

    def phases(self, problem: Problem) -> list[Phase]:
        return [Phase(train=("body.*",))]

    def local_phases(self, problem: Problem) -> list[Phase]:
        return [Phase()]
