"""Events for tests: one of a round, and what stops the work after one."""

from __future__ import annotations

from typing import Any

from comity.runs.events import Event, Notify, RoundEvent


def round_event(**fields: Any) -> RoundEvent:
    """Return the first of two rounds, with other values where they are given."""
    values: dict[str, Any] = {
        **{"kind": "run", "run": "r", "problem": "p", "algorithm": "fedavg", "seed": 1},
        **{"clients": 2, "rounds": 2, "objectives": ("a", "b"), "round": 1, "done": 1, "total": 2},
        **{"seconds": 0.5, "metrics": {}},
    }
    return RoundEvent(**{**values, **fields})


def stopping(after: int) -> Notify:
    """Return what interrupts the work after this number of rounds, as Ctrl-C does."""

    def notify(event: Event) -> None:
        if isinstance(event, RoundEvent) and event.done == after:
            raise KeyboardInterrupt

    return notify
