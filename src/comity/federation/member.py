"""A site from its first hello on: tells scales if it is asked to, then answers round by round."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from comity.configuration import Configuration
from comity.configuration.federation_file import SiteFile
from comity.core.devices import check_device
from comity.core.storage import write_whole
from comity.federation.agreement import Agreement, exchange_of
from comity.federation.hello import HELLO_ROUND, greeting_message, scales_of
from comity.federation.initial_model import check_initial_model
from comity.federation.policy import Limits, check_site_rules
from comity.federation.sent_log import SentLog
from comity.federation.site import FAILED, Entry, Membership, Site, refusal_message
from comity.federation.wire import (
    SERVER,
    Expected,
    ForeignError,
    Kind,
    Message,
    WireError,
    digest_of,
    is_refusal,
    round_of,
    seal,
    unseal,
)
from comity.problems.schema import SchemaProblem

SCALES = "scales.json"
_log = logging.getLogger(__name__)


class Member:
    """A site of a federation: its files, its policy and its log.

    Args:
        file: The site file.
        membership: The site's place in the federation.
        entry: Returns a round as plain values for the site's history.
    """

    def __init__(self, file: SiteFile, membership: Membership, entry: Entry) -> None:
        self.file, self._membership, self._entry = file, membership, entry
        self.configuration: Configuration = file.configuration(self._scales())
        self.agreement = Agreement(file.federation.configuration())
        check_device(self.configuration.device)
        check_site_rules(file, self.configuration, self.agreement)
        file.federation.check_deployable()
        check_initial_model(file.federation)
        file.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.log = SentLog(file.directory)
        self.log.mend()
        self.site: Site | None = None
        """The site, once everything that it needs is known."""
        self.foreign = False
        """Whether the server has spoken of another federation than the site's."""
        if not self._federated:
            self._build()

    @property
    def ended(self) -> bool:
        """Whether the federation is over."""
        return self.site is not None and self.site.ended

    @property
    def _federated(self) -> tuple[str, ...]:
        """Columns whose scale is not known yet."""
        problem = self.configuration.get_problem()
        return problem.federated if isinstance(problem, SchemaProblem) else ()

    def answer(self, data: bytes) -> bytes:
        """Return the answer to a message, which is logged before it leaves; never raises."""
        sealed = self._answer(data)
        kind = "refusal" if is_refusal(sealed) else exchange_of(sealed)
        self.log.append(kind, sealed, self.agreement.layout)
        return sealed

    def _answer(self, data: bytes) -> bytes:
        if round_of(data) == HELLO_ROUND:
            return self._hello(data)
        if self.site is None:
            reason = "the site does not know the scales of columns yet"
            answers = digest_of(data)
            return self._sealed(refusal_message(self.file.client, reason, answers=answers))
        sealed = self.site.answer(data)
        self.foreign |= self.site.foreign
        return sealed

    def _hello(self, data: bytes) -> bytes:
        client = self.file.client
        try:
            message = unseal(data, self._expected())
            exchange, digest = message.control.get("exchange"), digest_of(data)
            if exchange == "begin":
                self._begin(scales_of(message))
                return self._sealed(greeting_message(client, message, digest))
            if exchange != "hello":
                raise WireError("exchange")
            return self._sealed(greeting_message(client, message, digest, self._told()))
        except WireError as error:
            self.foreign |= isinstance(error, ForeignError)
            reason = f"message not taken: {error}"
        except Exception:  # the text of an exception may hold private values: it stays here
            _log.exception("hello failed")
            reason = FAILED
        return self._sealed(refusal_message(client, reason, answers=digest_of(data)))

    def _told(self) -> Any:
        """Return the scale statistics that leave this site once, if the schema asks for any."""
        problem = self.file.configuration().get_problem()
        if not isinstance(problem, SchemaProblem) or not problem.federated:
            return None
        return problem.scale_statistics(self.file.client)

    def _begin(self, scales: Mapping[str, tuple[float, float]]) -> None:
        """Remember the scales of all sites; the same again changes nothing."""
        if self.site is not None:
            if {name: tuple(scale) for name, scale in self._scales().items()} != scales:
                raise WireError("scales: others than before")
            return
        if set(scales) != set(self._federated):
            raise WireError("scales: other columns")
        self.configuration = self.file.configuration(scales)
        write_whole(self.file.directory / SCALES, json.dumps(scales).encode())
        self._build()

    def _scales(self) -> dict[str, Any]:
        path = self.file.directory / SCALES
        return dict(json.loads(path.read_text())) if path.is_file() else {}

    def _build(self) -> None:
        permit = Limits(self.file.policy, self.log)
        arguments = (self.file.directory, self.configuration, self._membership, self.agreement)
        self.site = Site(*arguments, permit, self._entry)

    def _expected(self) -> Expected:
        return Expected(
            federation=self._membership.federation,
            kinds=(Kind.REQUEST,),
            senders=(SERVER,),
            agreed={},
            largest=1 << 20,
            verify=self._membership.verify,
        )

    def _sealed(self, message: Message) -> bytes:
        return seal(message, self._membership.federation, {}, self._membership.sign)
