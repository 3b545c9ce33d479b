"""Runs that are killed, interrupted or damaged."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from tests.e2e.conftest import TINY

pytestmark = pytest.mark.usefixtures("undrawn")

LONGER = [*TINY, "--rounds", "9", "--set", "dqn.local_steps=160"]
LANDER = [
    *("lunar-lander", "--clients", "2", "--rounds", "4", "--set", "chunk=1"),
    *("--set", "dqn.local_steps=150", "--set", "dqn.batch_size=16", "--set", "test_episodes=2"),
    *("--set", "validation_episodes=1", "--guard"),
]


def start(comity, *arguments):
    """A run in the background that saves after every round."""
    code = (
        "import comity.runs.execute, comity.cli;"
        "comity.runs.execute._CHECKPOINT_SECONDS = 0.0;"
        "comity.cli.main()"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=comity.home,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # tests that run in the background inherit a Ctrl-C that is ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def wait_for_rounds(path, count):
    for _ in range(1200):
        if path.is_file() and path.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.05)
    raise AssertionError("the run did not get far enough")


@pytest.mark.parametrize(
    "what",
    [
        pytest.param(["deep-sea-treasure", *LONGER], id="treasure"),
        pytest.param(LANDER, id="lander", marks=pytest.mark.slow),
    ],
)
def test_killed_at_random_moments_it_ends_as_if_never_killed(comity, what):
    comity("run", *what, "--out", "whole", "--workers", 1)
    wanted = (comity.home / "whole" / "results.json").read_bytes()
    chance = random.Random(7)
    arguments = ["run", *what, "--out", "broken", "--workers", 2]
    for rounds in (1, 2):
        process = start(comity, *arguments)
        wait_for_rounds(comity.home / "broken" / "history.jsonl", rounds)
        time.sleep(chance.random() * 0.3)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        arguments = ["resume", "broken"]
    comity("resume", "broken")
    assert (comity.home / "broken" / "results.json").read_bytes() == wanted
    whole, broken = (comity.home / name / "history.jsonl" for name in ("whole", "broken"))
    assert broken.read_bytes() == whole.read_bytes()


def test_ctrl_c_leaves_a_run_that_can_go_on(comity):
    process = start(comity, "run", "deep-sea-treasure", *LONGER, "--out", "r", "--workers", 2)
    wait_for_rounds(comity.home / "r" / "history.jsonl", 1)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "comity resume r" in errors
    assert "Traceback" not in errors
    comity("resume", "r")
    assert (comity.home / "r" / "results.json").is_file()


def test_a_run_killed_before_its_first_checkpoint_starts_again(comity):
    comity("run", "deep-sea-treasure", *TINY, "--out", "whole")
    comity("run", "--config", "whole/config.toml", "--out", "r")
    (comity.home / "r" / "results.json").unlink()  # the checkpoint is gone since the end
    comity("resume", "r")
    files = [(comity.home / d / "results.json").read_bytes() for d in ("whole", "r")]
    assert files[0] == files[1]


def test_damage_is_one_line_and_loses_nothing(comity):
    comity("run", "deep-sea-treasure", *TINY, "--set", "keep_checkpoint=true", "--out", "r")
    run = comity.home / "r"
    (run / "results.json").unlink()
    checkpoint = run / "checkpoint.safetensors"
    whole = checkpoint.read_bytes()

    for damage in (whole[: len(whole) // 2], b"", b"\0" * 100):
        checkpoint.write_bytes(damage)
        said = comity("resume", "r", code=2).stderr
        assert "checkpoint.safetensors" in said
        assert said.count("\n") == 1
        assert checkpoint.read_bytes() == damage

    checkpoint.write_bytes(whole)
    history = run / "history.jsonl"
    lines = history.read_bytes()
    history.write_bytes(lines[: lines.index(b"\n") + 1])
    said = comity("resume", "r", code=2).stderr
    assert "history.jsonl" in said
    history.write_bytes(lines)

    config = run / "config.toml"
    text = config.read_text()
    config.write_text(text.replace("clients = 4", "clients = 5"))
    said = comity("resume", "r", code=2).stderr
    assert "config.toml was edited" in said
    assert "clients is 5, it was 4" in said
    config.write_text(text)
    comity("resume", "r")


def test_workers_of_a_killed_comparison_end_with_it(comity):
    """Otherwise they would go on writing while somebody resumes."""
    process = start(
        comity, "compare", "deep-sea-treasure", *LONGER, "--rounds", "400", "--algorithms",
        "fedavg,fedpref", "--seeds", "1", "--workers", "2", "--out", "c"
    )  # fmt: skip
    histories = [
        comity.home / "c" / f"{name}_dirichlet" / "seed-1" / "history.jsonl"
        for name in ("fedavg", "fedpref")
    ]
    for history in histories:
        wait_for_rounds(history, 1)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)  # workers hold its pipe for as long as they live
    before = [history.read_bytes() for history in histories]
    time.sleep(1)
    assert [history.read_bytes() for history in histories] == before


def test_sigterm_of_a_comparison_leaves_nothing_but_how_to_go_on(comity):
    process = start(
        comity, "compare", "deep-sea-treasure", *LONGER, "--rounds", "400", "--algorithms",
        "fedavg,fedpref", "--seeds", "1", "--workers", "2", "--out", "c"
    )  # fmt: skip
    for name in ("fedavg", "fedpref"):
        wait_for_rounds(comity.home / "c" / f"{name}_dirichlet" / "seed-1" / "history.jsonl", 1)
    os.kill(process.pid, signal.SIGTERM)
    _, errors = process.communicate(timeout=60)  # also waits for the resource tracker
    assert process.returncode == 143
    *progress, last = errors.splitlines()
    assert last == "interrupted; go on with: comity resume c"
    assert all(line.startswith("c: ") for line in progress), "no warning of leaked objects"
