"""A comparison's pictures: every algorithm, every distribution, honest axes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from histories import entry, rewrite
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.image import imread

from comity.report.figures import bars, draw_comparison, learning, traffic
from comity.runs.directory import Run


def row(algorithm: str, preferences: str = "dirichlet", **means: float) -> dict[str, Any]:
    metrics = {name: {"mean": mean, "std": 0.1} for name, mean in means.items()}
    seeds = [1, 2]
    return {
        "algorithm": algorithm,
        "preferences": preferences,
        "seeds": seeds,
        "metrics": metrics,
    }


def table(*rows: dict[str, Any], **baselines: Any) -> dict[str, Any]:
    return {"problem": "p", "reference_point": [-1.0, -101.0], "rows": list(rows), **baselines}


def panel(figure: Figure, title: str) -> Axes:
    return next(axes for axes in figure.axes if axes.get_title().startswith(title))


def test_bars_show_mean_and_spread_of_each_algorithm_and_distribution() -> None:
    rows = [
        row(name, kind, mean_scalarised=value)
        for name, kind, value in [("a", "x", 1.0), ("a", "y", 2.0), ("b", "x", 3.0)]
    ]
    figure = bars(table(*rows))
    axes = panel(figure, "mean scalarised")
    containers = [c for c in axes.containers if isinstance(c, BarContainer)]
    assert [[bar.get_width() for bar in c] for c in containers] == [[1.0, 3.0], [2.0]]
    whisker = containers[0].errorbar.lines[2][0].get_segments()[0]
    np.testing.assert_allclose(whisker[:, 0], [0.9, 1.1])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert [text.get_text() for text in figure.legends[0].get_texts()][:2] == ["x", "y"]


def sent(name: str, megabytes: float, value: float) -> dict[str, Any]:
    """A row of an entry that sends some megabytes, a thousandth of it per update."""
    sizes = {"megabytes": megabytes, "bytes_per_update": 1000 * megabytes}
    spread = {key: {"mean": size, "std": 0.0} for key, size in sizes.items()}
    return {**row(name, mean_scalarised=value), "communication": spread}


def test_quality_against_megabytes_has_one_point_per_entry() -> None:
    rows = [sent("fedavg", 20.0, 3.0), sent("fedavg[encoding=int8]", 2.0, 2.5)]
    figure = traffic(table(*rows))
    assert figure is not None
    (axes,) = figure.axes
    points = [container.lines[0].get_xydata()[0].tolist() for container in axes.containers]
    assert points == [[20.0, 3.0], [2.0, 2.5]]
    assert axes.get_xscale() == "log"
    assert axes.get_ylabel() == "mean scalarised ↑"
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["fedavg", "fedavg, int8"]
    alike = [sent("fedavg", 20.0, 3.0), sent("fedprox", 20.4, 2.5)]
    assert traffic(table(*alike)) is None
    assert traffic(table(row("fedavg", mean_scalarised=1.0))) is None, "an older comparison"


def test_measures_that_nobody_has_get_no_panel() -> None:
    figure = bars(table(row("a", hypervolume=10.0, cardinality=2.0)))
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert titles == ["hypervolume ↑", "cardinality ↑"]


def test_close_values_far_from_zero_become_dots() -> None:
    rows = [row("a", hypervolume=2282.0), row("b", hypervolume=2303.0)]
    axes = panel(bars(table(*rows)), "hypervolume")
    assert not [c for c in axes.containers if isinstance(c, BarContainer)]
    assert axes.get_xlim()[0] > 2000


def test_regrets_of_several_magnitudes_are_logarithmic() -> None:
    rows = [row("a", mean_regret=0.2), row("b", mean_regret=60.0)]
    assert panel(bars(table(*rows)), "mean regret").get_xscale() == "log"


def test_baselines_are_lines_when_near_and_words_when_far() -> None:
    rows = [row("a", mean_scalarised=1.0), row("b", mean_scalarised=3.0)]
    known = {"optimum": {"mean_scalarised": 3.5}, "trivial": {"mean_scalarised": -60.0}}
    axes = panel(bars(table(*rows, **known)), "mean scalarised")
    (line,) = [line for line in axes.lines if line.get_gid() == "optimum"]
    assert line.get_xdata()[0] == 3.5
    assert not [line for line in axes.lines if line.get_gid() == "trivial"]
    assert axes.get_xlabel() == "trivial: −60"


def test_a_dollar_sign_is_no_formula(tmp_path: Path) -> None:
    comparison = table(row("a$_{$", "b$^$", hypervolume=1.0))
    draw_comparison(tmp_path, comparison, {})
    assert imread(tmp_path / "bars.png").std() > 0


@pytest.fixture
def taught(made: Callable[..., Run]) -> tuple[dict[str, Any], dict[str, list[Run]]]:
    """Two algorithms, the second with two seeds whose steps differ."""
    one = {"preferences": [[1.0, 0.0]]}
    runs = {
        ("a", "x"): [made([[8.2, -3.0]], name="a", **one)],
        ("b", "x"): [
            made([[3.7, -3.0]], name="b1", **one),
            made(
                [[1.7, -3.0]],
                [entry(n, [[1.7, -3.0]], steps=[120 * n]) for n in (1, 2, 3)],
                name="b2",
                **one,
            ),
        ],
    }
    return table(row("a", "x"), row("b", "x")), runs


def test_learning_curves_are_means_over_seeds(
    taught: tuple[dict[str, Any], dict[str, list[Run]]],
) -> None:
    figure = learning(*taught)
    assert figure is not None
    (axes,) = figure.axes
    assert axes.get_title() == "x"
    assert axes.get_yscale() == "log"
    a, b = axes.lines
    assert [a.get_label(), b.get_label()] == ["a", "b"]
    np.testing.assert_allclose(a.get_ydata(), 23.7 - 8.2, atol=1e-5)
    np.testing.assert_allclose(b.get_ydata(), 23.7 - 2.7, atol=1e-5)
    np.testing.assert_allclose(a.get_xdata(), [110, 220, 330])
    band = axes.collections[1].get_paths()[0].get_extents()
    assert band.height == pytest.approx(2 * 1.0, abs=1e-4), "one std, as in the table"


def test_learning_shows_returns_where_the_optimum_is_unknown(
    taught: tuple[dict[str, Any], dict[str, list[Run]]],
) -> None:
    comparison, runs = taught
    unknown = rewrite(runs["a", "x"][0], lambda results: results["per_client"][0].pop("optimum"))
    figure = learning(comparison, {**runs, ("a", "x"): [unknown]})
    assert figure is not None
    np.testing.assert_allclose(figure.axes[0].lines[0].get_ydata(), 8.2)
    assert figure.axes[0].get_yscale() == "linear"


def test_no_runs_no_learning_curves() -> None:
    assert learning(table(row("a", hypervolume=1.0)), {}) is None


def test_files_in_settings_are_named_without_their_directories() -> None:
    """As long as that tells them apart; and names of several lines have room for them."""
    entries = ["fedavg", "p[agent=/a/long/way/to/an/agent.safetensors,steps=1,every=2]"]
    axes = bars(table(*(row(name, mean_scalarised=1.0) for name in entries))).axes[0]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels[1].split() == ["p", "[agent=agent.safetensors,", "steps=1,", "every=2]"]
    low = bars(table(*(row(f"a{n}", mean_scalarised=1.0) for n in range(9))))
    high = bars(table(*(row(f"{entries[1]}{n}", mean_scalarised=1.0) for n in range(9))))
    assert high.get_figheight() > 2 * low.get_figheight()
    alike = ["p[agent=/x/a]", "p[agent=/y/a]"]
    axes = bars(table(*(row(name, mean_scalarised=1.0) for name in alike))).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == alike


def test_a_long_legend_takes_nothing_from_the_panels(made, tmp_path: Path) -> None:
    """Which matplotlib would say in a warning, an error in tests."""
    run = made([[1.0, -2.0]], [entry(1, [[1.0, -2.0]]), entry(2, [[1.0, -2.0]])])
    names = [f"a rather long name of an algorithm, number {n}" for n in range(24)]
    comparison = table(*(row(name, mean_scalarised=1.0) for name in names))
    figure = learning(comparison, {(name, "dirichlet"): [run] for name in names})
    assert figure is not None
    figure.savefig(tmp_path / "learning.png")
