from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from comity.algorithms import make
from comity.core.fleet import Fleet
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


# -- tensors and layers --------------------------------------------------------------------

LAYERED = Fleet(
    {
        "a.weight": torch.tensor([[3.0, 0.0], [0.0, 4.0]]),
        "a.bias": torch.tensor([[4.0], [3.0]]),
        "b.weight": torch.tensor([[1.0], [1.0]]),
    }
)
ORIGIN = Fleet({name: torch.zeros_like(tensor[:1]) for name, tensor in LAYERED.tensors.items()})


@pytest.mark.parametrize(
    ("similarity", "top_r", "value"),
    [
        ("tensor", 1.0, (0 + 1 + 1) / 3),
        ("layer", 1.0, (12 / 25 + 1) / 2),  # (3, 0, 4) and (0, 4, 3), both of norm 5
        ("layer", 0.3, (0 + 1) / 2),  # the largest entries are (0, 0, 4) and (0, 4, 0)
    ],
)
def test_a_weight_and_its_bias_are_two_tensors_or_one_layer(similarity, top_r, value):
    algorithm = make(
        "fedpref", {"similarity": similarity, "top_r": top_r, "minimum_similarity": 0.0}
    )
    weights = algorithm.mix(round_of(LAYERED, ORIGIN))["*"].weights
    np.testing.assert_allclose(weights[0], np.array([1, value]) / (1 + value), atol=1e-6)
    recorded = algorithm.diagnostics()["similarity"]
    np.testing.assert_allclose(recorded, [[1, value], [value, 1]], atol=1e-5)


# -- recorded similarities -----------------------------------------------------------------


def test_the_similarities_of_a_round_are_those_before_its_splits():
    algorithm, _ = mixing(threshold=100.0, patience=1)
    first = algorithm.diagnostics()
    assert first["clusters"] == [[0, 1], [2, 3]]
    np.testing.assert_allclose(first["similarity"], FEDPREF["sim"], atol=2e-5)
    algorithm.mix(round_of(SENT, START))
    second = algorithm.diagnostics()["similarity"]
    assert second[0][2:] == [None, None]
    assert second[2][:2] == [None, None]
    assert second[0][1] == pytest.approx(FEDPREF["sim"][0][1], abs=2e-5)
    assert "similarity" not in algorithm.state()


def test_absent_clients_have_no_similarities_and_many_clients_are_not_recorded():
    algorithm = make("fedpref", {})
    present = replace(round_of(SENT, START), participants=(0, 1, 3, 4), clients=(0, 1, 2, 3, 4))
    algorithm.mix(present)
    matrix = algorithm.diagnostics()["similarity"]
    assert matrix[2] == [None] * 5
    assert [row[2] for row in matrix] == [None] * 5
    assert matrix[3][4] is not None
    algorithm = make("fedpref", {})
    algorithm.mix(replace(present, clients=tuple(range(101))))
    assert "similarity" not in algorithm.diagnostics()


# -- when to split -------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["l2", "squared", "sum", "mean", "rms"])
def test_the_norm_of_a_change_is_compared_with_the_threshold(norm):
    """Tensors of four and two entries; the change is that of the mean model."""
    parts = [np.mean(FEDPREF[f"delta_layer{n}"], axis=0) for n in (1, 2)]
    whole, norms = np.concatenate(parts), [np.linalg.norm(part) for part in parts]
    change = {
        "l2": np.linalg.norm(whole),
        "squared": whole @ whole,
        "sum": sum(norms),
        "mean": np.mean(norms),
        "rms": np.sqrt(np.mean(whole**2)),
    }[norm]
    together, _ = mixing(threshold=0.999 * change, patience=1, norm=norm)
    apart, _ = mixing(threshold=1.001 * change, patience=1, norm=norm)
    assert together.diagnostics()["clusters"] == [[0, 1, 2, 3]]
    assert apart.diagnostics()["clusters"] == [[0, 1], [2, 3]]


def test_rounds_of_the_warm_up_do_not_count_as_stalled():
    algorithm = make("fedpref", {"top_r": 0.5, "threshold": 100.0, "patience": 2, "warm_up": 2})
    counts = []
    for number in range(1, 5):
        algorithm.mix(round_of(SENT, START, number=number))
        counts.append(len(algorithm.diagnostics()["clusters"]))
    assert counts == [1, 1, 1, 2]


def updates(sizes, seed):
    """Updates of clients in groups: a common part, a part per group, and noise."""
    generator = np.random.default_rng(seed)
    rows = [
        0.5 * np.ones(200) + shift + generator.standard_normal(200)
        for count in sizes
        for shift in [0.9 * (len(sizes) > 1) * generator.standard_normal(200)]
        for _ in range(count)
    ]
    return fleet(np.array(rows).tolist()), fleet([[0.0] * 200])


@pytest.mark.parametrize("name", ["fedpref", "cfl"])
def test_an_earned_split_needs_groups(name):
    settings = {"threshold": 1e6, "patience": 1}
    groups, noise = updates((6, 6), 3), updates((12,), 3)
    for rule, of_groups, of_noise in (("threshold", 2, 2), ("earned", 2, 1)):
        for (sent, start), count in ((groups, of_groups), (noise, of_noise)):
            algorithm = make(name, {**settings, "split": rule})
            algorithm.mix(round_of(sent, start, number=30))
            assert len(algorithm.diagnostics()["clusters"]) == count, (rule, count)
    algorithm = make(name, {**settings, "split": "earned"})
    algorithm.mix(round_of(*groups, number=30))
    assert algorithm.diagnostics()["clusters"] == [[*range(6)], [*range(6, 12)]]


# -- clusters that join again --------------------------------------------------------------


def federation(name, directions, noise=0.5, clients=12, **settings):
    """Yield the clusters of each round; updates are a direction per client and round, and noise.

    Clients go on from what the server makes for them.
    """
    algorithm = make(name, {"threshold": 1e6, "patience": 2, **settings})
    generator = np.random.default_rng(4)
    models = fleet(np.zeros((clients, 200)).tolist())
    for number, rows in enumerate(directions, start=1):
        moves = np.array(rows) + noise * generator.standard_normal((clients, 200)) / np.sqrt(200)
        sent = fleet((models["0"].numpy() + moves).tolist())
        mixing = algorithm.mix(round_of(sent, models, number=number))["*"]
        mixing.check(clients)
        models = sent.mix(mixing.weights).select([mixing.route[c] for c in range(clients)])
        yield algorithm.diagnostics()["clusters"]


def towards(*places):
    """One unit vector per client, along these axes of 200; a negative place points backwards."""
    return [np.sign(place) * np.eye(200)[abs(place) - 1] for place in places]


GROUPS, ALIKE, OPPOSED = ([1] * 6 + [2] * 6), [3] * 12, ([3] * 6 + [-3] * 6)
HALVES = [[*range(6)], [*range(6, 12)]]


@pytest.mark.parametrize("name", ["fedpref", "cfl"])
@pytest.mark.parametrize("split", ["threshold", "earned"])
def test_groups_that_come_to_agree_join_in_mid_course(name, split):
    """Two groups for four rounds, then one: joined in the second round in which they agree."""
    course = [towards(*GROUPS)] * 4 + [towards(*ALIKE)] * 4
    found = list(federation(name, course, split=split, merge="earned"))
    assert found[:5] == [[[*range(12)]], HALVES, HALVES, HALVES, HALVES]
    assert found[5:] == [[[*range(12)]]] * 3
    never = list(federation(name, course, split=split))
    assert all(len(after) >= len(before) for before, after in pairwise(never))
    assert len(never[-1]) >= 2


@pytest.mark.parametrize("name", ["fedpref", "cfl"])
def test_groups_with_opposite_aims_stay_apart(name):
    course = [towards(*GROUPS)] * 4 + [towards(*OPPOSED)] * 4
    assert list(federation(name, course, merge="earned"))[1:] == [HALVES] * 7


@pytest.mark.parametrize("name", ["fedpref", "cfl"])
def test_clusters_stay_whole_whose_sides_gain_together(name):
    """Without the test of gains, stalled clusters of one aim fall apart."""
    course = [towards(*ALIKE)] * 6
    assert list(federation(name, course, merge="earned"))[-1] == [[*range(12)]]
    assert len(list(federation(name, course))[-1]) >= 4


@pytest.mark.parametrize("name", ["fedpref", "cfl"])
def test_single_clients_join_others_again(name):
    """Client 0 leaves, and is back in the second round in which it agrees with the others."""
    others = [2, 2, 2, 2, 2]
    course = [towards(1, *others)] * 3 + [towards(2, *others)] * 2
    found = list(federation(name, course, clients=6, noise=0.3, merge="earned"))
    assert found[1:] == [[[0], [1, 2, 3, 4, 5]]] * 3 + [[[0, 1, 2, 3, 4, 5]]]


@pytest.mark.parametrize("name", ["fedpref", "cfl"])
def test_clients_that_did_not_train_join_nobody(name):
    algorithm = make(name, {"threshold": 1e6, "patience": 1, "merge": "earned"})
    start, sent = fleet(np.zeros((12, 200)).tolist()), fleet(np.array(towards(*GROUPS)).tolist())
    algorithm.mix(round_of(sent, start, number=30))
    assert algorithm.diagnostics()["clusters"] == HALVES
    for number in (31, 32):
        algorithm.mix(round_of(start, start, number=number))
        assert algorithm.diagnostics()["clusters"] == HALVES
