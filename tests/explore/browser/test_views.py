"""Every view of every kind of item, in a browser."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

VIEWS = {
    "praffl": ["verdict", "preference", "take-home", "mixing", "live", "compare"],
    "fedpref": ["verdict", "preference", "take-home", "mixing", "live", "compare"],
    "three": ["verdict", "preference", "take-home", "mixing", "live"],
    "search": ["verdict", "preference", "live"],
    "comparison": ["verdict", "compare"],
}


@pytest.mark.parametrize("item", VIEWS)
def test_every_view_is_drawn_without_errors(watched, address, item) -> None:
    page = watched.view(address, "verdict", item=item)
    links = page.locator("#views a").evaluate_all("links => links.map(link => link.hash)")
    assert [link[1:].split("?")[0] for link in links] == VIEWS[item]
    for name in VIEWS[item]:
        page.locator(f'#views a[href^="#{name}"]').click()
        page.wait_for_selector(f"#view:not([aria-busy]) .view.{name}")
        page.wait_for_function(
            "() => [...document.querySelectorAll('figure .chart')]"
            ".every(chart => chart.clientWidth === 0 || chart.querySelector('canvas, svg'))"
        )
        assert page.locator(".view .fault").count() == 0
        assert len(page.locator(".view").inner_text()) > 100


def test_all_items_are_listed_and_lead_to_their_verdicts(watched, address) -> None:
    page = watched.view(address, "items")
    assert page.locator("tbody tr").count() == 9  # five directories, four runs in the comparison
    page.get_by_role("button", name="fedpref", exact=True).click()
    page.wait_for_selector(".view.verdict")
    watched.wait_for_address("item=fedpref")
    assert "4 clients" in page.locator(".sentences").inner_text()


def test_the_address_holds_the_state_and_back_leaves_a_view(watched, address) -> None:
    page = watched.view(address, "preference", item="praffl", client=2, w="0.8,0.2")
    assert page.locator(".side select").evaluate("field => field.selectedOptions[0].text") == (
        "plain"
    )
    assert float(page.get_by_role("slider", name="Weight of fairness").input_value()) == 0.2
    page.locator('#views a[href^="#verdict"]').click()
    page.wait_for_selector(".view.verdict")
    page.go_back()
    page.wait_for_selector(".view.preference")
    watched.wait_for_address("w=0.8,0.2")


def test_nothing_is_wider_than_a_phone(watched, address) -> None:
    watched.page.set_viewport_size({"width": 360, "height": 740})
    for item, names in VIEWS.items():
        for name in names:
            page = watched.view(address, name, item=item)
            page.wait_for_timeout(100)
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= 360, f"{item}, {name}: {width} px"


def test_the_colours_switch_and_charts_follow(watched, address) -> None:
    page = watched.view(address, "verdict", item="fedpref")
    page.wait_for_selector("figure canvas")
    picture = "document.querySelector('figure canvas').toDataURL()"
    before = page.evaluate(picture)
    page.locator("#theme").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.wait_for_function(f"() => {picture} !== {before!r}")


def test_figures_are_saved_as_svg_and_shown_as_tables(watched, address, tmp_path) -> None:
    page = watched.view(address, "verdict", item="fedpref")
    page.wait_for_selector("figure canvas")
    with page.expect_download() as download:
        page.get_by_role("button", name="as SVG").first.click()
    download.value.save_as(tmp_path / "figure.svg")
    drawing = ElementTree.parse(tmp_path / "figure.svg").getroot()
    assert drawing.tag.endswith("}svg")
    assert "client 3" in "".join(drawing.itertext())
    page.locator("figure").get_by_role("button", name="Table").click()
    assert page.locator("figure tbody tr").count() == 4
