"""Searches through the command line."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time

import comity as library
from comity.core.pareto import hypervolume

SMALL = [
    *("deep-sea-treasure", "--iterations", "2", "--candidates", "2", "--clients", "2"),
    *("--rounds", "3", "--set", "dqn.local_steps=96", "--set", "dqn.learning_starts=16"),
    *("--set", "dqn.batch_size=16", "--set", "chunk=2"),
]


def test_one_object_with_a_front_of_models(comity):
    done = comity("search", *SMALL, "--generator", "gap", "--json", "--out", "s")
    told = json.loads(done.stdout)
    assert told["problem"] == "deep-sea-treasure"
    assert told["algorithm"] == "fedavg"
    assert (told["seed"], told["clients"], told["candidates"]) == (1, 2, 4)
    assert told["reference_point"] == [0.0, -50.0]
    assert told["optimum"]["hypervolume"] > 994
    vectors = [list(point["objectives"].values()) for point in told["front"]]
    assert told["metrics"]["hypervolume"] == hypervolume(vectors, told["reference_point"])
    assert told["environment_steps"]["training"] >= 4 * 2 * 3 * 80
    assert told["communication"]["bytes_up"] >= 4 * 2 * 3 * 67_588 * 4
    assert told["communication"]["bytes_down"] >= 4 * 2 * 4 * 67_588 * 4
    assert told["control"]["generator"] == "random"
    home = comity.home / told["run"]
    rows = list(csv.DictReader((home / "front.csv").read_text().splitlines()))
    assert [float(row["treasure"]) for row in rows] == [vector[0] for vector in vectors]
    assert all((home / row["model"]).is_file() for row in rows)
    for name in ("report.html", "growth.png", "front.png", "weights.png"):
        assert (home / name).stat().st_size > 5000, name
    model = library.open(home).front.best([0.5, 0.5])
    assert sum(p.numel() for p in model.parameters()) == 67_588


def test_tables_and_report(comity):
    said = comity("search", *SMALL, "--no-control", "--spread", "--out", "s").stdout
    assert "hypervolume" in said
    assert "994.3" in said
    page = comity.home / "s" / "report.html"
    page.unlink()
    assert comity("report", "s").stdout == said
    assert page.is_file()


def test_killed_at_random_moments_it_ends_as_if_never_killed(comity):
    options = [*SMALL, "--iterations", "3", "--generator", "gap", "--warm-start"]
    comity("search", *options, "--out", "whole", "--workers", 1)
    wanted = (comity.home / "whole" / "results.json").read_bytes()
    chance = random.Random(3)
    arguments = ["search", *options, "--out", "broken", "--workers", 2]
    code = (
        "import comity.searches.mofld as m, comity.cli; m._CHECKPOINT_SECONDS = 0.0;"
        "comity.cli.main()"
    )
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            cwd=comity.home,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        checkpoint = comity.home / "broken" / "checkpoint.safetensors"
        before = checkpoint.stat().st_mtime_ns if checkpoint.is_file() else 0
        for _ in range(1200):
            if checkpoint.is_file() and checkpoint.stat().st_mtime_ns > before:
                break
            time.sleep(0.05)
        time.sleep(chance.random() * 0.5)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        arguments = ["resume", "broken"]
    if not (comity.home / "broken" / "results.json").is_file():
        comity("resume", "broken")
    assert (comity.home / "broken" / "results.json").read_bytes() == wanted
    again = comity("resume", "broken", code=2)
    assert "finished already" in again.stderr


def test_several_searches_in_one_table(comity):
    entries = "annealing,gap[spread=true,clients=4,candidates=4]"
    done = comity("search", *SMALL, "--generator", entries, "--seeds", "2", "--json", "--out", "c")
    told = json.loads(done.stdout)
    assert [row["search"] for row in told["rows"]] == [*entries.split(",", 1), "random"]
    for row in told["rows"]:
        assert row["seeds"] == [1, 2]
        assert len(row["growth"]) == 2
        single = [library.open(comity.home / "c" / place) for place in row["runs"]]
        mean = sum(search.results["metrics"]["hypervolume"] for search in single) / 2
        assert row["metrics"]["hypervolume"]["mean"] == mean
    assert (comity.home / "c" / "growth.png").stat().st_size > 5000
    said = comity("report", "c").stdout
    assert "spread=true" in said, "long names are folded, not cut"
    assert "random" in said


PEOPLE = [
    *("german-credit-gender-dp", "--iterations", "2", "--candidates", "2", "--clients", "2"),
    *("--rounds", "3", "--set", "supervised.local_steps=10"),
]


def test_a_front_on_data(comity):
    done = comity("search", *PEOPLE, "--generator", "gap", "--json", "--out", "s")
    told = json.loads(done.stdout)
    assert (told["problem"], told["clients"], told["candidates"]) == (PEOPLE[0], 2, 4)
    assert told["reference_point"] == [0.0, 0.0]
    assert told["training_steps"] == 4 * 2 * 3 * 10
    assert told["trivial"]["hypervolume"] > 0.6
    samples = told["samples"]
    assert samples["training"] + samples["evaluation"] + samples["test"] < 1000
    assert abs(samples["evaluation"] - 0.2 * 700) <= 4
    assert told["control"]["training_steps"] == told["training_steps"]
    home = comity.home / told["run"]
    for name in ("report.html", "growth.png", "front.png", "weights.png"):
        assert (home / name).stat().st_size > 5000, name
    page = (home / "report.html").read_text()
    assert f"{samples['evaluation']} the server&#x27;s" in page
    assert "test samples" in page
    assert "environment" not in page.partition("plotly")[0]
    said = comity("report", "s").stdout
    assert "training steps" in said
    assert "constant" in said


def test_searches_on_a_table_of_ones_own_in_one_table(comity):
    rows = ["income,sex,hours", *(f"{i % 3 == 0:d},{'mf'[i % 2]},{i % 7}" for i in range(240))]
    (comity.home / "people.csv").write_text("\n".join(rows) + "\n")
    text = """rounds = 2
[problem]
data = "people.csv"
label = "income"
positive = 1
sensitive = ["sex"]
[search]
iterations = 1
candidates = 2
server_share = 0.3
[supervised]
local_steps = 5
"""
    (comity.home / "own.toml").write_text(text)
    generators = ["--generator", "gap,annealing"]
    done = comity("search", "--config", "own.toml", *generators, "--json", "--out", "c")
    told = json.loads(done.stdout)
    assert [row["search"] for row in told["rows"]] == ["gap", "annealing", "random"]
    assert all(row["training_steps"] == 2 * 3 * 2 * 5 for row in told["rows"])
    single = library.open(comity.home / "c" / told["rows"][0]["runs"][0])
    assert abs(single.results["samples"]["evaluation"] - 0.3 * 0.7 * 240) <= 4
    said = comity("report", "c").stdout
    assert "training steps of all clients" in " ".join(said.split())


def test_a_printed_table_beside_ours(comity):
    settings = ["--set", "search.iterations=1", "--set", "search.candidates=2"]
    settings += ["--set", "dqn.total_steps=300", "--set", "dqn.learning_starts=16"]
    done = comity("reproduce", "thesis-3.2", "--seeds", "1", "--rows", "3/10k,alone", *settings,
                  "--out", "t")  # fmt: skip
    assert "993.9" in done.stdout
    assert "983.1" in done.stdout
    assert [line.split()[:2] for line in done.stdout.splitlines()].count(["random", "weights"]) == 4
    done = comity("reproduce", "thesis-3.2", "--seeds", "1", "--rows", "3/10k,alone", *settings,
                  "--out", "t", "--protocol", "paper")  # fmt: skip
    assert "paper's" in done.stdout
    assert "defaults" not in done.stdout
    done = comity("reproduce", "thesis-3.3", "--seeds", "1", "--rows", "3/10k,alone", *settings,
                  "--out", "t", "--json")  # fmt: skip
    rows = json.loads(done.stdout)["rows"]
    assert [row["printed"]["mean"] for row in rows] == [0.024, 0.335]
    assert all(row["our_defaults"]["mean"] > 0 for row in rows)
