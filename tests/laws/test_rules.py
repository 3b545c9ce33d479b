"""The laws of the server's rules, for every registered algorithm and random rounds."""

from __future__ import annotations

import json

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from comity.algorithms import Round, make
from comity.fleet import Fleet
from tests.laws.conftest import ALGORITHMS

SETTINGS = {
    "fedpref": {"threshold": 1e9, "patience": 1},
    "cfl": {"threshold": 1e9, "patience": 1},
}


def random_round(seed: int, clients: int, number: int = 1) -> Round:
    g = torch.Generator().manual_seed(seed)
    start = Fleet({"a": torch.randn(1, 5, 3, generator=g), "b": torch.randn(1, 4, generator=g)})
    start = Fleet({k: t.expand(clients, *t.shape[1:]) for k, t in start.tensors.items()})
    sent = Fleet({k: t + torch.randn(t.shape, generator=g) for k, t in start.tensors.items()})
    sizes = torch.randint(1, 50, (clients,), generator=g).double().numpy()
    ids = tuple(range(clients))
    return Round(number, ids, ids, sent, start, sizes)


def given_models(name: str, round: Round) -> dict[int, np.ndarray]:
    """What each client would be sent."""
    mixings = make(name, SETTINGS.get(name, {})).mix(round)
    models: dict[int, list[np.ndarray]] = {client: [] for client in round.everyone}
    for tensor in round.sent:
        mixing = mixings.get(tensor, mixings.get("*"))
        assert mixing is not None
        rows = Fleet({tensor: round.sent[tensor]}).mix(mixing.weights)[tensor].flatten(1)
        for client, row in mixing.route.items():
            models[client].append(rows[row].numpy())
    return {client: np.concatenate(parts) for client, parts in models.items()}


@given(seed=st.integers(0, 2**30), clients=st.integers(1, 7), name=st.sampled_from(ALGORITHMS))
def test_4_honest_weights(seed, clients, name):
    round = random_round(seed, clients)
    for mixing in make(name, SETTINGS.get(name, {})).mix(round).values():
        mixing.check(clients)
        assert set(mixing.route.values()) <= set(range(len(mixing.weights)))


@given(seed=st.integers(0, 2**30), clients=st.integers(3, 6), name=st.sampled_from(ALGORITHMS))
def test_3_no_favourites(seed, clients, name):
    """Relabelled clients are sent the same models under their new names."""
    round = random_round(seed, clients)
    order = np.random.default_rng(seed).permutation(clients)
    relabelled = Round(
        1,
        round.present,
        round.everyone,
        round.sent.select(order),
        round.start.select(order),
        round.sizes[order],
    )
    plain, mixed = given_models(name, round), given_models(name, relabelled)
    for new, old in enumerate(order.tolist()):
        np.testing.assert_allclose(mixed[new], plain[old], rtol=1e-4, atol=1e-5)


@given(seed=st.integers(0, 2**30), name=st.sampled_from(ALGORITHMS))
def test_a_single_client_is_left_alone(seed, name):
    round = random_round(seed, 1)
    sent = torch.cat([t.flatten() for t in round.sent.tensors.values()]).numpy()
    np.testing.assert_allclose(given_models(name, round)[0], sent, rtol=1e-6)


@given(seed=st.integers(0, 2**30), name=st.sampled_from(ALGORITHMS))
def test_server_state_survives_json(seed, name):
    """State is plain values: after a round trip the next round is the same, bit for bit."""
    first = make(name, SETTINGS.get(name, {}))
    first.mix(random_round(seed, 5))
    second = make(name, SETTINGS.get(name, {}))
    second.load(json.loads(json.dumps(first.state())))
    following = random_round(seed + 1, 5, number=2)
    wanted, found = first.mix(following), second.mix(following)
    assert first.state() == second.state()
    for key, mixing in wanted.items():
        np.testing.assert_array_equal(mixing.weights, found[key].weights)
