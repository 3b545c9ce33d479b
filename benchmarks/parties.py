"""The parties of a deployed federation as processes on this machine, over gRPC.

They are forked from a process that has imported Comity, which saves seconds per start and changes
nothing else.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from comity.cli import main as command_line
from comity.configuration import read_toml
from comity.configuration.federation_file import FederationFile, read_federation, read_site
from comity.core.fleet import Fleet
from comity.federation.parties import site_transport
from comity.report.status import LiveStatus
from comity.runs.join import join
from comity.runs.rehearse import commands, prepare, same_bits, simulate
from comity.runs.serve import serve

BANKS = Path(__file__).parents[1] / "examples" / "banks"
PATIENCE = 120.0
LONGEST = 900.0  # seconds of one federation

# what a party imports when it starts, except gRPC, which must not be forked
IMPORTED = (site_transport, LiveStatus, join, serve)
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["benchmarks.parties"])


class Parties:
    """The parties of a federation, each a process.

    Args:
        file: The federation file in the directory of all parties, as `prepare` returned it.
    """

    def __init__(self, file: FederationFile) -> None:
        self.file, self.home = file, file.path.parent
        self.commands = commands(file)
        self._processes: dict[str, Any] = {}

    def __enter__(self) -> Parties:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._processes.values():
            if process.is_alive():
                process.kill()
            process.join()

    def start(self, *parties: str) -> None:
        """Start parties; without names, all."""
        for party in parties or self.commands:
            arguments = (self.commands[party], self.home, party)
            self._processes[party] = _context.Process(target=_run, args=arguments, daemon=True)
            self._processes[party].start()

    def signal(self, party: str, number: int) -> None:
        """Send a signal to a party that is alive."""
        os.kill(self._processes[party].pid, number)

    def kill(self, party: str) -> bool:
        """Kill a party with ``kill -9``; return whether it was still at work."""
        process = self._processes[party]
        alive = bool(process.is_alive())
        process.kill()
        process.join()
        return alive

    def wait(self, *parties: str, seconds: float = LONGEST) -> dict[str, int]:
        """Return the exit codes of parties, once they have ended; without names, of all.

        If one of all fails, the others are not waited for.
        """
        deadline = time.monotonic() + seconds
        while True:
            codes = {party: self._processes[party].exitcode for party in parties or self.commands}
            left = [party for party, code in codes.items() if code is None]
            if not left or (not parties and any(codes.values())):
                return codes
            if time.monotonic() > deadline:
                raise TimeoutError(f"{left} did not end within {seconds:.0f} s")
            time.sleep(0.05)

    def log(self, party: str) -> str:
        """Return what a party has printed."""
        path = self.home / f"{party}.log"
        return path.read_text(errors="replace") if path.is_file() else ""

    def rounds(self) -> int:
        """Return the number of rounds that the server has finished."""
        path = self.home / "server" / "history.jsonl"
        return len(path.read_text().splitlines()) if path.is_file() else 0

    def usage(self, party: str) -> dict[str, float]:
        """Return CPU seconds and memory (bytes) of a party that has ended by itself."""
        values: dict[str, float] = json.loads((self.home / f"{party}.usage").read_text())
        return values


def call(home: Path, *arguments: object) -> tuple[int, str]:
    """Run one command line in a directory; return its exit code and what it printed.

    Args:
        home: The directory.
        arguments: Command and options.
    """
    log = home / "call.log"
    log.unlink(missing_ok=True)
    process = _context.Process(target=_run, args=([*map(str, arguments)], home, "call"))
    process.start()
    process.join(LONGEST)
    if process.exitcode is None:
        process.kill()
        raise TimeoutError(f"{arguments}: {log.read_text()}")
    return process.exitcode, log.read_text()


def _run(command: list[str], home: Path, party: str) -> None:
    """Run a command line in a directory; write its log and what it used of CPU and memory."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by what is in the background
    os.chdir(home)
    log = os.open(f"{party}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(log, stream)
    sys.argv = ["comity", *command]
    try:
        command_line()
    finally:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        values = {"cpu": usage.ru_utime + usage.ru_stime, "memory": usage.ru_maxrss * 1024}
        Path(f"{party}.usage").write_text(json.dumps(values))


def federation(
    home: Path, federation: Mapping[str, Any], sites: Mapping[str, Mapping[str, Any]]
) -> FederationFile:
    """Return the federation file of parties that are ready to start, over gRPC.

    Args:
        home: Directory for everything; it must not exist.
        federation: Content of the federation file, without ``sites``.
        sites: Content of the site files by name, without ``name`` and ``federation``.
    """
    plan = home.with_name(f"{home.name}-plan")
    plan.mkdir(parents=True)
    server = {"patience": PATIENCE, **federation.get("server", {})}
    values = {**federation, "server": server, "sites": {name: {} for name in sites}}
    (plan / "federation.toml").write_text(tomli_w.dumps(values))
    for name, settings in sites.items():
        text = tomli_w.dumps({"name": name, "federation": "federation.toml", **settings})
        (plan / f"{name}.toml").write_text(text)
    original = read_federation(plan / "federation.toml")
    return prepare(original, {n: read_site(plan / f"{n}.toml") for n in sites}, home, "grpc")


def banks(home: Path, sites: int, rounds: int, **others: Any) -> FederationFile:
    """Return the example's federation with any number of sites, which share its three files.

    Args:
        home: Directory for everything; it must not exist.
        sites: Number of sites.
        rounds: Number of rounds.
        others: Further settings of the federation.
    """
    values = {**read_toml(BANKS / "federation.toml"), "rounds": rounds, **others}
    if values["algorithm"] != "fedpref":
        del values["fedpref"]
    letters = [f"bank-{'abc'[number % 3]}" for number in range(sites)]
    files = {
        f"site-{number}": {
            "data": str(BANKS / f"{bank}.csv"),
            "preference": read_toml(BANKS / f"{bank}.toml")["preference"],
        }
        for number, bank in enumerate(letters)
    }
    return federation(home, values, files)


def simulation(file: FederationFile, **others: Any) -> tuple[Fleet, Fleet, float]:
    """Return kept and last models of the simulation of a federation, and its seconds."""
    sites = {name: read_site(file.path.with_name(f"{name}.toml")) for name in file.names}
    rows = {name: site.data for name, site in sites.items() if site.data} or None
    preferences = {name: site.preference for name, site in sites.items()}
    configuration = file.configuration(preferences, rows, **others)
    began = time.monotonic()
    _, kept, last = simulate(configuration)
    return kept, last, time.monotonic() - began


def equal(file: FederationFile, kept: Fleet, last: Fleet) -> bool:
    """Return whether the models of all sites are those of a simulation, bit for bit."""
    home = file.path.parent
    return all(same_bits(home / name, kept, last, i) for i, name in enumerate(file.names))
