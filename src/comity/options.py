"""What the options of the command line say, as values. Heavy imports happen inside."""

from __future__ import annotations

import os
from typing import Any

from comity.errors import UserError


def given(**options: Any) -> dict[str, Any]:
    """The options that were given, by name."""
    return {name: value for name, value in options.items() if value is not None}


def apply_settings(values: dict[str, Any], settings: list[str] | None) -> None:
    """Put what ``--set`` said into the values of a configuration."""
    from comity.configuration import parse_setting

    for text in settings or []:
        path, value = parse_setting(text)
        if len(path) > 2:
            raise UserError(f"--set {text}: a name has at most one dot, e.g. dqn.local_steps.")
        if len(path) == 1:
            values[path[0]] = value
        else:
            table = values.setdefault(path[0], {})
            if not isinstance(table, dict):
                raise UserError(f"--set {text}: '{path[0]}' is not a table of settings.")
            table[path[1]] = value


def seeds_of(text: str) -> int | list[int]:
    """What ``--seeds`` said: how many, or which ones."""
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 0 or ("," not in text and numbers[0] < 1):
        raise UserError(f"--seeds {text}: give a number of seeds (5) or a list (11,17,29).")
    return numbers if "," in text else numbers[0]


def workers_of(asked: int | None, useful: float | None = None) -> int:
    """What ``--workers`` said, or as many processes as there are cores and use for them."""
    from comity.execution import check_workers

    if asked is not None:
        check_workers(asked)
        return asked
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(cores or 1, int(useful) if useful is not None else 64))
