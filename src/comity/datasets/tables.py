"""Tables: rows of people, checked and encoded for learning.

Whatever is wrong with a table is said with the row and the column, so that its owner can find it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NotRequired, TypedDict

import numpy as np

from comity.core.typing import BoolArray, Float32Array, IntArray
from comity.datasets.columns import Columns, text_of
from comity.errors import UserError, unknown

MOST_CATEGORIES = 1000
MOST_GROUPS = 10
REST = "*"

_TRUTHS = ({"0", "1"}, {"false", "true"}, {"no", "yes"})  # in each, what is true sorts last
_RULE = re.compile(r"(<=|>=|<|>)\s*(\S+)|(\S+?)\s*\.\.\s*(\S+)")


class Attribute(TypedDict):
    """A sensitive attribute: a column and, unless its values are the groups, how to group them.

    A group is a list of values, a rule (``"<= 25"``, ``"> 25"``, ``"25..60"`` with both ends in),
    or ``"*"`` for all rows that no other group takes.
    """

    column: str
    groups: NotRequired[Mapping[str, Sequence[object] | str]]


@dataclass(frozen=True)
class Encoding:
    """How one column becomes inputs, as it was learned from a table's own rows."""

    column: str
    values: tuple[str, ...] | None = None
    """The categories, one 0/1 input each (an empty one is a missing cell); None for numbers."""
    median: float | None = None
    """What a missing number becomes, beside an input that says so; None if none was missing."""

    @property
    def features(self) -> tuple[str, ...]:
        """The name of each input."""
        if self.values is not None:
            return tuple(f"{self.column}={value or 'missing'}" for value in self.values)
        return (self.column,) if self.median is None else (self.column, f"{self.column} missing")

    def inputs(self, where: _Where, cells: list[str]) -> Float32Array:
        """The inputs that cells become, old ones or new."""
        values, codes = _codes(cells)
        if self.values is not None:
            place = {value: code for code, value in enumerate(self.values)}
            for value in values:
                if value not in place:
                    raise self._refused(where, cells, value)
            codes = np.array([place[value] for value in values])[codes]
            return np.asarray(codes[:, None] == np.arange(len(place)), dtype=np.float32)
        numbers = np.array([_number(value) for value in values])
        fits = np.abs(numbers) <= np.finfo(np.float32).max
        for value, fit in zip(values, fits, strict=True):
            if not fit and (value or self.median is None):
                raise self._refused(where, cells, value)
        block = numbers[codes]
        if self.median is None:
            return block[:, None].astype(np.float32)
        absent = ~fits[codes]
        block[absent] = self.median
        return np.stack([block, absent], axis=1).astype(np.float32)

    def _refused(self, where: _Where, cells: list[str], value: str) -> UserError:
        """The error for the first cell with a value that cannot be encoded."""
        row = where.row(cells, value)
        about = f"{where.name}: {row}, column '{self.column}'"
        if not value:
            return UserError(
                f"{about} is missing, but no row that the model learned from lacked it; fill it in "
                "or leave the row out."
            )
        if self.values is None:
            return UserError(f"{about} must be a number, got '{value}'; correct it.")
        known = [value for value in self.values if value]
        return unknown(f"value of column '{self.column}' in {row} of {where.name}", value, known)


@dataclass(frozen=True)
class Table:
    """A table, read, checked and encoded for learning."""

    name: str
    inputs: Float32Array
    """Rows x features; numbers are as they were read, to be standardised with training rows."""
    features: tuple[str, ...]
    """The name of each input, e.g. ``age`` or ``sex=Female``."""
    numeric: BoolArray
    """Which inputs are numbers rather than 0/1."""
    label: IntArray
    sensitive: Mapping[str, IntArray]
    """The group of each row, for each sensitive attribute."""
    groups: Mapping[str, tuple[str, ...]]
    """The names of the groups, for each sensitive attribute."""
    silos: IntArray | None
    """The site (hospital, region) that each row comes from, where the data says so."""
    silo_names: tuple[str, ...]
    notes: tuple[str, ...]
    """What was done to the data."""
    encodings: tuple[Encoding, ...]
    """How the columns became inputs, in their order."""
    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What the codes in a column stood for in the file, where they were renamed."""

    def encode(self, columns: Columns) -> Float32Array:
        """New rows, as `read_columns` gives them, as inputs just like those of the table's own.

        Columns that are no inputs (label, client, …) may be there or not.
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
        where = _Where(f"new rows of {self.name}", np.arange(len(columns[needed[0]])) + 2)
        blocks = [encoding.inputs(where, columns[encoding.column]) for encoding in self.encodings]
        return np.concatenate(blocks, axis=1)


def renamed(columns: Columns, names: Mapping[str, Mapping[str, str]]) -> Columns:
    """Columns with names in place of codes; cells that have none stay as they are."""
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
    """Encode columns, as `read_columns` gives them, for learning ``label``.

    ``positive`` is the label's value that counts as 1. ``sensitive`` lists columns whose values are
    groups, or says how to group them (see `Attribute`). ``features`` are the inputs: everything but
    the label and the ``client`` column unless given; columns of numbers stay numbers, all others
    become one 0/1 input a value. ``missing`` is what to do with missing cells: ``refuse`` the
    table, ``drop`` their rows, or make them a ``category``: a value of their own, and in a column
    of numbers the median, with a 0/1 input that says so.
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
    where = _Where(name, rows)

    learned = [_learned(where, column, columns[column]) for column in dict.fromkeys(features)]
    encodings = tuple(encoding for encoding, _ in learned)
    blocks = [encoding.inputs(where, columns[encoding.column]) for encoding in encodings]
    coded = {key: _coded(where, key, columns, what) for key, what in attributes.items()}
    silos, silo_names = None, tuple[str, ...]()
    if client is not None:
        names, silos = _codes(columns[client])
        silo_names = tuple(names)
    return Table(
        name=name,
        inputs=np.concatenate(blocks, axis=1),
        features=tuple(name for encoding in encodings for name in encoding.features),
        numeric=np.array([name == e.column for e in encodings for name in e.features]),
        label=_label(where, label, columns[label], positive),
        sensitive={key: codes for key, (codes, _) in coded.items()},
        groups={key: names for key, (_, names) in coded.items()},
        silos=silos,
        silo_names=silo_names,
        notes=(*notes, *(note for _, note in learned if note)),
        encodings=encodings,
    )


@dataclass(frozen=True)
class _Where:
    """Where a table's rows are in its file, for messages: the header is row 1."""

    name: str
    rows: IntArray

    def row(self, cells: Sequence[str], value: str) -> str:
        return f"row {self.rows[cells.index(value)]}"


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
    """The columns that are left, the number of each row in the file, and what was done."""
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


def _learned(where: _Where, column: str, cells: list[str]) -> tuple[Encoding, str]:
    """How a column becomes inputs, and what is worth saying about it."""
    values, codes = _codes(cells)
    numbers = np.array([_number(value) for value in values])
    known = np.array([value != "" for value in values])
    fits = np.abs(numbers) <= np.finfo(np.float32).max
    if known.any() and fits[known].all():
        present = known[codes]
        median = None if present.all() else float(np.median(numbers[codes][present]))
        return Encoding(column, median=median), ""
    odd = next((value for value, fit in zip(values, fits, strict=True) if value and not fit), "")
    if len(values) > MOST_CATEGORIES:
        raise UserError(
            f"{where.name}: column '{column}' has {len(values):,} different values and is not all "
            f"numbers ('{odd}' in {where.row(cells, odd)}); correct it or leave it out of features."
        )
    note = ""
    if fits.sum() > known.sum() / 2:
        note = (
            f"{column} is taken as categories, though mostly numbers, because of '{odd}' "
            f"({where.row(cells, odd)})"
        )
    return Encoding(column, tuple(values)), note


def _label(where: _Where, column: str, cells: list[str], positive: object) -> IntArray:
    values, codes = _codes(cells)
    if len(values) != 2:
        listed = ", ".join(f"'{value}' ({where.row(cells, value)})" for value in values[:6])
        raise UserError(
            f"{where.name}: label '{column}' must have exactly two values, found {len(values)}: "
            f"{listed}{', …' if len(values) > 6 else ''}."
        )
    plain = [_plain(value) for value in values]
    truths = [value.lower() for value in plain]
    if positive is None and set(truths) not in _TRUTHS:
        raise UserError(
            f"{where.name}: label '{column}' is '{values[0]}' or '{values[1]}'; say which counts "
            f"as 1, e.g. positive = '{values[1]}'."
        )
    one = plain[truths.index(max(truths))] if positive is None else _plain(positive)
    if one not in plain:
        raise unknown(f"positive value of label '{column}' in {where.name}", positive, values)
    return np.asarray(codes == plain.index(one), dtype=np.int64)


def _coded(
    where: _Where, attribute: str, columns: Columns, what: Attribute
) -> tuple[IntArray, tuple[str, ...]]:
    """The group of each row by a sensitive attribute, and the names of the groups."""
    column = what["column"]
    cells = columns[column]
    values, codes = _codes(cells)
    about = f"{where.name}: sensitive attribute '{attribute}'"
    groups = what.get("groups")
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
            if _plain(value) not in map(_plain, values):
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
    """Whether a group's list or rule takes a value."""
    if not isinstance(rule, str):
        return _plain(value) in map(_plain, rule)
    found = _RULE.fullmatch(rule.strip())
    limits = [_number(part) for part in found.group(2, 3, 4) if part] if found else []
    if found is None or not all(map(math.isfinite, limits)):
        raise UserError(
            f"{about}: '{rule}' is no rule; give a list of values, '<= 25', '> 25', '25..60' or "
            f"'{REST}' for the rest."
        )
    number = _number(value)
    if not math.isfinite(number):
        raise UserError(f"{about}: the rule '{rule}' needs numbers, but a value is '{value}'.")
    if found[1] is None:
        return limits[0] <= number <= limits[1]
    below = number < limits[0] if "<" in found[1] else number > limits[0]
    return below or ("=" in found[1] and number == limits[0])


def _codes(cells: list[str]) -> tuple[list[str], IntArray]:
    """The different values, sorted, and which of them each cell is."""
    values = sorted(set(cells))
    if len(values) <= MOST_CATEGORIES:  # so few may become names, where 9 comes before 10
        values.sort(key=_order)
    place = {value: code for code, value in enumerate(values)}
    return values, np.fromiter(map(place.__getitem__, cells), np.int64, len(cells))


def _order(value: str) -> float:
    number = _number(value)
    return number if math.isfinite(number) else math.inf


def _number(text: str) -> float:
    """The number that a cell is, or NaN."""
    try:
        return float(text) if "_" not in text else math.nan
    except ValueError:
        return math.nan


def _plain(value: object) -> str:
    """A value's text, the same for 1, 1.0 and '1.00'."""
    text = text_of(value)
    number = _number(text)
    return f"{number:.15g}" if math.isfinite(number) else text
