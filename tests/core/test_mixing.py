from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import spectral_clustering

from comity.core import mixing
from comity.core.fleet import Fleet
from comity.core.mixing import (
    Mixing,
    Pick,
    cosine,
    linkage_bipartition,
    mixed,
    row_normalised,
    spectral_bipartition,
    who_from_whom,
)


def blocks(sizes: tuple[int, ...], inside: float, across: float, noise: float, seed: int):
    """Return similarities of clients in blocks, and the block of each client."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    g = np.random.default_rng(seed)
    similarity = np.where(labels[:, None] == labels, inside, across)
    jitter = noise * g.standard_normal(similarity.shape)
    similarity = np.clip(similarity + (jitter + jitter.T) / 2, -1, 1)
    np.fill_diagonal(similarity, 1.0)
    return similarity, labels


@given(st.integers(0, 500), st.integers(3, 12), st.integers(3, 12))
def test_two_groups_are_found_as_scikit_learn_finds_them(seed, left, right):
    similarity, labels = blocks((left, right), 0.7, -0.3, 0.1, seed)
    order = np.random.default_rng(seed).permutation(left + right)
    similarity, labels = similarity[np.ix_(order, order)], labels[order]
    sides = spectral_bipartition(similarity)
    assert sides is not None
    assert {frozenset(side) for side in sides} == {
        frozenset(np.flatnonzero(labels == k).tolist()) for k in (0, 1)
    }
    reference = spectral_clustering(
        (1 + similarity) / 2, n_clusters=2, assign_labels="cluster_qr", random_state=0
    )
    assert {frozenset(np.flatnonzero(reference == k).tolist()) for k in (0, 1)} == {
        frozenset(side) for side in sides
    }


def test_the_iterative_solver_finds_the_same_sides(monkeypatch):
    similarity, _ = blocks((9, 14), 0.5, 0.0, 0.2, seed=3)
    dense = spectral_bipartition(similarity)
    monkeypatch.setattr(mixing, "_DENSE", 5)
    assert spectral_bipartition(similarity) == dense


def test_no_structure_no_split():
    same = np.full((5, 5), 0.4)
    np.fill_diagonal(same, 1.0)
    assert spectral_bipartition(same) is None
    assert spectral_bipartition(np.ones((1, 1))) is None


def test_a_client_opposed_to_all_is_alone():
    similarity = np.array([[1.0, -1, -1], [-1, 1, 0.5], [-1, 0.5, 1]])
    assert spectral_bipartition(similarity) == ([0], [1, 2])


def test_rows_without_weight_become_the_identity():
    np.testing.assert_array_equal(
        row_normalised(np.array([[0.0, 0], [1, 3]])), [[1, 0], [0.25, 0.75]]
    )


@pytest.mark.parametrize(
    "weights", [[[0.5, 0.4]], [[1.5, -0.5]], [[np.nan, 1.0]], [[1.0]]], ids=str
)
def test_dishonest_weights_are_caught(weights):
    with pytest.raises(AssertionError, match="mixing"):
        Mixing(np.array(weights), {0: 0}).check(givers=2)


def scalars(**values: list[float]) -> Fleet:
    """Return a fleet whose tensors are one number per client."""
    return Fleet({name: torch.tensor(rows)[:, None] for name, rows in values.items()})


SENT, START = scalars(a=[1.0, 2.0, 6.0], b=[0.0, 4.0, 8.0]), scalars(a=[0.0] * 3, b=[1.0] * 3)


def test_one_model_for_all_is_the_weighted_mean():
    models, route = mixed({"*": Mixing.shared(np.array([1, 1, 2]), [4, 7])}, SENT, START)
    assert models["a"].tolist() == [[(1 + 2 + 12) / 4]]
    assert models["b"].tolist() == [[(0 + 4 + 16) / 4]]
    assert route == {4: 0, 7: 0}


def test_personal_rows_are_normalised_and_routed_in_their_order():
    weights = np.array([[2.0, 2, 0], [0, 0, 0], [0, 0, 5]])
    models, route = mixed({"*": Mixing.personal(weights, [4, 7, 9])}, SENT, START)
    assert models["a"].tolist() == [[1.5], [2.0], [6.0]]
    assert route == {4: 0, 7: 1, 9: 2}


def test_a_step_moves_the_base_along_the_updates():
    step = Mixing.step(np.array([1.0, 0, 0.5]), [4], scalars(a=[10.0]))
    models, _ = mixed({"*": step}, SENT, START)
    assert models["a"].tolist() == [[10 + 1 + 3]]
    assert models["b"].tolist() == [[1 + (0 - 1) + 0.5 * (8 - 1)]]  # no base: from where it started


def test_stored_models_take_the_place_of_those_sent():
    stored = scalars(a=[10.0, 20, 30, 40], b=[0.0] * 4)
    mixing = Mixing(np.array([[0.5, 0, 0, 0.5]]), {4: 0}, stored=stored)
    assert mixed({"*": mixing}, SENT, START)[0]["a"].tolist() == [[25.0]]
    with pytest.raises(AssertionError, match="3 columns for 4 givers"):
        Mixing(np.full((1, 3), 1 / 3), {4: 0}, stored=stored).check(givers=3)


def test_picked_models_arrive_whole():
    pick = Pick(np.array([[2, 0], [1, 1]]), senders=3, route={4: 0, 7: 1})
    models, route = mixed({"*": pick}, SENT, START)
    assert models["a"][:, :, 0].tolist() == [[6.0, 1.0], [2.0, 2.0]]
    assert route == {4: 0, 7: 1}
    np.testing.assert_array_equal(pick.weights, [[0.5, 0, 0.5], [0, 1, 0]])
    with pytest.raises(AssertionError, match="picked"):
        pick.check(givers=2)
    with pytest.raises(AssertionError, match="picked"):
        Pick(np.array([[3]]), senders=3).check(givers=3)


MIXINGS = {
    "a": Mixing.shared(np.array([1.0, 0, 1]), [4, 7]),
    "*": Mixing.personal(np.array([[0.0, 1, 0], [0, 0, 1]]), [4, 7]),
}


def test_tensors_with_different_routes_make_one_model_per_client():
    sent = Fleet({**SENT.tensors, "target.a": SENT["a"] * 2})
    models, route = mixed(MIXINGS, sent, START)
    assert route == {4: 0, 7: 1}
    assert models["a"].tolist() == [[3.5], [3.5]]
    assert models["target.a"].tolist() == [[7.0], [7.0]]  # mixed like the tensor it belongs to
    assert models["b"].tolist() == [[4.0], [8.0]]


def test_a_client_that_a_mixing_does_not_name_keeps_these_tensors():
    """One body (b) for all, heads (a) for clients 4 and 9 only; 5 is named by none."""
    mixings = {
        "a": Mixing.personal(np.array([[0.0, 1, 0], [1, 0, 1]]), [4, 9]),
        "*": Mixing.shared(np.array([1.0, 2, 1]), [4, 7, 9]),
    }
    sent = Fleet({**SENT.tensors, "target.a": SENT["a"] * 2})
    old = scalars(a=[10.0 * i for i in range(10)], b=[0.0] * 10)
    old = Fleet({**old.tensors, "target.a": old["a"] + 1})

    def previous(names, clients):
        return Fleet({name: old[name] for name in names}).select(clients)

    models, route = mixed(mixings, sent, START, previous)
    assert route == {4: 0, 7: 1, 9: 2}
    assert models["a"].tolist() == [[2.0], [70.0], [3.5]]
    assert models["target.a"].tolist() == [[4.0], [71.0], [7.0]]
    assert models["b"].tolist() == [[4.0], [4.0], [4.0]]
    matrix = who_from_whom(mixings, {"a": 3, "b": 1}, clients=[4, 5, 7, 9], senders=[4, 7, 9])
    expected = [
        [0.25 / 4, 0, 3.5 / 4, 0.25 / 4],
        [np.nan] * 4,
        [0.25, 0, 0.5, 0.25],  # what it keeps does not count
        [1.75 / 4, 0, 0.5 / 4, 1.75 / 4],
    ]
    np.testing.assert_allclose(matrix, expected)


def test_who_learns_from_whom_counts_tensors_by_their_size():
    matrix = who_from_whom(MIXINGS, {"a": 3, "b": 1}, clients=[4, 5, 7, 9], senders=[4, 7, 9])
    nan = [np.nan] * 4
    expected = [[1.5 / 4, 0, 1 / 4, 1.5 / 4], nan, [1.5 / 4, 0, 0, 2.5 / 4], nan]
    np.testing.assert_allclose(matrix, expected)


def test_cosines_come_from_inner_products():
    vectors = np.array([[3.0, 4.0], [4.0, 3.0], [0.0, 0.0], [-3.0, -4.0]])
    expected = [[1, 0.96, 0, -1], [0.96, 1, 0, -0.96], [0, 0, 1, 0], [-1, -0.96, 0, 1]]
    np.testing.assert_allclose(cosine(vectors @ vectors.T), expected)


def test_linkages_cut_a_chain_in_different_places():
    """Points 0, 1, 2.1, 3.3 on a line: single linkage cuts the widest gap, complete the middle."""
    points = np.array([0.0, 1.0, 2.1, 3.3])
    similarity = 1.0 - np.abs(points[:, None] - points)
    assert linkage_bipartition(similarity, "single") == ([0, 1, 2], [3])
    assert linkage_bipartition(similarity, "complete") == ([0, 1], [2, 3])


def test_a_step_may_have_any_finite_weights_and_a_mean_may_not():
    """1 + 2 · (3 − 1) − ½ · (5 − 1) = 3; the shares of the picture are 0.8 and 0.2."""
    sent, start = (
        Fleet({"a": torch.tensor([[3.0], [5.0]])}),
        Fleet({"a": torch.tensor([[1.0], [1.0]])}),
    )
    weights = np.array([2.0, -0.5])
    step = Mixing.step(weights, receivers=[0, 1], base=start.select([0]))
    models, _ = mixed({"*": step}, sent, start)
    assert models["a"].tolist() == [[3.0]]
    shares = who_from_whom({"*": step}, {"a": 1}, [0, 1], [0, 1])
    np.testing.assert_allclose(shares, [[0.8, 0.2]] * 2)
    with pytest.raises(AssertionError, match="must be finite"):
        Mixing.step(np.array([1.0, np.inf]), [0], start.select([0])).check(2)
    with pytest.raises(AssertionError, match="non-negative; only a step may have others"):
        Mixing(np.array([[1.5, -0.5]]), {0: 0}).check(2)


def test_of_more_than_a_hundred_clients_nothing_is_recorded():
    clients = list(range(101))
    assert (
        who_from_whom({"*": Mixing.shared(np.ones(101), clients)}, {"a": 1}, clients, clients)
        is None
    )
    matrix = who_from_whom(
        {"*": Mixing.shared(np.ones(100), clients[:100])}, {"a": 1}, clients[:100], clients[:100]
    )
    assert np.shape(matrix) == (100, 100)
