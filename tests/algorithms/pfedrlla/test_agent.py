"""pFedRLLA's agent: it acts on the simplex, learns from rewards, and is remembered."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from comity.algorithms.pfedrlla.agent import Agent, Flat, Networks
from comity.core.rng import stream, torch_seeded
from tests.vectors import PFEDRLLA

KINDS = ("flat", "pairwise")
WIDTH = 6


def agent_of(kind: str, slots: int = 4, squashed: bool = False) -> Agent:
    with torch_seeded(1, "agent"):
        return Agent(slots, WIDTH, kind=kind, squashed=squashed, memory=500)  # type: ignore[arg-type]


def states(count: int, slots: int = 4, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, slots * WIDTH)).astype(np.float32)


@pytest.mark.parametrize("kind", KINDS)
def test_actions_are_weights(kind):
    weights = agent_of(kind).act(states(5))
    assert weights.shape == (5, 4)
    assert (weights > 0).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-6)


def test_the_published_networks_have_the_published_sizes():
    slots = PFEDRLLA["actions"]
    assert PFEDRLLA["observation"] == 128 * slots
    networks = Networks("flat", slots, 128, squashed=False)
    count = {
        name: sum(p.numel() for p in part.parameters()) for name, part in networks.named_children()
    }
    assert count == {"actor": PFEDRLLA["actor_parameters"], "critic": PFEDRLLA["critic_parameters"]}


def test_tanh_before_the_softmax_bounds_weights():
    actor = Flat(11, 1, squashed=True)
    last = actor.weigh[-2]
    assert isinstance(last, torch.nn.Linear)
    with torch.no_grad():
        last.weight.zero_()
        last.bias.copy_(torch.tensor([100.0] + [-100.0] * 10))
        assert float(actor(torch.zeros(11)).max()) == pytest.approx(
            PFEDRLLA["largest_weight"], abs=1e-6
        )
        last.bias.neg_()
        assert float(actor(torch.zeros(11)).min()) == pytest.approx(
            PFEDRLLA["least_weight"], abs=1e-6
        )
    free = Flat(11, 1, squashed=False)
    with torch.no_grad():
        free.weigh[-1].bias.copy_(torch.tensor([100.0] + [-100.0] * 10))  # type: ignore[union-attr]
        assert float(free(torch.zeros(11)).max()) > 0.99


def test_to_a_pairwise_agent_the_order_and_number_of_givers_mean_nothing():
    agent = agent_of("pairwise")
    (state,) = states(1)
    slots = state.reshape(4, WIDTH)
    weights = agent.act(state[None])[0]
    turned = agent.act(slots[[2, 0, 1, 3]].reshape(1, -1))[0]
    np.testing.assert_allclose(turned, weights[[2, 0, 1, 3]], rtol=1e-5)
    fewer = agent.act(slots[[0, 3]].reshape(1, -1))[0]
    np.testing.assert_allclose(fewer[0] / fewer[1], weights[0] / weights[3], rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_it_learns_what_is_rewarded(kind):
    """The reward is the weight of the first slot: nothing else counts."""
    agent = agent_of(kind)
    rng = np.random.default_rng(1)
    for state in states(200):
        action = rng.dirichlet(np.ones(4))
        if kind == "pairwise":  # which slot it is must be seen in what it holds
            state.reshape(4, WIDTH)[:, 0] = [3.0, 0.0, 0.0, 0.0]
        agent.remember(state, action, float(action[0]))
    seen = states(50, seed=2)
    if kind == "pairwise":
        seen.reshape(50, 4, WIDTH)[:, :, 0] = [3.0, 0.0, 0.0, 0.0]
    before = agent.act(seen)[:, 0].mean()
    agent.learn(stream(1, "draws"), 150, 32)
    assert agent.episodes == 200
    assert agent.act(seen)[:, 0].mean() > max(0.6, before + 0.2)


@pytest.mark.parametrize("kind", KINDS)
def test_it_goes_on_where_it_was(kind):
    one, other = agent_of(kind), agent_of(kind)
    for place, state in enumerate(states(40)):
        one.remember(state, np.full(4, 0.25), float(place))
    one.learn(stream(1, "draws"), 3, 8)
    other.load({name: array.copy() for name, array in one.state().items()})
    for agent in (one, other):
        agent.remember(states(1, seed=9)[0], np.full(4, 0.25), 1.0)
        agent.learn(stream(2, "draws"), 3, 8)
    np.testing.assert_array_equal(one.act(states(3)), other.act(states(3)))


def test_networks_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"actor.*shape"):
        agent_of("flat", slots=5).load(agent_of("flat").state())
