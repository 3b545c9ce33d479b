"""The view of a running federation: it follows, and it says when the process is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from tests.e2e.conftest import TINY
from tests.explore.browser.conftest import serving


def test_a_run_is_followed_until_it_is_killed(watched, tmp_path) -> None:
    target = tmp_path / "running"
    command = [sys.executable, "-m", "comity", "run", "deep-sea-treasure", *TINY]
    command[command.index("--rounds") + 1] = "5000"
    process = subprocess.Popen(
        [*command, "--out", str(target)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 60
        while not (target / "history.jsonl").exists() and time.monotonic() < deadline:
            time.sleep(0.2)
        with serving(target) as address:
            page = watched.view(address, "live")
            done = "Number(document.querySelectorAll('.tile b')[1].innerText.split(' ')[0])"
            before = page.evaluate(done)
            page.wait_for_function(f"() => {done} > {before}")
            assert "of 5,000" in page.locator(".tile").nth(1).inner_text()
            assert page.locator(".tile b").first.inner_text() == "running"
            assert page.locator(".tile", has_text="time left").count() == 1
            page.wait_for_selector("figure canvas")
            os.kill(process.pid, signal.SIGKILL)
            process.wait(timeout=30)
            page.wait_for_function(
                "() => document.querySelector('.tile b').innerText === 'interrupted'"
            )
            assert f"comity resume {target}" in page.locator(".view").inner_text()
            page.goto("about:blank")
    finally:
        process.kill()
        process.wait(timeout=30)


def test_the_organiser_of_real_sites_sees_their_status_and_no_scores(watched, address) -> None:
    def served(route) -> None:
        document = route.fetch().json()
        history = document["history"]
        none = [None] * len(history["rounds"])
        for part in ("mean", "low", "high"):
            history[part] = dict.fromkeys(("kept", "trained", "received"), none)
        history["objectives"] = dict.fromkeys(("kept", "trained", "received"))
        history["clients"] = None
        site = {"name": "North", "rounds": 2, "bytes": 1_500, "seconds": 3.0, "last_seen": 1e9}
        document["site_status"] = {
            "exchange": "round 3: round",
            "updated": 1e9,
            "sites": [{**site, "fault": ""}, {**site, "name": "South", "fault": "no answer"}],
            "events": ["South did not answer in round 2."],
        }
        route.fulfill(json=document)

    watched.page.route("**/item?id=fedpref*", served)
    page = watched.view(address, "live", item="fedpref")
    section = page.locator("section", has=page.get_by_role("heading", name="Sites"))
    rows = section.locator("tbody tr").all_inner_texts()
    assert "1.50 kB" in rows[0]
    assert "2001" in rows[0]
    assert "no answer" in rows[1]
    assert "South did not answer in round 2." in section.inner_text()
    assert "only the sites have them" in page.locator("figure").first.inner_text()
