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
from typing import Generic, TypeVar

from comity.core.typing import FloatArray, NamedArrays
from comity.federation.agreement import RESULTS, Agreement, Exchange
from comity.federation.hello import Greeting, begin_message, greeting_of, hello_message
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
    round_of,
    seal,
    sequence_of,
    unseal,
)

T = TypeVar("T")
_PAUSE = 1.0  # seconds before a question is asked again


@dataclass(frozen=True)
class Incident:
    """An answer or a fault, for the history and the status."""

    site: str
    """Empty: all sites."""
    round: int
    exchange: str
    text: str = ""
    """The fault in a few words; empty: the site answered."""
    bytes: int = 0
    seconds: float = 0.0


OnIncident = Callable[[Incident], None]


@dataclass(frozen=True)
class Terms:
    """Terms on which a deployed server deals with its sites."""

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
    """Signs requests."""
    verify: Verify | None = None
    """Checks the sites' signatures."""


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
        on_incident: OnIncident = lambda incident: None,
    ) -> None:
        self._terms, self._agreement, self._transport = terms, agreement, transport
        self._on_incident = on_incident
        self.shared: dict[str, FloatArray] = {}
        """Test results of the sites that told them at the end."""

    # -- before the first round ------------------------------------------------------------

    def hello(self, everyone: bool) -> dict[str, Greeting]:
        """Return the greetings of the sites; waits for as many as the quorum asks for.

        Args:
            everyone: Wait for all sites, because a figure of the federation depends on all.
        """
        messages = dict.fromkeys(self._terms.sites, hello_message())
        quorum = len(messages) if everyone else self._terms.quorum
        columns = self._agreement.scaled
        return self._ask("hello", messages, lambda m: greeting_of(m, columns), quorum)

    def begin(self, scales: Mapping[str, tuple[float, float]]) -> None:
        """Tell all sites the scales of columns that they have told together.

        Args:
            scales: Mean and spread by column.
        """
        messages = dict.fromkeys(self._terms.sites, begin_message(scales))
        self._ask("begin", messages, greeting_of, len(messages))

    # -- what a server may ask -------------------------------------------------------------

    def survey(self, request: RoundRequest) -> ClientUpdate:
        return self._exchange("survey", request)

    def round(self, request: RoundRequest) -> ClientUpdate:
        return self._exchange("round", request)

    def collect(self, request: RoundRequest) -> ClientUpdate:
        return self._exchange("collect", request)

    def finish(self, request: RoundRequest, extra_rounds: int) -> ClientUpdate:
        return self._exchange("finish", request, extra_rounds, self._terms.wait)

    def end(self, request: RoundRequest) -> None:
        updates = self._updates("end", request, longer=self._terms.wait)
        results = {site: update.statistics.get(RESULTS) for site, update in updates.items()}
        self.shared |= {site: values[0] for site, values in results.items() if values is not None}

    def _exchange(
        self, exchange: Exchange, request: RoundRequest, extra: int = 0, longer: float = 0.0
    ) -> ClientUpdate:
        """Ask the clients of a request; return what came in time, in the order of clients."""
        updates = self._updates(exchange, request, extra, longer)
        for site in _unlike(updates):
            del updates[site]
            text = "answer not taken: statistics of another shape than most"
            self._on_incident(Incident(site, request.round, exchange, text))
        ordered = sorted(updates.values(), key=lambda update: update.clients)
        return ClientUpdate.joined(ordered)

    def _updates(
        self, exchange: Exchange, request: RoundRequest, extra: int = 0, longer: float = 0.0
    ) -> dict[str, ClientUpdate]:
        """Return what came in time, by site.

        The end needs no quorum: sites that are gone cannot be told.
        """
        quorum = 0 if exchange == "end" else self._terms.quorum
        messages = {
            self._terms.sites[client]: self._agreement.request_message(
                exchange, request.only((client,)), extra
            )
            for client in request.clients
        }

        def update_of(message: Message) -> ClientUpdate:
            return self._agreement.update_of(message, exchange, request.alone)

        return self._ask(exchange, messages, update_of, quorum, longer, self._bases(request))

    def _bases(self, request: RoundRequest) -> dict[str, NamedArrays]:
        """Return what the updates of sites are measured from, by site."""
        if request.posted is None:
            return {}
        arrays = {name: tensor.numpy(force=True) for name, tensor in request.posted.tensors.items()}
        return {
            self._terms.sites[client]: {name: a[row : row + 1] for name, a in arrays.items()}
            for row, client in enumerate(request.clients)
        }

    def _ask(
        self,
        exchange: str,
        messages: Mapping[str, Message],
        parse: Callable[[Message], T],
        quorum: int,
        longer: float = 0.0,
        bases: Mapping[str, NamedArrays] | None = None,
    ) -> dict[str, T]:
        """Return the answers of sites by name; fewer than the quorum are asked for again."""
        terms, layout = self._terms, self._agreement.layout
        sealed = {
            site: seal(message, terms.federation, layout, terms.sign)
            for site, message in messages.items()
        }
        number = next(iter(messages.values())).round

        def opened(site: str, answer: bytes) -> Message:
            return self._opened(site, answer, (bases or {}).get(site))

        question = _Question(exchange, number, sealed, opened, parse, self._on_incident)
        quorum = min(quorum, len(sealed))
        while True:
            began = time.monotonic()
            waiting = {site: m for site, m in sealed.items() if site not in question.answers}
            self._transport.exchange(waiting, terms.patience + longer, question.arrived)
            if len(question.answers) >= quorum:
                return question.answers
            text = f"{len(question.answers)} of {len(sealed)} sites answered"
            text += f", fewer than the quorum of {quorum}: asking again"
            self._on_incident(Incident("", number, exchange, text))
            time.sleep(max(0.0, min(_PAUSE, terms.patience) - (time.monotonic() - began)))

    def _opened(self, site: str, answer: bytes, base: NamedArrays | None) -> Message:
        """Return the content of an answer of a site, whose models are measured from a base."""
        expected = Expected(
            federation=self._terms.federation,
            kinds=(Kind.UPDATE, Kind.REFUSAL),
            senders=(self._terms.sites.index(site),),
            agreed=self._agreement.layout,
            largest=self._agreement.largest,
            verify=self._terms.verify,
            decode=None if base is None else self._agreement.decoder([base]),
        )
        return unseal(answer, expected)


class _Question(Generic[T]):
    """One exchange: what was asked, and the answers so far."""

    def __init__(
        self,
        exchange: str,
        number: int,
        sealed: Mapping[str, bytes],
        opened: Callable[[str, bytes], Message],
        parse: Callable[[Message], T],
        on_incident: OnIncident,
    ) -> None:
        self._exchange, self._number = exchange, number
        self._digests = {site: digest_of(message) for site, message in sealed.items()}
        self._headers = {site: _header(message) for site, message in sealed.items()}
        self._opened, self._parse, self._on_incident = opened, parse, on_incident
        self._began = time.monotonic()
        self.answers: dict[str, T] = {}

    def arrived(self, site: str, answer: bytes) -> bool:
        """Take an answer, or report why it is not taken."""
        try:
            message = self._opened(site, answer)
            if message.control.get("answers") != self._digests.get(site):
                raise WireError("answers another message")
            if message.kind == Kind.UPDATE and _header(answer) != self._headers[site]:
                raise WireError("round")
            if message.kind == Kind.REFUSAL:
                self._report(site, f"refused: {_reason(message)}")
                return True
            self.answers[site] = self._parse(message)
        except WireError as error:
            self._report(site, f"answer not taken: {error}")
            return False
        seconds = time.monotonic() - self._began
        self._on_incident(
            Incident(site, self._number, self._exchange, "", len(answer), round(seconds, 3))
        )
        return True

    def _report(self, site: str, text: str) -> None:
        self._on_incident(Incident(site, self._number, self._exchange, text))


def _header(sealed: bytes) -> tuple[int, int]:
    """Return round and sequence of a message."""
    return round_of(sealed), sequence_of(sealed)


def _unlike(updates: Mapping[str, ClientUpdate]) -> list[str]:
    """Return the sites whose statistics have other shapes than those of most sites.

    The agreement leaves the shape of some surveyed statistics open.
    """
    shapes = {
        site: tuple((name, array.shape) for name, array in sorted(update.statistics.items()))
        for site, update in updates.items()
    }
    if not shapes:
        return []
    counts = Counter(shapes.values())
    usual = max(sorted(counts), key=lambda shape: counts[shape])
    return [site for site, shape in shapes.items() if shape != usual]


def _reason(message: Message) -> str:
    """Return the reason of a refusal as one short line of printable characters.

    Raises:
        WireError: there is none.
    """
    reason = message.control.get("reason")
    if not isinstance(reason, str) or not reason.strip():
        raise WireError("a refusal without a reason")
    return "".join(char if char.isprintable() else " " for char in reason[:200])
