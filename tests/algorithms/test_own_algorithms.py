"""Algorithms of a user's own: how they are found, and the worked examples of the docs."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

import comity
from comity.algorithms import Survey, algorithms, find, make, name_of
from comity.core.mixing import mixed
from comity.errors import UserError
from tests.algorithms.plain import Plain, assert_close, federation, initial, present, run_of
from tests.classics import NAMES, classics
from tests.tiny import tiny
from tests.vectors import fleet, round_of

# -- how they are found --------------------------------------------------------------------

pytestmark = pytest.mark.usefixtures("undrawn")

DECLARED = """
import comity

@comity.algorithm("{name}", title="t", paper="p", place="global model", method="m",
                  communication="c")
class Mine(comity.Algorithm):
    pass

class Undeclared(Mine):
    pass

number = 3
"""


@pytest.fixture
def module(tmp_path, monkeypatch, request):
    """Write a module into the working directory; its name."""
    monkeypatch.chdir(tmp_path)
    name = f"own_{request.node.name.partition('[')[0]}"
    yield lambda text: (tmp_path / f"{name}.py").write_text(text) and name
    sys.modules.pop(name, None)


def test_a_class_in_the_working_directory(module):
    name = module(DECLARED.format(name="of-here"))
    cls = find(f"{name}:Mine")
    assert cls.declaration.name == "of-here"
    assert name_of(cls) == f"{name}:Mine"
    assert name_of("fedavg") == "fedavg"
    assert name_of(find("fedavg")) == "fedavg"


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("NAME:Yours", "module NAME has no 'Yours'"),
        ("NAME:Undeclared", "'NAME:Undeclared' is not declared: put @comity.algorithm"),
        ("NAME:number", "'NAME:number' is a int, not a class of comity.Algorithm"),
        ("NAME:comity", "is a module, not a class of comity.Algorithm"),
        ("nowhere_at_all:Mine", "there is no module 'nowhere_at_all' in the working directory"),
        (":Mine", "there is no module ''"),
    ],
)
def test_what_is_no_algorithm_is_refused(module, reference, message):
    name = module(DECLARED.format(name="of-here-too"))
    with pytest.raises(UserError) as error:
        find(reference.replace("NAME", name))
    assert message.replace("NAME", name) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import comity\nnumber = 1 / 0\n", "line 2: ZeroDivisionError: division by zero"),
        ("def f(:\n", "line 1: invalid syntax"),
        ("import nothing_like_it\n", "ModuleNotFoundError: No module named 'nothing_like_it'"),
        (DECLARED.format(name="fedavg"), "'fedavg' of own_"),
        (DECLARED.format(name="a:b"), "a name has letters, digits, _ and -"),
    ],
    ids=["error", "syntax", "import", "shipped name", "other characters"],
)
def test_a_module_that_fails_is_refused_in_one_line(module, text, message):
    name = module(text)
    with pytest.raises(UserError) as error:
        find(f"{name}:Mine")
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert algorithms()["fedavg"].__module__ == "comity.algorithms.fedavg"


def test_classes_that_nobody_can_import_have_their_declared_name():
    words = dict.fromkeys(("title", "paper", "method", "communication"), "x")

    @comity.algorithm("of-this-process", place="global model", **words)
    class Local(comity.Algorithm):
        """Known inside one function."""

    assert name_of(Local) == "of-this-process"
    assert find("of-this-process") is Local


def test_the_settings_stand_under_the_declared_name():
    values = {"algorithm": classics.Tilted, "own-tilted": {"t": 0.5}}
    configuration = tiny(problem="tiny-people", **values)
    assert configuration.algorithm == "classics:Tilted"
    text = configuration.to_toml()
    assert 'algorithm = "classics:Tilted"' in text
    assert "[own-tilted]\nt = 0.5" in text
    assert configuration.label == "classics:Tilted"
    with pytest.raises(UserError, match=r"own-tilted\.t = 'much'"):
        tiny(problem="tiny-people", algorithm="classics:Tilted", **{"own-tilted": {"t": "much"}})
    with pytest.raises(UserError, match="unknown setting 'fedprox'"):
        tiny(problem="tiny-people", algorithm="classics:Tilted", fedprox={"mu": 1})


# -- the worked examples -------------------------------------------------------------------


def test_steps_that_nobody_declared():
    with pytest.raises(TypeError, match="statistics must contain 'steps'"):
        _ = round_of(fleet([[0.0]]), fleet([[0.0]])).steps


def test_a_survey_of_some_clients():
    gradients = fleet(np.arange(6.0)[:, None])
    survey = Survey((1, 4, 5), {"losses": np.array([[1.0], [2.0], [3.0]])}, gradients)
    some = survey.only({5, 1, 9})
    assert some.participants == (1, 5)
    assert some.values["losses"].tolist() == [[1.0], [3.0]]
    assert some.gradients is not None
    assert some.gradients["0"].flatten().tolist() == [0.0, 1.0, 4.0, 5.0]
    assert survey.only([]).participants == ()


def test_a_mean_by_steps():
    round = round_of(fleet([[0.0, 4.0], [1.0, 0.0]]), fleet([[9.0, 9.0]]))
    round = replace(round, statistics={"steps": np.array([1.0, 3.0])})
    models, _ = mixed(make("classics:BySteps", {}).mix(round), round.sent, round.start)
    assert models["0"].tolist() == [[0.75, 1.0]]


def test_a_tilted_mean():
    """Sizes 1 and 2, losses log 2 and 0: w = (1 · 2, 2 · 1) with t = 1, (1, 2) with t = 0."""
    round = round_of(fleet([[0.0], [1.0]]), fleet([[9.0]]), sizes=[1, 2])
    survey = Survey((0, 1), {"objective": np.array([np.log(2.0), 0.0])})
    for t, answers, expected in (
        (1.0, survey, [0.5, 0.5]),
        (0.0, survey, [1 / 3, 2 / 3]),
        (1.0, survey.only([1]), [0.0, 1.0]),
        (1.0, survey.only([]), [1 / 3, 2 / 3]),
    ):
        mixing = make("classics:Tilted", {"t": t}).mix(replace(round, survey=answers))["*"]
        np.testing.assert_allclose(mixing.weights, [expected])


def test_feddyn_equals_a_plain_loop():
    """Acar et al., algorithm 1, with the paper's h; 0.2 is the step size."""
    alpha = 0.3
    configuration = run_of("classics:FedDyn", **{"own-feddyn": {"alpha": alpha}})
    plain, steps = Plain(configuration), configuration.learner_settings["local_steps"]
    x = initial(configuration, "model.")
    h = {name: torch.zeros_like(tensor) for name, tensor in x.items()}
    own = [dict(h) for _ in range(4)]
    attended = present(configuration)
    assert len(set(attended)) > 1, "different clients are absent"
    for round, clients in enumerate(attended, start=1):
        ends = []
        for client in clients:
            y = dict(x)
            for batch in plain.batches(client, round, steps):
                grads = plain.gradients(y, client, batch)
                y = {n: y[n] - 0.2 * (grads[n] - own[client][n] + alpha * (y[n] - x[n])) for n in y}
            own[client] = {n: own[client][n] - alpha * (y[n] - x[n]) for n in y}
            ends.append(y)
        h = {n: h[n] - alpha / 4 * torch.stack([y[n] - x[n] for y in ends]).sum(dim=0) for n in h}
        x = {n: torch.stack([y[n] for y in ends]).mean(dim=0) - h[n] / alpha for n in x}
    held, delivered = federation(configuration)[-1]
    assert_close(delivered, x, "model.")
    for client in range(4):
        assert_close(held.select([client]), own[client], "own.")


def test_steps_are_those_really_taken():
    """On data all phases count; in an environment, gradient steps and not steps of the world."""

    seen: list[np.ndarray] = []

    class Watching(classics.BySteps):
        def mix(self, round):
            seen.append(round.steps)
            return super().mix(round)

    words = dict.fromkeys(("title", "paper", "method", "communication"), "x")
    comity.algorithm("own-watching", place="global model", **words)(Watching)
    federation(tiny(problem="tiny-people", algorithm="own-watching", rounds=1))
    assert seen.pop().tolist() == [3.0] * 4
    # 48 steps of the world: learning starts after 16, four gradient steps after each eight
    federation(tiny(algorithm="own-watching", rounds=2, validation_episodes=1, keep="last"))
    assert [steps.tolist() for steps in seen] == [[16.0] * 4, [24.0] * 4]


@pytest.mark.parametrize("name", NAMES)
def test_examples_run_with_every_algorithms_options(name, tmp_path):
    values = {"clients": 3, "rounds": 2, "participation": 0.5, "fine_tune": "replace-last"}
    run = comity.run("tiny-people", algorithm=name, out=tmp_path / "run", **values)
    assert run.results["algorithm"] == name
    assert run.configuration.algorithm == name
