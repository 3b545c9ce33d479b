"""Lengths of sealed messages, written out by hand: header, control fields, arrays, end."""

from __future__ import annotations

import json

_AROUND = 72 + 4 + 32 + 64  # header, length of the control fields, checksum, signature


def request_size(
    exchange: str, arrays: int = 0, *, alone: bool = False, extra: int = 0, taken: int = 0,
    kept: bool = False, agreed: bool = True, listed: str = "",
) -> int:  # fmt: skip
    """Bytes of a request with arrays of this many bytes; ``taken``: the round last taken."""
    true = {True: "true", False: "false"}
    text = (
        f'{{"exchange":"{exchange}","alone":{true[alone]},"extra":{extra},"acknowledged":{taken},'
        f'"kept":{true[kept]},"rolled_back":false,"agreed":{true[bool(arrays) and agreed]},'
        f'"arrays":[{listed}]}}'
    )
    json.loads(text)
    return _AROUND + len(text) + arrays


def answer_size(arrays: int = 0, *, agreed: bool = True, listed: str = "") -> int:
    """Bytes of an answer with arrays of this many bytes."""
    whole = "true" if arrays and agreed else "false"
    text = f'{{"answers":"{"0" * 64}","agreed":{whole},"arrays":[{listed}]}}'
    json.loads(text)
    return _AROUND + len(text) + arrays


SIZE = '["statistics/size","f8",[1]]'
"""The statistic that every update has, as the control fields list it; it has 8 bytes."""
