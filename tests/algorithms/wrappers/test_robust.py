"""Robust wrappers against the papers' formulas, written out here over plain vectors.

The referees know no Gram matrix: they loop over vectors in float64, as the papers do.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from comity.algorithms import Round, algorithms, find, make
from comity.algorithms.wrappers import fits
from comity.algorithms.wrappers.application import Step, step_of
from comity.algorithms.wrappers.centered_clipping import CenteredClipping
from comity.algorithms.wrappers.clip import Clip
from comity.algorithms.wrappers.confree import ConFREE
from comity.algorithms.wrappers.geometric_median import GeometricMedian
from comity.algorithms.wrappers.multi_krum import MultiKrum
from comity.algorithms.wrappers.nearest_neighbour_mixing import NearestNeighbourMixing
from comity.algorithms.wrappers.robust import RobustRow, outvoted
from comity.core.fleet import Fleet
from comity.core.mixing import Mixing, mixed
from comity.errors import UserError
from tests.tiny import tiny

ROWS: list[RobustRow] = [GeometricMedian(), MultiKrum(), CenteredClipping()]
ALL = [*ROWS, Clip(), NearestNeighbourMixing()]


def gram(vectors: np.ndarray) -> np.ndarray:
    return vectors @ vectors.T


def random_vectors(seed: int, count: int, size: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Some vectors, and weights of them."""
    generator = np.random.default_rng(seed)
    return generator.normal(size=(count, size)), generator.dirichlet(np.ones(count) * 3)


# -- referees ------------------------------------------------------------------------------


def geometric_median(vectors: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weiszfeld's iteration from the mean, 2,000 steps."""
    point = sum(w * x for w, x in zip(weights, vectors, strict=True))
    for _ in range(2000):
        pulls = [
            w / max(np.linalg.norm(x - point), 1e-12) for w, x in zip(weights, vectors, strict=True)
        ]
        point = sum(p * x for p, x in zip(pulls, vectors, strict=True)) / sum(pulls)
    return point


def multi_krum(vectors: np.ndarray, weights: np.ndarray, bad: int) -> np.ndarray:
    """Blanchard et al., section 4 and 5: sums over the n - f - 2 nearest, the best n - f."""
    count, scores = len(vectors), []
    for i, x in enumerate(vectors):
        distances = sorted(float(np.sum((x - y) ** 2)) for j, y in enumerate(vectors) if j != i)
        scores.append(sum(distances[: count - bad - 2]))
    kept = sorted(range(count), key=lambda i: scores[i])[: count - bad]
    return sum(weights[i] * vectors[i] for i in kept) / sum(weights[i] for i in kept)


def centred_clipping(
    vectors: np.ndarray, weights: np.ndarray, centre: np.ndarray, steps: int, skip: int | None
) -> np.ndarray:
    """Karimireddy et al., equation CC, with the radius at the median distance."""
    for _ in range(steps):
        away = [np.linalg.norm(x - centre) for x in vectors]
        radius = np.median([d for i, d in enumerate(away) if i != skip])
        pulls = [
            w * (x - centre) * min(1.0, radius / max(d, 1e-300))
            for w, x, d in zip(weights, vectors, away, strict=True)
        ]
        centre = centre + sum(pulls)
    return centre


def nearest_means(vectors: np.ndarray, bad: int) -> np.ndarray:
    """Allouah et al., algorithm 2."""
    means = []
    for x in vectors:
        near = sorted(vectors, key=lambda y: float(np.sum((x - y) ** 2)))
        means.append(sum(near[: len(vectors) - bad]) / (len(vectors) - bad))
    return np.array(means)


# -- rows ----------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(5, 10))
def test_the_geometric_median_is_that_of_weiszfeld(seed, count):
    vectors, weights = random_vectors(seed, count)
    row = GeometricMedian(iterations=2000).row(gram(vectors), weights, None)
    assert row @ vectors == pytest.approx(geometric_median(vectors, weights), abs=1e-4)


def test_the_geometric_median_by_hand():
    """Of three points with an angle of 120 degrees or more, it is the vertex of that angle."""
    vectors = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.1]])
    row = GeometricMedian(iterations=5000).row(gram(vectors), np.full(3, 1 / 3), None)
    assert row @ vectors == pytest.approx([0.0, 0.0], abs=1e-2)
    # on a line with weights it is the weighted median
    line = np.array([[0.0], [1.0], [50.0], [60.0]])
    row = GeometricMedian(iterations=5000).row(gram(line), np.array([0.1, 0.6, 0.15, 0.15]), None)
    assert row @ line == pytest.approx([1.0], abs=1e-2)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(5, 10))
def test_multi_krum_is_that_of_the_paper(seed, count):
    vectors, weights = random_vectors(seed, count)
    row = MultiKrum(share=0.3).row(gram(vectors), weights, None)
    bad = int(0.3 * count)
    assert row @ vectors == pytest.approx(multi_krum(vectors, weights, bad))
    assert (row > 0).sum() == count - bad


def test_multi_krum_by_hand():
    line = np.array([[0.0], [1.0], [2.0], [3.0], [90.0]])
    # n = 5, f = 1: sums over the two nearest are 5, 2, 2, 5 and 7745
    row = MultiKrum(share=0.2).row(gram(line), np.full(5, 0.2), None)
    assert row.tolist() == pytest.approx([0.25, 0.25, 0.25, 0.25, 0.0])
    # the receiver is at 90: its nearest four are kept, and it is one of them
    row = MultiKrum(share=0.2).row(gram(line), np.full(5, 0.2), 4)
    assert row.tolist() == pytest.approx([0.0, 0.25, 0.25, 0.25, 0.25])
    # of three with f = 1 nobody can be judged
    assert MultiKrum(share=0.4).row(gram(line[:3]), np.full(3, 1 / 3), None) == pytest.approx(1 / 3)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(5, 10), own=st.booleans())
def test_centred_clipping_is_that_of_the_paper(seed, count, own):
    vectors, weights = random_vectors(seed, count)
    row = CenteredClipping().row(gram(vectors), weights, 2 if own else None)
    if own:
        expected = centred_clipping(vectors, weights, vectors[2], 1, 2)
    else:
        spreads = [np.median([np.linalg.norm(x - y) for y in vectors]) for x in vectors]
        least = np.isclose(spreads, min(spreads))  # of two who are each other's measure, the mean
        expected = centred_clipping(vectors, weights, vectors[least].mean(axis=0), 3, None)
    assert row @ vectors == pytest.approx(expected, abs=1e-9)


def test_centred_clipping_by_hand():
    line = np.array([[0.0], [1.0], [2.0], [100.0]])
    row = CenteredClipping().row(gram(line), np.full(4, 0.25), 0)
    # from 0 the others are 1, 2 and 100 away, and 2 is the median: (1 + 2 + 2) / 4
    assert row @ line == pytest.approx([1.25])


@pytest.mark.parametrize("rule", ROWS, ids=lambda rule: rule.declaration.name)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(3, 10), own=st.booleans())
def test_rows_are_means_whoever_comes_first(rule, seed, count, own):
    vectors, weights = random_vectors(seed, count)
    place = 1 if own else None
    row = rule.row(gram(vectors), weights, place)
    assert (row >= 0).all()
    assert row.sum() == pytest.approx(1.0)
    order = np.random.default_rng(seed).permutation(count)
    moved = int(np.flatnonzero(order == 1)[0]) if own else None
    again = rule.row(gram(vectors[order]), weights[order], moved)
    assert again @ vectors[order] == pytest.approx(row @ vectors, abs=1e-6)


@pytest.mark.parametrize("rule", ROWS, ids=lambda rule: rule.declaration.name)
def test_two_equals_are_not_told_apart_by_their_order(rule):
    """Law 3 where distances tie: the first centre is not simply the first of them."""
    vectors = np.array([[0.0], [0.0], [1.0], [1.0]])
    row = rule.row(gram(vectors), np.full(4, 0.25), None)
    if not isinstance(rule, MultiKrum):  # which must choose somebody
        assert row @ vectors == pytest.approx([0.5], abs=1e-6)


@pytest.mark.parametrize("rule", ROWS, ids=lambda rule: rule.declaration.name)
@pytest.mark.parametrize("own", [None, 0])
def test_equal_models_stay_as_they_are(rule, own):
    vectors = np.tile([1.0, -2.0, 3.0], (6, 1))
    row = rule.row(gram(vectors), np.full(6, 1 / 6), own)
    assert row @ vectors == pytest.approx(vectors[0])


@pytest.mark.parametrize("rule", ROWS, ids=lambda rule: rule.declaration.name)
@pytest.mark.parametrize("own", [None, 0])
def test_three_of_ten_do_not_carry_the_result_away(rule, own):
    generator = np.random.default_rng(3)
    vectors = generator.normal(size=(10, 5))
    weights = np.full(10, 0.1)
    calm = rule.row(gram(vectors), weights, own) @ vectors
    vectors[7:] = 1e6
    row = rule.row(gram(vectors), weights, own)
    spread = np.linalg.norm(vectors[:7] - vectors[:7].mean(axis=0), axis=1).max()
    assert np.linalg.norm(row @ vectors - calm) < 3 * spread
    assert np.linalg.norm(weights @ vectors - calm) > 1e5  # the mean is carried away


# -- whole steps ---------------------------------------------------------------------------


def round_of(updates: np.ndarray, sizes: np.ndarray | None = None) -> Round:
    """A round in which all clients start from one model and send these updates of it."""
    count, size = updates.shape
    start = torch.arange(size, dtype=torch.float32).expand(count, size)
    sent = start + torch.from_numpy(updates).float()
    ids = tuple(range(count))
    sizes = np.ones(count) if sizes is None else sizes
    return Round(
        1,
        ids,
        ids,
        Fleet({"a": sent[:, :2], "b": sent[:, 2:]}),
        Fleet({"a": start[:, :2], "b": start[:, 2:]}),
        sizes,
    )


def result(step: Step, round: Round) -> np.ndarray:
    """The model of each client after the step, less the start."""
    rows, route = mixed(step.mixings, step.models(round.sent, round.start), round.start)
    models = torch.cat([rows["a"], rows["b"]], dim=1).numpy()
    start = torch.cat([round.start["a"], round.start["b"]], dim=1).numpy()
    return np.stack([models[route[client]] for client in round.clients]) - start


def test_clipping_by_hand():
    updates = np.array([[1.0, 0, 0], [0, 2.0, 0], [0, 0, 100.0], [0, 0, 0]])
    round = round_of(updates)
    step = step_of(make("fedavg", {}), [Clip()], round)
    assert step.combined is not None
    # of those who moved the median is 2
    assert step.combined.diagonal() == pytest.approx([1.0, 1.0, 0.02, 1.0])
    assert result(step, round)[0] == pytest.approx([0.25, 0.5, 0.5])
    models = step.models(round.sent, round.start)
    assert torch.equal(models["a"][:2], round.sent["a"][:2])  # who is not clipped is not touched
    wide = step_of(make("fedavg", {}), [Clip(factor=50.0)], round)
    assert wide.combined is None
    assert wide.models(round.sent, round.start) is round.sent


def test_neighbours_are_mixed_as_in_the_paper():
    vectors, _ = random_vectors(5, 7, 3)
    round = round_of(vectors)
    matrix = NearestNeighbourMixing(share=0.3).combine(round)
    assert matrix is not None
    assert matrix @ vectors == pytest.approx(nearest_means(vectors, 2))
    assert NearestNeighbourMixing(share=0.1).combine(round) is None


def test_what_is_shown_is_what_each_client_gave():
    """Shares in the picture are of what was sent, not of what neighbours were mixed into."""
    vectors = np.array([[0.0, 0, 0], [0.1, 0, 0], [0, 0.1, 0], [90.0, 90, 90]])
    step = step_of(make("fedavg", {}), [NearestNeighbourMixing(share=0.25)], round_of(vectors))
    shares = step.shares["*"].weights[0]
    assert step.mixings["*"].weights[0] == pytest.approx(0.25)
    # the outlier is among the nearest three of itself alone
    assert shares[3] == pytest.approx(1 / 12)
    assert shares.sum() == pytest.approx(1.0)


def test_wrappers_work_in_their_order():
    """Clipped first, then the median, which sees clipped updates."""
    vectors, _ = random_vectors(2, 6, 3)
    vectors[5] *= 1e3
    round = round_of(vectors)
    both = step_of(make("fedavg", {}), [Clip(), GeometricMedian()], round)
    lengths = np.linalg.norm(vectors, axis=1)
    clipped = vectors * np.minimum(1.0, np.median(lengths) / lengths)[:, None]
    expected = geometric_median(clipped, np.full(6, 1 / 6))
    assert result(both, round)[0] == pytest.approx(expected, abs=1e-3)
    mixed_first = step_of(make("fedavg", {}), [NearestNeighbourMixing(share=0.2), Clip()], round)
    means = nearest_means(vectors, 1)
    lengths = np.linalg.norm(means, axis=1)
    expected = (means * np.minimum(1.0, np.median(lengths) / lengths)[:, None]).mean(axis=0)
    assert result(mixed_first, round)[0] == pytest.approx(expected, abs=1e-3)
    assert step_of(make("fedavg", {}), [Clip(), ConFREE()], round).figures is not None


@pytest.mark.parametrize("wrapper", ALL, ids=lambda rule: rule.declaration.name)
@pytest.mark.parametrize("name", ["fedavg", "fedmgda-plus", "fedcmoo", "cfl"])
def test_huge_outliers_do_not_move_a_shared_model_far(wrapper, name):
    vectors = np.random.default_rng(0).normal(size=(10, 5))
    calm = result(step_of(make(name, {}), [wrapper], round_of(vectors)), round_of(vectors))[0]
    vectors[7:] = 1e3
    round = round_of(vectors)
    algorithm = make(name, {})
    if isinstance(wrapper, NearestNeighbourMixing):  # a rule before rules
        moved = result(step_of(algorithm, [wrapper, GeometricMedian()], round), round)[0]
    else:
        moved = result(step_of(algorithm, [wrapper], round), round)[0]
    assert np.linalg.norm(moved - calm) < 6.0


@pytest.mark.parametrize("wrapper", ROWS, ids=lambda rule: rule.declaration.name)
@pytest.mark.parametrize("name", ["fedpref", "matfl", "fedamp"])
def test_outliers_do_not_move_the_row_of_an_honest_client(wrapper, name):
    """A personal host: every client is judged from its own row."""
    vectors = np.random.default_rng(0).normal(size=(10, 5))
    vectors[7:] = 1e3
    round = round_of(vectors)
    step = step_of(make(name, {}), [wrapper], round)
    rows = result(step, round)
    assert (np.abs(rows[:7]) < 10).all()
    for mixing in step.mixings.values():
        assert isinstance(mixing, Mixing)
        mixing.check(10)


def test_a_step_keeps_its_length_and_signs():
    """A row of any weights: 2 (x_0 + x_1) - x_2 is 5 times a mean of x_0, x_1 and -x_2."""
    vectors = np.array([[1.0, 0, 0], [1.0, 0.1, 0], [-1.0, 0, 0]])
    round = round_of(vectors)
    base = round.start.select([0])
    host = {"*": Mixing.step(np.array([2.0, 2.0, -1.0]), receivers=round.clients, base=base)}
    (adjusted, _) = MultiKrum(share=0.1).adjust(host, round, ())
    assert adjusted["*"].weights[0] == pytest.approx([2.0, 2.0, -1.0])  # f = 0: all are kept
    (adjusted, _) = GeometricMedian().adjust(host, round, ())
    assert np.abs(adjusted["*"].weights[0]).sum() == pytest.approx(5.0)
    assert (np.sign(adjusted["*"].weights[0]) == [1, 1, -1]).all()


def test_givers_without_weight_get_none():
    vectors, _ = random_vectors(0, 6, 3)
    host = {"*": Mixing.shared(np.array([1.0, 1, 1, 1, 0, 0]), receivers=range(6))}
    for rule in ROWS:
        (adjusted, _) = rule.adjust(host, round_of(vectors), ())
        assert adjusted["*"].weights[0][4:].tolist() == [0.0, 0.0]
        assert adjusted["*"].weights[0].sum() == pytest.approx(1.0)


def test_bad_members_are_a_share_rounded_down():
    assert [outvoted(0.3, count) for count in (3, 4, 10, 11)] == [0, 1, 3, 3]


def test_two_givers_have_no_majority():
    vectors, _ = random_vectors(0, 2, 3)
    round = round_of(vectors, np.array([1.0, 3.0]))
    for rule in ROWS:
        step = step_of(make("fedavg", {}), [rule], round)
        assert step.mixings["*"].weights[0].tolist() == [0.25, 0.75]


@pytest.mark.parametrize("wrapper", ALL, ids=lambda rule: rule.declaration.name)
def test_hosts_without_a_mean_are_refused_with_the_reason(wrapper):
    name = wrapper.declaration.name
    for host, reason in (
        ("no-communication", "its server mixes no models"),
        ("agnostic-fair-pooled", "one client trains for all"),
        ("fedfomo", "by their own validation"),
    ):
        with pytest.raises(UserError, match=f"{name} means nothing for {host}: .*{reason}"):
            tiny(problem="tiny-people", algorithm=host, wrapper=name)
    refused = {n for n in algorithms() if not fits(type(wrapper), find(n))}
    assert refused >= {"no-communication", "agnostic-fair-pooled", "fedfomo"}
    assert len(refused) <= 5


def test_wrappers_are_put_around_each_other():
    inner = Clip("fedavg", factor=2.0)
    named = tiny(problem="tiny-people", algorithm=ConFREE(inner, c=0.3))
    assert named.wrapper == "clip,confree"
    assert named.label == "fedavg+clip+confree"
    assert named.wrapper_settings["clip"] == {"factor": 2.0}
    assert [type(wrapper) for wrapper in named.get_wrappers()] == [Clip, ConFREE]
    assert ConFREE(inner).host == "fedavg"
    listed = tiny(
        problem="tiny-people",
        algorithm="fedavg",
        wrapper="clip, confree",
        clip={"factor": 2.0},
        confree={"c": 0.3},
    )
    assert listed == named
    for wrong, words in (
        ({"wrapper": "clip,clip"}, "clip occurs twice"),
        ({"wrapper": "clip,"}, "unknown wrapper ''"),
        ({"wrapper": "clip,none"}, "unknown wrapper 'none'|none"),
        ({"wrapper": "clip", "confree": {}}, "unknown setting 'confree'"),
        ({"wrapper": "multi-krum", "multi-krum": {"share": 0.5}}, r"multi-krum\.share = 0\.5"),
    ):
        with pytest.raises(UserError, match=words):
            tiny(problem="tiny-people", algorithm="fedavg", **wrong)


def test_models_of_several_objectives_are_clipped_client_by_client():
    """Where a client sends one model per objective, its length is that of all of them."""
    updates = np.array([[1.0, 0, 0], [0, 0, 0], [3.0, 0, 0], [0, 4.0, 0]])  # two clients, two each
    round = replace(round_of(updates), participants=(0, 1), clients=(0, 1), sizes=np.ones(2))
    matrix = Clip().combine(round)
    assert matrix is not None
    assert matrix.diagonal() == pytest.approx([1.0, 0.6])  # lengths 1 and 5, median 3
    step = step_of(make("fsmgda", {}), [Clip()], round)
    moved = step.models(round.sent, round.start) - round.start
    assert moved["a"].numpy() == pytest.approx(updates[:, :2] * [[1], [1], [0.6], [0.6]])
