"""Encodings: bounds of the error, exact bits, worst-case sizes, and what is refused."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from comity.core.encodings import ENCODINGS, Encoding, described, digest

LOSSY = ("float16", "int8", "int4")
LEVELS = {"int8": 127, "int4": 7}
MOST = float(np.finfo(np.float32).max)
TINY = float(np.finfo(np.float32).smallest_subnormal)

numbers = st.one_of(
    st.floats(-1.0, 1.0, width=32),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.sampled_from([0.0, -0.0, TINY, -TINY, 5 * TINY, MOST, -MOST, 1e-20, 1e30]),
)


@st.composite
def pairs(draw) -> tuple[np.ndarray, np.ndarray]:
    """What is sent (one to three rows) and its base (one row)."""
    shape = draw(st.sampled_from([(1,), (2,), (5,), (3, 4), (2, 1, 3), ()]))
    rows, count = draw(st.integers(1, 3)), int(np.prod(shape))
    base = draw(st.lists(numbers, min_size=count, max_size=count))
    moved = draw(st.lists(numbers, min_size=rows * count, max_size=rows * count))
    if draw(st.booleans()):  # a small step, as training takes, and perhaps one huge entry
        sent = np.float64(base) + 1e-3 * np.clip(np.float64(moved).reshape(rows, count), -1, 1)
        sent = np.clip(sent, -MOST, MOST)
        sent[0, 0] = draw(st.sampled_from([sent[0, 0], 1e4]))
    else:
        sent = np.float64(moved)
    one = np.float32(base).reshape(1, *shape)
    return np.float32(sent).reshape(rows, *shape), one


def journey(name: str, sent: dict, base: dict, lossy=("w",)) -> tuple[bytes, dict]:
    """Return the body and what is decoded of it; both ends agree."""
    encoding = Encoding(name, frozenset(lossy))
    body, expected = encoding.encode(sent, base)
    layout = {key: described(array) for key, array in sent.items()}
    assert len(body) <= encoding.largest(layout, base)
    decoded = encoding.decode(body, layout, base)
    assert digest(decoded) == digest(expected)
    for key, array in sent.items():
        assert described(decoded[key]) == described(array)
    return body, decoded


@settings(max_examples=150, deadline=None)
@given(pairs(), st.sampled_from(LOSSY))
@example((np.float32([[MOST, MOST]]), np.float32([[-MOST, -MOST]])), "int8")
@example((np.float32([[TINY, 0.0]]), np.float32([[0.0, 0.0]])), "int4")
@example((np.float32([[178 * TINY]]), np.float32([[0.0]])), "int8")
def test_no_entry_is_further_off_than_the_table_says(pair, name):
    sent, base = pair
    _, decoded = journey(name, {"w": sent}, {"w": base})
    moved = sent.astype(np.float64) - base
    for row, result in zip(moved, decoded["w"].astype(np.float64), strict=True):
        most = np.abs(row).max()
        if name == "float16":
            power = min(127, 14 - int(np.floor(np.log2(most)))) if most > 0 else 0
            bound = np.abs(row) * 2.0**-11 + 2.0 ** (-25 - power)
        else:
            bound = np.full_like(row, most / LEVELS[name] / 2 * (1 + 1e-6) + TINY)
        last = np.abs(result) * 2.0**-24 + TINY / 2  # half a unit in the last place
        assert (np.abs(base[0] + row - result) <= bound + last).all()


@settings(max_examples=80, deadline=None)
@given(pairs())
def test_exact_is_exact(pair):
    sent, base = pair
    _, decoded = journey("exact", {"w": sent}, {"w": base})
    assert decoded["w"].tobytes() == sent.tobytes()  # also minus zero


@pytest.mark.parametrize("name", ENCODINGS[1:])
def test_other_than_trained_parameters_are_exact(name):
    """Running statistics, other types, and tensors of another shape than their base."""
    g = np.random.default_rng(1)
    sent = {
        "w": g.normal(size=(1, 4)).astype(np.float32),
        "variance": g.normal(size=(1, 4)).astype(np.float32),
        "double": g.normal(size=(1, 3)),
        "offers": g.normal(size=(1, 2, 4)).astype(np.float32),
        "new": np.array([[7]], dtype=np.int64),
    }
    base = {n: np.full_like(a, 0.5) for n, a in sent.items() if n not in ("offers", "new")}
    base["offers"] = np.zeros((1, 4), np.float32)
    _, decoded = journey(name, sent, base, lossy=("w", "double", "offers", "new"))
    for key in ("variance", "double", "offers", "new"):
        assert decoded[key].tobytes() == sent[key].tobytes(), key
    assert (decoded["w"].tobytes() == sent["w"].tobytes()) == (name == "exact")


def test_the_bytes_by_hand():
    """int8: s = 0.25 / 127 as float32, then steps; int4: two per byte, the first one high."""
    base = {"w": np.zeros((1, 3), np.float32)}
    sent = {"w": np.float32([[0.25, -0.1, 0.0]])}
    raw = zlib.decompress(journey("int8", sent, base)[0])
    scale = np.frombuffer(raw[:4], "<f4")[0]
    assert scale == pytest.approx(0.25 / 127, rel=1e-6)
    assert list(np.frombuffer(raw[4:], np.int8)) == [127, -51, 0]  # 50.8
    raw = zlib.decompress(journey("int4", sent, base)[0])
    assert raw[4:] == bytes([(7 + 8) << 4 | (-3 + 8), 8 << 4])  # 2.8
    raw = zlib.decompress(journey("float16", sent, base)[0])
    assert np.frombuffer(raw[:1], np.int8)[0] == 14 + 2  # log2 of a quarter is -2
    assert list(np.frombuffer(raw[1:], "<f2")) == [
        2.0**14,
        -6552.0,
        0.0,
    ]  # 6553.6; halves are 4 apart
    raw = zlib.decompress(journey("exact", {"w": np.float32([[1.0, 2.0, 0.0]])}, base)[0])
    assert raw == bytes([0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0x3F, 0x40, 0])


@pytest.mark.parametrize("name", LOSSY)
def test_nothing_moved_is_nothing_lost(name):
    base = {"w": np.float32([[1.5, -2.0]])}
    _, decoded = journey(name, {"w": base["w"].copy()}, base)
    assert np.array_equal(decoded["w"], base["w"])


@pytest.mark.parametrize("name", LOSSY)
@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_stays_so_and_others_are_sound(name, broken):
    sent = {"w": np.float32([[1.0, broken], [1.0, 2.0]])}
    _, decoded = journey(name, sent, {"w": np.zeros((1, 2), np.float32)})
    assert not np.isfinite(decoded["w"][0]).any()
    assert np.isfinite(decoded["w"][1]).all()


@pytest.mark.parametrize("name", ENCODINGS[1:])
def test_rows_are_encoded_by_themselves(name):
    """Two rows decode to what each decodes to alone."""
    g = np.random.default_rng(3)
    base = {"w": g.normal(size=(1, 5)).astype(np.float32)}
    sent = (base["w"] + g.normal(size=(2, 5)) * [[0.1], [10.0]]).astype(np.float32)
    _, both = journey(name, {"w": sent}, base)
    for row in range(2):
        _, alone = journey(name, {"w": sent[row : row + 1]}, base)
        assert np.array_equal(both["w"][row : row + 1], alone["w"])


def test_what_is_lost_is_sent_later():
    """Σ decoded updates + residual = Σ true updates, to float32."""
    g = np.random.default_rng(5)
    encoding = Encoding("int4", frozenset({"w"}))
    assert encoding.feeds_back
    assert not Encoding("int8", frozenset({"w"})).feeds_back
    residual = {"w": np.zeros((1, 40), np.float32)}
    base = np.zeros((1, 40), np.float32)
    true, decoded = np.zeros((1, 40)), np.zeros((1, 40))
    for _ in range(30):
        sent = (base + g.normal(size=(1, 40)) * 0.01).astype(np.float32)
        sent[0, 0] = base[0, 0] + 1.0  # all others are below half a step
        _, result = encoding.encode({"w": sent}, {"w": base}, residual)
        true += sent.astype(np.float64) - base
        decoded += result["w"].astype(np.float64) - base
        base = result["w"]
    np.testing.assert_allclose(decoded + residual["w"], true, atol=1e-5)
    assert np.abs(decoded[0, 1:]).max() > 0.0
    assert np.abs(residual["w"]).max() <= 1.0 / 7


def test_bodies_of_another_length_are_refused():
    encoding = Encoding("int8", frozenset({"w"}))
    base = {"w": np.zeros((1, 8), np.float32)}
    body, _ = encoding.encode({"w": np.ones((1, 8), np.float32)}, base)
    layout = {"w": ("f4", (1, 8))}
    bomb = zlib.compress(bytes(1 << 24))
    for wrong in (body[:-1], body + b"x", b"", b"nonsense", bomb, zlib.compress(bytes(11))):
        with pytest.raises(ValueError, match=r"deflated|length"):
            encoding.decode(wrong, layout, base)


def test_sizes_are_those_of_the_table():
    layout = {"w": ("f4", (1, 7)), "mean": ("f4", (1, 3))}
    base = {"w": np.zeros((1, 7), np.float32), "mean": np.zeros((1, 3), np.float32)}
    raw = {"exact": 28, "float16": 15, "int8": 11, "int4": 8}
    for name, size in raw.items():
        largest = Encoding(name, frozenset({"w"})).largest(layout, base)
        assert largest == size + 12 + 13  # the mean is exact; zlib's bound
