"""Answers, agreement and consent: what parties sign on the way to a charter.

A signed document is a TOML file that ends with a table ``[signature]``; what is signed are the
bytes before it, after the name of the document's kind.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tomli_w

from comity.configuration.charter import (
    Offer,
    file_values,
    read_answer_values,
    read_consent_values,
)
from comity.configuration.federation_file import FederationFile, check_site_name, parse_federation
from comity.configuration.files import MOST_BYTES, read_document
from comity.configuration.negotiation import (
    Outcome,
    Range,
    Value,
    Values,
    agree,
    conflicts,
    read_ranges,
)
from comity.configuration.terms import MemberTerms, accepted, range_faults
from comity.errors import RefusedError, UserError
from comity.federation.agreement import Agreement
from comity.federation.initial_model import initial_model
from comity.federation.keys import Certificate, Keys, parse_certificate, verify
from comity.federation.parties import site_certificate
from comity.federation.policy import charter_faults, policy_faults, terms_faults

Kind = Literal["answer", "consent"]
_DECISIVE = ("guard", "encoding")  # fields that decide what leaves, and how many bytes
_SIGNATURE = re.compile(rb'\n\[signature\]\nvalue = "([0-9a-f]{128})"\n\Z')


def signed(kind: Kind, body: bytes, keys: Keys | None) -> bytes:
    """Return a document with its signature, where there is a key.

    Args:
        kind: Kind of the document.
        body: The document.
        keys: The signer's keys.
    """
    if keys is None:
        return body
    value = keys.sign(_signed(kind, body)).hex()
    return body + f'\n[signature]\nvalue = "{value}"\n'.encode()


def _signed(kind: Kind, body: bytes) -> bytes:
    return f"comity {kind} 1\n".encode() + body


def _opened(content: bytes) -> tuple[bytes, bytes | None]:
    """Return a document without its signature, and the signature if there is one."""
    match = _SIGNATURE.search(content)
    return (content, None) if match is None else (
        content[: match.start()], bytes.fromhex(match[1].decode())
    )  # fmt: skip


# -- answers -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """An answer to an offer, read and verified."""

    path: Path
    digest: str
    """SHA-256 of the file's bytes."""
    offer: str
    """SHA-256 of the offer."""
    name: str
    certificate: Certificate | None
    refuses: tuple[str, ...]
    """Reasons for which the member does not take part; empty: it accepts."""
    accepts: Mapping[str, Range]
    """By negotiable field, what the member accepts."""


def answer(
    offer: Offer, terms: MemberTerms, name: str, keys: Keys | None
) -> tuple[bytes, list[str]]:
    """Return a member's answer to an offer as a file, and the reasons if it refuses.

    Args:
        offer: The offer.
        terms: The member's terms.
        name: The member's name.
        keys: The member's keys, if it has any.
    """
    check_site_name(name, "name")
    if offer.invited and name not in offer.invited:
        raise RefusedError(
            f"{offer.draft.path} invites {', '.join(offer.invited)}, and not '{name}'."
        )
    accepts, reasons = _considered(offer, terms)
    values: dict[str, object] = {"version": 1, "offer": offer.draft.identity, "name": name}
    if keys is not None:
        values["certificate"] = keys.certificate.pem.decode()
    if reasons:
        values["refuses"] = reasons
    body = tomli_w.dumps(values, multiline_strings=True)
    if not reasons:
        ranges = {field: range for field, range in accepts.items() if range is not None}
        lines = [f"{field} = {range.text()}\n" for field, range in ranges.items()]
        body += "\n[accepts]\n" + "".join(lines)
    return signed("answer", body.encode(), keys), reasons


def _considered(offer: Offer, terms: MemberTerms) -> tuple[dict[str, Range | None], list[str]]:
    """Return what a member accepts per negotiable field, and the reasons if it refuses.

    A fault that only some values of a field have costs these values; one that all have is a reason.
    """
    fixed = file_values(offer.draft, offer.draft.configuration())
    accepts = accepted(terms, offer.ranges)
    decisive = [f for f in _DECISIVE if isinstance(accepts.get(f), Values)]
    chosen = {field: range.named[0] for field in decisive if (range := accepts[field])}
    for field in decisive:
        range = accepts[field]
        assert range is not None
        faults = {v: _faults(offer, terms, {**chosen, field: v}) for v in range.named}
        shared = set.intersection(*map(set, faults.values()))
        kept = tuple(value for value, own in faults.items() if set(own) == shared)
        accepts[field] = Values(kept or range.named)
        chosen[field] = (kept or range.named)[0]
    reasons = _faults(offer, terms, chosen)
    reasons += range_faults(terms, {f: v for f, v in fixed.items() if f not in offer.ranges})
    reasons += [
        f"{field}: the offer has {offer.ranges[field]}; the terms accept {terms.ranges[field]}."
        for field, range in accepts.items()
        if range is None
    ]
    return accepts, reasons


def _faults(offer: Offer, terms: MemberTerms, values: Mapping[str, Value]) -> list[str]:
    """Return a sentence per rule that the offered session breaks with some values."""
    file = offer.session(values)
    configuration = file.configuration()
    return [
        *policy_faults(terms, configuration, Agreement(configuration)),
        *terms_faults(terms, file, configuration),
    ]


def read_answer(path: str | Path) -> Answer:
    """Return an answer whose signature is right.

    Args:
        path: The file.

    Raises:
        RefusedError: the signature is missing or wrong.
    """
    path = Path(path)
    content, _ = read_document(path, MOST_BYTES)
    body, signature = _opened(content)
    values = read_answer_values(body, path.name)
    check_site_name(values.name, f"{path}: name")
    certificate = None
    if values.certificate:
        certificate = parse_certificate(values.certificate.encode(), f"{path}: certificate")
        if certificate.name != values.name:
            raise UserError(f"{path}: the certificate is that of '{certificate.name}'.")
        if signature is None or not verify(certificate, _signed("answer", body), signature):
            raise RefusedError(
                f"{path}: the signature is not that of '{values.name}' for this answer. Ask for "
                "the file as it was written."
            )
    elif signature is not None:
        raise RefusedError(f"{path}: there is a signature, but no certificate to check it by.")
    accepts = read_ranges(values.accepts, "accepts")
    digest = hashlib.sha256(content).hexdigest()
    return Answer(
        path, digest, values.offer, values.name, certificate, tuple(values.refuses), accepts
    )


# -- agreement -----------------------------------------------------------------------------


def agree_on(offer: Offer, answers: Sequence[Answer]) -> tuple[bytes, Outcome]:
    """Return the charter that an offer and its answers make, and how it was chosen.

    Args:
        offer: The offer.
        answers: The answers, in any order.

    Raises:
        RefusedError: too few members accept the same; names the fields that part them.
    """
    known = _by_name(offer, answers)
    willing = {name: one for name, one in known.items() if not one.refuses}
    ranges = {name: one.accepts for name, one in willing.items()}
    outcome = agree(offer.offered, offer.ranges, ranges)
    quorum = offer.draft.server.quorum
    if len(outcome.members) < quorum:
        raise RefusedError(_failure(len(outcome.members), quorum, known, ranges))
    certificates = {name: _pem(willing[name].certificate) for name in outcome.members}
    charter = offer.charter(outcome.values, certificates)
    configuration = parse_federation(charter, offer.draft.path, b"").configuration()
    charter["session"].update(initial_model(configuration))
    if configuration.links is not None:  # the contact plan lies beside the charter: bind it, too
        table = charter["links"]
        table = {"contacts": table} if isinstance(table, str) else table
        charter["links"] = {**table, "sha256": configuration.links.sha256}
    return tomli_w.dumps(charter, multiline_strings=True).encode(), outcome


def _pem(certificate: Certificate | None) -> str:
    return "" if certificate is None else certificate.pem.decode()


def _by_name(offer: Offer, answers: Sequence[Answer]) -> dict[str, Answer]:
    """Return the answers by name, each checked against the offer."""
    known: dict[str, Answer] = {}
    for one in sorted(answers, key=lambda answer: (answer.name, answer.digest)):
        if one.offer != offer.draft.identity:
            raise RefusedError(f"{one.path} answers another offer ({one.offer[:12] or 'none'}).")
        if one.name in known and known[one.name].digest != one.digest:
            raise UserError(
                f"{known[one.name].path} and {one.path} are two answers of '{one.name}'. Leave "
                "one out."
            )
        if offer.invited:
            _check_invited(offer, one)
        if not one.refuses and set(one.accepts) != set(offer.ranges):
            raise UserError(
                f"{one.path}: accepts has {', '.join(one.accepts) or 'nothing'}; the offer "
                f"negotiates {', '.join(offer.ranges) or 'nothing'}."
            )
        known[one.name] = one
    return known


def _check_invited(offer: Offer, one: Answer) -> None:
    if one.name not in offer.invited:
        raise RefusedError(f"{one.path}: the offer does not invite '{one.name}'.")
    expected = offer.draft.sites[one.name].certificate
    if not expected:
        return
    invited = parse_certificate(expected.encode(), f"{offer.draft.path}: sites.{one.name}")
    if one.certificate is None or one.certificate.fingerprint != invited.fingerprint:
        raise RefusedError(f"{one.path}: the certificate is not the one that the offer invites.")


def _failure(
    members: int,
    quorum: int,
    answers: Mapping[str, Answer],
    ranges: Mapping[str, Mapping[str, Range]],
) -> str:
    """Return why too few members accept the same, field by field."""
    pairs: dict[str, list[str]] = {}
    for field, first, second in conflicts(ranges):
        both = f"{first} ({ranges[first][field]}) and {second} ({ranges[second][field]})"
        pairs.setdefault(field, []).append(both)
    parts = [f"{field}: {'; '.join(both)} exclude each other." for field, both in pairs.items()]
    parts += [
        f"{name} refuses: {' '.join(one.refuses)}" for name, one in answers.items() if one.refuses
    ]
    return " ".join(
        [f"no charter: at most {members} members accept the same, quorum = {quorum}.", *parts]
    )


# -- consent -------------------------------------------------------------------------------


def consent(file: FederationFile, terms: MemberTerms, keys: Keys) -> bytes:
    """Return a member's consent to a charter as a file, after a check against its own terms.

    Args:
        file: The charter.
        terms: The member's terms.
        keys: The member's keys.

    Raises:
        RefusedError: the terms forbid the charter; names all rules.
    """
    name = keys.certificate.name
    if name not in file.sites:
        raise RefusedError(f"{file.path}: '{name}' is not among its members.")
    if site_certificate(file, name).fingerprint != keys.certificate.fingerprint:
        raise RefusedError(f"{file.path}: the certificate of '{name}' there is another one.")
    if faults := charter_faults(terms, file):
        raise RefusedError(f"{file.path} breaks the terms: {' '.join(faults)}")
    body = tomli_w.dumps({"version": 1, "charter": file.identity, "name": name})
    return signed("consent", body.encode(), keys)


def read_consent(path: str | Path, file: FederationFile) -> str:
    """Return the name of the member that has consented to a charter.

    Args:
        path: The consent.
        file: The charter.

    Raises:
        RefusedError: it is a consent to another charter, or its signature is wrong.
    """
    path = Path(path)
    content, _ = read_document(path, MOST_BYTES)
    body, signature = _opened(content)
    values = read_consent_values(body, path.name)
    if values.charter != file.identity:
        raise RefusedError(
            f"{path} is a consent to {values.charter[:12] or 'nothing'}, and {file.path} is "
            f"{file.identity[:12]}: one changed byte is another charter."
        )
    if values.name not in file.sites:
        raise RefusedError(f"{path}: '{values.name}' is not among the members of {file.path}.")
    certificate = site_certificate(file, values.name)
    if signature is None or not verify(certificate, _signed("consent", body), signature):
        raise RefusedError(f"{path}: the signature is not that of '{values.name}'.")
    return values.name
