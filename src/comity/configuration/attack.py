"""Attacks as scenarios: which clients of a simulation attack, and how.

``sign-flip:3`` are three clients that send the opposite of what they learned, and
``scale:1,factor=100`` is one that exaggerates. What an attack does is in
`comity.federation.attacks`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from types import MappingProxyType

from comity.core.rng import stream
from comity.errors import UserError, unknown

NONE = "none"
"""The attack of a run in which all clients are honest."""
LABEL_FLIP = "label-flip"
"""The attack that is on data, not on messages."""
FACTORS = MappingProxyType(
    {
        NONE: None,
        "sign-flip": 3.0,
        "scale": 100.0,
        "size": 1000.0,
        "collude": 5.0,
        "ipm": 1.0,
        "alie": 0.0,
        LABEL_FLIP: None,
        "replay": None,
    }
)
"""All attacks, with their default factors; None: an attack without one."""


@dataclass(frozen=True)
class Attack:
    """An attack: its name, the number of attackers, and how strong it is."""

    name: str
    count: int
    factor: float

    def attackers(self, clients: int, seed: int) -> tuple[int, ...]:
        """Return the clients that attack, drawn at random: of more attackers, these and others.

        Args:
            clients: Number of clients of the federation.
            seed: Seed of the run.
        """
        drawn = stream(seed, "attack").permutation(clients)[: self.count]
        return tuple(sorted(drawn.tolist()))


def parse_attack(text: str) -> Attack:
    """Return the attack that ``NAME:COUNT`` or ``NAME:COUNT,factor=NUMBER`` describes.

    Args:
        text: The setting; ``none:3`` is a scenario in which three clients could attack and do not,
            so that its results are over the same honest clients.
    """
    if text == NONE:
        return Attack(NONE, 0, 0.0)
    match = re.fullmatch(r"([\w-]+):(\d{1,9})(?:,factor=([^,]+))?", text)
    if match is None:
        raise UserError(
            f"attack = '{text}': must be NAME:COUNT or NAME:COUNT,factor=NUMBER, e.g. sign-flip:3 "
            f"or scale:1,factor=100; names are {', '.join(FACTORS)}."
        )
    name, count, factor = match.groups()
    if name not in FACTORS:
        raise unknown("attack", name, FACTORS)
    default = FACTORS[name]
    if int(count) < 1:
        raise UserError(f"attack = '{text}': at least one client must attack; or say none.")
    if default is None and factor is not None:
        raise UserError(f"attack = '{text}': {name} has no factor; leave it out.")
    try:
        strength = (default or 0.0) if factor is None else float(factor)
    except ValueError:
        strength = math.nan
    if not 0 <= strength < math.inf:
        raise UserError(f"attack = '{text}': factor must be a number, zero or more.")
    return Attack(name, int(count), strength)


def split_attacks(text: str) -> list[str]:
    """Return ``"none,scale:1,factor=100,size:1"`` as a list of attacks."""
    attacks: list[str] = []
    for part in (part.strip() for part in text.split(",")):
        if part.startswith("factor=") and attacks:
            attacks[-1] += f",{part}"
        else:
            attacks.append(part)
    for attack in attacks:
        parse_attack(attack)
    return attacks


def attack_of(entry: str) -> tuple[str, str]:
    """Return an entry of a comparison without its attack, and the attack."""
    match = re.search(r"[\[,]attack=([^,\]]*)", entry)
    if match is None:
        return entry, NONE
    rest = entry[: match.start()] + ("[" if match[0][0] == "[" else "") + entry[match.end() :]
    return rest.replace("[,", "[").replace("[]", ""), match[1].replace(";", ",")
