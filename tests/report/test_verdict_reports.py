"""Verdicts, marks, gains and table files, as readers see them."""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from histories import entry, rewrite
from pages import EVIL, Page
from printing import printed, rows_of

from comity.cli.terminal import show_comparison, show_run
from comity.report import write_comparison_report, write_report
from comity.report.figures import partition, scores
from comity.report.gains import gain_rows
from comity.report.html.charts import front_chart
from comity.report.measures import MEASURES, compared_cells
from comity.report.table_files import comparison_csv, comparison_latex, escape_latex
from comity.report.tables import clients_table, comparison_tables, gains_table
from comity.runs.compare import Comparison, tabulate
from comity.runs.directory import Run

Make = Callable[..., Run]
PREFERENCES = [[0.5, 0.5], [0.5, 0.5]]
LABELS = {measure.name: measure for measure in MEASURES}


def comparison(*rows: dict[str, Any], **trivial: float) -> Any:
    return {
        "problem": "p",
        "reference_point": [0.0, 0.0],
        "trivial": trivial,
        "rows": list(rows),
    }


def row(algorithm: str, kind: str = "x", **means: float) -> dict[str, Any]:
    metrics = {name: {"mean": mean, "std": 0.25} for name, mean in means.items()}
    return {
        "algorithm": algorithm,
        "preferences": kind,
        "centralised": False,
        "seeds": [1, 2],
        "metrics": metrics,
        "metrics_last": metrics,
    }


# -- runs ----------------------------------------------------------------------------------


def test_the_verdict_comes_before_everything_else(
    made: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made([[8.2, -3.0], [0.0, -100.0]], preferences=PREFERENCES, names=["Port", "Quay"])
    first = run.results["verdict"]["sentences"][0]
    assert first == (
        "Of 2 clients, 1 gained over doing nothing (+52.6 on average) and 1 is level with it "
        "(within 0.001)."
    )
    show_run(run, as_json=False)
    assert " ".join(capsys.readouterr().out.split()).startswith(first)
    html = write_report(run).read_text()
    body = html[html.index("<h1>") :]
    assert re.match(r'<h1>.*?</h1><section class="verdict"><p>Of 2 clients, 1 gained', body)
    assert body.index('class="verdict"') < body.index("<table")


def test_clients_have_names_and_outcomes_with_a_legend(made: Make) -> None:
    run = made([[8.2, -3.0], [0.0, -100.0]], preferences=PREFERENCES, names=["Port", "Quay"])
    table = clients_table(run.results)
    assert [(line[0], *line[-2:]) for line in rows_of(table)] == [
        ("Port", "−50", "gained"),
        ("Quay", "−50", "level"),
    ]
    legend = "gained (better than the trivial baseline); level (level with the trivial baseline)"
    assert legend in " ".join(printed(table).split())
    path = write_report(run)
    clients = Page(path).table("client")
    assert clients[0][-2:] == ["trivial", "outcome"]
    assert [line[0] for line in clients[1:]] == ["Port", "Quay"]
    assert legend in path.read_text()
    hover = str(front_chart(run)["data"])
    assert "Port: preference 0.50, 0.50" in hover
    assert "client 0" not in hover


def test_bars_and_bubbles_are_labelled_with_names(made: Make) -> None:
    names = ["Nordbank", "Südbank"]
    kept = [[0.9], [0.8]]
    run = made(kept, problem="usps-mlp", algorithm="fedavg", partition="stratified", names=names)
    for figure in (scores(run), partition(run)):
        assert figure is not None
        (axes,) = figure.axes
        assert [label.get_text() for label in axes.get_xticklabels()] == names
        assert {label.get_rotation() for label in axes.get_xticklabels()} == {90.0}


def test_names_are_escaped(made: Make) -> None:
    run = made([[8.2, -3.0]], preferences=[[0.5, 0.5]])

    def poison(results: dict[str, Any]) -> None:
        results["per_client"][0]["name"] = EVIL
        results["verdict"]["sentences"] = [EVIL]

    assert EVIL not in write_report(rewrite(run, poison)).read_text()


def test_runs_of_older_versions_are_reported_without_a_verdict(
    made: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    def age(results: dict[str, Any]) -> None:
        del results["verdict"]
        for client in results["per_client"]:
            for key in ("name", "trivial", "mark", "kept_round"):
                client.pop(key, None)

    run = rewrite(made([[8.2, -3.0]], preferences=[[0.5, 0.5]]), age)
    assert rows_of(clients_table(run.results))[0][0] == "0"
    assert Page(write_report(run)).table("client")[0][-1] == "regret"
    show_run(run, as_json=False)
    assert capsys.readouterr().out.startswith("Clients")
    results = tabulate("p", {("fedavg", "x"): [run]}, run.path)
    assert "marks" not in results["rows"][0]
    assert results["verdict"]["sentences"]


# -- rows of comparisons -------------------------------------------------------------------


def test_what_is_worse_than_trivial_is_grey_and_never_starred() -> None:
    rows: Any = [
        row("a", hypervolume=0.5, mean_regret=3.0),
        row("b", hypervolume=0.4, mean_regret=5.0),
    ]
    measures = [LABELS["hypervolume"], LABELS["mean_regret"]]
    a, b = compared_cells(rows, measures, {"hypervolume": 0.7, "mean_regret": 4.0})
    assert [(cell.best, cell.below) for cell in a] == [(False, True), (True, False)]
    assert [(cell.best, cell.below) for cell in b] == [(False, True), (False, True)]
    (best, _), _ = compared_cells(rows, measures, {})
    assert best.best


def test_the_trivial_value_is_that_of_the_rows_own_preferences() -> None:
    rows: Any = [
        {**row("a", "x", hypervolume=0.5), "trivial": {"hypervolume": 0.7}},
        {**row("a", "y", hypervolume=0.5), "trivial": {"hypervolume": 0.3}},
    ]
    (x,), (y,) = compared_cells(rows, [LABELS["hypervolume"]], {"hypervolume": 0.5})
    assert (x.best, x.below) == (False, True)
    assert (y.best, y.below) == (True, False)


def test_what_is_level_with_trivial_is_neither_grey_nor_starred() -> None:
    rows: Any = [row("a", hypervolume=0.7)]
    ((cell,),) = compared_cells(rows, [LABELS["hypervolume"]], {"hypervolume": 0.7})
    assert (cell.best, cell.below) == (False, False)


def test_a_single_trivial_point_draws_no_line_for_sparsity() -> None:
    rows: Any = [row("a", sparsity=3.0, cardinality=5.0)]
    ((cell,),) = compared_cells(rows, [LABELS["sparsity"]], {"sparsity": 0.0, "cardinality": 1.0})
    assert (cell.best, cell.below) == (True, False)


def test_grey_rows_on_page_and_terminal(tmp_path: Path) -> None:
    results = comparison(
        row("a", mean_scalarised=0.5), row("b", mean_scalarised=0.4), mean_scalarised=0.45
    )
    (table,) = comparison_tables(results)
    assert rows_of(table) == [["a", "0.5 ± 0.25 ★"], ["b", "0.4 ± 0.25"], ["trivial", "0.45"]]
    styles = [str(cell.style) for cell in table.columns[1].cells]  # type: ignore[union-attr]
    assert styles[:2] == ["bold green", "bright_black"]
    html = write_comparison_report(tmp_path / "all", results, {}).read_text()
    assert '<td class="best spread">★\u00a00.5 ±\u00a00.25</td>' in html
    assert '<td class="below spread">0.4 ±\u00a00.25</td>' in html
    assert "Grey: worse than the trivial baseline" in html
    assert "Mean ± population standard deviation over 2 seeds" in html


def test_no_row_of_a_page_is_both_grey_and_starred(tmp_path: Path) -> None:
    results = comparison(
        row("a", mean_scalarised=0.5, hypervolume=0.2, igd=3.0),
        row("b", mean_scalarised=0.4, hypervolume=0.1, igd=2.0),
        mean_scalarised=0.6,
        hypervolume=0.7,
        igd=1.0,
    )
    html = write_comparison_report(tmp_path / "all", results, {}).read_text()
    assert '<td class="best' not in html
    assert html.count('<td class="below') == 12, "kept and last models"


# -- a comparison of made runs -------------------------------------------------------------


@pytest.fixture
def compared(made: Make, tmp_path: Path) -> Comparison:
    """Two clients and two seeds; FedAvg is 0.5 better, then 1.5 better, than learning alone."""
    runs = {}
    for algorithm, gains in (("no-communication", (0.0, 0.0)), ("fedavg", (1.0, 3.0))):
        runs[algorithm, "given"] = [
            made(
                [[1.0 + gain, -3.0], [2.0 + gain, -5.0]],
                [entry(n, [[1.0, -3.0], [2.0, -5.0]]) for n in (1, 2, 3)],
                name=f"{algorithm}-{seed}",
                algorithm=algorithm,
                seed=seed,
                preferences=PREFERENCES,
            )
            for seed, gain in enumerate(gains, 1)
        ]
    return Comparison(tmp_path, tabulate("deep-sea-treasure", runs, tmp_path), runs)


def test_gains_have_intervals_and_tests_everywhere(
    compared: Comparison, capsys: pytest.CaptureFixture[str]
) -> None:
    # differences 0.5 and 1.5: standard error 0.5, t = 2, p = 0.2952; 12.706 · 0.5 = 6.353
    cells = ["fedavg", "no-communication", "+1 ± 0.5", "−5.4 to 7.4", "0.3", "0.3", "4/0/0"]
    assert gain_rows(compared.results["rows"]) == [cells], "one side of the pair is enough"
    table = gains_table(compared.results)
    assert table is not None
    assert rows_of(table) == [cells]
    path = write_comparison_report(compared.path / "all", compared.results, compared.runs)
    gains = next(t for t in Page(path).tables if "95 % interval" in t[0])
    assert gains[1] == cells
    html = path.read_text()
    assert "Attention: 2 seeds are too few to decide on a difference." in html
    assert "p (Holm): corrected for 1 tests" not in html
    sentence = (
        "fedavg: federating paid for 4 of 4 clients against learning alone (0 level, 0 worse off), "
        "mean +1, 95 % interval -5.35 to 7.35 over 2 seeds: too few to decide."
    )
    assert sentence in compared.results["verdict"]["sentences"]
    assert sentence in html
    show_comparison(compared, as_json=False)
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith("Clients that gained over the trivial baseline")
    assert sentence in text


def test_the_page_links_its_tables(compared: Comparison) -> None:
    path = write_comparison_report(compared.path / "all", compared.results, compared.runs)
    links = re.findall(r'<a href="([^"]+)"', path.read_text())
    assert links == ["comparison.csv", "comparison.tex"]
    for link in links:
        assert (path.parent / link).is_file()


def test_a_csv_table_has_full_precision(compared: Comparison) -> None:
    lines = list(csv.DictReader(io.StringIO(comparison_csv(compared.results))))
    assert [line["algorithm"] for line in lines] == [
        "no-communication",
        "fedavg",
        "trivial",
        "optimum",
    ]
    fedavg, metrics = lines[1], compared.results["rows"][1]["metrics"]
    assert float(fedavg["mean_scalarised"]) == metrics["mean_scalarised"]["mean"]
    assert float(fedavg["mean_scalarised_std"]) == metrics["mean_scalarised"]["std"]
    assert fedavg["mean_scalarised_below_trivial"] == "0"
    assert float(fedavg["over no-communication"]) == 1.0
    assert float(fedavg["over no-communication low"]) == pytest.approx(1 - 6.353102, abs=1e-5)
    assert float(fedavg["over no-communication p"]) == pytest.approx(0.295167, abs=1e-6)
    assert float(lines[2]["mean_scalarised"]) == -50.0
    assert lines[2]["over no-communication"] == ""
    assert next(iter(lines[0])) == "algorithm"
    assert list(lines[0])[3] == "mean_scalarised", "what clients want comes first"


def test_a_csv_table_ends_with_what_was_sent() -> None:
    bytes_sent: Any = {
        "megabytes": {"mean": 1.25, "std": 0.5}, "bytes_per_update": {"mean": 900.0, "std": 0.0},
    }  # fmt: skip
    one, other = row("a", mean_scalarised=0.5), row("b", mean_scalarised=0.4)
    results = comparison({**one, "communication": bytes_sent}, other, mean_scalarised=0.45)
    header, first, *others = list(csv.reader(io.StringIO(comparison_csv(results))))
    assert header[-4:] == ["megabytes", "megabytes_std", "bytes_per_update", "bytes_per_update_std"]
    assert first[-4:] == ["1.25", "0.5", "900.0", "0.0"]
    assert [line[-4:] for line in others] == [[""] * 4] * 2
    assert {len(line) for line in others} == {len(header)}


def test_a_latex_table_is_plain_and_escaped() -> None:
    results = comparison(
        row("fedpref[top_r=1]", mean_scalarised=0.5, hypervolume=-0.25),
        row("b&c", mean_scalarised=0.4, hypervolume=-0.5),
        mean_scalarised=0.45,
    )
    text = comparison_latex(results)
    assert r"fedpref[top\_r=1] & x & \textbf{0.5 $\pm$ 0.25} & \textbf{$-$0.25" in text
    assert r"b\&c & x & 0.4 $\pm$ 0.25$^\dagger$ & $-$0.5 $\pm$ 0.25 \\" in text
    assert r"trivial & all & 0.45 & -- \\" in text
    assert r"algorithm & preferences & mean scalarised $\uparrow$" in text
    assert not {"toprule", "usepackage", "±", "−"} & set(re.findall(r"\w+|[^\w\s]", text))
    assert "MB sent" not in text.replace("% MB sent", "")
    sent: Any = {"communication": {"megabytes": {"mean": 1.25, "std": 0.0}}}
    first, *others = results["rows"]
    text = comparison_latex({**results, "rows": [{**first, **sent}, *others]})
    assert re.search(r"hypervolume.* & MB sent \\\\", text)
    assert re.search(r"fedpref\[top\\_r=1\].* & 1.25 \\\\", text)
    assert r"trivial & all & 0.45 & -- & -- \\" in text
    assert escape_latex("a_b%c#d{e}~^\\") == (
        r"a\_b\%c\#d\{e\}\textasciitilde{}\textasciicircum{}\textbackslash{}"
    )


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="LaTeX is not installed")
def test_latex_accepts_the_table(compared: Comparison, tmp_path: Path) -> None:
    body = comparison_latex(compared.results)
    document = f"\\documentclass{{article}}\\begin{{document}}{body}\\end{{document}}"
    (tmp_path / "t.tex").write_text(document)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 0
