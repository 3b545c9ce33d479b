"""Clusters that split and join, followed round by round."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from comity.core.clusters import (
    Clusters,
    adjusted_rand,
    chance,
    common_loads,
    gains,
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


# -- clusters that join again --------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "inside", "across", "gain"),
    [
        # noise 0.2 and 0.4; squared distance 1.4 - 2 * 0.65 = 0.1: (2*0.2 + 2*0.4 - 4*0.1) / 4
        ((2, 2), (0.8, 0.6), 0.65, 0.2),
        # the same noise, distance 0.4: (1.2 - 4 * 0.4) / 4
        ((2, 2), (0.8, 0.6), 0.5, -0.1),
        # a single client is taken to be as the usual 0.5: distance 0.2, (3*0.5 + 1*0.1 - 3*0.2) / 4
        ((1, 3), (None, 0.9), 0.6, 0.25),
        # two single clients: distance 0.6, (0.5 + 0.5 - 0.6) / 2
        ((1, 1), (None, None), 0.2, 0.2),
        # nothing in common inside is no length below zero: noise 1, distance 0 - 2 * 0.1
        ((2, 2), (-0.3, -0.3), 0.1, (2 + 2 + 4 * 0.2) / 4),
        ((2, 2), (0.8, 0.6), -0.1, -np.inf),
    ],
)
def test_the_gain_of_two_clusters_computed_by_hand(sizes, inside, across, gain):
    first, second = np.arange(sizes[0]), sizes[0] + np.arange(sizes[1])
    matrix = np.full((sum(sizes), sum(sizes)), across)
    for rows, value in zip((first, second), inside, strict=True):
        if value is not None:
            matrix[np.ix_(rows, rows)] = value
    np.fill_diagonal(matrix, 1.0)
    found = gains(matrix, [first, second], usual=0.5)
    assert found[0, 1] == found[1, 0] == pytest.approx(gain)


@pytest.mark.parametrize("angle", [0.3, 0.6, 1.2])
def test_the_gain_is_what_means_come_closer_to_the_directions(angle):
    """Errors of separate means less those of a common one, summed over clients, by drawing."""
    generator, width, (a, b) = np.random.default_rng(5), 4000, (3, 5)
    directions = np.zeros((2, width))
    directions[:, 0] = 0.8
    directions[1, :2] = 0.8 * np.cos(angle), 0.8 * np.sin(angle)
    own = np.repeat(directions, (a, b), axis=0)
    closer, estimated = [], []
    for _ in range(40):
        updates = own + generator.standard_normal(own.shape) * 0.6 / np.sqrt(width)
        unit = updates / np.linalg.norm(updates, axis=1, keepdims=True)
        apart = np.repeat([unit[:a].mean(axis=0), unit[a:].mean(axis=0)], (a, b), axis=0)
        closer.append(np.square(apart - own).sum() - np.square(unit.mean(axis=0) - own).sum())
        estimated.append(gains(unit @ unit.T, [np.arange(a), a + np.arange(b)], 0.0)[0, 1])
    assert np.mean(estimated) == pytest.approx(np.mean(closer), abs=0.02)
    assert (np.mean(closer) > 0) == (angle < 0.5)


APART = [[0, 1], [2, 3], [4, 5]]


def three_pairs():
    clusters = Clusters(range(6))
    clusters.members, clusters.waited = [list(pair) for pair in APART], [1, 1, 1]
    return clusters


def similarities(first_second, first_third, second_third):
    """Three pairs of clients: 0.6 inside, and these values across."""
    matrix = blocks([2, 2, 2], 0.6, 0.0)
    across = {(0, 1): first_second, (0, 2): first_third, (1, 2): second_third}
    for (one, other), value in across.items():
        matrix[2 * one : 2 * one + 2, 2 * other : 2 * other + 2] = value
        matrix[2 * other : 2 * other + 2, 2 * one : 2 * one + 2] = value
    return matrix


def test_the_pair_that_gains_most_joins_first_and_one_pair_per_round():
    """All pairs gain from a similarity of 0.4 on: 2 * 0.6 - 2 * 0.4 = 0.4 / 2 + 0.4 / 2."""
    clusters, matrix = three_pairs(), similarities(0.5, 0.55, 0.45)
    clusters.compare(range(6), matrix)
    assert clusters.usual == pytest.approx(0.6)
    clusters.join(range(6), matrix, patience=1)
    assert (clusters.members, clusters.waited) == ([[0, 1, 4, 5], [2, 3]], [0, 1])
    clusters.join(range(6), matrix, patience=1)
    assert clusters.members == [[0, 1, 2, 3, 4, 5]]
    clusters = three_pairs()
    clusters.compare(range(6), matrix)
    clusters.join(range(6), similarities(0.39, 0.1, -0.6), patience=1)
    assert clusters.members == APART


def test_clusters_join_after_so_many_rounds_in_a_row():
    alike, unlike = similarities(0.5, 0.0, 0.0), similarities(0.3, 0.0, 0.0)
    clusters = three_pairs()
    clusters.compare(range(6), alike)
    for matrix in (alike, alike, unlike, alike, alike):
        clusters.join(range(6), matrix, patience=3)
        assert clusters.members == APART
    copy = Clusters(range(6))
    copy.load(json.loads(json.dumps(clusters.state())))
    for each in (clusters, copy):
        each.join(range(6), alike, patience=3)
        assert each.members == [[0, 1, 2, 3], [4, 5]]
    assert clusters.state() == copy.state()


def test_rounds_in_which_a_cluster_is_absent_do_not_count():
    alike = similarities(0.5, 0.0, 0.0)
    clusters = three_pairs()
    clusters.compare(range(6), alike)
    clusters.join(range(6), alike, patience=2)
    clusters.join([2, 3, 4, 5], alike[2:, 2:], patience=2)
    assert clusters.members == APART
    clusters.join([0, 2], alike[np.ix_([0, 2], [0, 2])], patience=2)  # one client of each
    assert clusters.members == [[0, 1, 2, 3], [4, 5]]


def test_a_split_ends_what_a_cluster_has_gained_with_others():
    alike = similarities(0.5, 0.0, 0.0)
    clusters = three_pairs()
    clusters.compare(range(6), alike)
    clusters.join(range(6), alike, patience=2)
    assert clusters.gained == {((0, 1), (2, 3)): 1}
    clusters.refine([0, 1], always(True), halves, patience=1)
    clusters.join([4, 5], alike[4:, 4:], patience=2)
    assert clusters.gained == {}


def test_single_clients_join_by_what_was_usual_inside_clusters():
    """Two single clients gain if 2 * usual - 1 < their similarity."""
    clusters = Clusters(range(2))
    clusters.compare([0, 1], blocks([2], 0.7, 0.0))
    clusters.members, clusters.waited = [[0], [1]], [0, 0]
    for similarity, members in ((0.39, [[0], [1]]), (0.41, [[0, 1]])):
        matrix = blocks([2], similarity, 0.0)
        clusters.compare([0, 1], matrix)
        assert clusters.usual == pytest.approx(0.7)
        clusters.join([0, 1], matrix, patience=1)
        assert clusters.members == members


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
