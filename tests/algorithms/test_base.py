"""The base class: what the server remembers by default, and what must be declared."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from pydantic import PrivateAttr
from torch import nn

from comity.algorithms import Algorithm, Need, algorithm, algorithms
from comity.algorithms.registry import implies_losses
from comity.core.phases import Phase
from comity.core.typing import FloatArray
from tests.laws.test_rules import restored, saved
from tests.tiny import PEOPLE


class Remembering(Algorithm):
    """Remembers some of everything."""

    _count: int = PrivateAttr(0)
    _weights: FloatArray | None = PrivateAttr(None)
    _turns: list[int] = PrivateAttr(default_factory=list)
    _round: dict[int, float] = PrivateAttr(default_factory=dict)
    _transient: ClassVar[tuple[str, ...]] = ("_round",)


def declared(cls: type[Algorithm]) -> type[Algorithm]:
    words = {
        "title": "x",
        "paper": "x",
        "place": "global model",
        "method": "x",
        "communication": "x",
    }
    return algorithm("undeclared", **words)(cls)


def test_private_attributes_survive_a_file():
    first, second = Remembering(), Remembering()
    assert first.state() == {"count": 0, "turns": []}
    first._count, first._weights, first._turns = 3, np.array([0.1, 0.2]), [2, 1]
    first._round = {1: 0.5}
    second.load(restored(saved(first.state())))
    assert (second._count, second._turns, second._round) == (3, [2, 1], {})
    np.testing.assert_array_equal(second._weights, first._weights)


def test_what_cannot_be_saved_is_no_silent_loss():
    class Forgetting(Algorithm):
        _known: dict[int, float] = PrivateAttr(default_factory=dict)

    forgetting = Forgetting()
    forgetting._known = {0: 0.5}
    with pytest.raises(TypeError, match=r"Forgetting\._known: override state"):
        forgetting.state()


def test_a_build_of_its_own_needs_losses():
    class Wrapping(Algorithm):
        def build(self, model: nn.Module, problem: Any) -> nn.Module:
            return model

    class Reading(Algorithm):
        needs: ClassVar[frozenset[Need]] = frozenset({"classes"})

    class Surveying(Algorithm):
        surveys: ClassVar[tuple[str, ...]] = ("losses",)

    for cls in (Wrapping, Reading, Surveying):
        assert implies_losses(cls)
        with pytest.raises(TypeError, match="needs must contain 'losses'"):
            declared(cls)
    assert "undeclared" not in algorithms()


def test_alone_a_client_trains_its_own_objective():
    class Apart(Algorithm):
        def phases(self, problem: Any) -> list[Phase]:
            return [Phase(per_objective=True, surveyed=True, weights=lambda view: view, share=0.5)]

    assert list(Apart().local_phases(PEOPLE)) == [Phase(share=0.5)]
