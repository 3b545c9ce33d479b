from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comity.errors import UserError
from comity.problems.partition import Share, deal, shares


def parts(share: Share):
    return share.train, share.validation, share.test


def held(share: Share):
    return np.concatenate(parts(share))


def counts(result, cells):
    """Rows a client holds of each cell (clients x cells)."""
    return [np.bincount(cells[held(share)], minlength=cells.max() + 1).tolist() for share in result]


CELLS = np.repeat([0, 1, 2], [200, 80, 20])
SPECIFICATIONS = [
    {},
    {"partition": "dirichlet:0.3"},
    {"sizes": "dirichlet:1"},
    {"sizes": "4,3,2,1"},
    {"partition": "dirichlet:0.05", "sizes": "dirichlet:0.2"},
    {"partition": "natural", "sites": np.arange(300) % 4, "site_names": "abcd"},
]


@pytest.mark.parametrize("specification", SPECIFICATIONS)
def test_every_row_goes_to_one_part_of_one_client(specification):
    result = shares(CELLS, 4, 1, needed=[0, 1, 2], **specification)
    assert len(result) == 4
    assert sorted(np.concatenate([held(share) for share in result])) == list(range(300))
    for share in result:
        for rows in parts(share):
            assert (np.diff(rows) > 0).all()
            assert set(CELLS[rows]) == {0, 1, 2}


@pytest.mark.parametrize("specification", SPECIFICATIONS)
def test_only_the_seed_changes_the_draw(specification):
    first, again, other = (
        [
            rows.tolist()
            for share in shares(CELLS, 4, seed, needed=[0], **specification)
            for rows in parts(share)
        ]
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_iid_clients_have_the_same_mixture_and_parts():
    result = shares(CELLS, 4, 1)
    assert counts(result, CELLS) == [[50, 20, 5]] * 4
    for share in result:
        # of 75 rows 52.5, 7.5 and 15; of the first cell 35, 5 and 10
        assert [len(rows) for rows in parts(share)] in ([53, 7, 15], [52, 8, 15])
        assert [int((CELLS[rows] == 0).sum()) for rows in parts(share)] == [35, 5, 10]


def test_rows_are_drawn_at_random():
    rows = held(shares(np.zeros(1000, dtype=np.int64), 2, 1)[0])
    assert abs(rows.mean() - 499.5) < 50
    assert len(rows) == 500


def test_relative_sizes_hold_in_every_cell():
    assert counts(shares(CELLS, 3, 1, sizes="5,3,2"), CELLS) == [
        [100, 40, 10],
        [60, 24, 6],
        [40, 16, 4],
    ]


def test_drawn_sizes_are_unequal_and_leave_the_mixture():
    cells = np.repeat([0, 1], 5000)
    result = np.array(counts(shares(cells, 5, 3, sizes="dirichlet:1"), cells))
    assert result.sum(axis=1).max() > 2 * result.sum(axis=1).min()
    assert (np.abs(result[:, 0] - result[:, 1]) <= 1).all()


def test_drawn_mixtures_are_the_more_skewed_the_smaller_alpha():
    cells = np.repeat([0, 1], 2000)

    def skew(alpha):
        result = np.array(counts(shares(cells, 10, 5, partition=f"dirichlet:{alpha}"), cells))
        return np.abs(result[:, 0] / result.sum(axis=1) - 0.5).mean()

    assert skew(0.3) > 0.2 > 0.05 > skew(100)


def test_needed_cells_reach_every_client_from_those_that_have_most():
    cells = np.repeat([0, 1], [500, 15])
    skewed = counts(shares(cells, 5, 1, partition="dirichlet:0.1", needed=[0]), cells)
    assert min(row[1] for row in skewed) == 0
    needing = shares(cells, 5, 1, partition="dirichlet:0.1", needed=[0, 1])
    assert [row[1] for row in counts(needing, cells)] == [3] * 5
    for share in needing:
        assert [int((cells[rows] == 1).sum()) for rows in parts(share)] == [1, 1, 1]


def test_dealing_keeps_totals_and_makes_up_for_rounding():
    thirds = np.full((3, 3), 1 / 3)
    assert deal(thirds, np.zeros(3, dtype=int)).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert deal(np.array([[7.5, 0.4, 1.1]]), np.array([2])).tolist() == [[5, 2, 2]]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=8), st.integers(1, 9))
def test_dealt_totals_are_right(totals, receivers):
    weights = np.arange(1.0, receivers + 1) / np.arange(1.0, receivers + 1).sum()
    wanted = np.array(totals)[:, None] * weights
    dealt = deal(wanted, np.zeros(len(totals), dtype=int))
    assert dealt.sum(axis=1).tolist() == totals
    assert (np.abs(dealt - wanted) < 1 + 1e-9).all()
    assert (np.abs(dealt.sum(axis=0) - wanted.sum(axis=0)) < 1 + 1e-9).all()


def test_sites_are_clients():
    sites = np.repeat([0, 1], [100, 200])
    first, second = shares(
        CELLS, 2, 1, partition="natural", sites=sites, site_names=("north", "south")
    )
    assert sorted(held(first)) == list(range(100))
    assert sorted(held(second)) == list(range(100, 300))
    assert [len(rows) for rows in parts(first)] == [70, 10, 20]


SITES = {"partition": "natural", "sites": np.repeat([0, 1], [150, 150]), "site_names": ("n", "s")}


@pytest.mark.parametrize(
    ("clients", "specification", "message"),
    [
        (0, {}, "clients: there must be at least one, got 0"),
        (4, {"partition": "idd"}, "partition: 'idd' is not one of iid, dirichlet:ALPHA or natural"),
        (4, {"partition": "iid:3"}, "partition: 'iid:3' is not one of"),
        (4, {"partition": "dirichlet"}, "partition: 'dirichlet' needs a positive number"),
        (4, {"partition": "dirichlet:-1"}, "'dirichlet:-1' needs a positive number"),
        (4, {"partition": "dirichlet:inf"}, "'dirichlet:inf' needs a positive number"),
        (4, {"sizes": "same"}, "sizes: 'same' is not one of equal, dirichlet:BETA or relative"),
        (4, {"sizes": "equal:2"}, "sizes: 'equal:2' is not one of"),
        (4, {"sizes": "dirichlet:x"}, "sizes: 'dirichlet:x' needs a positive number"),
        (4, {"sizes": "3,2,1"}, "'3,2,1' must list one relative size a client, got 3 for 4"),
        (3, {"sizes": "3,0,1"}, "sizes: '3,0,1' needs a positive number in place of '0'"),
        (3, {"sizes": "3,,1"}, "sizes: '3,,1' needs a positive number in place of ''"),
        (4, {"test": 0.0}, "got 0.0 and 0.1"),
        (4, {"test": 0.9}, "leave something to train with, got 0.9 and 0.1"),
        (4, {"partition": "natural"}, "does not say which site"),
        (3, SITES, r"has 2 sites \(n, s\), one a client, so say clients = 2 instead of 3"),
        (1, SITES, "say clients = 2 instead of 1"),
        (2, SITES | {"sizes": "2,1"}, "'2,1' does not go with partition 'natural'"),
        (2, SITES | {"needed": [2]}, r"client 0 \(n\) has 0 rows of 'women, ill', but needs 3"),
        (
            7,
            {"needed": [2]},
            "'women, ill' has 20 rows, too few for 7 clients .* at most 6 clients",
        ),
        (4, {"needed": [2], "partition": "idd"}, "'idd' is not one of"),
        (4, {"needed": [5]}, "no row is '5', but every client needs some"),
        (2, {"sizes": "1000,1"}, "client 1 gets 0 rows, too few to train, validate and test"),
    ],
)
def test_what_cannot_be_dealt_is_refused(clients, specification, message):
    with pytest.raises(UserError, match=message):
        shares(CELLS, clients, 1, cell_names={2: "women, ill"}, **specification)


def test_at_sites_other_cells_may_serve_as_well():
    """Nobody of cell 0 lives at the second site, but people of cell 1 belong to the same group."""
    cells = np.array([0] * 9 + [2] * 9 + [1] * 6 + [2] * 9)
    sites = np.array([0] * 18 + [1] * 15)
    named = {"sites": sites, "site_names": ("n", "s"), "cell_names": {0: "women"}}
    for seed in range(5):
        dealt = shares(cells, 2, seed, partition="natural", needed={0: (0, 1), 2: (2,)}, **named)
        for share in dealt:
            for part in (share.train, share.validation, share.test):
                assert np.isin(cells[part], (0, 1)).any()
                assert (cells[part] == 2).any()
    # one row may serve several needs, and one need several cells
    both = shares(cells, 2, 1, partition="natural", needed={0: (0, 1), 1: (1, 2)}, **named)
    assert all(len(share.test) for share in both)
    with pytest.raises(UserError, match=r"client 1 \(s\) has 0 rows of 'women'"):
        shares(cells, 2, 1, partition="natural", needed={0: (0,)}, **named)
