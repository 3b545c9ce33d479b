"""Negotiation: ranges of values, and the combination that most members accept as a whole.

Pure functions of an offer's ranges and the set of answers: the order of answers changes nothing.
Deciding field by field would be wrong: it can leave out members for whom a common choice exists.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import tomli_w

from comity.errors import UserError, unknown

Value = bool | int | float | str
"""A value of a negotiable field."""
Kind = Literal["count", "seconds", "flag", "word"]
"""What a field holds: a whole number, a duration, true or false, a name."""
FIELDS: dict[str, Kind] = {
    "steps": "count",
    "waiting": "word",
    "guard": "flag",
    "encoding": "word",
    "model_format": "word",
    "patience": "seconds",
    "server_silent": "seconds",
    "relays": "word",
}
"""Negotiable fields by name."""
_MOST = 100  # values in one list
_LARGEST = 1e9  # number


def in_words(value: Value) -> str:
    """Return a value as tables and sentences have it: ``true``, ``900``, ``int8``."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


@dataclass(frozen=True)
class Interval:
    """All numbers from the least to the most, both included."""

    least: float
    most: float

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int | float) and self.least <= value <= self.most

    def __str__(self) -> str:
        ends = (self.least, self.most) if self.least < self.most else (self.least,)
        return " to ".join(map(in_words, ends))

    @property
    def named(self) -> tuple[Value, ...]:
        """Values that the interval names: its ends."""
        return (self.least, self.most)

    def plain(self) -> dict[str, float]:
        """Return the interval as a file holds it."""
        return {"from": self.least, "to": self.most}

    def text(self) -> str:
        """Return the interval as TOML, on one line."""
        return f"{{ from = {self.least}, to = {self.most} }}"


@dataclass(frozen=True)
class Values:
    """Some values, the preferred one first."""

    named: tuple[Value, ...]

    def __contains__(self, value: object) -> bool:
        return value in self.named

    def __str__(self) -> str:
        return " or ".join(map(in_words, self.named))

    def plain(self) -> list[Value]:
        """Return the values as a file holds them."""
        return list(self.named)

    def text(self) -> str:
        """Return the values as TOML, on one line."""
        return f"[{', '.join(_literal_text(value) for value in self.named)}]"


Range = Interval | Values
"""Values of one field that a party offers or accepts."""


def read_ranges(table: Any, where: str) -> dict[str, Range]:
    """Return a table of ranges by negotiable field.

    Args:
        table: Per field a value, a list of values, or for numbers ``{from = …, to = …}``.
        where: Name of the table, for messages.
    """
    if not isinstance(table, Mapping):
        raise UserError(f"{where} = {table!r}: must be a table of negotiable fields.")
    return {name: _range(name, value, f"{where}.{name}", where) for name, value in table.items()}


def _range(name: str, value: Any, label: str, where: str) -> Range:
    if name not in FIELDS:
        raise unknown(f"field of {where}", name, FIELDS)
    kind = FIELDS[name]
    if isinstance(value, Mapping):
        if kind not in ("count", "seconds") or set(value) != {"from", "to"}:
            raise UserError(f"{label}: {_forms(kind)}")
        least, most = (_value(value[end], kind, label) for end in ("from", "to"))
        assert not isinstance(least, str)
        assert not isinstance(most, str)
        if least > most:
            raise UserError(f"{label}: from = {least} is above to = {most}.")
        return Interval(least, most)
    values = value if isinstance(value, list) else [value]
    if not 1 <= len(values) <= _MOST:
        raise UserError(f"{label}: give 1 to {_MOST} values, the preferred one first.")
    checked = tuple(dict.fromkeys(_value(one, kind, label) for one in values))
    return Values(checked)


def _value(value: Any, kind: Kind, label: str) -> Value:
    """Return one value of a field."""
    types = {"count": (int,), "seconds": (int, float), "flag": (bool,), "word": (str,)}[kind]
    if type(value) not in types:
        raise UserError(f"{label}: {_forms(kind)}")
    if isinstance(value, int | float) and not 0 <= value <= _LARGEST:  # false for nan
        raise UserError(f"{label}: {value} is not a number from 0 to {_LARGEST:.0f}.")
    if isinstance(value, str) and not (value.isprintable() and 0 < len(value) <= 64):
        raise UserError(f"{label}: a name has 1 to 64 printable characters.")
    checked: Value = value
    return checked


def _forms(kind: Kind) -> str:
    """Return what a field takes, in words."""
    examples = {
        "count": "a whole number, a list of them, or { from = 50, to = 200 }",
        "seconds": "a number of seconds, a list of them, or { from = 600, to = 3600 }",
        "flag": "true, false, or [false, true] with the preferred one first",
        "word": "a name, or a list of names with the preferred one first",
    }
    return f"must be {examples[kind]}."


def parse_ranges(texts: Sequence[str]) -> dict[str, Any]:
    """Return the ranges of ``steps=50..200`` or ``guard=false,true`` as a file holds them.

    Args:
        texts: One text per field.
    """
    table: dict[str, Any] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not values.strip():
            raise UserError(
                f"--negotiate {text}: expected FIELD=VALUES, e.g. steps=50..200 or "
                "guard=false,true."
            )
        least, dots, most = values.partition("..")
        table[name.strip()] = (
            {"from": _literal(least), "to": _literal(most)}
            if dots
            else [_literal(value) for value in values.split(",")]
        )
    return table


def _literal_text(value: Value) -> str:
    """Return a value as TOML."""
    return tomli_w.dumps({"_": value}).removeprefix("_ = ").strip()


def _literal(text: str) -> Value:
    text = text.strip()
    if text in ("true", "false"):
        return text == "true"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def common(first: Range, second: Range) -> Range | None:
    """Return the values in both ranges, in the order of the first; None: there are none.

    Args:
        first: A range, whose order of values counts.
        second: Another range of the same field.
    """
    if isinstance(first, Interval) and isinstance(second, Interval):
        least, most = max(first.least, second.least), min(first.most, second.most)
        return Interval(least, most) if least <= most else None
    ordered, other = (first, second) if isinstance(first, Values) else (second, first)
    shared = tuple(value for value in ordered.named if value in other)
    return Values(shared) if shared else None


@dataclass(frozen=True)
class Outcome:
    """What a negotiation ends with."""

    values: dict[str, Value]
    """The chosen value per negotiable field."""
    members: tuple[str, ...]
    """Those who accept all of them, sorted by name."""
    left_out: dict[str, tuple[str, ...]]
    """For each of the others, the fields whose chosen value it does not accept."""


Answers = Mapping[str, Mapping[str, Range]]
"""By member, the range that it accepts per negotiable field."""


def agree(offered: Mapping[str, Value], ranges: Mapping[str, Range], answers: Answers) -> Outcome:
    """Return the combination of values that most members accept as a whole.

    Of an interval the candidates are the offered value and those that answers name, the nearest
    first: whenever some members have a common value, one of these is among their common ones. Ties
    go by the offer's order, field by field.

    Args:
        offered: The offered value per field, in the order in which fields decide ties.
        ranges: What the offer allows per field.
        answers: By member, what it accepts per field.
    """
    names = sorted(answers)
    everyone = (1 << len(names)) - 1
    choices = [_choices(offered[f], ranges[f], f, names, answers) for f in offered]
    best: tuple[int, tuple[Value, ...]] | None = None

    def search(depth: int, members: int, chosen: tuple[Value, ...]) -> None:
        nonlocal best
        if best is not None and members.bit_count() <= best[0].bit_count():
            return  # candidates come in the order of preference: a tie is no gain
        if depth == len(choices):
            best = members, chosen
            return
        for value, accepting in choices[depth]:
            search(depth + 1, members & accepting, (*chosen, value))

    search(0, everyone, ())
    assert best is not None
    values = dict(zip(offered, best[1], strict=True))
    joined = tuple(name for place, name in enumerate(names) if best[0] >> place & 1)
    left_out = {
        name: tuple(f for f, value in values.items() if value not in answers[name][f])
        for name in names
        if name not in joined
    }
    return Outcome(values, joined, left_out)


def _choices(
    offered: Value, range: Range, field: str, names: Sequence[str], answers: Answers
) -> list[tuple[Value, int]]:
    """Return the candidates of a field in order, each with the set of members that accept it.

    A candidate whose members all accept an earlier one can never be chosen and is left out.
    """
    choices: list[tuple[Value, int]] = []
    for value in _candidates(offered, range, field, answers):
        accepting = sum(1 << i for i, name in enumerate(names) if value in answers[name][field])
        if not any(accepting & earlier == accepting for _, earlier in choices):
            choices.append((value, accepting))
    return choices


def _candidates(offered: Value, range: Range, field: str, answers: Answers) -> list[Value]:
    if isinstance(range, Values):
        return list(range.named)
    named = {v for answer in answers.values() for v in answer[field].named if v in range}
    numbers = {offered, *named}

    def distance(value: Value) -> tuple[float, float]:
        assert not isinstance(value, str)
        assert not isinstance(offered, str)
        return math.fabs(value - offered), value

    return sorted(numbers, key=distance)


def conflicts(answers: Answers) -> Iterator[tuple[str, str, str]]:
    """Yield field and two members that exclude each other in it.

    Args:
        answers: By member, what it accepts per field.
    """
    for first, second in combinations(sorted(answers), 2):
        for field, range in answers[first].items():
            if common(range, answers[second][field]) is None:
                yield field, first, second
