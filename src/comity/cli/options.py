"""The options that commands share, and what they say as values. Heavy imports happen inside."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from comity.errors import UserError

Clients = Annotated[int | None, typer.Option(help="How many clients.")]
Rounds = Annotated[int | None, typer.Option(help="How many rounds.")]
Keep = Annotated[str | None, typer.Option(help="best or last.")]
Participation = Annotated[
    float | None, typer.Option(help="Share of clients that take part in a round.")
]
Partition = Annotated[
    str | None,
    typer.Option(help="How data are dealt: iid, dirichlet:0.3, pathological:2, shards:2, natural."),
]
Sizes = Annotated[
    str | None, typer.Option(help="How much data clients have: equal, dirichlet:2 or 3,2,1.")
]
Guard = Annotated[
    bool | None, typer.Option(help="Clients decline mixed models that serve them worse.")
]
With = Annotated[
    str | None,
    typer.Option("--with", help="A wrapper of the server's step: confree, a conflict-free one."),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any setting: --set fedpref.top_r=0.4 --set dqn.local_steps=500."),
]
Out = Annotated[Path | None, typer.Option(help="Directory to write; must not exist yet.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Workers = Annotated[int | None, typer.Option(help="Processes to use; results do not depend on it.")]
Seeds = Annotated[str, typer.Option(help="How many seeds (5), or which ones (11,17,29).")]


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
    from comity.runs.execute import check_workers

    if asked is not None:
        check_workers(asked)
        return asked
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(cores or 1, int(useful) if useful is not None else 64))


def preference_of(text: str | None) -> list[float] | None:
    """What ``--preference`` said; whether it fits the run is for the run to say."""
    try:
        return None if text is None else [float(part) for part in text.split(",")]
    except ValueError:
        raise UserError(
            f"--preference {text}: give one number an objective, separated by commas, e.g. 0.7,0.3."
        ) from None
