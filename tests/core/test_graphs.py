"""Contact graphs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.core.graphs import contact_graph

SPECS = st.sampled_from(["complete", "ring", "ring:2", "ring:9", "random:0.4", "random:1"])


@given(spec=SPECS, clients=st.integers(1, 9), seed=st.integers(0, 99), round=st.integers(1, 9))
def test_pairs_hear_each_other_and_nobody_hears_itself(spec, clients, seed, round):
    graph = contact_graph(spec, clients, seed, round)
    assert graph.shape == (clients, clients)
    assert (graph == graph.T).all()
    assert not graph.diagonal().any()


def test_a_ring_has_its_ends_together():
    one = [[0, 1, 0, 0, 1], [1, 0, 1, 0, 0], [0, 1, 0, 1, 0], [0, 0, 1, 0, 1], [1, 0, 0, 1, 0]]
    np.testing.assert_array_equal(contact_graph("ring", 5, 1, 1), np.array(one, dtype=bool))
    np.testing.assert_array_equal(
        contact_graph("ring:1", 5, 1, 1), contact_graph("ring", 5, 7, 3), "whatever the seed"
    )
    assert contact_graph("ring:2", 6, 1, 1).sum(axis=1).tolist() == [4] * 6


@pytest.mark.parametrize("spec", ["ring:2", "ring:100", "random:1", "random:1.0"])
def test_five_clients_all_hear_each_other(spec):
    np.testing.assert_array_equal(contact_graph(spec, 5, 1, 1), contact_graph("complete", 5, 1, 1))


def test_random_graphs_are_drawn_anew_from_seed_and_round():
    first = contact_graph("random:0.3", 40, 1, 1)
    np.testing.assert_array_equal(first, contact_graph("random:0.3", 40, 1, 1))
    for other in ((2, 1, 0), (1, 2, 0), (1, 1, 40)):
        assert (first != contact_graph("random:0.3", 40, *other)).any()
    pairs = np.mean([contact_graph("random:0.3", 40, 1, number).mean() for number in range(50)])
    assert pairs == pytest.approx(0.3 * 39 / 40, abs=0.01)
    assert not contact_graph("random:0", 9, 1, 1).any()
