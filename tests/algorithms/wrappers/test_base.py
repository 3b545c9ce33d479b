"""The registry of wrappers, with one that halves the server's step."""

from __future__ import annotations

import pytest

from comity.algorithms import Round, find
from comity.algorithms.wrappers import Mixings, Wrapper, base, find_wrapper, fits, wrapper, wrappers
from comity.configuration import configure
from comity.core.mixing import Mixing
from comity.errors import UserError
from comity.runs.entries import entry_values, with_wrapper
from comity.settings import setting
from tests.tiny import tiny


@pytest.fixture
def halved(monkeypatch) -> type[Wrapper]:
    monkeypatch.setattr(base, "_REGISTRY", dict(base._REGISTRY))

    words = {"title": "Half of every step", "paper": "a test"}

    @wrapper("halved", place="global model", method="half of the mean", **words)
    class Halved(Wrapper):
        share: float = setting(0.5, "of the step", above=0, at_most=1)

        @classmethod
        def check(cls, algorithm):
            if algorithm.declaration.name != "fedavg":
                raise UserError(f"halved does not fit {algorithm.declaration.name}.")

        def adjust(self, mixings: Mixings, round: Round, shared_update):
            weights = self.share * round.sizes / round.sizes.sum()
            base = round.start.select([0])
            return {"*": Mixing.step(weights, receivers=round.clients, base=base)}, {"share": 1.0}

    return Halved


def test_wrappers_are_found_by_name(halved):
    assert set(wrappers()) >= {"confree", "scaled-mean", "clip", "halved"}
    assert find_wrapper("halved") is halved
    assert fits(halved, find("fedavg"))
    assert not fits(halved, find("fedprox"))
    with pytest.raises(UserError, match=r"unknown wrapper 'halve'\. Did you mean 'halved'"):
        find_wrapper("halve")


def test_a_configuration_takes_any_of_them(halved):
    named = tiny(problem="tiny-people", algorithm=halved("fedavg", share=0.25))
    assert named.label == "fedavg+halved"
    assert named.wrapper_settings == {"halved": {"share": 0.25}}
    assert named.get_wrappers() == [halved(share=0.25)]
    values = {"problem": "tiny-people", "wrapper": "halved"}
    assert configure({**values, "algorithm": "fedavg"}).wrapper_settings == {
        "halved": {"share": 0.5}
    }
    for wrong, words in (
        ({"algorithm": "fedprox"}, "halved does not fit fedprox"),
        ({"algorithm": "fedavg", "halved": {"share": 2}}, r"halved\.share = 2"),
        ({"algorithm": "fedavg", "confree": {}}, "unknown setting 'confree'"),
        ({"algorithm": "fedavg", "wrapper": "halve"}, "unknown wrapper 'halve'"),
    ):
        with pytest.raises(UserError, match=words):
            configure({**values, **wrong})
    with pytest.raises(UserError, match=r"halved\.share = 2"):
        halved("fedavg", share=2)
    with pytest.raises(UserError, match=r"Halved needs an algorithm to go on top of"):
        configure({"problem": "tiny-people", "algorithm": halved()})


def test_a_comparison_takes_any_of_them(halved):
    assert entry_values("fedavg+halved+ft[halved.share=0.2]") == {
        "algorithm": "fedavg",
        "wrapper": "halved",
        "fine_tune": "replace-last",
        "halved": {"share": 0.2},
    }
    assert with_wrapper(["fedavg", "fedprox"], "halved") == ["fedavg", "fedavg+halved", "fedprox"]
    with pytest.raises(UserError, match=r"NAME\+confree, .*NAME\+halved, NAME\+ft"):
        entry_values("fedavg+other")
