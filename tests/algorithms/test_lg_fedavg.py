from __future__ import annotations

import pytest
import torch

from comity.algorithms import make
from comity.core.phases import Phase
from tests.algorithms.referee import Referee, ends, federated
from tests.tiny import ANSWERS, assert_private_stays, assert_sends
from tests.vectors import FEDPER_LG, fleet, round_of


@pytest.mark.parametrize(
    ("weighting", "wanted"),
    [("sizes", FEDPER_LG["lg_head"]), ("uniform", FEDPER_LG["lg_head_uniform"])],
)
def test_heads_are_averaged(weighting, wanted):
    heads = fleet([[value] for value in FEDPER_LG["head"]])
    algorithm = make("lg-fedavg", {"weighting": weighting})
    mixing = algorithm.mix(round_of(heads, heads, sizes=FEDPER_LG["sizes"]))["*"]
    assert heads.mix(mixing.weights)["0"].item() == pytest.approx(wanted, abs=1e-4)
    assert algorithm.phases(ANSWERS) == [Phase()]


@pytest.mark.parametrize("weighting", ["sizes", "uniform"])
def test_three_rounds_are_those_of_plain_pytorch(weighting):
    """The upper layer is shared, not the lower one; who is absent meets a head that moved on."""
    configuration = federated("lg-fedavg", weighting=weighting)
    referee = Referee(configuration, {"0.": "body.0.", "2.": "head."})
    found = ends(configuration)
    averaged = referee.averaged(lambda name: name.startswith("2."), weighting == "uniform")
    for models, all_models in zip(found, averaged, strict=True):
        for client, model in enumerate(all_models):
            referee.assert_holds(models, client, model)
    heads, bodies = found[-1]["head.weight"], found[-1]["body.0.weight"]
    assert torch.equal(heads[0], heads[1])
    assert not torch.equal(bodies[0], bodies[1])


def test_only_the_head_travels():
    assert_sends("lg-fedavg", {"head"})


def test_bodies_stay_and_wait_for_their_client():
    assert_private_stays("lg-fedavg", "body.")
