"""Roles of a table's columns: label, inputs, sensitive attributes, clients."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from comity.datasets.attributes import AttributeDescription, described_attributes
from comity.datasets.encoding import number_of
from comity.datasets.reading import Columns
from comity.errors import UserError, unknown

_ID = re.compile(r"(^|[_ -])(id|uuid|guid|nr|no|key|index|row|number|nummer)$|\w(Id|ID|Nr)$", re.I)
_LEAST_ROWS = 20  # fewer rows may all differ by chance


@dataclass(frozen=True)
class Roles:
    """Roles of the columns of a table."""

    label: str
    """Column to predict."""
    sensitive: Sequence[str] | Mapping[str, AttributeDescription]
    """Columns of sensitive attributes, or attributes by name."""
    positive: object = None
    """Value of the label that counts as 1; not needed for 0/1, false/true and no/yes."""
    features: Sequence[str] | None = None
    """Columns to learn from; None: all but label, client, sensitive and excluded columns, and
    those that only number or name the rows."""
    exclude: Sequence[str] = ()
    """Columns that are no inputs."""
    sensitive_inputs: bool = False
    """Whether sensitive columns are inputs, too."""
    client: str | None = None
    """Column with the silo of each row."""
    missing: str = "refuse"
    """Way with missing cells: ``refuse`` the table, ``drop`` their rows, or make them a
    ``category``: a value of their own, and in a column of numbers the median, beside a 0/1 input
    that marks them."""
    dates: Mapping[str, str] = field(default_factory=dict)
    """Formats of dates by column, where they are not found."""
    categories: Sequence[str] = ()
    """Columns whose numbers are codes: each value is a category."""
    rows_per_client: int | None = None
    """Largest number of rows with the same ``client``; None: all."""


def keys_of(name: str, roles: Roles) -> tuple[Mapping[str, AttributeDescription], list[str]]:
    """Return the attributes' descriptions, and the columns that must have no missing cell.

    Args:
        name: Name of the table, for messages.
        roles: What the columns are for.
    """
    attributes = described_attributes(name, roles.sensitive)
    keys = [roles.label, *(attribute["column"] for attribute in attributes.values())]
    if roles.label in keys[1:]:
        raise UserError(f"{name}: '{roles.label}' is the label; it cannot be sensitive, too.")
    return attributes, keys + ([] if roles.client is None else [roles.client])


def inputs_of(
    name: str, columns: Columns, roles: Roles, keys: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the columns that are inputs, and remarks on those that are left out.

    Args:
        name: Name of the table, for messages.
        columns: All columns.
        roles: What the columns are for.
        keys: Label, sensitive columns and client.
    """
    named = [*keys, *(roles.features or ()), *roles.exclude, *roles.dates, *roles.categories]
    absent = [column for column in dict.fromkeys(named) if column not in columns]
    if len(absent) > 1:
        faults = " ".join(str(unknown(f"column in {name}", c, columns)) for c in absent)
        raise UserError(faults)
    for column in absent:
        raise unknown(f"column in {name}", column, columns)
    if roles.features is not None:
        features = [column for column in roles.features if column not in roles.exclude]
        notes: list[str] = []
    else:
        features, notes = _chosen(columns, roles, keys)
    if roles.label in features or not features:
        wrong = f"the label '{roles.label}' among them" if features else "none"
        why = f" ({'; '.join(notes)})" if notes and not features else ""
        raise UserError(f"{name}: features must be columns other than the label, got {wrong}{why}.")
    return list(dict.fromkeys(features)), notes


def _chosen(columns: Columns, roles: Roles, keys: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the columns that are inputs unless others are named, and remarks on the rest."""
    left_out, notes = {roles.label, roles.client, *roles.exclude}, []
    sensitive = [key for key in dict.fromkeys(keys) if key not in left_out]
    if not roles.sensitive_inputs and sensitive:
        left_out |= {*sensitive}
        notes.append(
            f"{', '.join(sensitive)} {'is' if len(sensitive) == 1 else 'are'} sensitive and no "
            "input (sensitive_inputs = true changes that)"
        )
    features = []
    for column, cells in columns.items():
        if column in left_out:
            continue
        if reason := identifying(column, cells):
            notes.append(f"{column} is no input: {reason}; list it in features to use it")
        elif len(set(cells)) == 1:
            same = f"'{cells[0]}'" if cells[0] else "missing"
            notes.append(f"{column} is no input: all its cells are {same}")
        else:
            features.append(column)
    return features, notes


def identifying(column: str, cells: Sequence[str]) -> str:
    """Return why a column only numbers or names the rows; empty if it does not.

    Args:
        column: Name of the column.
        cells: Its cells.
    """
    known = [cell for cell in cells if cell]
    if len(known) < _LEAST_ROWS or len(set(known)) < len(known):
        return ""
    numbers = np.array([number_of(cell) for cell in known])
    if not np.isfinite(numbers).all():
        texts = np.isfinite(numbers).mean() < 0.5 and not _dated(known)
        return "every row has another text" if texts else ""
    if (numbers != np.round(numbers)).any():
        return ""
    dense = numbers.max() - numbers.min() < 2 * len(numbers)
    rising = bool((np.diff(numbers) > 0).all() or (np.diff(numbers) < 0).all())
    counted = dense and rising
    return "every row has another whole number" if counted or _ID.search(column) else ""


def _dated(cells: Sequence[str]) -> bool:
    """Return whether texts look like dates."""
    return all(re.fullmatch(r"[\d./: T-]{6,}", cell) for cell in cells[:50])
