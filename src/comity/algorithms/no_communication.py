"""No communication: clients train alone, with the same amount of local work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from comity.algorithms.base import Algorithm, Round
from comity.algorithms.registry import algorithm
from comity.core.mixing import Mixing


@algorithm(
    "no-communication",
    title="No communication",
    paper="the lower bound of every comparison",
    place="not federated",
    method="local training",
    communication="nothing",
)
class NoCommunication(Algorithm):
    """Every client trains alone, from the same initial model as in the federations."""

    communicates: ClassVar[bool] = False

    def mix(self, round: Round) -> Mapping[str, Mixing]:
        return {"*": Mixing.personal(np.eye(len(round.participants)), round.participants)}
