"""The saved page: one file, no server, the same views and numbers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.explore.browser.test_numbers import shown, values
from tests.explore.browser.test_views import VIEWS


@pytest.fixture(scope="module")
def saved(runs, tmp_path_factory) -> Path:
    """A saved page with all runs."""
    target = tmp_path_factory.mktemp("saved") / "page.html"
    command = [sys.executable, "-m", "comity", "explore", str(runs), "--save", str(target)]
    subprocess.run(command, check=True, capture_output=True)
    return target


def test_a_saved_page_shows_every_view_without_a_server(watched, saved) -> None:
    assert saved.stat().st_size < 5_000_000
    address = saved.as_uri()
    for item, names in VIEWS.items():
        page = watched.view(address, "verdict", item=item)
        for name in page.locator("#views a").evaluate_all("links => links.map(l => l.hash)"):
            page = watched.view(address, name[1:].split("?")[0], item=item)
            assert page.locator(".view .fault").count() == 0
        assert set(names) - {"compare"} <= {
            link.split("?")[0][1:]
            for link in page.locator("#views a").evaluate_all("links => links.map(l => l.hash)")
        }
    assert not [url for url in watched.requests if url.startswith("http")]


def test_its_slider_has_the_values_of_the_grid(watched, saved, address) -> None:
    with urlopen(f"{address}grid?id=praffl&client=1") as answer:
        grid = json.load(answer)
    preferences, test = grid["preferences"], grid["test"]
    assert isinstance(preferences, list)
    place = min(range(len(preferences)), key=lambda index: abs(preferences[index][0] - 0.9))
    page = watched.view(saved.as_uri(), "preference", item="praffl", client=1, w="0.9,0.1")
    page.wait_for_selector(".values td")
    assert values(page)["accuracy"] == shown(test[place][0])
    assert values(page)["fairness"] == shown(test[place][1])
    page.get_by_role("slider", name="Weight of fairness").focus()
    page.keyboard.press("End")
    last = min(range(len(preferences)), key=lambda index: preferences[index][0])
    page.wait_for_function(
        "text => document.querySelector('[data-objective=accuracy] .now').innerText === text",
        arg=shown(test[last][0]),
    )


@pytest.mark.parametrize("levels", ["0.7,", ",0.99", "0.99,0.99"])
def test_its_levels_choose_what_the_server_chooses(watched, saved, address, levels) -> None:
    call = f"judge?id=praffl&client=1&preference=0.5,0.5&aspiration={levels}"
    with urlopen(f"{address}{call}") as answer:
        judgement = json.load(answer)
    page = watched.view(saved.as_uri(), "preference", item="praffl", client=1, a=levels)
    page.wait_for_selector(".values td")
    test = judgement["parts"]["test"]["objectives"]
    assert [values(page)[name] for name in ("accuracy", "fairness")] == [shown(v) for v in test]
    met = page.locator(".aspiration").inner_text() == "All levels are reached."
    assert met == judgement["aspiration"]["met"]


def test_names_that_look_like_markup_are_only_text_in_a_saved_page(watched, saved) -> None:
    page = watched.view(saved.as_uri(), "verdict", item="praffl")
    assert page.evaluate("window.hit") is None
    assert page.locator("img").count() == 0
