from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from comity.algorithms import Round
from comity.algorithms.wrappers.confree import ConFREE, direction, guidance
from comity.core.fleet import Fleet
from comity.core.mixing import Mixing
from tests.vectors import fleet, round_of

DELTA = np.array([[2.0, 0.0], [-1.0, 2.0], [1.0, 1.0]])
OPPOSED = np.array([[1.0, 0.0], [-0.5, 1.0], [0.2, -0.6]])
"""Zero lies in the hull of these: no direction helps everybody."""


def gram(updates) -> np.ndarray:
    updates = np.asarray(updates, dtype=float)
    return updates @ updates.T


def stepped(updates, **values) -> np.ndarray:
    """How far ConFREE moves a model of one tensor, which is not at zero."""
    start = fleet([[10.0] * len(updates[0])])
    sent = fleet(np.asarray(updates) + 10.0)
    round = round_of(sent, start, sizes=range(1, len(updates) + 1))
    host = {"*": Mixing.shared(round.sizes, receivers=round.clients)}
    mixings, _ = ConFREE(**values).adjust(host, round, ["*"])
    return moved(mixings["0"], round)["0"]


def moved(mixing: Mixing, round: Round) -> dict[str, np.ndarray]:
    """The step of each tensor under a mixing, from where the server was."""
    assert mixing.base is not None
    updates = Fleet({name: round.sent[name] - round.start[name] for name in round.sent})
    steps = updates.mix(mixing.weights)
    return {
        name: (mixing.base[name] + steps[name] - round.start[name][:1]).numpy()[0]
        for name in round.sent
    }


# -- vectors -------------------------------------------------------------------------------


@pytest.mark.parametrize("sequential", [False, True])
def test_guidance_and_direction_by_hand(sequential):
    products = gram(DELTA)
    np.testing.assert_allclose(products, [[4, -2, 2], [-2, 5, 1], [2, 1, 2]])
    a = guidance(products, sequential)
    np.testing.assert_allclose(a @ DELTA, [0.866667, 1.266667], atol=1e-5)
    found = direction(products, 0.5, sequential)
    np.testing.assert_allclose(found.guidance, a, atol=1e-9)
    np.testing.assert_allclose(found.weights @ DELTA, [1.27683, 1.915246], atol=1e-4)
    assert found.dual == pytest.approx(2.553661, abs=1e-4)
    assert found.worst == pytest.approx(2.553661, abs=1e-4)


def test_weights_of_the_guidance_by_hand():
    np.testing.assert_allclose(guidance(gram(DELTA)), [0.5, 0.466667, 0.333333], atol=1e-5)


def test_where_nobody_can_help_all_the_least_harm_is_done():
    simultaneous, sequential = guidance(gram(OPPOSED)), guidance(gram(OPPOSED), True)
    np.testing.assert_allclose(simultaneous @ OPPOSED, [0.356667, 0.103333], atol=1e-5)
    np.testing.assert_allclose(sequential @ OPPOSED, [0.353333, 0.113333], atol=1e-5)
    found = direction(gram(OPPOSED), 0.5)
    assert found.dual == pytest.approx(-0.010817, abs=1e-4)
    assert found.worst == pytest.approx(found.dual, abs=1e-4)
    plain = (OPPOSED @ OPPOSED.mean(axis=0)).min()
    assert found.worst > plain, "better than the mean, for the one that gains least"


@pytest.mark.parametrize("guided", ["simultaneous", "sequential"])
@pytest.mark.parametrize(
    ("rescale", "wanted"), [(False, [1.27683, 1.915246]), (True, [1.021464, 1.532196])]
)
@pytest.mark.parametrize("scope", ["tensor", "model"])
def test_the_servers_step_by_hand(guided, rescale, wanted, scope):
    """Whatever the sizes of the clients: all count alike."""
    found = stepped(DELTA, c=0.5, rescale=rescale, guidance=guided, scope=scope)
    np.testing.assert_allclose(found, wanted, atol=1e-4)


@pytest.mark.parametrize("guided", ["simultaneous", "sequential"])
def test_the_public_codes_projections_are_not_divided(guided):
    """Clients 0 and 1 oppose each other by −2: (Δ0 + 2 Δ1, Δ1 + 2 Δ0, Δ2) / 3."""
    sequential = guided == "sequential"
    a = guidance(gram(DELTA), sequential, divided=False)
    np.testing.assert_allclose(a @ DELTA, [4 / 3, 7 / 3], atol=1e-9)
    found = stepped(DELTA, c=0.5, rescale=False, guidance=guided, projection="public")
    np.testing.assert_allclose(found, [2.225445, 3.338168], atol=1e-4)
    found = stepped(DELTA, c=0.5, guidance=guided, projection="public")
    np.testing.assert_allclose(found, [1.780356, 2.670534], atol=1e-4)


def test_undivided_projections_one_after_the_other_by_hand():
    a = guidance(gram(OPPOSED), sequential=True, divided=False)
    np.testing.assert_allclose(a @ OPPOSED, [0.25, 0.383333], atol=1e-5)


@pytest.mark.parametrize("sequential", [False, True])
def test_undivided_projections_of_short_updates_change_nothing(sequential):
    """The projection falls with the square of the length; with division it does not."""
    short = 1e-3 * DELTA
    public = direction(gram(short), 0.5, sequential, divided=False)
    np.testing.assert_allclose(public.guidance, np.full(3, 1 / 3), rtol=1e-5)
    np.testing.assert_allclose(direction(gram(short), 0.5).guidance, guidance(gram(DELTA)))
    assert public.dual == pytest.approx(public.worst, rel=1e-3)


@pytest.mark.parametrize("rescale", [False, True])
def test_a_single_client_is_followed_as_it_is(rescale):
    """The formula would overshoot: (1.5, 0), or (1.2, 0) rescaled."""
    np.testing.assert_allclose(stepped([[1.0, 0.0]], c=0.5, rescale=rescale), [1.0, 0.0])


# -- what is true of every direction -------------------------------------------------------


def random_updates(seed: int, clients: int, width: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(clients, width))


CASES = {
    "seed": st.integers(0, 2**30),
    "clients": st.integers(2, 6),
    "width": st.integers(8, 20),
    "c": st.sampled_from([0.1, 0.4, 0.9]),
    "sequential": st.booleans(),
}


@settings(deadline=None, max_examples=60)
@given(**CASES)
def test_what_the_weakest_gains_is_the_value_of_the_dual(seed, clients, width, c, sequential):
    """F(w*) = min_j ⟨d*, Δ_j⟩, ‖d* − ḡ‖ = c ‖ḡ‖, and nothing in that ball does better."""
    updates = random_updates(seed, clients, width)
    found = direction(gram(updates), c, sequential)
    d, g = found.weights @ updates, found.guidance @ updates
    length = np.linalg.norm(g)
    assert found.worst == pytest.approx((updates @ d).min(), rel=1e-6, abs=1e-9)
    assert found.dual == pytest.approx(found.worst, rel=1e-3, abs=1e-3 * length**2)
    assert np.linalg.norm(d - g) == pytest.approx(c * length, rel=1e-3)
    rng = np.random.default_rng(seed)
    away = rng.normal(size=(200, width))
    others = g + c * length * away / np.linalg.norm(away, axis=1, keepdims=True)
    assert (others @ updates.T).min(axis=1).max() <= found.worst + 1e-3 * length**2


@settings(deadline=None, max_examples=40)
@given(**CASES, scale=st.sampled_from([1e-6, 1e-2, 1e3]))
def test_larger_updates_make_a_larger_step_and_no_other(seed, clients, width, c, sequential, scale):
    updates = random_updates(seed, clients, width)
    plain = direction(gram(updates), c, sequential).weights @ updates
    found = direction(gram(updates * scale), c, sequential).weights @ updates
    np.testing.assert_allclose(found, plain, rtol=1e-3, atol=1e-3 * np.linalg.norm(plain))


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**30), clients=st.integers(2, 6), width=st.integers(8, 20))
def test_clients_may_come_in_any_order(seed, clients, width):
    updates = random_updates(seed, clients, width)
    order = np.random.default_rng(seed).permutation(clients)
    plain = direction(gram(updates), 0.4).weights @ updates
    found = direction(gram(updates[order]), 0.4).weights @ updates[order]
    np.testing.assert_allclose(found, plain, rtol=1e-3, atol=1e-3 * np.linalg.norm(plain))


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**30), clients=st.integers(1, 6), sequential=st.booleans())
def test_where_nobody_is_against_anybody_the_guidance_is_the_mean(seed, clients, sequential):
    updates = np.abs(random_updates(seed, clients, 5))
    np.testing.assert_allclose(guidance(gram(updates), sequential), np.full(clients, 1 / clients))


def test_who_has_not_moved_changes_nothing_but_the_mean():
    """It is in no way of the others: its row is no part of the problem, and breaks nothing."""
    moved = np.vstack([DELTA, np.zeros((1, 2))])
    for sequential in (False, True):
        found = direction(gram(moved), 0.5, sequential)
        plain = direction(gram(DELTA), 0.5, sequential)
        assert np.isfinite(found.weights).all()
        np.testing.assert_allclose(found.weights @ moved, 0.75 * plain.weights @ DELTA, rtol=1e-3)
        assert found.worst == pytest.approx(0.75 * plain.worst, rel=1e-3)


def test_nobody_moved_at_all():
    np.testing.assert_array_equal(stepped(np.zeros((3, 2))), [0.0, 0.0])


@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize(
    "updates",
    [
        [[1.0], [-1.0]],
        [[1.3], [-0.7]],
        [[0.9], [-0.35]],
        [[2.0], [-0.3], [-0.9], [0.4]],
        [[1.0, 2.0], [-1.0, -2.0]],
    ],
    ids=["equal", "longer", "shorter", "four", "two-entries"],
)
def test_opposed_updates_along_one_line_do_not_stop_a_run(updates, sequential):
    """As those of the bias of a network with one output are."""
    found = direction(gram(updates), 0.4, sequential)
    assert np.isfinite(found.weights).all()
    step = found.weights @ np.array(updates)
    assert np.linalg.norm(step) <= 1.4 * np.linalg.norm(found.guidance @ np.array(updates)) + 1e-6


def test_many_clients_and_few_entries():
    for seed in range(5):
        updates = random_updates(seed, 20, 10)
        found = direction(gram(updates), 0.4)
        assert found.dual == pytest.approx((updates @ (found.weights @ updates)).min(), abs=1e-2)


# -- in the place of a host's mean ---------------------------------------------------------


def two_tensors() -> Round:
    """The first tensor has conflicts, the second has none; a third belongs to the host."""
    updates = {"body.a": DELTA, "body.b": np.abs(DELTA), "head.a": -DELTA}
    sent = Fleet({name: torch.tensor(x).float() + 1.0 for name, x in updates.items()})
    start = Fleet({name: torch.ones(1, 2).expand(3, 2) for name in updates})
    return Round(1, (0, 1, 2), (0, 1, 2, 3), sent, start, np.array([1.0, 2.0, 5.0]))


def host(round: Round) -> dict[str, Mixing]:
    own = Mixing.personal(np.eye(3), round.participants)
    return {"head.*": own, "*": Mixing.shared(round.sizes, receivers=round.clients)}


def test_only_shared_tensors_change_their_rule():
    round = two_tensors()
    before = host(round)
    mixings, _ = ConFREE().adjust(before, round, ["body.*"])
    assert mixings["head.*"] is before["head.*"]
    assert mixings["*"] is before["*"]
    assert list(mixings)[:2] == ["body.a", "body.b"], "before the patterns that they fit as well"
    for name in ("body.a", "body.b"):
        step = mixings[name]
        assert isinstance(step, Mixing)
        assert step.base is not None
        assert set(step.route) == {0, 1, 2, 3}, "also who was absent"


def test_each_tensor_has_its_own_problem_or_all_have_one():
    round = two_tensors()
    apart, _ = ConFREE(scope="tensor").adjust(host(round), round, ["body.*"])
    whole, _ = ConFREE(scope="model").adjust(host(round), round, ["body.*"])
    assert not np.allclose(apart["body.a"].weights, apart["body.b"].weights)
    np.testing.assert_array_equal(whole["body.a"].weights, whole["body.b"].weights)
    for name, updates in (("body.a", DELTA), ("body.b", np.abs(DELTA))):
        wanted = direction(gram(updates), 0.4).weights / (1 + 0.4**2)
        np.testing.assert_allclose(apart[name].weights[0], wanted, atol=1e-5)
    both = direction(gram(DELTA) + gram(np.abs(DELTA)), 0.4).weights / (1 + 0.4**2)
    np.testing.assert_allclose(whole["body.a"].weights[0], both, atol=1e-5)


def test_conflict_is_counted_before_and_after():
    """Of three pairs one points apart; nobody is against the mean, nor against the step."""
    start = fleet([[0.0, 0.0]])
    round = round_of(fleet(DELTA), start)
    _, conflict = ConFREE(c=0.5).adjust({}, round, ["*"])
    assert conflict["pairs"] == pytest.approx(1 / 3)
    assert conflict["mean"] == 0.0
    assert conflict["guided"] == 0.0
    # a long update drags the mean away from two short ones
    crossed = np.array([[-10.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
    round = round_of(fleet(crossed), fleet([[0.0] * 3]))
    _, conflict = ConFREE(c=0.5).adjust({}, round, ["*"])
    assert conflict["pairs"] == pytest.approx(2 / 3)
    assert conflict["mean"] == pytest.approx(2 / 3)
    assert conflict["guided"] == 0.0


def test_a_single_client_has_no_conflict():
    round = round_of(fleet([[1.0, 2.0]]), fleet([[0.0, 0.0]]))
    _, conflict = ConFREE().adjust({}, round, ["*"])
    assert (conflict["pairs"], conflict["mean"], conflict["guided"]) == (0.0, 0.0, 0.0)
