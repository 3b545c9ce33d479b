"""Pictures and tables of reproductions: clusters, ranges, ranks, solution spaces, two tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from printing import printed, rows_of

from comity.problems import find
from comity.report.figures import (
    cluster_rounds,
    cluster_sizes,
    ranges_figure,
    ranks_figure,
    solutions,
    two_tasks,
)
from comity.report.series.solutions import solutions_of_runs
from comity.report.tables import fit, reproduction_table
from comity.report.tables.pictured import sizes_text
from comity.runs.directory import Run

MODELS = {"printed": "last", "paper_protocol": "last", "our_defaults": "kept"}


def clusters(groups: bool = True) -> dict[str, Any]:
    """Two rounds of two seeds: all four clients together, then 2 + 2 or 3 + 1."""
    rounds: list[dict[str, Any]] = [
        {"round": 1, "sizes": [[4], [4]], "adjusted_rand": [0.0, 0.0]},
        {"round": 2, "sizes": [[2, 2], [3, 1]], "adjusted_rand": [1.0, 0.5]},
    ]
    for entry in rounds if not groups else ():
        del entry["adjusted_rand"]
    row = {"algorithm": "fedpref", "preferences": "shared:2,2", "clients": 4, "seeds": [1, 2]}
    return {
        "table": "t",
        "problem": "p",
        "measure": "clusters",
        "note": "Pictures only",
        "rows": [{**row, "shown": [1, 2], "rounds": rounds}],
    }


def lines(axes: Axes, gid: str) -> list[list[float]]:
    return [list(line.get_ydata()) for line in axes.lines if line.get_gid() == gid]


def test_clusters_by_round_are_means_over_seeds() -> None:
    number, index = cluster_rounds(clusters()).axes
    assert lines(number, "mean") == [[1.0, 2.0]]
    assert lines(index, "mean") == [[0.0, 0.75]]
    assert lines(index, "seed") == [[0.0, 1.0], [0.0, 0.5]]
    assert len(cluster_rounds(clusters(groups=False)).axes) == 1


def test_sizes_are_shares_of_clients() -> None:
    axes = cluster_sizes(clusters()).axes[0]
    # sizes 1 to 4 upwards; in round 2 half of the seeds have 2 + 2, half 3 + 1
    expected = [[0, 0.125], [0, 0.5], [0, 0.375], [1, 0]]
    np.testing.assert_allclose(axes.images[0].get_array(), expected)


def test_tables_of_clusters() -> None:
    text = printed(reproduction_table(clusters()))
    assert "0.75 ± 0.25" in text
    assert "2, 2" in text
    assert "Pictures only." in text
    one = clusters()
    for entry in one["rows"][0]["rounds"]:
        entry.update(sizes=entry["sizes"][:1], adjusted_rand=entry["adjusted_rand"][:1])
    assert rows_of(reproduction_table(one)) == [["shared:2,2", "fedpref", "2", "0.00", "1.00"]]
    text = printed(reproduction_table(clusters(groups=False)))
    assert "2 + 2; 3 + 1" in text
    assert "Rand" not in text


def test_many_equal_sizes_are_counted() -> None:
    assert sizes_text([9, 4, 4, 1, 1, 1]) == "9 + 4 + 4 + 3 x 1"


def ranges() -> dict[str, Any]:
    row = {
        "algorithm": "fedprox",
        "preferences": "dirichlet",
        "seeds": [1],
        "printed": {"accuracy": [0.8, 0.81], "fairness": [0.9, 0.95]},
        "paper_protocol": {"accuracy": [0.7, 0.82], "fairness": [0.8, 0.96]},
        "our_defaults": None,
        "trivial": 0.76,
    }
    return {
        "table": "thesis-A.15",
        "problem": "p",
        "measure": "ranges",
        "models": MODELS,
        "note": "a misprint",
        "rows": [row],
    }


def test_ranges_are_bars_from_smallest_to_largest() -> None:
    accuracy, fairness = ranges_figure(ranges()).axes
    drawn = {
        line.get_gid(): list(line.get_xdata())
        for line in fairness.lines
        if line.get_gid() in MODELS
    }
    assert drawn == {"printed": [0.9, 0.95], "paper_protocol": [0.8, 0.96]}
    assert [0.76, 0.76] in [list(line.get_xdata()) for line in accuracy.lines]
    text = printed(reproduction_table(ranges()))
    assert "0.700–0.820" in text
    assert "a misprint." in text


def test_fronts_of_lower_ranks_end_where_no_points_are_left() -> None:
    row = {
        "algorithm": "cfl",
        "trivial": 0.76,
        "ranks": {"paper_protocol": [0.8, 0.7, 0.6], "our_defaults": [0.9]},
    }
    last, kept = ranks_figure({"table": "t", "models": MODELS, "rows": [row]}).axes
    assert lines(last, "paper_protocol") == [[0.8, 0.7, 0.6]]
    assert lines(kept, "our_defaults") == [[0.9]]


def test_two_tasks_join_the_means_of_those_who_learned_alone() -> None:
    points = [
        {"weight": weight, "seed": seed, "left": left, "right": 1 - left}
        for weight, seed, left in [(0.9, 1, 0.8), (0.1, 1, 0.3), (0.1, 2, 0.1)]
    ]
    rows = [{"algorithm": name, "points": points} for name in ("no-communication", "fedavg")]
    far, near = two_tasks({"rows": rows}).axes
    (line,) = [line for line in near.lines if len(line.get_xdata()) == 2]
    np.testing.assert_allclose(line.get_xydata(), [[0.2, 0.8], [0.8, 0.2]])
    assert [text.get_text() for text in far.get_legend().get_texts()] == ["alone", "FedAvg"]


def scattered(axes: Axes) -> list[tuple[float, float]]:
    """All points of models in a panel, known fronts left out."""
    clouds = [c for c in axes.collections if isinstance(c, PathCollection) and c.zorder == 3]
    return sorted(tuple(point) for cloud in clouds for point in cloud.get_offsets().tolist())


def test_solutions_of_all_seeds_stand_over_the_known_front(made: Callable[..., Run]) -> None:
    first = made([[8.2, -3.0], [11.5, -5.0]], name="first")
    second = made([[0.7, -1.0], [16.1, -9.0]], name="second", seed=2)
    sets = solutions_of_runs(
        {("a", "dirichlet"): [first, second], ("b[c=1]", "gaussian"): [second]}
    )
    figure = solutions(sets, find("deep-sea-treasure"))
    assert figure is not None
    left, right = figure.axes
    assert (left.get_title(), right.get_title()) == ("a", "b[c=1]")
    assert scattered(left) == [(0.7, -1.0), (8.2, -3.0), (11.5, -5.0), (16.1, -9.0)]
    assert scattered(right) == [(0.7, -1.0), (16.1, -9.0)]
    assert len(left.collections[0].get_offsets()) == 10  # the known front
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["dirichlet", "gaussian", "known front"]


def test_more_objectives_have_a_panel_per_pair() -> None:
    points = np.array([[1.0, 0.2, -1.0], [0.3, 0.9, -0.8]])
    sets = {name: {"": points} for name in "abcdef"}
    figure = solutions(sets, find("minecart-deterministic"))
    assert figure is not None
    shown = [axes for axes in figure.axes if axes.axison]
    assert len(shown) == 18  # three pairs for each of six, five of which stand side by side
    assert scattered(shown[0]) == [(0.3, 0.9), (1.0, 0.2)]
    assert {axes.get_title() for axes in shown} == {*"abcdef", ""}
    assert solutions({}, find("minecart-deterministic")) is None


@pytest.mark.parametrize("results", [clusters(), clusters(groups=False), ranges()])
def test_tables_fit_80_columns(results: dict[str, Any]) -> None:
    assert fit(reproduction_table(results), 80) == 80
