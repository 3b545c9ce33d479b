"""The command: what it refuses, serves and saves."""

from __future__ import annotations

import importlib.util
import json
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from comity.cli import main


@pytest.fixture
def comity(monkeypatch, capsys):
    """Call the command line in this process: exit code, output, errors."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["comity", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        printed = capsys.readouterr()
        return end.value.code, printed.out, printed.err

    return call


def test_what_is_no_run_is_one_line(comity, tmp_path):
    code, _, error = comity("explore", tmp_path)
    assert code == 2
    assert error.count("\n") == 1
    assert "no run, comparison or search" in error
    assert comity("explore", tmp_path / "nowhere")[0] == 2


def test_a_damaged_run_is_one_line(comity, credit, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(credit.path, path)
    (path / "history.jsonl").write_text("{}\n")
    code, _, error = comity("explore", path, "--no-browser")
    assert code == 2
    assert error.count("\n") == 1
    assert "history.jsonl is damaged" in error


def test_a_port_in_use_is_one_line(comity, credit):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, _, error = comity("explore", credit.path, "--no-browser", "--port", port)
    assert (code, error.count("\n")) == (2, 1)
    assert f"port = {port}: cannot be used" in error


def test_a_missing_extra_names_what_to_install(comity, credit, monkeypatch, tmp_path):
    known = importlib.util.find_spec
    monkeypatch.setattr(
        "comity.cli.explore.find_spec",
        lambda name: None if name == "uvicorn" else known(name),
    )
    code, _, error = comity("explore", credit.path)
    assert code == 2
    assert "pip install 'comity[explore]'" in error
    code, output, _ = comity("explore", credit.path, "--save", tmp_path / "page.html")
    assert code == 0
    assert output == f"Page: {tmp_path / 'page.html'}\n"
    assert (tmp_path / "page.html").stat().st_size < 5_000_000


def test_the_command_serves_until_it_is_interrupted(credit):
    process = subprocess.Popen(
        [sys.executable, "-m", "comity", "explore", str(credit.path), "--no-browser"],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        address = process.stdout.readline().split()[1]
        assert address.startswith("http://127.0.0.1:")
        assert "Ctrl-C" in process.stdout.readline()
        with urllib.request.urlopen(f"{address}index", timeout=60) as answer:
            assert json.load(answer)["start"] == "credit"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_the_commands_that_the_page_shows_work(comity, explorer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for id in ("credit", "spanning"):
        commands = explorer.document(id)["commands"]
        again = commands["start"].replace("NEW", id)
        for command in (again, commands["export"]):
            code, _, error = comity(*shlex.split(command)[1:])
            assert code == 0, error
        results = (tmp_path / id / "results.json").read_bytes()
        assert results == (explorer.shelf.find(id).path / "results.json").read_bytes()
        (tmp_path / "model.safetensors").unlink()
        (tmp_path / "model.card.md").unlink()
