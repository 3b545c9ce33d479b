"""A rehearsal: a federation with real processes on this machine, beside its simulation."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import numpy as np
import tomli_w

from comity.configuration import Configuration, read_toml
from comity.configuration.federation_file import (
    FederationFile,
    SiteFile,
    Transport,
    read_federation,
    read_site,
)
from comity.core.fleet import Fleet
from comity.core.importing import is_reference
from comity.core.storage import load_values, strip_prefix
from comity.core.threads import limited
from comity.errors import UserError, unknown
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.keys import make_keys
from comity.federation.loop import SimulatedLoop
from comity.federation.server import Server
from comity.federation.site import COMMITTED
from comity.federation.transports.flower_programs import free_port
from comity.problems.stand_in import write_stand_in
from comity.runs.answers import constant_models
from comity.runs.directory import Run
from comity.runs.groups import groups_of
from comity.runs.places import free_path
from comity.runs.results import history_entry, summarise
from comity.runs.serve import absences

_LONGEST = 3600.0  # seconds
_GRACE = 30.0  # seconds that sites have to end after the server
_STAND_INS = 300  # random rows of a site without a file


def rehearse(
    path: Path,
    out: Path | None = None,
    transport: str | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Run a federation with one process per party, then its simulation; return both compared.

    Site files are looked for beside the federation file, as ``NAME.toml``; a site without one has
    random rows that fit the schema, and equal weights. Keys are made for the rehearsal alone.

    Args:
        path: The federation file.
        out: Directory for everything; None: a new one under ``runs/``.
        transport: ``grpc`` or ``flower``; None: the federation file's.
        say: Called with a sentence per step.
    """
    began = time.monotonic()
    original = read_federation(path)
    if transport not in (None, *get_args(Transport)):
        raise unknown("transport", transport, get_args(Transport))
    if "privacy" in original.values:
        raise UserError(
            f"{path}: [privacy]: a rehearsal compares bits with the simulation, and every site "
            "draws noise of its own. Leave [privacy] out of the file that is rehearsed."
        )
    out = (free_path(f"rehearsal-{path.stem}") if out is None else out).resolve()
    if out.exists():
        raise UserError(f"out: {out} exists already. Choose another directory.")
    sites = {name: site_beside(original, name, out / "stand-ins") for name in original.names}
    for name, site in sites.items():
        if site.path.parent == out / "stand-ins":
            say(f"{name}: there is no {name}.toml beside {path}; random rows stand in for its own")
    file = prepare(original, sites, out, transport)
    say(f"{len(sites)} sites and a server over {file.server.transport}, in {out}")
    with _processes(file, out) as processes:
        _await(processes, out)
    run = Run.open(out / "server")
    say("comparing with the simulation")
    configuration = file.configuration(
        {name: site.preference for name, site in sites.items()},
        {name: site.data for name, site in sites.items() if site.data} or None,
        absences=absences(run),
    )
    results, kept, last = simulate(configuration)
    equal = {
        name: same_bits(out / name, kept, last, client) for client, name in enumerate(file.names)
    }
    return {
        **results,
        "sites": list(file.names),
        "transport": file.server.transport,
        "absences": absences(run),
        "equal": equal,
        "equal_to_simulation": all(equal.values()),
        "seconds": round(time.monotonic() - began, 1),
        "run": str(out),
    }


def simulate(configuration: Configuration) -> tuple[dict[str, Any], Fleet, Fleet]:
    """Return results, kept models and last models of a simulated federation.

    Args:
        configuration: The configuration with the rows and preferences of all.
    """
    with limited(configuration.threads), EmbeddedEngine(configuration) as engine:
        loop = SimulatedLoop(engine, Server(configuration))
        history = [history_entry(r, engine.metrics(r.clients)) for (r,) in loop.rounds()]
        history += [history_entry(r, engine.metrics(r.clients)) for r in loop.finish()]
        tested = {kept: engine.test(kept).round(6) for kept in (True, False)}
        kept, last = engine.models(True).clone(), engine.models(False).clone()
        groups = groups_of(configuration, engine, range(configuration.clients))
    best = configuration.keep == "best"
    constant = constant_models(configuration, kept if best else last)
    results = summarise(
        configuration, tested[best], tested[False], history, constant=constant, groups=groups
    )
    return {**results, "rounds": configuration.rounds}, kept, last


def site_beside(federation: FederationFile, name: str, stand_ins: Path) -> SiteFile:
    """Return the file of a site, which is beside the federation file as ``NAME.toml``.

    Args:
        federation: The federation file.
        name: Name of the site.
        stand_ins: Directory for a stand-in, if there is no such file.
    """
    path = federation.path.parent / f"{name}.toml"
    if not path.is_file():
        path = stand_ins / f"{name}.toml"
        stand_ins.mkdir(parents=True, exist_ok=True)
        objectives = len(federation.configuration().get_problem().objectives)
        values: dict[str, Any] = {"name": name, "federation": str(federation.path.resolve())}
        values["preference"] = [1 / objectives] * objectives
        if federation.has_rows:
            values["data"] = write_stand_in_rows(federation, name, stand_ins)
        if is_reference(algorithm := str(federation.values.get("algorithm", ""))):
            values["policy"] = {"algorithms": [algorithm]}
        path.write_text(tomli_w.dumps(values))
    return read_site(path)


def write_stand_in_rows(federation: FederationFile, name: str, directory: Path) -> str:
    """Write random rows for a site and return the file's path, which is absolute.

    Args:
        federation: The federation file, with a schema.
        name: Name of the site.
        directory: Where the file goes.
    """
    directory.mkdir(parents=True, exist_ok=True)
    problem = federation.values["problem"]
    return str(write_stand_in(problem, directory, name, _STAND_INS).resolve())


def prepare(
    original: FederationFile, sites: Mapping[str, SiteFile], out: Path, transport: str | None
) -> FederationFile:
    """Write keys, the federation file with the certificates, and the site files; return the file.

    Args:
        original: The federation file.
        sites: The site files by name.
        out: Directory for everything.
        transport: ``grpc`` or ``flower``; None: the federation file's.
    """
    out.mkdir(parents=True, exist_ok=True)
    values = read_toml(original.path)
    server = dict(values.get("server", {}))
    server["certificate"] = make_keys("server", out).certificate.pem.decode()
    server["transport"] = transport or original.server.transport
    files = server["transport"] == "files"
    server["address"] = "exchange" if files else f"localhost:{free_port()}"
    values["server"] = server
    values["sites"] = {
        name: {"certificate": make_keys(name, out).certificate.pem.decode()} for name in sites
    }
    path = out / "federation.toml"
    path.write_text(tomli_w.dumps(values))
    for name, site in sites.items():
        own = {**read_toml(site.path), "federation": path.name, "key": f"{name}.key"}
        own["directory"] = name
        own.pop("authority", None)  # no proxy is between the parties here
        if site.data:
            own["data"] = site.data
        (out / f"{name}.toml").write_text(tomli_w.dumps(own))
    return read_federation(path)


def commands(file: FederationFile) -> dict[str, list[str]]:
    """Return the command of each party of a rehearsal, in the rehearsal's directory.

    Args:
        file: What `prepare` returned.
    """
    return {
        "server": ["serve", "federation.toml", "--key", "server.key", "--out", "server"],
        **{name: ["join", f"{name}.toml", "--agree"] for name in file.names},
    }


@contextmanager
def _processes(file: FederationFile, out: Path) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Start one process per party; end those that are left."""
    processes: dict[str, subprocess.Popen[bytes]] = {}
    # modules of the working directory are found from the rehearsal's, too
    places = [os.environ.get("PYTHONPATH"), os.getcwd()]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}
    try:
        for party, command in commands(file).items():
            with (out / f"{party}.log").open("wb") as log:
                processes[party] = subprocess.Popen(
                    [sys.executable, "-m", "comity.cli", *command],
                    cwd=out,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
        yield processes
    finally:
        for process in processes.values():
            if process.poll() is None:
                process.terminate()
        for process in processes.values():
            try:
                process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _await(processes: Mapping[str, subprocess.Popen[bytes]], out: Path) -> None:
    """Wait for the end of all parties; the failure of one ends the rehearsal."""
    deadline = time.monotonic() + _LONGEST
    while True:
        for party, process in processes.items():
            if process.poll():
                raise UserError(f"{party} failed: {_last_line(out / f'{party}.log')}")
        if all(process.poll() == 0 for process in processes.values()):
            return
        if processes["server"].poll() == 0:
            deadline = min(deadline, time.monotonic() + _GRACE)
        if time.monotonic() > deadline:
            left = [party for party, process in processes.items() if process.poll() is None]
            raise UserError(f"the rehearsal did not end: {', '.join(left)} still at work.")
        time.sleep(0.1)


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return f"{lines[-1] if lines else 'no output'} (see {log})"


def same_bits(site: Path, kept: Fleet, last: Fleet, client: int) -> bool:
    """Return whether a site's kept and last models are those of the simulation, bit for bit.

    Args:
        site: The site's directory.
        kept: Kept models of the simulation, one row per client.
        last: Its last models.
        client: Number of the site's client.
    """
    arrays, _ = load_values(site / COMMITTED)
    for prefix, fleet in {"kept/": kept, "models/": last}.items():
        own = strip_prefix(arrays, prefix)
        for name, tensor in fleet.tensors.items():
            if not np.array_equal(own[name][0], tensor[client].numpy(force=True), equal_nan=True):
                return False
    return True
