"""The view that compares: its numbers are those of comparison.json and of the runs."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import comity
from comity.report.table_files import comparison_csv, comparison_latex
from comity.runs.base import CROSS
from comity.runs.compare import run_plan, start_comparison
from comity.runs.comparison_verdict import _SURE
from comity.runs.cross import cross_models
from comity.runs.differences import ENOUGH_SEEDS
from comity.runs.directory import Run
from comity.runs.verdict import TOLERANCE
from comity.searches.comparison import run_search_plan, start_searches
from tests.explore.browser.conftest import Watched, serving
from tests.explore.browser.reading import downloaded, figure_table, shown, signed, table
from tests.explore.conftest import CREDIT, STEPS

ENTRIES = ["no-communication", "fedavg"]
CLIENTS, SEEDS = 3, (1, 2)
MEASURES = "Measures of each entry"


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A directory with a comparison of two entries and one of searches; one run is crossed."""
    place: Path = tmp_path_factory.mktemp("compared")
    plan = {"algorithms": ENTRIES, "seeds": 2, "clients": CLIENTS, "rounds": 3}
    run_plan(start_comparison(CREDIT, **plan, out=place / "comparison", **STEPS))
    crossed = run_of(place, "fedavg", 1)
    crossed.save_json(CROSS, cross_models(crossed))
    plan = {"generators": ["gap"], "seeds": 2, "iterations": 2, "candidates": 2}
    run_search_plan(
        start_searches(CREDIT, **plan, clients=2, rounds=1, out=place / "searches", **STEPS)
    )
    return place


@pytest.fixture(scope="module")
def compared(place) -> Iterator[str]:
    """The address at which that directory is served."""
    with serving(place) as address:
        yield address


def run_of(place: Path, entry: str, seed: int) -> Run:
    return Run.open(place / "comparison" / f"{entry}_interior" / f"seed-{seed}")


@pytest.fixture(scope="module")
def results(place) -> dict[str, Any]:
    """The table of the comparison, as it was written."""
    return json.loads((place / "comparison" / "comparison.json").read_text())


@pytest.fixture(scope="module")
def values(place) -> dict[tuple[str, int], list[float]]:
    """Scalarised test values of all clients, by entry and seed."""
    return {
        (entry, seed): [c["scalarised"] for c in run_of(place, entry, seed).results["per_client"]]
        for entry in ENTRIES
        for seed in SEEDS
    }


def test_measures_are_those_of_the_comparison(watched, compared, results, tmp_path) -> None:
    page = watched.view(compared, "compare", item="comparison")
    head, *rows = table(page, MEASURES)
    assert head[:3] == ["entry", "seeds", "mean scalarised ↑"]
    for row, cells in zip(results["rows"], rows, strict=False):
        assert cells[:2] == [row["algorithm"], "2"]
        for name in ("accuracy", "fairness"):
            metric = row["metrics"][name]
            cell = cells[head.index(f"{name} ↑")].removeprefix("★ ")
            assert cell == f"{shown(metric['mean'])} ± {shown(metric['std'])}"
    trivial = results["trivial"]
    assert rows[-1][0] == "trivial"
    assert rows[-1][head.index("accuracy ↑")] == shown(trivial["accuracy"])
    lines = csv.reader(
        downloaded(page, "Save “Measures of each entry” as CSV", tmp_path / "m.csv").splitlines()
    )
    written = {line[0]: line for line in lines}
    exact = results["rows"][1]["metrics"]["accuracy"]["mean"]
    assert float(written["fedavg"][head.index("accuracy ↑")]) == exact
    latex = downloaded(page, f"Save “{MEASURES}” as LaTeX", tmp_path / "m.tex")
    metric = results["rows"][1]["metrics"]["hypervolume"]
    assert f"{shown(metric['mean'])} $\\pm$ {shown(metric['std'])}" in latex


def test_stars_and_grey_are_those_of_the_report(watched, compared, results) -> None:
    page = watched.view(compared, "compare", item="comparison")
    head, *rows = table(page, MEASURES)
    region = page.get_by_role("region", name="Measures", exact=True)
    grey = region.evaluate(
        "region => [...region.querySelectorAll('tbody tr')]"
        ".map(row => [...row.cells].map(cell => cell.classList.contains('below')))"
    )
    compared = 0
    for row, cells, below in zip(results["rows"], rows, grey, strict=False):
        for name in ("mean_scalarised", "accuracy", "fairness"):
            place = next(i for i, text in enumerate(head) if text == f"{name.replace('_', ' ')} ↑")
            value, line = row["metrics"][name]["mean"], results["trivial"][name]
            best = max(other["metrics"][name]["mean"] for other in results["rows"])
            assert below[place] == (value < line - 1e-6)
            assert cells[place].startswith("★") == (value == best and value > line + 1e-6)
            compared += 1
    assert compared == 6


def test_the_whole_comparison_is_saved_as_the_report_writes_it(
    watched, compared, results, tmp_path
) -> None:
    page = watched.view(compared, "compare", item="comparison")
    for word, text in (("CSV", comparison_csv(results)), ("LaTeX", comparison_latex(results))):
        name = f"Save the whole comparison as {word}"
        assert downloaded(page, name, tmp_path / word) == text


def test_differences_are_those_of_the_comparison(watched, compared, results, values) -> None:
    page = watched.view(compared, "compare", item="comparison")
    gain = results["rows"][1]["paired"]["no-communication"]
    words = page.locator(".compare .people").inner_text()
    counts = gain["clients"]
    assert words == (
        f"fedavg against no-communication: better for {counts['better']} of 6 clients of all seeds "
        f"({counts['level']} level, {counts['worse']} worse off), mean {signed(gain['mean'], 4)}, "
        f"95 % interval {shown(gain['interval'][0], 4)} to {shown(gain['interval'][1], 4)} "
        "over 2 seeds: too few to decide."
    )
    [pair] = table(page, "Differences of pairs of entries; choose one to look at it")[1:]
    assert pair[:3] == [
        "fedavg",
        "no-communication",
        f"{signed(gain['mean'])} ± {shown(gain['std'])}",
    ]
    assert [float(cell) for cell in pair[4:6]] == pytest.approx(
        [gain["p"], gain["p_holm"]], rel=0.06
    )
    assert pair[6] == f"{counts['better']} / {counts['level']} / {counts['worse']}"
    seeds = figure_table(page, "Difference per seed")[1:]
    assert [row[1] for row in seeds] == [shown(v, 4) for v in (gain["mean"], *gain["each"])]

    each = np.array([values["fedavg", seed] for seed in (1, 2)])
    each = (each - [values["no-communication", seed] for seed in (1, 2)]).round(6)
    rows = figure_table(page, "Difference per client")[1:]
    assert [row[0] for row in rows] == [str(i) for i in np.argsort(-each.mean(axis=0))]
    for row in rows:
        mine = each[:, int(row[0])]
        assert float(row[2].replace("−", "-")) == pytest.approx(mine.mean(), abs=6e-5)
        assert [float(v.replace("−", "-")) for v in row[5:]] == pytest.approx(mine, abs=6e-5)
        level = abs(mine.mean()) <= TOLERANCE
        assert row[1] == ("level" if level else "better" if mine.mean() > 0 else "worse")


def test_a_pair_is_swapped_by_the_keyboard(watched, compared, results) -> None:
    page = watched.view(compared, "compare", item="comparison")
    gain = results["rows"][1]["paired"]["no-communication"]
    page.get_by_role("button", name="Swap").focus()
    page.keyboard.press("Enter")
    words = page.locator(".compare .people").inner_text()
    counts = gain["clients"]
    assert words.startswith(
        f"no-communication against fedavg: better for {counts['worse']} of 6 clients of all seeds "
        f"({counts['level']} level, {counts['better']} worse off), "
        f"mean {signed(-gain['mean'], 4)}, 95 % interval {shown(-gain['interval'][1], 4)} "
        f"to {shown(-gain['interval'][0], 4)}"
    )
    watched.wait_for_address("pair=0,1")
    assert page.evaluate("document.activeElement.innerText") == "Swap"
    again = watched.view(compared, "compare", item="comparison", pair="0,1")
    assert again.locator(".compare .people").inner_text() == words


def test_chosen_entries_are_in_tables_figures_and_address(watched, compared, values) -> None:
    page = watched.view(compared, "compare", item="comparison")
    page.get_by_role("checkbox", name="no-communication").uncheck()
    watched.wait_for_address("entries=1")
    assert [row[0] for row in table(page, MEASURES)[1:]] == ["fedavg", "trivial"]
    head, *rows = figure_table(page, "Parallel coordinates")
    assert head[:3] == ["client", "entry", "seed"]
    assert {row[1] for row in rows} == {"fedavg"}
    known = {(row[2], row[0]): row[head.index("scalarised")] for row in rows}
    assert known == {
        (str(seed), str(client)): shown(value)
        for seed in (1, 2)
        for client, value in enumerate(values["fedavg", seed])
    }
    page.get_by_label("Seed", exact=True).select_option("2")
    assert {row[2] for row in table(page, "Parallel coordinates")[1:]} == {"2"}
    again = watched.view(compared, "compare", item="comparison", entries="1", seed="2")
    assert [row[0] for row in table(again, MEASURES)[1:]] == ["fedavg", "trivial"]


def test_runs_from_the_list_are_compared(watched, compared, place, values) -> None:
    item = "comparison~fedavg_interior~seed-2"
    page = watched.view(compared, "compare", item=item)
    assert page.get_by_role("button", name="Compare", exact=True).is_disabled()
    page.get_by_role("checkbox", name="no-communication, seed 2").check()
    page.get_by_role("button", name="Compare 2 runs").click()
    page.wait_for_selector(".compare .people")
    head, *rows = table(page, MEASURES)
    column = head.index("mean scalarised ↑")
    cells = {row[0]: row[column].removeprefix("★ ") for row in rows}
    means = {entry: np.mean(values[entry, 2]) for entry in ENTRIES}
    assert {entry: cells[entry] for entry in ENTRIES} == {e: shown(v) for e, v in means.items()}
    assert "one seed gives no interval" in page.locator(".compare .people").inner_text()
    page.go_back()
    page.wait_for_function("() => document.querySelector('.compare .people') === null")


def test_the_cross_site_matrix_is_that_of_the_run(watched, compared, place) -> None:
    cross = run_of(place, "fedavg", 1).cross
    by_client, by_model = cross["scalarised_by_client"], cross["scalarised_by_model"]
    page = watched.view(compared, "compare", item="comparison~fedavg_interior~seed-1")
    title = "Every model on every client"
    rows = figure_table(page, title)[1:]
    assert [row[0] for row in rows] == [*cross["models"], "trivial"]
    assert [row[1:] for row in rows[:-1]] == [[shown(v) for v in row] for row in by_client]
    assert rows[-1][1:] == [shown(value) for value in cross["trivial"]]
    better = sum(
        any(row[i] > by_client[i][i] + TOLERANCE for row in by_client) for i in range(CLIENTS)
    )
    text = page.locator(".compare .lead").inner_text()
    assert text.startswith(f"Of 3 clients, {better} " if better else "Nobody's model")
    page.get_by_role("button", name="difference to own model").click()
    rows = table(page, title)[1:]
    assert [row[1] for row in rows[:-1]] == [shown(row[0] - by_client[0][0]) for row in by_client]
    page.get_by_role("button", name="value", exact=True).click()
    page.get_by_role("button", name="whose model it is").click()
    assert [row[1:] for row in table(page, title)[1:]] == [[shown(v) for v in r] for r in by_model]


def test_a_run_without_a_cross_site_matrix_says_how_to_make_it(watched, compared) -> None:
    page = watched.view(compared, "compare", item="comparison")
    page.get_by_label("Every model on every client, of the run").select_option(
        "comparison~fedavg_interior~seed-2"
    )
    page.wait_for_selector(".compare .code")
    text = page.locator(".compare .code pre").inner_text()
    assert text.startswith("comity cross ")
    assert text.endswith("fedavg_interior/seed-2")


def test_words_decide_as_comity_does() -> None:
    text = (Path(comity.__file__).parent / "explore" / "page" / "differences.js").read_text()
    constants = dict(re.findall(r"^const ([A-Z_]+) = ([\d.]+);", text, re.M))
    assert float(constants["TOLERANCE"]) == TOLERANCE
    assert int(constants["ENOUGH_SEEDS"]) == ENOUGH_SEEDS
    assert float(constants["SURE"]) == _SURE


def test_searches_are_compared(watched, compared, place) -> None:
    results = json.loads((place / "searches" / "searches.json").read_text())
    page = watched.view(compared, "compare", item="searches")
    head, *rows = table(page, MEASURES)
    column = head.index("hypervolume ↑")
    assert [row[0] for row in rows[:2]] == [row["search"] for row in results["rows"]]
    for row, cells in zip(results["rows"], rows, strict=False):
        metric = row["metrics"]["hypervolume"]
        text = f"{shown(metric['mean'])} ± {shown(metric['std'])}"
        assert cells[column].removeprefix("★ ") == text
    growth = figure_table(page, "Growth of the archive")[1:]
    means = [e["hypervolume"]["mean"] for row in results["rows"] for e in row["growth"]]
    assert [row[2] for row in growth] == [shown(mean, 4) for mean in means]


MANY, TIMES = 1_000, 5


def enlarged(document: dict[str, Any]) -> dict[str, Any]:
    """Return a comparison's document with many clients, seeds and three objectives."""
    rng = np.random.default_rng(1)
    names = [f"clinic {number}" for number in range(MANY)]
    seeds = list(range(1, TIMES + 1))
    document["problem"]["objectives"] = [
        {"name": name, "unit": "", "meaning": ""} for name in ("accuracy", "gender", "age")
    ]
    document["trivial_point"] = [0.5, 1.0, 1.0]
    document["vectors"] = [
        {
            "entry": entry,
            "seed": seed,
            "run": None,
            "name": names,
            "objectives": rng.random((MANY, 3)).round(4).tolist(),
            "preference": rng.dirichlet([1, 1, 1], MANY).round(4).tolist(),
            "scalarised": rng.random(MANY).round(4).tolist(),
        }
        for entry in (0, 1)
        for seed in seeds
    ]
    each = rng.normal(0, 0.1, (TIMES, MANY)).round(4)
    each[:, 500] = [0.9, 0.8, 0.9, 0.8, 0.9]
    mean = each.mean(axis=0).round(6).tolist()
    pair = {
        "entry": 1,
        "over": 0,
        "mean": 0.05,
        "std": 0.01,
        "each": [0.05] * TIMES,
        "interval": [0.03, 0.07],
        "p": 0.0004,
        "p_holm": 0.0004,
        "seeds": seeds,
        "counts": {"better": 2600, "level": 40, "worse": 2360},
        "clients": {
            "name": names,
            "each": each.tolist(),
            "mean": mean,
            "low": [value - 0.1 for value in mean],
            "high": [value + 0.1 for value in mean],
        },
    }
    return {**document, "differences": [pair]}


def test_a_thousand_clients_are_compared(watched: Watched, compared) -> None:
    watched.page.route(
        "**/item?id=comparison", lambda route: route.fulfill(json=enlarged(route.fetch().json()))
    )
    page = watched.view(compared, "compare", item="comparison")
    page.wait_for_function("() => document.querySelectorAll('.chart:has(canvas)').length === 5")
    words = page.locator(".compare .people").inner_text()
    assert "better for 2,600 of 5,000 clients of all seeds (40 level, 2,360 worse off)" in words
    assert words.endswith("over 5 seeds: better (p < 0.001 after Holm's correction).")
    rows = figure_table(page, "Difference per client")[1:]
    assert rows[0][:3] == ["clinic 500", "better", "0.8600"]
    assert len(rows) == 50
    figure = page.locator("figure", has=page.get_by_role("heading", name="Parallel coordinates"))
    figure.get_by_role("button", name="Table").click()
    head = table(page, "Parallel coordinates")[0]
    assert head == [
        *("client", "entry", "seed", "weight of accuracy", "weight of gender"),
        *("accuracy", "gender", "age", "scalarised"),
    ]
    assert page.get_by_role("button", name="Show 9,950 more rows").count() == 1
    page.get_by_label("Up", exact=True).select_option("2")
    watched.wait_for_address("y=2")
