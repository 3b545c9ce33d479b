"""Two clients with two tasks, on few and small pictures."""

from __future__ import annotations

import json

import numpy as np
import pytest

import comity
from comity.datasets.album import Album
from comity.errors import UserError
from comity.problems import register
from comity.problems.multitask import multi_task
from comity.reproductions import two_tasks


def noise() -> Album:
    generator = np.random.default_rng(1)
    pixels = generator.integers(0, 256, (400, 1, 28, 28), dtype=np.uint8)
    return Album(pixels, np.arange(400) % 10)


def test_ten_settings_of_opposite_preferences():
    assert len(two_tasks.GRID) == 10
    assert two_tasks.GRID[0] == [[0.0, 1.0], [1.0, 0.0]]
    assert two_tasks.GRID[9] == [[0.9, 0.1], [0.1, 0.9]]
    (values,) = two_tasks.plan("thesis-5.1").plans.values()
    assert (values["clients"], values["seeds"], values["keep"]) == (2, 5, "last")
    # 2 algorithms, 10 settings, 5 repetitions
    assert two_tasks.needs("thesis-5.1").hours["multi-mnist"] == pytest.approx(100 * 0.04)


@pytest.mark.parametrize("name", ["clients", "preferences"])
def test_clients_and_preferences_are_those_of_the_thesis(name):
    with pytest.raises(UserError, match=rf"{name}: thesis-5\.1 has its own"):
        two_tasks.plan("thesis-5.1", **{name: 3})


def test_ranges_and_hypervolume_are_those_of_the_runs(call, monkeypatch):
    name = register(multi_task("tiny-digits", noise, samples=200)).name
    monkeypatch.setattr(two_tasks, "PROBLEMS", (name,))
    monkeypatch.setattr(two_tasks, "GRID", two_tasks.GRID[:2])
    arguments = ["reproduce", "thesis-5.1", "--only", name, "--seeds", 2, "--workers", 1]
    said = call(*arguments, "--out", "r", "--set", "rounds=1", "--set", "supervised.local_steps=1")
    assert "left accuracy, all weights" in said
    assert "the thesis has a picture only" in " ".join(said.split())
    assert (call.home / "r" / "thesis-5.1.png").stat().st_size > 10_000
    rows = json.loads((call.home / "r" / "thesis-5.1.json").read_text())["rows"]
    assert [row["algorithm"] for row in rows] == ["no-communication", "fedavg"]
    runs = comity.open(call.home / "r").runs
    for row in rows:
        points = {}
        for (entry, _), seeds in runs.items():
            for run in seeds if entry == row["algorithm"] else ():
                for client in run.results["per_client"]:
                    key = round(client["preference"][0], 6)
                    points.setdefault(key, []).append(list(client["objectives"].values()))
        assert {weight: len(some) for weight, some in points.items()} == {
            0: 2,
            1: 2,
            0.1: 2,
            0.9: 2,
        }
        left = {weight: np.mean(some, axis=0)[0] for weight, some in points.items()}
        assert row["left"] == pytest.approx([min(left.values()), max(left.values())])
        assert row["left_inner"] == pytest.approx(sorted([left[0.1], left[0.9]]))
        assert sorted((p["left"], p["right"]) for p in row["points"]) == sorted(
            tuple(point) for some in points.values() for point in some
        )
        assert row["seeds"] == [1, 2]
