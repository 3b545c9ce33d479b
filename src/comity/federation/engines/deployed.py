"""The deployed engine: every client is a site of its own, reached by a transport.

Absence is normal: a site that does not answer in time, answers nonsense or refuses is left out of
the exchange. Requests depend on the server's state alone, so a server that starts again asks the
same question with the same bytes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from comity.federation.agreement import Agreement, Exchange
from comity.federation.messages import ClientUpdate, RoundRequest
from comity.federation.transports.base import ServerTransport
from comity.federation.wire import (
    Expected,
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

_PAUSE = 1.0  # seconds before a question is asked again


@dataclass(frozen=True)
class Incident:
    """Something worth a line in the history: an answer, a refusal, a fault."""

    site: str
    round: int
    exchange: str
    text: str
    """Empty: the site answered."""
    bytes: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Terms:
    """How a deployed server deals with its sites."""

    sites: tuple[str, ...]
    """Names of the sites, in the order of client ids."""
    federation: str
    """Identity of the federation."""
    patience: float = 900.0
    """Seconds until a site counts as absent in an exchange."""
    quorum: int = 1
    """Answers without which an exchange is repeated."""
    wait: float = 0.0
    """Seconds more that absent sites have for the last delivery and its end."""
    sign: Sign = no_signature
    verify: Verify | None = None


class DeployedEngine:
    """Clients on machines of their own.

    Args:
        terms: How to deal with the sites.
        agreement: What messages carry.
        transport: Carries the messages.
        on_incident: Called for every answer and every fault.
    """

    def __init__(
        self,
        terms: Terms,
        agreement: Agreement,
        transport: ServerTransport,
        on_incident: Callable[[Incident], None] = lambda incident: None,
    ) -> None:
        self._terms, self._agreement, self._transport = terms, agreement, transport
        self._on_incident = on_incident

    def survey(self, request: RoundRequest) -> ClientUpdate:
        return self._exchange("survey", request)

    def round(self, request: RoundRequest) -> ClientUpdate:
        return self._exchange("round", request)

    def collect(self, request: RoundRequest) -> ClientUpdate:
        return self._exchange("collect", request)

    def finish(self, request: RoundRequest, extra_rounds: int) -> ClientUpdate:
        return self._exchange("finish", request, extra_rounds, self._terms.wait)

    def end(self, request: RoundRequest) -> None:
        self._exchange("end", request, longer=self._terms.wait)

    def _exchange(
        self, exchange: Exchange, request: RoundRequest, extra: int = 0, longer: float = 0.0
    ) -> ClientUpdate:
        """Ask the clients of a request; return what came in time, in the order of clients.

        Fewer answers than the quorum are kept, and the others are asked again.
        """
        question = _Question(self, exchange, request)
        messages = {
            self._terms.sites[client]: seal(
                self._agreement.request_message(exchange, request.only((client,)), extra),
                self._terms.federation,
                self._agreement.layout,
                self._terms.sign,
            )
            for client in request.clients
        }
        quorum = min(self._terms.quorum, len(messages))
        while True:
            began = time.monotonic()
            question.ask(messages, began)
            waiting = {site: m for site, m in messages.items() if site not in question.updates}
            self._transport.exchange(waiting, self._terms.patience + longer, question.arrived)
            if len(question.updates) >= quorum:
                break
            self.note(
                "", request.round, exchange, f"{len(question.updates)} of {len(messages)} sites "
                f"answered, fewer than the quorum of {quorum}: asking again"
            )  # fmt: skip
            time.sleep(max(0.0, min(_PAUSE, self._terms.patience) - (time.monotonic() - began)))
        return ClientUpdate.joined(question.consistent())

    def note(self, site: str, round: int, exchange: str, text: str) -> None:
        """Report a fault."""
        self._on_incident(Incident(site, round, exchange, text))

    def opened(self, site: str, answer: bytes) -> Message:
        """Return the content of an answer of a site.

        Raises:
            WireError: the answer is not taken.
        """
        expected = Expected(
            federation=self._terms.federation,
            kinds=(Kind.UPDATE, Kind.REFUSAL),
            senders=(self._terms.sites.index(site),),
            agreed=self._agreement.layout,
            largest=self._agreement.largest,
            verify=self._terms.verify,
        )
        return unseal(answer, expected)

    def update_of(
        self, message: Message, exchange: Exchange, request: RoundRequest
    ) -> ClientUpdate:
        """Return the update of an answer."""
        return self._agreement.update_of(message, exchange, request.alone)

    def answered(self, incident: Incident) -> None:
        """Report an answer."""
        self._on_incident(incident)


class _Question:
    """One exchange: what was asked, and the answers so far."""

    def __init__(self, engine: DeployedEngine, exchange: Exchange, request: RoundRequest) -> None:
        self._engine, self._exchange, self._request = engine, exchange, request
        self.updates: dict[str, ClientUpdate] = {}
        self._digests: dict[str, str] = {}
        self._began = 0.0

    def ask(self, messages: Mapping[str, bytes], began: float) -> None:
        """Remember what is asked, and when."""
        self._digests = {site: digest_of(message) for site, message in messages.items()}
        self._began = began

    def arrived(self, site: str, answer: bytes) -> bool:
        """Take an answer, or report why it is not taken."""
        number, exchange = self._request.round, self._exchange
        try:
            message = self._engine.opened(site, answer)
            if message.control.get("answers") != self._digests.get(site):
                raise WireError("answer to another message")
            if message.kind == Kind.REFUSAL:
                self._engine.note(site, number, exchange, f"refused: {_plain(message)}")
                return True
            update = self._engine.update_of(message, exchange, self._request)
        except WireError as error:
            self._engine.note(site, number, exchange, f"answer not taken: {error}")
            return False
        self.updates[site] = update
        seconds = time.monotonic() - self._began
        self._engine.answered(Incident(site, number, exchange, "", len(answer), seconds))
        return True

    def consistent(self) -> list[ClientUpdate]:
        """Return the updates in the order of clients, without those unlike the most of them.

        Statistics whose shape the agreement leaves open must have the same shape at all sites.
        """
        shapes = {
            site: tuple((name, array.shape) for name, array in sorted(update.statistics.items()))
            for site, update in self.updates.items()
        }
        if not shapes:
            return []
        counts = Counter(shapes.values())
        usual = max(sorted(counts), key=lambda shape: counts[shape])
        for site in [site for site, shape in shapes.items() if shape != usual]:
            del self.updates[site]
            text = "answer not taken: statistics of another shape than most"
            self._engine.note(site, self._request.round, self._exchange, text)
        return sorted(self.updates.values(), key=lambda update: update.clients)


def _plain(message: Message) -> str:
    """Return the reason of a refusal as one short line of printable characters."""
    reason = str(message.control.get("reason", ""))[:200]
    return "".join(char if char.isprintable() else " " for char in reason)
