"""Model cards: facts of the run, limits, and a page that can be read back."""

from __future__ import annotations

import hashlib

import pytest
import tests.tiny  # noqa: F401  (which makes its problems known)

import comity
from comity.report.card import card_text, read_card
from comity.report.rates import rate_text
from comity.runs import card as cards

SHORT = {"rounds": 2, "clients": 3, "names": "north,south,west", "supervised": {"local_steps": 5}}


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("comity.report.write_report", lambda run, kind: None)
        yield tmp_path_factory.mktemp("cards")


@pytest.fixture(scope="module")
def run(home):
    return comity.run("tiny-people", algorithm="praffl", out=home / "run", **SHORT)


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_facts_are_those_of_the_run(run):
    card, row = comity.card(run, "south"), run.results["per_client"][1]
    assert (card["client"], card["name"]) == (1, "south")
    assert list(card["preference"].values()) == row["preference"]
    assert card["results"]["objectives"] == row["objectives"]
    assert card["results"]["trivial"] == row["trivial"]
    rows = {part: counts[1] for part, counts in run.results["samples"].items()}
    assert card["data"]["rows"] == rows
    assert card["data"]["licence"] == "CC BY 4.0"
    gender = {"values": ["female", "male"], "input": True}  # its column is among the inputs
    assert card["data"]["attributes"] == {"gender": gender}
    assert "personal_status_sex" in card["data"]["columns"]
    assert card["training"]["paper"] == type(run.configuration.get_algorithm()).declaration.paper
    assert card["groups"]["all"] == run.groups["clients"][1]["all"]
    assert card["run"]["sha256"]["results.json"] == sha256(run.path / "results.json")
    assert card["run"]["sha256"]["config.toml"] == sha256(run.path / "config.toml")


def test_the_card_is_written_beside_the_model_with_its_checksum(run, tmp_path):
    path = comity.export(run, tmp_path / "model.safetensors", "south")
    page = (tmp_path / "model.card.md").read_text()
    card = read_card(page)
    assert card["files"] == {"model.safetensors": sha256(path)}
    assert sha256(path) in page.split("## Origin")[1]
    women = card["groups"]["attributes"]["gender"]["values"]["female"]
    (line,) = [line for line in page.splitlines() if line.startswith("| female |")]
    assert rate_text(women["selection_rate"]) in line
    assert rate_text(women["auc"]) in line
    for limit in card["limits"]:
        assert f"- {limit}" in page
    assert page == card_text(card)


def test_both_files_of_a_model_have_one_card_and_another_model_is_refused(run, tmp_path):
    comity.export(run, tmp_path / "model.safetensors", 1)
    comity.export(run, tmp_path / "model.onnx", "south")
    card = read_card((tmp_path / "model.card.md").read_text())
    assert sorted(card["files"]) == ["model.onnx", "model.safetensors"]
    (tmp_path / "model.onnx").unlink()
    with pytest.raises(comity.UserError, match=r"model.card.md exists already.*another model"):
        comity.export(run, tmp_path / "model.onnx", "west")
    assert not (tmp_path / "model.onnx").exists()
    comity.export(run, tmp_path / "model.onnx", "west", force=True)
    card = read_card((tmp_path / "model.card.md").read_text())
    assert (card["name"], list(card["files"])) == ("west", ["model.onnx"])


def test_another_preference_was_not_measured(run, tmp_path):
    comity.export(run, tmp_path / "model.safetensors", 1, [0.7, 0.3])
    page = (tmp_path / "model.card.md").read_text()
    card = read_card(page)
    assert card["preference"] == {"accuracy": 0.7, "fairness": 0.3}
    assert card["results"] is None
    assert card["groups"] is None
    assert "Nothing was measured at this preference" in card["limits"][0]
    assert "Not measured at this preference." in page


def test_limits_name_constant_answers_small_groups_and_poor_probabilities(run, monkeypatch):
    row = {"constant": True, "objectives": {"accuracy": 0.5, "fairness": None}, "mark": "constant"}
    measured = run.groups["clients"][0]
    women = measured["attributes"]["gender"]["values"]["female"]
    monkeypatch.setitem(women, "rows", 12)
    monkeypatch.setitem(measured["all"]["calibration"], "error", 0.31)
    problem = run.configuration.get_problem()
    limits = " ".join(cards._limits(run, problem, row, measured))
    assert "gives every test row the same answer" in limits
    assert "Undefined on the client's test rows: fairness." in limits
    assert "Fewer than 30 test rows of gender = female (12)" in limits
    assert "probabilities are off by 0.31" in limits
    assert "sees the sensitive attribute gender" in limits
    assert "simulation" in limits


def test_environments_have_a_card_without_groups(home, tmp_path):
    boat = comity.run("tiny-treasure", algorithm="fedavg", clients=2, rounds=1, out=home / "boat")
    comity.export(boat, tmp_path / "model.safetensors", 0)
    page = (tmp_path / "model.card.md").read_text()
    assert read_card(page)["groups"] is None
    assert "optimum" in page
    assert "## Groups" not in page


def test_other_texts_are_no_cards():
    assert read_card("# Model card\n") is None
    assert read_card("---\nlicense: mit\n---\n") is None


def test_encoding_and_attack_are_named(home):
    run = comity.run(
        "tiny-people", algorithm="fedavg", encoding="int8", attack="sign-flip:1",
        out=home / "attacked", **SHORT,
    )  # fmt: skip
    honest = next(c for c in range(3) if c not in run.configuration.attackers)
    card = comity.card(run, honest)
    assert (card["training"]["encoding"], card["training"]["attack"]) == ("int8", "sign-flip:1")
    text = card_text(card)
    assert "; encoded as int8" in text
    assert "- Attack of this simulation: sign-flip:1" in text
    assert any("simulated attack (sign-flip:1)" in limit for limit in card["limits"])
