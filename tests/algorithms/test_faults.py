"""Faults of a user's own algorithm are one sentence: algorithm, round, hook, line, remedy."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

import comity
from comity.algorithms import find, registry
from comity.errors import UserError
from comity.runs.compare import run_plan, start_comparison
from comity.runs.execute import execute, start_run
from tests import tiny  # noqa: F401  (which makes its problems known)

HEAD = """
import comity
import numpy as np


class Mean(comity.Algorithm):
    personal = False

    def mix(self, round):
        return {"*": comity.Mixing.shared(round.sizes, receivers=round.clients)}


WORDS = dict.fromkeys(("title", "paper", "method", "communication"), "x")


@comity.algorithm("wrong", place="global model", **WORDS)
class Wrong(Mean):
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module ``wrong`` with one class, whose body is given."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    def write(body: str) -> str:
        sys.modules.pop("wrong", None)
        importlib.invalidate_caches()
        lines = "\n".join(f"    {line}" for line in body.splitlines())
        Path("wrong.py").write_text(HEAD + lines + "\n")
        return "wrong:Wrong"

    yield write
    sys.modules.pop("wrong", None)


def started(algorithm: str, rounds: int = 2) -> comity.Run:
    values = {"problem": "tiny-people", "algorithm": algorithm, "clients": 3, "rounds": rounds}
    return start_run({**values, "seed": 1}, Path("run"))


MIXES = {
    "return None": "mix must return mixings by tensor name or pattern",
    "return comity.Mixing.shared(round.sizes, receivers=round.clients)": "; got Mixing",
    "return {'*': round.sent}": "; got Fleet for *",
    "return {'0.*': super().mix(round)['*']}": "no mixing matches the tensor 2.weight, only 0.*",
    "return {'*': comity.Mixing.personal(round.sizes, round.clients)}": "mix (wrong.py, line 19)",
    "return {'*': comity.Mixing.shared(-round.sizes, round.clients)}": "must be non-negative",
    "return {'*': comity.Mixing.personal(-np.eye(3), round.clients)}": "non-negative, got -1",
    "return {'*': comity.Mixing.shared(0 * round.sizes, round.clients)}": "not all zero, got [0.",
    "return {'*': comity.Mixing.shared(np.ones(9), round.clients)}": "returned for *: mixing has 9",
    "return {'*': comity.Mixing(round.sizes, {})}": "must be rows x givers, got shape (3,)",
    "return {'*': comity.Mixing(np.eye(3), {0: 3})}": "route names rows that its 3 lack",
    "return {'*': comity.Mixing.step(round.sizes, round.clients, round.start)}": "one row, got 3",
    "self.count = 1; return super().mix(round)": "declared with an underscore: _count: int = 0",
}


@pytest.mark.parametrize("line", MIXES)
def test_faults_of_mix(module, line):
    run = started(module(f"def mix(self, round):\n    {line}"))
    with pytest.raises(UserError) as fault:
        execute(run)
    assert str(fault.value).startswith("algorithm 'wrong:Wrong', round 1")
    assert MIXES[line] in str(fault.value)
    assert fault.value.__cause__ is not None


STEPS = {
    "None": "server_step must return a Fleet, got NoneType",
    "held.group('0.*')": "2.weight has shape None, expected (1,",
    "held.select([0, 0])": "0.weight has shape (2, ",
}


@pytest.mark.parametrize("value", STEPS)
def test_faults_of_the_servers_step(module, value):
    run = started(module(f"def server_step(self, held, mixed):\n    return {value}"))
    with pytest.raises(UserError) as fault:
        execute(run)
    assert STEPS[value] in str(fault.value)


PHASES = {
    "[comity.Phase(penalty=lambda p, view: p['0.bias'])]": "must be one number, got a tensor of sh",
    "[comity.Phase(penalty=lambda p, view: max(p['0.bias'].sum(), 0))]": "use torch.where",
}


@pytest.mark.parametrize("phases", PHASES)
def test_faults_on_clients(module, phases):
    run = started(module(f"def phases(self, problem):\n    return {phases}"))
    with pytest.raises(UserError) as fault:
        execute(run)
    assert PHASES[phases] in str(fault.value)


EARLY = {
    "sends = ('nope.*',)": "Wrong, sends: no tensor matches nope.*; the network has 0.weight, ",
    "def phases(self, problem):\n    return comity.Phase()": "a list of Phase, got Phase",
    "def phases(self, problem):\n    return [comity.Phase(train=('nope',))]": "of phase 1: no",
    "def server_stp(self, held, mixed):\n    return held": "did you mean server_step?",
    "sends = ('0.*')": "Wrong.sends = '0.*': must be a tuple of names; one alone has a",
    "statistics = 'steps'": "Wrong.statistics = 'steps': must be a tuple",
    "needs = 'losses'": "Wrong.needs = 'losses': must be a set of names",
    "personnal = False": "is nothing that the base class declares; is it misspelt? A setting has",
    "personnal: bool = False": "Wrong.personnal: did you mean what algorithms declare, personal",
}


@pytest.mark.parametrize("body", EARLY)
def test_what_cannot_work_is_refused_before_anything_is_written(module, body):
    with pytest.raises(UserError) as fault:
        started(module(body))
    assert EARLY[body] in str(fault.value)
    assert not Path("run").exists()


@pytest.mark.filterwarnings("ignore:.*shadows an attribute")
def test_a_declaration_with_an_annotation_is_no_setting(module):
    with pytest.raises(
        UserError, match=r"Wrong\.personal: what an algorithm declares has no annot"
    ):
        started(module("personal: bool = True"))


def test_an_object_in_place_of_its_class(module):
    cls = find(module("rate: float = comity.setting(1.0, 'x')"))
    with pytest.raises(
        UserError, match=r'give the class Wrong .* settings as a table: \*\*{"wrong"'
    ):
        start_run({"problem": "tiny-people", "algorithm": cls(rate=2.0)}, Path("run"))


def test_diagnostics_may_be_arrays(module):
    body = "def diagnostics(self):\n    return {'d': np.eye(2), 'n': {'x': np.float64(0.5)}}"
    run = execute(started(module(body)))
    assert run.history[0]["server"] == {"d": [[1.0, 0.0], [0.0, 1.0]], "n": {"x": 0.5}}


def test_diagnostics_of_other_kinds_are_refused(module):
    run = started(module("def diagnostics(self):\n    return {'d': round}"))
    with pytest.raises(UserError, match=r"round 1.*builtin_function_or_method is no plain value"):
        execute(run)


def test_a_memory_that_cannot_be_saved_is_named(module):
    run = started(module("_kept: object = complex(1)"))
    with pytest.raises(UserError, match=r"Wrong\._kept: override state\(\) and load\(\)"):
        execute(run)


def test_a_server_that_makes_no_numbers_is_in_the_verdict(module):
    name = module("def server_step(self, held, mixed):\n    return held + (mixed - held) / 0.0")
    run = execute(started(name))
    assert run.results["verdict"]["unmixed"] == 2
    assert (
        "In 2 of 2 rounds nothing was mixed: see the events."
        in (run.results["verdict"]["sentences"])
    )
    first = run.history[0]
    assert first["unmixed"]
    assert first["events"] == [
        "round 1: what wrong:Wrong made of it is not finite; nothing was mixed"
    ]
    settings = {"algorithms": [name, "fedavg"], "seeds": 1, "clients": 3, "rounds": 2}
    comparison = run_plan(start_comparison("tiny-people", **settings, out=Path("two")))
    assert [row.get("unmixed") for row in comparison.results["rows"]] == [2, None]
    assert any(
        sentence.endswith("rounds of all seeds in which nothing was mixed: wrong:Wrong 2.")
        for sentence in comparison.results["verdict"]["sentences"]
    )


class StopError(Exception):
    """Raised to interrupt a run."""


def test_a_run_is_not_resumed_with_an_edited_algorithm(module, monkeypatch):
    monkeypatch.setattr("comity.runs.execute._CHECKPOINT_SECONDS", 0.0)
    run = started(module("pass"), rounds=3)

    def stop(event: object) -> None:
        if getattr(event, "round", 0) == 2:
            raise StopError

    with pytest.raises(StopError):
        execute(run, notify=stop)
    text = Path("wrong.py").read_text()
    Path("wrong.py").write_text(f"{text}# edited\n")
    with pytest.raises(UserError, match="file of algorithm 'wrong:Wrong' was edited since"):
        execute(comity.Run(run.path))
    Path("wrong.py").write_text(text)
    assert execute(comity.Run(run.path)).finished


def test_a_comparison_goes_on_with_the_algorithm_it_began_with(module):
    settings = {"algorithms": [module("pass")], "seeds": 1, "clients": 3, "rounds": 1}
    path = start_comparison("tiny-people", **settings, out=Path("one"))
    text = Path("wrong.py").read_text()
    Path("wrong.py").write_text(f"{text}# edited\n")
    with pytest.raises(UserError, match="one: the file of algorithm 'wrong:Wrong' was edited"):
        run_plan(path)
    Path("wrong.py").write_text(text)
    run_plan(path)
    Path("wrong.py").write_text(f"{text}# edited\n")
    run_plan(path)  # nothing is left to run
