"""A thousand clients and a thousand rounds: the page answers to the reader."""

from __future__ import annotations

import numpy as np

CLIENTS, ROUNDS = 1_000, 1_000


def enlarged(document: dict) -> dict:
    """Return a run's document with many clients, rounds and events."""
    rng = np.random.default_rng(1)
    weight = rng.random(CLIENTS)
    names = [f"clinic {number}" for number in range(CLIENTS)]
    marks = rng.choice(["gained", "level", "below"], CLIENTS).tolist()
    value, trivial = rng.random(CLIENTS).round(4), rng.random(CLIENTS).round(4)
    document["clients"] = {
        "number": list(range(CLIENTS)),
        "name": names,
        "label": names,
        "attacker": [False] * CLIENTS,
        "preference": np.stack([weight, 1 - weight], 1).round(4).tolist(),
        "objectives": rng.random((CLIENTS, 2)).round(4).tolist(),
        "last": None,
        "received": None,
        "scalarised": value.tolist(),
        "trivial": trivial.tolist(),
        "optimum": None,
        "gain": (value - trivial).tolist(),
        "mark": marks,
        "constant": None,
        "kept_round": [ROUNDS] * CLIENTS,
    }
    line = np.sort(rng.random(ROUNDS)).round(4).tolist()
    stages = {"kept": line, "trained": line, "received": line}
    history = document["history"]
    history.update(
        rounds=list(range(1, ROUNDS + 1)),
        mean=stages,
        low=stages,
        high=stages,
        objectives={name: [[v, v] for v in line] for name in stages},
        participants=[CLIENTS] * ROUNDS,
        declined=[0] * ROUNDS,
        clusters=None,
        bytes_up=[10**6] * ROUNDS,
        bytes_down=[10**6] * ROUNDS,
        events=[[number, f"client {number} was absent"] for number in range(ROUNDS)],
        clients={
            "rounds": list(range(1, ROUNDS + 1, 10)),
            **{name: rng.random((ROUNDS // 10, CLIENTS)).round(3).tolist() for name in stages},
        },
    )
    rounds = list(range(1, 11))
    matrices = rng.random((10, 100, 100)).round(3)
    document["mixing"] = {"rounds": rounds, "recorded": rounds, "matrices": matrices.tolist()}
    labels = [[0] * CLIENTS, (np.arange(CLIENTS) % 7).tolist()]
    order = sorted(range(CLIENTS), key=lambda client: (client % 7, client))
    document["clusters"] = {"rounds": [1, ROUNDS], "labels": labels, "order": order}
    document["similarity"] = None
    return document


def test_many_clients_and_rounds_stay_usable(watched, address) -> None:
    body = {}

    def answer(route) -> None:
        if not body:
            body.update(enlarged(route.fetch().json()))
        route.fulfill(json=body)

    watched.page.route("**/item?id=fedpref*", answer)
    page = watched.view(address, "verdict", item="fedpref")
    assert page.locator("section tbody tr").count() == 50
    page.get_by_label("Filter clients by name").fill("clinic 999")
    assert page.locator("section tbody tr").count() == 1
    page.get_by_label("Filter clients by name").fill("")
    page.get_by_role("button", name="Show 950 more rows").click()
    assert page.locator("section tbody tr").count() == CLIENTS
    page.get_by_role("button", name="gain", exact=True).click()
    first, last = [page.locator("section tbody tr").nth(row).inner_text() for row in (0, -1)]
    assert "gained" in first or "level" in first or "below" in first
    assert first != last

    page = watched.view(address, "live", item="fedpref", client=999)
    page.wait_for_selector("figure canvas")
    assert page.locator(".events li").count() == 200

    page.route("**/judge?*", lambda route: route.fulfill(json=judged(route.request.url)))
    page = watched.view(address, "preference", item="fedpref", client=500)
    page.wait_for_selector(".values td")
    slider = page.get_by_role("slider", name="Weight of fairness")
    slider.focus()
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    weight = float(slider.input_value())
    expected = f"{0.6 * (1 - weight) + 0.8 * weight:.3f}"
    page.wait_for_function(
        "text => document.querySelector('.total .now')?.innerText === text", arg=expected
    )


def judged(url: str) -> dict:
    """Return a judgement of fixed values at the preference of an address."""
    text = next(part for part in url.split("&") if part.startswith("preference="))
    weights = [float(weight) for weight in text.removeprefix("preference=").split(",")]
    test = {
        "rows": 10,
        "objectives": [0.6, 0.8],
        "scalarised": 0.6 * weights[0] + 0.8 * weights[1],
    }
    return {
        "preference": weights,
        "made": True,
        "how": "",
        "point": None,
        "parts": {"test": test, "validation": None},
        "baseline": None,
        "threshold": 0.5,
        "yes": None,
        "aspiration": None,
    }
