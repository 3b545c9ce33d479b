"""The documents of a negotiation: an offer, the answers to it, the charter, consents.

An offer is a federation file with one table more, ``[negotiable]``, and perhaps without
``[sites]``. A charter is the federation file that an offer and its answers make. Every document is
identified by the SHA-256 of its bytes, and nobody writes one anew.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tomli_w

from comity.configuration.federation_file import (
    NEGOTIABLE,
    Digest,
    FederationFile,
    parse_federation,
)
from comity.configuration.files import MOST_BYTES, parse_toml, read_document
from comity.configuration.negotiation import Interval, Range, Value, read_ranges
from comity.configuration.run import Configuration
from comity.errors import UserError
from comity.problems import find as find_problem
from comity.settings import Settings, build, setting

_LEARNER = "LEARNER"
_PLACES: dict[str, tuple[str, ...]] = {
    "steps": (_LEARNER, "local_steps"),
    "waiting": ("links", "waiting"),
    "guard": ("guard",),
    "encoding": ("encoding",),
    "model_format": ("session", "model_format"),
    "patience": ("server", "patience"),
    "server_silent": ("session", "server_silent"),
    "relays": ("links", "relays"),
}
"""Where a federation file has each negotiable field."""
_OFFER = Path("offer")
_QUORUM = 2  # of an offer that names none: a member alone needs no federation
_MOST_INVITED = 1000


class AnswerValues(Settings):
    """The values of an answer: what a member accepts of an offer, or why it refuses."""

    version: Literal[1] = setting(1, "version of the format; this Comity reads 1")
    offer: Digest = setting(..., "SHA-256 of the offer")
    name: str = setting(..., "the member's name, as it will stand in [sites]")
    certificate: str = setting("", "the member's certificate (PEM)")
    refuses: list[str] = setting([], "reasons for which the member does not take part")
    accepts: dict[str, Any] = setting({}, "by negotiable field, the values accepted")


class ConsentValues(Settings):
    """The values of a consent: a member's signature makes it binding."""

    version: Literal[1] = setting(1, "version of the format; this Comity reads 1")
    charter: Digest = setting(..., "SHA-256 of the charter")
    name: str = setting(..., "the member's name in [sites] of the charter")


@dataclass(frozen=True)
class Offer:
    """An offer, read and checked."""

    document: Mapping[str, Any]
    """Its values without ``[negotiable]``."""
    draft: FederationFile
    """The offered session; where nobody is named, with members that stand for those to come."""
    ranges: Mapping[str, Range]
    """What may be chosen, by negotiable field."""
    offered: Mapping[str, Value]
    """The offered value of each of these fields."""

    @property
    def invited(self) -> Mapping[str, Any]:
        """Tables of the members that may answer, by name; empty: anybody may."""
        sites: Mapping[str, Any] = self.document.get("sites", {})
        return sites

    def session(self, values: Mapping[str, Value]) -> FederationFile:
        """Return the offered session with other values.

        Args:
            values: Values by negotiable field.
        """
        document = copy.deepcopy(dict(self.document))
        for field, value in values.items():
            _put(document, _place(field, document), value)
        return _draft(document, self.draft.path, b"")

    def charter(self, values: Mapping[str, Value], sites: Mapping[str, str]) -> dict[str, Any]:
        """Return the values of a charter.

        Args:
            values: The chosen value per negotiable field.
            sites: Certificates of the members by name, empty where a member has none.
        """
        charter = copy.deepcopy(dict(self.document))
        for field, value in values.items():
            _put(charter, _place(field, charter), value)
        charter["sites"] = {
            name: {"certificate": sites[name]} if sites[name] else {} for name in sorted(sites)
        }
        charter["session"] = {**charter.get("session", {}), "offer": self.draft.identity}
        return charter


def read_offer(path: str | Path, allowed: Collection[str] | None = None) -> Offer:
    """Return an offer.

    Args:
        path: The file.
        allowed: Algorithms that the reader's terms name; see `read_federation`.
    """
    path = Path(path)
    content, values = read_document(path, MOST_BYTES)
    return _offer(values, path, content, allowed)


def is_offer(path: str | Path) -> bool:
    """Return whether a TOML file is an offer."""
    return NEGOTIABLE in read_document(Path(path), MOST_BYTES)[1]


def _offer(
    values: Mapping[str, Any], path: Path, content: bytes, allowed: Collection[str] | None
) -> Offer:
    document = dict(values)
    if NEGOTIABLE not in document:
        raise UserError(f"{path} is not an offer: comity charter offer {path} makes one of it.")
    ranges = read_ranges(document.pop(NEGOTIABLE), NEGOTIABLE)
    draft = _draft(document, path, content, allowed)
    offered = {}
    for field, range in ranges.items():
        value = _get(document, _place(field, document))
        if value not in range or (not isinstance(range, Interval) and value != range.named[0]):
            raise UserError(
                f"{path}: {'.'.join(_place(field, document))} = {value!r}: the offered value must "
                f"be in negotiable.{field}, in a list its first. comity charter offer writes it."
            )
        offered[field] = value
    return Offer(document, draft, ranges, offered)


def _draft(
    document: Mapping[str, Any], path: Path, content: bytes, allowed: Collection[str] | None = None
) -> FederationFile:
    """Return the session of an offer; one that invites nobody by name gets placeholders."""
    if not document.get("sites"):
        if document.get("links"):
            raise UserError(
                f"{path}: [sites] is missing: with [links], name one member per client of the "
                "contact plan, in the order of the clients' names."
            )
        server = document.get("server")
        quorum = server.get("quorum") if isinstance(server, Mapping) else None
        count = min(quorum, _MOST_INVITED) if type(quorum) is int else _QUORUM
        names = [f"member-{number}" for number in range(1, max(count, _QUORUM) + 1)]
        document = {**document, "sites": {name: {} for name in names}}
    return parse_federation(document, path, content, allowed)


def make_offer(draft: Mapping[str, Any], table: Mapping[str, Any], path: Path = _OFFER) -> bytes:
    """Return an offer as a file.

    The offered value of a field is that of the draft. In a list of values it is the first.

    Args:
        draft: Values of a federation file, perhaps without ``[sites]``, perhaps with
            ``[negotiable]``.
        table: Further negotiable fields.
        path: The draft's file, beside which a contact plan may lie.
    """
    document = copy.deepcopy(dict(draft))
    known = document.pop(NEGOTIABLE, {})
    ranges = read_ranges({**known, **table} if isinstance(known, Mapping) else known, NEGOTIABLE)
    server = document.setdefault("server", {})
    if isinstance(server, dict) and len(document.get("sites") or ["any", "two"]) >= _QUORUM:
        server.setdefault("quorum", _QUORUM)
    current = _values(document, path)
    for field, range in ranges.items():
        place = _place(field, document)
        if place[0] == "links" and not document.get("links"):
            raise UserError(
                f"negotiable.{field}: the draft has no [links]; without a contact plan members "
                "pause until they are answered, and nobody relays."
            )
        named = _get(document, place)
        if named is None:
            named = current[field] if isinstance(range, Interval) else range.named[0]
        _put(document, place, named)
        effect = _values(document, path)[field]
        if effect != named:
            raise UserError(
                f"negotiable.{field}: {'.'.join(place)} has no effect in this draft, which has "
                f"{effect}."
            )
        for value in range.named:  # each must be possible
            variant = copy.deepcopy(document)
            _put(variant, place, value)
            _values(variant, path)
    offer = {**document, NEGOTIABLE: {field: range.plain() for field, range in ranges.items()}}
    _offer(offer, path, b"", None)
    lines = [f"{field} = {range.text()}\n" for field, range in ranges.items()]  # in their order
    text = tomli_w.dumps(document, multiline_strings=True)
    return (text + f"\n[{NEGOTIABLE}]\n" + "".join(lines)).encode()


def _values(document: Mapping[str, Any], path: Path) -> dict[str, Value]:
    """Return the value of each negotiable field in a draft, which must be possible."""
    draft = _draft(document, path, b"")
    return file_values(draft, draft.configuration())


def file_values(file: FederationFile, configuration: Configuration) -> dict[str, Value]:
    """Return the value of each negotiable field in a federation file.

    Args:
        file: The file.
        configuration: Its configuration.
    """
    learner = configuration.learner_settings
    epochs = learner.get("local_epochs")
    links = configuration.links
    return {
        "steps": f"{epochs} epochs" if epochs else learner["local_steps"],
        "waiting": "pause" if links is None else links.waiting,
        "guard": configuration.guard,
        "encoding": configuration.encoding,
        "model_format": file.session.model_format,
        "patience": file.server.patience,
        "server_silent": file.session.server_silent,
        "relays": "none" if links is None else links.relays,
    }


def read_answer_values(content: bytes, where: str) -> AnswerValues:
    """Return the values of an answer.

    Args:
        content: The answer without its signature.
        where: Name of the file, for messages.
    """
    return build(AnswerValues, parse_toml(content, where), where)


def read_consent_values(content: bytes, where: str) -> ConsentValues:
    """Return the values of a consent.

    Args:
        content: The consent without its signature.
        where: Name of the file, for messages.
    """
    return build(ConsentValues, parse_toml(content, where), where)


def _place(field: str, document: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys under which a file has a negotiable field."""
    first, *rest = _PLACES[field]
    return (find_problem(document["problem"]).learner if first == _LEARNER else first, *rest)


def _get(document: Mapping[str, Any], place: tuple[str, ...]) -> Any:
    value: Any = document
    for key in place:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _put(document: dict[str, Any], place: tuple[str, ...], value: Value) -> None:
    *tables, key = place
    for name in tables:
        document = document.setdefault(name, {})
        if not isinstance(document, dict):
            raise UserError(f"{name} = {document!r}: must be a table of settings.")
    document[key] = value
