"""Grids of the papers: complete, expanded to entries, and made of settings that exist."""

from __future__ import annotations

import pytest

from comity.configuration import configure, grid_entries, grids, with_grids
from comity.errors import UserError
from comity.problems import find
from comity.runs.entries import entry_values

GRIDS = [(grid, algorithm) for grid in grids() for algorithm in grid.algorithms]


def test_a_grid_is_all_its_combinations_as_entries():
    entries = with_grids(["fedavg", "fedprox[grid]"], find("minecart-deterministic"))
    assert entries == ["fedavg"] + [
        f"fedprox[mu={mu},dqn.local_steps={steps}]"
        for mu in ("0.01", "0.1", "1.0")
        for steps in (2000, 5000, 10000)
    ]
    words = r"fedpref\[grid\]: no paper prints a grid .* on compas-race-dp"
    with pytest.raises(UserError, match=words):
        with_grids(["fedpref[grid]"], find("compas-race-dp"))


@pytest.mark.parametrize(("grid", "algorithm"), GRIDS)
def test_entries_of_every_grid_configure_runs(grid, algorithm):
    problem = find(grid.problems[0] if "*" not in grid.problems[0] else "usps-mlp")
    entries = [entry_values(entry) for entry in grid_entries(problem, algorithm)]
    assert len({str(entry) for entry in entries}) == len(entries)
    last = configure({"problem": problem.name, "clients": 10, **entries[-1]})
    for name, values in grid.layer.learner.items():
        assert last.learner_settings[name] == values[-1]
    for name, values in grid.layer.algorithm.items():
        assert last.algorithm_settings[name] == values[-1]
    for name, values in grid.layer.run.items():
        assert getattr(last, name) == values[-1]
