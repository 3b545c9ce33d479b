from __future__ import annotations

import numpy as np
import pytest

from comity.algorithms import make
from comity.core.mixing import spectral_bipartition
from tests.vectors import FEDPREF, FEDPREF_SUBCLUSTER, fleet, round_of

START = fleet([FEDPREF["reference"][:4]], [FEDPREF["reference"][4:]])
SENT = fleet(
    (np.array(FEDPREF["delta_layer1"]) + FEDPREF["reference"][:4]).tolist(),
    (np.array(FEDPREF["delta_layer2"]) + FEDPREF["reference"][4:]).tolist(),
)


def mixing(**settings):
    algorithm = make("fedpref", {"top_r": 0.5, "threshold": 0.0, **settings})
    return algorithm, algorithm.mix(round_of(SENT, START))["*"]


@pytest.mark.parametrize(("top_r", "name"), [(0.5, "sim"), (1.0, "sim_R1")])
def test_similarity_of_the_largest_changes(top_r, name):
    np.testing.assert_allclose(SENT.similarity(START, top_r), FEDPREF[name], atol=1e-5)


@pytest.mark.parametrize(("floor", "name"), [(-1.0, "minus1"), (0.0, "0")])
def test_weights_and_models(floor, name):
    _, found = mixing(minimum_similarity=floor)
    np.testing.assert_allclose(found.weights, FEDPREF[f"weights_smin_{name}"], atol=1e-5)
    models = SENT.mix(found.weights)
    new = np.concatenate([models["0"].numpy(), models["1"].numpy()], axis=1)
    np.testing.assert_allclose(new, FEDPREF[f"new_models_smin_{name}"], atol=1e-4)


def test_the_threshold_is_compared_with_the_change_of_the_cluster_mean():
    change = FEDPREF["cluster_mean_change_norm"]
    together, _ = mixing(threshold=change - 0.001, patience=1)
    apart, _ = mixing(threshold=change + 0.001, patience=1)
    assert together.diagnostics()["clusters"] == [[0, 1, 2, 3]]
    assert apart.diagnostics()["clusters"] == [list(side) for side in FEDPREF["split"]]


def test_a_relative_threshold_is_a_share_of_the_models_norm():
    share = 100 * FEDPREF["cluster_mean_change_norm"] / np.linalg.norm(FEDPREF["reference"])
    together, _ = mixing(threshold=f"{share - 0.01:.3f}%", patience=1)
    apart, _ = mixing(threshold=f"{share + 0.01:.3f}%", patience=1)
    assert together.diagnostics()["clusters"] == [[0, 1, 2, 3]]
    assert apart.diagnostics()["clusters"] == [[0, 1], [2, 3]]


def test_split_by_similarity():
    assert spectral_bipartition(np.array(FEDPREF["sim"])) == FEDPREF["split"]


def test_pairs_split_into_singletons_and_weigh_each_other_by_similarity():
    pair = fleet([[10.0, 0.0], [-4.0, np.sqrt(84.0)]])
    assert pair.similarity()[0, 1] == pytest.approx(-0.4, abs=1e-6)
    assert spectral_bipartition(pair.similarity()) == ([0], [1])
    zero = fleet([[0.0, 0.0]])
    for floor, wanted in ((-1.0, [[0.769231, 0.230769], [0.230769, 0.769231]]), (0.0, np.eye(2))):
        algorithm = make(
            "fedpref", {"top_r": 1.0, "minimum_similarity": floor, "clustering": False}
        )
        np.testing.assert_allclose(
            algorithm.mix(round_of(pair, zero))["*"].weights, wanted, atol=1e-5
        )


def test_new_clusters_measure_from_their_own_members():
    v = FEDPREF_SUBCLUSTER
    sent = fleet([row[:4] for row in v["trained"]], [row[4:] for row in v["trained"]])
    start = fleet([row[:4] for row in v["prev_models"]], [row[4:] for row in v["prev_models"]])
    algorithm = make("fedpref", {"top_r": 0.5, "threshold": 100.0, "patience": 1})
    weights = algorithm.mix(round_of(sent, start))["*"].weights
    assert algorithm.diagnostics()["clusters"] == [[0, 1], [2, 3]]
    for i, j, name in ((0, 1, "sim_members_01"), (2, 3, "sim_members_23")):
        u = (v[name] + 1) / 2
        assert weights[i, j] == pytest.approx(u / (1 + u), abs=1e-5)
        assert weights[i, 3 - j if i == 0 else 1 - (j - 2)] == 0.0


def test_ablations():
    never, found = mixing(clustering=False, threshold=100.0, patience=1)
    assert never.diagnostics()["clusters"] == [[0, 1, 2, 3]]
    assert len(np.unique(found.weights.round(6))) > 2
    plain, found = mixing(weighting=False, threshold=100.0, patience=1)
    assert plain.diagnostics()["clusters"] == [[0, 1], [2, 3]]
    np.testing.assert_allclose(found.weights, np.kron(np.eye(2), np.full((2, 2), 0.5)))


def test_rounds_in_which_nobody_learned_never_split():
    algorithm = make("fedpref", {"threshold": 100.0, "patience": 1})
    for _ in range(5):
        algorithm.mix(round_of(SENT, SENT))
    assert algorithm.diagnostics()["clusters"] == [[0, 1, 2, 3]]


def test_clusters_survive_their_state():
    algorithm, _ = mixing(threshold=100.0, patience=1)
    other = make("fedpref", {"top_r": 0.5, "threshold": 100.0, "patience": 1})
    other.load(algorithm.state())
    assert other.diagnostics()["clusters"] == [[0, 1], [2, 3]]
    a = algorithm.mix(round_of(SENT, START))["*"].weights
    b = other.mix(round_of(SENT, START))["*"].weights
    np.testing.assert_array_equal(a, b)
