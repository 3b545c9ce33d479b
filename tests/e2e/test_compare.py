from __future__ import annotations

import json

import pytest

from tests.e2e.conftest import TINY


def test_a_comparison_is_a_table_over_runs(comity):
    done = comity(
        *("compare", "deep-sea-treasure", *TINY, "--seeds", "4,9", "--json", "--out", "c"),
        *("--algorithms", "no-communication,fedavg+ft,fedpref[clustering=false]"),
        *("--preferences", "dirichlet equidistant"),
    )
    table = json.loads(done.stdout)
    assert [(row["algorithm"], row["preferences"]) for row in table["rows"]] == [
        (entry, spec)
        for entry in ("no-communication", "fedavg+ft", "fedpref[clustering=false]")
        for spec in ("dirichlet", "equidistant")
    ]
    for row in table["rows"]:
        assert row["seeds"] == [4, 9]
        values = [
            json.loads((comity.home / "c" / place / "results.json").read_text())["metrics"]
            for place in row["runs"]
        ]
        for name, value in row["metrics"].items():
            pair = [v[name] for v in values]
            assert value["mean"] == pytest.approx(sum(pair) / 2)
            assert value["std"] == pytest.approx(abs(pair[0] - pair[1]) / 2)
    names = {path.name for path in (comity.home / "c").iterdir()}
    assert {"report.html", "bars.png", "learning.png", "comparison.json"} <= names
    assert {"comparison.csv", "comparison.tex"} <= names
    single = comity.home / "c" / table["rows"][0]["runs"][0]
    assert not [path.name for path in single.iterdir() if path.suffix in (".html", ".png")]
    assert "comity report DIRECTORY" in (comity.home / "c" / "report.html").read_text()
    comity("report", single)
    assert {"report.html", "front.png"} <= {path.name for path in single.iterdir()}
    assert (table["verdict"]["seeds"], table["verdict"]["enough_seeds"]) == (2, False)
    assert any("against learning alone" in text for text in table["verdict"]["sentences"])
    assert all(sum(row["marks"].values()) == 2 * 4 for row in table["rows"])
    gain = table["rows"][2]["paired"]["no-communication"]
    assert {"mean", "std", "each", "interval", "p", "p_holm", "clients"} == gain.keys()
    shown = comity("report", "c").stdout
    assert shown.startswith("Clients that gained")
    assert "fedavg+ft" in shown


def test_an_interrupted_comparison_goes_on(comity):
    comity(
        "compare", "deep-sea-treasure", *TINY, "--seeds", 2, "--algorithms", "fedavg", "--out", "c"
    )
    whole = (comity.home / "c" / "comparison.json").read_bytes()
    (comity.home / "c" / "comparison.json").unlink()
    (comity.home / "c" / "fedavg_dirichlet" / "seed-2" / "results.json").unlink()
    comity("report", "c", code=2)
    comity("resume", "c")
    assert (comity.home / "c" / "comparison.json").read_bytes() == whole


def test_a_printed_table_beside_ours(comity):
    done = comity(
        *("reproduce", "thesis-4.1", "--seeds", 1, "--out", "r", "--json"),
        *("--algorithms", "no-communication,fedpref+ft", "--preferences", "dirichlet gaussian"),
        *("--set", "clients=3", "--set", "rounds=2", "--set", "dqn.local_steps=32"),
    )
    table = json.loads(done.stdout)
    printed = {(r["algorithm"], r["preferences"]): r["printed"]["mean"] for r in table["rows"]}
    assert printed["fedpref+ft", "dirichlet"] == 4.41
    assert printed["no-communication", "dirichlet"] == -0.43
    for row in table["rows"]:
        assert row["trivial"] < row["optimum"]
        assert {"paper_protocol", "our_defaults"} <= set(row)
    literal = (comity.home / "r" / "paper").rglob("config.toml")
    assert all('keep = "last"' in path.read_text() for path in literal)
    # another table of the same runs costs nothing and takes the printed scale into account
    done = comity("reproduce", "thesis-4.3", "--out", "r", "--json")
    table = json.loads(done.stdout)
    assert table["measure"] == "hypervolume"
    assert all(100 < row["printed"]["mean"] < 2400 for row in table["rows"])


def test_a_printed_table_under_one_protocol(comity):
    done = comity(
        *("reproduce", "thesis-A.9", "--seeds", 1, "--out", "r", "--protocol", "paper"),
        *("--algorithms", "fedpref+ft[top_r=0.2]", "--workers", 1),
        *("--set", "clients=3", "--set", "rounds=2", "--set", "dqn.local_steps=32"),
    )
    assert "kept:" in done.stdout  # the caption; there is no column of kept models
    assert "our defaults" not in done.stdout
    assert not (comity.home / "r" / "ours").exists()
    (row,) = json.loads((comity.home / "r" / "thesis-A.9.json").read_text())["rows"]
    assert "paper_protocol" in row
    assert "our_defaults" not in row
    assert list((comity.home / "r").glob("*.png"))
    done = comity("reproduce", "thesis-A.9", "--protocol", "both", code=2)
    assert "unknown protocol 'both'" in done.stderr
    done = comity("reproduce", "thesis-5.4", "--protocol", "paper", code=2)
    assert "--protocol means nothing for thesis-5.4" in done.stderr
