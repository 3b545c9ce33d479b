"""Clusters that only get finer, followed round by round."""

from __future__ import annotations

import pytest

from comity.core.clusters import Clusters, is_small


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
