"""What integrations share: names and values of an event as other tools take them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from comity.errors import UserError
from comity.runs.events import EndEvent, Source


def missing(tool: str, extra: str) -> UserError:
    """Return the error for a library that is not installed.

    Args:
        tool: Name of the tool.
        extra: Name of Comity's extra with it.
    """
    return UserError(
        f"log: {tool} is not installed. Install it with: pip install 'comity[{extra}]'."
    )


def title(event: Source) -> str:
    """Return a name for a run or search among others."""
    what = event.algorithm if event.generator is None else f"{event.generator} search"
    return f"{event.problem}, {what}, seed {event.seed}"


def final_metrics(event: EndEvent) -> dict[str, float]:
    """Return the finite measures of results as ``result/NAME``, those of last models apart."""
    return {
        f"{prefix}/{name}": float(value)
        for prefix, kind in (("result", "metrics"), ("result_last", "metrics_last"))
        for name, value in event.results.get(kind, {}).items()
        if value is not None and math.isfinite(value)
    }


def verdict_of(event: EndEvent) -> str:
    """Return the verdict in words."""
    return " ".join(event.results.get("verdict", {}).get("sentences", ()))


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return settings as one flat table: ``fedpref.top_r``."""
    values: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            values |= flat(value, f"{prefix}{name}.")
        else:
            values[f"{prefix}{name}"] = value
    return values
