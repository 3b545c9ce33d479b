"""Keys and certificates for tests."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple


class Certificate(NamedTuple):
    """A self-signed certificate and its key."""

    file: Path
    key: Path


def certificate(directory: Path, name: str) -> Certificate:
    """Make a certificate for this machine."""
    made = Certificate(directory / f"{name}.crt", directory / f"{name}.key")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", "2", "-subj", f"/CN={name}"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    command += ["-keyout", str(made.key), "-out", str(made.file)]
    subprocess.run(command, check=True, capture_output=True)
    return made


def node_key(path: Path) -> Path:
    """Make a pair of keys as SuperNodes have them; return the path of the private one."""
    command = ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f", str(path)]
    subprocess.run(command, check=True)
    return path
