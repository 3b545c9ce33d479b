"""A negotiation by the command line: from an offer to a federation of real processes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tomli_w
from benchmarks.parties import BANKS, Parties, call
from safetensors.numpy import load_file

from comity.configuration.federation_file import read_federation

BANK_TERMS = {
    "bank-a": {"algorithms": ["fedpref"], "accepts": {"steps": {"from": 5, "to": 20}}},
    "bank-b": {"accepts": {"steps": {"from": 10, "to": 40}, "guard": True}},
    "bank-c": {"accepts": {"guard": [False, True]}},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """The files of three banks and a server after a negotiation, up to the charter."""
    home = tmp_path_factory.mktemp("partners")

    def done(*arguments: object, code: int = 0) -> str:
        found, text = call(home, *arguments)
        assert found == code, text
        assert "Traceback" not in text
        return text

    for name in ("server", *BANK_TERMS):
        done("keys", name)
    offer = done(
        *("charter", "offer", BANKS / "federation.toml", "--rounds", 2, "--out", "offer.toml"),
        *("--certificate", "server.crt", "--negotiate", "steps=5..40"),
        *("--negotiate", "guard=false,true", "--set", "server.transport=files"),
        *("--set", "server.address=exchange"),
    )
    assert "Negotiable: steps: 5 to 40; guard: false or true." in offer
    for name, terms in BANK_TERMS.items():
        (home / f"{name}-terms.toml").write_text(tomli_w.dumps(terms))
        arguments = ("--terms", f"{name}-terms.toml", "--key", f"{name}.key")
        text = done("charter", "answer", "offer.toml", *arguments, "--out", f"answer-{name}.toml")
        assert f"{name} accepts offer" in text
    # federation.toml: the name that `benchmarks.parties` gives to the file of all parties
    text = done(
        *("charter", "agree", "offer.toml", *(f"answer-{name}.toml" for name in BANK_TERMS)),
        *("--out", "federation.toml", "--json"),
    )
    found = json.loads(text)
    assert found["values"] == {"steps": 20, "guard": True}  # 20: nearest to 25, the offered one
    assert list(found["members"]) == list(BANK_TERMS)
    for name in BANK_TERMS:
        values = {
            "name": name,
            "federation": "federation.toml",
            "preference": [0.8, 0.2],
            "data": str(BANKS / f"{name}.csv"),
            "key": f"{name}.key",
            "terms": f"{name}-terms.toml",
        }
        (home / f"{name}.toml").write_text(tomli_w.dumps(values))
    return home


def test_a_charter_is_served_and_joined_as_it_is_with_the_bits_of_its_simulation(home):
    sites = [word for name in BANK_TERMS for word in ("--site", f"{name}.toml")]
    code, text = call(home, "run", "--charter", "federation.toml", *sites, "--out", "simulated")
    assert code == 0, text
    file = read_federation(home / "federation.toml")
    with Parties(file) as parties:
        parties.start()
        codes = parties.wait()
        assert not any(codes.values()), [parties.log(party) for party in codes]
    for number, name in enumerate(BANK_TERMS):
        models = [
            load_file(home / place / "models" / f"client-{number}.safetensors")
            for place in ("simulated", name)
        ]
        assert list(models[0]) == list(models[1])
        assert all(np.array_equal(models[0][key], models[1][key]) for key in models[0])
    code, text = call(home, "charter", "show", "federation.toml", "server", "--json")
    assert code == 0, text
    shown = json.loads(text)
    assert (shown["state"], shown["identity"]) == ("closed", file.identity)


def test_consents_are_shown_once_they_are_verified(home):
    for name in ("bank-a", "bank-b"):
        arguments = ("--terms", f"{name}-terms.toml", "--key", f"{name}.key")
        code, text = call(
            *(home, "charter", "consent", "federation.toml", *arguments),
            *("--out", f"consent-{name}.toml"),
        )
        assert code == 0, text
    code, text = call(home, "charter", "show", "federation.toml", "consent-bank-a.toml", "--json")
    assert json.loads(text)["state"] == "agreed"
    both = ("consent-bank-a.toml", "consent-bank-b.toml")
    code, text = call(home, "charter", "show", "federation.toml", *both)
    assert code == 0, text
    for words in ("consented", "20 steps", "bank-c", "table 6.2", "table 6.3", "encoding none"):
        assert words in text


REFUSALS = {
    "a refusal": (
        ("charter", "answer", "offer.toml", "--terms", "strict.toml", "--key", "bank-a.key"),
        (3, "bank-a refuses: algorithms: this federation runs fedpref; the site allows fedavg"),
    ),
    "too few": (
        ("charter", "agree", "offer.toml", "answer-bank-a.toml"),
        (3, "no charter: at most 1 members accept the same, quorum = 2"),
    ),
    "no name": (
        ("charter", "answer", "offer.toml", "--terms", "strict.toml"),
        (2, "name is missing: add --name NAME"),
    ),
    "the name of another": (
        ("charter", "answer", "offer.toml", "--terms", "strict.toml", "--key", "bank-a.key",
         "--name", "bank-b"),
        (2, "--name bank-b: bank-a.key is the key of 'bank-a'"),
    ),
    "no offer": (
        ("charter", "agree", "federation.toml", "answer-bank-a.toml"),
        (2, "federation.toml is not an offer"),
    ),
    "an unknown field": (
        ("charter", "offer", "deep-sea-treasure", "--negotiate", "step=1..2"),
        (2, "unknown field of negotiable 'step'. Did you mean 'steps'?"),
    ),
    "another setting": (
        ("run", "--charter", "federation.toml", "--rounds", "3"),
        (2, "rounds: the charter decides it; leave it out"),
    ),
    "a site alone": (("run", "deep-sea-treasure", "--site", "bank-a.toml"), (2, "--site means")),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals_are_one_line_with_an_exit_code(case, home):
    (home / "strict.toml").write_text('algorithms = ["fedavg"]\n')
    arguments, (code, text) = REFUSALS[case]
    out = home / f"{case.replace(' ', '-')}.toml"
    out.unlink(missing_ok=True)
    assert call(home, *arguments, "--out", out)[0] == code
    assert text in (home / "call.log").read_text()
    assert "Traceback" not in (home / "call.log").read_text()
    assert out.exists() == (case == "a refusal")  # the organiser is told the reasons


def test_a_document_is_never_replaced(home):
    code, text = call(home, "charter", "offer", "deep-sea-treasure", "--out", "offer.toml")
    assert (code, "offer.toml exists already" in text) == (2, True)
