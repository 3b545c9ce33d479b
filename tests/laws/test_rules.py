"""The laws of the server's rules, for every registered algorithm and random rounds."""

from __future__ import annotations

import json

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from comity.algorithms import Algorithm, Round, Survey, algorithms, make
from comity.fleet import Fleet
from tests.laws.conftest import ALGORITHMS

OBJECTIVES = 3
SETTINGS = {
    "fedpref": {"threshold": 1e9, "patience": 1},
    "cfl": {"threshold": 1e9, "patience": 1},
}
SURVEYING = [name for name in ALGORITHMS if algorithms()[name].surveys]


def prepared(name: str) -> Algorithm:
    return make(name, SETTINGS.get(name, {}))


def rows_of(name: str, clients: np.ndarray) -> np.ndarray:
    """The rows of a round's fleets that belong to these clients, in this order."""
    each = OBJECTIVES if algorithms()[name].apart else 1
    return (clients[:, None] * each + np.arange(each)).ravel()


def random_round(seed: int, clients: int, name: str, number: int = 1) -> Round:
    """A round as this algorithm would see it."""
    rows = len(rows_of(name, np.arange(clients)))
    g = torch.Generator().manual_seed(seed)
    start = Fleet({"a": torch.randn(1, 5, 3, generator=g), "b": torch.randn(1, 4, generator=g)})
    start = Fleet({k: t.expand(rows, *t.shape[1:]) for k, t in start.tensors.items()})
    sent = Fleet({k: t + torch.randn(t.shape, generator=g) for k, t in start.tensors.items()})
    sizes = torch.randint(1, 50, (clients,), generator=g).double().numpy()
    ids = tuple(range(clients))
    return Round(number, ids, ids, sent, start, sizes)


def random_survey(seed: int, clients: int) -> Survey:
    rng = np.random.default_rng(seed)
    gradients = rng.normal(size=(clients * OBJECTIVES, 8)).astype(np.float32)
    values = {
        "losses": rng.uniform(0.1, 2.0, (clients, OBJECTIVES)),
        "preferences": rng.dirichlet(np.ones(OBJECTIVES), clients),
    }
    return Survey(tuple(range(clients)), values, Fleet({"a": torch.from_numpy(gradients)}))


def given_models(name: str, round: Round) -> dict[int, np.ndarray]:
    """What each client would be sent."""
    mixings = prepared(name).mix(round)
    models: dict[int, list[np.ndarray]] = {client: [] for client in round.everyone}
    for tensor in round.sent:
        mixing = mixings.get(tensor, mixings.get("*"))
        assert mixing is not None
        given, base = round.sent[tensor], torch.zeros(1)
        if mixing.base is not None:
            given, base = given - round.start[tensor], mixing.base[tensor]
        rows = (base + Fleet({tensor: given}).mix(mixing.weights)[tensor]).flatten(1)
        for client, row in mixing.route.items():
            models[client].append(rows[row].numpy())
    return {client: np.concatenate(parts) for client, parts in models.items()}


@given(seed=st.integers(0, 2**30), clients=st.integers(1, 7), name=st.sampled_from(ALGORITHMS))
def test_4_honest_weights(seed, clients, name):
    round = random_round(seed, clients, name)
    for mixing in prepared(name).mix(round).values():
        mixing.check(len(round.sent))
        assert set(mixing.route.values()) <= set(range(len(mixing.weights)))
        assert mixing.base is None or len(mixing.base) == len(mixing.weights)


@given(seed=st.integers(0, 2**30), clients=st.integers(3, 6), name=st.sampled_from(ALGORITHMS))
def test_3_no_favourites(seed, clients, name):
    """Relabelled clients are sent the same models under their new names."""
    round = random_round(seed, clients, name)
    order = np.random.default_rng(seed).permutation(clients)
    relabelled = Round(
        1,
        round.present,
        round.everyone,
        round.sent.select(rows_of(name, order)),
        round.start.select(rows_of(name, order)),
        round.sizes[order],
    )
    plain, mixed = given_models(name, round), given_models(name, relabelled)
    for new, old in enumerate(order.tolist()):
        np.testing.assert_allclose(mixed[new], plain[old], rtol=1e-4, atol=1e-5)


@settings(deadline=None)
@given(seed=st.integers(0, 2**30), clients=st.integers(1, 6), name=st.sampled_from(SURVEYING))
def test_3_no_favourites_in_a_survey(seed, clients, name):
    """The server's answer to a survey does not depend on who said what."""
    survey = random_survey(seed, clients)
    order = np.random.default_rng(seed).permutation(clients)
    assert survey.gradients is not None
    rows = (order[:, None] * OBJECTIVES + np.arange(OBJECTIVES)).ravel()
    relabelled = Survey(
        survey.present,
        {key: values[order] for key, values in survey.values.items()},
        survey.gradients.select(rows),
    )
    plain, mixed = prepared(name).brief(survey), prepared(name).brief(relabelled)
    assert plain.keys() == mixed.keys()
    for key in plain:
        assert np.isfinite(plain[key]).all()
        np.testing.assert_allclose(mixed[key], plain[key], rtol=1e-4, atol=1e-5)


@given(seed=st.integers(0, 2**30), name=st.sampled_from(ALGORITHMS))
def test_a_single_client_is_left_alone(seed, name):
    """Means of one are what it sent; a step may be of another length than the client's own."""
    round = random_round(seed, 1, name)
    if any(mixing.base is not None for mixing in prepared(name).mix(round).values()):
        return
    sent = torch.cat([t.flatten() for t in round.sent.tensors.values()]).numpy()
    np.testing.assert_allclose(given_models(name, round)[0], sent, rtol=1e-6)


@settings(deadline=None)
@given(seed=st.integers(0, 2**30), name=st.sampled_from(ALGORITHMS))
def test_server_state_survives_json(seed, name):
    """State is plain values: after a round trip the next round is the same, bit for bit."""
    surveys = bool(algorithms()[name].surveys)
    first, second = prepared(name), prepared(name)
    if surveys:
        first.brief(random_survey(seed, 5))
    first.mix(random_round(seed, 5, name))
    second.load(json.loads(json.dumps(first.state())))
    if surveys:
        wanted_brief, found_brief = (a.brief(random_survey(seed + 1, 5)) for a in (first, second))
        for key, values in wanted_brief.items():
            np.testing.assert_array_equal(values, found_brief[key])
    following = random_round(seed + 1, 5, name, number=2)
    wanted, found = first.mix(following), second.mix(following)
    assert first.state() == second.state()
    for key, mixing in wanted.items():
        np.testing.assert_array_equal(mixing.weights, found[key].weights)
