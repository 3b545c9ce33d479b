"""Profiles of tables: what each column looks like, and what it may be for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from comity.datasets.attributes import MOST_GROUPS
from comity.datasets.dates import example, found_format
from comity.datasets.encoding import MOST_CATEGORIES, number_of, plain_text
from comity.datasets.reading import Columns
from comity.datasets.roles import identifying
from comity.errors import UserError

Kind = Literal["number", "category", "date", "id", "constant", "texts"]
MANY_CATEGORIES = 50
"""More categories than this are worth a warning."""

YES = (
    *("yes", "ja", "oui", "si", "good", "gut", "repaid", "paid", "approved"),
    *("granted", "accepted", "hired", "positive", ">50k", "bewilligt", "bezahlt"),
)
"""Texts that mean yes, in lower case."""
_TRUTHS = ({"0", "1"}, {"false", "true"}, {"no", "yes"})
_LABEL = re.compile(
    r"label|target|class|outcome|result|default|repa(id|y)|paid|approv|granted|accept|hired|risk"
    r"|churn|fraud|ausfall|bezahlt|bewillig|zur(ü|ue)ck|^y$",
    re.I,
)
_SENSITIVE = re.compile(
    r"(^|[^a-z])(sex|gender|geschlecht|sexe|race|ethnic|religion|nation|citizen|origin|herkunft|age"
    r"|alter|birth|geburt|marital|familienstand|disab|behinder|migra|foreign)",
    re.I,
)
_CLIENT = re.compile(
    r"bank|branch|filiale|site|hospital|clinic|klinik|region|client|silo|institut|cent(er|re)"
    r"|store|school|agency|country|state|standort",
    re.I,
)
_UNKNOWN = {
    *("k. a.", "k.a.", "keine angabe", "unbekannt", "n.a.", "n. a.", "unknown", "missing", "none"),
    *("inconnu", "desconocido", "s/d", "n/d", "-", "--", "."),
}
"""Texts that mean that nothing is known, in lower case."""
_LEAST_SILO = 20  # fewer rows are too few to train, validate and test


@dataclass(frozen=True)
class ColumnProfile:
    """Kind and content of a column."""

    name: str
    kind: Kind
    values: int
    """Number of different values."""
    missing: int
    """Number of missing cells."""
    examples: tuple[str, ...]
    """The commonest values."""
    warning: str = ""
    """A remark on it, or nothing."""


@dataclass(frozen=True)
class Candidate:
    """A column that may have a role."""

    column: str
    reason: str
    named: bool
    """Whether the column's name says so, too."""


def profile(columns: Columns) -> list[ColumnProfile]:
    """Return what each column of a table looks like.

    Args:
        columns: Columns as `read_columns` gives them.
    """
    return [_column(name, cells) for name, cells in columns.items()]


def _column(name: str, cells: list[str]) -> ColumnProfile:
    counts = Counter(cell for cell in cells if cell)
    kind, warning = _kind(name, cells, counts)
    missing = len(cells) - sum(counts.values())
    if missing and not warning:
        warning = f"{missing:,} of {len(cells):,} cells are missing"
    common = tuple(value for value, _ in counts.most_common(3))
    return ColumnProfile(name, kind, len(counts), missing, common, warning)


def _kind(name: str, cells: list[str], counts: Counter[str]) -> tuple[Kind, str]:
    if len(counts) < 2:
        return "constant", "all its cells are the same, so it is no input"
    if reason := identifying(name, cells):
        return "id", f"{reason}, so it is no input"
    numbers = np.array([np.isfinite(number_of(value)) for value in counts])
    if numbers.all():
        return "number", ""
    try:
        form = found_format(counts, f"column '{name}'")
    except UserError as error:
        return "date", str(error)
    if form is not None:
        return "date", f"dates like {example(form)} become days since 1970"
    if len(counts) > MOST_CATEGORIES:
        return "texts", f"{len(counts):,} different texts are too many for an input"
    if numbers.mean() > 0.5:
        odd = next(v for v, number in zip(counts, numbers, strict=True) if not number)
        row = cells.index(odd) + 2
        return "category", f"mostly numbers, but row {row} is '{odd}', so it becomes categories"
    many = f"{len(counts)} categories are many" if len(counts) > MANY_CATEGORIES else ""
    return "category", many


def missing_markers(columns: Columns) -> dict[str, list[str]]:
    """Return texts that seem to stand for missing numbers, each with the columns that have it.

    Such a text is all that is no number in a column of numbers. It counts if several columns have
    it, or if it is a usual word for it.

    Args:
        columns: Columns as `read_columns` gives them.
    """
    places: dict[str, list[str]] = {}
    for name, cells in columns.items():
        counts = Counter(cell for cell in cells if cell)
        odd = [value for value in counts if not np.isfinite(number_of(value))]
        if len(odd) == 1 and 2 * counts[odd[0]] < sum(counts.values()):
            places.setdefault(odd[0], []).append(name)
    return {
        text: names for text, names in places.items() if len(names) > 1 or text.lower() in _UNKNOWN
    }


# -- roles ---------------------------------------------------------------------------------


def label_candidates(profiles: Sequence[ColumnProfile]) -> list[Candidate]:
    """Return columns that may be predicted: two values; those whose names say so come first."""
    candidates = []
    for column in profiles:
        if column.values != 2 or column.kind not in ("number", "category"):
            continue
        if not _SENSITIVE.search(column.name):
            reason = f"two values, {' and '.join(sorted(column.examples))}"
            candidates.append(Candidate(column.name, reason, bool(_LABEL.search(column.name))))
    return sorted(candidates, key=lambda candidate: not candidate.named)


def sensitive_candidates(profiles: Sequence[ColumnProfile]) -> list[Candidate]:
    """Return columns that may be sensitive by their names."""
    candidates = []
    for column in profiles:
        if not _SENSITIVE.search(column.name) or column.kind in ("id", "constant", "texts"):
            continue
        few = 2 <= column.values <= MOST_GROUPS and column.kind == "category"
        reason = "its name" + ("" if few else "; its values must be grouped")
        candidates.append(Candidate(column.name, reason, few))
    return candidates


def client_candidates(columns: Columns, profiles: Sequence[ColumnProfile]) -> list[Candidate]:
    """Return columns that may say whose row it is: few values, each with enough rows."""
    candidates = []
    for column in profiles:
        counts = Counter(columns[column.name])
        few = 2 <= column.values <= MANY_CATEGORIES and not column.missing
        least = min(counts.values())
        if few and _CLIENT.search(column.name) and least >= _LEAST_SILO:
            reason = f"its name, and {column.values} values with {least} rows or more"
            candidates.append(Candidate(column.name, reason, True))
    return candidates


def positive_of(column: ColumnProfile) -> str | None:
    """Return the value of a label that means yes; None if that is not clear.

    Args:
        column: Profile of a column with two values.
    """
    yes = [value for value in column.examples if plain_text(value).lower() in YES]
    return yes[0] if len(yes) == 1 else None


def obvious(column: ColumnProfile) -> bool:
    """Return whether a label needs no positive value."""
    return {plain_text(value).lower() for value in column.examples} in _TRUTHS
