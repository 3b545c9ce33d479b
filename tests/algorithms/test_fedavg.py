from __future__ import annotations

import numpy as np

from comity.algorithms import make
from tests.vectors import FEDAVG, fleet, round_of


def test_the_mean_is_weighted_by_data():
    sent = fleet(FEDAVG["theta"])
    mixing = make("fedavg", {}).mix(round_of(sent, sent.mean(), sizes=FEDAVG["n_samples"]))["*"]
    assert mixing.weights.shape == (1, 2), "one shared model is one row"
    np.testing.assert_allclose(sent.mix(mixing.weights)["0"][0], FEDAVG["avg"])


def test_weights_renormalise_when_a_client_drops_out():
    sent = fleet(FEDAVG["theta"][:1])
    mixing = make("fedavg", {}).mix(round_of(sent, sent, sizes=FEDAVG["n_samples"][:1]))["*"]
    np.testing.assert_allclose(sent.mix(mixing.weights)["0"][0], FEDAVG["avg_if_client1_dropped"])


def test_everybody_gets_the_shared_row_also_who_was_absent():
    sent = fleet([[1.0], [3.0]])
    round = round_of(sent, sent)
    mixing = make("fedavg", {}).mix(
        type(round)(**{**round.__dict__, "participants": (0, 2), "clients": (0, 1, 2)})
    )["*"]
    assert dict(mixing.route) == {0: 0, 1: 0, 2: 0}
