"""The agreement: which arrays travel in a federation, in which order, and what each may hold.

Both sides derive it from the configuration alone. The server checks what arrives against it; a site
checks what arrives and what leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from comity.configuration import Configuration, Travel
from comity.configuration.participants import mixes
from comity.configuration.travel import ANSWERS, request_control, size_of, update_control
from comity.core.encodings import Encoded, Layout, described, digest
from comity.core.envelope import BROADCAST, MODELS, STATISTICS, control_text, sealed_size
from comity.core.fleet import Fleet
from comity.core.storage import add_prefix, strip_prefix
from comity.core.typing import AnyArray, NamedArrays
from comity.federation.checks import possible
from comity.federation.messages import ClientUpdate, RoundRequest, Verdict
from comity.federation.wire import (
    SERVER,
    Decode,
    Kind,
    Message,
    WireError,
    round_of,
    sequence_of,
)
from comity.problems.schema import SchemaProblem

Exchange = Literal["survey", "round", "collect", "finish", "end"]
EXCHANGES: tuple[Exchange, ...] = ("survey", "round", "collect", "finish", "end")
"""All exchanges of a federation, in the order in which a round or the end has them."""
SCALES = "scales"
"""Name of the statistics of columns that sites tell once, before the first round."""
RESULTS = "results"
"""Statistic that a site may tell at the end: its test results."""
_MOST = 1 << 20  # entries of one statistic
_ROOM = 1 << 20  # bytes of a message beside models


def exchange_of(sealed: bytes) -> str:
    """Return the exchange of a message, from its header alone."""
    if round_of(sealed) == 0:
        return "hello"
    return EXCHANGES[sequence_of(sealed) % len(EXCHANGES)]


class Agreement:
    """Contents that a federation's messages may have.

    Args:
        configuration: The configuration of the federation, as any party has it.
    """

    def __init__(self, configuration: Configuration) -> None:
        problem = configuration.get_problem()
        self._configuration = configuration
        self._algorithm = configuration.get_algorithm()
        self.scaled = len(problem.federated) if isinstance(problem, SchemaProblem) else 0
        """Number of columns whose scale the sites tell before the first round."""
        self.travel = travel = Travel(configuration)
        """What travels."""
        self.layout: Layout = {f"{MODELS}{name}": kind for name, kind in travel.sent.items()}
        """Models as they usually travel: one row."""
        rows = max(travel.objectives, configuration.clients, 2)
        self.largest = size_of(travel.own) * rows + _ROOM
        """Bytes of the largest message."""

    def decoder(self, bases: Iterable[NamedArrays]) -> Decode | None:
        """Return what decodes the models of messages; None where they travel whole.

        Args:
            bases: The bases that this party knows of the other one, one row each.
        """
        encoding = self.travel.encoding
        if encoding is None:
            return None
        ordered = [{name: base[name] for name in self.travel.sent} for base in bases]
        known = {digest(base): base for base in ordered}

        def decode(encoded: Encoded, layout: Layout) -> NamedArrays:
            if encoded.base not in known:
                raise WireError("base")
            models = {name.removeprefix(MODELS): kind for name, kind in layout.items()}
            try:
                tensors = encoding.decode(encoded.body, models, known[encoded.base])
            except ValueError:
                raise WireError("encoded models") from None
            return add_prefix(tensors, MODELS)

        return decode

    # -- requests --------------------------------------------------------------------------

    def request_message(
        self, exchange: Exchange, request: RoundRequest, extra_rounds: int = 0
    ) -> Message:
        """Return a request to one client as a message of the server.

        Args:
            exchange: What is asked.
            request: The request to one client.
            extra_rounds: Rounds of fine-tuning after the last delivery.
        """
        verdict = request.verdicts[0] if request.verdicts else Verdict()
        control = _request_control(exchange, request, verdict, extra_rounds)
        arrays = add_prefix(request.broadcast, BROADCAST) | self._arrays(request.models)
        encoded = request.encoded[0] if request.encoded else None
        sequence = _sequence(exchange, request)
        return Message(Kind.REQUEST, SERVER, request.round, sequence, control, arrays, encoded)

    def request_bytes(
        self, exchange: Exchange, request: RoundRequest, extra_rounds: int = 0
    ) -> int:
        """Return the bytes of a request's sealed messages, one per client, without making them.

        Args:
            exchange: What is asked.
            request: The request to some clients.
            extra_rounds: Rounds of fine-tuning after the last delivery.
        """
        broadcast = {f"{BROADCAST}{n}": _one_row(a, 1) for n, a in request.broadcast.items()}
        controls = [
            _request_control(exchange, request, verdict, extra_rounds)
            for verdict in request.verdicts or (Verdict(),) * len(request.clients)
        ]
        return self._bytes(controls, request.models, 1, request.encoded, broadcast)

    def _bytes(
        self,
        controls: Sequence[Mapping[str, Any]],
        models: Fleet | None,
        rows: int,
        encoded: Sequence[Encoded],
        others: Layout,
    ) -> int:
        """Return the bytes of messages that differ in control fields and encoded models only."""
        tensors = {} if models is None else models.tensors
        layout = {
            f"{MODELS}{name}": _one_row(t.numpy(force=True), rows) for name, t in tensors.items()
        }
        agreed = bool(layout) and layout == dict(self.layout)
        listed = {**({} if agreed else layout), **others}
        texts = {repr(control): control_text(control, agreed, listed) for control in controls}
        sizes = [len(each.body) for each in encoded] or [size_of(layout)] * len(controls)
        return sum(
            sealed_size(texts[repr(control)], size + size_of(others))
            for control, size in zip(controls, sizes, strict=True)
        )

    def _arrays(self, models: Fleet | None) -> NamedArrays:
        """Return the tensors of models in the order in which they travel."""
        if models is None:
            return {}
        order = [*(n for n in self.travel.sent if n in models.tensors)]
        order += [name for name in models if name not in self.travel.sent]
        return {f"{MODELS}{name}": models[name].numpy(force=True) for name in order}

    def request_of(self, message: Message, client: int) -> tuple[Exchange, RoundRequest, int]:
        """Return exchange, request and rounds of fine-tuning of a message to a client.

        Raises:
            WireError: the message is not what a server of this federation sends.
        """
        control = message.control
        exchange = control.get("exchange")
        if exchange not in EXCHANGES:
            raise WireError("exchange")
        if message.sequence != _sequence(exchange, message):
            raise WireError("round")
        self._check_control(exchange, message.round, control)
        models = strip_prefix(message.arrays, MODELS)
        broadcast = strip_prefix(message.arrays, BROADCAST)
        if len(models) + len(broadcast) < len(message.arrays):
            raise WireError("arrays: unknown")
        self._check_delivery(exchange, models)
        if models and (message.encoded is None) != (self.travel.encoding is None):
            raise WireError("encoding")
        for name, array in broadcast.items():
            _check_statistic(name, array)
            if not np.isfinite(array).all():
                raise WireError(f"statistic {name}: value")
        if broadcast and not (exchange == "round" and self._algorithm.surveys):
            raise WireError("broadcast")
        request = RoundRequest(
            round=message.round,
            clients=(client,),
            models=Fleet.from_arrays(models),
            broadcast=broadcast,
            alone=control["alone"],
            verdicts=(Verdict(control["acknowledged"], control["kept"], control["rolled_back"]),),
        )
        return exchange, request, control["extra"]

    def _check_control(self, exchange: Exchange, number: int, control: Mapping[str, Any]) -> None:
        """Refuse control fields that the configuration does not allow in an exchange."""
        rounds = self._configuration.rounds
        working = exchange in ("survey", "round")
        last = rounds + (2 if exchange == "end" else 1)
        if not (1 <= number <= rounds if working else number == last):
            raise WireError("round")
        alone = not (working and mixes(self._configuration, number))
        extra = self._configuration.extra_rounds if exchange == "finish" else 0
        known = request_control(exchange, alone, extra, 0, False, False)
        if {name: type(value) for name, value in control.items()} != {
            name: type(value) for name, value in known.items()
        }:
            raise WireError("control fields")
        if control["alone"] != alone or control["extra"] != extra:
            raise WireError("control fields")
        kept = control["kept"] and not self._configuration.keeps_together
        if kept or not 0 <= control["acknowledged"] < 1 << 31:
            raise WireError("control fields")

    def _check_delivery(self, exchange: Exchange, models: NamedArrays) -> None:
        """Refuse delivered tensors that are not those of this federation."""
        for name, array in models.items():
            self._check_received(name, array)
        names = set() if exchange == "end" else set(self.travel.sent)
        if exchange == "finish" and self._algorithm.ensembles:
            names = self._ensemble()
        if models and set(models) != names:
            raise WireError("tensors: other names")

    def _ensemble(self) -> set[str]:
        """Return the names of what clients get of the models that all hand over."""
        clients = self._configuration.clients
        module = self._configuration.get_module()
        models = Fleet.of(module, clients).group(*self._algorithm.travelling(module))
        return set(self._algorithm.ensemble(models, np.ones(clients)))

    def _check_received(self, name: str, array: AnyArray) -> None:
        """Refuse a delivered tensor that no client of this federation holds."""
        own = self.travel.own
        known = [own[n] for n in (self.travel.local_name(name), name) if n in own]
        if described(array) not in known:
            raise WireError(f"tensor {name}" if known else "tensor unknown")
        if not np.isfinite(array).all():
            raise WireError(f"tensor {name}: not finite")

    # -- updates ---------------------------------------------------------------------------

    def update_message(
        self, exchange: Exchange, request: RoundRequest, update: ClientUpdate, answers: str
    ) -> Message:
        """Return the update of one client as a message, checked against the agreement.

        Args:
            exchange: What was asked.
            request: The request.
            update: The update of one client.
            answers: Checksum of the request's message.
        """
        arrays = add_prefix(update.statistics, STATISTICS) | self._arrays(update.models)
        encoded = update.encoded[0] if update.encoded else None
        (client,) = update.clients
        sequence, control = _sequence(exchange, request), update_control(answers)
        message = Message(Kind.UPDATE, client, request.round, sequence, control, arrays, encoded)
        self.update_of(message, exchange, request.alone, values=False)
        return message

    def update_bytes(self, update: ClientUpdate) -> int:
        """Return the bytes of an update's sealed messages, one per client, without making them.

        Args:
            update: The update of some clients.
        """
        if not update.clients:
            return 0
        count = len(update.clients)
        rows = 0 if update.models is None else len(update.models) // count
        statistics = {f"{STATISTICS}{n}": _one_row(a, 1) for n, a in update.statistics.items()}
        controls = [update_control(ANSWERS)] * count
        return self._bytes(controls, update.models, rows, update.encoded, statistics)

    def update_of(
        self, message: Message, exchange: Exchange, alone: bool, values: bool = True
    ) -> ClientUpdate:
        """Return the update in a message, its tensors in our own order.

        Args:
            message: The message of one client.
            exchange: What was asked.
            alone: Whether nothing is mixed after this exchange.
            values: Whether statistics must have possible values; names, types and shapes always
                must be those of the agreement.

        Raises:
            WireError: the message is not what a client of this federation sends.
        """
        if set(message.control) != set(update_control(ANSWERS)):
            raise WireError("control fields")
        models = strip_prefix(message.arrays, MODELS)
        statistics = strip_prefix(message.arrays, STATISTICS)
        if len(models) + len(statistics) < len(message.arrays):
            raise WireError("arrays: unknown")
        tensors = self.travel.tensors(exchange, alone)
        if set(models) != set(tensors):
            raise WireError("tensors: other names")
        for name, array in models.items():
            if described(array) != tensors[name]:
                raise WireError(f"tensor {name}: type or shape")
        encodes = self.travel.encoding is not None and exchange == "round"
        if models and (message.encoded is not None) != encodes:
            raise WireError("encoding")
        expected = self.travel.statistics(exchange, alone)
        if exchange == "end" and RESULTS in statistics:
            expected = {RESULTS: (1, self.travel.objectives)}
        if set(statistics) != set(expected):
            raise WireError("statistics: other names")
        # a declared statistic is a personal tensor, so who calls itself sound has a finite one
        sound = exchange == "round" and not statistics.get("unsound", np.zeros(1)).any()
        finite = ("size", *(self._algorithm.statistics if sound else ()))
        for name, array in statistics.items():
            if expected[name] not in (None, array.shape):
                raise WireError(f"statistic {name}: shape")
            _check_statistic(name, array)
            if values:
                _check_value(name, array, sound=name in finite)
        ordered = {name: models[name] for name in tensors}
        kept = {name: statistics[name] for name in expected}
        encoded = () if message.encoded is None else (message.encoded,)
        return ClientUpdate((message.sender,), Fleet.from_arrays(ordered), kept, encoded)

    # -- in words --------------------------------------------------------------------------

    @property
    def statistics(self) -> list[str]:
        """Names of all statistics that leave a client."""
        exchanged = [
            self.travel.statistics(exchange, alone=False) for exchange in ("round", "survey")
        ]
        names = [name for statistics in exchanged for name in statistics]
        gradients = ["gradients"] if "gradients" in self._algorithm.surveys else []
        return [*names, *gradients, *([SCALES] if self.scaled else [])]

    @property
    def tensors(self) -> list[str]:
        """Names of the tensors that leave a client each round."""
        return list(self.travel.tensors("round", alone=False))

    @property
    def personal(self) -> list[str]:
        """Names of the tensors that never leave a client."""
        return [name for name in self.travel.own if name not in self.travel.sent]

    @property
    def bytes_per_round(self) -> int:
        """Bytes of the tensors that leave a client each round, before they are encoded."""
        return size_of(self.travel.tensors("round", alone=False))


def _sequence(exchange: Exchange, message: RoundRequest | Message) -> int:
    """Return the number of an exchange in the federation."""
    return message.round * len(EXCHANGES) + EXCHANGES.index(exchange)


def _request_control(
    exchange: Exchange, request: RoundRequest, verdict: Verdict, extra: int
) -> dict[str, Any]:
    verdicts = verdict.round, verdict.kept, verdict.rolled_back
    return request_control(exchange, request.alone, extra, *verdicts)


def _one_row(array: AnyArray, rows: int) -> tuple[str, tuple[int, ...]]:
    """Return type and shape of the part of an array that belongs to one client."""
    kind, shape = described(array)
    return kind, (rows, *shape[1:])


def _check_statistic(name: str, array: AnyArray) -> None:
    """Refuse an array that cannot be a statistic or a broadcast: one row of numbers."""
    if array.dtype != np.float64 or array.ndim < 1 or len(array) != 1 or array.size > _MOST:
        raise WireError(f"statistic {name}: type or shape")


def _check_value(name: str, array: AnyArray, sound: bool) -> None:
    """Refuse values that no honest client sends.

    Numbers that are not finite are honest where a model is no longer sound; the server leaves such
    clients out by itself.
    """
    if not possible(name, array, finite=sound).all():
        raise WireError(f"statistic {name}: value")
