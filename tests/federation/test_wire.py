"""The wire format: round trips, and thousands of messages that must not get in."""

from __future__ import annotations

import hashlib
import json
import struct

import numpy as np
import pytest

from comity.federation.wire import (
    SERVER,
    Expected,
    Kind,
    Message,
    WireError,
    contents,
    digest_of,
    is_refusal,
    round_of,
    seal,
    sequence_of,
    unseal,
)

FEDERATION = hashlib.sha256(b"rounds = 3\n").hexdigest()
LAYOUT = {"models/0.weight": ("f4", (1, 2, 3)), "models/0.bias": ("f4", (1, 2))}
ARRAYS = {
    "models/0.bias": np.array([[1.0, -2.0]], dtype=np.float32),  # not in the agreed order
    "models/0.weight": np.arange(6, dtype=np.float32).reshape(1, 2, 3),
    "statistics/size": np.array([12.0]),
}


def sign(data: bytes) -> bytes:
    return hashlib.sha512(b"secret" + data).digest()


def verify(sender: int, data: bytes, signature: bytes) -> bool:
    return sender == 4 and signature == sign(data)


def message(**values) -> Message:
    fields = {"kind": Kind.UPDATE, "sender": 4, "round": 7, "sequence": 36, "control": {"a": 1}}
    return Message(**{**fields, "arrays": ARRAYS, **values})


def expected(**values) -> Expected:
    fields = {"federation": FEDERATION, "kinds": (Kind.UPDATE,), "senders": (4,)}
    return Expected(**{**fields, "agreed": LAYOUT, "largest": 4096, "verify": verify, **values})


def sealed(**values) -> bytes:
    return seal(message(**values), FEDERATION, LAYOUT, sign)


def test_a_message_survives_the_journey():
    opened = unseal(sealed(), expected())
    assert (opened.kind, opened.sender, opened.round, opened.sequence) == (6, 4, 7, 36)
    assert opened.control == {"a": 1}
    assert list(opened.arrays) == ["models/0.weight", "models/0.bias", "statistics/size"]
    for name, array in ARRAYS.items():
        assert opened.arrays[name].dtype == array.dtype
        assert np.array_equal(opened.arrays[name], array)


def test_the_layout_of_the_bytes():
    """Header, control fields, arrays in the agreed order, checksum, signature: by hand."""
    data = sealed()
    assert data[:4] == b"CMTY"
    assert struct.unpack_from(">BBHII", data, 4) == (1, 6, 4, 7, 36)
    assert data[16:32] == bytes.fromhex(FEDERATION)[:16]
    body = data[72:-96]
    assert int.from_bytes(data[64:72], "big") == len(body)
    size = int.from_bytes(body[:4], "big")
    assert json.loads(body[4 : 4 + size]) == {
        "a": 1, "agreed": True, "arrays": [["statistics/size", "f8", [1]]],
    }  # fmt: skip
    numbers = np.concatenate([np.arange(6), [1.0, -2.0]]).astype("<f4").tobytes()
    assert body[4 + size :] == numbers + np.array([12.0]).astype("<f8").tobytes()
    assert data[-96:-64] == hashlib.sha256(data[:-96]).digest()
    assert data[48:64] == hashlib.sha256(numbers).digest()[:16]
    assert digest_of(data) == data[-96:-64].hex()
    assert (round_of(data), sequence_of(data), is_refusal(data)) == (7, 36, False)
    assert contents(data, LAYOUT) == {
        "models/0.weight": [1, 2, 3], "models/0.bias": [1, 2], "statistics/size": [1],
    }  # fmt: skip


def test_models_of_another_shape_are_listed():
    stacked = {"models/0.bias": np.zeros((1, 5, 2), dtype=np.float32)}
    opened = unseal(sealed(arrays=stacked), expected())
    assert opened.arrays["models/0.bias"].shape == (1, 5, 2)


def forged(data: bytes, change) -> bytes:
    """Return a message whose content was changed and that was then signed again."""
    content = bytearray(data[:-96])
    change(content)
    checksum = hashlib.sha256(content).digest()
    return bytes(content) + checksum + sign(checksum)


def put(place: int, value: bytes):
    def change(content: bytearray) -> None:
        content[place : place + len(value)] = value

    return change


def control(text: bytes):
    """Replace the control fields, with the lengths that belong to them."""

    def change(content: bytearray) -> None:
        size = int.from_bytes(content[72:76], "big")
        content[72 : 76 + size] = len(text).to_bytes(4, "big") + text
        content[64:72] = (len(content) - 72).to_bytes(8, "big")

    return change


GOOD = b'{"agreed":true,"arrays":[["statistics/size","f8",[1]]]}'
FAULTS = {
    "not a message": put(0, b"CMTX"),
    "format version": put(4, b"\x02"),
    "kind": put(5, b"\x05"),
    "sender": put(6, b"\x00\x05"),
    "another federation": put(16, b"\x00"),
    "base": put(32, b"\x01"),
    "result": put(48, b"\x01\x02"),
    "length": put(71, b"\x01"),
}


@pytest.mark.parametrize("reason", FAULTS)
def test_a_fault_in_the_header_is_named(reason):
    with pytest.raises(WireError, match=f"^{reason}$"):
        unseal(forged(sealed(), FAULTS[reason]), expected())


BODIES = {
    "no JSON": b"{",
    "no object": b"[1]",
    "no arrays": b'{"agreed":true}',
    "arrays are no list": b'{"agreed":true,"arrays":3}',
    "nothing is a number": b'{"agreed":true,"arrays":[["statistics/size","f8",[NaN]]]}',
    "an array twice": GOOD.replace(b'"f8",[1]]', b'"f8",[1]],["statistics/size","f8",[0]]'),
    "an agreed array again": GOOD.replace(b"statistics/size", b"models/0.bias"),
    "an unknown type": GOOD.replace(b"f8", b"O8"),
    "a negative size": GOOD.replace(b"[1]", b"[-1]"),
    "a size that is true": GOOD.replace(b"[1]", b"[true]"),
    "too many numbers": GOOD.replace(b"[1]", b"[4000000000,4000000000]"),
    "too few numbers": GOOD.replace(b"[1]", b"[0]"),
    "deep nesting": b"[" * 100_000,
}


def test_the_forged_body_with_good_fields_is_taken():
    """So that the faults below are what makes the others fail."""
    assert unseal(forged(sealed(), control(GOOD)), expected()).arrays["statistics/size"] == 12.0


@pytest.mark.parametrize("name", BODIES)
def test_a_fault_in_the_body_is_refused(name):
    with pytest.raises(WireError, match=r"control fields|arrays|too large"):
        unseal(forged(sealed(), control(BODIES[name])), expected())


def test_signature_checksum_and_size_are_checked():
    data = sealed()
    for faulty, reason in [
        (data[:-1] + bytes([data[-1] ^ 1]), "signature"),
        (data[:-70] + bytes([data[-70] ^ 1]) + data[-69:], "checksum"),
        (data[:100] + bytes([data[100] ^ 1]) + data[101:], "checksum"),
        (data[:60], "too short"),
        (b"", "too short"),
        (data + bytes(5000), "too large"),
    ]:
        with pytest.raises(WireError, match=reason):
            unseal(faulty, expected())
    with pytest.raises(WireError, match="sender"):
        unseal(seal(message(sender=SERVER), FEDERATION, LAYOUT, sign), expected())


def test_no_mutation_gets_in():
    """10,000 mutations, half of them with a checksum that fits and no key to sign it with."""
    draw = np.random.default_rng(5)
    data = sealed()
    for number in range(10_000):
        mutated = bytearray(data)
        for _ in range(int(draw.integers(1, 4))):
            kind, place = draw.integers(4), int(draw.integers(len(mutated)))
            if kind == 0:
                mutated[place] ^= int(draw.integers(1, 256))
            elif kind == 1:
                del mutated[place:]
            elif kind == 2:
                mutated[place:place] = draw.bytes(int(draw.integers(1, 40)))
            else:
                mutated[place : place + 8] = draw.bytes(8)
            if not mutated:
                break
        if number % 2 and len(mutated) > 96:
            mutated[-96:-64] = hashlib.sha256(mutated[:-96]).digest()
        if bytes(mutated) == data:
            continue
        with pytest.raises(WireError):
            unseal(bytes(mutated), expected())
