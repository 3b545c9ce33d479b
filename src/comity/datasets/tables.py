"""Tables: rows of people, checked and encoded for learning.

Faults of a table are reported with the row and the column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from comity.core.rng import stream
from comity.core.typing import BoolArray, Float32Array, IntArray
from comity.datasets.attributes import learn_attribute
from comity.datasets.dates import example, found_format
from comity.datasets.encoding import Location, coded, learn_encoding, plain_text
from comity.datasets.reading import Columns, Reading
from comity.datasets.roles import Roles, inputs_of, keys_of
from comity.datasets.schema import Column, Schema, date_findings, refuse
from comity.errors import Faults, UserError, unknown

MISSING_WAYS = ("refuse", "category", "drop")
"""Ways with missing cells."""
_TRUTHS = ({"0", "1"}, {"false", "true"}, {"no", "yes"})  # in each, the true value sorts last


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
    schema: Schema
    """Rules by which the columns of a file become all that."""

    def encode(self, columns: Columns) -> Float32Array:
        """Return new rows, as `read_columns` gives them, as inputs like those of the table's own.

        Columns that are no inputs (label, client, …) may be present or not.
        """
        return self.schema.encode(columns)


def declared_table(schema: Schema, columns: Columns, where: str) -> Table:
    """Return rows encoded by a declared schema; an empty mapping has no rows.

    Args:
        schema: The schema.
        columns: Columns as `read_columns` gives them; those that the schema does not name are not
            used.
        where: Name of the rows, for messages.
    """
    columns = columns or {name: [] for name in schema.used}
    refuse(schema.findings(columns), where)
    attributes = schema.sensitive
    return Table(
        name=schema.name,
        inputs=schema.blocks(columns),
        features=schema.features,
        numeric=schema.numeric,
        label=schema.labels(columns),
        sensitive={a.name: schema.groups(columns, a, where) for a in attributes},
        attribute_values={attribute.name: attribute.values for attribute in attributes},
        silos=np.zeros(len(columns[schema.label]), dtype=np.int64),
        silo_names=(where,),
        notes=tuple(schema.notes(columns, where)),
        schema=schema,
    )


def make_table(name: str, columns: Columns, roles: Roles, reading: Reading | None = None) -> Table:
    """Return columns, as `read_columns` gives them, encoded for learning.

    Columns of numbers stay numbers, dates become days since 1970, and any other column becomes one
    0/1 input per value. All faults are reported together.

    Args:
        name: Name of the table, for messages.
        columns: Columns of text.
        roles: What the columns are for.
        reading: How the text of the file became cells, for new files.
    """
    attributes, keys = keys_of(name, roles)
    features, left_out = inputs_of(name, columns, roles, keys)
    columns = {column: columns[column] for column in dict.fromkeys((*keys, *features))}
    faults = Faults(name)
    try:
        columns, rows, notes = _without_missing(name, columns, keys, roles.missing)
    except UserError as error:
        faults.texts.append(str(error).removeprefix(f"{name}: "))
        if roles.missing not in MISSING_WAYS:
            faults.refuse()
        columns, rows, notes = _without_missing(name, columns, keys, "drop")
    columns, rows, drawn = _drawn(name, columns, rows, roles)
    where = Location(name, rows)

    learned = []
    for feature in features:
        with faults.gathered():
            learned.append(_learn_column(where, feature, columns[feature], roles))
    groups = {}
    for key, what in attributes.items():
        with faults.gathered():
            groups[key] = learn_attribute(where, key, columns, what)
    one = other = ""
    with faults.gathered():
        one, other = _label_values(where, roles.label, columns[roles.label], roles.positive)
    faults.refuse()
    silos, silo_names = None, tuple[str, ...]()
    if roles.client is not None:
        names, silos = coded(columns[roles.client])
        silo_names = tuple(names)
    reading = reading or Reading()
    schema = Schema(
        name,
        roles.label,
        one,
        tuple(column for column, _ in learned),
        other,
        tuple(attribute for attribute, _ in groups.values()),
        reading.model_copy(update={"separator": None, "encoding": None}),
    )
    return Table(
        name=name,
        inputs=schema.blocks(columns),
        features=schema.features,
        numeric=schema.numeric,
        label=schema.labels(columns),
        sensitive={key: codes for key, (_, codes) in groups.items()},
        attribute_values={key: attribute.values for key, (attribute, _) in groups.items()},
        silos=silos,
        silo_names=silo_names,
        notes=(*notes, *drawn, *reading.notes, *left_out, *(note for _, note in learned if note)),
        schema=schema,
    )


def _learn_column(where: Location, name: str, cells: list[str], roles: Roles) -> tuple[Column, str]:
    """Return an input column, and a remark on it or nothing.

    Args:
        where: Position of the rows, for messages.
        name: Name of the column.
        cells: Its cells.
        roles: What the columns are for.
    """
    values, categories = {cell for cell in cells if cell}, name in roles.categories
    form = roles.dates.get(name)
    if form is None and not categories:
        form = found_format(values, f"{where.name}: column '{name}'")
    if form is None:
        encoding, note = learn_encoding(where, name, cells, categories=categories)
        return Column(name, encoding.values, median=encoding.median, learned=True), note
    refuse(date_findings(name, cells, form), where.name)
    column = Column(name, date=form, learned=True)
    encoding, _ = learn_encoding(where, name, column.texts(cells))
    note = f"{name} is taken as days since 1970, from dates like {example(form)}"
    return replace(column, median=encoding.median), note


def _without_missing(
    name: str, columns: Columns, keys: Sequence[str], missing: str
) -> tuple[Columns, IntArray, tuple[str, ...]]:
    """Return the remaining columns, the number of each row in the file, and remarks."""
    if missing not in MISSING_WAYS:
        raise unknown(f"way with missing cells in {name}", missing, MISSING_WAYS)
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


def _drawn(
    name: str, columns: Columns, rows: IntArray, roles: Roles
) -> tuple[Columns, IntArray, tuple[str, ...]]:
    """Return at most ``rows_per_client`` rows of each client, their numbers, and remarks.

    Rows are drawn at random, the same ones in every run; their order stays.
    """
    most = roles.rows_per_client
    if most is None:
        return columns, rows, ()
    if roles.client is None:
        raise UserError(
            f"{name}: rows_per_client = {most} needs the column that says whose row it is "
            "(client = …)."
        )
    _, holder = coded(columns[roles.client])
    order = stream(0, "rows per client").permutation(len(rows))
    order = order[np.argsort(holder[order], kind="stable")]
    first = np.searchsorted(holder[order], holder[order])
    kept = np.sort(order[np.arange(len(order)) - first < most])
    if len(kept) == len(rows):
        return columns, rows, ()
    note = f"{len(kept):,} of {len(rows):,} rows were drawn, at most {most:,} per {roles.client}"
    columns = {column: [cells[row] for row in kept] for column, cells in columns.items()}
    return columns, rows[kept], (note,)


def _label_values(
    where: Location, column: str, cells: list[str], positive: object
) -> tuple[str, str]:
    """Return the label's values that count as yes and as no, as `plain_text`."""
    values, _ = coded(cells)
    plain = [plain_text(value) for value in values]
    if len(values) != 2 or len(set(plain)) != 2:
        listed = ", ".join(f"'{value}' ({where.row(cells, value)})" for value in values[:6])
        raise UserError(
            f"{where.name}: label '{column}' must have exactly two values, found {len(values)}: "
            f"{listed}{', …' if len(values) > 6 else ''}."
        )
    truths = [value.lower() for value in plain]
    if positive is None and set(truths) not in _TRUTHS:
        raise UserError(
            f"{where.name}: label '{column}' is '{values[0]}' or '{values[1]}'; say which counts "
            f"as 1, e.g. positive = '{values[1]}'."
        )
    one = plain[truths.index(max(truths))] if positive is None else plain_text(positive)
    if one not in plain:
        raise unknown(f"positive value of label '{column}' in {where.name}", positive, values)
    return one, plain[1 - plain.index(one)]
