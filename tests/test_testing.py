"""The helper that checks an algorithm of one's own finds what is wrong with it."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

import comity
from comity.testing import check_algorithm
from tests import tiny  # noqa: F401  (which makes its problems known)
from tests.classics import NAMES

SMALL = {"problem": "tiny-people", "supervised": {"optimiser": "sgd", "learning_rate": 0.1}}
WORDS = dict.fromkeys(("title", "paper", "method", "communication"), "x")
DICE = np.random.default_rng(1)


class Mean(comity.Algorithm):
    personal = False

    def weights(self, round: Any) -> Any:
        return round.sizes

    def mix(self, round: Any) -> Any:
        return {"*": comity.Mixing.shared(self.weights(round), receivers=round.clients)}


class Unseeded(Mean):
    def weights(self, round: Any) -> Any:
        return DICE.uniform(size=len(round.participants))


class Favouring(Mean):
    def weights(self, round: Any) -> Any:
        return 1.0 + (np.array(round.participants) == 0)


class Forgetful(Mean):
    _round: int = 0
    _transient: ClassVar[tuple[str, ...]] = ("_round",)

    def weights(self, round: Any) -> Any:
        self._round += 1
        return round.sizes**self._round if self._round > 1 else np.ones(len(round.sizes))


class Amnesic(Forgetful):
    """Forgets as well, under a name of its own."""


class Endless(Mean):
    def server_step(self, held: Any, mixed: Any) -> Any:
        return mixed * float("inf")


class Altering(Mean):
    def mix(self, round: Any) -> Any:
        round.sent["0.weight"].mul_(0.5)
        return super().mix(round)


class Complete(Mean):
    def weights(self, round: Any) -> Any:
        return np.ones(len(round.clients))


class Dishonest(Mean):
    def mix(self, round: Any) -> Any:
        return {"*": comity.Mixing(round.sizes[None], dict.fromkeys(round.clients, 0))}


@pytest.mark.parametrize(
    "name", [*NAMES, "fedavg", "fedpref", "fedpac", "fsmgda", "fedcmoo", "scaffold", "fedadam"]
)
def test_sound_algorithms_pass(name):
    problem = "tiny-answers" if name == "fedpac" else "tiny-people"
    laws = check_algorithm(name, **{**SMALL, "problem": problem})
    assert "absent clients are not wrong" in laws


def test_on_an_environment():
    check_algorithm("classics:BySteps", problem="tiny-treasure")


def test_without_a_server():
    settings = {**SMALL, "topology": "neighbours", "graph": "ring", "sizes": "8,4,2,1"}
    check_algorithm("fedpref", **settings)
    comity.algorithm("test-amnesic", place="global model", **WORDS)(Amnesic)
    with pytest.raises(AssertionError, match="interrupted and resumed"):
        check_algorithm("test-amnesic", **settings)


@pytest.mark.parametrize(
    ("cls", "law"),
    [
        (Endless, "it runs, and models stay finite: AssertionError: round 1: what"),
        (Altering, "it runs, and models stay finite: .*mix changes round.sent in place: 0.weight"),
        (Unseeded, "the same configuration gives the same bits: AssertionError: other bits in"),
        (Favouring, "reordering clients changes nothing"),
        (Forgetful, "an interrupted and resumed run equals an uninterrupted one"),
        (Complete, "absent clients are not wrong: .*mixing has 4 columns"),
        (Dishonest, "mixing rows must sum to one"),
    ],
)
def test_faults_are_found(cls, law):
    name = f"test-{cls.__name__.lower()}"
    comity.algorithm(name, place="global model", **WORDS)(cls)
    with pytest.raises(AssertionError, match=f"{name}: .*({law})"):
        check_algorithm(cls, sizes="8,4,2,1", **SMALL)
