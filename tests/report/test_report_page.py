"""Pages are complete, need no network, and escape what comes from data."""

from __future__ import annotations

import base64
import gzip
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import plotly.graph_objects
import pytest
from histories import entry, rewrite
from pages import EVIL, Page

from comity.report import write_comparison_report, write_report
from comity.report.html.charts import front_chart, learning_chart, rewards_chart
from comity.runs.directory import Run


def test_every_client_has_its_row(real: Run) -> None:
    table = Page(write_report(real)).table("client")
    objectives = ["treasure", "time", "scalarised", "regret"]
    assert table[0] == ["client", "preference", *objectives, "trivial", "outcome"]
    assert [row[0] for row in table[1:]] == ["0", "1", "2", "3"]
    for row, client in zip(table[1:], real.results["per_client"], strict=True):
        assert float(row[4].replace("−", "-")) == pytest.approx(client["scalarised"], abs=5e-3)


def test_measures_stand_beside_their_baselines(made: Callable[..., Run]) -> None:
    run = made([[8.2, -3.0]], last=[[0.0, -100.0]], preferences=[[0.5, 0.5]])
    table = Page(write_report(run)).table("measure")
    assert table[0] == ["measure", "kept", "last", "trivial", "optimum"]
    rows = {row[0]: row[1:] for row in table[1:]}
    assert rows["mean scalarised ↑"] == ["2.6", "−50", "−50", "3.55"]
    assert rows["cardinality ↑"] == ["1", "1", "1", "–"]


def test_settings_and_reference_point_are_told(real: Run) -> None:
    path = write_report(real)
    settings = {row[0]: row[1] for row in Page(path).table("setting")[1:]}
    assert settings["keep"] == "best"
    assert settings["guard"] == "true"
    assert settings["dqn.local_steps"] == "64"
    assert settings["fedpref.top_r"] == "0.8"
    assert "<dt>reference point</dt><dd>(−1, −101)</dd>" in path.read_text()


def test_the_page_needs_no_network_and_describes_its_pictures(real: Run) -> None:
    path = write_report(real)
    page = Page(path)
    assert len(page.images) == 5
    for image in page.images:
        source = image["src"] or ""
        assert source.startswith("data:image/png;base64,") or (path.parent / source).is_file()
        assert image["alt"]
    assert not re.findall(r"""(?:src|href)=["']?(?:\w+:)?//""", path.read_text())


def test_a_picture_with_a_chart_is_not_part_of_the_page(real: Run) -> None:
    """Its file stands in where no script runs."""
    path = write_report(real)
    files = [str(image["src"]) for image in Page(path).images]
    assert [name for name in files if not name.startswith("data:")] == ["front.png", "rewards.png"]
    assert path.read_text().count('<figure class="live">') == 2
    assert len(path.read_bytes()) < 400_000


def unpacked(script: Path) -> bytes:
    """Return what is packed into a script."""
    (packed,) = re.findall(r'window.packedPlotly = "([^"]+)";', script.read_text())
    return gzip.decompress(base64.b64decode(packed))


def test_plotly_is_written_once_beside_the_page(real: Run) -> None:
    path = write_report(real)
    (source,) = [str(script["src"]) for script in Page(path).scripts if "src" in script]
    assert re.fullmatch(r"plotly-[\d.]+\.min\.js", source)
    assert unpacked(path.parent / source).lstrip().startswith(b"/**")
    written = (path.parent / source).stat().st_mtime_ns
    write_report(real)
    assert (path.parent / source).stat().st_mtime_ns == written
    assert not list(path.parent.glob("*.part"))


def test_other_files_above_a_run_are_not_mistaken_for_a_comparison(
    made: Callable[..., Run],
) -> None:
    run = made([[8.2, -3.0]], preferences=[[0.5, 0.5]], name="project/run")
    (run.path.parent / "config.toml").write_text("")
    write_report(run)
    assert len(list(run.path.glob("plotly*"))) == 1


@pytest.mark.parametrize("owner", ["comparison.toml", "searches.toml"])
def test_runs_share_the_script_of_the_directory_that_they_belong_to(
    made: Callable[..., Run], owner: str
) -> None:
    run = made([[8.2, -3.0]], preferences=[[0.5, 0.5]], name="all/fedavg/seed-1")
    home = run.path.parent.parent
    (home / owner).write_text("")
    path = write_report(run)
    (source,) = [str(script["src"]) for script in Page(path).scripts if "src" in script]
    assert source.startswith("../../plotly-")
    assert (path.parent / source).is_file()
    assert not list(run.path.glob("plotly*"))


def test_what_comes_from_data_is_escaped(made: Callable[..., Run]) -> None:
    kept = [[8.2, -3.0]]
    history = [entry(1, kept, events=[f"bad {EVIL}"]), entry(2, kept), entry(3, kept)]
    run = made(kept, history, preferences=[[0.5, 0.5]])

    def poison(results: dict[str, Any]) -> None:
        results["problem"] = results["preferences"] = results["algorithm"] = EVIL
        results["metrics"][EVIL] = 1.0
        results["per_client"][0]["objectives"] = {EVIL: 8.2, "time": -3.0}

    html = write_report(rewrite(run, poison)).read_text()
    assert EVIL not in html
    assert "<li>bad &lt;script&gt;alert(&#x27;&amp;&#x27;)&lt;/script&gt;</li>" in html


def test_charts_cannot_end_their_script_early(made: Callable[..., Run]) -> None:
    comparison = {
        "problem": "p",
        "reference_point": [-1.0],
        "rows": [{"algorithm": EVIL, "preferences": "x", "seeds": [1], "metrics": {}}],
    }
    run = made([[8.2, -3.0]], preferences=[[0.5, 0.5]])
    chart = learning_chart(comparison, {(EVIL, "x"): [run]})
    assert chart is not None
    assert EVIL not in json.dumps(chart)
    html = write_report(run).read_text()
    spec = html.split('<script type="application/json">')[1].split("</script>")[0]
    assert "<" not in spec
    assert json.loads(spec) == front_chart(run)


def test_charts_are_valid_and_show_the_data(real: Run) -> None:
    front = plotly.graph_objects.Figure(front_chart(real))
    known, clients = front.data
    problem = real.configuration.get_problem()
    target = problem.target()
    assert target is not None
    assert len(known.x) == len(target)
    told = " ".join(clients.text)
    assert all(f"client {client}:" in told for client in range(4))
    rewards = plotly.graph_objects.Figure(rewards_chart(real))
    names = [trace.name for trace in rewards.data]
    assert names[0] == "kept (best validated)"
    assert {"optimum", "trivial"} <= set(names)


def test_a_chart_of_three_objectives_has_three_panels(made: Callable[..., Run]) -> None:
    run = made(
        [[1.0, 0.2, -5.0], [0.3, 0.9, -6.0]],
        problem="minecart-deterministic",
        preferences=[[0.8, 0.1, 0.1], [0.1, 0.8, 0.1]],
    )
    chart = plotly.graph_objects.Figure(front_chart(run))
    axes = {(trace.xaxis, trace.yaxis) for trace in chart.data}
    assert axes == {("x", "y"), ("x2", "y2"), ("x3", "y3")}
    assert chart.layout.xaxis3.title.text == "ore-2 (amount)"
    assert chart.layout.yaxis2.title.text == "fuel (amount)"


def test_a_comparison_has_its_table_and_pictures(made: Callable[..., Run], tmp_path: Path) -> None:
    def row(algorithm: str, preferences: str, regret: float) -> dict[str, Any]:
        metrics = {"mean_regret": {"mean": regret, "std": 0.5}}
        return {
            "algorithm": algorithm,
            "preferences": preferences,
            "seeds": [1, 2],
            "metrics": metrics,
            "metrics_last": {"mean_regret": {"mean": 9 * regret, "std": 0.5}},
        }

    comparison = {
        "problem": "deep-sea-treasure",
        "reference_point": [-1.0, -101.0],
        "trivial": {"mean_regret": 60.0},
        "rows": [row("a", "x", 2.0), row("a", "y", 3.0), row("<b>", "x", 1.0)],
    }
    run = made([[8.2, -3.0]], preferences=[[0.5, 0.5]])
    path = write_comparison_report(tmp_path / "all", comparison, {("a", "x"): [run]})
    assert path == tmp_path / "all" / "report.html"
    names = {p.name for p in path.parent.iterdir()}
    (script,) = [name for name in names if name.startswith("plotly-")]
    tables = {"comparison.csv", "comparison.tex"}
    pictures = {"bars.png", "solutions.png", "learning.png"}
    assert names == {"report.html", script} | tables | pictures
    kept, last = Page(path).tables
    assert kept == [
        ["algorithm", "preferences", "mean regret ↓"],
        ["a", "x", "2 ± 0.5"],
        ["<b>", "x", "★ 1 ± 0.5"],
        ["a", "y", "★ 3 ± 0.5"],
        ["trivial", "all", "60"],
    ]
    assert last[1] == ["a", "x", "18 ± 0.5"]
    assert "<b>" not in path.read_text()


def test_importing_reports_imports_no_drawing_library() -> None:
    code = (
        "import sys, comity.report, comity.report.tables; "
        "print([m for m in ('matplotlib', 'plotly') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
