"""Judgements equal what `comity predict`, the results and the groups say."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import comity
import tests.tiny  # noqa: F401  (which registers its problems)
from comity.core.storage import load_values
from comity.explore import judging
from comity.explore.judging import THRESHOLDS, Judge, lattice
from comity.problems.answers import logit_of_yes
from comity.problems.data import batch_of
from comity.runs.export import predict
from tests.explore.conftest import finished
from tests.explore.test_arrays import unpacked


@pytest.fixture(scope="module")
def any_preference(spanning):
    return Judge(spanning)


@pytest.fixture(scope="module")
def fixed(credit):
    return Judge(credit)


def logits(run, client, preference=None):
    """Logits and labels of a client's test rows, by the plain module and nothing else."""
    problem = run.training_configuration.get_problem()
    batch = batch_of(problem.columns(), problem.client_rows()[client].test)
    model = run.model(client) if preference is None else run.model_for(client, preference)
    with torch.inference_mode():
        outputs = model(batch["inputs"])
    return logit_of_yes(outputs).double().numpy(), batch


@pytest.mark.parametrize("client", [0, 1, 2])
def test_a_fixed_model_has_its_values_of_the_results(fixed, credit, client):
    row = credit.results["per_client"][client]
    judged = fixed.judge(client)
    assert judged["made"] is False
    assert "takes no preference" in judged["how"]
    assert judged["parts"]["test"]["objectives"] == pytest.approx(
        list(row["objectives"].values()), abs=1e-6
    )
    assert judged["parts"]["test"]["scalarised"] == pytest.approx(row["scalarised"], abs=2e-6)
    assert judged["parts"]["test"]["rows"] == credit.results["samples"]["test"][client]
    assert judged["parts"]["validation"]["rows"] == credit.results["samples"]["validation"][client]


def test_another_preference_only_weighs_a_fixed_model_anew(fixed, credit):
    first, second = fixed.judge(0, [1.0, 0.0]), fixed.judge(0, [0.25, 0.75])
    accuracy, fairness = first["parts"]["test"]["objectives"]
    assert second["parts"]["test"]["objectives"] == [accuracy, fairness]
    assert first["parts"]["test"]["scalarised"] == accuracy
    expected = pytest.approx(accuracy / 4 + 3 * fairness / 4, abs=1e-6)
    assert second["parts"]["test"]["scalarised"] == expected


def test_a_model_is_made_for_a_preference(any_preference, spanning):
    tested = load_values(spanning.path / "spans.safetensors")[0]
    for place in (0, 250, 999):
        preference = tested["preferences"][place].tolist()
        judged = any_preference.judge(1, preference)
        assert judged["made"] is True
        assert judged["parts"]["test"]["objectives"] == pytest.approx(
            tested["vectors"][1, place].tolist(), abs=1e-5
        )


def test_values_change_with_the_preference(any_preference):
    ends = [any_preference.judge(0, [w, 1 - w])["parts"]["test"]["objectives"] for w in (0, 1)]
    assert ends[0] != ends[1]


def test_yes_is_counted_group_by_group(any_preference, spanning):
    preference = [0.3, 0.7]
    judged = any_preference.judge(0, preference)
    logit, batch = logits(spanning, 0, preference)
    chance, label = 1 / (1 + np.exp(-logit)), batch["label"].numpy() == 1
    problem = spanning.training_configuration.get_problem()
    ((attribute, values),) = problem.attribute_values().items()
    codes = batch[next(iter(problem.attributes))].numpy()
    masks = {(None, "all"): np.ones(len(label), dtype=bool)}
    masks |= {(attribute, value): codes == code for code, value in enumerate(values)}
    counts = unpacked(judged["yes"]["counts"])
    thresholds = judged["yes"]["thresholds"]
    assert counts.shape == (3, 2, THRESHOLDS)
    assert thresholds[50] == 0.5
    for group, line in zip(judged["yes"]["groups"], counts, strict=True):
        mask = masks[group["attribute"], group["value"]]
        assert group["positives"] == (mask & label).sum()
        assert group["negatives"] == (mask & ~label).sum()
        for place in (0, 13, 50, 77, 100):
            yes = chance > thresholds[place] if place < 100 else np.zeros(len(label), dtype=bool)
            assert line[0, place] == (mask & ~label & yes).sum()
            assert line[1, place] == (mask & label & yes).sum()


def test_counts_at_one_half_are_those_of_the_groups(fixed, credit):
    recorded = credit.groups["clients"][2]
    judged = fixed.judge(2)
    counts = unpacked(judged["yes"]["counts"])[:, :, 50]
    for group, (false, true) in zip(judged["yes"]["groups"], counts, strict=True):
        name = group["attribute"]
        known = recorded["attributes"][name]["values"][group["value"]] if name else recorded["all"]
        assert (known["false_positives"], known["true_positives"]) == (false, true)


def test_another_threshold_changes_answers_and_scores(fixed):
    plain, strict = fixed.judge(0), fixed.judge(0, threshold=0.8)
    counts = unpacked(plain["yes"]["counts"])[0]
    negatives = plain["yes"]["groups"][0]["negatives"]
    rows = plain["parts"]["test"]["rows"]
    for judged, place in ((plain, 50), (strict, 80)):
        false, true = counts[:, place]
        accuracy = (true + negatives - false) / rows
        assert judged["parts"]["test"]["objectives"][0] == pytest.approx(accuracy, abs=1e-6)
    assert strict["baseline"]["test"]["objectives"] == plain["parts"]["test"]["objectives"]


def test_the_baseline_is_the_clients_present_model(any_preference, spanning):
    judged = any_preference.judge(0, [0.9, 0.1])
    row = spanning.results["per_client"][0]
    assert judged["baseline"]["preference"] == pytest.approx(row["preference"], abs=1e-6)
    assert judged["baseline"]["test"]["objectives"] == pytest.approx(
        list(row["objectives"].values()), abs=1e-6
    )
    logit, batch = logits(spanning, 0)
    label = batch["label"].numpy() == 1
    counts = unpacked(judged["baseline"]["yes"]["counts"])[0, :, 50]
    assert counts.tolist() == [((logit > 0) & ~label).sum(), ((logit > 0) & label).sum()]


def test_a_grid_holds_the_judgements(any_preference):
    grid = any_preference.grid(0)
    preferences = unpacked(grid["preferences"])
    assert preferences.shape == (101, 2)
    for place in (0, 37, 100):
        judged = any_preference.judge(0, preferences[place].tolist())
        for part in ("test", "validation"):
            expected = pytest.approx(judged["parts"][part]["objectives"], abs=1e-5)
            assert unpacked(grid[part])[place].tolist() == expected
        counts = unpacked(grid["yes"]["counts"])[place]
        np.testing.assert_array_equal(counts, unpacked(judged["yes"]["counts"]))


def test_a_smaller_grid_is_part_of_the_grid(any_preference):
    whole, part = any_preference.grid(0), any_preference.grid(0, thresholds=21, most=51)
    assert unpacked(part["preferences"]).shape == (51, 2)
    assert part["yes"]["thresholds"] == whole["yes"]["thresholds"][::5]
    counts = unpacked(whole["yes"]["counts"])[::2, ..., ::5]
    np.testing.assert_array_equal(unpacked(part["yes"]["counts"]), counts)
    assert len(unpacked(part["baseline"]["yes"]["counts"])[0, 0]) == 21


def test_an_aspiration_is_chosen_on_validation_rows(any_preference, spanning):
    grid = any_preference.grid(1)
    validation, preferences = unpacked(grid["validation"]), unpacked(grid["preferences"])
    level = float(np.median(validation[:, 0]))
    judged = any_preference.judge(1, aspiration=[level, None])
    own = np.array(spanning.results["per_client"][1]["preference"])
    reached = validation[:, 0] >= level - 1e-9
    best = np.where(reached, validation @ own, -np.inf).max()
    choice = judged["aspiration"]
    assert choice["met"]
    assert float(np.array(choice["validation"]) @ own) == pytest.approx(best, abs=1e-5)
    assert choice["preference"] == judged["preference"]
    assert judged["preference"] in preferences.round(6).tolist()
    assert choice["test"] == judged["parts"]["test"]["objectives"]
    assert not any_preference.judge(1, aspiration=[1.5, None])["aspiration"]["met"]


def test_a_grid_of_more_objectives_covers_the_simplex():
    points = lattice(3)
    assert len(points) == 136
    np.testing.assert_allclose(points.sum(axis=1), 1.0)
    distances = np.linalg.norm(points[:, None] - points[None], axis=2) + 9 * np.eye(len(points))
    assert distances.min() > 0.02
    assert any((point == [1.0, 0.0, 0.0]).all() for point in points)


def test_without_rows_it_is_the_nearest_tested_preference(spanning, monkeypatch):
    monkeypatch.setattr(judging, "_with_rows", lambda run: None)
    judge, spans = Judge(spanning), spanning.spans
    judged = judge.judge(1, [0.30004, 0.69996])  # tested are steps of 1/999: 0.3003 is nearest
    nearest = int(np.abs(spans.preferences[:, 0] - 0.30004).argmin())
    assert spans.preferences[nearest, 0] == pytest.approx(300 / 999)
    assert judged["made"] is False
    assert "rows are not here" in judged["how"]
    assert judged["parts"]["test"]["objectives"] == spans.vectors[1, nearest].round(6).tolist()
    assert judged["parts"]["validation"] is None
    assert judged["yes"] is None
    assert judge.judge(0, [0.9, 0.1])["parts"] != judge.judge(0, [0.1, 0.9])["parts"]


def test_without_rows_a_fixed_model_has_its_recorded_values(credit, monkeypatch):
    monkeypatch.setattr(judging, "_with_rows", lambda run: None)
    judged = Judge(credit).judge(1)
    assert judged["parts"]["test"]["objectives"] == list(
        credit.results["per_client"][1]["objectives"].values()
    )
    assert judged["made"] is False


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A run of models that take any preference on a user's table, and the table."""
    place = tmp_path_factory.mktemp("own")
    draw = np.random.default_rng(3)
    lines = ["age,income,sex,repaid"]
    for _ in range(400):
        age, income, sex = draw.integers(20, 70), draw.normal(), draw.choice(["f", "m"])
        repaid = income + 0.8 * (sex == "m") + draw.normal() > 0.3
        lines.append(f"{age},{income:.3f},{sex},{'yes' if repaid else 'no'}")
    table = place / "loans.csv"
    table.write_text("\n".join(lines) + "\n")
    problem = {"data": str(table), "label": "repaid", "positive": "yes", "sensitive": ["sex"]}
    values = {"algorithm": "praffl", "clients": 2, "rounds": 1}
    learner = {"supervised": {"local_steps": 60, "learning_rate": 0.02}}
    run = finished(place / "run", problem={**problem, "metrics": ["dp"]}, **values, **learner)
    return run, table


@pytest.mark.parametrize("weight", [0.15, 0.5, 0.9])
def test_answers_are_those_of_comity_predict(own, weight):
    run, table = own
    rows = [line.split(",") for line in table.read_text().splitlines()[1:]]
    answers = predict(run, table, 1, [weight, 1 - weight])
    judged = Judge(run).judge(1, [weight, 1 - weight])
    test = run.training_configuration.get_problem().client_rows()[1].test.tolist()
    counts = unpacked(judged["yes"]["counts"])
    for group, line in zip(judged["yes"]["groups"], counts, strict=True):
        inside = [
            row for row in test if group["attribute"] is None or rows[row][2] == group["value"]
        ]
        for label, word in enumerate(("no", "yes")):
            same = [row for row in inside if rows[row][3] == word]
            assert line[label, 50] == sum(answers[row].answer for row in same)
            above = sum(answers[row].probability > 0.305 for row in same)
            assert line[label, 31] <= above <= line[label, 30]
    right = sum(answers[row].answer == (rows[row][3] == "yes") for row in test)
    accuracy = judged["parts"]["test"]["objectives"][0]
    assert accuracy == pytest.approx(right / len(test), abs=1e-6)


def test_rows_that_are_gone_are_not_needed(own):
    run, table = own
    hidden = table.rename(table.with_suffix(".gone"))
    try:
        judged = Judge(type(run).open(run.path)).judge(0, [0.5, 0.5])
    finally:
        hidden.rename(table)
    assert judged["made"] is False
    assert "rows are not here" in judged["how"]


def test_a_policy_is_not_played_but_shown_as_tested(tmp_path, monkeypatch):
    """At the nearest of the tested preferences, for models that take any."""
    monkeypatch.setattr("comity.report.write_report", lambda run, kind: None)
    run = comity.run(
        "tiny-treasure", algorithm="conditioned-dqn", clients=2, rounds=1, out=tmp_path / "run"
    )
    judge = Judge(run)
    assert judge.takes_any
    answer = judge.judge(1, [0.31, 0.69])
    assert answer["how"].startswith("No environment is run here: these are values of the run's own")
    assert answer["made"] is False
    expected = run.spans.vectors[1, 3] @ [0.31, 0.69]
    assert answer["parts"]["test"]["scalarised"] == pytest.approx(expected, abs=1e-4)
