"""The main job through the command line."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from contextlib import redirect_stdout

import numpy as np
import pytest
import torch

import comity as library
from comity.cli import main
from tests.e2e.conftest import TINY
from tests.sealed_sizes import SIZE, answer_size, request_size


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """The directory of a finished run, and what the command printed."""
    home, printed = tmp_path_factory.mktemp("run"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed):
        patch.chdir(home)
        command = ["comity", "run", "deep-sea-treasure", *TINY, "--json", "--out", "run"]
        patch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit, match="0"):
            main()
    return home / "run", printed.getvalue()


@pytest.fixture
def finished(comity, original):
    """The command line beside a copy of that run, and its results."""
    path, printed = original
    shutil.copytree(path, comity.home / "run")
    return comity, json.loads(printed)


def test_json_has_every_field_and_the_directory_every_file(finished):
    comity, result = finished
    assert set(result) >= {
        *("problem", "algorithm", "seed", "clients", "rounds", "preferences", "metrics"),
        *("per_client", "communication", "seconds", "run", "reference_point", "episodes"),
    }
    assert set(result["metrics"]) >= {
        *("mean_scalarised", "hypervolume", "sparsity", "igd", "cardinality"),
        *("expected_utility", "mean_regret"),
    }
    assert [row["client"] for row in result["per_client"]] == [0, 1, 2, 3]
    for row in result["per_client"]:
        assert set(row["objectives"]) == {"treasure", "time"}
        value = row["preference"] @ np.array([row["objectives"][k] for k in ("treasure", "time")])
        assert row["scalarised"] == pytest.approx(value)
    # four rounds, four clients, the network's float32 numbers and one statistic each
    model = 4 * (2 * 256 + 256 + 256 * 256 + 256 + 256 * 4 + 4)
    up = 4 * answer_size(model + 8, listed=SIZE) + answer_size()
    down = request_size("round") + sum(
        request_size("round", model, taken=taken) for taken in (1, 2, 3)
    )
    down += request_size("finish", model, alone=True, taken=4)
    each = answer_size(model + 8, listed=SIZE)
    wanted = {"bytes_up": 4 * up, "bytes_down": 4 * down, "bytes_per_update": each}
    assert result["communication"] == wanted
    names = {path.name for path in (comity.home / "run").iterdir()}
    assert names >= {
        *("config.toml", "history.jsonl", "models", "results.json"),
        *("timing.json", "report.html", "front.png", "mixing.png", "clusters.png", "rewards.png"),
    }
    stored = json.loads((comity.home / "run" / "results.json").read_text())
    assert "seconds" not in stored
    assert {**stored, "seconds": result["seconds"], "run": "run"} == result


def test_the_verdict_is_first_in_json_and_terminal(finished):
    comity, result = finished
    verdict = result["verdict"]
    assert next(iter(result)) == "verdict"
    assert sum(verdict["counts"].values()) == 4
    for row in result["per_client"]:
        gain = row["scalarised"] - row["trivial"]
        assert (row["mark"] == "gained") == (gain > 0.001 * max(1, abs(row["trivial"])))
        assert 1 <= row["kept_round"] <= 5
    rounds = [row["kept_round"] for row in result["per_client"]]
    assert verdict["kept"] == {"rule": "client", "first": min(rounds), "last": max(rounds)}
    shown = " ".join(comity("report", "run").stdout.split())
    assert shown.startswith(verdict["sentences"][0])


def test_the_model_of_a_client_is_what_was_judged(finished):
    """Played greedily in the real environment, a saved model earns what the results say."""
    comity, result = finished
    run = library.open(comity.home / "run")
    environment = run.configuration.get_problem().environment()
    for row in result["per_client"]:
        model = run.model(row["client"])
        observation, _ = environment.reset(seed=0)
        total, done = np.zeros(2), False
        while not done:
            with torch.no_grad():
                action = int(model(torch.tensor(observation, dtype=torch.float32)).argmax())
            observation, reward, terminated, truncated, _ = environment.step(action)
            total += reward
            done = terminated or truncated
        np.testing.assert_allclose(total, list(row["objectives"].values()), atol=1e-4)


def test_its_configuration_run_again_gives_the_same_bytes(finished):
    comity, _ = finished
    comity("run", "--config", "run/config.toml", "--out", "again", "--workers", 2)
    for file in ("results.json", "history.jsonl", "config.toml", "models/client-3.safetensors"):
        first = (comity.home / "run" / file).read_bytes()
        assert (comity.home / "again" / file).read_bytes() == first


def test_tables_are_printed_and_the_report_is_drawn_again(finished):
    comity, result = finished
    (comity.home / "run" / "report.html").unlink()
    done = comity("report", "run")
    assert "mean regret" in done.stdout
    assert (comity.home / "run" / "report.html").is_file()
    again = json.loads(comity("report", "run", "--json").stdout)
    assert again == result


def test_interrupted_while_it_is_drawn_a_run_is_resumed_by_drawing_it(comity):
    code = (
        "import comity.report.writing as w, comity.cli\n"
        "def stop(*arguments):\n    raise KeyboardInterrupt\n"
        "w.report_run = stop\n"
        "comity.cli.main()"
    )
    arguments = ["run", "deep-sea-treasure", *TINY, "--out", "r"]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=comity.home, capture_output=True, text=True
    )
    assert done.returncode == 130
    *progress, last = done.stderr.splitlines()
    assert last == "interrupted; go on with: comity resume r"
    assert all(" rounds" in line for line in progress), "on a slow machine"
    results = (comity.home / "r" / "results.json").read_bytes()
    assert not (comity.home / "r" / "report.html").exists()
    again = comity("resume", "r", "--figures", "svg")
    assert again.stderr == "r is finished; only its report is missing, and is drawn now.\n"
    assert "Report: r/report.html" in again.stdout
    assert (comity.home / "r" / "results.json").read_bytes() == results
    assert {path.stem for path in (comity.home / "r").glob("*.svg")} == {
        path.stem for path in (comity.home / "r").glob("*.png")
    }
    assert "finished already" in comity("resume", "r", code=2).stderr


def test_fine_tuning_adds_or_replaces(comity):
    plain = json.loads(comity("run", "deep-sea-treasure", *TINY, "--json").stdout)
    replaced = json.loads(
        comity("run", "deep-sea-treasure", *TINY, "--json", "--fine-tune", "replace-last").stdout
    )
    extra = json.loads(
        comity("run", "deep-sea-treasure", *TINY, "--json", "--fine-tune", "extra:2").stdout
    )
    model = 4 * (2 * 256 + 256 + 256 * 256 + 256 + 256 * 4 + 4)
    saved = plain["communication"]["bytes_down"] - replaced["communication"]["bytes_down"]
    last = request_size("finish", model, alone=True) - request_size("finish", alone=True)
    # the last round of its own says that nothing is mixed afterwards: true for false
    assert saved == 4 * (last + 1)
    steps = [r["environment_steps"]["training"] for r in (plain, replaced, extra)]
    assert steps[1] == pytest.approx(steps[0], abs=4 * 16)
    assert steps[2] >= steps[0] + 4 * 2 * 64 * 0.7
    runs = sorted(path.name for path in (comity.home / "runs").iterdir())
    assert runs == [
        "deep-sea-treasure-fedpref+ft-seed1",
        "deep-sea-treasure-fedpref+ft-seed1-2",
        "deep-sea-treasure-fedpref-seed1",
    ]


def test_a_problem_of_ones_own_in_a_module(comity):
    (comity.home / "mine.py").write_text(
        "from dataclasses import replace\n"
        "from comity.problems import find\n"
        "problem = replace(find('deep-sea-treasure'), name='mine', hidden=(8,))\n"
    )
    result = json.loads(comity("run", "mine:problem", *TINY, "--json", "--out", "r").stdout)
    assert result["problem"] == "mine:problem"
    comity("report", "r")


@pytest.mark.parametrize(
    ("what", "word"),
    [
        ("problems", "minecart-deterministic"),
        ("algorithms", "minimum_similarity"),
        ("preferences", "equidistant"),
    ],
)
def test_lists_show_what_is_registered(what, word, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    for arguments in ([], ["--json"]):
        monkeypatch.setattr(sys, "argv", ["comity", "list", what, *arguments])
        with pytest.raises(SystemExit, match="0"):
            main()
        assert word in capsys.readouterr().out


def test_a_narrow_terminal_shows_whole_objectives(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "argv", ["comity", "list", "problems"])
    with pytest.raises(SystemExit, match="0"):
        main()
    shown = capsys.readouterr().out
    assert "objectives: ore-1, ore-2, fuel" in shown
    assert "hypervolume from (-1, -1, -50)" in shown
