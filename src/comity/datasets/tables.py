"""Tables: rows of people, checked and encoded for learning.

Faults of a table are reported with the row and the column.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NotRequired, TypedDict

import numpy as np

from comity.core.typing import BoolArray, Float32Array, IntArray
from comity.datasets.columns import Columns
from comity.datasets.encoding import (
    Encoding,
    Location,
    coded,
    learn_encoding,
    number_of,
    plain_text,
)
from comity.errors import UserError, unknown

MOST_GROUPS = 10
"""Largest number of values of a sensitive attribute that are not grouped."""
REST = "*"
"""Rule of the group that takes all values which no other group takes."""

_TRUTHS = ({"0", "1"}, {"false", "true"}, {"no", "yes"})  # in each, the true value sorts last
_RULE = re.compile(r"(<=|>=|<|>)\s*(\S+)|(\S+?)\s*\.\.\s*(\S+)")


class Attribute(TypedDict):
    """A sensitive attribute: a column, and how its values are grouped, if at all."""

    column: str
    """Column of the table."""
    groups: NotRequired[Mapping[str, Sequence[object] | str]]
    """Attribute values by name, each with the values of the column that it stands for.

    It is a list of values, a rule (``"<= 25"``, ``"> 25"``, ``"25..60"`` with both ends in), or
    ``"*"`` for all rows that no other group takes.
    """


@dataclass(frozen=True)
class Table:
    """A table, read, checked and encoded for learning."""

    name: str
    inputs: Float32Array
    """Rows x features; numbers are as they were read, to be standardised with training rows."""
    features: tuple[str, ...]
    """Name of each input, e.g. ``age`` or ``sex=Female``."""
    numeric: BoolArray
    """Which inputs are numbers rather than 0/1."""
    label: IntArray
    """Label of each row, 0 or 1."""
    sensitive: Mapping[str, IntArray]
    """Value of each row, an index into ``attribute_values``, by sensitive attribute."""
    attribute_values: Mapping[str, tuple[str, ...]]
    """Names of the values, by sensitive attribute."""
    silos: IntArray | None
    """Silo (hospital, region) of each row, an index into ``silo_names``, where it is known."""
    silo_names: tuple[str, ...]
    notes: tuple[str, ...]
    """Remarks on what was done to the data."""
    encodings: tuple[Encoding, ...]
    """Encodings of the columns, in the order of the inputs."""
    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Names of the codes in a column of the file, where codes were renamed."""

    def encode(self, columns: Columns) -> Float32Array:
        """Return new rows, as `read_columns` gives them, as inputs like those of the table's own.

        Columns that are no inputs (label, client, …) may be present or not.
        """
        needed = [encoding.column for encoding in self.encodings]
        absent = [column for column in needed if column not in columns]
        if absent:
            raise UserError(
                f"{self.name}: new rows lack the column{'s' * (len(absent) > 1)} "
                f"{', '.join(absent)}; they need all that the model learned from: "
                f"{', '.join(needed)}."
            )
        columns = renamed({column: columns[column] for column in needed}, self.names)
        where = Location(f"new rows of {self.name}", np.arange(len(columns[needed[0]])) + 2)
        blocks = [encoding.inputs(where, columns[encoding.column]) for encoding in self.encodings]
        return np.concatenate(blocks, axis=1)


def renamed(columns: Columns, names: Mapping[str, Mapping[str, str]]) -> Columns:
    """Return columns with names in place of codes; cells without a name stay as they are.

    Args:
        columns: Columns as `read_columns` gives them.
        names: Name of each code, by column.
    """
    return {
        column: [names[column].get(cell, cell) for cell in cells] if column in names else cells
        for column, cells in columns.items()
    }


def make_table(
    name: str,
    columns: Columns,
    *,
    label: str,
    positive: object = None,
    sensitive: Sequence[str] | Mapping[str, Attribute],
    features: Sequence[str] | None = None,
    client: str | None = None,
    missing: str = "refuse",
) -> Table:
    """Return columns, as `read_columns` gives them, encoded for learning.

    Columns of numbers stay numbers; any other column becomes one 0/1 input per value.

    Args:
        name: Name of the table, for messages.
        columns: Columns of text.
        label: Column to predict.
        positive: Value of the label that counts as 1; not needed for 0/1, false/true and no/yes.
        sensitive: Columns of sensitive attributes, or attributes by name (see `Attribute`).
        features: Columns to learn from; by default all but the label and the client.
        client: Column with the silo of each row.
        missing: What to do with missing cells: ``refuse`` the table, ``drop`` their rows, or make
            them a ``category``: a value of their own, and in a column of numbers the median, beside
            a 0/1 input that marks them.
    """
    attributes = _attributes(name, sensitive)
    keys = [label, *(attribute["column"] for attribute in attributes.values())]
    if label in keys[1:]:
        raise UserError(f"{name}: '{label}' is the label; it cannot be sensitive, too.")
    if client is not None:
        keys.append(client)
    if features is None:
        features = [column for column in columns if column not in (label, client)]
    for column in (*keys, *features):
        if column not in columns:
            raise unknown(f"column in {name}", column, columns)
    if label in features or not features:
        wrong = f"the label '{label}' among them" if features else "none"
        raise UserError(f"{name}: features must be columns other than the label, got {wrong}.")
    columns = {column: columns[column] for column in dict.fromkeys((*keys, *features))}
    columns, rows, notes = _without_missing(name, columns, keys, missing)
    where = Location(name, rows)

    learned = [learn_encoding(where, key, columns[key]) for key in dict.fromkeys(features)]
    encodings = tuple(encoding for encoding, _ in learned)
    blocks = [encoding.inputs(where, columns[encoding.column]) for encoding in encodings]
    values = {key: _values(where, key, columns, what) for key, what in attributes.items()}
    silos, silo_names = None, tuple[str, ...]()
    if client is not None:
        names, silos = coded(columns[client])
        silo_names = tuple(names)
    return Table(
        name=name,
        inputs=np.concatenate(blocks, axis=1),
        features=tuple(name for encoding in encodings for name in encoding.features),
        numeric=np.array([name == e.column for e in encodings for name in e.features]),
        label=_label(where, label, columns[label], positive),
        sensitive={key: codes for key, (codes, _) in values.items()},
        attribute_values={key: names for key, (_, names) in values.items()},
        silos=silos,
        silo_names=silo_names,
        notes=(*notes, *(note for _, note in learned if note)),
        encodings=encodings,
    )


def _attributes(
    name: str, sensitive: Sequence[str] | Mapping[str, Attribute]
) -> Mapping[str, Attribute]:
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
            if key not in Attribute.__annotations__:
                raise unknown(
                    f"setting of sensitive attribute '{attribute}' in {name}",
                    key,
                    Attribute.__annotations__,
                )
    return sensitive


def _without_missing(
    name: str, columns: Columns, keys: Sequence[str], missing: str
) -> tuple[Columns, IntArray, tuple[str, ...]]:
    """Return the remaining columns, the number of each row in the file, and remarks."""
    if missing not in ("refuse", "category", "drop"):
        raise unknown(f"way with missing cells in {name}", missing, ("refuse", "category", "drop"))
    count = len(next(iter(columns.values())))
    rows = np.arange(count) + 2
    holes = {column: cells.count("") for column, cells in columns.items() if "" in cells}
    if not holes:
        return columns, rows, ()
    listed = ", ".join(f"{column} ({holes[column]:,})" for column in holes)
    if missing == "drop":
        kept = [row for row in range(count) if all(cells[row] for cells in columns.values())]
        if not kept:
            raise UserError(f"{name}: every row has a missing cell ({listed}); drop columns.")
        columns = {column: [cells[row] for row in kept] for column, cells in columns.items()}
        note = f"{count - len(kept):,} rows with missing values were dropped: {listed}"
        return columns, rows[kept], (note,)
    refused = [column for column in holes if missing == "refuse" or column in keys]
    if refused:
        first = min(refused, key=lambda column: columns[column].index(""))
        total = sum(holes[column] for column in refused)
        advice = (
            "say missing = 'drop' to leave such rows out, or 'category' to keep them"
            if missing == "refuse"
            else "label, groups and client must be known: say missing = 'drop' to leave such rows "
            "out"
        )
        raise UserError(
            f"{name}: row {columns[first].index('') + 2}, column '{first}' is missing, the first "
            f"of {total:,} missing cells (the header is row 1); {advice}."
        )
    note = (
        f"{sum(holes.values()):,} missing values are a category of their own, or the median with "
        f"an input that says so: {listed}"
    )
    return columns, rows, (note,)


def _label(where: Location, column: str, cells: list[str], positive: object) -> IntArray:
    values, codes = coded(cells)
    if len(values) != 2:
        listed = ", ".join(f"'{value}' ({where.row(cells, value)})" for value in values[:6])
        raise UserError(
            f"{where.name}: label '{column}' must have exactly two values, found {len(values)}: "
            f"{listed}{', …' if len(values) > 6 else ''}."
        )
    plain = [plain_text(value) for value in values]
    truths = [value.lower() for value in plain]
    if positive is None and set(truths) not in _TRUTHS:
        raise UserError(
            f"{where.name}: label '{column}' is '{values[0]}' or '{values[1]}'; say which counts "
            f"as 1, e.g. positive = '{values[1]}'."
        )
    one = plain[truths.index(max(truths))] if positive is None else plain_text(positive)
    if one not in plain:
        raise unknown(f"positive value of label '{column}' in {where.name}", positive, values)
    return np.asarray(codes == plain.index(one), dtype=np.int64)


def _values(
    where: Location, attribute: str, columns: Columns, description: Attribute
) -> tuple[IntArray, tuple[str, ...]]:
    """Return the value of each row by a sensitive attribute, and the names of the values."""
    column = description["column"]
    cells = columns[column]
    values, codes = coded(cells)
    about = f"{where.name}: sensitive attribute '{attribute}'"
    groups = description.get("groups")
    if groups is None:
        if not 2 <= len(values) <= MOST_GROUPS:
            advice = "leave it out" if len(values) == 1 else "say which of them form groups"
            raise UserError(
                f"{about}: column '{column}' has {len(values)} different values"
                f"{f', {values[0]!r}' if len(values) == 1 else ''}; there must be 2 to "
                f"{MOST_GROUPS} groups, so {advice}."
            )
        return codes, tuple(values)
    if len(groups) < 2:
        raise UserError(f"{about}: there must be at least two groups, got {list(groups)}.")
    for group, rule in groups.items():
        for value in () if isinstance(rule, str) else rule:
            if plain_text(value) not in map(plain_text, values):
                raise unknown(f"value of column '{column}' in group '{group}'", value, values)
    rest = [group for group, rule in groups.items() if rule == REST]
    names = tuple(groups)
    group_of = np.empty(len(values), dtype=np.int64)
    for code, value in enumerate(values):
        takers = [
            group for group, rule in groups.items() if rule != REST and _takes(about, rule, value)
        ] or rest
        if len(takers) != 1:
            raise UserError(
                f"{about}: '{value}' ({where.row(cells, value)}, column '{column}') is in "
                f"{' and in '.join(takers) or 'no group'}; every value must be in exactly one "
                f"(a group '{REST}' takes what is left)."
            )
        group_of[code] = names.index(takers[0])
    for code, group in enumerate(names):
        if code not in group_of:
            raise UserError(f"{about}: no row is in group '{group}' ({groups[group]}).")
    return group_of[codes], names


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
