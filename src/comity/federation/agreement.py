"""The agreement: which arrays travel in a federation, in which order, and what each may hold.

Both sides derive it from the configuration alone. The server checks what arrives against it; a site
checks what arrives and what leaves.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from comity.algorithms import STEPS
from comity.configuration import Configuration
from comity.core.fleet import Fleet
from comity.core.mixing import TARGET
from comity.core.storage import add_prefix, strip_prefix
from comity.core.typing import AnyArray, NamedArrays
from comity.federation.checks import possible
from comity.federation.clients import initial_fleet
from comity.federation.messages import ClientUpdate, RoundRequest, Verdict
from comity.federation.wire import (
    BROADCAST,
    MODELS,
    SERVER,
    STATISTICS,
    Kind,
    Layout,
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
        self._algorithm = algorithm = configuration.get_algorithm()
        self._objectives = len(problem.objectives)
        self._last = configuration.rounds + 2  # of the end
        self._scaled = isinstance(problem, SchemaProblem) and bool(problem.federated)
        self._guard, self._together = configuration.guard, configuration.keeps_together
        self._apart = any(phase.per_objective for phase in algorithm.phases(problem))
        trained = configuration.get_module().named_parameters()
        self._trained = [name for name, tensor in trained if tensor.requires_grad]
        fleet = initial_fleet(configuration, 1)
        own = {name: tensor.numpy() for name, tensor in fleet.tensors.items()}
        sent = {name: own[name] for name in fleet.group(*algorithm.sends)}
        self._personal = len(own) > len(sent)
        if configuration.learner_settings.get("average_targets"):
            for arrays in (own, sent):
                arrays.update({f"{TARGET}{name}": array for name, array in list(arrays.items())})
        self._own, self._sent = own, sent
        self.layout: Layout = {f"{MODELS}{name}": _described(array) for name, array in sent.items()}
        """Models as they usually travel: one row."""
        bytes_each = sum(array.nbytes for array in own.values())
        self.largest = bytes_each * max(self._objectives, configuration.clients, 2) + _ROOM
        """Bytes of the largest message."""

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
        control = {
            "exchange": exchange,
            "alone": request.alone,
            "extra": extra_rounds,
            "acknowledged": verdict.round,
            "kept": verdict.kept,
            "rolled_back": verdict.rolled_back,
        }
        arrays = add_prefix(request.broadcast, BROADCAST)
        if request.models is not None:
            tensors = request.models.tensors
            arrays |= {f"{MODELS}{name}": tensor.numpy() for name, tensor in tensors.items()}
        sequence = _sequence(exchange, request)
        return Message(Kind.REQUEST, SERVER, request.round, sequence, control, arrays)

    def request_of(self, message: Message, client: int) -> tuple[Exchange, RoundRequest, int]:
        """Return exchange, request and rounds of fine-tuning of a message to a client.

        Raises:
            WireError: the message is not what a server of this federation sends.
        """
        control = message.control
        exchange = control.get("exchange")
        if exchange not in EXCHANGES:
            raise WireError("exchange")
        if not 1 <= message.round <= self._last or message.sequence != _sequence(exchange, message):
            raise WireError("round")
        flags = [control.get(name) for name in ("alone", "kept", "rolled_back")]
        numbers = [control.get(name) for name in ("acknowledged", "extra")]
        if not all(type(flag) is bool for flag in flags):
            raise WireError("control fields")
        if not all(type(number) is int and 0 <= number < 1 << 31 for number in numbers):
            raise WireError("control fields")
        models = strip_prefix(message.arrays, MODELS)
        broadcast = strip_prefix(message.arrays, BROADCAST)
        if len(models) + len(broadcast) < len(message.arrays):
            raise WireError("arrays: unknown")
        for name, array in models.items():
            self._check_received(name, array)
        for name, array in broadcast.items():
            _check_statistic(name, array)
        request = RoundRequest(
            round=message.round,
            clients=(client,),
            models=Fleet.from_arrays(models),
            broadcast=broadcast,
            alone=control["alone"],
            verdicts=(Verdict(control["acknowledged"], control["kept"], control["rolled_back"]),),
        )
        return exchange, request, control["extra"]

    def _check_received(self, name: str, array: AnyArray) -> None:
        """Refuse a delivered tensor that no client of this federation holds."""
        local = name
        for prefix, replacement in self._algorithm.receive_as.items():
            if name.startswith(prefix):
                local = name.replace(prefix, replacement, 1)
        known = [self._own[n] for n in (local, name) if n in self._own]
        if not any(_described(array) == _described(other) for other in known):
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
        arrays = add_prefix(update.statistics, STATISTICS)
        if update.models is not None:
            tensors = update.models.tensors
            arrays |= {f"{MODELS}{name}": tensor.numpy() for name, tensor in tensors.items()}
        (client,) = update.clients
        sequence = _sequence(exchange, request)
        control = {"answers": answers}
        message = Message(Kind.UPDATE, client, request.round, sequence, control, arrays)
        self.update_of(message, exchange, request.alone, values=False)
        return message

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
        models = strip_prefix(message.arrays, MODELS)
        statistics = strip_prefix(message.arrays, STATISTICS)
        if len(models) + len(statistics) < len(message.arrays):
            raise WireError("arrays: unknown")
        tensors, rows = self._tensors(exchange, alone)
        if set(models) != set(tensors):
            raise WireError("tensors: other names")
        for name, array in models.items():
            dtype, shape = _described(tensors[name])
            if _described(array) != (dtype, (rows, *shape[1:])):
                raise WireError(f"tensor {name}: type or shape")
        expected = self._statistics(exchange, alone)
        if exchange == "end" and RESULTS in statistics:
            expected = {RESULTS: (1, self._objectives)}
        if set(statistics) != set(expected):
            raise WireError("statistics: other names")
        # a declared statistic is a personal tensor, so who calls itself sound has a finite one
        sound = exchange == "round" and not statistics.get("unsound", np.zeros(1)).any()
        told = ("size", *(self._algorithm.statistics if sound else ()))
        for name, array in statistics.items():
            if expected[name] not in (None, array.shape):
                raise WireError(f"statistic {name}: shape")
            _check_statistic(name, array)
            if values:
                _check_value(name, array, sound=name in told)
        ordered = {name: models[name] for name in tensors}
        kept = {name: statistics[name] for name in expected}
        return ClientUpdate((message.sender,), Fleet.from_arrays(ordered), kept)

    def _tensors(self, exchange: Exchange, alone: bool) -> tuple[NamedArrays, int]:
        """Return the tensors of models in an update, and their rows per client."""
        mixed = self._algorithm.communicates and not alone
        if exchange == "survey":
            surveyed = "gradients" in self._algorithm.surveys
            names = self._trained if surveyed else []
            return {name: self._own[name] for name in names}, self._objectives
        if exchange == "round" and mixed:
            return self._sent, self._objectives if self._apart else 1
        if exchange == "collect":
            return self._sent, 1
        return {}, 1

    def _statistics(self, exchange: Exchange, alone: bool) -> dict[str, tuple[int, ...] | None]:
        """Return the names of an update's statistics, with their shapes where these are known."""
        one: dict[str, tuple[int, ...] | None] = {}
        if exchange == "survey":
            known = dict.fromkeys(("losses", "preferences"), (1, self._objectives))
            return {n: known.get(n) for n in self._algorithm.surveys if n != "gradients"}
        if exchange == "collect":
            return {"size": (1,)}
        if self._together and exchange in ("round", "finish"):
            one["validation"] = (1,)
        if exchange != "round" or alone or not self._algorithm.communicates:
            return one
        one["size"] = (1,)
        if self._guard:
            one["declined"] = (1,)
        if self._personal:
            one["unsound"] = (1,)
        for name in self._algorithm.statistics:
            one[name] = (1,) if name == STEPS else self._own[name].shape
        return one

    # -- in words --------------------------------------------------------------------------

    @property
    def statistics(self) -> list[str]:
        """Names of all statistics that leave a client."""
        names = [*self._statistics("round", alone=False), *self._statistics("survey", alone=False)]
        gradients = ["gradients"] if "gradients" in self._algorithm.surveys else []
        return [*names, *gradients, *([SCALES] if self._scaled else [])]

    @property
    def tensors(self) -> list[str]:
        """Names of the tensors that leave a client each round."""
        return list(self._tensors("round", alone=False)[0])

    @property
    def personal(self) -> list[str]:
        """Names of the tensors that never leave a client."""
        return [name for name in self._own if name not in self._sent]

    @property
    def bytes_per_round(self) -> int:
        """Bytes of the tensors that leave a client each round."""
        tensors, rows = self._tensors("round", alone=False)
        return rows * sum(array.nbytes for array in tensors.values())


def _sequence(exchange: Exchange, message: RoundRequest | Message) -> int:
    """Return the number of an exchange in the federation."""
    return message.round * len(EXCHANGES) + EXCHANGES.index(exchange)


def _described(array: AnyArray) -> tuple[str, tuple[int, ...]]:
    return f"{array.dtype.kind}{array.dtype.itemsize}", array.shape


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
