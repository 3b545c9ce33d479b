"""Reports where there is one objective: accuracy instead of fronts, classes, conflicts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from histories import entry
from matplotlib.collections import LineCollection
from pages import Page
from printing import printed, rows_of

from comity.errors import UserError
from comity.report import write_comparison_report, write_report
from comity.report.figures import (
    bars,
    conflict,
    conflicts,
    draw_comparison,
    draw_run,
    learning,
    mixing,
    partition,
    rounds,
    scores,
)
from comity.report.gains import gain_cells
from comity.report.html.charts import learning_chart
from comity.report.html.single_charts import rounds_chart, scores_chart
from comity.report.series.curves import curves
from comity.report.series.partition import class_counts
from comity.report.tables import clients_table, comparison_tables, gains_table, run_table
from comity.runs.compare import Comparison, tabulate
from comity.runs.directory import Run

Make = Callable[..., Run]
KEPT = [[0.9], [0.8], [0.7]]
FRONTS = ("ypervolume", "sparsity", "cardinality", "utility", "eference point", "scalarised")


def lines(**shares: float) -> list[dict[str, Any]]:
    """Two rounds and a delivery; a client gains a tenth by training."""
    told = {"pairs": 0.5, "mean": 0.25, "guided": 0.0, **shares}
    low, high = [[0.2], [0.3], [0.4]], [[0.3], [0.4], [0.5]]
    return [
        entry(1, high, trained=high, conflict=told),
        entry(2, KEPT, received=low, trained=KEPT, conflict={**told, "pairs": 1.0}),
        entry(3, KEPT, received=KEPT, conflict=None),
    ]


@pytest.fixture
def seen(made: Make) -> Make:
    """A finished run on pictures, two classes per client."""

    def make(kept: Any = KEPT, history: Any = None, **settings: Any) -> Run:
        values = {"problem": "usps-mlp", "algorithm": "fedavg", "partition": "pathological:2"}
        return made(kept, history or lines(), **{**values, **settings})

    return make


@pytest.fixture
def compared(seen: Make, tmp_path: Path) -> Comparison:
    """FedRep, with and without ConFREE, with two seeds each."""
    wrapped = {"algorithm": "fedrep", "wrapper": "confree"}
    better = [[0.95], [0.85], [0.75]]
    bare = [entry(n, KEPT) for n in (1, 2, 3)]
    runs = {
        ("fedrep", "dirichlet"): [
            seen(name="a1", history=bare, algorithm="fedrep"),
            seen(name="a2", history=bare, algorithm="fedrep", seed=2),
        ],
        ("fedrep+confree", "dirichlet"): [
            seen(better, name="b1", **wrapped),
            seen(name="b2", history=lines(pairs=0.7), seed=2, **wrapped),
        ],
    }
    return Comparison(tmp_path, tabulate("usps-mlp", runs, tmp_path), runs)


def text_of(path: Path) -> str:
    """Return a page."""
    return path.read_text()


# -- tables --------------------------------------------------------------------------------


def test_a_runs_tables_speak_of_accuracy_alone(seen: Make) -> None:
    run = seen()
    values = [f"{client['trivial']:.4g}" for client in run.results["per_client"]]
    assert rows_of(clients_table(run.results)) == [
        ["0", "0.9", values[0], "gained"],
        ["1", "0.8", values[1], "gained"],
        ["2", "0.7", values[2], "gained"],
    ]
    results = {**run.results, "metrics": {**run.results["metrics"], "global_accuracy": 0.5}}
    table = run_table(results)
    trivial = f"{run.results['trivial']['accuracy']:.4g}"
    assert rows_of(table) == [
        ["accuracy ↑", "0.8", "0.8", trivial],
        ["global accuracy ↑", "0.5", "0.5", "–"],
    ]
    assert not [word for word in FRONTS if word in printed(table)]
    assert "global: on everyone's" in " ".join(printed(table).split())


def test_a_wrapped_algorithm_stands_beside_its_host(compared: Comparison) -> None:
    host, wrapped = compared.results["rows"]
    assert "paired" not in host
    assert wrapped["host"] == "fedrep"
    difference = wrapped["paired"]["fedrep"]
    assert difference["each"] == [0.05, 0.0]
    assert (difference["mean"], difference["std"]) == (0.025, 0.025)
    (table,) = comparison_tables(compared.results, compared.runs)
    assert [str(column.header) for column in table.columns] == ["algorithm", "accuracy ↑"]
    first, second, trivial = rows_of(table)
    assert first == ["fedrep", "0.8 ± 0"]
    assert second == ["fedrep+confree", "0.825 ± 0.025 ★"]
    assert trivial[0] == "trivial"
    gains = gains_table(compared.results)
    assert gains is not None
    # t = 1 with one degree of freedom: p = 1/2; 12.706 standard errors of 0.025
    assert rows_of(gains) == [
        [
            "fedrep+confree",
            "fedrep (host)",
            "+0.025 ± 0.025",
            "−0.29 to 0.34",
            "0.5",
            "0.5",
            "3/3/0",
        ]
    ]
    text = " ".join(printed(table).split() + printed(gains).split())
    assert not [word for word in (*FRONTS, "preference") if word in text]
    assert "Host: the same algorithm without" in text
    assert "2 seeds are too few" in text


def test_baselines_are_what_all_are_measured_against(seen: Make, tmp_path: Path) -> None:
    scores = {
        "no-communication[rounds=4]": (0.5, 0.75),
        "fedavg": (0.25, 0.25),
        "fedavg+confree": (0.25, 0.5),
        "ditto": (0.75, 0.75),
    }
    runs = {
        (name, "x"): [
            seen([[value]] * 3, name=f"{name}-{seed}", seed=seed, algorithm="fedavg")
            for seed, value in enumerate(values)
        ]
        for name, values in scores.items()
    }
    results = tabulate("usps-mlp", runs, tmp_path)
    alone, mean, wrapped, ditto = results["rows"]
    assert ditto["paired"]["fedavg"] == {
        "mean": 0.5,
        "std": 0.0,
        "each": [0.5, 0.5],
        "interval": None,
        "p": None,
        "p_holm": None,
        "clients": {"better": 6, "level": 0, "worse": 0},
    }
    gain = ditto["paired"]["no-communication[rounds=4]"]
    assert (gain["mean"], gain["std"], gain["each"]) == (0.125, 0.125, [0.25, 0.0])
    assert gain["clients"] == {"better": 3, "level": 3, "worse": 0}
    assert set(alone["paired"]) == {"fedavg"}
    assert set(mean["paired"]) == {"no-communication[rounds=4]"}
    assert wrapped["host"] == "fedavg"
    assert wrapped["paired"]["fedavg"]["each"] == [0.0, 0.25]
    table = gains_table(results)
    assert table is not None
    gains = {(row[0], row[1].replace("\n", "")): row[2:4] for row in rows_of(table)}
    assert gains["ditto", "fedavg"] == ["+0.5 ± 0", "–"]
    assert gains["ditto", "no-communication[rounds=4]"][0] == "+0.125 ± 0.12"
    assert gains["fedavg+confree", "fedavg (host)"][0] == "+0.125 ± 0.12"


def test_what_is_worse_than_its_host_has_a_minus() -> None:
    gain = {"mean": -0.0123, "std": 0.001, "each": [-0.0133, -0.0113]}
    assert gain_cells(gain) == ["−0.0123 ± 0.001", "–", "–", "–", "–"]


def test_hosts_are_found_by_their_settings(seen: Make, tmp_path: Path) -> None:
    own = {
        ("fedprox", "x"): {},
        ("fedprox[mu=0.5]", "x"): {},
        ("fedprox+confree[mu=0.5,confree.c=0.2]", "x"): {},
    }
    runs = {key: [seen(name=f"run-{place}")] for place, key in enumerate(own)}
    *_, row = tabulate("usps-mlp", runs, tmp_path)["rows"]
    assert row["host"] == "fedprox[mu=0.5]"
    alone = {("fedprox+confree", "x"): runs["fedprox", "x"]}
    assert "paired" not in tabulate("usps-mlp", alone, tmp_path)["rows"][0]


# -- pages ---------------------------------------------------------------------------------


def test_the_page_of_a_run_has_no_front(seen: Make) -> None:
    run = seen(wrapper="confree")
    path = write_report(run)
    pictures = {picture.stem for picture in run.path.glob("*.png")}
    assert pictures == {"scores", "rounds", "conflict", "partition"}
    page = Page(path)
    assert len(page.images) == 4
    assert page.table("client")[0] == ["client", "accuracy", "trivial", "outcome"]
    html = text_of(path).split("<summary>All settings")[0]
    assert not [word for word in (*FRONTS, "preference") if word in html]
    assert "<dt>with</dt><dd>confree</dd>" in html


def test_the_page_of_a_comparison_has_no_front(compared: Comparison) -> None:
    path = write_comparison_report(compared.path / "all", compared.results, compared.runs)
    pictures = {picture.stem for picture in path.parent.glob("*.png")}
    assert pictures == {"bars", "learning", "conflicts"}
    kept, gains, last = Page(path).tables
    assert kept[0] == ["algorithm", "accuracy ↑"]
    assert kept[2] == ["fedrep+confree", "★ 0.825 ± 0.025"]
    assert gains[1][:3] == ["fedrep+confree", "fedrep (host)", "+0.025 ± 0.025"]
    assert last[0] == ["algorithm", "accuracy ↑"]
    assert not [word for word in (*FRONTS, "preference") if word in text_of(path)]


# -- pictures ------------------------------------------------------------------------------


def test_each_client_has_a_bar_and_the_constant_classifiers_mark(seen: Make) -> None:
    run = seen()
    (axes,) = scores(run).axes
    assert [bar.get_height() for bar in axes.patches] == [0.9, 0.8, 0.7]
    (mean,) = [line for line in axes.lines if line.get_gid() == "mean"]
    assert mean.get_ydata()[0] == pytest.approx(0.8)
    (marks,) = [marks for marks in axes.collections if isinstance(marks, LineCollection)]
    heights = [segment[0, 1] for segment in marks.get_segments()]
    problem = run.configuration.get_problem()
    np.testing.assert_allclose(heights, problem.trivial(range(3), 1, 1)[:, 0], atol=1e-6)
    assert np.mean(heights) == pytest.approx(run.results["trivial"]["accuracy"])


def test_models_before_and_after_training_have_curves_with_spread(seen: Make) -> None:
    (axes,) = rounds(seen()).axes
    trained, received, _ = axes.lines
    np.testing.assert_allclose(trained.get_xydata(), [[1, 0.4], [2, 0.8]])
    np.testing.assert_allclose(received.get_xydata(), [[2, 0.3], [3, 0.8]])
    band = axes.collections[0].get_paths()[0].get_extents()
    assert (band.ymin, band.ymax) == pytest.approx((0.35, 0.85))
    assert axes.get_ylabel() == "accuracy (validation)"
    assert axes.xaxis.get_major_formatter()(3.0) == "end"


def test_areas_of_bubbles_are_numbers_of_samples(seen: Make) -> None:
    run = seen()
    counts, figure = class_counts(run), partition(run)
    assert counts is not None
    assert figure is not None
    assert counts.sum(axis=1).tolist() == run.results["samples"]["train"]
    assert (counts > 0).sum(axis=1).tolist() == [2, 2, 2]
    (bubbles,) = figure.axes[0].collections
    x, y = np.asarray(bubbles.get_offsets(), dtype=int).T
    areas = np.asarray(bubbles.get_sizes())
    np.testing.assert_allclose(areas / areas.max(), counts[x, y] / counts.max())
    assert len(x) == (counts > 0).sum()


def test_too_many_clients_for_a_picture_are_told(seen: Make) -> None:
    kept = [[0.5]] * 61
    run = seen(kept, [entry(n, kept) for n in (1, 2, 3)], partition="stratified")
    assert partition(run) is None
    assert "More than 60 clients have no room" in write_report(run).read_text()


def test_people_who_say_yes_or_no_have_no_classes(made: Make) -> None:
    assert partition(made([[0.7, 0.9]], problem="german-credit-gender-dp")) is None


def test_a_report_can_be_drawn_without_the_samples(
    seen: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = seen()

    def gone(*_: object) -> None:
        raise UserError("the pictures are gone")

    monkeypatch.setattr("comity.problems.images._samples", gone)
    # results have the training samples per class
    assert set(draw_run(run)) == {"scores", "rounds", "conflict", "partition"}


def test_conflicts_are_three_curves(seen: Make) -> None:
    figure = conflict(seen())
    assert figure is not None
    (axes,) = figure.axes
    drawn = {str(line.get_label()): line.get_ydata() for line in axes.lines}
    assert {name: np.asarray(y).tolist() for name, y in drawn.items()} == {
        "pairs of clients whose updates point apart": [0.5, 1.0],
        "clients against the plain mean": [0.25, 0.25],
        "clients against the step taken": [0.0, 0.0],
    }
    assert conflict(seen(history=[entry(n, KEPT) for n in (1, 2, 3)], name="bare")) is None


def test_each_wrapped_host_has_its_conflicts(compared: Comparison) -> None:
    figure = conflicts(compared.results, compared.runs)
    assert figure is not None
    (axes,) = figure.axes
    assert axes.get_title() == "fedrep+confree"
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [0.6, 1.0])
    hosts = {("fedrep", "dirichlet"): compared.runs["fedrep", "dirichlet"]}
    assert conflicts(compared.results, hosts) is None


def test_a_comparisons_pictures_show_accuracy(compared: Comparison) -> None:
    figure = bars(compared.results)
    assert [axes.get_title() for axes in figure.axes] == ["accuracy ↑"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["trivial"]
    curves = learning(compared.results, compared.runs)
    assert curves is not None
    assert curves.axes[0].get_ylabel() == "accuracy (validation)"
    assert curves.axes[0].get_title() == ""
    chart = learning_chart(compared.results, compared.runs)
    assert chart is not None
    assert chart["layout"]["xaxis"]["title"]["text"] == "steps"
    assert set(draw_comparison(compared.path, compared.results, compared.runs)) == {
        "bars",
        "learning",
        "conflicts",
    }


def test_clients_without_preferences_are_in_their_own_order(seen: Make) -> None:
    matrix = np.full((3, 3), 1 / 3).tolist()
    history = [entry(n, KEPT, mixing=matrix if n == 1 else None) for n in (1, 2, 3)]
    figure = mixing(seen(history=history))
    assert figure is not None
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["0", "1", "2"]
    assert "weight on" not in " ".join(text.get_text() for text in figure.texts)


def test_the_page_of_a_run_has_live_charts(seen: Make) -> None:
    run = seen()
    page = Page(write_report(run))
    assert [str(script["src"])[:7] for script in page.scripts if "src" in script] == ["plotly-"]
    bars, mean, constant = scores_chart(run)["data"]
    assert (bars["x"], bars["y"]) == ([0, 1, 2], [0.9, 0.8, 0.7])
    assert mean["y"] == pytest.approx([0.8, 0.8])
    assert len(constant["y"]) == 3
    chart = rounds_chart(run)
    lines = {trace["name"]: trace for trace in chart["data"] if trace["name"]}
    history = curves(run)
    for name, kind in (("after local training", "trained"), ("as received", "received")):
        known = np.isfinite(history.mean(kind))
        assert lines[name]["x"] == history.rounds[known].tolist()
        assert lines[name]["y"] == pytest.approx(history.mean(kind)[known].tolist())
    assert chart["layout"]["xaxis"]["dtick"] == 1
