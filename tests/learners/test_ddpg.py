"""The fleet's DDPG against stable-baselines3 and against itself, client by client."""

from __future__ import annotations

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import stable_baselines3
import torch
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.type_aliases import ReplayBufferSamples

import comity
from comity.configuration import configure
from comity.core.fleet import Fleet
from comity.core.phases import ClientModel, Phase
from comity.core.rng import stream, torch_seeded
from comity.errors import UserError
from comity.federation.initial_model import initial_fleet
from comity.learners.base import LearnerContext, Task
from comity.learners.ddpg import DDPG, DDPGSettings
from comity.problems import find, register, registry
from tests.tiny import TROLLEY

CLIENTS, BATCH, UPDATES = 3, 32, 4
ROWS = np.arange(CLIENTS)
REAL = ["lunar-lander-continuous", "halfcheetah"]


def learner_for(problem_name: str, clients=tuple(range(CLIENTS)), **settings):
    problem = find(problem_name)
    preferences = stream(5, "p").dirichlet([1.0] * len(problem.objectives), CLIENTS)
    with torch_seeded(3, "model"):
        fleet = Fleet.cat([Fleet.of(problem.model(), 1) for _ in range(CLIENTS)])
    fleet = fleet.select(list(clients)).clone()
    defaults = {"batch_size": BATCH, "buffer_size": 500, "learning_starts": 16}
    values = {**problem.defaults, **defaults, **settings}
    learner = DDPG(
        LearnerContext(
            problem,
            DDPGSettings(**values),
            clients,
            preferences[list(clients)],
            7,
            fleet,
            ClientModel(problem.model()),
        )
    )
    return learner, fleet


def train(learner, fleet, goal, round=1, phase=None):
    rows = np.arange(len(fleet))
    goals = np.broadcast_to(goal, len(fleet))
    learner.train(fleet, rows, Task(round, [phase or Phase()], fleet.clone(), goals))


def random_batch(widths: tuple[int, int], number: int) -> dict[str, torch.Tensor]:
    g = stream(11, "batch", number)
    before, after = g.standard_normal((2, CLIENTS, BATCH, widths[0])).astype(np.float32)
    actions = g.uniform(-1, 1, (CLIENTS, BATCH, widths[1])).astype(np.float32)
    return {
        "before": torch.from_numpy(before),
        "after": torch.from_numpy(after),
        "action": torch.from_numpy(actions),
        "reward": torch.from_numpy(g.standard_normal((CLIENTS, BATCH)).astype(np.float32)),
        "terminated": torch.from_numpy(g.random((CLIENTS, BATCH)) < 0.2),
    }


class Stand(gymnasium.Env):
    """Spaces for stable-baselines3; it is never stepped."""

    def __init__(self, widths: tuple[int, int]) -> None:
        self.observation_space = gymnasium.spaces.Box(-100, 100, (widths[0],), np.float32)
        self.action_space = gymnasium.spaces.Box(-1, 1, (widths[1],), np.float32)


def reference_after(learner, start, hidden, batches, client):
    """One client's networks and targets after stable-baselines3 has seen the same batches."""
    s = learner.settings
    widths = (batches[0]["before"].shape[2], batches[0]["action"].shape[2])
    model = stable_baselines3.DDPG(
        "MlpPolicy",
        Stand(widths),
        learning_rate=s.learning_rate,
        buffer_size=10,
        gamma=s.gamma,
        tau=s.tau,
        policy_kwargs={"net_arch": list(hidden)},
        device="cpu",
    )
    model.set_logger(Logger(None, []))
    nets = {"actor": ("mu", "actor", "actor_target"), "critic": ("qf0", "critic", "critic_target")}
    for ours, (inner, *theirs) in nets.items():
        group = start.group(f"{ours}.*").tensors
        names = {k.replace(ours, inner): tensor[client] for k, tensor in group.items()}
        for net in theirs:
            getattr(model, net).load_state_dict(names)
    for batch in batches:
        sample = ReplayBufferSamples(
            batch["before"][client],
            batch["action"][client],
            batch["after"][client],
            batch["terminated"][client].float().unsqueeze(1),
            batch["reward"][client].unsqueeze(1),
        )
        model.replay_buffer.sample = lambda *_args, sample=sample, **_kw: sample
        model.train(gradient_steps=1, batch_size=BATCH)
    found = {}
    for ours, (inner, online, target) in nets.items():
        for prefix, net in (("", online), ("target.", target)):
            state = getattr(model, net).state_dict()
            found |= {prefix + k.replace(inner, ours): v for k, v in state.items()}
    return found


def assert_same_way(found: torch.Tensor, expected: torch.Tensor, start: torch.Tensor) -> None:
    """Adam divides by the gradient's size, so single entries whose gradient is rounding noise may
    differ: the error is judged against how far the tensor moved."""
    moved = (expected - start).norm()
    assert moved > 1e-5, "nothing was learned, so nothing was compared"
    assert (found - expected).norm() < 1e-3 * moved


@pytest.mark.parametrize("problem_name", REAL)
def test_updates_equal_stable_baselines3(problem_name):
    problem = find(problem_name)
    learner, fleet = learner_for(problem_name, tau=0.1)
    start = fleet.clone()
    environment = problem.environment()
    widths = (environment.observation_space.shape[0], environment.action_space.shape[0])
    batches = [random_batch(widths, number) for number in range(UPDATES)]
    cohort = learner._gather(fleet, ROWS, start)
    for batch in batches:
        learner._replay.sample = lambda *_, batch=batch: batch
        learner._learn(cohort, Phase(), [stream(1, "unused")] * CLIENTS)
    state = learner.state()
    for client in range(CLIENTS):
        expected = reference_after(learner, start, problem.hidden, batches, client)
        for name, tensor in expected.items():
            plain = name.removeprefix("target.")
            found = fleet[name] if name == plain else torch.from_numpy(state[name])
            assert_same_way(found[client], tensor, start[plain][client])


@pytest.mark.parametrize("problem_name", [*REAL, "tiny-trolley"])
def test_a_fleet_equals_its_clients_one_by_one(problem_name):
    """Law 2 for a short training: same environments, same draws, same models to tolerance."""
    together, fleet = learner_for(problem_name)
    start, goal = fleet.clone(), np.array([24, 32, 24])
    train(together, fleet, goal)
    for client in range(CLIENTS):
        alone, single = learner_for(problem_name, clients=(client,))
        train(alone, single, goal[[client]])
        assert alone.steps[0] == together.steps[client] >= goal[client]
        for name in fleet:
            assert_same_way(fleet[name][client], single[name][0], start[name][client])


@pytest.mark.parametrize("problem_name", REAL)
def test_training_goes_on_from_its_state_to_the_bit(problem_name):
    """Simulators, buffers and optimisers, in the middle of an episode."""
    learner, fleet = learner_for(problem_name)
    train(learner, fleet, 40)
    other, _ = learner_for(problem_name)
    other.load({name: value.copy() for name, value in learner.state().items()})
    twin = fleet.clone()
    train(learner, fleet, 80, round=2)
    train(other, twin, 80, round=2)
    assert fleet.distance(twin).max() == 0.0
    one, two = learner.state(), other.state()
    for name in one:
        np.testing.assert_array_equal(one[name], two[name])


def test_before_learning_starts_actions_are_uniform_and_nothing_is_learned():
    learner, fleet = learner_for("tiny-trolley", learning_starts=400)
    before = fleet.clone()
    train(learner, fleet, 400)
    actions = learner.state()["replay.action"]
    assert not fleet.distance(before).any()
    np.testing.assert_allclose(np.quantile(actions, [0.25, 0.5, 0.75]), [-0.5, 0, 0.5], atol=0.06)
    assert np.abs(actions).max() <= 1.0
    assert len(np.unique(actions)) == actions.size, "every client draws for itself"


def test_after_that_the_actor_acts_with_noise_within_the_bounds():
    learner, fleet = learner_for("tiny-trolley", learning_starts=0, gradient_steps=0, noise=0.1)
    train(learner, fleet, 400)
    state = learner.state()
    seen = torch.from_numpy(state["replay.before"])
    own = learner._gradient.act(fleet.tensors, seen).numpy()
    noise = (state["replay.action"] - own)[np.abs(own) < 0.6]
    assert noise.std() == pytest.approx(0.1, rel=0.1)
    assert abs(noise.mean()) < 0.02
    loud, fleet = learner_for("tiny-trolley", learning_starts=0, gradient_steps=0, noise=5.0)
    train(loud, fleet, 50)
    assert np.abs(loud.state()["replay.action"]).max() == 1.0


def test_environments_get_actions_within_their_own_bounds():
    learner, fleet = learner_for("tiny-trolley", learning_starts=0, gradient_steps=0)
    taken = []
    original = learner._environments.step
    learner._environments.step = lambda rows, actions: (
        taken.append(actions) or original(rows, actions)
    )
    train(learner, fleet, 4)
    kept = learner.state()["replay.action"][:, 0]
    low, high = TROLLEY.environment().action_space.low, TROLLEY.environment().action_space.high
    np.testing.assert_allclose(taken[0], low + (kept + 1) / 2 * (high - low), rtol=1e-6)


def test_a_model_acts_as_its_client_is_judged():
    learner, fleet = learner_for("tiny-trolley")
    model = fleet.module(1, TROLLEY.model())
    seen = stream(2, "seen").standard_normal((1, 5, 2)).astype(np.float32)
    judged = learner._policy(fleet.select([1]).tensors)(seen)
    with torch.no_grad():
        acted = model(torch.from_numpy(seen)).numpy()
    np.testing.assert_allclose(judged, acted, rtol=1e-5, atol=1e-6)
    assert set(fleet) == {name for name, _ in model.named_parameters()} == set(model.state_dict())


def test_targets_follow_by_tau():
    learner, fleet = learner_for("tiny-trolley", tau=0.25, train_freq=1, gradient_steps=1)
    start = fleet.clone()
    train(learner, fleet, 17)  # one update
    state = learner.state()
    for name in fleet:
        expected = 0.75 * start[name] + 0.25 * fleet[name]
        np.testing.assert_allclose(state[f"target.{name}"], expected.numpy(), rtol=1e-5, atol=1e-7)


def test_a_time_limit_is_not_an_end():
    learner, fleet = learner_for("tiny-trolley", learning_starts=0, gradient_steps=0, noise=0.0)
    for name in fleet:  # zero is the middle of the bounds, (0, 1); the second engine rests at -0.5
        fleet[name].zero_()
    fleet["actor.4.bias"][:, 1] = np.arctanh(-0.5)
    train(learner, fleet, 60)
    state = learner.state()
    ended = (state["replay.before"][:, 1:] != state["replay.after"][:, :-1]).any(axis=2)
    np.testing.assert_array_equal(np.flatnonzero(ended[0]), [19, 39])
    assert not state["replay.terminated"].any()


@pytest.mark.parametrize("part", ["actor", "critic"])
def test_a_penalty_reaches_both_networks(part):
    """One Adam step goes against the sign of the gradient, which a strong penalty decides."""

    def pull(tensors, view):
        return 1e6 * torch.stack([t.sum() for n, t in tensors.items() if part in n]).sum()

    settings = {"train_freq": 1, "gradient_steps": 1}
    learner, fleet = learner_for("tiny-trolley", **settings)
    start = fleet.clone()
    train(learner, fleet, 17, phase=Phase(penalty=pull))
    plain_learner, plain = learner_for("tiny-trolley", **settings)
    train(plain_learner, plain, 17)
    rate = learner.settings.learning_rate
    for name in fleet:
        moved = (fleet[name] - start[name]).numpy()
        if name.startswith(part):
            np.testing.assert_allclose(moved, -rate, rtol=1e-3)
        elif part == "actor":  # the critic steps first, so its step knows nothing of the actor's
            np.testing.assert_array_equal(fleet[name], plain[name])


def test_targets_restart_from_what_was_received():
    learner, fleet = learner_for("tiny-trolley")
    received = Fleet({name: tensor + 1.0 for name, tensor in fleet.tensors.items()})
    learner.receive(np.array([1]), received.select([1]))
    for name in fleet:
        target = learner.state()[f"target.{name}"]
        np.testing.assert_array_equal(target[1], received[name][1].numpy())
        np.testing.assert_array_equal(target[0], fleet[name][0].numpy())


def test_a_learner_that_does_not_fit_the_actions_is_refused(monkeypatch):
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    for name, learner, words in (
        ("tiny-trolley", "dqn", 'learner="ddpg"'),
        ("tiny-treasure", "ddpg", 'learner="dqn"'),
        ("tiny-treasure", "magic", "magic"),
    ):
        register(replace(find(name), name="misfit", learner=learner))
        with pytest.raises(UserError, match=words):
            configure({"problem": "misfit"})


@pytest.mark.parametrize(
    "algorithm", ["no-communication", "fedavg", "fedprox", "cfl", "matfl", "fedpref"]
)
@pytest.mark.parametrize("name", REAL)
def test_every_algorithm_runs(name, algorithm, tmp_path, monkeypatch):
    monkeypatch.setattr("comity.report.write_report", lambda run, kind: None)
    plain = find(name)
    problem = replace(
        plain,
        name=f"short-{name}",
        environment=lambda: gymnasium.wrappers.TimeLimit(plain.environment(), 40),
    )
    run = comity.run(
        problem,
        out=tmp_path / "run",
        algorithm=algorithm,
        clients=2,
        rounds=2,
        keep="last",
        test_episodes=1,
        ddpg={"local_steps": 60, "learning_starts": 20, "batch_size": 16, "buffer_size": 1000},
    )
    assert run.results["environment_steps"]["training"] == 240
    one, other = (dict(run.model(client).named_parameters()) for client in (0, 1))
    start = initial_fleet(run.configuration, 1)
    for key, tensor in one.items():
        assert tensor.isfinite().all()
        assert not torch.equal(tensor, start[key][0]), f"{key} was not learned"
    if algorithm != "cfl":  # where a cluster may have split
        same = all(torch.equal(one[key], other[key]) for key in one)
        assert same == (algorithm in ("fedavg", "fedprox"))
