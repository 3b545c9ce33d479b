"""Objects of a user's own modules, named as ``module:attribute``."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from traceback import extract_tb
from typing import Any

from pydantic import PydanticUserError

from comity.errors import UserError

_PACKAGE = str(Path(__file__).parents[1])


def is_reference(name: str) -> bool:
    """Return whether a name is ``module:attribute`` instead of a registered one."""
    return ":" in name


def imported(kind: str, reference: str) -> Any:
    """Return the object ``module:attribute``, also of a module in the working directory.

    Args:
        kind: What is named, for messages: ``"problem"``, ``"algorithm"``.
        reference: The module and the name in it.

    Raises:
        UserError: there is no such module, it cannot be imported, or it lacks the name.
    """
    name, _, attribute = reference.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(name)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{kind} '{reference}': {_fault(name, error)}") from None
    if not hasattr(module, attribute):
        raise UserError(f"{kind} '{reference}': module {name} has no '{attribute}'.")
    return getattr(module, attribute)


def _fault(name: str, error: Exception) -> str:
    """Return in one sentence why a module cannot be imported."""
    absent = error.name if isinstance(error, ModuleNotFoundError) else None
    if not name or absent == name or name.startswith(f"{absent}."):
        return (
            f"there is no module '{name}' in the working directory or on Python's path; change to "
            "its directory, or install it."
        )
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}: {error.msg}."
    frames = extract_tb(error.__traceback__)
    theirs = [
        frame
        for frame in frames
        if not frame.filename.startswith((_PACKAGE, "<")) and "site-packages" not in frame.filename
    ]
    last = (theirs or frames)[-1]
    return f"{last.filename}, line {last.lineno}: {_text(error)}"


def _text(error: Exception) -> str:
    """Return an exception in one line, in words of settings where pydantic's mislead."""
    if isinstance(error, PydanticUserError) and error.code == "model-field-missing-annotation":
        name = str(error.message).split("`")[1]
        return (
            f"{name} is nothing that the base class declares; is it misspelt? A setting has a "
            'type: name: float = comity.setting(1.0, "its meaning").'
        )
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"
