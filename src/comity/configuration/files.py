"""Values in TOML files and in ``--set`` options."""

from __future__ import annotations

import tomllib
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
    except (RecursionError, ValueError):  # nested too deeply, a number with too many digits
        raise UserError(f"config: {where} is not a TOML file.") from None


def parse_setting(text: str) -> tuple[list[str], Any]:
    """Split ``"fedpref.top_r=0.4"`` into path and value; values are TOML, bare words strings."""
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise UserError(f"--set {text}: expected NAME=VALUE, e.g. --set dqn.learning_rate=1e-3.")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    return path.strip().split("."), parsed
