"""Reports on clients with data: samples instead of episodes, undefined scores, fairness."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects
import pytest
from histories import entry, rewrite
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pages import Page
from printing import printed, rows_of

from comity.cli.terminal import show_comparison
from comity.report import write_comparison_report, write_report
from comity.report.figures import bars, front, fronts, learning, rewards
from comity.report.figures.baselines import draw_baselines
from comity.report.html.charts import front_chart, learning_chart, rewards_chart
from comity.report.measures import available_measures
from comity.report.series.baselines import Baselines
from comity.report.series.limits import limits_with_baselines
from comity.report.tables import clients_table, comparison_tables, run_table
from comity.runs.compare import Comparison, tabulate
from comity.runs.directory import Run

PROBLEM = "german-credit-gender-dp"
HALF = [[0.5, 0.5], [0.9, 0.1], [0.1, 0.9]]
VECTORS = [[0.72, 0.95], [0.78, 0.85], [0.7, 1.0]]
UNDEFINED = [[0.72, 0.95], [0.78, None], [0.7, 1.0]]

Make = Callable[..., Run]


@pytest.fixture
def data_run(made: Make) -> Make:
    """A finished run on data; no validation costs a step."""

    def make(vectors: Any = VECTORS, preferences: Any = HALF, **settings: Any) -> Run:
        kept = np.array(vectors, dtype=float)
        lines = [entry(n, kept, validation_steps=[0] * len(kept)) for n in (1, 2, 3)]
        values = {"problem": PROBLEM, "preferences": preferences, **settings}
        return made(vectors, lines, **values)

    return make


@pytest.fixture
def compared(data_run: Make, tmp_path: Path) -> Comparison:
    """Two algorithms with two seeds each, whose fronts add up."""
    runs = {
        ("fedavg", "dirichlet"): [
            data_run([[0.8, 0.8], [0.7, 1.0], [0.7, 1.0]], name="a1", algorithm="fedavg"),
            data_run([[0.7, 0.9], [0.6, 0.7], [0.7, 1.0]], name="a2", algorithm="fedavg"),
        ],
        ("fedpref", "dirichlet"): [
            data_run(name="b1", algorithm="fedpref"),
            data_run(name="b2", algorithm="fedpref"),
        ],
    }
    return Comparison(tmp_path, tabulate(PROBLEM, runs, tmp_path), runs)


def marked(axes: Axes, gid: str) -> list[Any]:
    return [line for line in axes.lines if line.get_gid() == gid]


def legend(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


# -- measures and tables -------------------------------------------------------------------


def test_objectives_stand_between_hypervolumes_and_shares() -> None:
    names = ["undefined", "dropped", "accuracy", "fairness-sex", "hypervolume"]
    found = available_measures([*names, "strict_hypervolume"])
    assert [measure.label + measure.arrow for measure in found] == [
        "hypervolume ↑",
        "strict hypervolume ↑",
        "accuracy ↑",
        "fairness-sex ↑",
        "dropped",
        "undefined",
    ]


def test_a_runs_table_says_what_its_words_mean(data_run: Make) -> None:
    table = run_table(data_run().results)
    rows = {row[0]: row[1] for row in rows_of(table)}
    assert rows["accuracy ↑"] == "0.7333"
    assert rows["dropped"] == "0.3333"
    text = " ".join(printed(table).split())
    assert "of the strict one, above which only models of some use are: (0.65, 0.5)" in text
    assert "Trivial: the constant classifier" in text
    assert "Dropped: the share of clients" in text
    assert "Undefined" not in text


def test_what_nobody_dropped_needs_no_explanation(data_run: Make) -> None:
    run = data_run([[0.72, 0.95], [0.78, 0.85], [0.7, 0.99]])
    assert "Dropped:" not in printed(run_table(run.results))


def test_a_comparison_shows_what_counts_for_data(compared: Comparison) -> None:
    (table,) = comparison_tables(compared.results, compared.runs)
    assert [str(column.header) for column in table.columns] == [
        "algorithm",
        "mean scala- rised ↑",
        "pooled hyper- volume ↑",
        "hyper- volume ↑",
        "strict hyper- volume ↑",
        "hyper- volume per client ↑",
        "accu- racy ↑",
        "fair- ness ↑",
        "drop- ped",
    ]
    fedavg, _, trivial = rows_of(table)
    # the union of (0.8, 0.8) and (0.7, 0.9) reaches further than either
    assert fedavg[2:4] == ["0.71", "0.635 ± 0.005"]
    assert fedavg[8] == "0.5 ± 0.17"
    known = compared.results["trivial"]
    assert float(trivial[1]) == pytest.approx(known["mean_scalarised"], abs=1e-4)
    assert (trivial[0], trivial[2]) == ("trivial", "–")
    assert float(trivial[3]) == pytest.approx(known["hypervolume"], abs=1e-4)
    assert float(trivial[6]) == pytest.approx(known["accuracy"], abs=1e-4)
    assert trivial[7:] == ["1", "0"]
    text = " ".join(printed(table, width=80).split())
    assert "(0.65, 0.5)" in text
    assert "Pooled: of all seeds' clients as one set." in text


def test_the_terminal_knows_the_strict_reference_point(
    compared: Comparison, capsys: pytest.CaptureFixture[str]
) -> None:
    show_comparison(compared, as_json=False)
    assert "(0.65, 0.5)" in capsys.readouterr().out


# -- pages ---------------------------------------------------------------------------------


def test_the_page_of_a_run_speaks_of_samples(data_run: Make) -> None:
    run = data_run()
    path = write_report(run)
    html = path.read_text()
    counts = [run.results["samples"][part] for part in ("train", "validation", "test")]
    train, validation, test = (sorted({min(own), max(own)}) for own in counts)
    told = " / ".join(
        f"{'–'.join(map(str, own))} {part}"
        for own, part in ((train, "train"), (validation, "validation"), (test, "test"))
    )
    assert f"<dt>samples per client</dt><dd>{told}</dd>" in html
    assert "<dt>partition</dt><dd>stratified</dd>" in html
    assert "<dt>strict reference point</dt><dd>(0.65, 0.5)</dd>" in html
    assert all(note in html for note in run.results["notes"])
    assert "On test samples." in html
    assert "Hollow: dropped" in html
    effort = {row[0]: row[1] for row in Page(path).table("")[1:]}
    assert effort["training steps"] == "900"
    assert effort["loss terms skipped"] == "0"
    assert not [name for name in effort if "environment" in name]


def test_samples_of_unequal_clients_are_a_range(data_run: Make) -> None:
    run = rewrite(data_run(), lambda results: results["samples"].update(train=[1200, 900, 1000]))
    assert "900–1,200 train / " in write_report(run).read_text()


def test_the_page_of_a_comparison_has_pooled_measures_and_fronts(compared: Comparison) -> None:
    path = write_comparison_report(compared.path / "all", compared.results, compared.runs)
    assert (path.parent / "fronts.png").is_file()
    kept, _, last = Page(path).tables
    assert kept[0][2:] == [
        "mean scalarised ↑",
        "pooled hypervolume ↑",
        "hypervolume ↑",
        "strict hypervolume ↑",
        "hypervolume per client ↑",
        "accuracy ↑",
        "fairness ↑",
        "dropped",
    ]
    assert kept[-1][:2] == ["trivial", "all"]
    assert "pooled hypervolume ↑" not in last[0]


# -- pictures ------------------------------------------------------------------------------


def test_trivially_fair_clients_are_hollow_and_the_constant_is_marked(data_run: Make) -> None:
    figure = front(data_run())
    axes = figure.axes[0]
    fills = [marked(axes, f"client-{client}")[0].get_markerfacecolor() for client in range(3)]
    assert [isinstance(fill, str) and fill == "white" for fill in fills] == [False, False, True]
    (cross,) = marked(axes, "trivial")
    np.testing.assert_allclose(np.ravel(cross.get_data()), [0.7, 1.0], atol=0.01)
    assert legend(figure) == [
        "client",
        "trivial, left out of the front",
        "constant classifier",
        "strict reference point (0.65, 0.5)",
    ]


def test_lines_of_the_strict_point_do_not_squeeze_the_models(data_run: Make) -> None:
    axes = front(data_run()).axes[0]
    (line,) = marked(axes, "strict")  # 0.5 is far below every fairness here
    assert line.get_xdata()[0] == 0.65
    assert axes.get_ylim()[0] > 0.8
    low, high = axes.get_xlim()
    assert low < 0.65
    assert high < 0.8


def test_a_useless_model_stands_at_the_rim(data_run: Make) -> None:
    axes = front(data_run([[0.72, 0.95], [0.78, 0.85], [0.3, 0.98]])).axes[0]
    assert axes.get_xlim()[0] > 0.4
    assert "off the axes, at (0.3, 0.98)" in [text.get_text() for text in axes.texts]


def test_a_constant_classifier_far_away_stands_at_the_rim() -> None:
    points = np.array([[0.9, 0.8], [0.8, 0.9]])
    low, _ = limits_with_baselines(points, None, Baselines(np.array([0.1, 0.1]), None))
    assert (low > 0.5).all()


@pytest.mark.parametrize("trivial", [(0.1, 0.1), (0.1, 0.85), (0.1, 1.5), (1.5, 0.1)])
def test_the_place_of_a_far_constant_classifier_is_written_inside(
    trivial: tuple[float, float],
) -> None:
    figure = Figure(figsize=(4, 3))
    axes = figure.add_axes((0.15, 0.15, 0.7, 0.7))
    low, high = np.array([0.7, 0.7]), np.array([1.0, 1.0])
    axes.set(xlim=(0.7, 1.0), ylim=(0.7, 1.0))
    draw_baselines(axes, Baselines(np.array(trivial), None), (0, 1), low, high)
    (text,) = axes.texts
    panel, box = axes.get_window_extent(), text.get_window_extent()
    assert panel.x0 <= box.x0 < box.x1 <= panel.x1
    assert panel.y0 <= box.y0 < box.y1 <= panel.y1


def test_a_chart_shows_the_same(data_run: Make) -> None:
    chart = plotly.graph_objects.Figure(front_chart(data_run()))
    clients, constant = chart.data
    assert sorted(clients.marker.symbol) == ["circle", "circle", "circle-open"]
    assert constant.name == "constant classifier"
    assert [shape.x0 for shape in chart.layout.shapes] == [0.65, 0]
    assert chart.layout.yaxis.range[0] > 0.8


def test_three_objectives_are_drawn_in_pairs(data_run: Make) -> None:
    vectors = [[0.72, 0.9, 1.0], [0.7, 1.0, 1.0], [0.75, 0.8, 0.9]]
    run = data_run(vectors, np.eye(3).tolist(), problem="german-credit-gender-age-dp")
    panels = [axes for axes in front(run).axes if marked(axes, "trivial")]
    assert len(panels) == 3
    # one of two kinds of fairness may be perfect: only client 1 is left out
    symbols = front_chart(run)["data"][0]["marker"]["symbol"]
    assert symbols.count("circle-open") == 1
    results = tabulate(run.configuration.problem_name, {("fedpref", "x"): [run]}, run.path)
    figure = fronts(results, {("fedpref", "x"): [run]})
    assert figure is not None
    assert len(figure.axes) == 3


def test_pooled_fronts_are_stairs(compared: Comparison) -> None:
    figure = fronts(compared.results, compared.runs)
    assert figure is not None
    (axes,) = figure.axes
    assert axes.get_title() == "dirichlet"
    stairs = [line for line in axes.lines if line.get_drawstyle() == "steps-pre"]
    assert len(stairs) == 2
    np.testing.assert_allclose(stairs[0].get_xdata()[1:], [0.7, 0.8, 0.8])
    np.testing.assert_allclose(stairs[0].get_ydata()[:3], [0.9, 0.9, 0.8])
    assert legend(figure)[:2] == ["fedavg", "fedpref"]


def test_runs_with_shared_weights_are_one_set_of_means(compared: Comparison) -> None:
    better, worse = compared.runs["fedavg", "dirichlet"]
    runs = {("fedavg", "same:0.1,0.9"): [worse], ("fedavg", "same:0.9,0.1"): [better]}
    figure = fronts(tabulate(PROBLEM, runs, compared.path), runs)
    assert figure is not None
    (axes,) = figure.axes
    (stairs,) = [line for line in axes.lines if line.get_drawstyle() == "steps-pre"]
    np.testing.assert_allclose(stairs.get_xdata()[1:], [2.2 / 3, 2.2 / 3])
    np.testing.assert_allclose(stairs.get_ydata()[:2], [2.8 / 3, 2.8 / 3])
    dots = np.concatenate([np.asarray(some.get_offsets()) for some in axes.collections])
    np.testing.assert_allclose(dots, [[2.0 / 3, 2.6 / 3], [2.2 / 3, 2.8 / 3]])


def test_fronts_of_which_no_run_is_there_leave_an_empty_panel(compared: Comparison) -> None:
    row = {**compared.results["rows"][0], "preferences": "equidistant"}
    results = {**compared.results, "rows": [*compared.results["rows"], row]}
    figure = fronts(results, {**compared.runs, ("fedavg", "equidistant"): []})
    assert figure is not None
    assert [len(axes.collections) for axes in figure.axes] == [4, 0]


def test_bars_have_a_panel_for_pooled_hypervolumes(compared: Comparison) -> None:
    figure = bars(compared.results)
    titles = [axes.get_title() for axes in figure.axes]
    assert titles[:3] == ["mean scalarised ↑", "pooled hypervolume ↑", "hypervolume ↑"]
    assert legend(figure) == ["dirichlet", "trivial"]


def test_curves_run_over_training_steps(data_run: Make, compared: Comparison) -> None:
    run = data_run()
    for figure in (rewards(run), learning(compared.results, compared.runs)):
        assert figure is not None
        assert figure.get_supxlabel() == "training steps per client"
        assert figure.axes[0].get_ylabel() == "scalarised score (validation)"
    assert rewards_chart(run)["layout"]["xaxis"]["title"]["text"] == "training steps per client"


# -- undefined scores ----------------------------------------------------------------------


def test_undefined_scores_are_dashes_and_are_explained(data_run: Make) -> None:
    run = data_run(UNDEFINED)
    assert rows_of(clients_table(run.results))[1][3:5] == ["–", "–"]
    assert rows_of(clients_table(run.results))[1][-1] == "undefined"
    text = " ".join(printed(run_table(run.results)).split())
    assert "undefined 0.3333" in text
    assert "Undefined: the share of clients" in text
    assert "Undefined: the share of clients" in write_report(run).read_text()


def test_undefined_points_are_counted_but_not_drawn(data_run: Make) -> None:
    run = data_run(UNDEFINED)
    figure = front(run)
    assert not marked(figure.axes[0], "client-1")
    assert "1 undefined, not drawn" in legend(figure)
    assert "client 1:" not in json.dumps(front_chart(run), allow_nan=False)


def test_nothing_defined_at_all_is_still_reported(data_run: Make) -> None:
    def forget(results: dict[str, Any]) -> None:
        results["front"] = []
        for client in results["per_client"]:
            client["objectives"]["fairness"] = client["scalarised"] = None
        for values in (results["metrics"], results["trivial"]):
            values |= {"mean_scalarised": float("nan"), "fairness": float("nan")}

    made = data_run()
    lines = [entry(n, VECTORS) | {"kept": [[0.7, None]] * 3} for n in (1, 2, 3)]
    made.rewrite_history(lines)
    run = rewrite(made, forget)
    assert write_report(run).is_file()
    assert rows_of(clients_table(run.results))[0][4] == "–"
    for chart in (front_chart(run), rewards_chart(run)):
        json.dumps(chart, allow_nan=False)
    row = {
        "algorithm": "fedpref",
        "preferences": "x",
        "seeds": [1],
        "metrics": {"hypervolume": {"mean": 0.0, "std": 0.0}, "dropped": {"mean": 0.0, "std": 0.0}},
        "pooled": {"hypervolume": 0.0},
    }
    comparison = {"problem": "p", "reference_point": [0.0, 0.0], "trivial": {}, "rows": [row]}
    runs = {("fedpref", "x"): [run]}
    assert write_comparison_report(run.path / "all", comparison, runs).is_file()
    json.dumps(learning_chart(comparison, runs), allow_nan=False)
