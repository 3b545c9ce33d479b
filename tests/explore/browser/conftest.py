"""Runs to look at, the server in a process of its own, and a browser that records what happens."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from comity.runs.compare import run_plan, start_comparison
from comity.searches.execution import execute_search, start_search
from tests.explore.conftest import CREDIT, STEPS, finished

CHROMIUM = Path("/usr/bin/chromium")
HOSTILE = ["<img src=x onerror=window.hit=1>", "</script><script>window.hit=1</script>", "plain"]
"""Names of clients that would run if they were taken for markup."""


@dataclass
class Watched:
    """A page of the browser, and what it did."""

    page: Any
    faults: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def view(self, address: str, name: str, **parameters: object) -> Any:
        """Open a view by its fragment, wait until it is drawn, and return the page.

        Args:
            address: The address of the page.
            name: The name of the view.
            **parameters: What else the fragment has.
        """
        query = "&".join(f"{key}={value}" for key, value in parameters.items())
        fragment = f"#{name}{'?' if query else ''}{query}"
        place = f".view.{name}" + (
            f'[data-item="{parameters["item"]}"]' if "item" in parameters else ""
        )
        here = self.page.url.partition("#")[0] == address
        if here and self.page.locator(place).count() == 0:
            self.page.evaluate("fragment => { location.hash = fragment; }", fragment)
        else:
            self.page.goto("about:blank")
            self.page.goto(f"{address}{fragment}")
        self.page.wait_for_selector(f"#view:not([aria-busy]) {place}")
        return self.page

    def wait_for_address(self, part: str) -> None:
        """Wait until the address has a part, which the page may write later than it is drawn.

        Args:
            part: Part of the fragment.
        """
        self.page.wait_for_function("part => location.hash.includes(part)", arg=part)


@pytest.fixture(scope="session")
def runs(tmp_path_factory) -> Path:
    """A directory with a run that takes any preference, fixed ones, a comparison and a search."""
    place = tmp_path_factory.mktemp("runs")
    spanning = {"problem": CREDIT, "algorithm": "praffl", "clients": 3, "rounds": 2}
    finished(place / "praffl", **spanning, names=HOSTILE)
    finished(place / "fedpref", problem=CREDIT, algorithm="fedpref", clients=4, rounds=3)
    three = {"problem": "adult-gender-race-dp", "algorithm": "fedavg", "clients": 2, "rounds": 1}
    finished(place / "three", **three, **STEPS)
    entries = {"algorithms": ["no-communication", "fedavg"], "seeds": 2}
    run_plan(start_comparison(CREDIT, **entries, clients=2, rounds=1, out=place / "comparison"))
    search = {"problem": CREDIT, "clients": 2, "rounds": 1, "iterations": 2, "candidates": 2}
    execute_search(start_search(search, place / "search"), 1)
    return place


@contextmanager
def serving(*paths: Path) -> Iterator[str]:
    """Serve directories by ``comity explore`` in a process of its own; yield the address.

    Args:
        *paths: The directories.
    """
    command = [sys.executable, "-m", "comity", "explore", *map(str, paths), "--no-browser"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        line = next(line for line in process.stdout if "http://" in line)
        yield line[line.index("http://") :].split()[0]
    finally:
        process.terminate()
        process.wait(timeout=30)
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture(scope="session")
def address(runs) -> Iterator[str]:
    """The address at which the runs are served."""
    with serving(runs) as address:
        yield address


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's Chromium, without a window."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="Browser tests need playwright: pip install comity[dev]."
    )
    if not CHROMIUM.exists():
        pytest.skip(f"Browser tests need Chromium at {CHROMIUM}: apt install chromium.")
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


@pytest.fixture
def watched(browser) -> Iterator[Watched]:
    """A fresh page; at the end it must have logged no error and asked nobody but loopback."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    watched = Watched(context.new_page())
    watched.page.set_default_timeout(20_000)
    watched.page.on("request", lambda request: watched.requests.append(request.url))
    watched.page.on("pageerror", lambda error: watched.faults.append(str(error)))
    watched.page.on(
        "console",
        lambda line: line.type in ("error", "warning") and watched.faults.append(line.text),
    )
    yield watched
    context.close()
    assert watched.faults == []
    schemes = ("data:", "blob:", "file:", "about:", "http://127.0.0.1:")
    assert [url for url in watched.requests if not url.startswith(schemes)] == []
