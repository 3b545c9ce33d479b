"""Problems with data through the command line; in this process, because imports are slow."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import comity as library
from comity.cli import main
from comity.problems import find
from tests.e2e.test_interruption import start, wait_for_rounds

GERMAN = ["german-credit-gender-dp", "--clients", "3", "--workers", "1"]
SHORT = ["--rounds", "2", "--set", "supervised.local_steps=10"]
SIZE = 61 * 64 + 64 + 64 * 32 + 32 + 32 + 1  # numbers of the network: 61 inputs, one logit


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """The command line without pictures, which have tests of their own; returns what it said."""
    monkeypatch.setattr("comity.report.write_report", lambda run, kind: None)
    monkeypatch.setattr("comity.report.write_comparison_report", lambda *about: None)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)

    def called(*arguments: object, code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["comity", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit:
            main()
        said = capsys.readouterr()
        assert exit.value.code == code, said.err
        if code:  # a long run says how far it is, a mistake is one line
            assert said.err.count("\n") == 1, said.err
        return said.err if code else said.out

    called.home = tmp_path  # type: ignore[attr-defined]
    return called


def test_constant_models_are_those_that_answer_all_alike(call):
    result = json.loads(call("run", *GERMAN, *SHORT, "--json", "--out", "run"))
    run = library.open(call.home / "run")
    problem = run.configuration.get_problem()
    inputs, constant = problem.columns()["inputs"], []
    for row, share in zip(result["per_client"], problem.client_rows(), strict=True):
        with torch.inference_mode():
            answers = run.model(row["client"])(inputs[share.test]) > 0
        constant.append(bool(answers.all() or not answers.any()))
        assert row["constant"] == constant[-1]
        assert (row["mark"] == "constant") == constant[-1]
    assert result["verdict"]["counts"]["constant"] == sum(constant)


def vectors(result, field="objectives"):
    return np.array([list(row.get(field, row["objectives"]).values()) for row in result])


def counted(points):
    """Points that are not perfectly fair."""
    return [point for point in points if point[1] <= 0.999]


def area(points, reference=(0.0, 0.0)):
    """The area of the steps below points, from the right to the left."""
    total, height = 0.0, reference[1]
    for accuracy, fairness in sorted(map(tuple, points), reverse=True):
        if accuracy > reference[0] and fairness > height:
            total += (accuracy - reference[0]) * (fairness - height)
            height = fairness
    return total


def label_shares(run):
    """The share of yes among each client's rows, whatever it uses them for."""
    problem = run.configuration.get_problem()
    label = problem.samples().columns["label"].numpy()
    return [
        label[np.concatenate([share.train, share.validation, share.test])].mean()
        for share in problem.client_rows()
    ]


# -- a run ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algorithm", "sent", "told"),
    [
        ("fedpref", 1, 0),
        ("fedmgda-plus", 1, 0),
        ("fsmgda", 2, 0),  # a model an objective
        ("fedcmoo", 3, 2),  # a model and two gradients; two weights are the answer
        ("fedcmoo-pref", 3, 2),
        ("no-communication", 0, 0),
    ],
)
def test_json_says_what_the_figures_mean(call, algorithm, sent, told):
    result = json.loads(call("run", *GERMAN, *SHORT, "--algorithm", algorithm, "--json"))
    assert (result["partition"], result["sizes"]) == ("stratified", "equal")
    parts = np.array(list(result["samples"].values()))
    assert list(result["samples"]) == ["train", "validation", "test"]
    assert sorted(parts.sum(axis=0)) == [333, 333, 334]
    np.testing.assert_allclose(parts.sum(axis=1), [700, 100, 200], atol=3)
    assert "code table" in result["notes"][0]
    assert result["training_steps"] == 3 * 2 * 10
    assert result["reference_point"] == [0.0, 0.0]
    assert result["strict_reference_point"] == [0.65, 0.5]  # 700 of 1000 are good

    found = vectors(result["per_client"])
    for name, points in (
        ("metrics", found),
        ("metrics_last", vectors(result["per_client"], "objectives_last")),
    ):
        measures, kept = result.get(name, result["metrics"]), counted(points)
        assert measures["dropped"] == pytest.approx(1 - len(kept) / 3)
        assert measures["hypervolume"] == pytest.approx(area(kept))
        assert measures["strict_hypervolume"] == pytest.approx(area(kept, (0.65, 0.5)))
        assert measures["accuracy"] == pytest.approx(points[:, 0].mean())
        assert measures["fairness"] == pytest.approx(points[:, 1].mean())
    assert "undefined" not in result["metrics"]
    assert result["trivial"]["fairness"] == 1.0
    assert result["trivial"]["accuracy"] == pytest.approx(0.7, abs=0.005)
    assert result["trivial"]["dropped"] == 0.0

    statistics = {"fedcmoo-pref": 8 * 4}.get(algorithm, 0) + 8  # and the size
    up = 2 * 3 * (4 * SIZE * sent + statistics) if sent else 0
    deliveries = 3 if told else 2  # a survey and its round both carry the models
    down = 3 * (deliveries * 4 * SIZE + 2 * 8 * told) if sent else 0
    messages = 3 * (2 * (2 if told else 1) + 1)
    for name, arrays in (("bytes_up", up), ("bytes_down", down)):
        around = (result["communication"][name] - arrays) / messages
        assert 168 < around < 700, "envelope and control fields"


def test_the_model_of_a_client_is_what_was_judged(call):
    result = json.loads(call("run", *GERMAN, *SHORT, "--algorithm", "fsmgda", "--json"))
    run = library.open(call.home / result["run"])
    problem = run.configuration.get_problem()
    columns = {name: column.numpy() for name, column in problem.columns().items()}
    for row, share in zip(result["per_client"], problem.client_rows(), strict=True):
        inputs = torch.from_numpy(columns["inputs"][share.test])
        with torch.no_grad():
            yes = run.model(row["client"])(inputs)[:, 0].numpy() > 0
        women = columns["group:gender"][share.test] == 0
        wanted = (yes == columns["label"][share.test]).mean()
        gap = abs(yes[women].mean() - yes[~women].mean())
        assert row["objectives"]["accuracy"] == pytest.approx(wanted, abs=1e-6)
        assert row["objectives"]["fairness"] == pytest.approx(1 - gap, abs=1e-6)


@pytest.mark.parametrize("algorithm", ["fedcmoo-pref", "fedmgda-plus"])
def test_its_configuration_run_again_gives_the_same_bytes(call, algorithm):
    uneven = ["--sizes", "5,2,1", "--set", "chunk=2", "--seed", 4]
    call("run", *GERMAN, *SHORT, *uneven, "--algorithm", algorithm, "--out", "first")
    call("run", "--config", "first/config.toml", "--workers", 1, "--out", "again")
    for file in ("results.json", "history.jsonl", "config.toml", "models/client-2.safetensors"):
        first = (call.home / "first" / file).read_bytes()
        assert (call.home / "again" / file).read_bytes() == first
    samples = json.loads((call.home / "first" / "results.json").read_text())["samples"]
    np.testing.assert_allclose(np.sum(list(samples.values()), axis=0), [625, 250, 125], atol=2)


def test_tables_name_what_was_dropped(call):
    said = call("run", *GERMAN, *SHORT, "--algorithm", "fedavg")
    assert "constant classifier" in " ".join(said.split())
    assert "dropped" in said
    assert "fairness" in said


# -- how data are dealt out ----------------------------------------------------------------


def test_a_comparison_pools_the_clients_of_all_seeds(call):
    uneven = ["--partition", "dirichlet:0.3", "--sizes", "dirichlet:2", "--rounds", "2"]
    done = call(
        *("compare", *GERMAN, *uneven, "--algorithms", "fedavg,fedcmoo", "--seeds", "4,9"),
        *("--json", "--out", "c"),
    )
    comparison = library.open(call.home / "c")
    seen = []
    for row in json.loads(done)["rows"]:
        runs = comparison.runs[row["algorithm"], "interior"]
        clients = [client for run in runs for client in run.results["per_client"]]
        kept = counted(vectors(clients))
        pooled = row["pooled"]
        assert pooled["hypervolume"] == pytest.approx(area(kept))
        assert pooled["strict_hypervolume"] == pytest.approx(area(kept, (0.65, 0.5)))
        assert pooled["dropped"] == pytest.approx(1 - len(kept) / 6)
        assert pooled["accuracy"] == pytest.approx(vectors(clients)[:, 0].mean())
        mean = sum(client["scalarised"] for client in clients) / 6
        assert pooled["mean_scalarised"] == pytest.approx(mean)
        assert pooled["hypervolume"] >= max(r.results["metrics"]["hypervolume"] for r in runs)
        seen.append(len(kept))
        for run in runs:
            total = np.sum(list(run.results["samples"].values()), axis=0)
            assert total.sum() == 1000
            assert total.max() > 1.5 * total.min(), "sizes must be unequal"
            shares = label_shares(run)
            assert max(shares) - min(shares) > 0.15, "labels must be skewed"
    assert max(seen) > 1, "nothing was pooled"


def test_without_a_word_about_it_clients_are_alike(call):
    call("run", *GERMAN, *SHORT, "--algorithm", "fedavg", "--out", "r")
    shares = label_shares(library.open(call.home / "r"))
    assert max(shares) - min(shares) < 0.01


def test_hospitals_are_clients(call):
    four = ["--clients", 4, "--partition", "natural", "--workers", 1, *SHORT]
    for metric in ("dp", "eo"):
        result = json.loads(call("run", f"heart-disease-gender-{metric}", *four, "--json"))
        assert result["partition"] == "natural"
        totals = np.sum(list(result["samples"].values()), axis=0)
        assert totals.tolist() == [303, 294, 123, 200]
        assert any("ca (611)" in note for note in result["notes"])
        # ten women in Switzerland, all of them ill, are enough to compare them with men
        fairness = [row["objectives"]["fairness"] for row in result["per_client"]]
        assert None not in fairness
    before = sorted(call.home.rglob("*"))
    # no woman at Zurich or Basel was well
    said = call("run", "heart-disease-gender-eodds", *four, code=2)
    assert "client 2 (switzerland)" in said
    assert "gender = female with label no" in said
    assert sorted(call.home.rglob("*")) == before


def test_regions_are_clients(call):
    ten = ["--clients", 10, "--partition", "natural", "--rounds", 1, "--workers", 1]
    result = json.loads(
        call("run", "law-school-race-dp", *ten, "--set", "supervised.local_steps=2", "--json")
    )
    totals = np.sum(list(result["samples"].values()), axis=0)
    names = find("law-school-race-dp").samples().silo_names
    assert (totals.sum(), totals[names.index("NE")]) == (21791, 4303)
    assert any("PO" in note for note in result["notes"])


# -- stopped, and fine-tuned ---------------------------------------------------------------


def test_killed_it_ends_as_if_never_killed(call):
    what = [*GERMAN, "--algorithm", "fedcmoo", "--rounds", "12", "--participation", "0.7"]
    what += ["--partition", "dirichlet:0.5", "--guard", "--set", "fedcmoo.iterations=100"]
    call("run", *what, "--out", "whole")
    process = start(call, "run", *what, "--out", "broken")
    wait_for_rounds(call.home / "broken" / "history.jsonl", 2)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (call.home / "broken" / "results.json").exists(), "it was too fast to be killed"
    call("resume", "broken", "--workers", 1)
    for file in ("results.json", "history.jsonl", "models/client-0.safetensors"):
        wanted = (call.home / "whole" / file).read_bytes()
        assert (call.home / "broken" / file).read_bytes() == wanted


@pytest.mark.parametrize("algorithm", ["fedcmoo", "fsmgda"])
def test_one_model_for_all_unless_it_is_fine_tuned(call, algorithm):
    """One client's preference is its own business, and only when it trains alone."""
    for name, first in (("a", "0.9,0.1"), ("b", "0.1,0.9")):
        (call.home / f"{name}.csv").write_text(f"{first}\n0.5,0.5\n0.1,0.9\n")

    def models(fine_tune, name):
        out = f"{name}-{fine_tune.replace(':', '-')}"
        done = call(
            *("run", *GERMAN, *SHORT, "--algorithm", algorithm, "--keep", "last", "--json"),
            *("--preferences", f"{name}.csv", "--fine-tune", fine_tune, "--out", out),
        )
        run = library.open(call.home / out)
        rows = [torch.cat([p.flatten() for p in run.model(i).parameters()]) for i in range(3)]
        return json.loads(done)["training_steps"], torch.stack(rows)

    for fine_tune, rounds in (("none", 2), ("replace-last", 2), ("extra:1", 3)):
        (steps, one), (_, other) = models(fine_tune, "a"), models(fine_tune, "b")
        assert steps == 3 * rounds * 10
        changed = (one != other).any(dim=1).tolist()
        alike = bool((one == one[0]).all())
        if fine_tune == "none":
            assert alike
            assert changed == [False] * 3
        else:
            assert not alike
            assert changed == [True, False, False]


def test_plus_ft_in_a_comparison_is_fine_tuning(call):
    call(
        *("compare", *GERMAN, *SHORT, "--algorithms", "fedcmoo,fedcmoo+ft,fsmgda+ft", "--json"),
        *("--seeds", "5,", "--keep", "last", "--out", "c"),
    )
    comparison = library.open(call.home / "c")
    for entry in ("fedcmoo", "fedcmoo+ft", "fsmgda+ft"):
        (run,) = comparison.runs[entry, "interior"]
        first, second = (next(run.model(client).parameters()) for client in (0, 1))
        assert bool((first == second).all()) == (entry == "fedcmoo")


# -- a table of one's own ------------------------------------------------------------------


def loans(call, name, change=lambda rows: rows):
    """120 rows: half of them women, a third of them from the south, half of them paid."""
    regions, paid = ("south", "north", "north"), ("no", "no", "yes", "yes")
    rows = [f"{20 + i % 50},{'fm'[i % 2]},{regions[i % 3]},{paid[i % 4]}" for i in range(120)]
    path = call.home / name
    path.write_text("\n".join(["age,sex,region,paid", *change(rows)]) + "\n")
    return path


def config(call, data, more="", top=""):
    text = f'clients = 2\nrounds = 2\n{top}\n[problem]\ndata = "{data}"\nlabel = "paid"\n{more}\n'
    (call.home / "own.toml").write_text(text)
    return ["run", "--config", "own.toml", "--workers", 1, *SHORT[2:], "--json"]


def test_a_csv_file_is_a_problem(call):
    data = loans(call, "plain.csv")
    more = 'sensitive = ["sex"]\nname = "loans"\nhidden = [8]\nmetrics = ["dp", "eo"]'
    result = json.loads(call(*config(call, data, more), "--out", "first"))
    assert result["problem"] == "loans"
    assert set(result["per_client"][0]["objectives"]) == {"accuracy", "fairness-dp", "fairness-eo"}
    assert result["strict_reference_point"] == [0.45, 0.5, 0.5]
    assert np.sum(list(result["samples"].values()), axis=0).tolist() == [60, 60]
    assert result["notes"] == [
        "sex is sensitive and no input (sensitive_inputs = true changes that)"
    ]
    # age, and two values of region; eight hidden units
    model = library.open(call.home / "first").model(1)
    assert [tuple(p.shape) for p in model.parameters()] == [(8, 3), (8,), (1, 8), (1,)]
    call("run", "--config", "first/config.toml", "--workers", 1, "--out", "again")
    for file in ("results.json", "history.jsonl", "config.toml", "models/client-1.safetensors"):
        first = (call.home / "first" / file).read_bytes()
        assert (call.home / "again" / file).read_bytes() == first


def test_algorithms_are_compared_on_it(call):
    loans(call, "loans.csv")
    config(call, "loans.csv", 'name = "loans"\nsensitive = ["sex"]', top="seed = 7")
    words = ["compare", "--config", "own.toml", "--algorithms", "fedavg,fedcmoo", "--workers", 1]
    result = json.loads(call(*words, "--seeds", "2,3", "--out", "c", "--json"))
    assert result["problem"] == "loans"
    assert [row["algorithm"] for row in result["rows"]] == ["fedavg", "fedcmoo"]
    assert [row["seeds"] for row in result["rows"]] == [[2, 3]] * 2
    (run, _) = library.open(call.home / "c").runs["fedcmoo", "interior"]
    held = run.training_configuration
    assert (held.clients, held.rounds, held.seed) == (2, 2, 2)
    assert run.described_problem["data"] == str(call.home / "loans.csv")


def test_groups_by_rule_and_clients_by_column(call):
    data = loans(call, "grouped.csv")
    more = 'client = "region"\nfeatures = ["age"]\npositive = "no"\n[problem.sensitive.years]\n'
    more += 'column = "age"\ngroups = {young = "<= 40", old = "*"}'
    said = call(*config(call, data, more, 'partition = "natural"'), "--out", "r")
    assert np.sum(list(json.loads(said)["samples"].values()), axis=0).tolist() == [80, 40]
    problem = library.open(call.home / "r").training_configuration.get_problem()
    columns = problem.samples().columns
    # ages 20 to 69 come twice, 20 to 39 a third time: 21 ages are young
    assert sorted(columns["group:years"].bincount().tolist()) == [120 - 62, 2 * 21 + 20]
    assert columns["inputs"].shape == (120, 1)
    assert columns["label"][:4].tolist() == [1, 1, 0, 0]


def test_a_shipped_data_set_can_be_asked_other_questions(call):
    text = 'clients = 3\nrounds = 1\n[problem]\ndata = "german-credit"\nmetrics = ["eodds"]\n'
    (call.home / "own.toml").write_text(text + 'sensitive = ["age"]\nhidden = [4]\n')
    result = json.loads(call("run", "--config", "own.toml", "--workers", 1, "--json"))
    assert set(result["per_client"][0]["objectives"]) == {"accuracy", "fairness"}
    assert np.sum(list(result["samples"].values())) == 1000


@pytest.mark.parametrize(
    ("missing", "rows", "inputs", "words"),
    [
        # age, age missing, three regions: one of them is missing
        ("category", 120, 5, ["2 missing values are a category", "age (1)", "region (1)"]),
        ("drop", 118, 3, ["2 rows with missing values were dropped", "age (1)", "region (1)"]),
    ],
)
def test_missing_cells_are_treated_as_told_and_noted(call, missing, rows, inputs, words):
    def holes(lines):
        lines[3] = ",m,south,yes"
        lines[8] = "28,f,?,no"
        return lines

    data = loans(call, f"{missing}.csv", holes)
    told = config(call, data, f'sensitive = ["sex"]\nmissing = "{missing}"')
    result = json.loads(call(*told, "--out", "r"))
    assert np.sum(list(result["samples"].values())) == rows
    note, sensitive = result["notes"]
    assert sensitive.startswith("sex is sensitive and no input")
    for word in words:
        assert word in note
    first = next(library.open(call.home / "r").model(0).parameters())
    assert first.shape[1] == inputs


def test_the_terminal_says_what_was_done_to_the_data(call):
    data = loans(call, "typo.csv", lambda lines: ["forty,f,south,no", *lines[1:]])
    *told, _ = config(call, data, 'sensitive = ["sex"]')  # tables instead of JSON
    note = "Data: age is taken as categories, though mostly numbers, because of 'forty' (row 2)."
    assert note in call(*told, "--out", "r")
    told = ["compare", "--config", "own.toml", "--algorithms", "fedavg", "--seeds", 1]
    assert note in call(*told, "--workers", 1, "--out", "c")


def test_results_say_which_partition_and_split_a_figure_used(call):
    asked = ["--partition", "naive", "--split-ratio", "65:15:20", "--algorithm", "fedavg", "--json"]
    result = json.loads(call("run", *GERMAN, *SHORT, *asked))
    assert (result["partition"], result["split_ratio"]) == ("naive", "65:15:20")
    assert "preset" not in result
    parts = np.array(list(result["samples"].values()))
    np.testing.assert_allclose(parts.sum(axis=1), [650, 150, 200], atol=6)


def write_states(path, states: int, rows: int) -> None:
    """Rows like FeDa4Fair's: even states pay by sex, odd ones by race."""
    draw = np.random.default_rng(1)
    header = "state,AGEP,COW,SCHL,MAR,OCCP,POBP,RELP,WKHP,SEX,RAC1P,PINCP"
    lines = [header]
    for state in range(states):
        for sex, race in draw.integers(1, 3, (rows, 2)):
            luck = draw.random() < (0.8 if (sex, race)[state % 2] == 1 else 0.2)
            codes = (
                draw.integers(18, 90),
                draw.integers(1, 9),
                20,
                draw.integers(1, 6),
                10,
                6,
                0,
                40,
            )
            lines.append(",".join(map(str, (f"S{state:02}", *codes, sex, race, int(luck)))))
    path.write_text("\n".join(lines))


def test_states_want_what_they_lack(call):
    """The configuration of the example, on rows like those that it is for."""
    source = Path(__file__).parents[2] / "examples" / "states" / "feda4fair.toml"
    config = call.home / "feda4fair.toml"
    config.write_text(source.read_text().replace("= 47", "= 4"))
    write_states(call.home / "states.csv", 4, 80)
    small = [
        "--set",
        "problem.data=states.csv",
        "--set",
        "problem.rows_per_client=60",
    ]
    result = json.loads(call("run", "--config", config, *small, *SHORT, "--json", "--out", "r"))
    assert [row["name"] for row in result["per_client"]] == ["S00", "S01", "S02", "S03"]
    assert list(result["per_client"][0]["objectives"]) == [
        "accuracy",
        "fairness-sex",
        "fairness-race",
    ]
    weights = [list(row["preference"]) for row in result["per_client"]]
    assert weights == [[0.7, 0.3, 0.0], [0.7, 0.0, 0.3]] * 2
    assert any("240 of 320 rows were drawn" in note for note in result["notes"])
    (call.home / "states.csv").unlink()
    features = library.open(call.home / "r").configuration.get_problem().features()
    assert {"AGEP", "WKHP"} & set(features) == {"AGEP"}  # hours are alike everywhere here
    assert "COW=1" in features
    assert "OCCP" not in features
