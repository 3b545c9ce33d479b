"""A session by its documents: its fields in words, the state that files prove, its simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from comity.configuration import Configuration
from comity.configuration.charter import Offer, file_values
from comity.configuration.federation_file import FederationFile, SiteFile
from comity.configuration.negotiation import Value
from comity.configuration.travel import message_sizes
from comity.errors import UserError
from comity.federation.agreement import Agreement
from comity.federation.consent import Answer, read_consent
from comity.federation.initial_model import check_initial_model
from comity.federation.parties import server_certificate
from comity.runs.directory import Run
from comity.runs.execute import begin
from comity.runs.places import free_path
from comity.runs.rehearse import write_stand_in_rows
from comity.runs.serve import FEDERATION, is_served


def describe(file: FederationFile, open_to_all: bool = False) -> dict[str, Any]:
    """Return a session's fields in words: those of clients and those of the server.

    Args:
        file: The federation file of the session.
        open_to_all: Whether its members are yet to come.
    """
    configuration = file.configuration()
    agreement, values = Agreement(configuration), file_values(file, configuration)
    return {
        "session": _about(file, configuration, open_to_all),
        "client": _client(file, configuration, agreement, values),
        "server": _server(file, configuration, values),
    }


def _about(file: FederationFile, configuration: Configuration, open_to_all: bool) -> dict[str, str]:
    objectives = configuration.get_problem().objectives
    members = "anybody who answers" if open_to_all else ", ".join(file.names)
    return {
        **({"name": file.session.name} if file.session.name else {}),
        "problem": configuration.problem_name,
        "objectives": ", ".join(f"{one.name} ({one.meaning})" for one in objectives),
        "members": members,
        "ends": f"after {configuration.rounds} rounds",
    }


def _client(
    file: FederationFile,
    configuration: Configuration,
    agreement: Agreement,
    values: Mapping[str, Value],
) -> dict[str, str]:
    """Return the fields of the thesis' table 6.2."""
    steps = values["steps"]
    work = steps if isinstance(steps, str) else f"{steps} steps"
    pause = values["waiting"] == "pause"
    declined = " A member declines it if it does worse on its own validation than its own model."
    personal = f" {len(agreement.personal)} tensors stay personal." if agreement.personal else ""
    silent, (size, _) = file.session.server_silent, message_sizes(configuration)
    statistics = ", ".join(agreement.statistics) or "no statistics"
    return {
        "topology": _topology(configuration),
        "server identity": _identity(file),
        "submission trigger": f"the server's question; then {work} of local training",
        "while waiting": "pause until the next model comes" if pause else "train on",
        "integration": "the delivered model replaces the tensors that travel."
        + (declined if values["guard"] else "")
        + personal,
        "submission format": f"{len(agreement.tensors)} tensors, at most "
        f"{size:,} bytes with all headers, encoding {values['encoding']}; {statistics}",
        "initial model": _initial(file, configuration),
        "failures": (f"server silent for {silent:g} s" if silent else "server silent, however long")
        + (": end, keep the state, go on later" if silent else ": wait")
        + "; a model with numbers that are not finite: rolled back",
        "relays": f"{values['relays']}",
    }


def _server(
    file: FederationFile, configuration: Configuration, values: Mapping[str, Value]
) -> dict[str, str]:
    """Return the fields of the thesis' table 6.3."""
    settings = ", ".join(f"{k} = {v}" for k, v in configuration.algorithm_settings.items())
    links = configuration.links
    patience, quorum = f"{values['patience']:g}", file.server.quorum
    return {
        "aggregation": configuration.label + (f" ({settings})" if settings else ""),
        "collection": f"the server asks all members each round and waits {patience} s at most"
        if links is None
        else f"{links.collect}, by the contact plan",
        "initial model": _initial(file, configuration),
        "failures": f"member silent for {patience} s: left out of the exchange; fewer than "
        f"{quorum} answers: asked again; a message that fails a check: as if it never came",
    }


def _topology(configuration: Configuration) -> str:
    name = getattr(configuration, "topology", "star")
    return "star: one server" if name == "star" else str(name)


def _identity(file: FederationFile) -> str:
    where = f"{file.server.address} ({file.server.transport})"
    if not file.server.certificate:
        return f"{where}, no certificate yet"
    return f"{where}, {server_certificate(file).fingerprint}"


def _initial(file: FederationFile, configuration: Configuration) -> str:
    parameters = sum(p.numel() for p in configuration.get_module().parameters())
    session = file.session
    text = f"{parameters:,} parameters, drawn from seed {configuration.seed}"
    if session.structure:
        text += f"; structure {session.structure[:12]}, weights {session.weights[:12]}"
    given = "" if session.model_format == "none" else f"; handed over as {session.model_format}"
    return text + given


# -- the state that files prove ------------------------------------------------------------


def offer_state(offer: Offer, answers: Sequence[Answer]) -> tuple[str, dict[str, str]]:
    """Return the state of a session that is still offered, and of each member.

    Args:
        offer: The offer.
        answers: Answers to it.
    """
    members = dict.fromkeys(offer.invited, "invited")
    for one in answers:
        if one.offer != offer.draft.identity:
            raise UserError(f"{one.path} answers another offer than {offer.draft.path}.")
        members[one.name] = "refused" if one.refuses else "accepted"
    complete = answers and "invited" not in members.values()
    return "answered" if complete else "offered", members


def charter_state(
    file: FederationFile, consents: Sequence[Path], run: Path | None
) -> tuple[str, dict[str, str]]:
    """Return the state of a session that is agreed, and of each member.

    Args:
        file: The charter.
        consents: Files with consents, which are verified.
        run: The organiser's run directory, if it is at hand.
    """
    members = dict.fromkeys(file.names, "accepted")
    for path in consents:
        members[read_consent(path, file)] = "consented"
    if run is not None:
        if not is_served(run) or (run / FEDERATION).read_bytes() != file.path.read_bytes():
            raise UserError(f"{run} is not the organiser's directory of {file.path}.")
        return "closed" if Run.open(run).finished else "running", members
    consented = sum(state == "consented" for state in members.values())
    return "consented" if consented >= max(1, file.server.quorum) else "agreed", members


# -- the session, simulated ----------------------------------------------------------------


def start_session(
    file: FederationFile, sites: Sequence[SiteFile], preferences: str | None, out: Path | None
) -> tuple[Run, list[str]]:
    """Create the run that simulates a session, and return it with the members of stand-in rows.

    Args:
        file: The charter.
        sites: Site files at hand, whose rows and preferences are used.
        preferences: How the other members' preferences are drawn; None: as runs do by default.
        out: The run's directory; None: a new one under ``runs/``.
    """
    check_initial_model(file)
    known = {site.name: site for site in sites}
    for name, site in known.items():
        if site.federation.identity != file.identity:
            raise UserError(f"{site.path}: '{name}' is a site of another federation file.")
    label = Path(file.path).stem
    out = free_path(f"{label}-seed{file.values.get('seed', 1)}") if out is None else out
    missing = [name for name in file.names if name not in known]
    rows = {name: site.data for name, site in known.items() if site.data}
    if file.has_rows:
        if out.exists():
            raise UserError(f"out: {out} exists already. Choose another directory.")
        place = out.with_name(f"{out.name}-stand-ins")
        rows |= {name: write_stand_in_rows(file, name, place) for name in missing}
    drawn = file.configuration(preferences or "", rows or None)
    vectors = dict(zip(file.names, drawn.get_preferences().tolist(), strict=True))
    if known:
        vectors |= {name: list(site.preference) for name, site in known.items()}
        drawn = file.configuration(vectors, rows or None)
    return begin(drawn, out), missing if file.has_rows else []
