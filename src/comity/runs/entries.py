"""Entries of a comparison: algorithms with optional settings of their own.

``fedpref``, ``fedavg+ft`` (the last mixing replaced by local training), ``fedavg+confree`` (under a
wrapper), ``fedpref[clustering=false,guard=false]``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from comity.algorithms import find
from comity.algorithms.wrappers import find_wrapper, fits, wrappers
from comity.configuration import RUN_SETTINGS, parse_setting
from comity.core.encodings import ENCODINGS
from comity.errors import UserError, unknown


def split_entries(text: str) -> list[str]:
    """Return ``"fedavg,fedpref[guard=false,top_r=1]"`` as a list of entries."""
    # what is no entry, such as one with an open bracket, is kept to be refused by its name
    parts = re.findall(r"(?:[^,\[]|\[[^\]]*\]|\[)+", text)
    return [part.strip() for part in parts if part.strip()]


def with_wrapper(entries: Sequence[str], wrapper: str | None) -> list[str]:
    """Return entries and, beside each that a wrapper fits, the same under that wrapper."""
    if wrapper is None:
        return list(entries)
    wrapper_class = find_wrapper(wrapper)
    found: list[str] = []
    for entry in entries:
        found.append(entry)
        values = entry_values(entry)
        if "wrapper" not in values and fits(wrapper_class, find(values["algorithm"])):
            name = values["algorithm"]
            found.append(f"{name}+{wrapper}{entry.removeprefix(name)}")
    return found


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
        name, _, inside = entry.removesuffix("]").partition("[")
        for encoding in dict.fromkeys(encodings):
            settings = ",".join(filter(None, (inside, f"encoding={encoding}")))
            expanded.append(entry if encoding == "none" else f"{name}[{settings}]")
    return expanded


def entry_values(entry: str) -> dict[str, Any]:
    """The settings that an entry of a comparison stands for."""
    names = "|".join(map(re.escape, wrappers()))
    match = re.fullmatch(rf"([\w-]+|[\w.]+:\w+)(?:\+({names}))?(\+ft)?(?:\[(.*)\])?", entry)
    if match is None:
        raise UserError(
            f"algorithms: '{entry}' is not NAME, {''.join(f'NAME+{name}, ' for name in wrappers())}"
            "NAME+ft or NAME[setting=value,…]; NAME is registered, or module:class of your own."
        )
    name, wrapped, fine_tuned, inside = match.groups()
    table_name = find(name).declaration.name
    values: dict[str, Any] = {"algorithm": name}
    if wrapped:
        values["wrapper"] = wrapped
    if fine_tuned:
        values["fine_tune"] = "replace-last"
    for part in (inside or "").split(","):
        if part:
            (key, *rest), value = parse_setting(part)
            if rest or key in RUN_SETTINGS:
                table = values if not rest else values.setdefault(key, {})
                table[rest[0] if rest else key] = value
            else:
                values.setdefault(table_name, {})[key] = value
    return values
