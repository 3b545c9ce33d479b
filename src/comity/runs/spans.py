"""Test vectors of clients at many preferences, and their file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from comity.core.storage import load_values, save_values
from comity.core.typing import FloatArray


@dataclass(frozen=True)
class Spans:
    """Test vectors of clients at many preferences, if their models take any."""

    preferences: FloatArray
    """Weights of the objectives (preferences x objectives)."""
    vectors: FloatArray
    """Objective vectors on test samples (clients x preferences x objectives)."""
    losses: FloatArray | None = None
    """Loss of each objective, likewise; None in runs up to 0.6.0."""


def save_spans(path: Path, spans: Spans, header: Mapping[str, Any]) -> None:
    """Write spans to a file.

    Args:
        path: The file.
        spans: Its content.
        header: Plain values for the file's header.
    """
    arrays = {"preferences": spans.preferences, "vectors": spans.vectors}
    if spans.losses is not None:
        arrays["losses"] = spans.losses
    save_values(path, arrays, header)


def load_spans(path: Path) -> Spans:
    """Return what `save_spans` wrote."""
    tensors, _ = load_values(path)
    return Spans(tensors["preferences"], tensors["vectors"], tensors.get("losses"))
