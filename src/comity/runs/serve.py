"""The organiser's side of a deployed federation: rounds among real sites, in a run directory."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from comity.configuration import Configuration
from comity.configuration.federation_file import FederationFile
from comity.core.storage import write_whole
from comity.core.threads import limited
from comity.core.typing import OnRound
from comity.errors import UserError
from comity.federation.agreement import Agreement
from comity.federation.engines.deployed import DeployedEngine, Incident, Terms
from comity.federation.hello import Greeting
from comity.federation.loop import RoundLoop
from comity.federation.server import RoundRecord, Server
from comity.federation.transports.base import ServerTransport
from comity.problems.schema import SchemaProblem
from comity.runs.directory import CONFIG, Run
from comity.runs.results import history_entry

FEDERATION, STATUS, VERSIONS = "federation.toml", "status.json", "versions.json"
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
    run: Run,
    file: FederationFile,
    terms: Terms,
    transport: ServerTransport,
    on_round: OnRound | None = None,
    on_status: OnStatus | None = None,
) -> Run:
    """Run a federation among real sites; a run that was interrupted goes on.

    Args:
        run: The run directory, as `open_run` returns it.
        file: The federation file.
        terms: How to deal with the sites.
        transport: Carries the messages.
        on_round: Called after each round.
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

    agreement = Agreement(run.configuration)
    engine = DeployedEngine(terms, agreement, transport, note)
    with limited(run.configuration.threads):
        run = _greet(run, file, engine, status)
        configuration = run.configuration
        status.rounds = configuration.rounds
        server = Server(configuration)
        loop = RoundLoop(engine, server)
        seconds = _restore(run, loop)
        began = time.monotonic() - seconds
        for (record,) in loop.rounds():
            _record(run, record, incidents)
            state, plain = loop.state()
            spent = {"seconds": time.monotonic() - began, "spent": loop.spent}
            run.save_checkpoint(state, {**plain, **spent})
            status.round = loop.done
            if on_status is not None:
                on_status(status)
            if on_round is not None:
                on_round(loop.done, configuration.rounds, f"{len(record.clients)} answered")
        (last,) = loop.finish()
        _record(run, last, incidents)
        run.save_results(_results(run, file, server), time.monotonic() - began, loop.spent)
    status.exchange = "over"
    if on_status is not None:
        on_status(status)
    return run


def absences(run: Run) -> list[list[Any]]:
    """Return who was absent in a deployed run, as the setting ``absences`` takes it."""
    return [
        [entry["round"], client, exchange]
        for entry in run.history
        for exchange, clients in entry.get("absent", {}).items()
        for client in clients
    ]


def open_run(file: FederationFile, out: Path) -> Run:
    """Return the run directory of a federation, new or begun.

    Args:
        file: The federation file.
        out: The directory.
    """
    if not out.exists():
        run = Run.create(out, file.configuration())
        write_whole(out / FEDERATION, file.path.read_bytes())
        return run
    kept = out / FEDERATION
    if not kept.is_file() or kept.read_bytes() != file.path.read_bytes():
        raise UserError(f"out: {out} holds something else than this federation. Choose another.")
    run = Run.open(out)
    if run.finished:
        raise UserError(f"out: {out}: this federation is over. Choose another directory.")
    return run


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
    scales = problem.federated_scales(_statistics(greetings, file))
    engine.begin(scales)
    write_whole(run.path / CONFIG, file.configuration(scales=scales).to_toml().encode())
    return Run.open(run.path)


def _statistics(greetings: dict[str, Greeting], file: FederationFile) -> list[Any]:
    """Return the scale statistics of all sites, in the order of clients."""
    told = [greetings[name].scales for name in file.names]
    if any(statistics is None for statistics in told):
        raise UserError("a site told no scales, though the schema asks for them.")
    return told


def _restore(run: Run, loop: RoundLoop) -> float:
    """Load the last checkpoint, if there is one; return the seconds spent before it."""
    seconds = 0.0
    if (checkpoint := run.load_checkpoint()) is not None:
        tensors, values = checkpoint
        loop.load(tensors, values)
        seconds, loop.spent = float(values["seconds"]), dict(values["spent"])
    run.cut_history(loop.done)
    return seconds


def _record(run: Run, record: RoundRecord, incidents: list[Incident]) -> None:
    """Write a round with its faults into the history."""
    faults = [_sentence(incident) for incident in incidents if incident.text]
    incidents.clear()
    whole = replace(record, events=[*record.events, *faults])
    run.append_history(history_entry(whole, None))


def _results(run: Run, file: FederationFile, server: Server) -> dict[str, Any]:
    """Return what the organiser knows at the end: who took part and what travelled."""
    history = run.history
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
    }


def _sentence(incident: Incident) -> str:
    who = f"{incident.site}, " if incident.site else ""
    return f"{who}round {incident.round}, {incident.exchange}: {incident.text}"
