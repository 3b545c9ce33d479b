"""Training n reinforcement learning clients: stable-baselines3, one by one, against one fleet.

The same clients (preferences), the same settings of the learner (DQN or DDPG) and the same number
of environment steps each. Stable-baselines3 trains client after client on a mo-gymnasium
environment that `LinearReward` scalarises with that client's preference; Comity trains all of them
as one fleet: alone (no-communication, keep=last) and as a federation (fedpref at its defaults,
which also pays for validation and mixing; not with DDPG, where evaluation takes longer than these
short trainings). Each side is one process with one thread, measured by its CPU time (user and
system) from start to end, so the figures also hold on a busy machine.

    python -m benchmarks.morl_speed [--steps N] [--problems NAME ...] [--clients N]
        [--repeats N]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from math import ceil
from statistics import median
from typing import Any

SIZES = {
    "deep-sea-treasure": (20, 3000),
    "lunar-lander": (20, 1000),
    "lunar-lander-continuous": (10, 600),
    "halfcheetah": (10, 600),
}  # clients, and environment steps of each
PEER = "stable-baselines3"
ROWS = {
    PEER: None,
    "Comity no-communication": {"algorithm": "no-communication", "keep": "last"},
    "Comity fedpref": {"algorithm": "fedpref"},
}
_SAME = (
    *("learning_rate", "batch_size", "buffer_size", "learning_starts", "gamma"),
    *("train_freq", "gradient_steps"),
)
SETTINGS = {
    "dqn": {
        **{name: name for name in (*_SAME, "target_update_interval", "exploration_fraction")},
        "exploration_final": "exploration_final_eps",
        "max_grad_norm": "max_grad_norm",
    },
    "ddpg": {name: name for name in (*_SAME, "tau", "noise")},
}  # by learner, ours: stable-baselines3's
CHANGES = {"ddpg": {"learning_starts": 100}}
"""Settings that differ from the problem's, so that short measurements reach learning."""
NOTES = """
[b]CPU s[/b]: user and system time of one process on one thread, start-up included. [b]ratio[/b]: \
stable-baselines3's by the row's, both from this run.
[b]CPU ms per update[/b]: by client and gradient step, start-up left out: the difference between \
the run of the table and one of {short} steps. The environment steps between two updates count.
Comity evaluates its final models on one test episode here (counted) and draws its report after \
that (not counted: {drawing:.1f} CPU s per run); stable-baselines3 does neither.
fedpref pays for validation out of its environment steps, so fewer are left for training.
"""


def train_stable_baselines(job: dict[str, Any]) -> dict[str, float]:
    """Train one client after another."""
    import mo_gymnasium
    import numpy as np
    import torch
    from stable_baselines3 import DDPG, DQN
    from stable_baselines3.common.noise import NormalActionNoise

    from comity.problems import find

    torch.set_num_threads(1)
    updates = 0
    for client, preference in enumerate(job["preferences"]):
        environment = find(job["problem"]).environment()
        scalar = mo_gymnasium.wrappers.LinearReward(environment, weight=np.array(preference))
        settings: dict[str, Any] = {
            "policy_kwargs": {"net_arch": job["hidden"]},
            "device": "cpu",
            "seed": client,
            **job["settings"],
        }
        if job["learner"] == "ddpg":
            zero = np.zeros(environment.action_space.shape)
            settings["action_noise"] = NormalActionNoise(zero, zero + settings.pop("noise"))
        model = (DDPG if job["learner"] == "ddpg" else DQN)("MlpPolicy", scalar, **settings)
        model.learn(total_timesteps=job["steps"])
        updates += model._n_updates
    return {"updates": updates / len(job["preferences"]), "drawing": 0.0}


def train_comity(job: dict[str, Any]) -> dict[str, float]:
    """Train all clients as one fleet; the time to draw the report is returned separately."""
    from comity.runs.execute import execute, start_run

    with tempfile.TemporaryDirectory() as folder:
        run = execute(start_run({"problem": job["problem"], **job["run"]}, f"{folder}/run"))
        started = time.process_time()
        from comity.report import write_report

        write_report(run)
        drawing = time.process_time() - started
    trained = run.results["environment_steps"]["training"] / len(job["preferences"])
    return {"updates": _updates(trained, run.configuration.learner_settings), "drawing": drawing}


def _updates(steps: float, settings: dict[str, Any]) -> float:
    """Return the gradient steps of a client after some environment steps: rollout, then updates."""
    every, count = settings["train_freq"], settings["gradient_steps"]
    rollouts = ceil(steps / every) - settings["learning_starts"] // every
    return float(max(rollouts, 0) * (every if count == -1 else count))


def measure(side: str, job: dict[str, Any]) -> tuple[float, dict[str, float]]:
    """Return CPU seconds of a child process without drawing, and its output."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.morl_speed", "--child", side],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **threads},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(job).encode())
    process.stdin.close()
    output = process.stdout.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{side} failed")
    values: dict[str, float] = json.loads(output.splitlines()[-1])
    return usage.ru_utime + usage.ru_stime - values["drawing"], values


def jobs(name: str, clients: int, steps: int) -> dict[str, dict[str, Any]]:
    """Return one job per row: the same clients, settings and steps."""
    from comity.configuration import configure
    from comity.problems import find

    problem = find(name)
    learner = problem.learner
    result: dict[str, dict[str, Any]] = {}
    for row, changes in ROWS.items():
        if row == "Comity fedpref" and learner == "ddpg":
            continue
        algorithm = (changes or {"algorithm": "no-communication"})["algorithm"]
        default = configure({"problem": name, "algorithm": algorithm}).learner_settings
        local = min(default["local_steps"], steps)
        run = {
            "clients": clients,
            "test_episodes": 1,
            learner: {"local_steps": local, "total_steps": steps, **CHANGES.get(learner, {})},
            **(changes or {}),
        }
        chosen = configure({"problem": name, **run})
        pairs = SETTINGS[learner].items()
        result[row] = {
            "problem": name,
            "learner": learner,
            "hidden": list(problem.hidden),
            "preferences": chosen.get_preferences().tolist(),
            "steps": steps,
            "settings": {theirs: chosen.learner_settings[ours] for ours, theirs in pairs},
            "run": run,
        }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="+", default=list(SIZES), metavar="NAME")
    parser.add_argument("--steps", type=int, help="environment steps per client")
    parser.add_argument("--clients", type=int)
    parser.add_argument("--repeats", type=int, default=1, help="turns, of which medians are shown")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        train = train_stable_baselines if arguments.child == PEER else train_comity
        print(json.dumps(train(json.load(sys.stdin))))
        return

    from rich.console import Console
    from rich.table import Table

    from benchmarks.tabular_referees import processor, spread

    console = Console()
    console.width = max(console.width, 140)
    console.print(processor())
    table = Table(title="Training reinforcement learning clients, one thread")
    for heading in ("problem", "side"):
        table.add_column(heading, no_wrap=True)
    for heading in (
        "clients",
        "steps",
        "CPU s",
        "per client, 1000 steps",
        "ratio",
        "CPU ms per update",
        "ratio",
    ):
        table.add_column(heading, justify="right")
    drawing, shorts = [], []
    for name in arguments.problems:
        usual_clients, usual_steps = SIZES.get(name, (20, 2000))
        clients, steps = arguments.clients or usual_clients, arguments.steps or usual_steps
        full = jobs(name, clients, steps)
        starts = full[PEER]["settings"]["learning_starts"]
        shorts.append(starts if 0 < starts < steps else max(steps // 8, 1))
        less = jobs(name, clients, shorts[-1])
        seconds: dict[str, list[float]] = {row: [] for row in full}
        update: dict[str, list[float]] = {row: [] for row in full}
        expected: float | None = None
        for row in [*full] * arguments.repeats:
            with console.status(f"{name}: {row}"):
                spent, values = measure(row, full[row])
                seconds[row].append(spent)
                drawing.append(values["drawing"])
                if row != "Comity fedpref":  # its lengths differ by more than updates
                    if values["updates"] != (expected := expected or values["updates"]):
                        raise SystemExit(f"{row}: {values['updates']} updates, not {expected}")
                    short, values_less = measure(row, less[row])
                    updates = (values["updates"] - values_less["updates"]) * clients
                    if updates:
                        update[row].append(1000 * (spent - short) / updates)
        for row in full:
            table.add_row(
                name,
                row,
                str(clients),
                str(steps),
                f"{median(seconds[row]):.1f}",
                f"{1000 * median(seconds[row]) / clients / steps:.3f}",
                spread([p / s for p, s in zip(seconds[PEER], seconds[row], strict=True)]),
                f"{median(update[row]):.2f}" if update[row] else "",
                spread([p / u for p, u in zip(update[PEER], update[row], strict=True)])
                if update[row]
                else "",
            )
        table.add_section()
    console.print(table)
    console.print(NOTES.format(short=" and ".join(map(str, shorts)), drawing=max(drawing)))


if __name__ == "__main__":
    main()
