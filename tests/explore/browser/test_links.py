"""The view of links: windows, ages and quality are those of the plan and of the run."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from comity.runs.directory import Run
from tests.explore.browser.conftest import serving
from tests.explore.browser.reading import downloaded, figure_table
from tests.explore.conftest import CREDIT, STEPS, finished

NAMES = ["atlas/1", "atlas/2", "granary/1"]
HOURS = [2, 8, 14, 20]
"""When the passes of the first client begin; each takes ten minutes."""


@pytest.fixture(scope="module")
def linked(tmp_path_factory) -> Run:
    """A run over four passes per client, the next client's a quarter of an hour later."""
    place: Path = tmp_path_factory.mktemp("links")
    rows = ["from,to,start,end,rate"]
    for hour in HOURS:
        for number, name in enumerate(NAMES):
            start = 3600 * hour + 900 * number
            rows.append(f"{name},ground/north,{start},{start + 600},9600")
            rows.append(f"ground/north,{name},{start},{start + 600},9600")
    (place / "contacts.csv").write_text("\n".join(rows))
    links = {"contacts": str(place / "contacts.csv"), "collect": "count:2"}
    return finished(place / "linked", problem=CREDIT, algorithm="fedavg", links=links, **STEPS)


@pytest.fixture(scope="module")
def linked_address(linked) -> Iterator[str]:
    with serving(linked.path) as address:
        yield address


def test_contacts_are_those_of_the_plan(watched, linked_address, linked, tmp_path) -> None:
    page = watched.view(linked_address, "links")
    pairs = page.locator(".links .facts").evaluate(
        "list => [...list.children].map(pair => [...pair.children].map(part => part.innerText))"
    )
    assert dict(pairs)["updates"] == str(linked.results["links"]["updates"])
    head, *rows = figure_table(page, "Contacts, messages and mixings")
    assert head[:4] == ["client", "contacts", "hours in contact", "longest wait (h)"]
    # ten minutes four times; from the end of a pass to the next one are 6 h less 10 minutes
    assert [row[:4] for row in rows] == [[name, "4", "0.667", "5.833"] for name in NAMES]
    assert sum(int(row[4]) for row in rows) == linked.results["links"]["updates"]
    text = downloaded(page, "Save all windows as CSV", tmp_path / "windows.csv")
    windows = [line for line in csv.reader(text.splitlines()) if line[1] == "in contact"]
    expected = {
        (name, hour + number / 4, hour + number / 4 + 1 / 6)
        for number, name in enumerate(NAMES)
        for hour in HOURS
    }
    assert {(n, round(float(a), 4), round(float(b), 4)) for n, _, a, b in windows} == {
        (name, round(start, 4), round(end, 4)) for name, start, end in expected
    }


def test_quality_is_that_of_the_rounds(watched, linked_address, linked) -> None:
    page = watched.view(linked_address, "links")
    for title in ("Quality against hours", "Quality against bytes"):
        rows = figure_table(page, title)[1:]
        history = [entry for entry in linked.history if entry.get("time") is not None]
        assert len(rows) == len(history) > 1
        sent = sum(entry["bytes_up"] + entry["bytes_down"] for entry in history)
        assert int(rows[-1][1].replace(",", "").split(".")[0]) == sent


def test_hours_are_chosen_by_the_keyboard(watched, linked_address) -> None:
    page = watched.view(linked_address, "links")
    page.wait_for_selector("figure canvas")
    page.get_by_role("button", name="Closer").focus()
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash.includes('from=5.167&to=15.500')")
    page.get_by_role("button", name="Later").press("Enter")
    page.wait_for_function("() => location.hash.includes('from=10.333&to=20.667')")
    assert page.locator("#status").inner_text() == "10.3 to 20.7 hours"
    page.get_by_role("button", name="All hours").press("Enter")
    page.wait_for_function("() => !location.hash.includes('from=')")


def crowded(document: dict[str, Any]) -> dict[str, Any]:
    """Return a run's document with 50 clients of 1,000 passes each, and late updates."""
    passes = [[hour, hour + 0.2] for hour in range(1_000)]
    document["links"].update(
        hours=1_000.0,
        rows=[
            {"name": f"unit/{number}", "passes": passes, "up": passes[::2], "down": passes[1::2]}
            for number in range(50)
        ],
        mixings=[hour + 0.5 for hour in range(1_000)],
        age={"rounds": [1, 2, 3], "mean": [0.0, 1.5, 0.5], "most": [0, 4, 1]},
    )
    return document


def test_fifty_clients_with_a_thousand_passes_each(watched, linked_address, tmp_path) -> None:
    watched.page.route(
        "**/item?id=*", lambda route: route.fulfill(json=crowded(route.fetch().json()))
    )
    page = watched.view(linked_address, "links")
    page.wait_for_selector("figure canvas")
    rows = figure_table(page, "Contacts, messages and mixings")[1:]
    assert len(rows) == 50
    assert rows[49] == ["unit/49", "1,000", "200.0", "0.800", "500", "500"]
    figure = page.locator("figure").first
    figure.get_by_role("button", name="Table").click()
    picture = "document.querySelector('figure canvas').toDataURL()"
    before = page.evaluate(picture)
    for _ in range(6):  # a 64th of the hours
        page.get_by_role("button", name="Closer").click()
    assert page.evaluate(picture) != before
    page.wait_for_function("() => location.hash.includes('from=492.188&to=507.813')")
    box = figure.locator("canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    svg = downloaded(
        page, "Save “Contacts, messages and mixings” as SVG", tmp_path / "contacts.svg"
    )
    texts = [element.text for element in ElementTree.fromstring(svg).iter() if element.text]
    assert "unit/49" in texts
    ages = figure_table(page, "Age of updates")[1:]
    assert ages == [["1", "0.000", "0"], ["2", "1.500", "4"], ["3", "0.500", "1"]]
