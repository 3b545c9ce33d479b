from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comity.datasets.apportionment import apportion
from comity.datasets.partition import (
    ClientRows,
    PartitionSpec,
    Strata,
    cut,
    fingerprint,
    partition_rows,
)
from comity.errors import UserError
from comity.problems import find


def shares(strata, clients, seed, *, partition="stratified", sizes="equal", needed=(), **more):
    """Rows of each client; what is not about the rows themselves is passed on."""
    about = {
        name: more.pop(name) for name in ("silos", "silo_names", "stratum_names") & more.keys()
    }
    needed = needed if isinstance(needed, dict) else {stratum: (stratum,) for stratum in needed}
    spec = PartitionSpec(clients, seed, partition, sizes, more.pop("split", "70:10:20"))
    return partition_rows(Strata(strata, needed, **about), spec, **more)


def parts(share: ClientRows):
    return share.train, share.validation, share.test


def held(share: ClientRows):
    return np.concatenate(parts(share))


def counts(result, cells):
    """Rows a client holds of each cell (clients x cells)."""
    return [np.bincount(cells[held(share)], minlength=cells.max() + 1).tolist() for share in result]


CELLS = np.repeat([0, 1, 2], [200, 80, 20])
SPECIFICATIONS = [
    {},
    {"partition": "dirichlet:0.3"},
    {"sizes": "dirichlet:1"},
    {"split": "65:15:20"},
    {"sizes": "4,3,2,1"},
    {"partition": "dirichlet:0.05", "sizes": "dirichlet:0.2"},
    {"partition": "natural", "silos": np.arange(300) % 4, "silo_names": "abcd"},
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
    assert apportion(thirds, np.zeros(3, dtype=int)).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert apportion(np.array([[7.5, 0.4, 1.1]]), np.array([2])).tolist() == [[5, 2, 2]]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=8), st.integers(1, 9))
def test_dealt_totals_are_right(totals, receivers):
    weights = np.arange(1.0, receivers + 1) / np.arange(1.0, receivers + 1).sum()
    wanted = np.array(totals)[:, None] * weights
    partitioned = apportion(wanted, np.zeros(len(totals), dtype=int))
    assert partitioned.sum(axis=1).tolist() == totals
    assert (np.abs(partitioned - wanted) < 1 + 1e-9).all()
    assert (np.abs(partitioned.sum(axis=0) - wanted.sum(axis=0)) < 1 + 1e-9).all()


def test_sites_are_clients():
    silos = np.repeat([0, 1], [100, 200])
    first, second = shares(
        CELLS, 2, 1, partition="natural", silos=silos, silo_names=("north", "south")
    )
    assert sorted(held(first)) == list(range(100))
    assert sorted(held(second)) == list(range(100, 300))
    assert [len(rows) for rows in parts(first)] == [70, 10, 20]


SITES = {"partition": "natural", "silos": np.repeat([0, 1], [150, 150]), "silo_names": ("n", "s")}


@pytest.mark.parametrize(
    ("clients", "specification", "message"),
    [
        (0, {}, "clients: there must be at least one, got 0"),
        (
            4,
            {"partition": "idd"},
            "'idd' is not one of stratified, naive, dirichlet:ALPHA, path",
        ),
        (4, {"partition": "naive:3"}, "partition: 'naive:3' is not one of"),
        (4, {"partition": "iid"}, "It is now called stratified; naive distributes rows at random"),
        (4, {"partition": "dirichlet"}, "partition: 'dirichlet' needs a positive number"),
        (4, {"partition": "dirichlet:-1"}, "'dirichlet:-1' needs a positive number"),
        (4, {"partition": "dirichlet:inf"}, "'dirichlet:inf' needs a positive number"),
        (4, {"sizes": "same"}, "sizes: 'same' is not one of equal, dirichlet:BETA or relative"),
        (4, {"sizes": "equal:2"}, "sizes: 'equal:2' is not one of"),
        (4, {"sizes": "dirichlet:x"}, "sizes: 'dirichlet:x' needs a positive number"),
        (4, {"sizes": "3,2,1"}, "'3,2,1' must list one relative size a client, got 3 for 4"),
        (3, {"sizes": "3,0,1"}, "sizes: '3,0,1' needs a positive number in place of '0'"),
        (3, {"sizes": "3,,1"}, "sizes: '3,,1' needs a positive number in place of ''"),
        (4, {"split": "80:20:0"}, "split_ratio: '80:20:0' needs a positive number in place of '0'"),
        (
            4,
            {"split": "80:20"},
            "split_ratio: '80:20' must have numbers for training, validation",
        ),
        (4, {"partition": "natural"}, "does not say which silo"),
        (3, SITES, r"has 2 silos \(n, s\), one per client, so say clients = 2 instead of 3"),
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
        shares(CELLS, clients, 1, stratum_names={2: "women, ill"}, **specification)


def test_at_sites_other_cells_may_serve_as_well():
    """Nobody of cell 0 lives at the second site, but people of cell 1 belong to the same group."""
    cells = np.array([0] * 9 + [2] * 9 + [1] * 6 + [2] * 9)
    silos = np.array([0] * 18 + [1] * 15)
    named = {"silos": silos, "silo_names": ("n", "s"), "stratum_names": {0: "women"}}
    for seed in range(5):
        partitioned = shares(
            cells, 2, seed, partition="natural", needed={0: (0, 1), 2: (2,)}, **named
        )
        for share in partitioned:
            for part in (share.train, share.validation, share.test):
                assert np.isin(cells[part], (0, 1)).any()
                assert (cells[part] == 2).any()
    # one row may serve several needs, and one need several cells
    both = shares(cells, 2, 1, partition="natural", needed={0: (0, 1), 1: (1, 2)}, **named)
    assert all(len(share.test) for share in both)
    with pytest.raises(UserError, match=r"client 1 \(s\) has 0 rows of 'women'"):
        shares(cells, 2, 1, partition="natural", needed={0: (0,)}, **named)


# -- classes that clients lack -------------------------------------------------------------


def test_pathological_blocks_follow_the_rule():
    """The vector of the specification: quota 2, 4 clients, 4 classes of 8 rows."""
    cells = np.repeat(np.arange(4), 8)
    expected = [[4, 4, 0, 0]] * 2 + [[0, 0, 4, 4]] * 2
    for seed in (1, 2):  # nothing but the rows is drawn
        assert counts(shares(cells, 4, seed, partition="pathological:2"), cells) == expected


@pytest.mark.parametrize(("classes", "quota", "groups"), [(10, 5, 2), (100, 5, 20), (10, 2, 5)])
def test_clients_fall_into_blocks_with_the_same_classes(classes, quota, groups):
    cells = np.repeat(np.arange(classes), 600)
    having = [
        tuple(np.unique(cells[held(share)]).tolist())
        for share in shares(cells, 100, 1, partition=f"pathological:{quota}")
    ]
    assert len(set(having)) == groups
    assert {len(own) for own in having} == {quota}


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.data())
def test_every_client_has_a_class_and_no_more_than_its_quota(clients, classes, data):
    quota = data.draw(st.integers(1, classes))
    cells = np.repeat(np.arange(classes), 60)
    result = np.array(counts(shares(cells, clients, 1, partition=f"pathological:{quota}"), cells))
    assert ((result > 0).sum(axis=1) >= 1).all()
    assert ((result > 0).sum(axis=1) <= quota).all()
    assert set(result.sum(axis=0).tolist()) <= {0, 60}  # a class is dealt out, or nobody's


def test_pathological_classes_may_be_shared_unequally_or_be_nobodys():
    cells = np.repeat(np.arange(4), 40)
    uneven = shares(cells, 4, 1, partition="pathological:2", sizes="3,1,2,2")
    assert counts(uneven, cells) == [[30, 30, 0, 0], [10, 10, 0, 0], [0, 0, 20, 20], [0, 0, 20, 20]]
    few = shares(cells, 1, 1, partition="pathological:3")
    assert counts(few, cells) == [[40, 40, 40, 0]]


def test_shards_are_equal_pieces_of_the_sorted_rows():
    cells = np.random.default_rng(1).permutation(np.repeat(np.arange(10), 60))
    result = np.array(counts(shares(cells, 20, 1, partition="shards:3"), cells))
    assert (result.sum(axis=1) == 30).all()  # 60 shards of 10 rows of one class each
    assert (result % 10 == 0).all()
    assert (result.sum(axis=0) == 60).all()
    other = np.array(counts(shares(cells, 20, 2, partition="shards:3"), cells))
    assert (result != other).any()


def test_shards_may_span_classes():
    cells = np.repeat([0, 1], [50, 10])
    result = counts(shares(cells, 3, 1, partition="shards:1"), cells)
    assert sorted(result) == [[10, 10], [20, 0], [20, 0]]


def test_a_class_is_cut_among_those_who_have_not_enough():
    """The vector of the specification."""
    p, fair = np.array([0.5, 0.3, 0.2]), np.full(3, 5.0)
    assert cut(p, np.zeros(3, dtype=int), fair, 10).tolist() == [5, 3, 2]
    assert cut(p, np.array([5, 0, 0]), fair, 10).tolist() == [0, 6, 4]
    assert cut(p, np.array([0, 4, 5]), fair, 10).tolist() == [6, 4, 0]  # 6.25 and the rest
    assert cut(np.array([1.0, 0.0, 0.0]), np.array([5, 4, 3]), fair, 10).tolist() == [0, 0, 10]


@pytest.mark.parametrize(("clients", "alpha"), [(20, 0.1), (50, 0.1), (100, 0.3)])
def test_capped_dirichlet_leaves_everybody_enough(clients, alpha):
    cells = np.repeat(np.arange(10), 6000)
    result = np.array(
        counts(shares(cells, clients, 1, partition=f"dirichlet:{alpha}", capped=True), cells)
    )
    assert (result.sum(axis=0) == 6000).all()
    assert result.sum(axis=1).min() >= 40
    assert (result > 0).sum(axis=1).min() < 10  # classes are absent here and there
    plain = np.array(counts(shares(cells, clients, 1, partition="dirichlet:10"), cells))
    assert result.sum(axis=1).std() > plain.sum(axis=1).std()


def test_capped_dirichlet_keeps_to_relative_sizes():
    cells = np.repeat(np.arange(10), 600)
    result = shares(cells, 3, 1, partition="dirichlet:100", sizes="6,3,1", capped=True)
    assert [len(held(share)) / 6000 for share in result] == pytest.approx([0.6, 0.3, 0.1], abs=0.05)


@pytest.mark.parametrize(
    ("clients", "specification", "message"),
    [
        (4, {"partition": "pathological:0"}, r"'pathological:0' needs .* from 1 to 3 \(as many as"),
        (4, {"partition": "pathological:4"}, "from 1 to 3 .* classes.* in place of '4'"),
        (4, {"partition": "pathological:1.5"}, "in place of '1.5'"),
        (4, {"partition": "pathological"}, "in place of ''"),
        (
            4,
            {"partition": "shards:x"},
            r"'shards:x' needs a whole number from 1 to 75 \(as many as",
        ),
        (4, {"partition": "shards:2", "sizes": "4,3,2,1"}, "whose shards are equally large"),
        (4, {"partition": "shards:2", "needed": [2]}, "every client needs rows of 'women, ill'"),
        (4, {"partition": "pathological:2", "needed": [2]}, "leaves clients without some classes"),
        (4, {"partition": "dirichlet:x", "capped": True}, "'dirichlet:x' needs a positive number"),
        (
            20,
            {"partition": "dirichlet:0.001", "capped": True},
            "in 1,000 attempts there was always one of 20 clients with fewer than 8 of 300 rows; "
            "use a larger ALPHA, fewer clients",
        ),
        (200, {"partition": "pathological:1"}, "gets [0-2] rows, too few to train, validate"),
    ],
)
def test_classes_that_cannot_be_dealt_are_refused(clients, specification, message):
    with pytest.raises(UserError, match=message):
        shares(CELLS, clients, 1, stratum_names={2: "women, ill"}, **specification)


@pytest.mark.parametrize("seed", range(5))
def test_three_rows_are_enough_for_a_client(seed):
    cells = np.array([0] * 9 + [1] * 9)
    for share in shares(cells, 6, seed, partition="pathological:1"):
        assert [len(rows) for rows in parts(share)] == [1, 1, 1]


@pytest.mark.parametrize("partition", ["pathological:2", "shards:2", "dirichlet:0.5"])
def test_a_deal_depends_on_seed_and_arguments_only(partition):
    def found(seed):
        return fingerprint(shares(CELLS, 4, seed, partition=partition, capped=True))

    state = np.random.get_state()[1].copy()
    assert found(1) == found(1) != found(2)
    assert (np.random.get_state()[1] == state).all()


def test_a_fingerprint_tells_deals_apart():
    share = ClientRows(np.array([1, 2]), np.array([3]), np.array([4]))
    moved = ClientRows(np.array([1]), np.array([2, 3]), np.array([4]))
    known = "d6f69e907de36cb1f2caefa0ac7dcda52e64c32850dd018179ca0b72f152c6ca"
    assert fingerprint([share]) == known
    assert len({fingerprint(some) for some in ([share], [moved], [share, moved], [])}) == 4


@pytest.mark.parametrize(
    ("problem", "partition", "known"),
    [
        (
            "adult-gender-dp",
            "stratified",
            "6931c9737cb24bf212237f7e02d249d39e186278abdcccbe284480bfeac67f15",
        ),
        (
            "adult-gender-dp",
            "dirichlet:0.5",
            "2e723da5f85af67dfc5cb4466b4b0a91dd695f2545b584098343174d1357c823",
        ),
        (
            "heart-disease-gender-eodds",
            "stratified",
            "1228eccab4e27f07626839b47a3e3da9febe22531159e6858a1fe343852a99d3",
        ),
    ],
)
def test_deals_of_earlier_versions_are_kept(problem, partition, known):
    assert fingerprint(find(problem).partitioned(4, 7, partition, "equal").client_rows()) == known


# -- naive, and the split ------------------------------------------------------------------


def test_naive_deals_rows_at_random_where_stratified_gives_equal_mixtures():
    cells = np.repeat([0, 1], [3000, 1000])
    of_second = {
        rule: np.array(counts(shares(cells, 20, 1, partition=rule), cells))[:, 1]
        for rule in ("stratified", "naive")
    }
    assert of_second["stratified"].tolist() == [50] * 20
    # 200 of 4,000 rows without replacement: hypergeometric, spread sqrt(200 * 3/16 * 3800/3999)
    assert 3 < of_second["naive"].std() < 10  # 6.0 expected
    assert of_second["naive"].sum() == 1000


def test_naive_gives_sizes_and_depends_on_the_seed_only():
    first, again, other = (shares(CELLS, 3, seed, partition="naive") for seed in (1, 1, 2))
    assert fingerprint(first) == fingerprint(again) != fingerprint(other)
    assert [len(held(share)) for share in first] == [100, 100, 100]
    assert sorted(np.concatenate([held(share) for share in first])) == list(range(300))
    uneven = shares(CELLS, 3, 1, partition="naive", sizes="3,2,1")
    assert [len(held(share)) for share in uneven] == [150, 100, 50]


def test_naive_refuses_a_client_that_lacks_what_a_score_needs():
    cells = np.repeat([0, 1], [394, 6])
    names = {1: "gender = other"}
    with pytest.raises(
        UserError, match=r"'naive': client \d gets [012] rows of 'gender = other', but needs 3"
    ):
        shares(cells, 4, 1, partition="naive", needed=[1], stratum_names=names)
    assert shares(cells, 4, 1, partition="naive")  # without the need


@pytest.mark.parametrize(
    ("split", "sizes"),
    [("70:10:20", [70, 10, 20]), ("65:15:20", [65, 15, 20]), ("13:3:4", [65, 15, 20])],
)
def test_a_client_s_rows_are_split_as_asked(split, sizes):
    result = shares(np.zeros(200, dtype=int), 2, 1, split=split)
    assert [[len(part) for part in parts(share)] for share in result] == [sizes, sizes]
