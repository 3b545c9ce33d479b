"""Values in TOML files and in ``--set`` options."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from comity.errors import UserError

MOST_BYTES = 1 << 20
"""Size of the largest document that parties exchange."""


def read_toml(path: Path) -> dict[str, Any]:
    """Return the values in a configuration file; a contact plan may lie beside it."""
    return plan_beside(read_document(path)[1], path)


def plan_beside(values: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return values in which the path of a contact plan that lies beside their file is whole.

    Args:
        values: Content of the file.
        path: The file.
    """
    links = values.get("links")
    if not isinstance(links, dict) or not isinstance(name := links.get("contacts"), str):
        return values
    beside = path.parent / name
    return values | {"links": {**links, "contacts": str(beside if beside.is_file() else name)}}


def read_document(path: Path, most: int | None = None) -> tuple[bytes, dict[str, Any]]:
    """Return a TOML file, its bytes and its values.

    Args:
        path: The file.
        most: Largest number of bytes; None: any.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"config: no file {path}.") from None
    except OSError as error:
        raise UserError(f"config: {path} is not a TOML file: {error}.") from None
    if most is not None and len(content) > most:
        raise UserError(f"{path} has {len(content):,} bytes, {most:,} at most.")
    return content, parse_toml(content, str(path))


def parse_toml(content: bytes, where: str) -> dict[str, Any]:
    """Return the values of a TOML document.

    Args:
        content: The document.
        where: Its name, for messages.
    """
    try:
        return tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"config: {where} is not a TOML file: {error}.") from None
    except RecursionError:
        raise UserError(f"config: {where} is nested too deeply.") from None
    except ValueError:  # a number with too many digits
        raise UserError(f"config: {where} is not a TOML file.") from None


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
