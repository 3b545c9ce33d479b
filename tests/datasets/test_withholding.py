from __future__ import annotations

import numpy as np

from comity.datasets.partition import ClientRows
from comity.datasets.withholding import withhold


def client(*train: int) -> ClientRows:
    other = np.array([100 + train[0]])
    return ClientRows(np.array(train), other, other)


def test_a_share_of_each_stratum_goes_to_the_server():
    strata = np.array([0] * 8 + [1] * 4 + [0] * 8 + [1] * 4)
    clients = [client(*range(12)), client(*range(12, 24))]
    rest, server = withhold(clients, strata, 0.25, np.random.default_rng(1))
    assert np.bincount(strata[server]).tolist() == [4, 2]
    for before, after in zip(clients, rest, strict=True):
        left = set(before.train) - set(after.train)
        assert np.bincount(strata[sorted(left)]).tolist() == [2, 1]
        np.testing.assert_array_equal(after.train, np.sort(after.train))
        assert after.test is before.test
        assert after.validation is before.validation
    every = np.sort(np.concatenate([server, *(rows.train for rows in rest)]))
    np.testing.assert_array_equal(every, np.arange(24))


def test_what_rounding_leaves_at_one_client_is_taken_from_the_next():
    clients = [client(*range(3 * n, 3 * n + 3)) for n in range(4)]
    rest, server = withhold(clients, np.zeros(12, dtype=int), 0.25, np.random.default_rng(1))
    assert [len(rows.train) for rows in rest] == [3, 2, 2, 2]  # 0.75, 1.5, 2.25, 3 in all
    assert len(server) == 3


def test_no_client_loses_its_last_row_of_a_stratum():
    clients = [client(n) for n in range(4)]
    rest, server = withhold(clients, np.zeros(4, dtype=int), 0.9, np.random.default_rng(1))
    assert [len(rows.train) for rows in rest] == [1] * 4
    assert not len(server)
