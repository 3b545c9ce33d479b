"""Processes that live and die together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from comity.federation.transports.processes import Group
from tests.federation.processes import members, until

SLEEP = ["sleep", "600"]
PARENT = """
import sys, time
from pathlib import Path
from comity.federation.transports.processes import Group
print(Group([["sleep", "600"]], Path(sys.argv[1]), {}).id, flush=True)
time.sleep(600)
"""


@pytest.fixture
def start(tmp_path):
    """Return a function that starts a group; all are ended after the test."""
    groups = []

    def make(*commands: list[str]) -> Group:
        groups.append(Group(commands, tmp_path / "log", dict(os.environ)))
        return groups[-1]

    yield make
    for group in groups:
        group.end()


def test_all_commands_of_a_group_end(start):
    group = start(SLEEP, ["sh", "-c", "sleep 600 & sleep 600"])
    until(lambda: sum(m.startswith("sleep") for m in members(group.id).values()) == 3)
    assert not group.ended()
    group.end()
    assert members(group.id) == {}
    assert group.ended()
    group.end()


def test_a_group_ends_when_one_command_ends(start):
    group = start(SLEEP, ["true"])
    assert group.ended(wait=60)
    until(lambda: members(group.id) == {})


def test_a_command_that_does_not_listen_is_killed(start):
    group = start(["sh", "-c", "trap '' TERM; while true; do sleep 1; done"])
    until(lambda: len(members(group.id)) >= 3)
    group.end()
    assert members(group.id) == {}


def test_a_group_without_its_guard_ends(start):
    group = start(SLEEP)
    until(lambda: len(members(group.id)) == 2)
    os.kill(group.id, signal.SIGKILL)
    assert group.ended(wait=60)
    until(lambda: list(members(group.id).values()) == ["sleep 600"])  # a dead guard has no name
    group.end()
    assert members(group.id) == {}


def test_a_group_dies_with_the_process_that_started_it(tmp_path):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path / "log")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")},
    )
    assert parent.stdout is not None
    group = int(parent.stdout.readline())
    until(lambda: "sleep 600" in members(group).values())
    parent.kill()
    parent.communicate()
    until(lambda: members(group) == {})


def test_output_goes_to_the_log(start, tmp_path):
    group = start(["sh", "-c", "echo out; echo err >&2"])
    assert group.ended(wait=60)
    assert sorted((tmp_path / "log").read_text().split()) == ["err", "out"]
