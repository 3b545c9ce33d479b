"""Output of the command line: progress, help, completion."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial

import pytest
from rich.console import Console

from comity.cli import terminal


def call(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_package_is_a_command():
    done = call("-m", "comity", "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == call("-m", "comity.cli", "--version").stdout
    assert "Usage: comity [OPTIONS]" in call("-m", "comity", "--help").stdout


def test_help_and_completion_do_not_import_torch():
    for arguments in (["--help"], ["run", "--help"]):
        code = f"import sys, comity.cli\nsys.argv = ['comity', *{arguments}]\n" + (
            "try:\n    comity.cli.main()\nfinally:\n    print('torch' in sys.modules)"
        )
        assert call("-c", code).stdout.endswith("False\n")


def test_commands_and_options_are_completed():
    words = {"_COMITY_COMPLETE": "complete_bash", "COMP_WORDS": "comity re", "COMP_CWORD": "1"}
    done = call("-m", "comity", **words)
    assert done.stdout.split() == ["resume", "report", "reproduce", "rehearse"]
    words |= {"COMP_WORDS": "comity run --fig", "COMP_CWORD": "2"}
    assert call("-m", "comity", **words).stdout.split() == ["--figures"]
    assert "--show-completion" in call("-m", "comity", "--help").stdout


def test_progress_for_a_log_file_has_no_empty_end(monkeypatch, capsys):
    clock = iter(range(0, 1000, 20))
    monkeypatch.setattr(terminal.time, "monotonic", lambda: next(clock))
    with terminal.progress("p, fedavg", "comity resume r") as on_round:
        on_round(1, 10, "")
        on_round(2, 10, "validated 0.5")
    assert capsys.readouterr().err.splitlines() == [
        "p, fedavg: 1/10 rounds",
        "p, fedavg: 2/10 rounds, validated 0.5",
    ]


def test_the_bar_has_no_count_before_the_first_round(monkeypatch, capsys):
    wide = partial(Console, force_terminal=True, width=99)
    monkeypatch.setattr("rich.console.Console", wide)
    with terminal.progress("p", "comity resume r") as on_round:
        pass
    told = capsys.readouterr().err
    assert "preparing" in told
    assert "rounds" not in told
    with terminal.progress("p", "comity resume r") as on_round:
        on_round(3, 12, "validated 0.5")
    assert "3/12 rounds" in capsys.readouterr().err


def test_ctrl_c_is_followed_by_how_to_go_on(capsys):
    with pytest.raises(KeyboardInterrupt), terminal.progress("p", "comity resume r"):
        raise KeyboardInterrupt
    assert capsys.readouterr().err == "interrupted; go on with: comity resume r\n"
