"""Agents as files: trained on one federation, taken by others, refused where they do not fit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import comity
import comity.report
from comity.algorithms.pfedrlla import agent_file
from comity.algorithms.pfedrlla.algorithm import PFedRLLA
from comity.cli import main
from comity.configuration import configure
from comity.core.storage import load_values
from comity.errors import UserError
from comity.runs.directory import Run
from comity.runs.execute import execute
from comity.runs.pretraining import save_agent
from tests.events import stopping
from tests.tiny import tiny

SHORT = {"clients": 4, "rounds": 4, "chunk": 4}
LEARNS = {"warmup": 1, "batch_size": 4}


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(comity.report, "write_report", lambda run, kind: None)


@pytest.fixture
def agent(tmp_path) -> Path:
    return comity.pretrain(
        "tiny-answers", tmp_path / "agent.safetensors", run="learned", pfedrlla=LEARNS, **SHORT
    )


def taken(agent: object, **values: Any) -> comity.Run:
    return comity.run(
        "tiny-answers", algorithm="pfedrlla", pfedrlla={"agent": str(agent)}, **values
    )


def test_an_agent_that_has_learned_decides_from_the_first_round_on(agent):
    learned = comity.open("learned")
    assert isinstance(learned, comity.Run)
    assert learned.configuration.algorithm_settings["body"] == "local"
    run = taken(agent, seed=5, **SHORT)
    found = run.configuration.get_algorithm()
    assert isinstance(found, PFedRLLA)
    arrays, _ = load_values(agent)
    assert not any("memory" in name or "stored" in name for name in arrays)
    first = [entry["server"]["weights"] for entry in run.history[:1]]
    fresh = comity.run(
        "tiny-answers", algorithm="pfedrlla", seed=5, pfedrlla={"warmup": 0}, **SHORT
    )
    assert np.abs(np.array(first[0]) - fresh.history[0]["server"]["weights"]).max() > 1e-3
    assert run.history[1]["server"]["episodes"] == 4, "the file holds no memory"


def test_a_run_names_its_file_with_a_fingerprint_and_repeats_with_no_other(agent):
    run = taken(agent, **SHORT)
    name = run.configuration.algorithm_settings["agent"]
    assert name.startswith(f"{agent}#")
    assert taken(name, **SHORT).results == run.results
    arrays, header = load_values(agent)
    arrays["encoder.now.decoder.bias"] = arrays["encoder.now.decoder.bias"] + 1
    agent_file.save(agent, arrays, header)
    with pytest.raises(UserError, match="not the file that it was"):
        taken(name, **SHORT)


def test_a_pairwise_agent_weighs_any_number_of_clients_a_flat_one_its_own(agent, tmp_path):
    taken(agent, clients=6, rounds=2, participation=0.5)
    flat = comity.pretrain(
        "tiny-answers",
        tmp_path / "flat.safetensors",
        pfedrlla={**LEARNS, "network": "flat"},
        **SHORT,
    )
    taken(flat, **SHORT)
    with pytest.raises(UserError, match=r"weighs 4 participants .* here are 3"):
        taken(flat, clients=3, rounds=2)


def test_files_that_are_no_agents_are_refused_before_anything_is_written(agent, tmp_path):
    damaged, foreign = tmp_path / "damaged.safetensors", tmp_path / "foreign.safetensors"
    damaged.write_bytes(agent.read_bytes()[:1000])
    comity.run("tiny-answers", algorithm="fedavg", out="plain", **SHORT)
    foreign.write_bytes((tmp_path / "plain/models/client-0.safetensors").read_bytes())
    arrays, header = load_values(agent)
    cut, less = tmp_path / "cut.safetensors", tmp_path / "less.safetensors"
    agent_file.save(cut, {k: v for k, v in arrays.items() if "decoder" not in k}, header)
    agent_file.save(less, {k: v[..., :1] for k, v in arrays.items()}, header)
    for file, said in (
        (cut, "not those of this version"),
        (less, "not those of this version"),
        ("missing.safetensors", "there is no such file.*comity pretrain"),
        (damaged, "damaged"),
        (foreign, "holds no agent"),
    ):
        with pytest.raises(UserError, match=said):
            configure(
                {
                    "problem": "tiny-answers",
                    "algorithm": "pfedrlla",
                    "pfedrlla": {"agent": str(file)},
                }
            )


def test_an_agent_goes_on_learning_and_can_be_saved_again(agent, tmp_path):
    run = taken(agent, **SHORT)
    again = save_agent(run, tmp_path / "again.safetensors")
    assert taken(again, **SHORT).results["metrics"]
    plain = comity.run("tiny-answers", algorithm="fedavg", **SHORT)
    with pytest.raises(UserError, match="no agent to save"):
        save_agent(plain, tmp_path / "none.safetensors")


def test_an_agent_that_decides_nothing_is_not_trained(tmp_path):
    with pytest.raises(UserError, match="decides nothing"):
        comity.pretrain("tiny-answers", tmp_path / "a.safetensors", pfedrlla={"head": "local"})


def called(monkeypatch, capsys, *arguments: str) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["comity", *arguments])
    with pytest.raises(SystemExit) as exit:
        main()
    said = capsys.readouterr()
    assert isinstance(exit.value.code, int)
    return exit.value.code, said.out + said.err


def test_from_the_command_line(monkeypatch, capsys, tmp_path):
    call = lambda *arguments: called(monkeypatch, capsys, *arguments)  # noqa: E731
    short = ("--clients", "4", "--rounds", "3", "--set", "pfedrlla.warmup=1")
    code, said = call(
        *("pretrain", "pfedrlla", "tiny-answers", "--out", "a.safetensors", "--run", "r", *short)
    )
    assert code == 0
    assert "pfedrlla.agent=a.safetensors" in said
    code, said = call(
        *("run", "tiny-answers", "--algorithm", "pfedrlla", "--clients", "4", "--rounds", "2"),
        *("--set", "pfedrlla.agent=a.safetensors", "--out", "used"),
    )
    assert code == 0, said
    code, said = call("pretrain", "pfedrlla", "--from", "r", "--out", "b.safetensors")
    assert code == 0, said
    assert Path("b.safetensors").read_bytes() == Path("a.safetensors").read_bytes()
    for arguments, wrong in (
        (("fedavg", "tiny-answers", "--out", "c"), "Valid: pfedrlla"),
        (("pfedrlla", "tiny-answers"), "out is missing"),
        (("pfedrlla", "tiny-answers", "--out", "a.safetensors"), "exists already"),
        (("pfedrlla", "tiny-answers", "--out", "no/where"), "there is no directory"),
        (("pfedrlla", "--out", "c"), "problem is missing"),
        (("pfedrlla", "tiny-answers", "--out", "c", "--set", "pfedrlla=3"), "must be a table"),
        (("pfedrlla", "deep-sea-treasure", "--out", "c"), "differentiable losses"),
    ):
        code, said = call("pretrain", *arguments)
        assert (code, said.count("\n")) == (2, 1), said
        assert wrong in said


def test_resumed_in_the_middle_it_ends_with_the_same_agent(tmp_path):
    """Agent, what it remembers, encoder and embeddings: whole or interrupted, to the bit."""
    settings = {**LEARNS, "every": 1, "agent_steps": 3}
    configuration = tiny(
        problem="tiny-answers", algorithm="pfedrlla", pfedrlla=settings, participation=0.75
    )
    whole = execute(Run.create(tmp_path / "whole", configuration))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comity.runs.execute, "_CHECKPOINT_SECONDS", 0.0)
        with pytest.raises(KeyboardInterrupt):
            execute(Run.create(tmp_path / "broken", configuration), notify=stopping(2))
    resumed = comity.resume(tmp_path / "broken")
    assert isinstance(resumed, Run)
    wanted, found = whole.server_arrays, resumed.server_arrays
    assert {name.partition(".")[0] for name in wanted} == {
        "agent",
        "encoder",
        "allocator",
        "stored",
    }
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
