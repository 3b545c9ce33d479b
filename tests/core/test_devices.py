"""Names of devices, what a machine has, and where tensors are made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import comity
from comity.cli import main
from comity.configuration import Configuration, configure, read_toml
from comity.configuration.federation_file import read_federation
from comity.core import devices
from comity.core.devices import available, check_device, in_double, placed, resolve
from comity.core.fleet import Fleet
from comity.errors import UserError
from comity.runs.compare import start_comparison
from comity.runs.directory import Run
from comity.searches.comparison import start_searches
from comity.searches.execution import start_search
from tests.tiny import tiny
from tests.twin_device import TWIN


@pytest.fixture
def machine(monkeypatch):
    """Return a function that gives this machine GPUs which it does not have."""

    def has(cuda: int = 0, mps: bool = False) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    return has


@pytest.mark.parametrize(
    ("cuda", "mps", "names", "best"),
    [
        (0, False, ["cpu"], "cpu"),
        (2, False, ["cpu", "cuda", "cuda:0", "cuda:1"], "cuda"),
        (0, True, ["cpu", "mps"], "mps"),
    ],
)
def test_auto_is_the_best_device_of_the_machine(cuda, mps, names, best, machine):
    machine(cuda, mps)
    assert available() == names
    assert resolve("auto") == best
    assert [resolve(name) for name in ("cpu", "cuda:7", "mps")] == ["cpu", "cuda:7", "mps"]
    for name in names:
        check_device(name)


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "", 0, None, "CPU"])
def test_an_unknown_name_is_refused(name):
    with pytest.raises(UserError, match=r"device = .*: there is no such device. Say cpu, cuda"):
        resolve(name)


def test_auto_is_resolved_in_the_configuration_and_stays_so(machine, tmp_path):
    machine(cuda=1)
    run = Run.create(tmp_path / "run", tiny(device="auto"))
    assert read_toml(run.path / "config.toml")["device"] == "cuda"
    machine()
    assert Run.open(run.path).configuration.device == "cuda"
    assert tiny(device="auto").device == tiny().device == "cpu"


@pytest.mark.parametrize(
    "start",
    [
        lambda out: comity.run("tiny-treasure", device="cuda:1", out=out),
        lambda out: start_comparison("tiny-treasure", algorithms=["fedavg"], device="mps", out=out),
        lambda out: start_search({"problem": "tiny-treasure", "device": "mps"}, out),
        lambda out: start_searches("tiny-treasure", generators=["gap"], device="mps", out=out),
    ],
    ids=["run", "comparison", "search", "searches"],
)
def test_a_device_that_the_machine_lacks_is_refused_before_anything_is_written(
    start, machine, tmp_path
):
    machine(cuda=1)
    fault = r"PyTorch finds no such device .* it finds cpu, cuda, cuda:0. Say device = cpu"
    with pytest.raises(UserError, match=f"device = (mps|cuda:1): {fault}"):
        start(tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_run_cannot_go_on_without_its_device_but_can_be_read(machine, tmp_path):
    run = Run.create(tmp_path / "run", tiny(device="cuda"))
    machine()
    with pytest.raises(UserError, match="device = cuda: PyTorch finds no such device"):
        comity.resume(run.path)
    assert Run.open(run.path).configuration.device == "cuda"


@pytest.mark.parametrize("command", ["run", "compare", "search", "reproduce", "pretrain"])
def test_commands_have_the_option(command, machine, tmp_path, capsys, monkeypatch):
    machine()
    monkeypatch.chdir(tmp_path)
    names = {
        "run": ["tiny-treasure"],
        "compare": ["tiny-treasure", "--algorithms", "fedavg"],
        "search": ["tiny-treasure"],
        "reproduce": ["thesis-4.1"],
        "pretrain": ["pfedrlla", "tiny-people", "--out", "agent.safetensors"],
    }
    monkeypatch.setattr("sys.argv", ["comity", command, *names[command], "--device", "cuda"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert "device = cuda: PyTorch finds no such device" in capsys.readouterr().err
    assert not list(Path().rglob("*.toml"))


def test_comparisons_write_what_auto_means(machine, tmp_path):
    machine(cuda=1)
    settings = {"device": "auto", "out": tmp_path / "runs"}
    path = start_comparison("tiny-treasure", algorithms=["fedavg"], **settings)
    assert read_toml(path / "comparison.toml")["settings"]["device"] == "cuda"
    path = start_searches("tiny-treasure", generators=["gap"], **settings | {"out": tmp_path / "s"})
    assert read_toml(path / "searches.toml")["settings"]["device"] == "cuda"


def test_steps_are_compiled_on_the_cpu_only():
    long = {"problem": "tiny-people", "supervised": {"total_steps": 10**6}}
    compiled = {device: configure({**long, "device": device}) for device in ("cpu", "cuda")}
    assert compiled["cpu"].learner_settings["compile"] == "yes"
    assert compiled["cuda"].learner_settings["compile"] == "no"
    with pytest.raises(UserError, match="compile = yes and device = mps exclude each other"):
        configure({"problem": "tiny-people", "device": "mps", "supervised": {"compile": "yes"}})


# -- where tensors are ---------------------------------------------------------------------


def test_tensors_are_made_on_the_device_inside_the_block():
    array = np.arange(3.0, dtype=np.float32)
    with placed(TWIN):
        made = [torch.zeros(2), torch.tensor([1, 2]), torch.as_tensor(array)]
        fleet = Fleet.of(torch.nn.Linear(2, 1), 3)
        with placed("cpu"):
            assert torch.zeros(2).device.type == "cpu"
    assert {tensor.device.type for tensor in [*made, *fleet.tensors.values()]} == {TWIN}
    assert torch.zeros(2).device.type == "cpu"
    np.testing.assert_array_equal(made[2].numpy(force=True), array)


def test_torch_is_asked_for_repeatable_operations_on_the_device_alone():
    with placed("cpu"):
        assert not torch.are_deterministic_algorithms_enabled()
    with placed(TWIN):
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    with pytest.raises(ZeroDivisionError), placed(TWIN):
        raise ZeroDivisionError
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_block_on_the_cpu_does_not_slow_torch_down():
    """Torch's own block calls Python in every operation; on the CPU there is none."""
    before = torch._C._len_torch_function_stack()
    with placed("cpu"):
        assert torch._C._len_torch_function_stack() == before


def test_fleets_travel_as_arrays():
    with placed(TWIN):
        fleet = Fleet({"a": torch.arange(4.0).reshape(2, 2)})
    state = fleet.__getstate__()
    assert type(state["a"]) is np.ndarray
    plain, there = (Fleet.__new__(Fleet) for _ in range(2))
    plain.__setstate__(state)
    with placed(TWIN):
        there.__setstate__(state)
    assert (plain["a"].device.type, there["a"].device.type) == ("cpu", TWIN)
    np.testing.assert_array_equal(there["a"].numpy(force=True), [[0, 1], [2, 3]])


def test_values_of_a_device_without_float64_become_float64_arrays():
    with placed(TWIN):
        values = in_double(torch.tensor([0.1, 2.0]))
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, np.float32([0.1, 2.0]).astype(np.float64))


@pytest.mark.parametrize("share", [0.2, 0.5, 1.0])
def test_a_fleet_on_the_device_has_the_matrices_of_the_cpu(share):
    values = torch.randn(9, 40, generator=torch.Generator().manual_seed(3))
    values[0, 0], values[1, 1], values[2] = torch.inf, torch.nan, 0.0
    here, rows = Fleet({"a": values}), slice(2, None)
    with placed(TWIN):
        there = Fleet({"a": torch.as_tensor(values)})
        np.testing.assert_array_equal(there.finite(), [False, False] + [True] * 7)
        there = Fleet({"a": there["a"][rows]})
        similar, gram, far = (
            there.similarity(None, share),
            there.total_gram(),
            there.distance(there.mean()),
        )
        mean = there.mean()["a"].numpy(force=True)
    here = Fleet({"a": values[rows]})
    np.testing.assert_array_equal(similar, here.similarity(None, share))
    np.testing.assert_array_equal(gram, here.total_gram())
    np.testing.assert_array_equal(far, here.distance(here.mean()))
    np.testing.assert_array_equal(mean, here.mean()["a"])


def test_the_device_of_a_federation_is_not_public(tmp_path):
    (tmp_path / "f.toml").write_text('problem = "tiny-treasure"\ndevice = "cpu"\n[sites.a]\n')
    with pytest.raises(UserError, match="device has no place in a federation file: each site says"):
        read_federation(tmp_path / "f.toml")


def test_the_names_are_those_of_the_help():
    text = str(Configuration.model_fields["device"].description)
    for name in ("cpu", "cuda", "cuda:1", "mps", "auto"):
        assert name in text
        assert devices._NAMES.fullmatch(name)
