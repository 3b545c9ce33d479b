"""Nothing leaves the machine, nobody enters without the token, and data stay data."""

from __future__ import annotations

from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from tests.explore.browser.conftest import HOSTILE


def test_without_the_token_there_is_nothing(watched, address) -> None:
    parts = urlsplit(address)
    for path in ("/", "/index", "/wrong-token/", "/wrong-token/index"):
        with pytest.raises(HTTPError) as refusal:
            urlopen(f"{parts.scheme}://{parts.netloc}{path}")
        assert refusal.value.code in (403, 404)
        refusal.value.close()
    watched.view(address, "items")
    assert all(urlsplit(url).path.startswith(parts.path) for url in watched.requests[1:])


def test_names_that_look_like_markup_are_only_text(watched, address, tmp_path) -> None:
    for name in ("verdict", "preference", "take-home", "mixing", "live", "compare"):
        page = watched.view(address, name, item="praffl", client=0)
        page.wait_for_timeout(150)
        for chart in page.locator("figure .chart canvas").all()[:2]:
            chart.hover(force=True)
        for button in page.get_by_role("button", name="Table").all():
            button.click()
        assert page.evaluate("window.hit") is None
        assert page.locator("img, #view script").count() == 0
    assert HOSTILE[0] in watched.view(address, "verdict", item="praffl").content().replace(
        "&lt;", "<"
    ).replace("&gt;", ">")
    page.wait_for_selector("figure canvas")
    with page.expect_download() as download:
        page.get_by_role("button", name="as SVG").first.click()
    download.value.save_as(tmp_path / "figure.svg")
    text = (tmp_path / "figure.svg").read_text()
    assert "<img" not in text
    assert "<script" not in text


def test_hostile_texts_everywhere_in_a_document_are_only_text(watched, address) -> None:
    def hostile(route) -> None:
        document = route.fetch().json()
        document.update(title=HOSTILE[1], path=HOSTILE[0], sampled=HOSTILE)
        document["facts"] = [[name, name] for name in HOSTILE]
        document["verdict"]["sentences"] = HOSTILE
        document["history"]["events"] = [[1, name] for name in HOSTILE]
        document["commands"]["report"] = HOSTILE[0]
        for objective in document["problem"]["objectives"]:
            objective["name"] += HOSTILE[0]
        route.fulfill(json=document)

    watched.page.route("**/item?id=fedpref*", hostile)
    for name in ("verdict", "preference", "take-home", "mixing", "live"):
        page = watched.view(address, name, item="fedpref")
        page.wait_for_timeout(150)
        assert page.evaluate("window.hit") is None
        assert page.locator("img, #view script").count() == 0
        assert HOSTILE[1] in page.title()
