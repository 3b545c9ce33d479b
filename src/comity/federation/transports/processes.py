"""Processes that a transport starts and ends."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_GUARD = Path(__file__).with_name("guard.py")
_GRACE = 10.0
"""Seconds for the guard to end its commands, above its own."""


class Group:
    """Commands that live and die together, and die with this process.

    A guard process leads them in a process group of their own. Its standard output carries nothing
    and is closed when the guard has ended, which tells so without collecting the guard: its process
    id still names this group, and no other, when the group is killed.

    Args:
        commands: Programs with their arguments.
        log: File that gets all output; what it holds is kept.
        environment: Environment of the commands.
    """

    def __init__(
        self, commands: Sequence[Sequence[str]], log: Path, environment: Mapping[str, str]
    ) -> None:
        self._ending = threading.Lock()
        with log.open("ab") as output:
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_GUARD), json.dumps(commands)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env=dict(environment),
                start_new_session=True,
            )

    @property
    def id(self) -> int:
        """Process id of the guard, which is the id of the process group."""
        return self._guard.pid

    def ended(self, wait: float = 0.0) -> bool:
        """Return whether the group has ended.

        Args:
            wait: Seconds to wait for it.
        """
        assert self._guard.stdout is not None
        try:
            return bool(select.select([self._guard.stdout], [], [], wait)[0])
        except ValueError:  # closed
            return True

    def end(self) -> None:
        """End all processes of the group; does nothing the second time."""
        assert self._guard.stdin is not None
        assert self._guard.stdout is not None
        with self._ending:
            if self._guard.returncode is not None:
                return
            self._guard.stdin.close()
            self.ended(_GRACE)
            with suppress(ProcessLookupError):
                os.killpg(self._guard.pid, signal.SIGKILL)
                self._guard.wait()
                deadline = time.monotonic() + _GRACE
                while time.monotonic() < deadline:  # a killed process takes a moment to be gone
                    os.killpg(self._guard.pid, 0)
                    time.sleep(0.05)
            self._guard.wait()
            self._guard.stdout.close()
