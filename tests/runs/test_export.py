"""Models at work: answers, exported files, and what another preference costs."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save_file
from torch import nn

import comity
import tests.tiny  # noqa: F401  (which makes its problems known)
from comity.datasets.shipped import shipped
from comity.problems import find

pytestmark = pytest.mark.usefixtures("undrawn")

SHORT = {"clients": 3, "rounds": 2, "supervised": {"local_steps": 3}}
WISH = [0.8, 0.2]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def praffl(home):
    return comity.run("tiny-people", algorithm="praffl", out=home / "praffl", **SHORT)


@pytest.fixture(scope="module")
def fedavg(home):
    # long enough, and for accuracy alone, so that some answers are yes and some are no
    longer = {**SHORT, "supervised": {"local_steps": 60}, "keep": "last"}
    longer["preferences"] = "same:1,0"
    return comity.run("tiny-people", algorithm="fedavg", out=home / "fedavg", **longer)


@pytest.fixture(scope="module")
def synthetic(home):
    return comity.run("praffl-synthetic", algorithm="praffl", out=home / "synthetic", rounds=1)


@pytest.fixture(scope="module")
def german():
    return shipped("german-credit")


def header(path):
    with safe_open(path, "np") as file:
        return json.loads(file.metadata()["comity"])


def inputs(run):
    return run.configuration.get_problem().columns()["inputs"]


# -- inputs and answers --------------------------------------------------------------------


def test_rows_of_the_file_become_the_inputs_that_were_learned_from(praffl, german):
    problem = praffl.configuration.get_problem()
    assert torch.equal(problem.inputs_of(german), inputs(praffl))


def test_few_rows_are_scaled_like_all(praffl, german):
    problem = praffl.configuration.get_problem()
    few = {name: cells[5:7] for name, cells in german.items()}
    assert torch.equal(problem.inputs_of(few), inputs(praffl)[5:7])


def test_the_paper_s_own_inputs_come_from_the_original_columns():
    problem = find("praffl-compas").partitioned(2, 1, "paper", "equal")
    assert torch.equal(problem.inputs_of(shipped("compas")), problem.columns()["inputs"])


def test_answers_of_one_logit(fedavg, german):
    answers = comity.predict(fedavg, german, client=1)
    logits = fedavg.model(1)(inputs(fedavg)).detach()[:, 0]
    assert [answer.row for answer in answers] == list(range(2, len(logits) + 2))
    chances = [answer.probability for answer in answers]
    np.testing.assert_allclose(chances, torch.sigmoid(logits).numpy(), atol=1e-6)
    assert [answer.answer for answer in answers] == (logits > 0).long().tolist()
    assert 0 < sum(answer.answer for answer in answers) < len(answers)


def test_answers_of_two_logits_at_a_preference(synthetic):
    rows = {"x1": [0.5, -4.0, 6.0], "x2": [1.0, -5.0, 4.0], "z": [1, 0, 1]}
    raw = torch.tensor(list(zip(*rows.values(), strict=True)))  # these inputs are not scaled
    for wish in ([0.9, 0.1], [0.1, 0.9]):
        answers = comity.predict(synthetic, rows, client=2, preference=wish)
        logits = synthetic.model_for(2, wish)(raw).detach()
        expected = torch.softmax(logits, dim=1)[:, 1].numpy()
        np.testing.assert_allclose([a.probability for a in answers], expected, atol=1e-6)
        assert [a.answer for a in answers] == logits.argmax(dim=1).tolist()


def test_other_outputs_are_no_answer(fedavg, german, monkeypatch):
    monkeypatch.setattr(fedavg, "model", lambda client: nn.Linear(61, 3))
    with pytest.raises(comity.UserError, match=r"tiny-people.*\[3\].*yes or no"):
        comity.predict(fedavg, german, client=0)


# -- files ---------------------------------------------------------------------------------


def test_an_exported_model_is_the_model(praffl, tmp_path):
    path = comity.export(praffl, tmp_path / "model.safetensors", 1, WISH)
    before = torch.get_rng_state()
    again = comity.load_exported(path)
    assert torch.equal(before, torch.get_rng_state())
    assert not again.training
    assert torch.equal(again(inputs(praffl)), praffl.model_for(1, WISH)(inputs(praffl)))
    assert not torch.equal(again(inputs(praffl)), praffl.model(1)(inputs(praffl)))


def test_the_header_says_how_to_use_it(praffl, tmp_path):
    about = header(comity.export(praffl, tmp_path / "model.safetensors", 1, WISH))
    assert about["problem"] == "tiny-people"
    assert about["algorithm"] == "praffl"
    assert (about["client"], about["preference"]) == (1, WISH)
    assert about["version"] == comity.__version__
    assert about["objectives"] == ["accuracy", "fairness"]
    assert len(about["features"]) == inputs(praffl).shape[1]
    assert "age" in about["features"]
    assert about["layers"][:2] == [
        {"type": "linear", "in": 61, "out": 8, "bias": True},
        {"type": "relu"},
    ]
    assert "logit of yes" in about["outputs"]


@pytest.mark.parametrize("name", ["german-credit-gender-dp", "praffl-compas"])
def test_the_scaling_is_what_inputs_were_scaled_by(name, home, tmp_path):
    settings = {"supervised": {"local_epochs": 1}} if "compas" in name else SHORT
    run = comity.run(name, algorithm="fedavg", out=home / name, **{**settings, "rounds": 1})
    about = header(comity.export(run, tmp_path / "model.safetensors", 0))
    raw = run.configuration.get_problem().samples().columns["inputs"].numpy()
    assert len(about["features"]) == raw.shape[1]
    scaled = (raw - about["scaling"]["subtract"]) / about["scaling"]["divide"]
    np.testing.assert_allclose(scaled, inputs(run).numpy(), atol=1e-4)
    age = about["features"].index("age")
    assert about["scaling"]["divide"][age] > 1
    assert about["scaling"]["divide"].count(1.0) > 20  # 0/1 inputs stay as they are


def test_scaling_of_another_kind_is_not_said(praffl, tmp_path, monkeypatch):
    problem = replace(praffl.configuration.get_problem(), prepare=_squared)
    monkeypatch.setattr(type(praffl.configuration), "get_problem", lambda self: problem)
    about = header(comity.export(praffl, tmp_path / "model.safetensors", 1, WISH))
    assert about["scaling"] is None


def _squared(samples, train):
    return {**samples.columns, "inputs": samples.columns["inputs"].square()}


def test_own_preference_unless_given(praffl, fedavg, tmp_path):
    for run in (praffl, fedavg):
        path = comity.export(run, tmp_path / f"{run.path.name}.safetensors", 2)
        own = run.configuration.get_preferences()[2]
        np.testing.assert_allclose(header(path)["preference"], own)
        assert torch.equal(comity.load_exported(path)(inputs(run)), run.model(2)(inputs(run)))


@pytest.mark.parametrize("algorithm", ["praffl", "lft-ensemble"])
def test_onnx_gives_the_same_outputs(algorithm, praffl, home, tmp_path):
    run, wish = praffl, WISH
    if algorithm != "praffl":  # no chain of layers
        if torch.__version__.startswith("2.9."):
            pytest.skip("torch 2.9 cannot trace an ensemble for any number of rows")
        run = comity.run("tiny-people", algorithm=algorithm, out=home / algorithm, **SHORT)
        wish = None
    path = comity.export(run, tmp_path / "model.onnx", 1, wish)
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["model.card.md", "model.onnx"]  # weights are inside
    session = onnxruntime.InferenceSession(path)
    model = run.model(1) if wish is None else run.model_for(1, wish)
    for rows in (inputs(run)[:1], inputs(run)):
        (outputs,) = session.run(["outputs"], {"inputs": rows.numpy()})
        np.testing.assert_allclose(outputs, model(rows).detach().numpy(), atol=1e-5)
    about = json.loads(session.get_modelmeta().custom_metadata_map["comity"])
    assert (about["algorithm"], about["client"]) == (algorithm, 1)


def test_actions_go_to_onnx_only(home, tmp_path):
    run = comity.run("tiny-trolley", algorithm="fedavg", clients=2, rounds=1, out=home / "trolley")
    with pytest.raises(comity.UserError, match=r"ActorCritic.*\.onnx.*run\.model"):
        comity.export(run, tmp_path / "model.safetensors", 0)
    session = onnxruntime.InferenceSession(comity.export(run, tmp_path / "model.onnx", 0))
    seen = torch.randn(5, 2)
    (actions,) = session.run(None, {"inputs": seen.numpy()})
    np.testing.assert_allclose(actions, run.model(0)(seen).detach().numpy(), atol=1e-6)


def test_onnx_is_an_extra(praffl, tmp_path, monkeypatch):
    monkeypatch.setattr("comity.runs.export.find_spec", lambda name: None)
    with pytest.raises(comity.UserError, match=r"pip install 'comity\[onnx\]'"):
        comity.export(praffl, tmp_path / "model.onnx", 1)


def test_files_that_are_no_exported_models(praffl, tmp_path):
    with pytest.raises(comity.UserError, match=r"does not say its layers.*comity export"):
        comity.load_exported(praffl.path / "models" / "client-0.safetensors")
    with pytest.raises(comity.UserError, match=r"none\.safetensors"):
        comity.load_exported(tmp_path / "none.safetensors")
    about = header(comity.export(praffl, tmp_path / "model.safetensors", 1))
    for layers in ([{"type": "spline"}], about["layers"][:-1], [{}], None):
        broken = tmp_path / "broken.safetensors"
        words = json.dumps({**about, "layers": layers})
        save_file({"0.weight": np.zeros((8, 61), "f")}, broken, metadata={"comity": words})
        with pytest.raises(comity.UserError, match=r"broken.safetensors is damaged"):
            comity.load_exported(broken)


# -- in real time --------------------------------------------------------------------------


def test_another_preference_costs_neither_a_file_nor_a_copy_of_the_network(praffl, tmp_path):
    copied = tmp_path / "run"
    shutil.copytree(praffl.path, copied)
    run = comity.open(copied)
    first = run.model_for(0, WISH)
    shutil.rmtree(copied)
    second = run.model_for(0, [0.1, 0.9])
    shared = [
        one.data_ptr() == other.data_ptr()
        for one, other in zip(first.parameters(), second.parameters(), strict=True)
    ]
    assert shared == [True] * (len(shared) - 4) + [False] * 4  # a head has two layers of its own
