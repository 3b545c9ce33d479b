"""The virtual environments of the contenders that are libraries of others."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

PACKAGES = {"flower": "flwr[simulation]", "pfl": "pfl[pytorch]", "fluke": "fluke-fl"}
"""Installations of contenders; all others run in the environment of the benchmark."""
LONGEST = 900
"""Seconds after which an installation is given up."""


def python_for(name: str, environments: Path) -> tuple[str, str]:
    """Return the interpreter of a contender, and why there is none in place of it.

    Its environment is made if it does not exist, with the exact versions of
    ``constraints-NAME.txt`` (torch, which could bring gigabytes for GPUs, among them).

    Args:
        name: Name of the contender.
        environments: Directory of all environments.
    """
    if name not in PACKAGES:
        return sys.executable, ""
    constraints = Path(__file__).with_name(f"constraints-{name}.txt")
    environment = environments.resolve() / name
    python, stamp = environment / "bin" / "python", environment / ".installed"
    wanted = hashlib.sha256(constraints.read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text() == wanted:
        return str(python), ""
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    install += ["--constraint", str(constraints), PACKAGES[name], "torch", "numpy", "psutil"]
    for command in ([sys.executable, "-m", "venv", "--clear", str(environment)], install):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST)
        except subprocess.TimeoutExpired:
            return "", f"not installed within {LONGEST} s"
        if done.returncode:
            return "", f"not installed: {last_line(done.stderr)}"
    stamp.write_text(wanted)
    return str(python), ""


def last_line(text: str) -> str:
    """Return the last line of a program's complaints."""
    return (text.strip() or "no message").splitlines()[-1].strip()
