"""Lists of what there is, as values and as notebooks show them."""

from __future__ import annotations

import subprocess
import sys

import comity
from comity.algorithms import Algorithm
from comity.algorithms import algorithms as registered


def test_algorithms_are_listed_with_their_settings():
    listed = comity.algorithms()
    assert list(listed) == sorted(registered())
    entry = listed["fedpref"]
    (top,) = [each for each in entry.settings if each.name == "top_r"]
    assert (top.type, top.default, top.range) == ("float", 0.8, "above 0, at most 1")
    assert "share of each tensor's largest changes" in top.help
    assert "\n  · top_r (default 0.8; above 0, at most 1): share of" in repr(entry)
    assert repr(entry).startswith("fedpref: ")
    assert "<td>above 0, at most 1</td>" in entry._repr_html_()
    (line,) = [line for line in repr(listed).splitlines() if line.startswith("fedpref ")]
    assert line.endswith(entry.summary)
    assert "<td>fedpref</td>" in listed._repr_html_()


def test_problems_have_the_settings_of_their_learner_with_their_defaults():
    entry = comity.problems()["deep-sea-treasure"]
    assert entry.facts["objectives"] == "treasure, time"
    assert entry.facts["learner"] == "dqn"
    values = {each.name: each.default for each in entry.settings}
    problem = comity.problems.find("deep-sea-treasure")  # type: ignore[attr-defined]
    assert problem.defaults.items() <= values.items()
    assert set(comity.generators()) == {"annealing", "gap", "grid", "random"}
    assert "confree" in comity.wrappers()


def test_the_names_of_functions_and_rooms_are_both_usable():
    """Whatever was imported before: the room is a module, and can be called."""
    code = """
import os, torch
for before in ("", "import comity.algorithms", "from comity import Algorithm"):
    if os.fork() == 0:
        import comity
        exec(before)
        print("fedavg" in comity.algorithms(), "fedavg" in comity.algorithms())
        import comity.algorithms.fedavg as module
        print(comity.algorithms.find("fedavg") is module.FedAvg, flush=True)
        os._exit(0)
    os.wait()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == 3 * "True True\nTrue\n"
    assert comity.Algorithm is Algorithm
