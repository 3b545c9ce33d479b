"""Algorithms of a user's own: how they are found, and the worked examples of the docs."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import comity
from comity.algorithms import Round, Survey, algorithms, find, make, name_of
from comity.configuration import Configuration, configure
from comity.core.fleet import Fleet
from comity.core.mixing import mixed
from comity.errors import UserError
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import RoundLoop
from comity.federation.server import Server
from comity.problems import DataProblem, Objective, Samples, register
from tests.classics import NAMES, classics
from tests.tiny import Number, draw_batches, tiny
from tests.vectors import fleet, round_of

# -- how they are found --------------------------------------------------------------------

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
    values = {"algorithm": classics.FedAvgM, "own-fedavgm": {"beta": 0.5}}
    configuration = tiny(problem="tiny-people", **values)
    assert configuration.algorithm == "classics:FedAvgM"
    text = configuration.to_toml()
    assert 'algorithm = "classics:FedAvgM"' in text
    assert "[own-fedavgm]\nbeta = 0.5" in text
    assert configuration.label == "classics:FedAvgM"
    with pytest.raises(UserError, match=r"own-fedavgm\.beta = 'much'"):
        tiny(algorithm="classics:FedAvgM", **{"own-fedavgm": {"beta": "much"}})
    with pytest.raises(UserError, match="unknown setting 'fedprox'"):
        tiny(algorithm="classics:FedAvgM", fedprox={"mu": 1})


# -- server rules by hand ------------------------------------------------------------------


def stepped(name: str, round: Round, **settings: Any) -> np.ndarray:
    """Return the result of a round on the server, as one vector."""
    models, _ = mixed(make(name, settings).mix(round), round.sent, round.start)
    return np.concatenate([t[0].flatten().numpy() for t in models.tensors.values()])


def test_fednova_by_hand():
    """p = (½, ½), τ = (2, 8), τ_eff = 5: weights 1.25 and 0.3125."""
    for start, expected in (((0.0, 0.0), (0.25, 0.25)), ((1.0, 1.0), (1.25, 1.25))):
        sent = [[start[0] + 0.2, start[1]], [start[0], start[1] + 0.8]]
        round = round_of(fleet(sent), fleet([list(start)]))
        round = replace(round, statistics={"steps": np.array([2.0, 8.0])})
        np.testing.assert_allclose(stepped("classics:FedNova", round), expected, rtol=1e-6)
        equal = replace(round, statistics={"steps": np.array([4.0, 4.0])})
        mean = stepped("fedavg", equal)
        np.testing.assert_allclose(stepped("classics:FedNova", equal), mean, rtol=1e-6)


def test_steps_that_nobody_declared():
    with pytest.raises(TypeError, match="statistics must contain 'steps'"):
        _ = round_of(fleet([[0.0]]), fleet([[0.0]])).steps


def test_fedavgm_by_hand():
    """β = 0.9: m = (0.1, −0.2), then (0.04, −0.08); x = (1.1, 0.8), then (1.14, 0.72)."""
    algorithm = make("classics:FedAvgM", {})
    x = fleet([[1.0, 1.0]])
    for update, expected in (([0.1, -0.2], [1.1, 0.8]), ([-0.05, 0.1], [1.14, 0.72])):
        # two clients whose weighted mean is the update: sizes 1 and 3
        sent = x + fleet([update, update]) + fleet([[0.3, 0.6], [-0.1, -0.2]])
        round = round_of(sent, x, sizes=[1, 3])
        x, _ = mixed(algorithm.mix(round), round.sent, round.start)
        np.testing.assert_allclose(x["0"], [expected], rtol=1e-5)
        # the momentum survives a checkpoint
        again = make("classics:FedAvgM", {})
        again.load(algorithm.state())
        algorithm = again


@pytest.mark.parametrize(
    ("q", "expected"),
    [(0, (0.05, 0.1)), (1, (0.018182, 0.145455)), (2, (0.004902, 0.156863))],
)
def test_qfedavg_by_hand(q, expected):
    """L = 10, F = (1, 4), ‖LΔ‖² = (1, 4)."""
    round = round_of(fleet([[0.1, 0.0], [0.0, 0.2]]), fleet([[0.0, 0.0]]))
    survey = Survey((0, 1), {"objective": np.array([1.0, 4.0])})
    round = replace(round, survey=survey, learner={"learning_rate": 0.1})
    np.testing.assert_allclose(stepped("classics:QFedAvg", round, q=q), expected, atol=1e-6)
    one = replace(round, survey=survey.only([1]))  # the loss of client 0 was not finite
    assert stepped("classics:QFedAvg", one, q=q)[0] == 0.0


def test_a_survey_of_some_clients():
    gradients = fleet(np.arange(6.0)[:, None])
    survey = Survey((1, 4, 5), {"losses": np.array([[1.0], [2.0], [3.0]])}, gradients)
    some = survey.only({5, 1, 9})
    assert some.participants == (1, 5)
    assert some.values["losses"].tolist() == [[1.0], [3.0]]
    assert some.gradients is not None
    assert some.gradients["0"].flatten().tolist() == [0.0, 1.0, 4.0, 5.0]
    assert survey.only([]).participants == ()


# -- SCAFFOLD on three parabolas -----------------------------------------------------------

CURVATURE, OPTIMUM = (1.0, 3.0, 2.0), (0.0, 4.0, 1.0)


@lru_cache
def _parabolas() -> Samples:
    client = torch.arange(3).repeat_interleave(12)
    columns = {
        "inputs": torch.zeros(36, 1),
        "curvature": torch.tensor(CURVATURE)[client],
        "optimum": torch.tensor(OPTIMUM)[client],
    }
    return Samples(columns, np.zeros(36, dtype=np.int64), {}, client.numpy(), ("a", "b", "c"))


def _bowl(outputs: Tensor, batch: Any) -> Tensor:
    away = outputs.mean() - batch["optimum"]
    loss = (0.5 * batch["curvature"] * away.square() * batch["weight"]).sum()
    return torch.stack([loss / batch["weight"].sum()])


register(
    DataProblem(
        name="tiny-parabolas",
        title="f_i(x) = a_i (x − b_i)² / 2",
        objectives=(Objective("depth", "points", "minus the loss"),),
        reference_point=(-100.0,),
        samples=_parabolas,
        network=lambda samples: Number(1.0),
        losses=_bowl,
        scores=lambda outputs, batch: -_bowl(outputs, batch),
        constant=lambda labels: 0,
        run_defaults={"partition": "natural"},
        defaults={
            "batch_size": 4,
            "normalise": False,
            "learning_rate": 0.1,
            "optimiser": "sgd",
            "local_steps": 2,
            "total_steps": 4,
        },
    )
)


def federation(configuration: Configuration) -> list[tuple[Fleet, Fleet]]:
    """Return the clients' models and those that the server would deliver, after each round."""
    states = []
    with EmbeddedEngine(configuration) as engine:
        server = Server(configuration)
        for _ in RoundLoop(engine, server).rounds():
            delivered = server.last_request()[0].models
            assert delivered is not None
            states.append((engine.models(kept=False).clone(), delivered.clone()))
    return states


def test_scaffold_by_hand_with_absent_clients():
    """Clients 0 and 1, then 1 and 2, two steps of 0.1 each, from x = 1 and c = 0."""
    values = {"problem": "tiny-parabolas", "clients": 3, "rounds": 2, "chunk": 3}
    absences = [[1, 2, "round"], [2, 0, "round"]]
    configuration = configure({**values, "algorithm": "classics:Scaffold", "absences": absences})
    expected = [
        {"y": {0: 0.81, 1: 2.53}, "own": [0.95, -7.65, 0.0], "c": -2.233333, "x": 1.67},
        {"y": {1: 1.937467, 2: 1.8308}, "own": [0.95, -6.754, 1.429333], "c": -1.458222,
         "x": 1.884133},
    ]  # fmt: skip
    for (held, delivered), values in zip(federation(configuration), expected, strict=True):
        for client, y in values["y"].items():
            assert held["model.t"][client].item() == pytest.approx(y, abs=1e-5)
        np.testing.assert_allclose(held["own.t"].flatten(), values["own"], atol=1e-5)
        np.testing.assert_allclose(delivered["common.t"].flatten(), [values["c"]] * 3, atol=1e-5)
        np.testing.assert_allclose(delivered["model.t"].flatten(), [values["x"]] * 3, atol=1e-5)
        # c is the mean of all c_i, present or not
        assert held["own.t"].mean().item() == pytest.approx(values["c"], abs=1e-5)


def test_a_broken_client_loses_its_new_control_variate():
    values = {"problem": "tiny-parabolas", "clients": 3, "rounds": 2, "chunk": 3}
    configuration = configure({**values, "algorithm": "classics:Scaffold"})
    with EmbeddedEngine(configuration) as engine:
        server = Server(configuration)
        request, record = server.request()
        update = engine.round(request)
        assert update.models is not None
        update.models["model.t"][1] = torch.nan
        server.take(request, update, record)
        assert "client 1 (b), round 1: its model is no longer finite" in record.events[0]
        before = engine.models(kept=False)["own.t"].clone()
        engine.evaluate_delivery(server.last_request()[0])  # the verdict comes with it
        after = engine.models(kept=False)["own.t"]
        assert before[1].item() != 0.0
        assert after[1].item() == 0.0
        assert torch.equal(after[[0, 2]], before[[0, 2]])


# -- whole runs against plain loops --------------------------------------------------------


class Plain:
    """The clients of a run of tiny-answers, with plain networks and plain gradient descent."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.problem = configuration.get_problem()
        self.weights = torch.from_numpy(configuration.get_preferences()).float()
        self.rows = [rows.train for rows in self.problem.client_rows()]
        self.rate = configuration.learner_settings["learning_rate"]
        self.size = configuration.learner_settings["batch_size"]

    def loss(self, x: dict[str, Tensor], client: int, batch: Any) -> Tensor:
        network = self.problem.model()
        outputs = torch.func.functional_call(network, x, (batch["inputs"],))
        return (self.weights[client] * self.problem.losses(outputs, batch)).sum()

    def gradients(self, x: dict[str, Tensor], client: int, batch: Any) -> dict[str, Tensor]:
        leaves = {name: tensor.clone().requires_grad_() for name, tensor in x.items()}
        grads = torch.autograd.grad(self.loss(leaves, client, batch), list(leaves.values()))
        return dict(zip(leaves, grads, strict=True))

    def batches(self, client: int, round: int, steps: int) -> list[Any]:
        return draw_batches(self.problem, self.rows[client], client, steps, self.size, 0, round)


def run_of(name: str, **values: Any) -> Configuration:
    learner = {"optimiser": "sgd", "learning_rate": 0.2, **values.pop("supervised", {})}
    return tiny(
        problem="tiny-answers", algorithm=name, participation=0.5, rounds=4, chunk=4,
        preferences="dirichlet", supervised=learner, **values,
    )  # fmt: skip


def initial(configuration: Configuration, prefix: str = "") -> dict[str, Tensor]:
    models = Server(configuration).initial
    return {
        name.removeprefix(prefix): tensor[0].clone()
        for name, tensor in models.tensors.items()
        if name.startswith(prefix)
    }


def present(configuration: Configuration) -> list[tuple[int, ...]]:
    with EmbeddedEngine(configuration) as engine:
        loop = RoundLoop(engine, Server(configuration))
        return [record.clients for (record,) in loop.rounds()]


def test_scaffold_equals_a_plain_loop():
    configuration = run_of("classics:Scaffold", **{"own-scaffold": {"rate": 0.7}})
    plain, steps = Plain(configuration), configuration.learner_settings["local_steps"]
    x = initial(configuration, "model.")
    c = {name: torch.zeros_like(tensor) for name, tensor in x.items()}
    own = [dict(c) for _ in range(4)]
    attended = present(configuration)
    assert len(set(attended)) > 1, "different clients are absent"
    for round, clients in enumerate(attended, start=1):
        ends, changes = [], []
        for client in clients:
            y = dict(x)
            for batch in plain.batches(client, round, steps):
                grads = plain.gradients(y, client, batch)
                y = {n: y[n] - 0.2 * (grads[n] + c[n] - own[client][n]) for n in y}
            new = {n: own[client][n] - c[n] + (x[n] - y[n]) / (steps * 0.2) for n in y}
            changes.append({n: new[n] - own[client][n] for n in y})
            own[client] = new
            ends.append(y)
        x = {n: x[n] + 0.7 * torch.stack([y[n] - x[n] for y in ends]).mean(dim=0) for n in x}
        c = {n: c[n] + torch.stack([d[n] for d in changes]).sum(dim=0) / 4 for n in c}
    held, delivered = federation(configuration)[-1]
    for name in x:
        close = {"rtol": 1e-4, "atol": 1e-5}
        torch.testing.assert_close(delivered[f"model.{name}"][0], x[name], **close)
        torch.testing.assert_close(delivered[f"common.{name}"][0], c[name], **close)
        for client in range(4):
            torch.testing.assert_close(held[f"own.{name}"][client], own[client][name], **close)


def test_fednova_equals_a_plain_loop():
    """Clients with 4 to 32 times as many rows take different numbers of steps."""
    configuration = run_of(
        "classics:FedNova", sizes="8,4,2,1", supervised={"local_epochs": 2, "batch_size": 12}
    )
    plain, x, counts = Plain(configuration), initial(configuration), set()
    for round, clients in enumerate(present(configuration), start=1):
        sizes = np.array([len(plain.rows[client]) for client in clients], dtype=float)
        shares, taken, changes = sizes / sizes.sum(), [], []
        for client in clients:
            y, rows = dict(x), len(plain.rows[client])
            steps = -(-2 * rows // min(12, rows))
            for batch in plain.batches(client, round, steps):
                grads = plain.gradients(y, client, batch)
                y = {n: y[n] - 0.2 * grads[n] for n in y}
            taken.append(steps)
            changes.append({n: y[n] - x[n] for n in x})
        tau = sum(p * t for p, t in zip(shares, taken, strict=True))
        for p, t, change in zip(shares, taken, changes, strict=True):
            x = {n: x[n] + float(tau * p / t) * change[n] for n in x}
        counts |= set(taken)
    assert len(counts) > 2
    _, delivered = federation(configuration)[-1]
    for name in x:
        torch.testing.assert_close(delivered[name][0], x[name], rtol=1e-4, atol=1e-5)


def test_fednova_with_equal_steps_is_fedavg():
    nova, mean = (federation(run_of(name))[-1][1] for name in ("classics:FedNova", "fedavg"))
    other = federation(run_of("classics:FedNova", sizes="8,4,2,1", supervised={"local_epochs": 1}))
    for name in mean:
        torch.testing.assert_close(nova[name], mean[name], rtol=1e-5, atol=1e-6)
    assert any((other[-1][1][name] != mean[name]).any() for name in mean)


def test_fedavgm_without_momentum_is_fedavg():
    none = {"own-fedavgm": {"beta": 0.0}}
    still, mean = (
        federation(run_of(name, **more))[-1][1]
        for name, more in (("classics:FedAvgM", none), ("fedavg", {}))
    )
    moving = federation(run_of("classics:FedAvgM"))[-1][1]
    for name in mean:
        torch.testing.assert_close(still[name], mean[name], rtol=1e-5, atol=1e-6)
        assert (moving[name] != mean[name]).any()


def test_steps_are_those_really_taken():
    """On data all phases count; in an environment, gradient steps and not steps of the world."""

    seen: list[np.ndarray] = []

    class Watching(classics.FedNova):
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
