"""Full disks, directories that vanish, killed workers, leftovers: one clear line, and resumable."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
import tomli_w

from comity import cli, report
from comity.core import storage
from comity.core.locks import held
from comity.federation.engines import embedded
from comity.runs import base, execute
from tests.e2e.conftest import TINY

RUN = ["deep-sea-treasure", *TINY, "--algorithm", "fedavg", "--json"]


@pytest.fixture
def comity(tmp_path, monkeypatch, capsys):
    """The command line in this process, without pictures; returns code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(report, "write_report", lambda *arguments: None)
    monkeypatch.setattr(execute, "_CHECKPOINT_SECONDS", 0.0)

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["comity", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return (end.value.code or 0, *capsys.readouterr())

    return call


@pytest.fixture
def whole(comity):
    """The results of a run to which nothing happened."""
    assert comity("run", *RUN, "--out", "whole", "--workers", 1)[0] == 0
    return Path("whole/results.json").read_bytes()


def one_line(errors):
    """Return the message; lines of progress may stand before it on a slow machine."""
    lines = [line for line in errors.splitlines() if " rounds" not in line]
    assert len(lines) == 1, errors
    return lines[0]


def full_disk(monkeypatch, after):
    """Let the disk be full after some writes."""
    real, calls = os.fsync, []

    def fsync(handle):
        calls.append(handle)
        if len(calls) > after:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    monkeypatch.setattr(storage.os, "fsync", fsync)


@pytest.mark.parametrize("after", [4, 9, 14, 20])
def test_a_full_disk_is_one_line_and_the_run_goes_on_later(comity, whole, after, monkeypatch):
    with monkeypatch.context() as patch:
        full_disk(patch, after)
        code, _, errors = comity("run", *RUN, "--out", "r", "--workers", 1)
    assert code == 4
    assert "No space left on device; go on with: comity resume r" in one_line(errors)
    assert not list(Path("r").rglob("*.part"))
    assert comity("resume", "r", "--workers", 1)[0] == 0
    assert Path("r/results.json").read_bytes() == whole


def test_a_disk_that_is_full_from_the_start_is_one_line_and_leaves_an_empty_directory(
    comity, monkeypatch
):
    with monkeypatch.context() as patch:
        full_disk(patch, 0)
        code, _, errors = comity("run", *RUN, "--out", "r", "--workers", 1)
    assert code == 2
    assert "out: cannot create r: No space left on device." in one_line(errors)
    assert comity("run", *RUN, "--out", "r", "--workers", 1)[0] == 0


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_directory_that_turns_read_only_is_one_line(comity, number, monkeypatch):
    def refuse(path, content):
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(base, "append", refuse)
    code, _, errors = comity("run", *RUN, "--out", "r", "--workers", 1)
    assert code == 4
    assert f"r/history.jsonl: {os.strerror(number)}; go on with" in one_line(errors)


def test_a_directory_that_is_deleted_is_one_line(comity, monkeypatch):
    append = base.append

    def vanish(path, content):
        shutil.rmtree("r", ignore_errors=True)
        append(path, content)

    monkeypatch.setattr(base, "append", vanish)
    code, _, errors = comity("run", *RUN, "--out", "r", "--workers", 1)
    assert code == 4
    assert "r/history.jsonl: No such file or directory" in one_line(errors)


def test_a_killed_worker_is_one_line_and_the_run_goes_on(comity, whole, monkeypatch):
    sent, real = [], embedded._Process.send

    def send(process, name, calls):
        sent.append(name)
        if sent.count("round") == 3 and name == "round":
            os.kill(process._process.pid, signal.SIGKILL)
            process._process.join()
        real(process, name, calls)

    with monkeypatch.context() as patch:
        patch.setattr(embedded._Process, "send", send)
        code, _, errors = comity("run", *RUN, "--out", "r", "--workers", 2)
    assert code == 4
    assert "was ended by signal 9 from outside" in one_line(errors)
    assert errors.endswith("; go on with: comity resume r\n")
    assert comity("resume", "r", "--workers", 1)[0] == 0
    assert Path("r/results.json").read_bytes() == whole


def test_leftovers_of_a_killed_process_are_removed_and_links_are_not_followed(comity, whole):
    shutil.copytree("whole", "r")
    for name in ("results.json", "checksums.json"):
        Path("r", name).unlink()
    Path("precious").write_text("precious")
    for name in ("r/.tmpAb12Cd", "r/results.json.99.part", "r/models/client-0.safetensors.7.part"):
        Path(name).symlink_to(Path("precious").absolute())
    for name in ("r/results.json", "r/timing.json"):
        Path(name).unlink(missing_ok=True)
        Path(name).symlink_to(Path("nowhere").absolute())
    assert comity("resume", "r", "--workers", 1)[0] == 0
    assert Path("r/results.json").read_bytes() == whole
    assert Path("precious").read_text() == "precious"
    assert not Path("nowhere").exists()
    names = {str(path.relative_to("r")) for path in Path("r").rglob("*")}
    assert names == {str(path.relative_to("whole")) for path in Path("whole").rglob("*")}


def test_a_second_process_is_told_who_is_at_work(comity, whole):
    shutil.copytree("whole", "r")
    Path("r/results.json").unlink()
    with held(Path("r")):
        code, _, errors = comity("resume", "r", "--workers", 1)
        assert code == 2
        assert f"r is in use: process {os.getpid()} on " in one_line(errors)
    with held(Path("whole")):  # reading needs no lock
        assert comity("report", "whole", "--json")[0] == 0
        assert comity("export", "whole", "m.safetensors", "--client", 0)[0] == 0
    assert comity("resume", "r", "--workers", 1)[0] == 0
    assert Path("r/results.json").read_bytes() == whole


def test_equal_runs_have_equal_bytes_with_checksums_too(comity, whole):
    assert comity("run", "--config", "whole/config.toml", "--out", "r", "--workers", 2)[0] == 0
    for path in Path("whole").rglob("*"):
        if path.is_file() and path.name != "timing.json":
            assert path.read_bytes() == Path("r", path.relative_to("whole")).read_bytes(), path


@pytest.mark.parametrize("name", ["../../escape", "/tmp/escape", "a\0b", "", "..", "[/b]"])
def test_names_never_leave_the_directory_of_runs(comity, name, tmp_path):
    rows = ["age,sex,paid"] + [f"{20 + i % 20},{'fm'[i % 2]},{i // 2 % 2}" for i in range(60)]
    Path("people.csv").write_text("\n".join(rows))
    problem = {"data": "people.csv", "label": "paid", "sensitive": ["sex"], "name": name}
    settings = {"clients": 2, "rounds": 1, "supervised": {"local_steps": 1}, "algorithm": "fedavg"}
    Path("c.toml").write_text(tomli_w.dumps({**settings, "problem": problem}))
    code, _, errors = comity("run", "--config", "c.toml", "--workers", 1)
    assert code == 0, errors
    (run,) = Path("runs").iterdir()
    assert json.loads((run / "results.json").read_text())["problem"] == name
    assert {path.name for path in tmp_path.iterdir()} == {"c.toml", "people.csv", "runs"}
