"""The interface of a callback, and how events reach callbacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from comity.errors import UserError
from comity.runs.events import EndEvent, Event, Notify, OnRound, RoundEvent, StartEvent


class Callback:
    """Base class of callbacks; override the methods that you need.

    All methods are called in the process that called `comity.run` or a function like it. An
    exception that one raises stops the work and reaches the caller as it is; the run can be
    resumed. Results do not depend on callbacks.
    """

    def on_start(self, event: StartEvent) -> None:
        """Take the start of a run or search; its settings are in the event.

        Args:
            event: The start.
        """

    def on_round(self, event: RoundEvent) -> None:
        """Take the values of a round.

        Args:
            event: The round.
        """

    def on_end(self, event: EndEvent) -> None:
        """Take the results of a run or search.

        Args:
            event: The end.
        """

    def close(self) -> None:
        """Finish, after all runs of a job or after an error: called once, whatever happened."""


class _AfterRounds(Callback):
    """A plain function as a callback.

    Args:
        function: Called after each round.
    """

    def __init__(self, function: OnRound) -> None:
        self._function = function

    def on_round(self, event: RoundEvent) -> None:
        self._function(event)


@contextmanager
def notifying(callbacks: Sequence[Callback], on_round: OnRound | None) -> Iterator[Notify | None]:
    """Yield what takes the events of a job, and close the callbacks at its end.

    Args:
        callbacks: The callbacks, in the order in which they get each event.
        on_round: A function that is called after each round, before the callbacks.
    """
    if isinstance(callbacks, Callback) or not isinstance(callbacks, Sequence):
        raise UserError(f"callbacks = {callbacks!r}: must be a list of callbacks.")
    for place, callback in enumerate(callbacks):
        if not isinstance(callback, Callback):
            raise UserError(
                f"callbacks[{place}] = {callback!r}: must be an object of a class that extends "
                "comity.Callback; a function is given as on_round."
            )
    everyone = [*([] if on_round is None else [_AfterRounds(on_round)]), *callbacks]

    def notify(event: Event) -> None:
        for callback in everyone:
            if isinstance(event, RoundEvent):
                callback.on_round(event)
            elif isinstance(event, StartEvent):
                callback.on_start(event)
            else:
                callback.on_end(event)

    with ExitStack() as stack:
        for callback in everyone:
            stack.callback(callback.close)
        yield notify if everyone else None
