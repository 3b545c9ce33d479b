"""Dates in tables, which models take as days since the first of January 1970."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from datetime import datetime

from comity.errors import UserError

FORMATS = (
    *("%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y/%m/%d"),
    *("%d.%m.%Y", "%d.%m.%Y %H:%M", "%d-%m-%Y", "%d/%m/%Y", "%m/%d/%Y"),
)
"""Formats that are found in a file without being named."""
_DATE = re.compile(r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}([ T]\d{2}:\d{2}(:\d{2})?)?")
_LIKELY = 0.9  # least share of a column's values that are dates
_START = datetime(1970, 1, 1)
_EXAMPLE = datetime(2026, 12, 31, 23, 59, 59)


def days(text: str, form: str) -> float:
    """Return the days from 1970 to a date, or NaN.

    Args:
        text: A cell.
        form: Format of dates, as Python's ``strptime`` has it: ``%d.%m.%Y``.
    """
    try:
        return (datetime.strptime(text, form) - _START).total_seconds() / 86_400
    except ValueError:
        return math.nan


def days_text(text: str, form: str) -> str:
    """Return the days as text; a cell that is no date stays as it is."""
    number = days(text, form)
    return text if math.isnan(number) else f"{number:.15g}"


def example(form: str) -> str:
    """Return a date in a format, for messages."""
    return _EXAMPLE.strftime(form)


def found_format(values: Collection[str], about: str) -> str | None:
    """Return the format of a column's dates; None if it has none.

    Args:
        values: Different values of the column.
        about: Name of the column, for messages.

    Raises:
        UserError: day and month cannot be told apart.
    """
    likely = [value for value in values if _DATE.fullmatch(value)]
    if not values or len(likely) < _LIKELY * len(values):
        return None
    shares = {form: sum(not math.isnan(days(v, form)) for v in likely) for form in FORMATS}
    best = max(shares.values())
    forms = [form for form, count in shares.items() if count == best >= _LIKELY * len(values)]
    if len(forms) > 1 and any(days(v, forms[0]) != days(v, forms[1]) for v in likely):
        raise UserError(
            f"{about} has dates such as '{min(likely)}', in which day and month cannot be told "
            f"apart; say dates = {{column = '{forms[0]}'}} or '{forms[1]}', or exclude the column."
        )
    return forms[0] if forms else None
