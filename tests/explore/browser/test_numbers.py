"""What the reader moves, and the numbers that follow."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from typing import Any
from urllib.request import urlopen

import numpy as np

import comity
from comity.runs.base import GROUPS
from tests.explore.browser.conftest import HOSTILE


def asked(address: str, call: str) -> Any:
    """Return what the server answers."""
    with urlopen(f"{address}{call}") as answer:
        return json.load(answer)


def values(page: Any, column: str = ".now") -> dict[str, str]:
    """Return the values in the table beside the slider, by objective."""
    rows = page.locator(".values tbody tr").evaluate_all(
        f"rows => rows.map(row => [row.dataset.objective, row.querySelector('{column}').innerText])"
    )
    return dict(rows)


def shown(value: float) -> str:
    """Return a number as the page prints it."""
    return f"{value:.3f}".replace("-", "−")


def test_at_its_own_preference_a_client_has_the_values_of_the_results(
    watched, address, runs
) -> None:
    results = comity.open(runs / "praffl").results
    for client in (0, 2):
        page = watched.view(address, "preference", item="praffl", client=client)
        page.wait_for_selector(".values td")
        expected = results["per_client"][client]
        names = {name: shown(value) for name, value in expected["objectives"].items()}
        assert values(page) == {**names, "weighted sum": shown(expected["scalarised"])}


def test_the_slider_makes_other_models_whose_values_are_the_judge_s(watched, address) -> None:
    page = watched.view(address, "preference", item="praffl", client=1)
    page.wait_for_selector(".values td")
    slider = page.get_by_role("slider", name="Weight of fairness")
    slider.focus()
    page.keyboard.press("Home")
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    watched.wait_for_address("w=0.95,0.05")
    judgement = asked(address, "judge?id=praffl&client=1&preference=0.95,0.05")
    test = judgement["parts"]["test"]
    expected = dict(zip(("accuracy", "fairness"), map(shown, test["objectives"]), strict=True))
    expected["weighted sum"] = shown(test["scalarised"])
    page.wait_for_function(
        "text => document.querySelector('.total .now')?.innerText === text",
        arg=expected["weighted sum"],
    )
    assert values(page) == expected
    assert judgement["how"] in page.locator(".side").inner_text()
    page.wait_for_function("() => document.getElementById('status').innerText.includes('0.95')")


def test_while_dragging_one_question_is_open_and_the_newest_wins(watched, address) -> None:
    page = watched.view(address, "preference", item="praffl", client=1)
    page.wait_for_selector(".values td")
    open_now, most = [0], [0]

    def slow(route: Any) -> None:
        open_now[0] += 1
        most[0] = max(most[0], open_now[0])
        answer = route.fetch()
        open_now[0] -= 1
        route.fulfill(response=answer)

    page.route("**/judge?*", slow)
    before = len([url for url in watched.requests if "judge?" in url])
    page.get_by_role("slider", name="Weight of fairness").evaluate(
        """slider => { for (let i = 0; i <= 40; i += 1) {
            slider.value = i / 50; slider.dispatchEvent(new Event('input', {bubbles: true})); } }"""
    )
    test = asked(address, "judge?id=praffl&client=1&preference=0.2,0.8")["parts"]["test"]
    page.wait_for_function(
        "text => document.querySelector('.total .now')?.innerText === text",
        arg=shown(test["scalarised"]),
    )
    calls = [url for url in watched.requests if "judge?" in url][before:]
    assert most == [1]
    assert len(calls) == 2  # the first value and the last
    assert "preference=0.2,0.8" in calls[-1]


def test_a_fixed_model_is_only_weighed_anew(watched, address, runs) -> None:
    client = comity.open(runs / "fedpref").results["per_client"][0]
    accuracy, fairness = client["objectives"].values()
    page = watched.view(address, "preference", item="fedpref", client=0, w="0.25,0.75")
    page.wait_for_selector(".values td")
    assert values(page)["weighted sum"] == shown(0.25 * accuracy + 0.75 * fairness)
    assert values(page)["accuracy"] == shown(accuracy)
    assert "takes no preference" in page.locator(".side").inner_text()


def test_levels_choose_the_model_that_the_judge_chooses(watched, address) -> None:
    page = watched.view(address, "preference", item="praffl", client=0)
    page.wait_for_selector(".values td")
    page.get_by_role("button", name="At least").click()
    page.get_by_label("accuracy at least").fill("0.7")
    page.wait_for_function("() => location.hash.includes('a=0.7,')")
    judgement = asked(
        address, "judge?id=praffl&client=0&preference=0.5,0.5&aspiration=0.7,&threshold=0.5"
    )
    page.wait_for_function(
        "text => document.querySelector('.aspiration').innerText === text",
        arg=judgement["aspiration"]["text"],
    )
    test = judgement["parts"]["test"]["objectives"]
    assert [values(page)[name] for name in ("accuracy", "fairness")] == [shown(v) for v in test]


def test_rates_per_attribute_value_are_those_of_the_run(watched, address, runs) -> None:
    groups = json.loads((runs / "fedpref" / GROUPS).read_text())["clients"][1]
    page = watched.view(address, "preference", item="fedpref", client=1)
    page.get_by_role("heading", name="Answers").wait_for()
    page.locator("section figure").get_by_role("button", name="Table").click()
    rows = page.locator("section figure tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.innerText))"
    )
    printed = {row[0]: row[1:4] for row in rows}
    for name, value in {"all": groups["all"], **groups["attributes"]["gender"]["values"]}.items():
        label = name if name == "all" else f"gender {name}"
        rates = [value[key]["value"] for key in ("selection_rate", "true_positive_rate")]
        assert printed[label] == [str(value["rows"]), *map(shown, rates)]


def test_the_threshold_changes_answers_and_says_for_how_many_people(watched, address) -> None:
    page = watched.view(address, "preference", item="fedpref", client=1)
    page.get_by_role("heading", name="Answers").wait_for()
    assert page.locator(".people").inner_text().startswith("Of 1,000 people, none")
    yes = asked(address, "judge?id=fedpref&client=1&preference=0.5,0.5")["yes"]
    packed = yes["counts"]
    counts = np.frombuffer(base64.b64decode(packed["data"]), packed["dtype"])
    counts = counts.reshape(packed["shape"]).astype(int)
    place = yes["thresholds"].index(0.9)
    half = yes["thresholds"].index(0.5)
    all_ = yes["groups"].index(next(g for g in yes["groups"] if g["value"] == "all"))
    rows = yes["groups"][all_]["negatives"] + yes["groups"][all_]["positives"]

    def wrong(index: int) -> int:
        no, right = counts[all_][0][index], counts[all_][1][index]
        return int(no + yes["groups"][all_]["positives"] - right)

    page.locator(".threshold input").evaluate(
        "range => { range.value = 0.9; range.dispatchEvent(new Event('input')); }"
    )
    page.wait_for_function(
        "() => document.querySelector('.people').innerText.includes('fewer with')"
    )
    change = round(1000 * (wrong(place) - wrong(half)) / rows)
    words = f"{abs(change)} {'more' if change > 0 else 'fewer'} answers are wrong"
    assert words in page.locator(".people").inner_text()
    watched.wait_for_address("t=0.9")


def test_a_preference_whose_digits_were_cut_is_still_answered(watched, address) -> None:
    def cut(route: Any) -> None:
        document = route.fetch().json()
        document["clients"]["preference"][0] = [0.186082, 0.405235, 0.408682]  # 0.999999 in all
        route.fulfill(json=document)

    watched.page.route("**/item?id=three*", cut)
    page = watched.view(address, "preference", item="three", client=0)
    page.wait_for_selector(".values td")
    asked_for = [url for url in watched.requests if "judge?" in url][-1]
    text = asked_for.partition("preference=")[2].partition("&")[0]
    assert sum(map(Decimal, text.split(","))) == 1


def test_the_triangle_moves_by_keys_and_by_numbers(watched, address) -> None:
    page = watched.view(address, "preference", item="three", client=0, w="0.4,0.3,0.3")
    page.wait_for_selector(".values td")
    page.locator(".triangle").focus()
    page.keyboard.press("ArrowUp")
    weights = [float(field.input_value()) for field in page.locator(".weights input").all()]
    assert weights[0] > 0.4
    assert abs(sum(weights) - 1) < 0.002
    field = page.get_by_label("accuracy", exact=True)
    field.fill("0.8")
    field.press("Enter")
    page.wait_for_function("() => location.hash.includes('w=0.8,0.1,0.1')")


def test_more_objectives_have_one_bar_each_and_share_the_rest(watched, address) -> None:
    names = ["accuracy", "dp", "eo", "eodds"]

    def widened(route: Any) -> None:
        document = route.fetch().json()
        document["problem"]["objectives"] = [{"name": name} for name in names]
        count = len(document["clients"]["number"])
        document["clients"]["objectives"] = [[0.7, 0.8, 0.9, 1.0]] * count
        document["clients"]["preference"] = [[0.4, 0.3, 0.2, 0.1]] * count
        document.update(front=[[0.7, 0.8, 0.9, 1.0]], trivial_point=[0.6, 1.0, 1.0, 1.0])
        route.fulfill(json=document)

    def weighed(route: Any) -> None:
        text = route.request.url.partition("preference=")[2].partition("&")[0]
        weights = [float(weight) for weight in text.split(",")]
        test = {"rows": 9, "objectives": [0.7, 0.8, 0.9, 1.0], "scalarised": weights[0]}
        parts = {"test": test, "validation": None}
        empty = dict.fromkeys(("point", "baseline", "yes", "aspiration"))
        route.fulfill(json={"preference": weights, "how": "", "parts": parts, **empty})

    watched.page.route("**/item?*", widened)
    watched.page.route("**/judge?*", weighed)
    page = watched.view(address, "preference", item="fedpref")
    page.wait_for_selector(".values td")
    page.get_by_role("slider", name="Weight of accuracy").evaluate(
        "bar => { bar.value = 0.7; bar.dispatchEvent(new Event('input')); }"
    )
    # what is left, 0.3 instead of 0.6, is shared as before
    assert page.locator(".bars output").all_inner_texts() == ["0.70", "0.15", "0.10", "0.05"]
    page.wait_for_function(
        "() => document.querySelector('.total .now').innerText === '0.700'"
        " && location.hash.includes('w=0.7,0.15,0.1,0.05')"
    )


def test_the_search_shows_the_best_point_of_its_front(watched, address, runs) -> None:
    front = comity.open(runs / "search").results["front"]
    page = watched.view(address, "preference", item="search", w="0.9,0.1")
    page.wait_for_selector(".values td")
    best = max(
        front, key=lambda p: 0.9 * p["objectives"]["accuracy"] + 0.1 * p["objectives"]["fairness"]
    )
    assert values(page)["accuracy"] == shown(best["objectives"]["accuracy"])


def test_names_of_clients_are_those_of_the_run(watched, address) -> None:
    page = watched.view(address, "verdict", item="praffl")
    names = page.locator("section tbody th").all_inner_texts()
    assert names == HOSTILE
