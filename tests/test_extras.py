"""Without an extra, what needs it ends in one sentence that names the extra."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import comity
from comity.runs.execute import execute, start_run

ROOT = Path(__file__).parents[1]
SPACE = (ROOT / "examples/space/orbits.tle", ROOT / "examples/space/stations.csv")
CREDIT = ("run", "german-credit-gender-dp", "--clients", "2", "--rounds", "1")
TUNED = ("--algorithm", "fedprox", "--over", ROOT / "examples/tuning/fedprox.toml")
COMMANDS: dict[str, tuple[str, tuple[object, ...]]] = {
    "environments": ("gymnasium", ("run", "deep-sea-treasure")),
    "box2d": ("Box2D", ("run", "lunar-lander")),
    "mujoco": ("mujoco", ("run", "halfcheetah")),
    "onnx": ("onnxscript", ("export", "RUN", "--client", "0", "model.onnx")),
    "parquet": ("polars", ("describe", "table.parquet")),
    "tensorboard": ("torch.utils.tensorboard", (*CREDIT, "--log", "tensorboard:logs")),
    "mlflow": ("mlflow", (*CREDIT, "--log", "mlflow")),
    "wandb": ("wandb", (*CREDIT, "--log", "wandb")),
    "grpc": ("cryptography", ("keys", "bank-a")),
    "space": ("skyfield", ("contacts", *SPACE, "--out", "plan.csv")),
    "privacy": ("dp_accounting", (*CREDIT, "--set", "privacy.epsilon=8")),
    "explore": ("uvicorn", ("explore", "RUN")),
    "tune": ("optuna", ("tune", "german-credit-gender-dp", *TUNED)),
    "cluster": ("distributed", (*CREDIT, "--cluster", "local:2")),
}
"""Extra -> a library of it, and a command that needs it; RUN is a finished run."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    values = {"problem": CREDIT[1], "algorithm": "fedavg", "clients": 2, "rounds": 1}
    run = start_run(values, tmp_path_factory.mktemp("runs") / "credit")
    execute(run, 1)
    return run.path


def hide(monkeypatch, library):
    """Let imports of a library fail, also where another test has imported it."""
    for name in [name for name in sys.modules if name.startswith(f"{library}.")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, library, None)


@pytest.mark.parametrize("extra", COMMANDS)
def test_a_command_without_its_extra_names_it(extra, finished, tmp_path):
    """In a new process: modules that are loaded already would not miss the library."""
    library, arguments = COMMANDS[extra]
    words = [str(finished) if word == "RUN" else str(word) for word in arguments]
    script = f"import sys; sys.modules[{library!r}] = None; from comity.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert re.search(rf"pip install ['\"]comity\[{extra}\]['\"]", done.stderr)
    assert not list(tmp_path.rglob("*")), "nothing is begun"


def test_a_data_frame_without_its_extra_names_it(finished, monkeypatch):
    hide(monkeypatch, "pandas")
    with pytest.raises(comity.UserError, match=r"pip install 'comity\[pandas\]'"):
        comity.open(finished).to_pandas()


def test_every_extra_for_users_is_tried():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {*COMMANDS, "pandas"} == {*project["optional-dependencies"]} - {"dev", "docs"}
