"""Three members of a negotiation and their files, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from comity.configuration.charter import make_offer, read_offer
from comity.configuration.federation_file import read_federation
from comity.configuration.terms import read_terms
from comity.federation.consent import agree_on, answer, consent, read_answer
from comity.federation.keys import Keys

NAMES = ("deltasat", "northstar", "polaris")
DRAFT: dict[str, Any] = {
    "problem": "deep-sea-treasure",
    "rounds": 2,
    "dqn": {"local_steps": 300, "learning_starts": 16},
    "session": {"name": "treasure"},
}
NEGOTIABLE = {
    "steps": {"from": 50, "to": 600},
    "guard": [False, True],
    "patience": {"from": 60, "to": 3600},
}
TERMS: dict[str, dict[str, Any]] = {
    "northstar": {"accepts": {"steps": {"from": 50, "to": 200}, "guard": True}},
    "deltasat": {"accepts": {"steps": {"from": 100, "to": 400}}},
    "polaris": {"accepts": {"steps": {"from": 500, "to": 600}}},
}


class Partners:
    """Three members and their files in one directory."""

    def __init__(self, home: Path, keys: Mapping[str, Keys]) -> None:
        self.home, self.keys = home, dict(keys)

    def offer(self, draft: Mapping[str, Any] = DRAFT, table: Any = NEGOTIABLE) -> Path:
        pem = self.keys["server"].certificate.pem.decode()
        values = {**draft, "server": {"certificate": pem, **draft.get("server", {})}}
        return self.write("offer.toml", make_offer(values, table))

    def write(self, name: str, content: bytes | Mapping[str, Any]) -> Path:
        path = self.home / name
        data = content if isinstance(content, bytes) else tomli_w.dumps(content).encode()
        path.write_bytes(data)
        return path

    def answer(self, name: str, terms: Mapping[str, Any] | None = None) -> list[str]:
        """Write a member's answer and return the reasons for which it refuses."""
        limits = read_terms(self.terms(name, terms))
        made = read_offer(self.home / "offer.toml", limits.algorithms)
        content, reasons = answer(made, limits, name, self.keys[name])
        self.write(f"answer-{name}.toml", content)
        return reasons

    def terms(self, name: str, terms: Mapping[str, Any] | None = None) -> Path:
        return self.write(f"terms-{name}.toml", TERMS[name] if terms is None else terms)

    def agree(self, *names: str) -> Path:
        answers = [read_answer(self.home / f"answer-{n}.toml") for n in names or NAMES]
        content, self.outcome = agree_on(read_offer(self.home / "offer.toml"), answers)
        return self.write("charter.toml", content)

    def consent(self, name: str, terms: Mapping[str, Any] | None = None) -> Path:
        limits = read_terms(self.terms(name, terms))
        content = consent(read_federation(self.home / "charter.toml"), limits, self.keys[name])
        return self.write(f"consent-{name}.toml", content)
