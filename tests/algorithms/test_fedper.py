from __future__ import annotations

import pytest
import torch

from comity.algorithms import make
from comity.core.phases import Phase
from tests.algorithms.referee import Referee, ends, federated
from tests.tiny import ANSWERS, assert_private_stays, assert_sends, product
from tests.vectors import FEDPER_LG, fleet, round_of


def test_body_and_head_take_the_same_steps():
    """One phase for all tensors: not FedRep's turns, not FedBABU's fixed head."""
    algorithm = make("fedper", {})
    assert algorithm.phases(ANSWERS) == [Phase()]
    module = algorithm.build(product(1.0, 2.0), ANSWERS)
    assert {name.partition(".")[0] for name in module.state_dict()} == {"body", "head"}


def test_bodies_are_averaged_by_size():
    bodies = fleet([[value] for value in FEDPER_LG["body"]])
    mixing = make("fedper", {}).mix(round_of(bodies, bodies, sizes=FEDPER_LG["sizes"]))["*"]
    found = bodies.mix(mixing.weights)["0"].item()
    assert found == pytest.approx(FEDPER_LG["fedper_body"], abs=1e-4)


def test_three_rounds_are_those_of_plain_pytorch():
    """The client that is absent in the second round goes on with its head under the new body."""
    configuration = federated("fedper")
    referee = Referee(configuration, {"0.": "body.0.", "2.": "head."})
    found = ends(configuration)
    for models, all_models in zip(
        found, referee.averaged(lambda name: name.startswith("0.")), strict=True
    ):
        for client, model in enumerate(all_models):
            referee.assert_holds(models, client, model)
    heads, bodies = found[-1]["head.weight"], found[-1]["body.0.weight"]
    assert not torch.equal(heads[0], heads[1])
    assert torch.equal(bodies[0], bodies[1])


def test_only_the_body_travels():
    assert_sends("fedper", {"body"})


def test_heads_stay_and_wait_for_their_client():
    assert_private_stays("fedper", "head.")
