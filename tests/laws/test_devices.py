"""The law of devices: all tensors of a run are on the device that it asks for.

There is no GPU here. Runs on the device of `tests.twin_device` must end with the bits of the CPU;
tensors that are elsewhere would end them with an error, or be noted by `HostWork`.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from comity.algorithms import algorithms
from comity.algorithms.wrappers import fits, wrappers
from comity.api import resume
from comity.configuration import Configuration
from comity.core import devices
from comity.core.devices import placed
from comity.core.fleet import Fleet
from comity.core.typing import NamedArrays
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import SimulatedLoop
from comity.federation.neighbours import server_of
from comity.problems import DataProblem, register
from comity.runs.directory import Run
from comity.runs.execute import execute
from comity.searches import Search
from comity.searches.execution import execute_search
from tests.events import stopping
from tests.federation.test_deployed import Deployment, configuration_of
from tests.laws.conftest import CASES, CONTINUOUS, settings_of
from tests.laws.test_links import CONTACTS, linked
from tests.laws.test_runs import contents
from tests.searches import small
from tests.tiny import ANSWERS, tiny
from tests.twin_device import TWIN, HostWork, TwinTensor

HOST = (
    "configuration/run.py:get_module",  # initial models have the same bits on every device
    "algorithms/pfedrlla/encoder.py:__init__",  # the same of the networks of the agent
    "algorithms/pfedrlla/agent.py:__init__",
    "problems/data.py:columns",  # samples are read and scaled once for the process
    "algorithms/agnostic_fair_pooled.py:phases",  # a share of samples
    "federation/checks.py:lengths",  # float64, which not every device has
    "algorithms/pfedrlla/encoder.py:token",
)
"""Functions that make tensors of the CPU on every device, and why; beside them only arrays do."""
EAGER = {
    "pfedrlla": {
        **{"warmup": 0, "every": 1, "batch_size": 2},
        **{"agent_steps": 1, "encoder_steps": 1},
    },
    "fedpref": {"threshold": 1e9, "patience": 1, "top_r": 0.4},
    "cfl": {"threshold": 1e9, "patience": 1},
}
"""Settings with which rules do all that they can within two rounds."""
HOSTS = {name: next(h for h in ("matfl", "fedavg", "fedpref") if fits(cls, algorithms()[h]))
         for name, cls in wrappers().items()}  # fmt: skip


@pytest.fixture(autouse=True)
def _known(monkeypatch) -> None:
    """Make the device one that users may ask for."""
    monkeypatch.setattr(devices, "_NAMES", re.compile(f"cpu|{TWIN}"))
    monkeypatch.setattr(devices, "available", lambda: ["cpu", TWIN])


def on_twin(configuration: Configuration) -> Configuration:
    return configuration.model_copy(update={"device": TWIN})


def everything(configuration: Configuration) -> NamedArrays:
    """All models and results of a simulation, as arrays."""
    problem = configuration.get_problem()
    with placed(configuration.device), EmbeddedEngine(configuration) as engine:
        loop = SimulatedLoop(engine, server_of(configuration))
        list(loop.rounds())
        loop.finish()
        values = {f"test/{kept}": engine.test(kept) for kept in (True, False)}
        remarks = engine.metrics(tuple(range(configuration.clients))).remarks
        values["remarks"] = np.array(len(remarks))  # such as: not all clients at once
        if isinstance(problem, DataProblem):
            values["everyone"] = engine.test(True, "everyone")
            values |= {f"out/{i}": array for i, array in enumerate(engine.test_outputs(True))}
        objectives = len(problem.objectives)
        spread = configuration.get_algorithm().evaluation_preferences(objectives, "test")
        if spread is not None:
            values["spans"] = engine.evaluate_preferences(spread)[0]
        values |= {
            f"kept/{name}": t.numpy(force=True) for name, t in engine.models(True).tensors.items()
        }
        tensors, _ = loop.state()
        return {**values, **tensors}


def assert_all_there(configuration: Configuration, atol: float = 0.0) -> None:
    """A simulation on the device has the bits of one on the CPU, and is on the device alone."""
    expected = everything(configuration)
    with HostWork(HOST) as work:
        actual = everything(on_twin(configuration))
    assert not work.places
    assert set(actual) == set(expected)
    for name, array in expected.items():
        np.testing.assert_allclose(actual[name], array, rtol=0, atol=atol, err_msg=name)


@pytest.mark.parametrize("case", [*CASES, *CONTINUOUS], ids="-".join)
def test_every_algorithm_is_on_the_device_alone(case):
    algorithm, problem = case
    values = settings_of(algorithm, problem) | {algorithm: EAGER.get(algorithm, {})}
    # an LSTM's cell is one operation on GPUs and several on CPUs, and Adam makes steps of the rest
    configuration = tiny(**values, rounds=2, chunk=4)
    assert_all_there(configuration, atol=1e-3 if algorithm == "pfedrlla" else 0.0)


@pytest.mark.parametrize("name", sorted(HOSTS))
def test_every_wrapper_is_on_the_device_alone(name):
    values = {"problem": "tiny-people", "algorithm": HOSTS[name], "wrapper": name}
    assert_all_there(tiny(**values, rounds=2, chunk=4))


PICTURES = np.random.default_rng(5).integers(0, 256, (120, 1, 16, 16), dtype=np.uint8)
SHOWN = register(
    replace(
        ANSWERS,
        name="tiny-shown",
        samples=lambda: replace(
            ANSWERS.samples(),
            columns={k: c[:120] for k, c in ANSWERS.samples().columns.items()}
            | {"inputs": torch.from_numpy(PICTURES).float() / 255},
            strata=ANSWERS.samples().strata[:120],
        ),
        network=lambda samples: nn.Sequential(
            nn.Conv2d(1, 2, 5),
            nn.BatchNorm2d(2),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Flatten(),
            nn.Linear(288, 2),
        ),
    )
)
"""Pictures, for a network that convolves, keeps statistics and draws random numbers."""


@pytest.mark.parametrize(
    "values",
    [
        {"problem": "tiny-shown", "algorithm": "fedavg"},
        {"problem": "tiny-shown", "algorithm": "ditto"},
        {"algorithm": "fedavg", "dqn": {"average_targets": True}, "participation": 0.5},
        {"problem": "tiny-people", "algorithm": "fedavg", "supervised": {"optimiser": "sgd"}},
        {"problem": "tiny-people", "algorithm": "fedpref", "supervised": {"normalise": "ends"}},
        {"problem": "tiny-people", "algorithm": "fedpref", "supervised": {"warm_up": 0.6}},
        {
            "problem": "tiny-people",
            "algorithm": "fedavg",
            "supervised": {"scalarisation": "smooth-tchebycheff", "normalise": "units"},
        },
        {"problem": "tiny-people", "algorithm": "lft-fedavg", "sizes": "8,4,2,1"},
        {"problem": "tiny-people", "algorithm": "matfl", "guard": True, "alone_share": 0.5},
        {"problem": "tiny-people", "algorithm": "ditto", "encoding": "int4"},
        {"problem": "tiny-people", "algorithm": "matfl", "attack": "alie:1"},
        {"problem": "tiny-people", "algorithm": "matfl", "attack": "replay:1"},
        {"problem": "tiny-people", "algorithm": "matfl", "attack": "label-flip:1"},
        {"problem": "tiny-people", "algorithm": "fedavg", "topology": "neighbours"},
    ],
    ids=lambda values: "-".join(str(v) for v in values.values()),
)
def test_every_kind_of_run_is_on_the_device_alone(values):
    assert_all_there(tiny(**values, rounds=2))


def test_late_updates_are_on_the_device_alone(tmp_path):
    (tmp_path / "plan.csv").write_text(CONTACTS.to_csv())
    assert_all_there(linked(str(tmp_path / "plan.csv"), problem="tiny-people", algorithm="fedavg"))


@pytest.mark.parametrize(
    "values",
    [
        {"algorithm": "fedpref", "guard": True},
        {"problem": "tiny-people", "algorithm": "praffl", "keep_scope": "federation"},
        {"problem": "tiny-people", "algorithm": "ditto", "privacy": {"noise": 0.1}},
        {"problem": "tiny-people", "algorithm": "fedavg", "attack": "replay:1"},
        {"problem": "tiny-people", "algorithm": "apfl", "encoding": "exact", "alone_share": 0.5},
    ],
    ids=lambda values: values["algorithm"],
)
def test_an_interrupted_run_goes_on_with_the_bits_of_the_cpu(values, tmp_path):
    """Checkpoints, models and results are files without a device."""
    configuration = tiny(**values, rounds=2)
    whole = contents(execute(Run.create(tmp_path / "cpu", configuration)))
    broken = Run.create(tmp_path / TWIN, on_twin(configuration))
    with pytest.raises(KeyboardInterrupt):
        execute(broken, notify=stopping(1))
    actual = contents(resume(broken.path))
    text = actual.pop("config.toml").decode()
    assert f'device = "{TWIN}"' in text
    assert text.replace(TWIN, "cpu").encode() == whole.pop("config.toml")
    assert actual == whole


def test_an_interrupted_agent_goes_on_as_if_never_interrupted(tmp_path):
    values = {"problem": "tiny-people", "algorithm": "pfedrlla", "pfedrlla": EAGER["pfedrlla"]}
    configuration = on_twin(tiny(**values, rounds=2))
    whole = contents(execute(Run.create(tmp_path / "whole", configuration)))
    broken = Run.create(tmp_path / "broken", configuration)
    with pytest.raises(KeyboardInterrupt):
        execute(broken, notify=stopping(1))
    assert contents(resume(broken.path)) == whole


def every_vector(vectors: np.ndarray) -> np.ndarray:
    """Count all vectors; as a part of a problem it brings this module to other processes."""
    return np.ones(len(vectors), dtype=bool)


def test_other_processes_are_on_the_device_too(tmp_path):
    register(replace(tiny(problem="tiny-people").get_problem(), name="sent", counted=every_vector))
    configuration = on_twin(tiny(problem="sent", algorithm="ditto", rounds=2))
    alone = contents(execute(Run.create(tmp_path / "1", configuration)))
    assert contents(execute(Run.create(tmp_path / "2", configuration), workers=2)) == alone


@pytest.mark.parametrize(
    "values",
    [
        {"harvest": True, "warm_start": True, "iterations": 2, "rounds": 1},
        {
            "problem": "tiny-trolley",
            "reference_point": [-10.0, -30.0],
            "iterations": 1,
            "rounds": 1,
        },
        {"problem": "tiny-people", "server_share": 0.2, "iterations": 1, "rounds": 1},
    ],
    ids=["episodes", "continuous", "samples"],
)
def test_a_search_is_on_the_device_alone(values, tmp_path):
    whole = small.contents(small.made(tmp_path, "cpu", **values))
    search = Search.create(tmp_path / TWIN, small.configuration(**values, device=TWIN))
    search.configuration  # noqa: B018  (read before, and not on the device)
    draws = "searches/mofld.py:_federations"  # initial models
    with HostWork((*HOST, draws, "problems/data.py:batch_of")) as work:
        execute_search(search)
    assert not work.places
    assert small.contents(search) == whole


@pytest.mark.parametrize("problem", ["tiny-people", "tiny-treasure"])
def test_a_site_may_have_a_device_of_its_own(problem, tmp_path):
    """One of three sites trains on the device; all messages have the bytes of the CPU's."""

    class Mixed(Deployment):
        def site(self, number):
            plain = self.configuration
            self.configuration = on_twin(plain) if number == 1 else plain
            try:
                return super().site(number)
            finally:
                self.configuration = plain

        def fate(self, name, message):
            return "restart"  # from its disk, after every answer

    configuration = configuration_of(problem=problem, algorithm="fedpref")
    plain, mixed = (kind(configuration, tmp_path / kind.__name__) for kind in (Deployment, Mixed))
    with placed("cpu"):
        plain.run()
        mixed.run()
    assert all(
        isinstance(t, TwinTensor)
        for t in mixed.sites["bank-b"].clients.models(True).tensors.values()
    )
    assert mixed.passed == plain.passed


# -- the device itself ---------------------------------------------------------------------


def test_the_device_is_as_strict_as_a_gpu():
    with placed(TWIN):
        there = torch.ones(3)
    assert there.device.type == TWIN
    for operation in (
        lambda: there + torch.ones(3),
        lambda: torch.stack([there, torch.ones(3)]),
        lambda: there.index_select(0, torch.arange(2)),
        lambda: torch.ones(2, 3) @ there,
    ):
        with pytest.raises(RuntimeError, match="one tensor is on cpu, another on twin"):
            operation()
    with pytest.raises(TypeError, match="no array"):
        there.numpy()
    with pytest.raises(TypeError, match="no float64"):
        there.double()
    np.testing.assert_array_equal(there.numpy(force=True), np.ones(3))


def test_work_on_the_host_is_noted():
    fleet = Fleet({"a": torch.ones(2, 3)})
    with HostWork(()) as work:
        fleet.mean()
    assert any(place.startswith("core/fleet.py:") and "aten.mm" in place for place in work.places)
    with HostWork(("core/fleet.py:mix",)) as allowed:
        fleet.mean()
    assert not allowed.places
    assert allowed.used == {"core/fleet.py:mix"}
