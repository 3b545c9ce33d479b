"""The fleet's DQN against stable-baselines3 and against itself, client by client."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import stable_baselines3
import torch
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.type_aliases import ReplayBufferSamples

from comity.configuration import configure
from comity.core.fleet import Fleet
from comity.core.phases import ClientModel, Phase
from comity.core.rng import stream, torch_seeded
from comity.federation.initial_model import initial_fleet
from comity.learners.base import LearnerContext, Task
from comity.learners.dqn import DQN, DQNSettings
from comity.problems import find
from comity.problems.simulators import environments

CLIENTS, BATCH, UPDATES = 3, 32, 4


def learner_for(problem_name: str, clients=tuple(range(CLIENTS)), **settings):
    problem = find(problem_name)
    preferences = stream(5, "p").dirichlet([1.0] * len(problem.objectives), CLIENTS)
    with torch_seeded(3, "model"):
        fleet = Fleet.cat([Fleet.of(problem.model(), 1) for _ in range(CLIENTS)])
    fleet = fleet.select(list(clients)).clone()
    values = {**problem.defaults, "batch_size": BATCH, "learning_starts": 16, **settings}
    learner = DQN(
        LearnerContext(
            problem,
            DQNSettings(**values),
            clients,
            preferences[list(clients)],
            7,
            fleet,
            ClientModel(problem.model()),
        )
    )
    return learner, fleet


def random_batch(problem_name: str, number: int) -> dict[str, torch.Tensor]:
    """Transitions as the learner stores them: indices where states are tabulated."""
    g = stream(11, "batch", number)
    features = environments(find(problem_name), (0,), 0).features
    if features is None:
        width = find(problem_name).environment().observation_space.shape[0]
        before, after = g.standard_normal((2, CLIENTS, BATCH, width)).astype(np.float32)
    else:
        before, after = g.integers(len(features), size=(2, CLIENTS, BATCH)).astype(np.int32)
    return {
        "before": torch.from_numpy(before),
        "after": torch.from_numpy(after),
        "action": torch.from_numpy(g.integers(4, size=(CLIENTS, BATCH)).astype(np.int16)),
        "reward": torch.from_numpy((10 * g.standard_normal((CLIENTS, BATCH))).astype(np.float32)),
        "terminated": torch.from_numpy(g.random((CLIENTS, BATCH)) < 0.2),
    }


class Stand(gymnasium.Env):
    """Spaces for stable-baselines3; it is never stepped."""

    def __init__(self, width: int) -> None:
        self.observation_space = gymnasium.spaces.Box(-100, 100, (width,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(4)


def reference_after(problem_name, learner, start, batches, client):
    """One client's parameters after stable-baselines3 has seen the same batches."""
    s = learner.settings
    features = environments(find(problem_name), (0,), 0).features
    width = start.tensors["0.weight"].shape[2]
    model = stable_baselines3.DQN(
        "MlpPolicy",
        Stand(width),
        learning_rate=s.learning_rate,
        buffer_size=10,
        gamma=s.gamma,
        max_grad_norm=s.max_grad_norm,
        policy_kwargs={"net_arch": [256, 256]},
        device="cpu",
    )
    model.set_logger(Logger(None, []))
    names = {f"q_net.{name}": tensor[client] for name, tensor in start.tensors.items()}
    model.q_net.load_state_dict(names)
    model.q_net_target.load_state_dict(names)
    for batch in batches:
        seen = [batch[k][client] for k in ("before", "after")]
        if features is not None:
            seen = [torch.from_numpy(features)[index.long()] for index in seen]
        sample = ReplayBufferSamples(
            seen[0],
            batch["action"][client].long().unsqueeze(1),
            seen[1],
            batch["terminated"][client].float().unsqueeze(1),
            batch["reward"][client].unsqueeze(1),
        )
        model.replay_buffer.sample = lambda *_args, sample=sample, **_kw: sample
        model.train(gradient_steps=1, batch_size=BATCH)
    return {k.removeprefix("q_net."): v for k, v in model.q_net.state_dict().items()}


@pytest.mark.parametrize("max_grad_norm", [10.0, 0.01], ids=["plain", "clipped"])
@pytest.mark.parametrize("problem_name", ["deep-sea-treasure", "lunar-lander"])
def test_updates_equal_stable_baselines3(problem_name, max_grad_norm):
    learner, fleet = learner_for(problem_name, max_grad_norm=max_grad_norm, gradient_steps=1)
    start = fleet.clone()
    batches = [random_batch(problem_name, number) for number in range(UPDATES)]
    cohort = learner._gather(fleet, np.arange(CLIENTS), start)
    for batch in batches:
        learner._replay.sample = lambda *_, batch=batch: batch
        learner._learn(cohort, Phase(), [stream(1, "unused")] * CLIENTS)
    for client in range(CLIENTS):
        expected = reference_after(problem_name, learner, start, batches, client)
        for name, tensor in expected.items():
            # Adam divides by the gradient's size, so single entries whose gradient is rounding
            # noise may differ: the error is judged against how far the tensor moved
            moved = (tensor - start[name][client]).norm()
            assert moved > 1e-4, "nothing was learned, so nothing was compared"
            assert (fleet[name][client] - tensor).norm() < 1e-3 * moved


@pytest.mark.parametrize("problem_name", ["deep-sea-treasure", "minecart-deterministic"])
def test_a_fleet_equals_its_clients_one_by_one(problem_name):
    """Law 2 for a short training: same environments, same draws, same models to tolerance."""
    together, fleet = learner_for(problem_name)
    rows, goal = np.arange(CLIENTS), np.array([64, 96, 64])
    together.train(fleet, rows, Task(1, [Phase()], fleet.clone(), goal))
    for client in range(CLIENTS):
        alone, single = learner_for(problem_name, clients=(client,))
        first = np.array([0])
        alone.train(single, first, Task(1, [Phase()], single.clone(), goal[[client]]))
        assert alone.steps[0] == together.steps[client] >= goal[client]
        for name in fleet:
            torch.testing.assert_close(fleet[name][client], single[name][0], rtol=1e-3, atol=1e-4)


def test_unequal_goals_give_unequal_steps_and_leave_finished_clients_alone():
    learner, fleet = learner_for("deep-sea-treasure")
    rows = np.arange(CLIENTS)
    learner.train(fleet, rows, Task(1, [Phase()], fleet.clone(), np.array([64, 64, 64])))
    before = fleet.clone()
    learner.train(fleet, rows, Task(2, [Phase()], fleet.clone(), np.array([64, 64, 128])))
    assert learner.steps.tolist() == [64, 64, 128]
    moved = fleet.distance(before)
    assert moved[0] == moved[1] == 0 < moved[2]


def test_nothing_is_learned_before_learning_starts():
    learner, fleet = learner_for("deep-sea-treasure", learning_starts=64)
    before = fleet.clone()
    learner.train(fleet, np.arange(CLIENTS), Task(1, [Phase()], before, np.full(CLIENTS, 64)))
    assert not fleet.distance(before).any()


def test_epsilon_falls_over_all_steps_not_over_a_round():
    """With no random steps and epsilon 0 at once, all actions are the greedy ones."""
    learner, fleet = learner_for(
        "deep-sea-treasure",
        learning_starts=0,
        exploration_final=0.0,
        exploration_fraction=1e-9,
        total_steps=100,
        gradient_steps=0,
    )
    learner.train(
        fleet, np.arange(CLIENTS), Task(1, [Phase()], fleet.clone(), np.full(CLIENTS, 16))
    )
    state = learner.state()
    greedy = learner._greedy(fleet.tensors, learner._observations(CLIENTS))
    for client in range(CLIENTS):
        seen, taken = state["replay.before"][client], state["replay.action"][client]
        # the very first action of a run is drawn with epsilon one
        assert (taken[1:] == greedy[client, seen[1:]]).all()


def test_a_time_limit_is_not_an_end():
    """A truncated step is stored as not terminated, so its value is bootstrapped."""
    learner, fleet = learner_for(
        "deep-sea-treasure",
        learning_starts=0,
        exploration_final=0.0,
        exploration_fraction=1e-9,
        gradient_steps=0,
    )
    for name in fleet:  # "up" everywhere: the submarine never leaves its first cell
        fleet[name].zero_()
    fleet["4.bias"][:, 0] = 1.0
    learner.train(
        fleet, np.arange(CLIENTS), Task(1, [Phase()], fleet.clone(), np.full(CLIENTS, 112))
    )
    assert not learner.state()["replay.terminated"][:, 1:].any()


def test_target_networks_restart_from_what_was_received():
    learner, fleet = learner_for("deep-sea-treasure")
    received = Fleet({name: tensor + 1.0 for name, tensor in fleet.tensors.items()})
    learner.receive(np.array([1]), received.select([1]))
    state = learner.state()
    for name in fleet:
        np.testing.assert_array_equal(state[f"target.{name}"][1], received[name][1].numpy())
        np.testing.assert_array_equal(state[f"target.{name}"][0], fleet[name][0].numpy())


def test_averaged_targets_travel_beside_the_model():
    learner, fleet = learner_for("deep-sea-treasure", average_targets=True)
    companions = learner.companions()
    assert companions is not None
    assert set(companions) == {f"target.{name}" for name in fleet}
    received = Fleet(
        {**fleet.tensors, **{name: t - 2.0 for name, t in companions.clone().tensors.items()}}
    )
    expected = received["target.0.weight"][2].clone()
    learner.receive(np.array([2]), received.select([2]))
    np.testing.assert_array_equal(learner.state()["target.0.weight"][2], expected.numpy())
    online = Fleet({name: tensor + 1.0 for name, tensor in fleet.tensors.items()})
    learner.receive(np.array([2]), online.select([2]))  # no targets among them
    expected = online["0.weight"][2]
    np.testing.assert_array_equal(learner.state()["target.0.weight"][2], expected.numpy())


def test_replay_survives_its_state():
    learner, fleet = learner_for("minecart-deterministic")
    rows, goal = np.arange(CLIENTS), np.full(CLIENTS, 64)
    learner.train(fleet, rows, Task(1, [Phase()], fleet.clone(), goal))
    other, _ = learner_for("minecart-deterministic")
    other.load({name: value.copy() for name, value in learner.state().items()})
    twin = fleet.clone()
    learner.train(fleet, rows, Task(2, [Phase()], fleet.clone(), goal + 64))
    other.train(twin, rows, Task(2, [Phase()], twin.clone(), goal + 64))
    assert fleet.distance(twin).max() == 0.0


def test_all_clients_start_from_one_model():
    configuration = configure({"problem": "deep-sea-treasure", "clients": 4})
    fleet = initial_fleet(configuration, 4)
    assert all((tensor == tensor[:1]).all() for tensor in fleet.tensors.values())
