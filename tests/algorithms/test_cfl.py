from __future__ import annotations

import numpy as np
import pytest

from comity.algorithms import make
from comity.core.clusters import Clusters
from comity.core.mixing import cosine, linkage_bipartition
from tests.vectors import CFL, fleet, round_of


def rounds(**settings):
    """CFL after one round in which the clients moved by the vector's updates from zero."""
    algorithm = make("cfl", settings)
    sent = fleet(CFL["delta"])
    mixing = algorithm.mix(round_of(sent, fleet([[0.0, 0.0]]), number=settings.get("round", 30)))
    return algorithm, sent, mixing["*"]


def test_similarity_and_mean_update():
    sent = fleet(CFL["delta"])
    gram = sent.gram(fleet([[0.0, 0.0]]))["0"]
    np.testing.assert_allclose(cosine(gram), CFL["cos"], atol=1e-5)
    assert np.sqrt(gram.mean()) == pytest.approx(CFL["mean_update_norm"], abs=1e-5)


@pytest.mark.parametrize("linkage", ["single", "complete"])
def test_bipartition(linkage):
    assert linkage_bipartition(np.array(CFL["cos"]), linkage) == CFL[f"split_{linkage}_linkage"]


def test_single_linkage_is_the_best_of_all_cuts():
    cos = np.array(CFL["cos"])

    def crossing(side: list[int]) -> float:
        other = [i for i in range(5) if i not in side]
        return float(cos[np.ix_(side, other)].max())

    cuts = [[i for i in range(5) if mask >> i & 1] for mask in range(1, 16)]
    best = min(crossing(side) for side in cuts)
    assert crossing(CFL["split_single_linkage"][1]) == pytest.approx(best)


def test_a_stalled_cluster_splits_and_each_part_gets_its_own_mean():
    algorithm, sent, mixing = rounds(threshold=2.0, patience=1)
    assert algorithm.diagnostics()["clusters"] == [[0, 1, 2, 3], [4]]
    assert mixing.weights.shape == (2, 5)
    rows = sent.mix(mixing.weights)["0"]
    np.testing.assert_allclose(rows[mixing.route[0]], np.mean(CFL["delta"][:4], axis=0), atol=1e-6)
    np.testing.assert_allclose(rows[mixing.route[4]], CFL["delta"][4], atol=1e-6)


def test_a_moving_cluster_stays_together():
    algorithm, _, mixing = rounds(threshold=1.0, patience=1)
    assert algorithm.diagnostics()["clusters"] == [[0, 1, 2, 3, 4]]
    assert mixing.weights.shape == (1, 5)


@pytest.mark.parametrize(
    ("settings", "splits"),
    [
        ({"largest_update": 1.0, "first_round": 20}, True),
        ({"largest_update": 2.5, "first_round": 20}, False),
        ({"largest_update": 1.0, "first_round": 30}, False),
    ],
)
def test_the_two_threshold_rule(settings, splits):
    algorithm, _, _ = rounds(rule="two-threshold", threshold=2.0, **settings)
    clusters = algorithm.diagnostics()["clusters"]
    assert clusters is not None
    assert (len(clusters) == 2) == splits


def test_patience_counts_rounds_in_a_row():
    """Norms 2.4 1.9 2.1 1.8 1.7 with threshold 2 and patience 2: the split comes in round 5."""
    clusters = Clusters(range(4))
    split_in = None
    for number, norm in enumerate(CFL["norm_history"], start=1):
        clusters.refine(
            range(4), lambda rows, norm=norm: norm <= 2.0, lambda rows: ([0, 1], [2, 3]), 2
        )
        if split_in is None and len(clusters.members) == 2:
            split_in = number
    assert split_in == 5


def test_rounds_in_which_nobody_learned_never_split():
    algorithm = make("cfl", {"threshold": 100.0, "patience": 1})
    still = fleet(CFL["delta"])
    for number in range(1, 6):
        algorithm.mix(round_of(still, still, number=number))
    assert algorithm.diagnostics()["clusters"] == [[0, 1, 2, 3, 4]]


def test_a_second_split_speaks_of_clients_not_of_places():
    """Both public implementations confuse the two from the second split on."""
    algorithm = make("cfl", {"threshold": 100.0, "patience": 1})
    sent = fleet([[5.0, 5.0], [-1.0, 0.1], [1.0, 0.0], [-1.0, -0.1], [0.9, 0.1]])
    algorithm.mix(round_of(sent, fleet([[0.0, 0.0]]), number=1))
    first = algorithm.diagnostics()["clusters"]
    algorithm.mix(round_of(sent, fleet([[0.0, 0.0]]), number=2))
    second = algorithm.diagnostics()["clusters"]
    assert first == [[0, 2, 4], [1, 3]]
    assert second is not None
    assert sorted(client for part in second for client in part) == [0, 1, 2, 3, 4]
    assert all(any(set(part) <= set(whole) for whole in first) for part in second)


def test_absent_members_go_with_the_larger_side():
    clusters = Clusters(range(6))
    present = [0, 1, 2, 4]
    clusters.refine(present, lambda rows: True, lambda rows: ([0], [1, 2, 3]), 1)
    assert clusters.members == [[0], [1, 2, 3, 4, 5]]
