"""Flower's programs: where they are, and how they are run."""

from __future__ import annotations

import json
import os
import secrets
import select
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from comity.errors import UserError
from comity.federation.transports.processes import Group

HOST = "127.0.0.1"
PROGRAMS = ("flwr", "flower-superlink", "flower-supernode", "flower-superexec")
_ENVIRONMENT = ".venv-flower"
_COMMAND = 120.0
"""Seconds for one command of ``flwr``."""
_LONGEST_PATH = 100
"""Bytes in the path of a Unix socket, below the limit of all systems."""


class FlowerPrograms:
    """Flower's programs, with a directory for what they write.

    Args:
        directory: Directory of its own; made if it is missing.
        programs: Directory of the programs. By default ``COMITY_FLOWER_BIN``, then what
            ``make flower`` made here or beside the source, then the search path.
    """

    def __init__(self, directory: Path, programs: Path | None = None) -> None:
        self._programs = _find(programs)
        self.directory = directory.absolute()
        self.directory.mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o700)
        self.log = self.directory / "flower.log"
        self._secret = self.directory / "secret"
        if not self._secret.exists():
            self._secret.touch(0o600)
            self._secret.write_bytes(secrets.token_bytes(32))

    def start(self, command: Sequence[str], address: str, execution: Sequence[str]) -> Group:
        """Start a SuperLink or a SuperNode, and the SuperExec that starts its apps.

        Args:
            command: The program's name and its arguments.
            address: Where the program listens for its SuperExec.
            execution: Arguments of the SuperExec about TLS.
        """
        secret = ["--superexec-auth-secret-file", str(self._secret)]
        first = [*command, "--isolation", "process", *secret]
        second = ["flower-superexec", "--runtime-api-address", address, *execution, *secret]
        commands = [[str(self._programs / name), *rest] for name, *rest in (first, second)]
        return Group(commands, self.log, self._environment())

    def run(self, *arguments: str) -> dict[str, Any]:
        """Run a command of ``flwr`` and return what it printed as JSON.

        Args:
            arguments: The command and its arguments.
        """
        try:
            result = subprocess.run(
                [str(self._programs / "flwr"), *arguments, "--format", "json"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_COMMAND,
                env=self._environment(),
            )
        except subprocess.TimeoutExpired as error:
            raise self.fault(f"`flwr {arguments[0]}` took more than {_COMMAND:.0f} s") from error
        with self.log.open("a") as log:
            log.write(f"flwr {' '.join(arguments)}\n{result.stdout}{result.stderr}")
        with suppress(ValueError):
            answer = json.loads(result.stdout)
            if isinstance(answer, dict) and answer.get("success"):
                return answer
        raise self.fault(f"`flwr {arguments[0]}` failed")

    def write_connection(self, address: str, authority: Path | None) -> None:
        """Write how ``flwr`` reaches the SuperLink, under the name "comity".

        Args:
            address: Address of the SuperLink.
            authority: What its certificate is checked against; None: no TLS.
        """
        trust = "insecure = true"
        if authority is not None:
            trust = f"root-certificates = {json.dumps(str(authority.absolute()))}"
        home = self.directory / "home"
        home.mkdir(exist_ok=True)
        (home / "config.toml").write_text(f'[superlink.comity]\naddress = "{address}"\n{trust}\n')

    def wait_for(self, address: str, group: Group, seconds: float) -> None:
        """Wait until a program listens.

        Args:
            address: Its address.
            group: The program's processes.
            seconds: How long to wait at most.
        """
        host, port = address.split(":")
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not group.ended(wait=0.2):
            with suppress(OSError):
                socket.create_connection((host, int(port)), timeout=1.0).close()
                return
        raise self.fault(f"nothing listens at {address}")

    def fault(self, what: str) -> UserError:
        """Return the error for something that Flower did not do.

        Args:
            what: What happened.
        """
        return UserError(f"Flower: {what}. Its last lines are in {self.log}.")

    def _environment(self) -> dict[str, str]:
        """Return an environment in which Flower finds its programs and sends no telemetry."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "FLWR_"))}
        nearby = ",".join(filter(None, (os.environ.get("NO_PROXY"), HOST, "localhost")))
        return kept | {
            "PATH": f"{self._programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "NO_PROXY": nearby,
            "no_proxy": nearby,
            "FLWR_HOME": str(self.directory / "home"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.5",
            "PYTHONUNBUFFERED": "1",
        }


def _find(programs: Path | None) -> Path:
    """Return the directory of Flower's programs."""
    named = programs or os.environ.get("COMITY_FLOWER_BIN")
    places = [Path(named)] if named else []
    if not named:
        places = [Path(_ENVIRONMENT, "bin"), Path(__file__).parents[4] / _ENVIRONMENT / "bin"]
        program = shutil.which(PROGRAMS[0])
        places += [Path(program).parent] if program else []
    for place in places:
        if all((place / name).exists() for name in PROGRAMS):
            return place.absolute()
    raise UserError(
        f"transport: Flower is not in {' or '.join(str(place) for place in places)}. "
        "Make its environment with `make flower`, or set COMITY_FLOWER_BIN to its directory of "
        "programs."
    )


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def listen(path: Path) -> socket.socket:
    """Return a socket that listens at a path; one that a killed process left there is replaced.

    Args:
        path: Path of the socket.
    """
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise UserError(
            f"directory: the path of the socket {path} is longer than {_LONGEST_PATH} bytes. "
            "Use a directory with a shorter path."
        )
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)
        else:
            raise UserError(
                f"directory: another process serves {path}. End it, or use another directory."
            )
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    listener.settimeout(0.5)
    return listener


def reachable(address: str) -> bool:
    """Return whether somebody listens at an address, ``host:port``."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError:
        return False
    return True


def gone(connection: socket.socket) -> bool:
    """Return whether a pump has given up: it sends nothing after its message, only the end."""
    return bool(select.select([connection], [], [], 0.0)[0])
