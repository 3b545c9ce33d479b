"""Locks: a second process is told who holds a directory, and a killed one leaves it free."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys

import pytest

from comity.core import locks
from comity.core.locks import LOCK, held
from comity.errors import UserError

HOLD = """
import sys, time
from pathlib import Path
from comity.core.locks import held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_holder_is_told_who_the_first_is(tmp_path):
    with held(tmp_path), pytest.raises(UserError) as caught, held(tmp_path):
        pass
    text = str(caught.value)
    assert f"{tmp_path} is in use: process {os.getpid()} on " in text
    assert "has been at work in it since 20" in text
    assert "UTC. Wait until it is done, or end it first." in text


def test_nothing_is_left_and_the_next_one_may(tmp_path):
    for _ in range(2):
        with held(tmp_path):
            assert (tmp_path / LOCK).is_file()
        assert list(tmp_path.iterdir()) == []


def test_a_refused_process_leaves_the_holders_file(tmp_path):
    with held(tmp_path):
        with pytest.raises(UserError), held(tmp_path):
            pass
        with pytest.raises(UserError, match=f"process {os.getpid()}"), held(tmp_path):
            pass


def test_a_killed_process_leaves_no_lock(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(UserError, match=f"process {holder.pid} on "), held(tmp_path):
        pass
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    assert (tmp_path / LOCK).is_file(), "the file is left, the lock is not"
    with held(tmp_path), pytest.raises(UserError, match=f"process {os.getpid()}"), held(tmp_path):
        pass


def test_a_lock_file_that_its_holder_removed_in_between_is_not_taken(tmp_path, monkeypatch):
    """Else two processes would hold the lock: one of a file that is gone, one of a new file."""
    opened, real = [], os.open

    def remove_first(path, *arguments):
        handle = real(path, *arguments)
        if not opened:
            os.unlink(path)
        opened.append(handle)
        return handle

    monkeypatch.setattr(locks.os, "open", remove_first)
    with held(tmp_path):
        assert len(opened) == 2
        assert os.path.samestat(os.fstat(opened[1]), (tmp_path / LOCK).stat())


def test_where_there_are_no_locks_work_goes_on_with_a_warning(tmp_path, monkeypatch, caplog):
    def unsupported(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(locks.fcntl, "flock", unsupported)
    with held(tmp_path):
        assert "cannot be locked (No locks available)" in caplog.text


def test_a_link_in_the_place_of_the_lock_is_refused(tmp_path):
    (tmp_path / "target").write_text("precious")
    (tmp_path / LOCK).symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match=LOCK), held(tmp_path):
        pass
    assert (tmp_path / "target").read_text() == "precious"
