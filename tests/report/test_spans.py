"""Reports on clients whose models take any preference, beside those who have one model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tests.tiny  # noqa: F401  (which registers its problems)
from histories import entry, rewrite
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pages import Page
from printing import printed, rows_of

import comity
from comity.report import write_comparison_report, write_report
from comity.report.figures import (
    bars,
    draw_run,
    fronts,
    learning,
    losses,
    reaches,
    response,
    spanned_figure,
    spans,
)
from comity.report.tables import comparison_tables, reproduction_table, run_table
from comity.runs.compare import Comparison, tabulate
from comity.runs.directory import Run
from comity.runs.spans import Spans
from comity.runs.verdict import chosen_round

ASKED = np.array([[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]])
ONE = [[0.6, 1.0], [0.7, 0.9], [0.8, 0.7]]
TWO = [[0.5, 0.9], [0.6, 0.8], [0.55, 0.8]]  # asked for accuracy alone, it gets worse
OWN = [[0.5, 0.5], [0.0, 1.0]]

Make = Callable[..., Run]


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Three clients of PraFFL, of whose rounds the best is kept for all."""
    out = tmp_path_factory.mktemp("spans") / "run"
    return comity.run(
        "tiny-people", algorithm="praffl", clients=3, keep_scope="federation", out=out
    )


@pytest.fixture
def spanning(made: Make) -> Make:
    """A finished run of two clients whose spans are known."""

    def make(name: str = "spanning", vectors: Any = (ONE, TWO), **settings: Any) -> Run:
        reached = np.array(vectors)
        kept = [reached[0, 1], reached[1, 0], *reached[2:, 1]]
        lines = [entry(n, kept, validation_steps=[0] * len(kept)) for n in (1, 2, 3)]
        values = {"problem": "tiny-people", "preferences": OWN, "algorithm": "praffl"}
        run = made(kept, lines, name=name, **{**values, **settings})
        run.save_spans(Spans(ASKED, reached, 1 - reached[:, :, ::-1]))

        def tell(results: dict[str, Any]) -> None:
            # below the stairs of (.6, 1), (.7, .9), (.8, .7), and of (.5, .9), (.6, .8)
            areas = [0.76, 0.53, *[0.76] * (len(reached) - 2)]
            results["spanned"] = {"hypervolume": np.mean(areas), "per_client": areas}
            results["metrics"]["own_hypervolume"] = np.mean(areas)

        return rewrite(run, tell)

    return make


@pytest.fixture
def compared(spanning: Make, made: Make, tmp_path: Path) -> Comparison:
    """Two seeds of an algorithm that spans, beside a federated and a centralised one."""

    def single(algorithm: str, *vectors: list[float], **settings: Any) -> Run:
        lines = [entry(n, vectors, validation_steps=[0, 0]) for n in (1, 2, 3)]
        values = {"problem": "praffl-synthetic", "preferences": OWN, "algorithm": algorithm}
        return made(vectors, lines, name=algorithm, **values, **settings)

    about = {"problem": "praffl-synthetic", "clients": 2}
    runs = {
        ("praffl", "given"): [spanning("p1", **about), spanning("p2", (TWO, ONE), **about)],
        ("fedfb", "given"): [single("fedfb", [0.7, 0.8], [0.6, 0.7])],
        ("agnostic-fair-pooled", "given"): [single("agnostic-fair-pooled", [0.6, 0.5], [0.8, 0.5])],
    }
    return Comparison(tmp_path, tabulate("praffl-synthetic", runs, tmp_path), runs)


def marked(axes: Axes, gid: str) -> list[Any]:
    return [artist for artist in [*axes.lines, *axes.collections] if artist.get_gid() == gid]


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


# -- a run ---------------------------------------------------------------------------------


def test_every_client_has_its_points_their_rim_and_its_own_preference(spanning: Make) -> None:
    figure = spans(spanning())
    assert figure is not None
    (axes,) = figure.axes
    for client, points in enumerate((ONE, TWO)):
        (dots,) = marked(axes, f"client-{client}")
        np.testing.assert_allclose(dots.get_offsets(), sorted(points))
    rims = [line for line in axes.lines if line.get_drawstyle() == "steps-pre"]
    np.testing.assert_allclose(rims[1].get_xdata()[1:], [0.5, 0.6, 0.6])  # (.55, .8) is no front
    stars = [np.ravel(star.get_data()) for star in marked(axes, "own")]
    np.testing.assert_allclose(stars, [ONE[1], TWO[0]])
    assert len(marked(axes, "trivial")) == 1
    assert legend(figure)[:2] == ["client 0, HV 0.760", "client 1, HV 0.530"]
    title = figure.legends[0].get_title().get_text()
    assert "3 preferences" in title
    assert "reference point (0, 0)" in title


def test_outcomes_are_drawn_over_the_importance_of_the_first_objective(spanning: Make) -> None:
    figure = response(spanning())
    assert figure is not None
    assert [axes.get_ylabel().split()[0] for axes in figure.axes] == ["accuracy", "fairness"]
    assert "importance of accuracy" in figure.get_supxlabel()
    for place, axes in enumerate(figure.axes):
        (line,), (mean,) = marked(axes, "client-1"), marked(axes, "mean")
        np.testing.assert_allclose(line.get_data(), [[0, 0.5, 1], np.array(TWO)[:, place]])
        means = np.mean([ONE, TWO], axis=0)[:, place]
        np.testing.assert_allclose(mean.get_data(), [[0, 0.5, 1], means])
        stars = [np.ravel(star.get_data()) for star in marked(axes, "own")]
        np.testing.assert_allclose(stars, [[0.5, ONE[1][place]], [0.0, TWO[0][place]]])


def test_losses_stand_beside_metrics(spanning: Make) -> None:
    figure = losses(spanning())
    assert figure is not None
    left, right = figure.axes
    (dots,) = marked(right, "client-1")  # (.55, .8) is no front
    np.testing.assert_allclose(dots.get_offsets(), [[0.5, 0.9], [0.6, 0.8]])
    (dots,) = marked(left, "client-1")  # losses of (.5, .9) are .1 and .5
    np.testing.assert_allclose(dots.get_offsets(), [[0.1, 0.5], [0.2, 0.4]])
    assert left.get_title(loc="left") == "losses, fronts of 3, 2 points"
    assert left.get_xlabel() == "loss of accuracy"
    assert legend(figure) == ["client 0", "client 1"]


def test_runs_without_losses_have_no_picture_of_them(spanning: Make) -> None:
    run = spanning()
    run.save_spans(Spans(ASKED, np.array((ONE, TWO))))
    assert losses(run) is None
    assert spans(run) is not None


def test_what_is_undefined_is_left_out(spanning: Make) -> None:
    run = spanning(vectors=(ONE, [[0.5, np.nan], [0.6, 0.8], [0.55, np.nan]]))
    figure, outcome = spans(run), response(run)
    assert figure is not None
    assert outcome is not None
    (dots,) = marked(figure.axes[0], "client-1")
    assert len(dots.get_offsets()) == 1
    (mean,) = marked(outcome.axes[1], "mean")
    np.testing.assert_allclose(mean.get_ydata(), [1.0, 0.85, 0.7])


def test_what_is_far_away_stands_at_the_rim(spanning: Make) -> None:
    figure = spans(spanning(vectors=(ONE, [[0.1, 0.9], [0.6, 0.8], [0.1, 0.8]])))
    assert figure is not None
    (axes,) = figure.axes
    assert axes.get_xlim()[0] > 0.3
    assert axes.texts[0].get_text() == "2 points off the axes, drawn at the rim"


def test_a_crowd_of_clients_has_no_names(spanning: Make) -> None:
    run = spanning(vectors=[ONE] * 11, preferences=[OWN[0]] * 11)
    for figure in (spans(run), response(run)):
        assert figure is not None
        assert "each of 11 clients" in legend(figure)
        assert not [name for name in legend(figure) if name.startswith("client 0")]


def test_one_model_for_a_client_spans_nothing(made: Make) -> None:
    run = made([[0.7, 0.8]], problem="tiny-people")
    assert spans(run) is None
    assert response(run) is None
    assert not {"spans", "response", "losses"} & {*draw_run(run)}


def test_the_page_shows_what_clients_reach(real: Run) -> None:
    path = write_report(real)
    assert (real.path / "spans.png").is_file()
    assert (real.path / "response.png").is_file()
    assert (real.path / "losses.png").is_file()
    html, page = path.read_text(), Page(path)
    assert "Reach of each client" in html
    for start in ("From preference", "What training makes small"):
        assert [image for image in page.images if start in (image["alt"] or "")]
    measures = {row[0]: row[1:] for row in page.table("measure")}
    own = real.results["metrics"]["own_hypervolume"]
    assert float(measures["hypervolume per client ↑"][0]) == pytest.approx(own, abs=1e-4)
    trivial = real.results["trivial"]["own_hypervolume"]
    assert float(measures["hypervolume per client ↑"][2]) == pytest.approx(trivial, abs=1e-4)
    assert "a single point, or all that it spans" in html
    clients = page.table("client")
    assert clients[0][-3:] == ["hypervolume", "trivial", "outcome"]
    reached = [float(row[-3]) for row in clients[1:]]
    np.testing.assert_allclose(reached, real.results["spanned"]["per_client"], atol=1e-4)


def test_the_page_says_which_round_is_kept(real: Run) -> None:
    kept = chosen_round(real.configuration, real.history)
    assert kept == max(line["round"] for line in real.history if line["chosen"])
    sentence = f"All clients hold the models of round {kept} of 4, the best one for all"
    assert sentence in write_report(real).read_text()


def test_models_that_were_sent_are_those_of_the_round_before(made: Make) -> None:
    vectors = [[0.7, 0.8]]
    lines = [entry(n, vectors, chosen=n == 3) for n in (1, 2, 3)]
    run = made(vectors, lines, problem="tiny-people", algorithm="fedavg", keep_scope="federation")
    assert chosen_round(run.configuration, run.history) == 2
    assert "All clients hold the models of round 2 of 2" in write_report(run).read_text()


def test_where_clients_choose_for_themselves_no_round_is_named(made: Make) -> None:
    page = write_report(made([[1.0, -1.0]])).read_text()
    assert "All clients hold" not in page
    assert "Each client holds its best validated model, from round 1 of 2." in page


def test_three_objectives_are_pairs_without_outcomes(tmp_path: Path) -> None:
    run = comity.run("tiny-crowd", algorithm="praffl", clients=2, out=tmp_path / "crowd")
    figure = spans(run)
    assert figure is not None
    panels = [axes for axes in figure.axes if marked(axes, "client-1")]
    assert len(panels) == 3
    assert response(run) is None
    assert losses(run) is None
    assert "with more than two objectives a preference is" in (run.path / "report.html").read_text()


def test_the_terminal_explains_the_hypervolume_per_client(real: Run) -> None:
    table = run_table(real.results)
    assert "hypervolume per client ↑" in [row[0] for row in rows_of(table)]
    assert "Hypervolume per client: of what a client's own model" in " ".join(
        printed(table).split()
    )


# -- a comparison --------------------------------------------------------------------------


def test_spans_are_lines_and_single_models_are_points(compared: Comparison) -> None:
    figure = reaches(compared.results, compared.runs)
    assert figure is not None
    (axes,) = figure.axes
    line, fedfb, pooled = marked(axes, "mean")
    np.testing.assert_allclose(np.transpose(line.get_data()), np.mean([ONE, TWO], axis=0))
    np.testing.assert_allclose(fedfb.get_offsets(), [[0.65, 0.75]])
    np.testing.assert_allclose(pooled.get_offsets(), [[0.7, 0.5]])
    assert legend(figure) == [
        "praffl, HV 0.645",
        "fedfb, HV 0.490",
        "agnostic-fair-pooled (centralised), HV 0.350",
        "constant classifier",
    ]
    assert "reference point (0, 0)" in figure.legends[0].get_title().get_text()
    assert len(marked(axes, "trivial")) == 1


def test_no_span_no_picture(compared: Comparison) -> None:
    runs = {key: seeds for key, seeds in compared.runs.items() if key != ("praffl", "given")}
    assert reaches(tabulate("praffl-synthetic", runs, compared.path), runs) is None


def test_centralised_algorithms_are_called_so_everywhere(compared: Comparison) -> None:
    name = "agnostic-fair-pooled (centralised)"
    assert [row["centralised"] for row in compared.results["rows"]] == [False, False, True]
    (table,) = comparison_tables(compared.results, compared.runs)
    assert [row[0].replace("\n", " ") for row in rows_of(table)][2] == name
    path = write_comparison_report(compared.path / "all", compared.results, compared.runs)
    assert (path.parent / "reaches.png").is_file()
    assert name in [row[0] for row in Page(path).tables[0]]
    assert f'"name": "{name}"' in path.read_text()
    for figure in (fronts, learning):
        drawn = figure(compared.results, compared.runs)
        assert drawn is not None
        assert name in legend(drawn)
    labels = [label.get_text() for label in bars(compared.results).axes[0].get_yticklabels()]
    assert labels[2].replace("\n", " ") == name


def test_the_table_has_hypervolumes_per_client_and_no_shares_that_nobody_has(
    compared: Comparison,
) -> None:
    (table,) = comparison_tables(compared.results, compared.runs)
    headings = [str(column.header) for column in table.columns]
    own = headings.index("hyper- volume per client ↑")
    assert [row[own] for row in rows_of(table)][:2] == [
        "0.645 ± 0",
        "0.49",
    ]  # of two seeds and of one
    assert compared.results["trivial"]["own_hypervolume"] > 0.645  # so there is no star
    assert "dropped" not in headings


# -- a reproduction ------------------------------------------------------------------------


def test_a_reproduction_of_hypervolumes_per_client() -> None:
    row = {
        "problem": "praffl-synthetic",
        "clients": 10,
        "algorithm": "agnostic-fair-pooled",
        "centralised": True,
        "printed": {"mean": 0.559, "std": None},
        "ours": {"mean": 0.5, "std": 0.0},
        "trivial": 0.6,
        "reference": 0.854,
    }
    head = {"table": "praffl-3", "measure": "own_hypervolume", "reference_point": [0.0, 0.0]}
    name = "agnostic-fair-pooled\n(centralised)"
    figures = ["0.559", "0.500 ± 0.000", "0.6", "0.854"]
    table = reproduction_table({**head, "across": "clients", "rows": [row]})
    assert rows_of(table) == [["10", name, *figures]]
    table = reproduction_table({**head, "across": None, "rows": [row]})
    assert rows_of(table) == [["synthetic", name, *figures]]
    assert "Reference point: (0, 0)" in str(table.caption)
    row["ours"] = {"mean": 0.5, "std": None}  # of one seed
    table = reproduction_table({**head, "across": None, "rows": [row]})
    assert rows_of(table)[0][3] == "0.500"


SHOWN = {"table": "praffl-6", "across": None, "reference_point": [0.0, 0.0]}


def spanned_row(problem: str, algorithm: str, **values: Any) -> dict[str, Any]:
    return {
        "problem": problem,
        "algorithm": algorithm,
        "centralised": False,
        "ours": {"mean": 0.8, "std": 0.01},
        **values,
    }


def test_a_front_is_parted_into_what_others_dominate_and_what_not(compared: Comparison) -> None:
    rows = [spanned_row("praffl-synthetic", name) for name, _ in compared.runs]
    results: Any = {**SHOWN, "shows": "fronts", "rows": rows}
    first, second = spanned_figure(results, [compared.runs]).axes
    # client 0 has (.6, 1), (.7, .9), (.8, .7) against (.7, .8) and (.6, .5)
    (beaten,), (left,) = marked(first, "dominated"), marked(first, "undominated")
    assert len(beaten.get_xdata()) == 0
    np.testing.assert_allclose(left.get_xdata(), [0.6, 0.7, 0.8])
    (other,) = marked(first, "fedfb")
    np.testing.assert_allclose(np.ravel(other.get_data()), [0.7, 0.8])
    assert second.get_title() == "synthetic, client 1"


def test_splits_are_drawn_and_tabled_by_problem() -> None:
    extents = {"width": {"mean": 0.4, "std": 0.1}, "distance": {"mean": 0.3, "std": 0.02}}
    rows = [
        spanned_row(f"praffl-{data}", f"praffl[split={split}]", split=split, measures=extents)
        for data in ("bank", "adult")
        for split in (0.1, 0.9)
    ]
    results: Any = {**SHOWN, "across": "split", "shows": "splits", "rows": rows}
    figure = spanned_figure(results, [])
    titles = ["hypervolume per client", "width of the front", "distance to (1, 1)"]
    assert [axes.get_title() for axes in figure.axes] == titles
    assert legend(figure) == ["bank", "adult"]
    table = reproduction_table(results)
    assert rows_of(table)[1] == ["bank", "0.9", "0.8 ± 0.01", "0.4 ± 0.1", "0.3 ± 0.02"]
    assert "Width: distance between the ends" in str(table.caption)


def test_convergence_has_the_curve_that_fits_it() -> None:
    curve = [0.7, 0.8, 0.85, 0.875]
    fit = {"limit": 0.9, "gap": 0.4, "factor": 0.5, "explained": 1.0, "explained_by_inverse": 0.9}
    row = spanned_row(
        "praffl-bank",
        "praffl",
        rounds=[curve],
        fit=fit,
        measures={"factor": {"mean": None, "std": None}},
    )
    results: Any = {**SHOWN, "table": "praffl-5.8", "shows": "rounds", "rows": [row]}
    (axes,) = spanned_figure(results, []).axes
    (line,) = marked(axes, "fit")
    np.testing.assert_allclose(line.get_ydata()[[0, -1]], curve[::3])
    assert axes.get_title() == "bank\nq = 0.50, R² = 1.00"
    assert rows_of(reproduction_table(results)) == [["bank", "0.8 ± 0.01", "–"]]
