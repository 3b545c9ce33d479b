"""Files of tables: separator, encoding, numbers, missing cells.

What is not set is found in the file. Faults are reported with the row and the column; the header is
row 1.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import sys
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from comity.errors import UserError
from comity.settings import Settings, setting

Columns = dict[str, list[str]]
"""Text of every cell, by column; a missing cell is empty."""

MISSING = frozenset(
    {"", "?", "NA", "NaN", "nan", "<NA>", "NaT", "n/a", "N/A", "#N/A", "null", "NULL"}
)
"""Texts that stand for a missing cell."""
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
MOST_ROWS = 5
"""Largest number of faulty rows in one message."""

_FIRST = 200  # rows by which a separator is found
_LIKELY = 0.9  # least share of a column's values that have one form


class Reading(Settings):
    """Rules by which the text of a file becomes cells; those not set are found in the file."""

    separator: Literal[",", ";", "\t", "|"] | None = setting(None, "what separates cells")
    encoding: str | None = setting(None, "encoding of the text: utf-8, latin-1, cp1252, …")
    decimal: Literal[".", ","] | None = setting(None, "decimal mark of numbers")
    thousands: Literal["", ".", ",", " ", "'"] | None = setting(
        None, "mark between thousands in numbers; empty: none"
    )
    missing_values: tuple[str, ...] = setting((), "more texts that stand for a missing cell")

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on what differs from the common form of a file."""
        parts = []
        if self.separator not in (None, ","):
            parts.append(f"cells separated by {SEPARATORS[self.separator or '']}")
        if self.encoding not in (None, "utf-8"):
            parts.append(f"text in {self.encoding}")
        if self.decimal == ",":
            parts.append("decimal commas")
        if self.thousands:
            parts.append(f"'{self.thousands}' between thousands")
        return (f"the file was read with {', '.join(parts)}",) if parts else ()

    def text_of(self, cell: object) -> str:
        """Return a cell as text, empty if it is missing; numbers have a decimal point."""
        text = "" if cell is None else str(cell).strip()
        if text in MISSING or text in self.missing_values:
            return ""
        return plain_number(text, self.decimal or ".", self.thousands or "")


def reading_of(description: Reading) -> Reading:
    """Return the part of a description that says how a file is read."""
    return Reading(**{name: getattr(description, name) for name in Reading.model_fields})


PLAIN_CSV = Reading(separator=",", encoding="utf-8", decimal=".", thousands="")
"""Reading of the tables that come with the package."""


def plain_number(text: str, decimal: str, thousands: str) -> str:
    """Return a number with a decimal point and no marks between thousands; other texts as is.

    Args:
        text: A cell.
        decimal: The decimal mark.
        thousands: The mark between thousands; empty: none.
    """
    if (decimal == "." and not thousands) or not _number(decimal, thousands).fullmatch(text):
        return text
    return (text.replace(thousands, "") if thousands else text).replace(decimal, ".")


def _number(decimal: str, thousands: str) -> re.Pattern[str]:
    whole = rf"\d{{1,3}}(?:{re.escape(thousands)}\d{{3}})+|\d+" if thousands else r"\d+"
    return re.compile(rf"[-+]?(?:{whole})(?:{re.escape(decimal)}\d+)?")


def read_file(path: Path, where: str, reading: Reading) -> tuple[Columns, Reading]:
    """Return the cells of a file, and the reading with all that was found in it.

    Args:
        path: A CSV file (also .gz) or a Parquet file.
        where: Name of the source, for messages.
        reading: What is known of the file.
    """
    if path.suffix == ".parquet":
        return _read_parquet(path, where, reading), reading
    text, encoding = _decoded(path, where, reading.encoding)
    separator = reading.separator or _found_separator(text)
    columns = _read_csv(text, f"{where}: {path}", separator)
    detected = reading.model_copy(update={"encoding": encoding, "separator": separator})
    if reading.decimal is None and reading.thousands is None:
        decimal, thousands = _found_numbers(columns, f"{where}: {path}", reading)
        detected = detected.model_copy(update={"decimal": decimal, "thousands": thousands})
    for name, cells in columns.items():
        texts = {cell: detected.text_of(cell) for cell in set(cells)}
        columns[name] = [texts[cell] for cell in cells]
    return columns, detected


def as_texts(cells: Sequence[Any], reading: Reading) -> list[str]:
    """Return the cells of a column of a data frame as text."""
    return [reading.text_of(cell) for cell in cells]


# -- CSV -----------------------------------------------------------------------------------


def _decoded(path: Path, where: str, encoding: str | None) -> tuple[str, str]:
    """Return the text of a file, and its encoding."""
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    except FileNotFoundError:
        raise UserError(f"{where}: there is no file {path}.") from None
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{where}: cannot read {path}: {error}.") from None
    if encoding is None:
        encoding = _found_encoding(content)
    try:
        decoded = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UserError(
            f"{where}: {path}, line {line} is not text in {encoding}; set another encoding, e.g. "
            "'latin-1', or save the file in UTF-8."
        ) from None
    except (LookupError, ValueError, AttributeError):
        raise UserError(
            f"{where}: there is no encoding '{encoding}'; say utf-8, latin-1 or cp1252."
        ) from None
    if "\0" in decoded:
        raise UserError(f"{where}: {path} is not text; save it as CSV in UTF-8.")
    return decoded.removeprefix("\ufeff"), encoding


def _found_encoding(content: bytes) -> str:
    """Return the encoding of a file: UTF-8 if it is that, else Western European."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    for encoding in ("utf-8", "cp1252"):
        try:
            content.decode(encoding)
        except UnicodeDecodeError:
            continue
        return encoding
    return "latin-1"


def _found_separator(text: str) -> str:
    """Return what separates the cells of most of the first rows into as many as the header has."""

    def score(separator: str) -> tuple[float, int]:
        counts = []
        try:
            for row, _ in zip(_rows(text, separator), range(_FIRST), strict=False):
                counts.append(len(row))
        except csv.Error:
            pass
        if not counts or counts[0] < 2:
            return 0.0, 0
        return counts.count(counts[0]) / len(counts), counts[0]

    return max(SEPARATORS, key=score)


def _rows(text: str, separator: str) -> Iterator[list[str]]:
    return csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)


def _read_csv(text: str, where: str, separator: str) -> Columns:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        rows = [list(map(sys.intern, row)) for row in reader]  # equal cells are held once
    except csv.Error as error:
        raise UserError(
            f"{where}, at or before line {reader.line_num}: {error}; check the quotes."
        ) from None
    while rows and not rows[-1]:
        rows.pop()
    if len(rows) < 2:
        raise UserError(f"{where} needs a row of column names and rows of data below it.")
    header = [name.strip() for name in rows[0]]
    if len(header) == 1:
        raise UserError(
            f"{where} has the one column '{header[0]}'; cells must be separated by commas, "
            "semicolons, tabs or bars."
        )
    check_header(header, where)
    wrong = [(n, len(row)) for n, row in enumerate(rows, start=1) if len(row) != len(header)]
    if wrong:
        listed = ", ".join(f"row {number} has {count} cells" for number, count in wrong[:MOST_ROWS])
        more = f" and {len(wrong) - MOST_ROWS:,} more rows differ" if len(wrong) > MOST_ROWS else ""
        raise UserError(
            f"{where}, {listed}{more}, but the header has {len(header)}; quote cells that contain "
            f"{SEPARATORS[separator]} and leave no row empty."
        )
    cells = zip(*rows[1:], strict=True)
    return {name: list(column) for name, column in zip(header, cells, strict=True)}


def check_header(names: Sequence[str], where: str) -> None:
    """Refuse columns without a name, or with the same name; all of them are listed.

    Args:
        names: Names of the columns.
        where: Name of the source, for messages.
    """
    faults = [
        f"column {number} has no name in the header (row 1); name or remove it"
        for number, name in enumerate(names, start=1)
        if not name
    ]
    faults += [
        f"{count} columns are called '{name}' in the header (row 1); give each its own name"
        for name, count in Counter(names).items()
        if count > 1 and name
    ]
    if faults:
        raise UserError(f"{where}: {'; '.join(faults)}.")


# -- numbers -------------------------------------------------------------------------------

_FORMS = ((",", ""), (".", ","), (",", "."), (",", " "), (".", " "), (".", "'"))
"""Decimal mark and mark between thousands, beside the plain form."""


def _found_numbers(columns: Columns, where: str, reading: Reading) -> tuple[str, str]:
    """Return the decimal mark and the mark between thousands that explain most columns.

    A column whose numbers can be read in two ways, such as 1,024, decides nothing, and is refused
    if nothing else does.
    """
    explained: Counter[tuple[str, str]] = Counter()
    unclear = ""
    for name, cells in columns.items():
        values = {text for text in map(reading.text_of, set(cells)) if text}
        if not values or _share(values, ".", "") >= _LIKELY:
            continue
        forms = [form for form in _FORMS if _share(values, *form) >= _LIKELY]
        meanings = {tuple(sorted(plain_number(v, *form) for v in values)) for form in forms}
        if len(meanings) > 1:
            unclear = unclear or f"column '{name}' has numbers such as '{min(values)}'"
        elif forms:
            explained.update(forms)
    if not explained:
        if unclear:
            raise UserError(
                f"{where}: {unclear}, which can be read in two ways; say decimal = ',' or "
                "thousands = ','."
            )
        return ".", ""
    form = max(_FORMS, key=lambda form: explained[form])
    for name, cells in columns.items():
        values = {text for text in map(reading.text_of, set(cells)) if text}
        changed = [value for value in sorted(values) if plain_number(value, *form) != value]
        if changed and _share(values, ".", "") >= _LIKELY:
            raise UserError(
                f"{where}: column '{name}' has numbers such as '{changed[0]}', but other columns "
                f"have the decimal mark '{form[0]}'; say decimal = '.' or ',', or write all alike."
            )
    return form


def _share(values: set[str], decimal: str, thousands: str) -> float:
    """Return the share of values that are numbers of a form."""
    if decimal == "." and not thousands:
        return sum(map(_is_float, values)) / len(values)
    pattern = _number(decimal, thousands)
    return sum(pattern.fullmatch(value) is not None for value in values) / len(values)


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# -- Parquet -------------------------------------------------------------------------------


def _read_parquet(path: Path, where: str, reading: Reading) -> Columns:
    if find_spec("polars") is None:
        raise UserError(
            f"{where}: {path} needs one package more: pip install 'comity[parquet]'; a CSV file "
            "needs none."
        )
    import polars

    try:
        frame = polars.read_parquet(path)
    except FileNotFoundError:
        raise UserError(f"{where}: there is no file {path}.") from None
    except (OSError, polars.exceptions.PolarsError) as error:
        raise UserError(f"{where}: cannot read {path}: {str(error).splitlines()[0]}.") from None
    if not frame.height or len(frame.columns) < 2:
        raise UserError(f"{where}: {path} needs two or more columns, and rows.")
    return {name: as_texts(frame[name].to_list(), reading) for name in frame.columns}
