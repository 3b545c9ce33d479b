from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch

from comity.errors import UserError
from comity.problems import find, problems
from comity.problems.simulators import (
    GymEnvironments,
    TableEnvironments,
    environments,
    idle_returns,
)

DISCRETE = [
    "deep-sea-treasure",
    "deep-sea-treasure-concave",
    "minecart-deterministic",
    "lunar-lander",
]
CONTINUOUS = ["lunar-lander-continuous", "halfcheetah"]
NAMES = [*DISCRETE, *CONTINUOUS]


def follow(actions):
    """A policy that plays given actions, the same for every client and episode."""
    left = iter(actions)

    def policy(observations):
        return np.full(observations.shape[:2], next(left, actions[-1]))

    return policy


def play(env, rows, actions):
    """Rewards, ends and observations of some steps."""
    out = []
    for action in actions:
        step = env.step(rows, np.array([action] * len(rows)))
        out.append((step.reward, step.terminated, step.truncated, env.observe(rows)))
    return out


def some_actions(name, count, seed):
    """Random actions; a thousand and more of them outlast an episode of any problem."""
    generator, space = np.random.default_rng(seed), find(name).environment().action_space
    if name in DISCRETE:
        return generator.integers(0, 4, size=count).tolist()
    return list(generator.uniform(space.low, space.high, (count, *space.shape)))


@pytest.mark.parametrize("name", NAMES)
def test_every_problem_is_what_its_environment_says(name):
    problem = find(name)
    env = problem.environment()
    assert len(problem.objectives) == env.unwrapped.reward_dim == len(problem.reference_point)
    model = problem.model()
    if name in CONTINUOUS:
        observation, _ = env.reset(seed=0)
        action = model(torch.from_numpy(observation).float()).detach().numpy()
        assert action in env.action_space
        assert {part.partition(".")[0] for part in model.state_dict()} == {"actor", "critic"}
    else:
        assert model[-1].out_features == env.action_space.n
    front = problem.front()
    if front is not None:
        assert (front > problem.reference_point).all()


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_steps_also_after_other_episodes(name):
    actions = some_actions(name, 300 if name in DISCRETE else 1100, seed=0)
    runs = []
    for _ in range(2):
        env = environments(find(name), (3, 8), seed=5)
        runs.append(play(env, np.array([0, 1]), actions))
    for one, other in zip(*runs, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", [*DISCRETE, *CONTINUOUS])
def test_a_running_episode_is_restored(name):
    """To the bit, by a simulator that has not seen the episodes before."""
    rows = np.array([0, 1])
    actions = some_actions(name, 150, seed=1)
    env = environments(find(name), (3, 8), seed=5)
    play(env, rows, some_actions(name, 1050, seed=2) if name in CONTINUOUS else actions)
    other = environments(find(name), (3, 8), seed=5)
    other.load({key: value.copy() for key, value in env.state().items()})
    for one, two in zip(play(env, rows, actions), play(other, rows, actions), strict=True):
        for a, b in zip(one, two, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["deep-sea-treasure", "deep-sea-treasure-concave"])
def test_the_table_is_the_environment(name):
    """Random walks through table and simulator give the same rewards, ends and positions."""
    problem = find(name)
    table = TableEnvironments(problem, 1)
    plain = GymEnvironments(replace(problem, place=None), (0,), seed=1)
    rows = np.array([0])
    assert table.features is not None
    for action in np.random.default_rng(2).choice([0, 1, 1, 2, 3, 3], size=2000).tolist():
        one, two = table.step(rows, np.array([action])), plain.step(rows, np.array([action]))
        np.testing.assert_allclose(one.reward, two.reward, atol=1e-6)
        assert (one.terminated, one.truncated) == (two.terminated, two.truncated)
        np.testing.assert_array_equal(table.features[table.observe(rows)], plain.observe(rows))


def test_optimum_is_the_best_of_the_front():
    problem = find("deep-sea-treasure")
    weights = np.array([[0.5, 0.5], [0.3, 0.7], [1.0, 0.0], [0.0, 1.0]])
    np.testing.assert_allclose(problem.optimum(weights), [3.6, 0.36, 23.7, -1.0], atol=0.2)
    assert problem.optimum(np.array([[0.3, 0.7]]))[0] == pytest.approx(0.3 * 8.2 - 0.7 * 3)


def test_known_fronts_have_the_published_size():
    assert len(find("deep-sea-treasure").front()) == 10
    assert len(find("deep-sea-treasure-concave").front()) == 10
    assert len(find("minecart-deterministic").front()) == 10
    assert find("lunar-lander").front() is None


def test_doing_nothing_is_judged_not_assumed():
    for name, wanted in (
        ("deep-sea-treasure", [0, -100]),
        ("minecart-deterministic", [0, 0, -20]),
    ):
        found = idle_returns(find(name), (0, 1), seed=1, episodes=1)
        np.testing.assert_allclose(found, [wanted, wanted], atol=1e-4)
    landed = idle_returns(find("lunar-lander"), (0, 1), seed=1, episodes=3)
    assert (landed[:, 0] == -100).all(), "falling freely ends in a crash"
    assert (landed[:, 2:] == 0).all()
    assert landed[0, 1] != landed[1, 1], "clients have test episodes of their own"
    landed = idle_returns(find("lunar-lander-continuous"), (0,), seed=1, episodes=1)
    assert (landed[0, 2:] == 0).all()
    still = idle_returns(find("halfcheetah"), (0,), seed=1, episodes=1)
    assert still[0, 1] == 0
    assert abs(still[0, 0]) < 10


def test_a_loop_is_noticed_and_its_steps_are_not_taken():
    for name in ("deep-sea-treasure", "minecart-deterministic"):
        problem = find(name)
        env = environments(problem, (0,), seed=1)
        idle = follow([problem.idle_action])
        value, steps = env.evaluate(np.array([0]), idle, 1, "validation")
        assert steps[0] == 1, "the first step comes back to where it began"
        assert value[0, -1] == pytest.approx(-100 if "treasure" in name else -20, abs=1e-4)


def test_an_episode_without_a_loop_is_played_to_its_end():
    """Down at once: the first treasure. To the right and down: the second."""
    problem = replace(find("deep-sea-treasure"), place=None)
    env = environments(problem, (0,), seed=1)
    value, steps = env.evaluate(np.array([0]), follow([1]), 1, "validation")
    np.testing.assert_allclose(value, [[0.7, -1]], atol=1e-6)
    assert steps[0] == 1
    value, steps = env.evaluate(np.array([0]), follow([3, 1, 1]), 1, "validation")
    np.testing.assert_allclose(value, [[8.2, -3]], atol=1e-6)
    assert steps[0] == 3


def test_a_stored_reference_set_is_what_igd_measures_from(tmp_path):
    file = tmp_path / "set.csv"
    file.write_text("8.2,-3\n0.7,-1\n")
    unknown = replace(find("deep-sea-treasure"), known_front=None, reference_set=file)
    np.testing.assert_allclose(unknown.target(), [[8.2, -3], [0.7, -1]])
    assert unknown.optimum(np.array([[0.5, 0.5]])) is None
    np.testing.assert_array_equal(
        find("deep-sea-treasure").target(), find("deep-sea-treasure").front()
    )
    assert find("lunar-lander").target() is None


def test_an_environment_without_a_time_limit_is_refused():
    endless = find("lunar-lander").environment().unwrapped
    endless.spec = None
    with pytest.raises(UserError, match="no time limit"):
        environments(replace(find("lunar-lander"), environment=lambda: endless), (0,), seed=1)


def test_all_problems_are_registered():
    assert set(NAMES) <= set(problems())


def test_halfcheetah_is_silent_and_leaves_no_file_behind(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    find("halfcheetah").environment()
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())


HIDDEN = {
    ("deep-sea-treasure", "mo_gymnasium"): "comity[environments]",
    ("lunar-lander", "mo_gymnasium"): "comity[box2d]",
    ("lunar-lander", "Box2D"): "comity[box2d]",
    ("lunar-lander-continuous", "Box2D"): "comity[box2d]",
    ("halfcheetah", "mujoco"): "comity[mujoco]",
}
"""Extras, by problem and by what is not installed."""


def test_a_missing_extra_is_named():
    """Each in a process of its own, where nothing of the environment is imported yet."""
    code = (
        "import os, sys\n"
        "from comity.errors import UserError\n"
        "from comity.problems import find\n"
        f"for name, hidden in {list(HIDDEN)}:\n"
        "    if os.fork() == 0:\n"
        "        sys.modules[hidden] = None\n"
        "        try: find(name).environment()\n"
        "        except UserError as error: print(error, flush=True)\n"
        "        os._exit(0)\n"
        "    os.wait()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    messages = done.stdout.splitlines()
    assert len(messages) == len(HIDDEN)
    for message, extra in zip(messages, HIDDEN.values(), strict=True):
        assert extra in message


def test_problems_with_data_need_no_environments(tmp_path):
    hidden = "import sys; sys.modules['gymnasium'] = sys.modules['mo_gymnasium'] = None\n"
    code = hidden + "from comity.cli import main; main()"
    run = ["run", "german-credit-gender-dp", "--rounds", "1", "--workers", "1"]
    for words in (["list", "problems"], run):
        command = [sys.executable, "-c", code, *words]
        subprocess.run(command, capture_output=True, check=True, cwd=tmp_path)


def test_an_action_space_that_nobody_learns_is_refused():
    class Odd(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)
        action_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    with pytest.raises(UserError, match="finite bounds"):
        replace(find("halfcheetah"), environment=Odd).model()
