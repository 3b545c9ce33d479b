"""The wire format: sealed messages, the same bytes on every transport.

A sealed message is a header of 72 bytes (big-endian), a body, its checksum and a signature:

| offset | bytes | field                                                                    |
| 0      | 4     | ``CMTY``                                                                 |
| 4      | 1     | version of the format                                                    |
| 5      | 1     | kind                                                                     |
| 6      | 2     | sender: number of the client, 65535 for the server                       |
| 8      | 4     | round                                                                    |
| 12     | 4     | sequence: number of the exchange in the federation                       |
| 16     | 16    | federation: first half of the SHA-256 of the federation file             |
| 32     | 16    | base: the model that tensors are measured from; zero: they are whole     |
| 48     | 16    | result: first half of the SHA-256 of the tensors of models               |
| 64     | 8     | length of the body                                                       |
| 72     | …     | body: 4 bytes length of the control fields, these as JSON, the arrays;   |
|        |       | with a base the models come last, encoded                                |
|        | 32    | SHA-256 of everything before                                             |
|        | 64    | signature of that by the sender; zeros where parties have no keys        |

Arrays are raw little-endian numbers. Models in the layout that both sides have agreed on carry
neither names nor shapes; other arrays are listed in the control fields. Encoded models
(`comity.core.encodings`) are decoded from the base that the header names, and what comes out must
have the checksum in the header. Nothing is unpickled, and
nothing is used before it has been checked.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from math import prod
from typing import Any, NoReturn

import numpy as np

from comity.core.encodings import Encoded, Layout, described, digest, raw
from comity.core.envelope import CONTROL, DIGEST, HEADER, MODELS, SIGNATURE, control_text
from comity.core.typing import NamedArrays

Decode = Callable[[Encoded, Layout], NamedArrays]
"""Returns encoded models of a layout; raises `WireError` if they are not what they should be."""
Sign = Callable[[bytes], bytes]
"""Returns the signature (64 bytes) of some bytes."""
Verify = Callable[[int, bytes, bytes], bool]
"""Returns whether a signature (third) of some bytes (second) is the sender's (first)."""

SERVER = 65535
"""Number of the server as a sender."""

_MAGIC, _VERSION = b"CMTY", 1
_MOST_CONTROL = 1 << 18
_TYPES = frozenset(("f4", "f8", "i8", "u1", "b1"))
_NOTHING = bytes(16)


class Kind(IntEnum):
    """Kinds of messages. 1 to 4 and 7 are kept for the negotiation of a federation."""

    REQUEST = 5
    UPDATE = 6
    REFUSAL = 8


class WireError(Exception):
    """A message that is not taken; the text is a word or two for the history."""


class ForeignError(WireError):
    """A message of a known sender in another federation."""


@dataclass(frozen=True)
class Message:
    """Content of a sealed message."""

    kind: Kind
    sender: int
    round: int
    sequence: int
    control: Mapping[str, Any]
    """Plain values."""
    arrays: NamedArrays = field(default_factory=dict)
    """Arrays by name; tensors of models have the prefix ``models/``."""
    encoded: Encoded | None = None
    """The models as they travel; None: as they are."""


def digest_of(sealed: bytes) -> str:
    """Return the checksum of a sealed message, which identifies it, in hexadecimal."""
    return sealed[-DIGEST - SIGNATURE : -SIGNATURE].hex()


def is_whole(data: bytes) -> bool:
    """Return whether some bytes are a sealed message with nothing missing, changed or added."""
    tail = DIGEST + SIGNATURE
    if len(data) < HEADER.size + tail or not data.startswith(_MAGIC):
        return False
    *_, length = HEADER.unpack_from(data)
    if length != len(data) - HEADER.size - tail:
        return False
    return hashlib.sha256(data[:-tail]).digest() == data[-tail:-SIGNATURE]


def round_of(sealed: bytes) -> int:
    """Return the round of a message, from its header alone; 0 if it is too short."""
    return int.from_bytes(sealed[8:12], "big")


def is_refusal(sealed: bytes) -> bool:
    """Return whether a message is a refusal, from its header alone."""
    return sealed[5] == Kind.REFUSAL


def sequence_of(sealed: bytes) -> int:
    """Return the sequence number of a message, from its header alone."""
    return int.from_bytes(sealed[12:16], "big")


def no_signature(data: bytes) -> bytes:
    """Return the signature of a party without a key."""
    return bytes(SIGNATURE)


def seal(message: Message, federation: str, agreed: Layout, sign: Sign = no_signature) -> bytes:
    """Return the bytes of a message.

    Args:
        message: The content.
        federation: Identity of the federation.
        agreed: Layout of models that both sides know.
        sign: Signs the checksum.
    """
    models = {n: a for n, a in message.arrays.items() if n.startswith(MODELS)}
    whole = bool(models) and _layout(models) == dict(agreed)
    order = {name: models[name] for name in agreed} if whole else models
    others = {n: a for n, a in message.arrays.items() if n not in models}
    listed = others if whole else {**order, **others}
    text = control_text(message.control, whole, _layout(listed))
    encoded = message.encoded
    blobs = [raw(array) for array in others.values()]
    blobs = [*map(raw, order.values()), *blobs] if encoded is None else [*blobs, encoded.body]
    body = b"".join([CONTROL.pack(len(text)), text, *blobs])
    header = HEADER.pack(
        *(_MAGIC, _VERSION, message.kind, message.sender, message.round, message.sequence),
        bytes.fromhex(federation)[:16],
        *(_NOTHING if encoded is None else encoded.base, _result(order), len(body)),
    )
    checksum = hashlib.sha256(header + body).digest()
    return b"".join([header, body, checksum, sign(checksum)])


@dataclass(frozen=True)
class Expected:
    """Messages that a receiver takes; all others are refused before they are looked into."""

    federation: str
    kinds: Collection[Kind]
    senders: Collection[int]
    agreed: Layout
    """Layout of models that both sides know."""
    largest: int
    """Bytes of the largest message."""
    verify: Verify | None = None
    """Checks signatures; None: parties have no keys."""
    decode: Decode | None = None
    """Decodes models; None: they are taken whole only."""


def unseal(data: bytes, expected: Expected) -> Message:
    """Return the content of a sealed message.

    Args:
        data: The bytes.
        expected: What is taken.

    Raises:
        WireError: the message is not taken; the text says why.
    """
    tail = DIGEST + SIGNATURE
    if len(data) < HEADER.size + CONTROL.size + tail:
        _refuse("too short")
    if len(data) > expected.largest:
        _refuse("too large")
    magic, version, kind, sender, round_, sequence, federation, base, result, length = (
        HEADER.unpack_from(data)
    )
    if magic != _MAGIC:
        _refuse("not a message")
    if version != _VERSION:
        _refuse("format version")
    if kind not in [int(known) for known in expected.kinds]:
        _refuse("kind")
    if length != len(data) - HEADER.size - tail:
        _refuse("length")
    content, checksum, signature = data[:-tail], data[-tail:-SIGNATURE], data[-SIGNATURE:]
    if hashlib.sha256(content).digest() != checksum:
        _refuse("checksum")
    if sender not in expected.senders:
        _refuse("sender")
    if expected.verify is not None and not expected.verify(sender, checksum, signature):
        _refuse("signature")
    if federation != bytes.fromhex(expected.federation)[:16]:
        raise ForeignError("another federation")
    control, layout, blobs = _opened(memoryview(content)[HEADER.size :], expected.agreed)
    encoded = None
    if base == _NOTHING:
        arrays = _read(blobs, layout)
    elif expected.decode is None:
        _refuse("base")
    else:
        models = {n: kind for n, kind in layout.items() if n.startswith(MODELS)}
        others = {n: kind for n, kind in layout.items() if n not in models}
        size = min(len(blobs), sum(_size(kind) for kind in others.values()))
        encoded = Encoded(base, bytes(blobs[size:]))
        arrays = _read(blobs[:size], others)
        arrays = {**expected.decode(encoded, models), **arrays}
    if _result({n: a for n, a in arrays.items() if n.startswith(MODELS)}) != result:
        _refuse("result")
    return Message(Kind(kind), sender, round_, sequence, control, arrays, encoded)


def contents(sealed: bytes, agreed: Layout) -> dict[str, list[int]]:
    """Return the shapes of the arrays in a message of our own, by name.

    Args:
        sealed: The message.
        agreed: Layout of models that both sides know.
    """
    (size,) = CONTROL.unpack_from(sealed, HEADER.size)
    start = HEADER.size + CONTROL.size
    control = json.loads(sealed[start : start + size])
    shapes = {name: list(shape) for name, (_, shape) in agreed.items() if control["agreed"]}
    return shapes | {name: shape for name, _, shape in control["arrays"]}


def _opened(body: memoryview, agreed: Layout) -> tuple[dict[str, Any], Layout, memoryview]:
    """Return the control fields of a body, and the layout and the bytes of its arrays."""
    (size,) = CONTROL.unpack_from(body)
    if size > min(_MOST_CONTROL, len(body) - CONTROL.size):
        _refuse("control fields")
    text = bytes(body[CONTROL.size : CONTROL.size + size])
    try:
        control = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        _refuse("control fields")
    if not isinstance(control, dict) or not isinstance(control.get("arrays"), list):
        _refuse("control fields")
    layout: dict[str, tuple[str, tuple[int, ...]]] = {}
    if control.pop("agreed", None) is True:
        layout.update(agreed)
    for entry in control.pop("arrays"):
        name, dtype, shape = _entry(entry)
        if name in layout:
            _refuse("arrays")
        layout[name] = dtype, shape
    return control, layout, body[CONTROL.size + size :]


def _entry(entry: Any) -> tuple[str, str, tuple[int, ...]]:
    """Return name, type and shape of a listed array."""
    if not isinstance(entry, list) or len(entry) != 3:
        _refuse("arrays")
    name, dtype, shape = entry
    sizes = isinstance(shape, list) and len(shape) <= 8
    if not (isinstance(name, str) and isinstance(dtype, str) and dtype in _TYPES and sizes):
        _refuse("arrays")
    if not all(type(size) is int and 0 <= size < 1 << 32 for size in shape):
        _refuse("arrays")
    return name, dtype, tuple(shape)


def _read(data: memoryview, layout: Layout) -> NamedArrays:
    """Return the arrays of a layout; their bytes must be exactly those that are there."""
    arrays: NamedArrays = {}
    place = 0
    for name, (dtype, shape) in layout.items():
        size = _size((dtype, shape))
        if not 0 < size <= len(data) - place:
            _refuse("arrays")
        values = np.frombuffer(data[place : place + size], dtype=f"<{dtype}")
        arrays[name] = values.reshape(shape).astype(np.dtype(dtype), copy=True)
        place += size
    if place != len(data):
        _refuse("arrays")
    return arrays


def _size(kind: tuple[str, tuple[int, ...]]) -> int:
    """Return the bytes of an array."""
    return prod(kind[1]) * int(kind[0][1])


def _layout(arrays: NamedArrays) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {name: described(array) for name, array in arrays.items()}


def _result(models: NamedArrays) -> bytes:
    """Return the first half of the checksum of models; zero without any."""
    return digest(models) if models else _NOTHING


def _refuse(reason: str) -> NoReturn:
    raise WireError("control fields" if reason in ("NaN", "Infinity", "-Infinity") else reason)
