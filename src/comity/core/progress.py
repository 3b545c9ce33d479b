"""Progress of a run or search after a round: a text, and values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self


class Progress(str):
    """A short text about a round, with the values behind it.

    Being a text, it can be printed as it is; `metrics` can be logged.

    Args:
        text: The text; empty where nothing is known yet.
        run: Directory of the run or search that the round belongs to.
        round: Number of the round in this run or search, from 1.
        metrics: Values by name, none of them missing or infinite.
    """

    run: str
    round: int
    metrics: dict[str, float]

    def __new__(
        cls,
        text: str = "",
        run: str = "",
        round: int = 0,
        metrics: Mapping[str, float] | None = None,
    ) -> Self:
        progress = super().__new__(cls, text)
        progress.run, progress.round = run, round
        progress.metrics = dict(metrics or {})
        return progress

    def after(self, text: str) -> Progress:
        """Return the same progress with a text before its own."""
        return Progress(f"{text}{self}", self.run, self.round, self.metrics)
