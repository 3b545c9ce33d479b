"""Clusters that only get finer, followed round by round."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from comity.core.clusters import (
    Clusters,
    adjusted_rand,
    chance,
    common_loads,
    is_small,
    separation,
    size,
)
from comity.core.mixing import spectral_bipartition


def always(verdict):
    return lambda rows: verdict


def halves(rows):
    """The first half of the indices against the rest."""
    middle = len(rows) // 2
    return list(range(middle)), list(range(middle, len(rows)))


def refused(rows):
    raise AssertionError(f"a cluster was asked about rows {rows}")


@pytest.mark.parametrize(
    ("change", "norm", "threshold", "small"),
    [
        (5.0, 1.0, 5.0, True),
        (5.1, 1.0, 5.0, False),
        (0.25, 10.0, "2.5%", True),
        (0.26, 10.0, "2.5%", False),
        (0.0, 0.0, "0%", True),
    ],
)
def test_a_change_is_small_in_units_or_as_a_share_of_the_norm(change, norm, threshold, small):
    assert is_small(change, norm, threshold) is small


def test_a_cluster_splits_after_so_many_stalled_rounds_in_a_row():
    clusters = Clusters([3, 1, 2, 0])
    assert clusters.members == [[0, 1, 2, 3]]
    for verdict, waited in [(True, 1), (False, 0), (True, 1), (True, 2)]:
        clusters.refine([0, 1, 2, 3], always(verdict), refused, patience=3)
        assert (clusters.members, clusters.waited) == ([[0, 1, 2, 3]], [waited])
    clusters.refine([0, 1, 2, 3], always(True), halves, patience=3)
    assert (clusters.members, clusters.waited) == ([[0, 1], [2, 3]], [0, 0])


def test_a_cluster_splits_at_most_once_per_round():
    clusters = Clusters(range(4))
    clusters.refine(range(4), always(True), halves, patience=1)
    assert clusters.members == [[0, 1], [2, 3]]
    clusters.refine(range(4), always(True), halves, patience=1)
    assert clusters.members == [[0], [1], [2], [3]]
    clusters.refine(range(4), refused, refused, patience=1)  # single members are never asked about


def test_a_round_without_training_does_not_count():
    clusters = Clusters(range(2))
    clusters.refine([0, 1], always(True), refused, patience=2)
    clusters.refine([0, 1], always(None), refused, patience=2)
    assert clusters.waited == [1]
    clusters.refine([0, 1], always(True), halves, patience=2)
    assert clusters.members == [[0], [1]]


def test_a_split_that_finds_no_sides_leaves_the_cluster_and_starts_the_wait_anew():
    clusters = Clusters(range(3))
    clusters.refine(range(3), always(True), lambda rows: None, patience=1)
    assert (clusters.members, clusters.waited) == ([[0, 1, 2]], [0])


def test_rules_see_indices_of_participants_and_absent_members_join_the_larger_side():
    clusters = Clusters(range(6))
    asked = []

    def split(rows):
        asked.append(rows.tolist())
        return [0], [1, 2]  # positions: participants 5 | 2 and 0

    clusters.refine([5, 4, 2, 0], always(False), refused, patience=1)
    clusters.members, clusters.waited = [[0, 1, 2, 5], [3, 4]], [0, 0]
    # client 1 is absent; of [3, 4] one client is present, which is too few to judge
    clusters.refine([5, 4, 2, 0], always(True), lambda rows: split(rows[::-1]), patience=1)
    assert asked == [[0, 2, 3]]  # rows of clients 5, 2, 0 among the participants
    assert clusters.members == [[0], [1, 2, 5], [3, 4]]
    assert clusters.waited == [0, 0, 0]


def test_the_saved_state_is_all_there_is():
    clusters = Clusters(range(4))
    clusters.refine(range(4), always(True), halves, patience=1)
    clusters.refine([0, 1], always(True), refused, patience=2)
    copy = Clusters(range(4))
    copy.load(clusters.state())
    assert (copy.members, copy.waited) == ([[0, 1], [2, 3]], [1, 0])


# -- sizes, splits beyond chance, agreement ------------------------------------------------


@pytest.mark.parametrize(
    ("norm", "value"),
    [("l2", 5.0), ("squared", 25.0), ("sum", 7.0), ("mean", 3.5), ("rms", 2.5)],
)
def test_the_size_of_a_change_of_two_tensors_with_norms_3_and_4_and_4_entries(norm, value):
    assert size([9.0, 16.0], 4, norm) == pytest.approx(value)


def blocks(sizes, inside, across):
    """Similarities of groups: equal inside a group, equal across groups."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    matrix = np.where(labels[:, None] == labels[None], inside, across)
    np.fill_diagonal(matrix, 1.0)
    return matrix


def test_separation_is_the_gap_between_pairs_inside_and_across():
    """Two pairs inside, four across: (0.5 - 0.2) * sqrt(2 * 4 / 6)."""
    matrix = blocks([2, 2], 0.5, 0.2)
    assert separation(matrix, ([0, 1], [2, 3])) == pytest.approx(0.3 * np.sqrt(8 / 6))
    # one against three: inside 0.5, 0.2, 0.2, across 0.5, 0.2, 0.2
    assert separation(matrix, ([0], [1, 2, 3])) == pytest.approx(0.0)
    assert separation(matrix, None) == -np.inf


def test_loads_of_a_common_direction_are_found():
    loads = np.array([0.9, 0.5, 0.7, 0.3, 0.6])
    matrix = np.outer(loads, loads)
    np.fill_diagonal(matrix, 1.0)
    np.testing.assert_allclose(common_loads(matrix), loads, atol=1e-3)
    assert not common_loads(blocks([2, 2], 0.9, -0.9)).any()  # opposed: nothing in common


def vectors(generator, sizes, group):
    """Cosines of updates: a common part, a part per group, and noise of unequal strength."""
    rows = []
    common = 0.5 * generator.standard_normal(200)
    for count in sizes:
        shift = group * generator.standard_normal(200)
        for _ in range(count):
            noise = generator.standard_normal(200) * np.exp(0.3 * generator.standard_normal())
            rows.append(common + shift + noise)
    unit = np.array(rows) / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit @ unit.T


def test_groups_are_beyond_chance_and_noise_is_not():
    """Each matrix is cut by the rule; noise reaches 0.05 as seldom as it should."""
    values = {}
    for name, sizes, group in [("groups", (6, 6), 0.8), ("noise", (12,), 0.0)]:
        values[name] = [
            chance(
                vectors(np.random.default_rng(seed), sizes, group),
                spectral_bipartition,
                np.random.default_rng(100 + seed),
            )
            for seed in range(10)
        ]
    assert max(values["groups"]) <= 0.05
    assert sum(value <= 0.05 for value in values["noise"]) <= 2
    assert np.median(values["noise"]) > 0.2


def test_a_client_unlike_all_others_and_three_clients_are_no_structure():
    generator = np.random.default_rng(0)
    assert chance(blocks([1, 7], 0.5, 0.05), spectral_bipartition, generator) > 0.05
    assert chance(blocks([1, 2], 0.9, -0.9), spectral_bipartition, generator) == 1.0


@pytest.mark.parametrize("seed", range(20))
def test_the_adjusted_rand_index_is_that_of_scikit_learn(seed):
    generator = np.random.default_rng(seed)
    first, second = generator.integers(0, 1 + seed % 5, (2, 12))
    assert adjusted_rand(first, second) == pytest.approx(adjusted_rand_score(first, second))


def test_the_adjusted_rand_index_of_known_partitions():
    groups = [0, 0, 1, 1]
    assert adjusted_rand([5, 5, 2, 2], groups) == 1.0
    assert adjusted_rand([0, 0, 0, 0], groups) == 0.0
    assert adjusted_rand([0, 1, 2, 3], groups) == 0.0
    assert adjusted_rand([0, 1, 0, 1], groups) == pytest.approx(-0.5)
