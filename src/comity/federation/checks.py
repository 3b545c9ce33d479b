"""Checks of what clients send, before the server uses any of it.

They are always on and the same for every algorithm. A client whose message no honest member could
have sent is named and left out of the round; nobody else is. Checks see what is impossible, not
what is merely unkind: against that there are wrappers (`comity.algorithms.wrappers`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from comity.algorithms import STEPS
from comity.configuration import Configuration
from comity.core.fleet import Fleet
from comity.core.typing import BoolArray, FloatArray
from comity.federation.messages import ClientUpdate

LARGEST = 2.0**53
"""Largest entry of a statistic: counts up to here are exact."""
FLAGS = ("declined", "unsound")
"""Statistics that are 0 or 1."""
COUNTS = ("size", STEPS, "yes", "members", "right", "cells", "counts", "total")
"""Statistics that count rows or steps."""
_OF_ALL_ROWS = ("members", "cells")  # counts that sum to a client's rows, of which it has some
LONGEST = 1e18
"""Largest length of an update: squares of longer ones overflow in float32."""
FACTOR = 1e4
"""Largest length of an update in usual lengths, or in lengths of the initial model."""
_NUMBERS = 2**20  # numbers held in float64 at once, in whole rows: they fit into caches


def possible(name: str, values: FloatArray, finite: bool = True) -> BoolArray:
    """Return which clients' values of a statistic an honest client may send.

    Args:
        name: Name of the statistic.
        values: One row per client.
        finite: Whether all values must be finite; otherwise those that are not are no fault, but
            for an infinite ``validation``.
    """
    flat = np.asarray(values, dtype=np.float64).reshape(len(values), -1)
    missing = ~np.isfinite(flat)
    wrong = ~missing & (np.abs(flat) > LARGEST)
    if finite:
        wrong |= missing
    elif name == "validation":
        wrong |= np.isinf(flat)
    if name in FLAGS:
        wrong |= ~np.isin(flat, (0.0, 1.0))
    elif name == "size":
        wrong |= flat <= 0
    elif name in COUNTS:
        wrong |= flat < 0
    right: BoolArray = np.asarray(~wrong.any(axis=1))
    with np.errstate(invalid="ignore"):
        if name in _OF_ALL_ROWS:
            right &= flat.sum(axis=1) >= 1
        elif name == "preferences":
            right &= (flat >= 0).all(axis=1) & (np.abs(flat.sum(axis=1) - 1.0) < 1e-3)
    return right


def lengths(models: Fleet, start: Fleet | None = None) -> FloatArray:
    """Return ‖model − start‖ of each row in float64, where no square of a float32 overflows.

    Args:
        models: Any models.
        start: One row per row of ``models``; None: zero.
    """
    squares = np.zeros(len(models))
    for name, tensor in models.tensors.items():
        count = max(1, _NUMBERS // tensor.shape[1:].numel())
        for at in range(0, len(models), count):
            rows = slice(at, at + count)
            block = tensor[rows].cpu().to(torch.float64, copy=True)  # not every device has it
            if start is not None:
                block -= start[name][rows].cpu()
            squares[rows] += torch.linalg.vector_norm(block.flatten(1), dim=1).square().numpy()
    return np.sqrt(squares)


class Checks:
    """The checks of one server.

    Args:
        configuration: The run's configuration.
        initial: The model that clients start from, as far as it travels.
    """

    def __init__(self, configuration: Configuration, initial: Fleet) -> None:
        self._configuration = configuration
        algorithm = configuration.get_algorithm()
        alone = algorithm.centralised  # one client has the data of all
        self._cap = 0.0 if alone else configuration.size_cap
        self._amounts = algorithm.amounts
        self._members = 1 if alone else configuration.clients
        self._least = float(lengths(initial.select([0]))[0])
        self.capped: list[int] = []
        """Clients whose amount of data was capped so far, which is said once."""
        self._lengths: dict[str, dict[int, float]] = {}
        """Length of what each client sent last, by what it was."""

    def sound(
        self,
        update: ClientUpdate,
        start: Fleet | None,
        number: int,
        events: list[str],
        declared: Collection[str] = (),
    ) -> BoolArray:
        """Return which clients sent a usable model; name the others.

        Args:
            update: What the clients sent.
            start: The model from which each client started; None: its update is its model.
            number: The round.
            events: Where incidents are noted.
            declared: Names of the statistics that the algorithm reads.
        """
        assert update.models is not None
        count = len(update.clients)
        faults = [""] * count
        models, each = update.models, len(update.models) // count
        finite = models.finite().reshape(count, -1).all(axis=1)
        finite &= np.asarray(update.statistics.get("unsound", np.zeros(count)) == 0)
        _note(faults, finite, "its model is no longer finite")
        for name, values in update.statistics.items():
            if name in ("size", *FLAGS, *declared):
                text = f"its statistic '{name}' has an impossible value"
                _note(faults, possible(name, values), text)
        if start is not None:
            # of several models that were delivered the client has made its own
            same = [n for n, t in models.tensors.items() if start[n].shape[1:] == t.shape[1:]]
            start = Fleet({n: start[n] for n in same}) if same else None
        if start is not None:
            start = start.select(np.repeat(np.arange(count), each))
            models = Fleet({n: models[n] for n in start})
        self._note_long(faults, update.clients, models, start, "update")
        return self._named(update.clients, faults, number, events, "rolled back to its start")

    def answered(self, survey: ClientUpdate, number: int, events: list[str]) -> BoolArray:
        """Return which clients gave usable answers to a survey; name the others.

        Args:
            survey: The answers.
            number: The round.
            events: Where incidents are noted.
        """
        count = len(survey.clients)
        faults = [""] * count
        _note(faults, survey.finite(), "its losses or gradients are not finite")
        for name, values in survey.statistics.items():
            text = f"its answer '{name}' has an impossible value"
            _note(faults, possible(name, values), text)
        if survey.models is not None:
            self._note_long(faults, survey.clients, survey.models, None, "gradient")
        return self._named(survey.clients, faults, number, events)

    def validation(self, update: ClientUpdate, number: int, events: list[str]) -> FloatArray | None:
        """Return the validation that clients report, without impossible values; name their clients.

        Args:
            update: What the clients sent.
            number: The round.
            events: Where incidents are noted.
        """
        values = update.statistics.get("validation")
        if values is None:
            return None
        faults = [""] * len(values)
        right = possible("validation", values, finite=False)
        _note(faults, right, "its statistic 'validation' has an impossible value")
        self._named(update.clients, faults, number, events)
        return values[right]

    def sizes(
        self, clients: Sequence[int], sizes: FloatArray, number: int, events: list[str]
    ) -> FloatArray:
        """Return data sizes, none of them larger than ``size_cap`` times their median.

        Args:
            clients: The clients.
            sizes: Their possible data sizes.
            number: The round.
            events: Where it is noted, once per client, that its size was capped.
        """
        return self._capped(clients, sizes, "its data size {:g}", number, events)

    def amounts(
        self,
        clients: Sequence[int],
        values: Mapping[str, FloatArray],
        number: int,
        events: list[str],
    ) -> Mapping[str, FloatArray]:
        """Return statistics or answers whose amounts (`Algorithm.amounts`) are capped like sizes.

        All amounts of a client shrink by one factor, so that its rates and means stay the same.

        Args:
            clients: The clients.
            values: Their possible values, one row per client.
            number: The round.
            events: Where it is noted, once per client, that its amount was capped.
        """
        names = [name for name in self._amounts if name in values]
        if not names:
            return values
        counted = values[names[0]]
        sums = np.asarray(counted.sum(axis=tuple(range(1, counted.ndim))))
        text = f"its '{names[0]}', {{:g}} in all,"
        most = self._capped(clients, sums, text, number, events)
        factors = np.divide(most, sums, out=np.ones(len(sums)), where=sums > most)
        shrunk = {
            name: values[name] * factors.reshape(-1, *[1] * (values[name].ndim - 1))
            for name in names
        }
        return {**values, **shrunk}

    def _capped(
        self,
        clients: Sequence[int],
        amounts: FloatArray,
        text: str,
        number: int,
        events: list[str],
    ) -> FloatArray:
        """Return amounts, none of them larger than ``size_cap`` times their median."""
        cap = self._cap
        if not cap or not len(amounts):
            return amounts
        most = cap * float(np.median(amounts))
        for client, amount in zip(clients, amounts.tolist(), strict=True):
            if amount > most and client not in self.capped:
                self.capped.append(client)
                events.append(
                    f"{self._configuration.named(client)}, round {number}: {text.format(amount)} "
                    f"counts as {most:g}, {cap:g} times the median, from now on (size_cap)"
                )
        return np.minimum(amounts, most)

    def _note_long(
        self,
        faults: list[str],
        clients: Sequence[int],
        models: Fleet,
        start: Fleet | None,
        what: str,
    ) -> None:
        """Note who sent something much longer than is usual, of those who are sound so far."""
        each = lengths(models, start).reshape(len(faults), -1).max(axis=1)
        sound = np.array([not fault for fault in faults], dtype=bool)
        sent = {clients[place]: float(each[place]) for place in np.flatnonzero(sound).tolist()}
        before = self._lengths.setdefault(what, {})
        bound = min(LONGEST, FACTOR * max(self._usual(sent | before), self._least, 1.0))
        for place in np.flatnonzero(sound & ~(each <= bound)).tolist():
            faults[place] = f"its {what} is {each[place]:.3g} long, beyond {bound:.3g}"
        before |= sent

    def _usual(self, known: Mapping[int, float]) -> float:
        """Return the lower median of the members' lengths; who was never heard counts as zero.

        Lengths of earlier rounds come first, so those who send in one round, be it one client or
        most of them, do not decide what is usual in it. What was refused counts, too: if most
        members send what is long, it is usual from then on.
        """
        if self._configuration.topology != "star":  # without a server nobody knows all lengths
            return 0.0
        silent = max(self._members - len(known), 0)
        every = sorted([0.0] * silent + list(known.values()))
        return every[(len(every) - 1) // 2]

    def _named(
        self,
        clients: Sequence[int],
        faults: Sequence[str],
        number: int,
        events: list[str],
        consequence: str = "",
    ) -> BoolArray:
        """Note the faults of clients; return which have none."""
        end = f"; {consequence} and left out" if consequence else "; left out"
        for client, fault in sorted(zip(clients, faults, strict=True)):
            if fault:
                events.append(f"{self._configuration.named(client)}, round {number}: {fault}{end}")
        return np.array([not fault for fault in faults])

    # -- persistence -----------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return plain values that make the checks go on as if never interrupted."""
        known = {what: sorted(each.items()) for what, each in self._lengths.items()}
        return {"capped": self.capped, "lengths": known}

    def load(self, values: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        self.capped = list(values.get("capped", ()))
        self._lengths = {what: dict(each) for what, each in values.get("lengths", {}).items()}


def _note(faults: list[str], right: BoolArray, fault: str) -> None:
    """Note a fault of those who have none so far."""
    for place in np.flatnonzero(~right).tolist():
        faults[place] = faults[place] or fault
