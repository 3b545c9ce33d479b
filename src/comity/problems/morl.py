"""Multi-objective reinforcement learning problems from mo-gymnasium.

Learner settings and step budgets are those of the FedPref experiments (thesis tables A.6 and A.7);
returns are undiscounted. The thesis prints no reference points for chapter 4: those of Deep Sea
Treasure and Minecart are derived from its table 4.3, the others are guesses. Reference points of
searches are printed in table A.1.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from comity.core.typing import FloatArray
from comity.errors import UserError
from comity.problems.base import Objective
from comity.problems.environments import EnvironmentProblem


def make(name: str, extra: str = "") -> Any:
    """Make one mo-gymnasium environment, without its cosmetic warnings.

    Args:
        name: Identifier of the environment.
        extra: Extra of this package that installs its simulator.
    """
    try:
        import gymnasium
        import mo_gymnasium
    except ImportError:
        raise UserError(
            f"environment '{name}' comes with mo-gymnasium, which is not installed; install it "
            f"with: pip install 'comity[{extra or 'environments'}]'."
        ) from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return mo_gymnasium.make(name)
        except gymnasium.error.DependencyNotInstalled as error:
            raise UserError(
                f"environment '{name}' needs an extra package ({error}); "
                f"install it with: pip install 'comity[{extra}]'."
            ) from None


@contextmanager
def _silent_mujoco() -> Iterator[None]:
    """Suppress MuJoCo's warning that a model file is written in an old style.

    Otherwise it is written to the terminal, and to a log file in the working directory, for each
    environment.
    """
    try:
        import mujoco
    except ImportError:  # making the environment raises an error that names what is missing
        yield
        return
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)


def _deep_sea_treasure() -> Any:
    return make("deep-sea-treasure-v0")


def _deep_sea_treasure_concave() -> Any:
    return make("deep-sea-treasure-concave-v0")


def _minecart() -> Any:
    return make("minecart-deterministic-v0")


def _lunar_lander() -> Any:
    return make("mo-lunar-lander-v3", extra="box2d")


def _lunar_lander_continuous() -> Any:
    return make("mo-lunar-lander-continuous-v3", extra="box2d")


def _halfcheetah() -> Any:
    # v5 counts control ten times as much: the published figures are v4's
    with _silent_mujoco():
        return make("mo-halfcheetah-v4", extra="mujoco")


def _front_of(environment: Any) -> FloatArray:
    """Return the undiscounted front that ships with an environment."""
    return np.unique(np.round(environment.unwrapped.pareto_front(gamma=1.0), 6), axis=0)


def _deep_sea_treasure_front() -> FloatArray:
    return _front_of(_deep_sea_treasure())


def _deep_sea_treasure_concave_front() -> FloatArray:
    return _front_of(_deep_sea_treasure_concave())


def _minecart_front() -> FloatArray:
    return _front_of(_minecart())


def _submarine_state(environment: Any) -> tuple[float, ...]:
    return tuple(environment.unwrapped.current_state.tolist())


def _place_submarine(environment: Any, state: tuple[int, ...]) -> None:
    environment.unwrapped.current_state = np.array(state, dtype=np.int32)


def _cart_state(environment: Any) -> tuple[float, ...]:
    cart = environment.unwrapped.cart
    return (*cart.pos, cart.speed, cart.angle, *cart.content, float(cart.departed))


_TREASURE = (
    Objective("treasure", "value", "worth of the treasure that was found"),
    Objective("time", "steps", "minus the number of steps"),
)
_TREASURE_DQN = {
    "learning_rate": 4e-3,
    "batch_size": 128,
    "buffer_size": 10_000,
    "learning_starts": 1000,
    "gamma": 0.98,
    "target_update_interval": 600,
    "train_freq": 16,
    "gradient_steps": 8,
    "exploration_fraction": 0.2,
    "exploration_final": 0.07,
    "local_steps": 500,
    "total_steps": 14_000,
}

_LANDER = (
    Objective("landing", "points", "+100 for a landing, -100 for a crash"),
    Objective("shaping", "points", "closeness to a soft landing on the pad"),
    Objective("main-engine", "frames", "minus the frames of the main engine"),
    Objective("side-engine", "frames", "minus the frames of the side engines"),
)

_TREASURE_SEARCH = {
    "reference_point": [0.0, -50.0],
    "iterations": 10,
    "candidates": 5,
    "local_steps": 1000,
    "total_steps": 10_000,
}

PROBLEMS = (
    EnvironmentProblem(
        name="deep-sea-treasure",
        title="Deep Sea Treasure, convex map",
        objectives=_TREASURE,
        environment=_deep_sea_treasure,
        reference_point=(-1.0, -101.0),
        defaults=_TREASURE_DQN,
        known_front=_deep_sea_treasure_front,
        snapshot=_submarine_state,
        place=_place_submarine,
        search=_TREASURE_SEARCH,
    ),
    EnvironmentProblem(
        name="deep-sea-treasure-concave",
        title="Deep Sea Treasure, concave map",
        objectives=_TREASURE,
        environment=_deep_sea_treasure_concave,
        reference_point=(-1.0, -101.0),
        defaults=_TREASURE_DQN,
        known_front=_deep_sea_treasure_concave_front,
        snapshot=_submarine_state,
        place=_place_submarine,
        search=_TREASURE_SEARCH,
    ),
    EnvironmentProblem(
        name="minecart-deterministic",
        title="Minecart without noise",
        objectives=(
            Objective("ore-1", "amount", "first ore brought home"),
            Objective("ore-2", "amount", "second ore brought home"),
            Objective("fuel", "amount", "minus the fuel spent"),
        ),
        environment=_minecart,
        reference_point=(-1.0, -1.0, -50.0),
        idle_action=5,
        defaults={
            "learning_rate": 2e-4,
            "batch_size": 64,
            "buffer_size": 50_000,
            "learning_starts": 50_000,
            "gamma": 0.99,
            "target_update_interval": 750,
            "train_freq": 32,
            "gradient_steps": 32,
            "exploration_fraction": 0.8,
            "exploration_final": 0.05,
            "local_steps": 5000,
            "total_steps": 190_000,
        },
        known_front=_minecart_front,
        snapshot=_cart_state,
        search={
            "reference_point": [-1.0, -1.0, -200.0],
            "iterations": 25,
            "candidates": 10,
            "local_steps": 5000,
            "total_steps": 150_000,
        },
    ),
    EnvironmentProblem(
        name="lunar-lander",
        title="Lunar Lander with four objectives",
        objectives=_LANDER,
        environment=_lunar_lander,
        reference_point=(-200.0, -200.0, -200.0, -200.0),
        validation_episodes=2,
        test_episodes=20,
        defaults={
            "learning_rate": 6.3e-4,
            "batch_size": 64,
            "buffer_size": 50_000,
            "learning_starts": 0,
            "gamma": 0.99,
            "target_update_interval": 250,
            "train_freq": 4,
            "gradient_steps": -1,
            "exploration_fraction": 0.12,
            "exploration_final": 0.1,
            "local_steps": 5000,
            "total_steps": 140_000,
        },
        search={
            "reference_point": [-200.0] * 4,
            "iterations": 25,
            "candidates": 10,
            "local_steps": 5000,
            "total_steps": 100_000,
            "evaluation_episodes": 5,
        },
    ),
    EnvironmentProblem(
        name="lunar-lander-continuous",
        title="Lunar Lander with four objectives and continuous engines",
        objectives=_LANDER,
        environment=_lunar_lander_continuous,
        reference_point=(-200.0, -200.0, -200.0, -200.0),
        learner="ddpg",
        hidden=(400, 300),
        validation_episodes=2,
        test_episodes=20,
        defaults={"learning_starts": 10_000, "local_steps": 10_000, "total_steps": 300_000},
    ),
    EnvironmentProblem(
        name="halfcheetah",
        title="Half Cheetah: run fast, or save strength",
        objectives=(
            Objective("velocity", "m/s", "speed forward, summed over the steps"),
            Objective("control", "points", "minus a tenth of the squared torques, summed likewise"),
        ),
        environment=_halfcheetah,
        reference_point=(0.0, -1000.0),
        learner="ddpg",
        hidden=(400, 300),
        test_episodes=5,
        defaults={"learning_starts": 100, "local_steps": 25_000, "total_steps": 750_000},
        run_defaults={"clients": 10},  # thesis, sec. 4.3.1
    ),
)
"""All problems of this module."""
