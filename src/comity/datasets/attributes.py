"""Sensitive attributes: a column, and how its values are grouped."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NotRequired, TypedDict

import numpy as np

from comity.core.typing import IntArray
from comity.datasets.encoding import Location, coded, number_of, plain_text
from comity.datasets.reading import Columns
from comity.errors import UserError, unknown

MOST_GROUPS = 10
"""Largest number of values of a sensitive attribute that are not grouped."""
REST = "*"
"""Rule of the group that takes all values which no other group takes."""
Rule = tuple[str, ...] | str
"""Values of a group, or a rule: ``"<= 25"``, ``"> 25"``, ``"25..60"``, ``"*"``."""

_RULE = re.compile(r"(<=|>=|<|>)\s*(\S+)|(\S+?)\s*\.\.\s*(\S+)")


class AttributeDescription(TypedDict):
    """A sensitive attribute in a user's words: a column, and how it is grouped, if at all."""

    column: str
    """Column of the table."""
    groups: NotRequired[Mapping[str, Sequence[object] | str]]
    """Attribute values by name, each with the values of the column that it stands for.

    It is a list of values, a rule (``"<= 25"``, ``"> 25"``, ``"25..60"`` with both ends in), or
    ``"*"`` for all rows that no other group takes.
    """


@dataclass(frozen=True)
class Attribute:
    """A sensitive attribute: a column, and the group of each of its values."""

    name: str
    column: str
    groups: tuple[tuple[str, Rule], ...]
    """Attribute values by name, each with the values of the column that it stands for."""

    @property
    def values(self) -> tuple[str, ...]:
        """Names of the groups."""
        return tuple(group for group, _ in self.groups)

    @property
    def description(self) -> AttributeDescription:
        """The attribute as plain values."""
        groups = {group: rule if isinstance(rule, str) else [*rule] for group, rule in self.groups}
        return {"column": self.column, "groups": groups}

    def takers(self, about: str, value: str) -> list[str]:
        """Return the groups that take a value of the column; there should be one.

        Args:
            about: Name of the attribute, for messages.
            value: The value.
        """
        takers = [
            group
            for group, rule in self.groups
            if rule != REST and value and _takes(about, rule, value)
        ]
        return takers or [group for group, rule in self.groups if rule == REST and value]

    def codes(self, where: Location, cells: list[str]) -> IntArray:
        """Return the group of each cell, an index into `values`.

        Args:
            where: Position of the rows, for messages.
            cells: Cells of the column.
        """
        about = f"{where.name}: sensitive attribute '{self.name}'"
        values, codes = coded(cells)
        group_of = np.empty(len(values), dtype=np.int64)
        for code, value in enumerate(values):
            takers = self.takers(about, value)
            if len(takers) != 1:
                raise UserError(
                    f"{about}: '{value}' ({where.row(cells, value)}, column '{self.column}') is in "
                    f"{' and in '.join(takers) or 'no group'}; every value must be in exactly one "
                    f"(a group '{REST}' takes what is left)."
                )
            group_of[code] = self.values.index(takers[0])
        return group_of[codes]


def learn_attribute(
    where: Location, name: str, columns: Columns, description: AttributeDescription
) -> tuple[Attribute, IntArray]:
    """Return a sensitive attribute, and the group of each row.

    Args:
        where: Position of the rows, for messages.
        name: Name of the attribute.
        columns: Columns of the table.
        description: Its column and groups; without groups each value is one.
    """
    column = description["column"]
    cells = columns[column]
    values, codes = coded(cells)
    about = f"{where.name}: sensitive attribute '{name}'"
    groups = description.get("groups")
    if groups is None:
        if not 2 <= len(values) <= MOST_GROUPS:
            advice = "leave it out" if len(values) == 1 else "say which of them form groups"
            raise UserError(
                f"{about}: column '{column}' has {len(values)} different values"
                f"{f', {values[0]!r}' if len(values) == 1 else ''}; there must be 2 to "
                f"{MOST_GROUPS} groups, so {advice}."
            )
        return Attribute(name, column, tuple((value, (value,)) for value in values)), codes
    if len(groups) < 2:
        raise UserError(f"{about}: there must be at least two groups, got {list(groups)}.")
    for group, rule in groups.items():
        if not isinstance(rule, str | Sequence):
            raise UserError(
                f"{about}: group '{group}' is {rule!r}; give a list of values, or a rule in quotes."
            )
        for value in () if isinstance(rule, str) else rule:
            if plain_text(value) not in map(plain_text, values):
                raise unknown(f"value of column '{column}' in group '{group}'", value, values)
    attribute = Attribute(name, column, _rules(groups))
    group_of = attribute.codes(where, cells)
    for code, group in enumerate(attribute.values):
        if code not in group_of:
            raise UserError(f"{about}: no row is in group '{group}' ({groups[group]}).")
    return attribute, group_of


def declared_attribute(name: str, description: Mapping[str, object]) -> Attribute:
    """Return a sensitive attribute whose groups are declared, not learned from rows.

    Args:
        name: Name of the attribute.
        description: Its column and groups.
    """
    where = f"problem.sensitive.{name}"
    column, groups = description.get("column"), description.get("groups")
    if not isinstance(column, str) or not isinstance(groups, Mapping) or len(groups) < 2:
        raise UserError(
            f"{where}: say its column and at least two groups, e.g. {{column = 'age', groups = "
            "{young = '< 30', old = '>= 30'}}."
        )
    for group, rule in groups.items():
        if not isinstance(rule, str | Sequence):
            raise UserError(
                f"{where}: group '{group}' is {rule!r}; give a list of values, or a rule in quotes."
            )
    attribute = Attribute(name, column, _rules(groups))
    for _, rule in attribute.groups:
        if isinstance(rule, str) and rule != REST:
            _takes(where, rule, "0")
    return attribute


def described_attributes(
    name: str, sensitive: Sequence[str] | Mapping[str, AttributeDescription]
) -> Mapping[str, AttributeDescription]:
    """Return descriptions by attribute, from a list of columns or from descriptions.

    Args:
        name: Name of the table, for messages.
        sensitive: Columns, or attributes by name.
    """
    if not sensitive or isinstance(sensitive, str):
        raise UserError(
            f"{name}: sensitive must list at least one column, e.g. ['sex'], got {sensitive!r}."
        )
    if not isinstance(sensitive, Mapping):
        return {column: {"column": column} for column in sensitive}
    for attribute, what in sensitive.items():
        if not isinstance(what, Mapping) or "column" not in what:
            raise UserError(
                f"{name}: sensitive attribute '{attribute}' must say its column, e.g. "
                "{column = 'race', groups = {white = ['White'], other = '*'}}."
            )
        for key in what:
            if key not in AttributeDescription.__annotations__:
                raise unknown(
                    f"setting of sensitive attribute '{attribute}' in {name}",
                    key,
                    AttributeDescription.__annotations__,
                )
    return sensitive


def _rules(groups: Mapping[str, Sequence[object] | str]) -> tuple[tuple[str, Rule], ...]:
    return tuple(
        (str(group), rule if isinstance(rule, str) else tuple(plain_text(value) for value in rule))
        for group, rule in groups.items()
    )


def _takes(about: str, rule: Sequence[object] | str, value: str) -> bool:
    """Return whether a group's list or rule takes a value."""
    if not isinstance(rule, str):
        return plain_text(value) in map(plain_text, rule)
    match = _RULE.fullmatch(rule.strip())
    limits = [number_of(part) for part in match.group(2, 3, 4) if part] if match else []
    if match is None or not all(map(math.isfinite, limits)):
        raise UserError(
            f"{about}: '{rule}' is no rule; give a list of values, '<= 25', '> 25', '25..60' or "
            f"'{REST}' for the rest."
        )
    number = number_of(value)
    if not math.isfinite(number):
        raise UserError(f"{about}: the rule '{rule}' needs numbers, but a value is '{value}'.")
    if match[1] is None:
        return limits[0] <= number <= limits[1]
    below = number < limits[0] if "<" in match[1] else number > limits[0]
    return below or ("=" in match[1] and number == limits[0])
