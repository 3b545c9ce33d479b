"""Malformed documents of a negotiation: refused in words, never by a traceback."""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from comity.configuration import read_toml
from comity.configuration.charter import read_offer
from comity.configuration.federation_file import read_federation
from comity.configuration.terms import read_terms
from comity.errors import RefusedError, UserError
from comity.federation.consent import agree_on, answer, read_answer, read_consent
from comity.federation.keys import make_keys
from comity.federation.policy import charter_faults
from comity.runs.session import describe, offer_state
from tests.federation.partners import DRAFT, NAMES, Partners

BANKS = Path(__file__).parents[2] / "examples" / "banks" / "federation.toml"


@pytest.fixture(scope="module", params=["environment", "rows"])
def agreed(request, tmp_path_factory) -> Partners:
    """A negotiation that has ended, on an environment and on rows of members' own."""
    home = tmp_path_factory.mktemp(request.param)
    partners = Partners(home, {name: make_keys(name, home) for name in (*NAMES, "server")})
    rows = {k: v for k, v in read_toml(BANKS).items() if k != "sites"}
    partners.offer(
        {**rows, "supervised": {"local_steps": 300}} if request.param == "rows" else DRAFT
    )
    for name in NAMES:
        assert partners.answer(name) == []
    partners.agree()
    partners.consent("northstar")
    use(partners)
    return partners


ODD: list[Any] = [
    None, True, -1, 0, 10**30, 2.5, float("nan"), float("inf"), "", "x" * 100, "a\nb", "fedavg",
    "none", [], [1, "a"], [[]], {}, {"from": 1}, {"a": {"b": 1}}, date(2026, 1, 1), "module:thing",
]  # fmt: skip
"""Values that some field does not expect; None removes the field."""


def mutated(values: Mapping[str, Any], draw: random.Random) -> dict[str, Any]:
    """Return values with one of them, at any depth, replaced, removed or renamed."""
    changed = copy.deepcopy(dict(values))
    table = changed
    while True:
        key = draw.choice(list(table))
        if isinstance(table[key], dict) and table[key] and draw.random() < 0.7:
            table = table[key]
            continue
        odd = draw.choice(ODD)
        if odd is None:
            del table[key]
        elif draw.random() < 0.1:
            table[f"{key}-"] = table.pop(key)
        else:
            table[key] = odd
        return changed


def broken(content: bytes, draw: random.Random) -> bytes:
    """Return bytes of which some were changed, cut or repeated."""
    data = bytearray(content)
    at = draw.randrange(len(data))
    kind = draw.randrange(4)
    if kind == 0:
        data[at] = draw.randrange(256)
    elif kind == 1:
        del data[at : at + draw.randrange(1, 40)]
    elif kind == 2:
        data[at:at] = data[at : at + draw.randrange(1, 200)]
    else:
        data[at:at] = b"[" * draw.choice((1, 5000))
    return bytes(data)


def use(partners: Partners) -> None:
    """Do everything that a party does with the documents."""
    limits = read_terms(partners.home / "terms-northstar.toml")
    offer = read_offer(partners.home / "offer.toml", limits.algorithms)
    answer(offer, limits, "northstar", None)
    answers = [read_answer(partners.home / f"answer-{name}.toml") for name in NAMES]
    offer_state(offer, answers)
    agree_on(offer, answers)
    file = read_federation(partners.home / "charter.toml", limits.algorithms)
    describe(file)
    charter_faults(limits, file)
    read_consent(partners.home / "consent-northstar.toml", file)


@pytest.mark.parametrize(
    "name",
    [
        "offer.toml", "terms-northstar.toml", "answer-northstar.toml", "charter.toml",
        "consent-northstar.toml",
    ],
)  # fmt: skip
def test_malformed_documents_are_refused_in_words(name, agreed):
    path, draw = agreed.home / name, random.Random(f"fuzz {name}")
    content, refused = path.read_bytes(), 0
    for number in range(50):
        if number % 2:
            path.write_bytes(broken(content, draw))
        else:
            path.write_text(tomli_w.dumps(mutated(read_toml(path), draw)))
        try:
            use(agreed)
        except (UserError, RefusedError):
            refused += 1
        path.write_bytes(content)
    assert refused > 20
