"""Values in TOML files and in ``--set`` options."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from comity.errors import UserError


def read_toml(path: Path) -> dict[str, Any]:
    """Return the values in a configuration file; a contact plan may lie beside it."""
    try:
        values = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise UserError(f"config: no file {path}.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"config: {path} is not a TOML file: {error}.") from None
    links = values.get("links")
    if isinstance(links, dict) and isinstance(name := links.get("contacts"), str):
        beside = path.parent / name
        links["contacts"] = str(beside if beside.is_file() else name)
    return values


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
