"""The envelope of every message: its header, control fields, checksum and signature, in bytes.

`comity.federation.wire` seals and opens messages; here is what their sizes depend on.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

from comity.core.encodings import Layout

MODELS, STATISTICS, BROADCAST = "models/", "statistics/", "broadcast/"
"""Prefixes of the tensors of models, of statistics and of the server's replies to a survey."""
HEADER = struct.Struct(">4sBBHII16s16s16sQ")
"""Magic, version, kind, sender, round, sequence, federation, base, result, length of the body."""
CONTROL = struct.Struct(">I")
"""Length of the control fields."""
DIGEST, SIGNATURE = 32, 64
"""Bytes of the checksum, and of its signature."""


def control_text(control: Mapping[str, Any], agreed: bool, listed: Layout) -> bytes:
    """Return the control fields as they travel.

    Args:
        control: Plain values.
        agreed: Whether models have the layout that both sides know, which is not listed.
        listed: All other arrays.
    """
    arrays = [[name, kind, list(shape)] for name, (kind, shape) in listed.items()]
    fields = {**control, "agreed": agreed, "arrays": arrays}
    return json.dumps(fields, separators=(",", ":"), allow_nan=False).encode()


def sealed_size(text: bytes, arrays: int) -> int:
    """Return the bytes of a sealed message.

    Args:
        text: Its control fields.
        arrays: Bytes of its arrays.
    """
    return HEADER.size + CONTROL.size + len(text) + arrays + DIGEST + SIGNATURE
