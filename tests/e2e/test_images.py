"""Pictures with one class each, from the command line: what comes out, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from comity.cli.listing import catalogue, catalogue_table
from tests.e2e.test_bad_input import refused

SHORT = ["--clients", 4, "--rounds", 2, "--partition", "pathological:3", "--workers", 1]
PICTURES = {"scores.png", "rounds.png", "partition.png", "mixing.png"}


def test_a_run_ends_with_a_report(comity):
    said = comity("run", "usps-mlp", "--algorithm", "fedavg", *SHORT, "--out", "r").stdout
    for words in ("accuracy ↑", "global accuracy ↑", "trivial", "report.html"):
        assert words in said
    for words in ("hypervolume", "sparsity", "reference point", "scalarised", "preference"):
        assert words not in said.lower()
    home = comity.home / "r"
    assert {picture.name for picture in home.glob("*.png")} == PICTURES
    page = (home / "report.html").read_bytes()
    (home / "report.html").unlink()
    again = comity("report", "r", "--json").stdout
    assert (home / "report.html").read_bytes() == page
    assert len(json.loads(again)["split"]) == 64


def test_hosts_are_compared_with_and_without_confree(comity):
    done = comity(
        *("compare", "usps-mlp", "--algorithms", "fedrep,no-communication", "--with", "confree"),
        *("--seeds", "1,2", *SHORT, "--out", "c", "--json"),
    )
    results = json.loads(done.stdout)
    rows = {row["algorithm"]: row for row in results["rows"]}
    assert list(rows) == ["fedrep", "fedrep+confree", "no-communication"]
    assert [name for name, row in rows.items() if "host" in row] == ["fedrep+confree"]
    assert rows["fedrep+confree"]["host"] == "fedrep"
    gain = rows["fedrep+confree"]["paired"]["fedrep"]
    means = [rows[name]["metrics"]["accuracy"]["mean"] for name in ("fedrep+confree", "fedrep")]
    assert gain["mean"] == pytest.approx(means[0] - means[1], abs=1e-6)
    assert np.std(gain["each"]) == pytest.approx(gain["std"])
    assert set(rows["fedrep"]["paired"]) == {"no-communication"}
    splits = {
        tuple(
            json.loads((comity.home / "c" / run / "results.json").read_text())["split"]
            for run in row["runs"]
        )
        for row in rows.values()
    }
    assert len(splits) == 1, "algorithms under the same seed see the same rows"
    assert {p.name for p in (comity.home / "c").glob("*.png")} == {
        "bars.png",
        "learning.png",
        "conflicts.png",
        "traffic.png",
    }
    wrapped = comity.home / "c" / rows["fedrep+confree"]["runs"][0]
    assert not (wrapped / "conflict.png").exists(), "runs of a comparison are drawn on request"
    comity("report", str(wrapped))
    assert (wrapped / "conflict.png").is_file()
    said = comity("report", "c").stdout
    gains = said.partition("Gains, seed by seed")[2]
    assert "fedrep+confree" in gains
    assert "no-communication" in gains


def test_one_objective_has_a_reference_point_of_one_number():
    table = catalogue_table("problems", catalogue("problems"))
    names, about = (list(column.cells) for column in table.columns)
    place = next(place for place, cell in enumerate(names) if "usps" in str(cell).split())
    assert str(about[place]).splitlines()[1:] == [
        "objectives: accuracy",
        "hypervolume from (0), front not known",
        "learner: supervised",
    ]


@pytest.mark.parametrize(
    ("partition", "words"),
    [
        (
            "sideways",
            [
                "'sideways'",
                "stratified, naive, dirichlet:ALPHA, pathological:S, shards:S or natural",
            ],
        ),
        ("pathological:20", ["'pathological:20'", "from 1 to 10", "classes"]),
        ("pathological", ["'pathological'", "whole number"]),
        ("shards:0", ["'shards:0'", "whole number"]),
        ("natural", ["'natural'", "which silo"]),
    ],
)
def test_a_partition_that_cannot_be_met(partition, words, tmp_path, monkeypatch, capsys):
    arguments = ["run", "usps-mlp", "--partition", partition]
    refused(arguments, words, tmp_path, monkeypatch, capsys)


def test_pictures_that_cannot_be_read(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COMITY_DATA", str(tmp_path))
    asked = ["run", "omniglot-mlp", "--clients", "2", "--partition", "stratified"]
    refused(asked, ["Omniglot", "images_background"], tmp_path, monkeypatch, capsys)
    folder = tmp_path / "omniglot" / "images_background" / "Latin" / "character01"
    folder.mkdir(parents=True)
    refused(asked, ["Omniglot", "characterNN"], tmp_path, monkeypatch, capsys)
    (folder / "0001_01.png").write_bytes(b"no picture")
    refused(asked, ["0001_01.png", "not a whole picture"], tmp_path, monkeypatch, capsys)


def test_a_named_preset_is_recorded_and_listed(comity):
    options = ["--algorithm", "fedphp", "--preset", "pfedrlla-appendix", "--json", "--out", "run"]
    told = comity("run", "usps-mlp", "--clients", "2", "--rounds", "1", *options).stdout
    result = json.loads(told)
    assert (result["preset"], result["split_ratio"]) == ("pfedrlla-appendix", "65:15:20")
    written = (comity.home / "run" / "config.toml").read_text()
    assert 'preset = "pfedrlla-appendix"' in written
    listed = json.loads(comity("list", "presets", "--json").stdout)["presets"]
    assert {entry["name"] for entry in listed} == {
        *("fedbn-digits", "fedpref-paper", "pfedme-mnist", "pfedrlla-appendix", "thesis-fairness"),
    }
    table = comity("list", "presets").stdout
    assert "threshold = 3.0" in table
    assert "…" not in table
