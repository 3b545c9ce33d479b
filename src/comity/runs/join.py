"""A site's side of a deployed federation, in the site's own directory.

At the end the directory is that of a run with one client that is known: its model, its history, its
results.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from comity.configuration.federation_file import SiteFile
from comity.core.devices import placed
from comity.core.locks import held
from comity.core.storage import write_whole
from comity.core.threads import limited
from comity.errors import RefusedError
from comity.federation.member import Member
from comity.federation.site import Membership
from comity.federation.transports.base import SiteTransport
from comity.runs.answers import constant_models
from comity.runs.base import CONFIG, GROUPS
from comity.runs.directory import Run
from comity.runs.groups import groups_of
from comity.runs.privacy_results import privacy_result
from comity.runs.results import history_entry, summarise

AGREED, LOG = "agreed", "site.log"


def agreed(file: SiteFile) -> bool:
    """Return whether the site's owner has agreed to this very federation file."""
    path = file.directory / AGREED
    return path.is_file() and path.read_text().strip() == _consent(file)


def agree(file: SiteFile) -> None:
    """Store the owner's consent to this very federation file."""
    file.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_whole(file.directory / AGREED, (_consent(file) + "\n").encode())


def _consent(file: SiteFile) -> str:
    """Return what the owner agrees to: the federation, as one hash."""
    return hashlib.sha256(f"{file.name} {file.federation.identity}".encode()).hexdigest()


@contextmanager
def occupied(file: SiteFile) -> Iterator[None]:
    """Keep other processes out of the site's directory, and faults in its log.

    Args:
        file: The site file.
    """
    file.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with held(file.directory):
        handler = logging.FileHandler(file.directory / LOG, delay=True)
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        logger = logging.getLogger("comity")
        logger.addHandler(handler)
        try:
            yield
        finally:
            logger.removeHandler(handler)
            handler.close()


def enter(file: SiteFile, membership: Membership) -> Member:
    """Return the site, ready to answer; nothing is sent.

    Args:
        file: The site file.
        membership: The site's place in the federation.

    Raises:
        RefusedError: the site's policy forbids this federation.
    """
    return Member(file, membership, history_entry)


def join(member: Member, transport: SiteTransport) -> Run:
    """Answer the server until the federation is over; return the site's directory as a run.

    Args:
        member: The site.
        transport: Carries the messages.
    """
    if not agreed(member.file):
        raise RefusedError(
            f"{member.file.path}: nobody has agreed to federation "
            f"{member.file.federation.identity[:12]} here. Agree with: comity join "
            f"{member.file.path} --agree"
        )
    with limited(member.configuration.threads):
        silence = _Silence(member.file.federation.session.server_silent)

        def answer(data: bytes) -> bytes:
            answered = _answered(member, data)
            silence.end()
            return answered

        if not member.ended:
            transport.serve(answer, lambda: member.ended or member.foreign or silence.too_long)
        if member.foreign:
            raise RefusedError(
                f"{member.file.federation.path}: the server runs another federation than this "
                f"file's ({member.file.federation.identity[:12]}). Ask the organiser for the file "
                "that all parties have."
            )
        if not member.ended:
            raise RefusedError(
                f"{member.file.path}: the server has been silent for more than "
                f"{silence.longest:g} s (session.server_silent). The site keeps its state; go on "
                f"with: comity join {member.file.path}"
            )
        return close(member)


class _Silence:
    """Time since the server's last question.

    Args:
        longest: Seconds that a site waits; 0: for ever.
    """

    def __init__(self, longest: float) -> None:
        self.longest = longest
        self.end()

    def end(self) -> None:
        """Take note of a question, once it is answered."""
        self._since = time.monotonic()

    @property
    def too_long(self) -> bool:
        """Whether the server has been silent for longer than a site waits."""
        return 0 < self.longest < time.monotonic() - self._since


def _answered(member: Member, data: bytes) -> bytes:
    answer = member.answer(data)
    if member.site is not None:
        _directory(member).rewrite_history(member.site.history)
    return answer


def close(member: Member) -> Run:
    """Write model, history and results of a federation that is over into the site's directory.

    Args:
        member: The site.
    """
    run, site = _directory(member), member.site
    assert site is not None
    if run.finished:
        return run
    configuration, clients = member.configuration, site.clients
    with placed(configuration.device):
        tested = {kept: clients.test(kept).round(6) for kept in (True, False)}
        groups = groups_of(configuration, clients, own := (site.client,))
    run.rewrite_history(site.history)
    models = clients.models(configuration.keep == "best")
    run.save_models(models, own)
    kept = tested[configuration.keep == "best"]
    results = summarise(
        configuration,
        kept,
        tested[False],
        run.history,
        clients=own,
        constant=constant_models(configuration, models, own),
        groups=groups,
    )
    if configuration.privacy is not None:  # also of updates that were lost on their way
        sent = [site.ledger.updates]
        results["privacy"] = privacy_result(configuration, sent, simulated=False)
    if groups is not None:  # for the site's own eyes: they stay in its directory
        run.save_json(GROUPS, groups)
    run.save_schema(configuration)
    run.save_results(results, 0.0)
    return run


def _directory(member: Member) -> Run:
    """Return the site's directory as a run."""
    path: Path = member.file.directory
    text = member.configuration.to_toml().encode()
    if not (path / CONFIG).is_file() or (path / CONFIG).read_bytes() != text:
        write_whole(path / CONFIG, text)
    return Run.open(path)
