"""The organiser's side of a deployed federation: rounds among real sites, in a run directory."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from comity.configuration import Configuration
from comity.configuration.budget import planned_updates
from comity.configuration.federation_file import FederationFile
from comity.core.locks import LOCK, held
from comity.core.storage import is_leftover, write_whole
from comity.core.threads import limited
from comity.core.typing import FloatArray
from comity.errors import UserError
from comity.federation.agreement import Agreement
from comity.federation.engines.deployed import DeployedEngine, Incident, Terms
from comity.federation.initial_model import check_initial_model
from comity.federation.loop import RoundLoop
from comity.federation.record import RoundRecord
from comity.federation.server import Server
from comity.federation.transports.base import ServerTransport
from comity.problems.schema import SchemaProblem
from comity.runs.base import CONFIG
from comity.runs.directory import Run
from comity.runs.privacy_results import privacy_result
from comity.runs.results import finite, history_entry

FEDERATION, STATUS, VERSIONS = "federation.toml", "status.json", "versions.json"
_TRANSPORT = "flower"  # files of the transport, which starts first
_RECENT = 20  # events in the status


@dataclass
class SiteStatus:
    """One site, as the server sees it."""

    answered: int = 0
    """Rounds that it answered."""
    last_round: int = 0
    last_seen: float | None = None
    """Time of its last answer, in seconds since 1970."""
    bytes: int = 0
    """Bytes that came from it."""
    seconds: float = 0.0
    """Time that its last answer took."""
    fault: str = ""
    """Its last fault, until it answers again."""


@dataclass
class Status:
    """State of a federation, for the organiser's eyes: no scores."""

    federation: str
    algorithm: str
    rounds: int
    round: int = 0
    """Rounds that are finished."""
    exchange: str = "waiting for the sites"
    sites: dict[str, SiteStatus] = field(default_factory=dict)
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.time)
    updated: float = field(default_factory=time.time)

    def note(self, incident: Incident) -> None:
        """Take note of an answer or a fault."""
        self.updated = time.time()
        self.exchange = f"round {incident.round}: {incident.exchange}"
        site = self.sites.get(incident.site)
        if incident.text:
            self.events = [*self.events, _sentence(incident)][-_RECENT:]
            if site is not None:
                site.fault = incident.text
            return
        if site is not None:
            site.answered += incident.exchange == "round"
            site.last_round, site.last_seen = incident.round, self.updated
            site.bytes += incident.bytes
            site.seconds, site.fault = incident.seconds, ""


OnStatus = Callable[[Status], None]


def serve(
    file: FederationFile,
    terms: Terms,
    transport: ServerTransport,
    out: Path,
    on_status: OnStatus | None = None,
) -> Run:
    """Run a federation among real sites; a run that was interrupted goes on.

    Sites that were absent at the end of a finished run hear of it if there is time to wait.

    Args:
        file: The federation file.
        terms: How to deal with the sites.
        transport: Carries the messages.
        out: The run directory; created, or gone on with if it is of the same federation.
        on_status: Called after every answer and fault.
    """
    status = Status(
        terms.federation, str(file.values.get("algorithm", "fedpref")), 0,
        sites={name: SiteStatus() for name in terms.sites},
    )  # fmt: skip
    incidents: list[Incident] = []

    def note(incident: Incident) -> None:
        incidents.append(incident)
        status.note(incident)
        if on_status is not None:
            on_status(status)

    file.check_deployable()
    check_initial_model(file)
    run = _opened(file, out)
    if run.finished:
        if not terms.wait:
            raise UserError(
                f"out: {out}: this federation is over. To tell a site that was absent at its end, "
                "add --wait SECONDS; for a new federation, choose another directory."
            )
        terms = replace(terms, patience=terms.wait, wait=0.0)
    delivered = run.finished or _delivered(run)
    engine = DeployedEngine(terms, Agreement(run.configuration), transport, note)
    with held(run.path), limited(run.configuration.threads):
        if not delivered:
            run = _greet(run, file, engine, status)
        configuration = run.configuration
        status.rounds = configuration.rounds
        loop = RoundLoop(engine, Server(configuration))
        began = time.monotonic() - _restore(run, loop)
        status.round = loop.done

        def save(record: RoundRecord, last: bool = False) -> None:
            _record(run, record, incidents)
            state, plain = loop.state()
            spent = {"seconds": time.monotonic() - began, "spent": loop.spent}
            run.save_checkpoint(state, {**plain, **spent, "delivered": last})
            status.round = loop.done
            if on_status is not None:
                on_status(status)

        for (record,) in loop.rounds():
            save(record)
        if not delivered:
            (record,) = loop.deliver_last()
            save(record, last=True)
        loop.end()  # sites that have heard it are gone: nothing is asked after it
        if not run.finished:
            run.save_results(
                _results(run, file, engine.shared), time.monotonic() - began, loop.spent
            )
    status.exchange = "over"
    if on_status is not None:
        on_status(status)
    return run


def is_served(path: Path) -> bool:
    """Return whether a directory is the organiser's of a deployed federation."""
    return (path / FEDERATION).is_file() and (path / CONFIG).is_file()


def served_results(run: Run) -> dict[str, Any]:
    """Return the results of a deployed federation as its organiser has them."""
    if not run.finished:
        raise UserError(
            f"{run.path}: this federation is not over. Go on with: comity serve FEDERATION --key "
            f"KEY --out {run.path}"
        )
    return dict(run._results)


def absences(run: Run) -> list[list[Any]]:
    """Return who was absent in a deployed run, as the setting ``absences`` takes it."""
    return [
        [entry["round"], client, exchange]
        for entry in run.history
        for exchange, clients in entry.get("absent", {}).items()
        for client in clients
    ]


def _opened(file: FederationFile, out: Path) -> Run:
    """Return the run directory of a federation, new or begun."""
    kept, document = out / FEDERATION, file.path.read_bytes()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"out: cannot create {out}: {error.strerror}.") from None
    begun = kept.is_file()
    ours = {_TRANSPORT, LOCK}
    others = [p for p in out.iterdir() if p.name not in ours and not is_leftover(p)]
    if kept.read_bytes() != document if begun else others:
        raise UserError(f"out: {out} holds something else than this federation. Choose another.")
    if not begun:
        write_whole(kept, document)
    if not (out / CONFIG).is_file():
        write_whole(out / CONFIG, file.configuration().to_toml().encode())
    return Run.open(out)


def _delivered(run: Run) -> bool:
    """Return whether an earlier process has made the last delivery."""
    checkpoint = run.load_checkpoint()
    return checkpoint is not None and bool(checkpoint[1].get("delivered"))


def _greet(run: Run, file: FederationFile, engine: DeployedEngine, status: Status) -> Run:
    """Meet the sites; learn the scales of columns that only all of them together know.

    The scales are written last, so a server that dies in between asks for them again.
    """
    problem = run.configuration.get_problem()
    federated = isinstance(problem, SchemaProblem) and problem.federated
    greetings = engine.hello(everyone=bool(federated))
    status.versions = {site: dict(greeting.versions) for site, greeting in greetings.items()}
    write_whole(run.path / VERSIONS, json.dumps(status.versions, indent=2).encode())
    if not isinstance(problem, SchemaProblem) or not federated:
        return run
    statistics = [greetings[name].scales for name in file.names]
    scales = problem.federated_scales([each for each in statistics if each is not None])
    engine.begin(scales)
    write_whole(run.path / CONFIG, file.configuration(scales=scales).to_toml().encode())
    return Run.open(run.path)


def _restore(run: Run, loop: RoundLoop) -> float:
    """Load the last checkpoint, if there is one; return the seconds spent before it."""
    seconds = 0.0
    if (checkpoint := run.load_checkpoint()) is not None:
        tensors, values = checkpoint
        loop.load(tensors, values)
        seconds, loop.spent = float(values["seconds"]), dict(values["spent"])
    if not _delivered(run):
        run.cut_history(loop.done)
    return seconds


def _record(run: Run, record: RoundRecord, incidents: list[Incident]) -> None:
    """Write a round with its faults into the history."""
    faults = [_sentence(incident) for incident in incidents if incident.text]
    incidents.clear()
    whole = replace(record, events=[*record.events, *faults])
    run.append_history(history_entry(whole, None))


def _results(run: Run, file: FederationFile, shared: Mapping[str, FloatArray]) -> dict[str, Any]:
    """Return what the organiser knows at the end: who took part and what travelled.

    Test results are among it only if all sites have told theirs.
    """
    history = run.history
    objectives = [objective.name for objective in run.configuration.get_problem().objectives]
    results = {
        name: dict(zip(objectives, finite(shared[name]), strict=True))
        for name in file.names
        if name in shared
    }
    configuration: Configuration = run.configuration
    return {
        "problem": configuration.problem_name,
        "algorithm": configuration.label,
        "federation": file.identity,
        "sites": list(file.names),
        "rounds": configuration.rounds,
        "answered": {
            name: sum(number in entry["clients"] for entry in history)
            for number, name in enumerate(file.names)
        },
        "absences": absences(run),
        "clusters": next((e["clusters"] for e in reversed(history) if e["clusters"]), None),
        "communication": {
            name: sum(entry[name] for entry in history) for name in ("bytes_up", "bytes_down")
        },
        **_privacy(configuration),
        **({"results": results} if len(results) == len(file.names) else {}),
    }


def _privacy(configuration: Configuration) -> dict[str, Any]:
    """Return the epsilon that no site exceeds: each counts for itself, lost answers, too."""
    if configuration.privacy is None:
        return {}
    most = [max(planned_updates(configuration))]
    return {"privacy": privacy_result(configuration, most, simulated=False)}


def _sentence(incident: Incident) -> str:
    who = f"{incident.site}, " if incident.site else ""
    return f"{who}round {incident.round}, {incident.exchange}: {incident.text}"
