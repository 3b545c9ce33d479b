from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import spectral_clustering

from comity.core import mixing
from comity.core.mixing import Mixing, row_normalised, spectral_bipartition


def blocks(sizes: tuple[int, ...], inside: float, across: float, noise: float, seed: int):
    """Similarities of clients in groups."""
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
