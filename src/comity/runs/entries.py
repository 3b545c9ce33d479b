"""Entries of a comparison: algorithms with optional settings of their own.

``fedpref``, ``fedavg+ft`` (the last mixing replaced by local training), ``fedavg+confree`` (under a
wrapper, or under several: ``fedavg+clip+confree``), ``fedpref[clustering=false,guard=false]``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from comity.algorithms import find
from comity.algorithms.wrappers import find_wrappers, fits, wrappers
from comity.configuration import RUN_SETTINGS, parse_setting
from comity.configuration.attack import NONE
from comity.core.encodings import ENCODINGS
from comity.errors import UserError, unknown


def split_entries(text: str) -> list[str]:
    """Return ``"fedavg,fedpref[guard=false,top_r=1]"`` as a list of entries."""
    # what is no entry, such as one with an open bracket, is kept to be refused by its name
    parts = re.findall(r"(?:[^,\[]|\[[^\]]*\]|\[)+", text)
    return [part.strip() for part in parts if part.strip()]


def with_wrapper(entries: Sequence[str], wrapper: str | None) -> list[str]:
    """Return entries and, beside each that wrappers fit, the same under them: ``clip,confree``."""
    if wrapper is None:
        return list(entries)
    classes = find_wrappers(wrapper)
    wrapped: list[str] = []
    for entry in entries:
        wrapped.append(entry)
        values = entry_values(entry)
        name = values["algorithm"]
        if "wrapper" not in values and classes and all(fits(cls, find(name)) for cls in classes):
            names = "".join(f"+{cls.declaration.name}" for cls in classes)
            wrapped.append(f"{name}{names}{entry.removeprefix(name)}")
    return wrapped


def with_attacks(entries: Sequence[str], attacks: Sequence[str]) -> list[str]:
    """Return each entry under each attack: ``fedavg``, ``fedavg[attack=sign-flip:3]`` ...

    Entries that have an attack of their own stay as they are.

    Args:
        entries: Entries of a comparison.
        attacks: The attacks; ``none`` stands for the entry itself.
    """
    return [
        # commas separate settings inside brackets
        entry if attack == NONE else _extended(entry, f"attack={attack.replace(',', ';')}")
        for entry in entries
        for attack in ([NONE] if "attack" in entry_values(entry) else dict.fromkeys(attacks))
    ]


def with_encodings(entries: Sequence[str], encodings: Sequence[str]) -> list[str]:
    """Return each entry under each encoding: ``fedavg``, ``fedavg[encoding=int8]`` ...

    Entries that have an encoding of their own stay as they are; so do those whose clients exchange
    no models.

    Args:
        entries: Entries of a comparison.
        encodings: Names of encodings; ``none`` stands for the entry itself.
    """
    if not encodings:
        raise UserError("encodings: name at least one of " + ", ".join(ENCODINGS) + ".")
    for encoding in encodings:
        if encoding not in ENCODINGS:
            raise unknown("encoding", encoding, ENCODINGS)
    expanded: list[str] = []
    for entry in entries:
        values = entry_values(entry)
        if "encoding" in values or not find(values["algorithm"]).communicates:
            expanded.append(entry)
            continue
        for encoding in dict.fromkeys(encodings):
            setting = f"encoding={encoding}"
            expanded.append(entry if encoding == "none" else _extended(entry, setting))
    return expanded


def _extended(entry: str, setting: str) -> str:
    """Return an entry with one more setting in its brackets."""
    name, _, inside = entry.removesuffix("]").partition("[")
    return f"{name}[{','.join(filter(None, (inside, setting)))}]"


def entry_values(entry: str) -> dict[str, Any]:
    """Return the settings that an entry of a comparison stands for."""
    names = "|".join(map(re.escape, wrappers()))
    match = re.fullmatch(rf"([\w-]+|[\w.]+:\w+)((?:\+(?:{names}))*)(\+ft)?(?:\[(.*)\])?", entry)
    if match is None:
        raise UserError(
            f"algorithms: '{entry}' is not NAME, {''.join(f'NAME+{name}, ' for name in wrappers())}"
            "NAME+ft or NAME[setting=value,…]; NAME is registered, or module:class of your own."
        )
    name, wrapped, fine_tuned, inside = match.groups()
    table_name = find(name).declaration.name
    values: dict[str, Any] = {"algorithm": name}
    if wrapped:
        values["wrapper"] = wrapped[1:].replace("+", ",")
    if fine_tuned:
        values["fine_tune"] = "replace-last"
    for part in (inside or "").split(","):
        if part:
            path, value = parse_setting(part)
            put(values, path, value, table_name)
    return values


def put(values: dict[str, Any], path: Sequence[str], value: Any, algorithm: str) -> None:
    """Put a setting into the values of a configuration.

    Args:
        values: The values.
        path: The setting's name in an entry, split at its dot: a run's or the algorithm's own
            setting, or table and name.
        value: Its value.
        algorithm: Declared name of the algorithm.
    """
    key, *rest = path
    if rest:
        values.setdefault(key, {})[rest[0]] = value
    elif key in RUN_SETTINGS:
        values[key] = value
    else:
        values.setdefault(algorithm, {})[key] = value


def merge(common: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return common settings overridden by an entry's own, table by table."""
    merged = dict(common)
    for key, value in own.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = {**merged[key], **value} if both else value
    return merged
