"""Bounded and seeded fuzzing of everything that a user or a disk can hand to Comity.

No input ends in a traceback, and none is accepted unless it gives valid results. Some hundred
cases are fast; thousands are marked slow.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from comity import report
from comity.federation.engines.embedded import EmbeddedEngine
from tests.fuzz import damage, inputs
from tests.fuzz.harness import MOST_ITERATIONS, MOST_WORK, TooMuchWorkError, faults

FAST, SLOW = 1, 12345
"""Seeds of the two tiers."""


@pytest.fixture(scope="module", autouse=True)
def bounded():
    """Draw nothing, train in this process, and refuse work that is valid and long."""
    begin, begun = EmbeddedEngine.begin, []

    def limited(engine, configuration):
        begun.append(Path.cwd())
        learner = configuration.learner_settings
        steps = max(learner.get("local_steps", 1), learner.get("local_epochs", 0), 1)
        rounds = configuration.rounds + configuration.extra_rounds
        work = configuration.clients * rounds * steps
        counts = {**learner, **configuration.algorithm_settings}.values()
        endless = any(isinstance(count, int) and count >= 2**31 for count in counts)
        if endless or work > MOST_WORK or begun.count(Path.cwd()) > MOST_ITERATIONS:
            raise TooMuchWorkError
        begin(engine, configuration)

    with pytest.MonkeyPatch.context() as patch:
        for name in ("", "search_", "comparison_", "searches_"):
            patch.setattr(report, f"write_{name}report", lambda *arguments, **options: None)
        patch.setattr(os, "sched_getaffinity", lambda process: {0})
        patch.setattr(EmbeddedEngine, "begin", limited)
        yield


@pytest.fixture(scope="module")
def finished(bounded, tmp_path_factory):
    """Directories of finished and of interrupted work, and an agent."""
    return damage.prepare(tmp_path_factory.mktemp("finished"))


KINDS = {
    "command line": inputs.command_lines,
    "configuration": inputs.configurations,
    "table": inputs.tables,
    "preferences": inputs.preferences,
}


@pytest.mark.parametrize("kind", KINDS)
def test_input_is_refused_in_one_line_or_gives_valid_results(kind, tmp_path):
    bad = faults(KINDS[kind](FAST), 25, tmp_path)
    assert not bad, "\n\n".join(bad)


def test_agent_files_are_refused_or_used(finished, tmp_path):
    whole = (finished / "agent.safetensors").read_bytes()
    bad = faults(inputs.agents(FAST, whole), 15, tmp_path)
    assert not bad, "\n\n".join(bad)


@pytest.mark.parametrize("name", damage.FILES)
def test_damaged_files_are_named_or_give_the_same_results(name, finished, tmp_path):
    bad = damage.faults(name, FAST, 6, finished, tmp_path)
    assert not bad, "\n\n".join(bad)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("kind", KINDS)
def test_thousands_of_inputs(kind, part, tmp_path):
    bad = faults(KINDS[kind](SLOW + part), 250, tmp_path)
    assert not bad, "\n\n".join(bad)


@pytest.mark.slow
def test_hundreds_of_agent_files(finished, tmp_path):
    whole = (finished / "agent.safetensors").read_bytes()
    bad = faults(inputs.agents(SLOW, whole), 300, tmp_path)
    assert not bad, "\n\n".join(bad)


@pytest.mark.slow
@pytest.mark.parametrize("name", damage.FILES)
def test_hundreds_of_damaged_files(name, finished, tmp_path):
    bad = damage.faults(name, SLOW, 200, finished, tmp_path)
    assert not bad, "\n\n".join(bad)
