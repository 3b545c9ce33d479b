"""The settings of links, and the two small notations in them: durations and collection rules."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator

from comity.settings import Settings, setting

SECOND = 1_000
"""Milliseconds in a second: all times of a plan are whole milliseconds from its beginning."""
HOUR = 3_600 * SECOND
DAY = 24 * HOUR

_UNITS = {"s": SECOND, "m": 60 * SECOND, "h": HOUR, "d": DAY}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_HALF = "half"


def duration(text: str) -> int:
    """Return a duration in milliseconds: ``90s``, ``30m``, ``6h``, ``1.5d``.

    Raises:
        ValueError: The text is no duration, or one of 0.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not a duration like 90s, 30m, 6h or 1.5d")
    milliseconds = round(float(match[1]) * _UNITS[match[2]])
    if milliseconds < 1:
        raise ValueError(f"'{text}' must be above 0")
    return milliseconds


@dataclass(frozen=True)
class Collection:
    """The rule by which the server mixes: after some updates, after some time, or both."""

    count: int | None
    """Updates that make a mixing; None: only time does."""
    patience: int | None
    """Milliseconds that the first update waits for others before fewer are mixed; with ``count``
    None, time from one mixing to the next."""


def collection(rule: str, clients: int) -> Collection:
    """Return the meaning of ``all``, ``count:K``, ``count:K/DURATION`` or ``every:DURATION``.

    Args:
        rule: The rule; K is a number, or ``half``: ⌈n/2⌉.
        clients: Number n of clients.

    Raises:
        ValueError: The text is no such rule, or K is larger than the number of clients.
    """
    kind, _, rest = rule.partition(":")
    if rule == "all":
        return Collection(clients, None)
    if kind == "every" and rest:
        return Collection(None, duration(rest))
    if kind == "count" and rest:
        number, slash, patience = rest.partition("/")
        if number == _HALF or number.isdecimal():
            count = math.ceil(clients / 2) if number == _HALF else int(number)
            if not 1 <= count <= clients:
                raise ValueError(f"'{rule}' needs {count} updates of {clients} clients")
            return Collection(count, duration(patience) if slash else None)
    raise ValueError(f"'{rule}' is none of all, count:K, count:K/12h and every:6h")


def _valid_duration(text: str) -> str:
    duration(text)
    return text


def _valid_collection(rule: str) -> str:
    count = re.search(r"\d+", rule.partition("/")[0])
    collection(rule, max(1, int(count[0])) if count else 1)
    return rule


Duration = Annotated[str, AfterValidator(_valid_duration)]
CollectionRule = Annotated[str, AfterValidator(_valid_collection)]


class Links(Settings):
    """Settings of the links between clients and server; times on board, rules, radio."""

    contacts: str = setting(..., "the contact plan: a CSV file with from, to, start, end, rate")
    sha256: str = setting("", "SHA-256 of the plan in its canonical order; filled in")
    days: float = setting(0.0, "only this many days of the plan; 0: all of it", at_least=0)
    server: str = setting("ground/*", "nodes of the plan that are the server's, as a pattern")
    collect: CollectionRule = setting(
        "count:half/12h",
        "when the server mixes: all; count:K/DURATION: after K updates, or with fewer once the "
        "first has waited that long; every:DURATION",
    )
    work: Duration = setting("1h", "time on board for one round's training")
    waiting: Literal["pause", "train"] = setting(
        "pause",
        "what a client does until it can send: pause, or train whole rounds' work, 5 at most",
    )
    antennas: int = setting(1, "passes that a node of the server serves at once", at_least=1)
    relays: Literal["none", "same-operator", "any"] = setting(
        "none", "other clients that may carry a message, whole within one contact per hop"
    )
    start: Literal["loaded", "sent"] = setting(
        "loaded", "the first model is on board, or is sent over the links, too"
    )
    overhead: float = setting(1.02, "bytes on the link per byte of a message", at_least=1)
    oldest: int = setting(
        8, "mixings of its model that an update may have missed to be mixed", at_least=0
    )
    damp: float = setting(
        0.0, "exponent d of the weight (1 + age)^-d of an update that is late", at_least=0
    )
    rebase: bool = setting(
        True, "measure late updates from the present model; false: for comparison only"
    )
    watts: float = setting(0.0, "power of a client's transmitter; 0: unknown", at_least=0)
