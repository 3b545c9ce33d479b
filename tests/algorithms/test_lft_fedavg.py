from __future__ import annotations

import numpy as np
import pytest

from comity.algorithms import Round, find, make
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import RoundLoop
from comity.federation.server import Server
from comity.problems.data import batch_of
from tests.tiny import tiny
from tests.vectors import fleet


def weights(totals, **values) -> np.ndarray:
    sent = fleet([[float(i)] for i in range(len(totals))])
    told = {"total": np.array(totals, dtype=float)}
    ids = tuple(range(len(totals)))
    # data sizes say the opposite and must not matter
    round = Round(1, ids, (*ids, 9), sent, sent, np.arange(len(totals))[::-1] + 1.0, told)
    mixing = make("lft-fedavg", values).mix(round)["*"]
    mixing.check(len(totals))
    assert set(mixing.route) == {*ids, 9}, "also who was absent"
    return mixing.weights


def test_clients_count_by_the_sum_of_their_sample_weights():
    """The correct mean; the public code gives the first of 500, 300, 200 a weight of .002."""
    np.testing.assert_allclose(weights([500, 300, 200]), [[0.5, 0.3, 0.2]])
    np.testing.assert_allclose(weights([1.2, 0.8]), [[0.6, 0.4]])


def test_the_public_codes_average_does_not_weigh_the_first_client():
    """Sums over 30 passes, 36 and 24, beside a weight of one."""
    found = weights([1.2, 0.8], average="public")
    np.testing.assert_allclose(found, [[1 / 60, 0.4]])


def test_clients_without_any_weight_do_not_break_the_mean():
    """λ may end where a client has no samples: then all its samples weigh nothing."""
    np.testing.assert_allclose(weights([0.0, 0.0]).sum(), 1.0)


@pytest.mark.parametrize(
    ("problem", "alpha"), [("praffl-compas", 1e-6), ("german-credit-gender-dp", 0.3)]
)
def test_defaults_are_the_papers(problem, alpha):
    assert tiny(problem=problem, algorithm="lft-fedavg", clients=2).algorithm_settings == {
        "alpha": alpha,
        "balancing": "levelling",
        "average": "weighted",
    }


def test_what_clients_tell_is_what_they_gave_to_their_samples():
    configuration = tiny(problem="tiny-people", algorithm="lft-fedavg", rounds=1, chunk=4)
    problem = configuration.get_problem()
    with EmbeddedEngine(configuration) as engine:
        ((record,),) = RoundLoop(engine, Server(configuration)).rounds()
        models = engine.models(kept=False)
    totals = []
    for client, share in enumerate(problem.client_rows()):
        data = batch_of(problem.columns(), share.train)
        m = models["cells"][client].sum(dim=0)
        v = models["balance"][client] / m
        totals.append(float(v[data["label"].long(), data["group:gender"]].sum()))
    wanted = np.array(totals) / np.sum(totals)
    assert record.mixing is not None
    np.testing.assert_allclose(record.mixing, np.tile(wanted, (4, 1)), rtol=1e-5)
    assert find("lft-fedavg").sends == ("model.*",), "λ and counts stay with the client"
