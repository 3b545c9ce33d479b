"""The tables of pFedRLLA and ConFREE, with runs as short as can be."""

from __future__ import annotations

import json
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

import comity
from comity.api import reproduce
from comity.errors import UserError
from comity.report.figures import picture_table_figure
from comity.report.tables import reproduction_table
from comity.reproductions.picture_results import set_beside
from comity.reproductions.picture_tables import DATA, TABLES, printed, printed_key
from comity.reproductions.pictures import PROTOCOL, needs, plan
from comity.runs.entries import entry_values

TINY = {
    "only": "usps-mlp",
    "seeds": 1,
    "clients": 4,
    "participation": 0.5,
    "rounds": 2,
    "evaluate_every": 1,
    "partition": "pathological:5",
    "supervised": {"local_steps": 1},
}


@pytest.fixture(autouse=True)
def without_pages(monkeypatch):
    """No pictures of the runs, which are tested elsewhere; only those of the table."""
    monkeypatch.setattr("comity.report.write_report", lambda run, kind: None)
    monkeypatch.setattr("comity.report.write_comparison_report", lambda *about: None)


def shown(results) -> str:
    console = Console(width=80, record=True, file=StringIO())
    console.print(reproduction_table(results))
    return console.export_text()


def test_table_1_with_lone_clients_that_train_longer_and_an_agent_that_has_learned(tmp_path):
    out, rows = tmp_path / "r", ["no-communication", "fedavg", "fedavg+ft", "pfedrlla"]
    more = {**TINY, "alone": 3, "pretraining": 1, "rows": rows}
    made = reproduce("pfedrlla-1", out=out, **more)
    assert json.loads((out / "pfedrlla-1.json").read_text()) == made.results
    assert (out / "pfedrlla-1.png").stat().st_size > 10_000
    runs = comity.open(out / "pathological-5").runs
    (lone,), (plain,), (tuned,), (agent,) = runs.values()
    assert (lone.configuration.rounds, lone.configuration.participation) == (3, 1.0)
    assert [r.configuration.fine_tune for r in (plain, tuned, agent)] == ["none", *["extra:1"] * 2]
    assert plain.configuration.learner_settings["learning_rate"] == 0.05
    file = agent.configuration.algorithm_settings["agent"].partition("#")[0]
    assert file == str(out / "agent.safetensors")
    learned = comity.open(out / "agent").configuration
    assert (learned.partition, learned.rounds, learned.seed) == ("pathological:4", 1, 0)
    by_name = {row["algorithm"]: row for row in made.results["rows"]}
    assert by_name["fedavg"]["ours"]["accuracy"]["mean"] == plain.results["metrics"]["accuracy"]
    assert "how_soon" not in by_name["no-communication"], "it has no rounds of communication"
    best = [
        max(float(np.mean(entry["everyone"])) for entry in run.history if "everyone" in entry)
        for run in (plain, tuned, agent)
    ]
    for row in made.results["rows"][1:]:
        assert row["how_soon"]["target"] == pytest.approx(min(best), abs=1e-3)
        assert None not in row["how_soon"]["rounds"]
    assert all(row["printed"] == {} for row in made.results["rows"])
    assert made.results["stands_in_for"] == "CIFAR-10"
    assert len(made.results["printed_elsewhere"]) == 13 * 9
    text = shown(made.results)
    assert max(map(len, text.splitlines())) <= 80
    assert "stands in for CIFAR-10" in text.replace("\n", " ")
    assert "printed " not in text.splitlines()[2]

    results = sorted(out.rglob("results.json"))
    before = [path.stat().st_mtime_ns for path in results]
    assert len(before) == 5
    again = reproduce("pfedrlla-1", out=out, **more)
    assert [path.stat().st_mtime_ns for path in results] == before, "finished runs are used again"
    assert again.results == made.results
    with pytest.raises(UserError, match="holds an agent that was trained with other settings"):
        reproduce("pfedrlla-1", out=out, **{**more, "pretraining": 2})
    with pytest.raises(UserError, match="holds runs with rounds = 2, not 1"):
        reproduce("pfedrlla-1", out=out, **{**more, "rounds": 1})
    with pytest.raises(UserError, match="holds no runs of ditto"):
        reproduce("pfedrlla-1", out=out, **{**more, "rows": ["ditto", "pfedrlla"]})


def test_an_interrupted_pretraining_is_gone_on_with(tmp_path, monkeypatch):
    from comity.runs import execute

    more = {**TINY, "pretraining": 2, "rows": ["pfedrlla"], "out": tmp_path / "r"}
    monkeypatch.setattr(execute, "_CHECKPOINT_SECONDS", 0.0)
    with pytest.raises(KeyboardInterrupt):
        reproduce("pfedrlla-1", **more, on_round=stop)
    agent = tmp_path / "r" / "agent"
    assert len((agent / "history.jsonl").read_text().splitlines()) == 1
    assert not (tmp_path / "r" / "agent.safetensors").exists()
    reproduce("pfedrlla-1", **more)
    assert (tmp_path / "r" / "agent.safetensors").is_file()
    assert len((agent / "history.jsonl").read_text().splitlines()) == 3, "two rounds and the end"


def stop(event):
    raise KeyboardInterrupt


def test_agents_of_this_and_of_another_data_set(tmp_path):
    rows = ["pfedrlla", "pfedrlla-transferred"]
    out = tmp_path / "r"
    made = reproduce("pfedrlla-6", out=out, rows=rows, pretraining=1, **TINY)
    files = [
        run.configuration.algorithm_settings["agent"].partition("#")[0]
        for (run,) in comity.open(out / "pathological-5").runs.values()
    ]
    assert files == [str(out / f"{name}.safetensors") for name in ("agent", "transferred")]
    learned = comity.open(out / "transferred").configuration
    assert (learned.problem, learned.partition) == ("cifar10-small", "pathological:2")
    assert [row["algorithm"] for row in made.results["rows"]] == rows


def test_without_an_agent_that_has_learned(tmp_path):
    rows, out = ["pfedrlla", "pfedrlla-new"], tmp_path / "r"
    reproduce("pfedrlla-8", out=out, rows=rows, pretraining=1, **TINY)
    runs = comity.open(out / "pathological-5").runs
    files = [run.configuration.algorithm_settings["agent"] for (run,) in runs.values()]
    assert [bool(file) for file in files] == [True, False]
    with pytest.raises(UserError, match="pretraining = 0: pfedrlla-8 is about an agent"):
        plan("pfedrlla-8", pretraining=0)


def test_confree_beside_its_host_and_the_control(tmp_path):
    values = {name: value for name, value in TINY.items() if name != "participation"}
    rows = ["fedrep", "fedrep+confree", "fedrep+scaled-mean"]
    values["clients"] = 3
    made = reproduce("confree-fig-1", out=tmp_path / "r", rows=rows, **values)
    results = made.results
    assert [row["participation"] for row in results["rows"][::3]] == [0.1, 0.3, 0.6, 1.0]
    host, confree, control = results["rows"][:3]
    assert "over" not in host
    assert list(control["over"]) == ["host"]
    runs = comity.open(tmp_path / "r" / "pathological-5_participation-0.1").runs
    accuracies = [[r.results["metrics"]["accuracy"] for r in seeds] for seeds in runs.values()]
    first, second, third = np.array(accuracies)
    assert confree["over"]["host"]["each"] == pytest.approx(second - first)
    assert confree["over"]["control"]["each"] == pytest.approx(second - third)
    headings = [str(column.header) for column in reproduction_table(results).columns]
    assert headings == ["share", "algorithm", "accuracy, %", "over host", "over control"]
    (axes,) = picture_table_figure(results).axes
    assert axes.get_title() == "fedrep"
    assert axes.get_legend_handles_labels()[1] == [
        *("host alone", "with ConFREE", "control: scaled-mean"),
    ]
    line = axes.containers[1][0]
    np.testing.assert_allclose(line.get_xdata(orig=False), [0.1, 0.3, 0.6, 1.0])
    means = [100 * row["ours"]["accuracy"]["mean"] for row in results["rows"][1::3]]
    np.testing.assert_allclose(line.get_ydata(orig=False), means)


def row(algorithm, ours, **about):
    return {
        "algorithm": algorithm,
        "entry": algorithm,
        "partition": "pathological:5",
        "seeds": [1, 2],
        "ours": {name: {"mean": value, "std": 0.01} for name, value in ours.items()},
        "printed": {},
        "trivial": 0.2,
        **about,
    }


def content(table, rows, problem="cifar10", **protocol):
    about = TABLES[table]
    return {
        "table": table,
        "title": about.title,
        "problem": problem,
        "stands_in_for": None if problem in DATA else about.data,
        "measures": list(about.measures),
        "across": about.across,
        "varied": list(about.varied),
        "protocol": {**PROTOCOL, **protocol},
        "note": about.note,
        "rows": rows,
        "printed_elsewhere": [],
    }


USUAL = {"clients": 100, "participation": 0.1}


def test_print_stands_beside_ours_only_where_all_is_as_printed():
    rows = [row("fedavg", {"accuracy": 0.7}), row("pfedrlla", {"accuracy": 0.72})]
    results = content("pfedrlla-1", rows)
    set_beside(results, USUAL)
    assert [r["printed"] for r in rows] == [{"accuracy": 0.7943}, {"accuracy": 0.8176}]
    assert len(results["printed_elsewhere"]) == 13 * 9 - 2
    text = shown(results)
    assert "79.43" in text
    assert "70 ± 1" in text
    assert "the authors' machine" in " ".join(text.split())
    (axes,) = picture_table_figure(results).axes
    (paper,) = [line for line in axes.lines if line.get_gid() == "printed"]
    np.testing.assert_allclose(paper.get_xdata(), [79.43, 81.76])
    for other in (
        content("pfedrlla-1", [row("fedavg", {"accuracy": 0.7})], clients=20),
        content("pfedrlla-1", [row("fedavg", {"accuracy": 0.7})], problem="usps"),
        content("pfedrlla-1", [row("fedavg", {"accuracy": 0.7}, partition="pathological:3")]),
    ):
        set_beside(other, USUAL)
        assert other["rows"][0]["printed"] == {}
        assert len(other["printed_elsewhere"]) == 13 * 9


def test_times_stand_in_panels_of_their_own():
    times = {"seconds": 1000.0, "seconds_per_round": 2.0, "seconds_to_stable": 700.0}
    rows = [row("fedavg", {**times, "accuracy_when_stable": 0.8})]
    results = content("pfedrlla-4", rows)
    set_beside(results, USUAL)
    assert rows[0]["printed"] == {
        "seconds": 1095.11,
        "seconds_per_round": 2.19,
        "seconds_to_stable": 870.61,
        "accuracy_when_stable": 0.794,
    }
    (other,) = elsewhere = [row("fedavg", dict.fromkeys(rows[0]["ours"], 1.0), partition="naive")]
    set_beside(content("pfedrlla-4", elsewhere), USUAL)
    assert other["printed"] == {}, "print is of another partition"
    labels = [axes.get_xlabel() for axes in picture_table_figure(results).axes]
    assert labels == ["seconds", "seconds per round", "seconds to stable", "when stable, %"]


@pytest.mark.parametrize(
    ("table", "name", "data", "part", "value"),
    [
        ("pfedrlla-1", "no-communication", "CIFAR-100", {"partition": "pathological:20"}, 0.3236),
        ("pfedrlla-1", "fedavg+ft", "Omniglot", {"partition": "natural"}, 0.4473),
        ("pfedrlla-2", "mean/agent", "CIFAR-100", {"partition": "pathological:10"}, None),
        (
            "pfedrlla-3",
            "apfl",
            "CIFAR-100",
            {"partition": "dirichlet:0.1", "local_epochs": 1},
            0.351,
        ),
        ("pfedrlla-5", "1-1-5", "CIFAR-10", {"partition": "pathological:5"}, 0.7114),
        ("pfedrlla-6", "pfedrlla-transferred", "Omniglot", {"partition": "natural"}, 0.4774),
        ("pfedrlla-6", "ditto", "CIFAR-100", {"partition": "dirichlet:0.1"}, 0.5321),
        ("pfedrlla-8", "pfedrlla-new", "CIFAR-10", {"partition": "pathological:2"}, 0.8993),
        (
            *("confree-2", "fedpac+confree", "Flowers102"),
            {"partition": "pathological:5", "clients": 60, "participation": 0.3},
            0.602,
        ),
    ],
)
def test_printed_figures_are_found_by_their_names_in_print(table, name, data, part, value):
    key = printed_key(table, name, "accuracy", part, data)
    assert printed(table).get(key) == (None if value is None else pytest.approx(value))


def test_rules_for_body_and_head_are_those_of_the_paper():
    key = printed_key(
        "pfedrlla-7", "agent/mean", "after", {"partition": "pathological:10"}, "CIFAR-100"
    )
    assert key[2] == "personalised body"
    assert printed("pfedrlla-7")[key] == 0.6304
    assert entry_values(TABLES["pfedrlla-7"].rows["agent/mean"]) == {
        "algorithm": "pfedrlla",
        "pfedrlla": {"body": "agent", "head": "mean"},
    }


@pytest.mark.parametrize("table", TABLES)
def test_every_table_can_be_planned_and_has_its_cost(table, tmp_path):
    campaign = plan(table, pretraining=60)
    assert campaign.prepare is not None
    assert set(needs(table).hours) >= {"usps", "digits-domains", "cifar10-small", "cifar10"}
    assert all(hours > 0 for hours in needs(table).hours.values())
    names = set(TABLES[table].names)
    assert not names or names >= set(TABLES[table].rows)


def test_confree_costs_what_was_estimated():
    assert needs("confree-2").hours["usps"] == pytest.approx(216 * 90 / 3600)
    assert needs("confree-fig-1").hours["usps"] == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("table", "values", "message"),
    [
        (
            "pfedrlla-1",
            {"only": "deep-sea-treasure"},
            "needs a problem with pictures, such as usps",
        ),
        ("pfedrlla-1", {"only": "ups"}, "unknown problem 'ups'"),
        ("pfedrlla-1", {"rows": ["fedprox"]}, "unknown row of this table 'fedprox'"),
        ("pfedrlla-1", {"alone": 0}, "alone = 0: must be a whole number of rounds, 1 or more"),
        ("pfedrlla-1", {"pretraining": "x"}, "pretraining = x: must be a whole number"),
        ("pfedrlla-3", {"supervised": {"local_epochs": 2}}, "local_epochs: pfedrlla-3 has its own"),
        ("confree-2", {"clients": 10}, "clients: confree-2 has its own"),
        ("confree-fig-2", {"partition": "naive"}, "partition: confree-fig-2 has its own"),
        ("pfedrlla-1", {"preferences": ["dirichlet"]}, "preferences mean nothing here"),
        ("pfedrlla-1", {"clients": 0}, "clients = 0"),
        ("pfedrlla-1", {"target": 2}, "target = 2: must be an accuracy"),
        ("pfedrlla-1", {"supervised": 5}, "supervised"),
        ("pfedrlla-1", {"pfedrlla": 5}, "pfedrlla"),
    ],
)
def test_bad_input_is_refused_before_anything_is_trained(tmp_path, table, values, message):
    with pytest.raises(UserError, match=message):
        reproduce(table, out=tmp_path / "r", **values)
    assert not (tmp_path / "r").exists()
