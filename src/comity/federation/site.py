"""A site: one client on its own machine, which answers the server's messages.

The site has two slots on its disk. ``committed`` is the client after the last round whose update
the server took; ``pending`` is the client after the round that it answered last, and the answer
itself is kept beside it. The next request says which update the server took, so a lost answer
equals never having been asked, and a site or server may be killed at any moment.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from comity.configuration import Configuration
from comity.core.devices import placed
from comity.core.storage import load_values, save_values, strip_prefix, write_whole
from comity.core.typing import NamedArrays
from comity.federation.agreement import RESULTS, Agreement, Exchange
from comity.federation.companion import clients_of
from comity.federation.ledger import Ledger
from comity.federation.messages import ClientUpdate, RoundMetrics, RoundRequest
from comity.federation.noise import drawn_from_entropy
from comity.federation.record import RoundRecord
from comity.federation.wire import (
    SERVER,
    Expected,
    ForeignError,
    Kind,
    Message,
    Sign,
    Verify,
    WireError,
    digest_of,
    no_signature,
    seal,
    unseal,
)

Entry = Callable[[RoundRecord, RoundMetrics], Mapping[str, Any]]
"""Returns a round as plain values for the site's history."""
Permit = Callable[[str, int, int], None]
"""Takes exchange, round and size of an answer; raises `RefusalError` if it must not leave."""

COMMITTED, PENDING, ANSWER = "committed.safetensors", "pending.safetensors", "answer.bin"
FAILED = "the site could not do this; its own log has the reason"
"""All that a server hears of an exception."""
_log = logging.getLogger(__name__)


class RefusalError(Exception):
    """A request that a site does not answer; the text travels, so it holds nothing private."""


@dataclass(frozen=True)
class Membership:
    """Place of a site in a federation."""

    client: int
    """Number of the client."""
    federation: str
    """Identity of the federation."""
    sign: Sign = no_signature
    """Signs the site's answers."""
    verify: Verify | None = None
    """Checks the server's signatures."""
    shares_results: bool = False
    """Whether the site tells its test results at the end."""


class Site:
    """One client of a federation, with its state on disk.

    Args:
        directory: Where the state is; it is private to this site.
        configuration: The configuration with the site's own rows and preference.
        membership: The site's place in the federation.
        agreement: What messages carry.
        permit: Called before work and before an answer leaves, with its size; raises
            `RefusalError` if the site's policy forbids it.
        entry: Returns a round as plain values for the site's history.
    """

    def __init__(
        self,
        directory: Path,
        configuration: Configuration,
        membership: Membership,
        agreement: Agreement,
        permit: Permit = lambda exchange, round, size: None,
        entry: Entry = lambda record, metrics: {"round": record.round},
    ) -> None:
        self.directory, self.configuration = directory, configuration
        self.client = membership.client
        self._membership, self._agreement = membership, agreement
        self._permit, self._entry = permit, entry
        self._expected = Expected(
            federation=membership.federation,
            kinds=(Kind.REQUEST,),
            senders=(SERVER,),
            agreed=agreement.layout,
            largest=agreement.largest,
            verify=membership.verify,
        )
        with placed(configuration.device):
            self.clients = clients_of(configuration, (self.client,), drawn_from_entropy)
        self.ledger = Ledger(directory, configuration)
        """Updates that have left under differential privacy."""
        self.ended = False
        """Whether the federation is over."""
        self.foreign = False
        """Whether the server has spoken of another federation than the site's."""
        self._surveyed = 0  # round whose survey is in memory
        self._memory = COMMITTED  # slot whose state is in memory; "" in between
        self._committed = 0  # last round that the server took
        self._pending: dict[str, Any] = {}
        self._bases: dict[str, NamedArrays] = {}  # what models are measured from, by slot
        self.history: list[dict[str, Any]] = []
        """Metrics of the rounds that the server took, which stay here."""
        self._restore()

    # -- messages --------------------------------------------------------------------------

    def answer(self, data: bytes) -> bytes:
        """Return the answer to a message; never raises. A refusal is an answer, too."""
        with placed(self.configuration.device):  # whatever thread this is
            return self._answer_to(data)

    def _answer_to(self, data: bytes) -> bytes:
        try:
            decode = self._agreement.decoder(self._bases.values())
            message = unseal(data, replace(self._expected, decode=decode))
            exchange, request, extra = self._agreement.request_of(message, self.client)
        except WireError as error:
            self.foreign |= isinstance(error, ForeignError)
            reason = f"message not taken: {error}"
            return self._seal(refusal_message(self.client, reason, answers=digest_of(data)))
        try:
            return self._answer(exchange, request, extra, digest_of(data))
        except RefusalError as error:
            reason = str(error)
        except Exception:  # the text of an exception may hold private values: it stays here
            _log.exception("round %s: %s failed", message.round, exchange)
            self._forget()
            reason = FAILED
        return self._seal(refusal_message(self.client, reason, message, digest_of(data)))

    def _answer(self, exchange: Exchange, request: RoundRequest, extra: int, digest: str) -> bytes:
        self._settle(request)
        if self._pending.get("digest") == digest and (kept := self._kept_answer()):
            return kept
        if self.ended and exchange != "end":
            raise RefusalError("the federation is over")
        if self._memory != COMMITTED and not (
            exchange == "round" and self._surveyed == request.round and self._memory == ""
        ):
            self._load(COMMITTED)
        self._permit(exchange, request.round, 0)
        if exchange == "collect" and not self.configuration.get_algorithm().ensembles:
            raise RefusalError("models are collected for an ensemble, which nobody makes here")
        if exchange == "round" and not request.alone and (fault := self.ledger.fault):
            raise RefusalError(fault)
        update = self._work(exchange, request, extra)
        sealed = self._seal(self._agreement.update_message(exchange, request, update, digest))
        self._permit(exchange, request.round, len(sealed))
        if update.models is not None:
            self.ledger.count()
        if exchange in ("round", "finish"):
            self._remember(request.round, digest, sealed)
        if exchange == "end":
            self._end(request)
        return sealed

    def _work(self, exchange: Exchange, request: RoundRequest, extra: int) -> ClientUpdate:
        clients = self.clients
        self._memory = ""
        if exchange == "survey":
            self._surveyed = request.round
            return clients.survey(request)
        if exchange == "round":
            surveys = bool(self.configuration.get_algorithm().surveys) and not request.alone
            if surveys and self._surveyed != request.round:
                clients.survey(request)  # restarted in between: the same survey again
            self._surveyed = 0
            return clients.round(request)
        if exchange == "collect":
            return clients.collect(request)
        if exchange == "finish":
            return clients.finish(request, extra)
        clients.end(request)
        statistics = {}
        if self._membership.shares_results:
            statistics[RESULTS] = clients.test(self.configuration.keep == "best").round(6)
        return ClientUpdate(request.clients, None, statistics)

    def _seal(self, message: Message) -> bytes:
        membership = self._membership
        return seal(message, membership.federation, self._agreement.layout, membership.sign)

    # -- state -----------------------------------------------------------------------------

    def _settle(self, request: RoundRequest) -> None:
        """Commit the last round if the server took it; refuse a server that is behind."""
        acknowledged = request.verdicts[0].round
        if self._pending.get("round") == acknowledged and acknowledged:
            (self.directory / PENDING).replace(self.directory / COMMITTED)
            if self._memory == PENDING:
                self._memory = COMMITTED
            else:
                self._load(COMMITTED)
            self._committed, self._pending = acknowledged, {}
            self._bases = {COMMITTED: self._bases[PENDING]}
            self.history = self._read_history()
        if acknowledged < self._committed:
            raise RefusalError(
                f"the server is behind: it has taken round {acknowledged} of this site, which has "
                f"gone on to round {self._committed}; restore a later checkpoint of the server"
            )
        if acknowledged > self._committed:
            raise RefusalError(
                f"this site is behind: the server has taken its round {acknowledged}, but the "
                f"site's disk ends with round {self._committed}; restore its directory"
            )

    def _remember(self, number: int, digest: str, sealed: bytes) -> None:
        """Write the answer, then the state after it: each is whole or absent."""
        record = RoundRecord(number, (self.client,), bytes_up=len(sealed))
        history = [*self.history, dict(self._entry(record, self.clients.metrics((self.client,))))]
        write_whole(self.directory / ANSWER, sealed)
        pending = {"round": number, "digest": digest, "answer": digest_of(sealed)}
        self._save(PENDING, {**pending, "history": history})
        self._bases[PENDING] = self._posted()
        self._pending, self._memory = pending, PENDING

    def _kept_answer(self) -> bytes:
        """Return the answer of the pending round; nothing if a crash left another one."""
        sealed = (self.directory / ANSWER).read_bytes()
        return sealed if digest_of(sealed) == self._pending["answer"] else b""

    def _save(self, slot: str, values: dict[str, Any]) -> None:
        save_values(self.directory / slot, self.clients.state(), values)

    def _posted(self) -> NamedArrays:
        return {name: array.copy() for name, array in self.clients.posted.items()}

    def _load(self, slot: str) -> dict[str, Any]:
        arrays, values = load_values(self.directory / slot)
        self.clients.load(arrays)
        self._memory, self._surveyed = slot, 0
        return values

    def _forget(self) -> None:
        """Return to the committed state after a failure."""
        self._memory, self._surveyed = "", 0

    def _restore(self) -> None:
        """Read what an earlier process left, or begin."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not (self.directory / COMMITTED).is_file():
            self._save(COMMITTED, {"round": 0, "history": []})
        values = self._load(COMMITTED)
        self._bases = {COMMITTED: self._posted()}
        self._committed, self.history = int(values["round"]), list(values["history"])
        self.ended = bool(values.get("ended", False))
        if (self.directory / PENDING).is_file() and (self.directory / ANSWER).is_file():
            arrays, pending = load_values(self.directory / PENDING)
            base = strip_prefix(arrays, "uplink/posted/")
            self._bases[PENDING] = {name: base[name] for name in self._bases[COMMITTED]}
            self._pending = {name: pending[name] for name in ("round", "digest", "answer")}

    def _read_history(self) -> list[dict[str, Any]]:
        _, values = load_values(self.directory / COMMITTED)
        return list(values["history"])

    def _end(self, request: RoundRequest) -> None:
        """Write the final state: the federation is over."""
        values = {"round": self._committed, "history": self.history, "ended": True}
        self._save(COMMITTED, values)
        (self.directory / PENDING).unlink(missing_ok=True)
        self._pending, self._memory, self.ended = {}, COMMITTED, True


def refusal_message(
    client: int, reason: str, request: Message | None = None, answers: str = ""
) -> Message:
    """Return a refusal.

    Args:
        client: Number of the client.
        reason: A sentence of ours that holds nothing private.
        request: The server's message; None if it could not be read.
        answers: Its checksum.
    """
    round, sequence = (0, 0) if request is None else (request.round, request.sequence)
    control = {"answers": answers, "reason": reason}
    return Message(Kind.REFUSAL, client, round, sequence, control)
