"""Measures per attribute value: by hand, and beside fairlearn and scikit-learn."""

from __future__ import annotations

import json

import fairlearn.metrics as fairlearn
import numpy as np
import pytest
import sklearn.metrics as sklearn
import torch
from sklearn.calibration import calibration_curve

import comity
import tests.tiny  # noqa: F401  (which makes its problems known)
from comity.runs.groups import AnsweredRows, measure, short_gaps

NAMES = {"sex": ("f", "m")}


def logits(*chances):
    return np.log(np.array(chances) / (1 - np.array(chances)))


@pytest.fixture(scope="module")
def by_hand():
    """Three women and four men; yes is a probability above one half."""
    label = np.array([1, 0, 0, 1, 1, 0, 1], dtype=bool)
    chance = logits(0.92, 0.72, 0.12, 0.81, 0.82, 0.13, 0.31)
    return measure(AnsweredRows(label, chance, {"sex": np.array([0, 0, 0, 1, 1, 1, 1])}), NAMES)


def test_counts_and_rates_by_hand(by_hand):
    women = by_hand["attributes"]["sex"]["values"]["f"]
    assert women["rows"] == 3
    kinds = ("true_positives", "false_positives", "true_negatives", "false_negatives")
    assert [women[kind] for kind in kinds] == [1, 1, 1, 0]
    men = by_hand["attributes"]["sex"]["values"]["m"]
    assert [men[kind] for kind in kinds] == [2, 0, 1, 1]
    assert women["selection_rate"]["value"] == pytest.approx(2 / 3, abs=1e-6)
    assert women["true_positive_rate"]["value"] == 1.0
    assert women["false_positive_rate"]["value"] == 0.5
    assert men["accuracy"]["value"] == 0.75
    assert men["auc"] == {
        **{"value": 1.0, "low": None, "high": None},
        "reason": "no interval: a single row of a label",
    }
    assert by_hand["all"]["rows"] == 7


def test_gaps_by_hand(by_hand):
    sex = by_hand["attributes"]["sex"]
    assert sex["demographic_parity_difference"]["value"] == pytest.approx(1 / 6, abs=1e-6)
    assert sex["demographic_parity_difference"]["highest"] == "f"
    assert sex["demographic_parity_difference"]["lowest"] == "m"
    assert sex["demographic_parity_ratio"] == {"value": 0.75}
    assert sex["equal_opportunity_difference"]["value"] == pytest.approx(1 / 3, abs=1e-6)
    assert sex["equalised_odds_difference"]["value"] == 0.5  # among the noes it is larger
    assert short_gaps(by_hand) == {
        "sex": {
            "demographic_parity": pytest.approx(1 / 6, abs=1e-6),
            "equal_opportunity": pytest.approx(1 / 3, abs=1e-6),
            "equalised_odds": 0.5,
        }
    }


def test_calibration_by_hand(by_hand):
    calibration = by_hand["attributes"]["sex"]["values"]["m"]["calibration"]
    # bins 0.1 to 0.2 (a no), 0.3 to 0.4 (a yes), 0.8 to 0.9 (two yeses)
    assert [entry["rows"] for entry in calibration["bins"]] == [1, 1, 2]
    assert [entry["low"] for entry in calibration["bins"]] == [0.1, 0.3, 0.8]
    assert calibration["bins"][2]["mean_probability"] == pytest.approx(0.815)
    error = 0.25 * 0.13 + 0.25 * 0.69 + 0.5 * 0.185
    assert calibration["error"] == pytest.approx(error, abs=1e-6)
    assert calibration["mean_probability"] == pytest.approx((0.81 + 0.82 + 0.13 + 0.31) / 4)
    assert calibration["share_of_yes"]["value"] == 0.75


def test_what_is_undefined_says_why():
    label, sex = np.array([0, 0, 1, 0], dtype=bool), np.array([0, 0, 1, 1])
    rows = AnsweredRows(label, logits(0.9, 0.1, 0.9, 0.1), {"sex": sex})
    measured = measure(rows, {"sex": ("f", "m", "x")})["attributes"]["sex"]
    women, nobody = measured["values"]["f"], measured["values"]["x"]
    assert women["true_positive_rate"] == {
        **{"value": None, "low": None, "high": None},
        "reason": "no positives among 2 rows",
    }
    assert women["auc"]["reason"] == "no positives among 2 rows"
    assert nobody["rows"] == 0
    assert nobody["selection_rate"]["reason"] == "no rows"
    assert nobody["calibration"]["error"] is None
    # the absent value is left out of gaps; with one value left there is no gap
    assert measured["demographic_parity_difference"]["value"] == 0.0
    few = "fewer than two values of sex have rows with label yes"
    assert measured["equal_opportunity_difference"]["reason"] == few
    assert measured["equalised_odds_difference"]["reason"] == few


def test_a_ratio_of_nothing_is_undefined():
    rows = AnsweredRows(np.array([True, False]), logits(0.1, 0.2), {"sex": np.array([0, 1])})
    ratio = measure(rows, NAMES)["attributes"]["sex"]["demographic_parity_ratio"]
    assert ratio == {"value": None, "reason": "nobody is answered yes"}


@pytest.fixture(scope="module")
def crowd():
    generator = np.random.default_rng(3)
    label = generator.random(400) < 0.4
    logit = generator.normal(0.8 * label - 0.5, 1.0)
    logit[:80] = logit[80:160]  # ties
    return label, logit, generator.integers(0, 3, 400)


def test_fairlearn_and_scikit_learn_agree(crowd):
    label, logit, code = crowd
    values = {"z": ("a", "b", "c")}
    measured = measure(AnsweredRows(label, logit, {"z": code}), values)["attributes"]["z"]
    answers, chance = (logit > 0).astype(int), 1 / (1 + np.exp(-logit))
    truth = {"y_true": label.astype(int), "y_pred": answers}
    frame = fairlearn.MetricFrame(
        metrics={
            "selection_rate": fairlearn.selection_rate,
            "true_positive_rate": fairlearn.true_positive_rate,
            "false_positive_rate": fairlearn.false_positive_rate,
            "accuracy": sklearn.accuracy_score,
        },
        sensitive_features=code,
        **truth,
    )
    for number, group in enumerate(measured["values"].values()):
        for name, value in frame.by_group.loc[number].items():
            assert group[name]["value"] == pytest.approx(value, abs=1e-6)
        inside = code == number
        area = sklearn.roc_auc_score(label[inside], logit[inside])
        assert group["auc"]["value"] == pytest.approx(area, abs=1e-6)
        share, mean = calibration_curve(label[inside], chance[inside], n_bins=10)
        bins = group["calibration"]["bins"]
        np.testing.assert_allclose([b["share_of_yes"]["value"] for b in bins], share, atol=1e-6)
        np.testing.assert_allclose([b["mean_probability"] for b in bins], mean, atol=1e-6)
    gaps = {
        "demographic_parity_difference": fairlearn.demographic_parity_difference,
        "demographic_parity_ratio": fairlearn.demographic_parity_ratio,
        "equal_opportunity_difference": fairlearn.equal_opportunity_difference,
        "equalised_odds_difference": fairlearn.equalized_odds_difference,
    }
    for name, referee in gaps.items():
        value = referee(**truth, sensitive_features=code)
        assert measured[name]["value"] == pytest.approx(value, abs=1e-6)


# -- of runs -------------------------------------------------------------------------------

SHORT = {"rounds": 2, "clients": 3, "supervised": {"local_steps": 5}}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("comity.report.write_report", lambda run, kind: None)
        yield tmp_path_factory.mktemp("groups")


@pytest.mark.parametrize("algorithm", ["fedavg", "praffl"])
def test_a_run_measures_the_models_that_it_hands_over(algorithm, home):
    settings = {**SHORT, "names": ["north", "south", "west"]}
    run = comity.run("tiny-crowd", algorithm=algorithm, out=home / algorithm, **settings)
    problem, groups = run.configuration.get_problem(), run.groups
    assert [entry["name"] for entry in groups["clients"]] == ["north", "south", "west"]
    assert list(groups["together"]["attributes"]) == ["gender", "age"]
    assert list(groups["together"]["attributes"]["age"]["values"]) == ["up to 25", "over 25"]
    everybody = 0
    for client, entry in enumerate(groups["clients"]):
        rows = problem.client_rows()[client].test
        with torch.inference_mode():
            yes = run.model(client)(problem.columns()["inputs"][rows])[:, 0] > 0
        assert entry["all"]["rows"] == len(rows)
        assert entry["all"]["selection_rate"]["value"] == pytest.approx(float(yes.float().mean()))
        everybody += len(rows)
        result = run.results["per_client"][client]
        accuracy = result["objectives"]["accuracy"]
        assert entry["all"]["accuracy"]["value"] == pytest.approx(accuracy, abs=1e-6)
        for name in ("gender", "age"):
            gap = result["gaps"][name]["demographic_parity"]
            assert gap == pytest.approx(1 - result["objectives"][f"fairness-{name}"], abs=2e-6)
    assert groups["together"]["all"]["rows"] == everybody


def test_two_logits_and_values_without_names(home):
    run = comity.run("tiny-answers", algorithm="fedavg", out=home / "answers", **SHORT)
    assert list(run.groups["together"]["attributes"]["z"]["values"]) == ["0", "1", "2"]
    for entry, result in zip(run.groups["clients"], run.results["per_client"], strict=True):
        accuracy = result["objectives"]["accuracy"]
        assert entry["all"]["accuracy"]["value"] == pytest.approx(accuracy, abs=1e-6)


def test_equal_runs_have_equal_measures_on_any_number_of_workers(home):
    text = []
    for workers in (1, 2):
        run = comity.run("tiny-people", out=home / f"w{workers}", workers=workers, chunk=2, **SHORT)
        text.append((run.path / "groups.json").read_bytes())
    assert text[0] == text[1]
    assert "NaN" not in text[0].decode()
    json.loads(text[0])


def test_problems_without_groups_have_no_file(home):
    run = comity.run("tiny-treasure", algorithm="fedavg", clients=2, rounds=1, out=home / "boat")
    assert run.groups is None
    assert "gaps" not in run.results["per_client"][0]
