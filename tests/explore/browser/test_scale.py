"""A thousand clients and a thousand rounds: the page answers to the reader."""

from __future__ import annotations

import numpy as np

CLIENTS, ROUNDS = 1_000, 1_000


def enlarged(document: dict, clients: int = CLIENTS) -> dict:
    """Return a run's document with many clients, rounds and events."""
    rng = np.random.default_rng(1)
    weight = rng.random(clients)
    names = [f"clinic {number}" for number in range(clients)]
    marks = rng.choice(["gained", "level", "below"], clients).tolist()
    value, trivial = rng.random(clients).round(4), rng.random(clients).round(4)
    document["clients"] = {
        "number": list(range(clients)),
        "name": names,
        "label": names,
        "attacker": [False] * clients,
        "preference": np.stack([weight, 1 - weight], 1).round(4).tolist(),
        "objectives": rng.random((clients, 2)).round(4).tolist(),
        "last": None,
        "received": None,
        "scalarised": value.tolist(),
        "trivial": trivial.tolist(),
        "optimum": None,
        "gain": (value - trivial).tolist(),
        "mark": marks,
        "constant": None,
        "kept_round": [ROUNDS] * clients,
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
        participants=[clients] * ROUNDS,
        declined=[0] * ROUNDS,
        clusters=None,
        bytes_up=[10**6] * ROUNDS,
        bytes_down=[10**6] * ROUNDS,
        events=[[number, f"client {number} was absent"] for number in range(ROUNDS)],
        clients={
            "rounds": list(range(1, ROUNDS + 1, 10)),
            **{name: rng.random((ROUNDS // 10, clients)).round(3).tolist() for name in stages},
        },
    )
    document["mixing"] = None
    if clients <= 100:  # larger federations record no matrices
        rounds, matrices = list(range(1, 11)), rng.uniform(0.1, 1, (10, clients, clients)).round(3)
        document["mixing"] = {"rounds": rounds, "recorded": rounds, "matrices": matrices.tolist()}
    labels = [[0] * clients, (np.arange(clients) % 7).tolist()]
    order = sorted(range(clients), key=lambda client: (client % 7, client))
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

    page = watched.view(address, "mixing", item="fedpref")
    page.wait_for_selector("figure canvas")
    assert "1 at first, 7 at the end" in page.locator("figure").inner_text()

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


def test_the_matrix_of_a_hundred_clients_is_moved_through_its_rounds(watched, address) -> None:
    watched.page.route(
        "**/item?id=fedpref*",
        lambda route: route.fulfill(json=enlarged(route.fetch().json(), clients=100)),
    )
    page = watched.view(address, "mixing", item="fedpref", client=7)
    page.wait_for_selector("figure canvas")
    scrubber = page.get_by_role("slider", name="Round")
    scrubber.focus()
    for _ in range(4):
        page.keyboard.press("ArrowLeft")
    page.wait_for_function(
        "() => document.body.innerText.includes('clinic 7, round 6.')"
        " && location.hash.includes('round=6')"
    )
    assert page.locator(".scrubber output").inner_text() == "round 6 of 10"
    page.locator("figure", has_text="From whom this client got").get_by_role(
        "button", name="Table"
    ).click()
    # all clients gave, in the order of their shares
    assert page.get_by_role("button", name="Show 50 more rows").count() == 1
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("() => location.hash.includes('round=8')")


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
