"""Q-learning with networks that take a preference: acting, storing, learning, evaluating."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from comity.algorithms import make
from comity.core.fleet import Fleet
from comity.core.phases import ClientModel
from comity.core.rng import stream, torch_seeded
from comity.learners import Conditioned, DQNSettings, LearnerContext, Task
from tests.tiny import TINY

SEED = 7
ROWS = np.arange(3)
PREFERENCES = np.array([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]])


def learner_for(problem=TINY, settings=None, **learner) -> tuple[Conditioned, Fleet, list]:
    """A learner of three clients, their fleet and the phases of their algorithm."""
    algorithm = make("conditioned-dqn", settings or {})
    with torch_seeded(3, "model"):
        module = algorithm.build(problem.model(), problem)
    fleet = Fleet.of(module, 3)
    g = torch.Generator().manual_seed(5)
    for tensor in fleet.tensors.values():  # three different models
        tensor += 0.1 * torch.randn(tensor.shape, generator=g)
    model = ClientModel(module, conditional=True, acting=algorithm.acting_preference)
    values = {**problem.defaults, **learner}
    context = LearnerContext(
        problem, DQNSettings(**values), (4, 5, 6), PREFERENCES, SEED, fleet, model
    )
    return Conditioned(context), fleet, algorithm.phases(problem)


def train(learner: Conditioned, fleet: Fleet, phases: list, steps: int, round: int = 1) -> None:
    learner.train(fleet, ROWS, Task(round, phases, fleet.clone(), np.full(3, steps)))


def test_buffers_keep_reward_vectors():
    learner, fleet, phases = learner_for()
    train(learner, fleet, phases, 48)
    rewards = learner.state()["replay.reward"]
    assert rewards.shape == (3, 48, 2)
    assert (rewards[..., 1] == -1.0).all()  # every step costs one
    assert set(np.unique(rewards[..., 0]).tolist()) > {0.0}  # and some end at a treasure


def test_a_preference_lasts_for_one_episode_and_comes_from_its_stream():
    """Each client, each episode: the stream (seed, acting, client, episode)."""
    learner, fleet, phases = learner_for(settings={"own_share": 0.5}, gradient_steps=0)
    acting = make("conditioned-dqn", {"own_share": 0.5}).acting_preference
    seen: list[tuple[np.ndarray, np.ndarray]] = []
    step = learner._environments.step

    def recorded(rows, actions):
        seen.append((learner._acting.copy(), learner._episodes.copy()))
        return step(rows, actions)

    learner._environments.step = recorded
    train(learner, fleet, phases, 160)
    state = learner.state()
    assert state["episodes"].min() > 1
    for preferences, episodes in [*seen, (state["acting"], state["episodes"])]:
        for row, episode in enumerate(episodes.tolist()):
            generator = stream(SEED, "acting", 4 + row, episode)
            expected = acting(generator, PREFERENCES[row])
            np.testing.assert_array_equal(preferences[row], expected)
    ends = learner.state()["replay.terminated"].sum(axis=1)
    assert (seen[-1][1] >= ends - 1).all()


def test_greedy_actions_are_those_at_the_preference_of_the_episode():
    """Epsilon 0 at once: all actions but the first are the best of the plain network at w."""
    learner, fleet, phases = learner_for(
        learning_starts=0,
        exploration_final=0.0,
        exploration_fraction=1e-9,
        gradient_steps=0,
        train_freq=16,
    )
    algorithm = make("conditioned-dqn", {})
    with torch_seeded(3, "model"):
        template = algorithm.build(TINY.model(), TINY)
    plans: list[np.ndarray] = []
    step = learner._environments.step

    def recorded(rows, actions):
        expected = []
        for row, state in enumerate(learner._environments.observe(rows)):
            network = algorithm.predictor(fleet.module(row, template), learner._acting[row])
            expected.append(int(network(learner._features[state][None]).argmax()))
        plans.append(np.array(expected) == actions)
        return step(rows, actions)

    learner._environments.step = recorded
    train(learner, fleet, phases, 160)
    assert np.array(plans)[1:].all()
    assert len(plans) == 160
    assert learner.state()["episodes"].max() > 0


@pytest.mark.parametrize("settings", [{}, {"targets": "envelope"}])
def test_tabulated_states_teach_the_same_as_observations(settings):
    """The same environment as a table and as a gymnasium environment."""
    tables = learner_for(settings=settings)
    others = learner_for(replace(TINY, place=None), settings=settings)
    start = tables[1].clone()
    for learner, fleet, phases in (tables, others):
        train(learner, fleet, phases, 64)
    assert tables[1].distance(start).min() > 0.01
    for name in start:
        torch.testing.assert_close(tables[1][name], others[1][name], rtol=1e-3, atol=1e-4)


def test_interrupted_between_rounds_it_goes_on_the_same_way():
    whole, fleet, phases = learner_for()
    train(whole, fleet, phases, 56)
    halfway = {name: value.copy() for name, value in whole.state().items()}
    models = fleet.clone()
    train(whole, fleet, phases, 104, round=2)
    other, again, _ = learner_for()
    other.load(halfway)
    for name in again:
        again[name].copy_(models[name])
    train(other, again, phases, 104, round=2)
    assert not again.distance(fleet).any()
    for name, value in whole.state().items():
        np.testing.assert_array_equal(other.state()[name], value)


def test_returns_at_a_preference_are_those_of_its_plain_network():
    """Played step by step in the real environment."""
    learner, fleet, _ = learner_for()
    algorithm = make("conditioned-dqn", {})
    with torch_seeded(3, "model"):
        template = algorithm.build(TINY.model(), TINY)
    asked = np.array([[0.1, 0.9], [1.0, 0.0]])
    vectors, losses = learner.evaluate_preferences(fleet, ROWS, "test", asked, 1)
    assert losses is None
    for row in ROWS:
        for place, weights in enumerate(asked):
            network = algorithm.predictor(fleet.module(row, template), weights)
            np.testing.assert_allclose(vectors[row, place], played(network), atol=1e-5)
    own, steps = learner.evaluate(fleet, ROWS, "test", 1)
    assert (steps > 0).all()
    each = [learner.evaluate_preferences(fleet, ROWS, "test", p[None], 1)[0] for p in PREFERENCES]
    np.testing.assert_array_equal(own, [each[row][row, 0] for row in ROWS])


def played(network: torch.nn.Module) -> np.ndarray:
    environment = TINY.environment()
    seen, _ = environment.reset(seed=0)
    total, done = np.zeros(2), False
    while not done:
        values = network(torch.tensor(seen, dtype=torch.float32).reshape(1, -1))
        seen, reward, terminated, truncated, _ = environment.step(int(values.argmax()))
        total += reward
        done = terminated or truncated
    return total
