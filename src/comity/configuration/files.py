"""Values in TOML files and in ``--set`` options."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from comity.errors import UserError


def read_toml(path: Path) -> dict[str, Any]:
    """Return the values in a configuration file."""
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise UserError(f"config: no file {path}.") from None
    except RecursionError:
        raise UserError(f"config: {path} is nested too deeply.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"config: {path} is not a TOML file: {error}.") from None


def difference(
    before: Mapping[str, Any], after: Mapping[str, Any], *, table: str = "", common: bool = False
) -> str:
    """Return the first value that differs, as ``dqn.local_steps is 5, it was 64``; or nothing.

    Args:
        before: Values of a configuration file, by name.
        after: The same, later.
        table: Name of the table that they are in, with a dot.
        common: Compare only what both have.
    """
    for name in [*after, *(name for name in before if name not in after)]:
        if common and (name not in before or name not in after):
            continue
        old, new = before.get(name), after.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            if inner := difference(old, new, table=f"{table}{name}.", common=common):
                return inner
        elif old != new or type(old) is not type(new):
            shown = [_shown(values, name) for values in (after, before)]
            return f"{table}{name} {shown[0]}, it {shown[1].replace('is', 'was', 1)}"
    return ""


def _shown(values: Mapping[str, Any], name: str) -> str:
    """Return a value for a message: ``is 5``, or ``is not set``."""
    text = repr(values[name]) if name in values else "not set"
    return f"is {text if len(text) <= 60 else text[:59] + '…'}"


def parse_setting(text: str) -> tuple[list[str], Any]:
    """Split ``"fedpref.top_r=0.4"`` into path and value; values are TOML, bare words strings."""
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise UserError(f"--set {text}: expected NAME=VALUE, e.g. --set dqn.learning_rate=1e-3.")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except RecursionError:
        raise UserError(f"--set {path}: the value is nested too deeply.") from None
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    return path.strip().split("."), parsed
