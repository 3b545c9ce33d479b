"""Output of the command line: progress, help, completion."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from functools import partial

import pytest
from rich.console import Console
from rich.table import Table

from comity import cli
from comity.cli import terminal
from comity.errors import StoppedError, UserError
from tests.events import round_event


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
        on_round(round_event(done=1, total=10))
        on_round(round_event(done=2, total=10, metrics={"validated": 0.5}))
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
        on_round(round_event(done=3, total=12, metrics={"validated": 0.5}))
    assert "3/12 rounds" in capsys.readouterr().err


def test_ctrl_c_is_followed_by_how_to_go_on(capsys):
    with pytest.raises(KeyboardInterrupt), terminal.progress("p", "comity resume r"):
        raise KeyboardInterrupt
    assert capsys.readouterr().err == "interrupted; go on with: comity resume r\n"


def test_sighup_ends_with_how_to_go_on_unless_it_is_ignored(capsys):
    before = signal.getsignal(signal.SIGHUP)
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup
        with terminal.progress("p", "comity resume r"):
            signal.raise_signal(signal.SIGHUP)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        with pytest.raises(SystemExit) as end, terminal.progress("p", "comity resume r"):
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert end.value.code == 129
    assert capsys.readouterr().err == "interrupted; go on with: comity resume r\n"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (StoppedError("worker process 7 was ended"), "worker process 7 was ended"),
        (
            OSError(errno.ENOSPC, "No space left on device", "r/history.jsonl"),
            "r/history.jsonl: No space left on device",
        ),
        (OSError(errno.EROFS, "Read-only file system"), "Read-only file system"),
        (OSError("odd"), "odd"),
    ],
)
def test_what_the_machine_stops_is_one_line_with_how_to_go_on(error, words, monkeypatch, capsys):
    def stop():
        with terminal.progress("p[/b]", "comity resume r"):
            raise error

    monkeypatch.setattr(cli, "app", lambda **options: stop())
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 4
    assert capsys.readouterr().err == f"comity: stopped: {words}; go on with: comity resume r\n"


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("Unable to allocate 8 EiB"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 8 EiB"),
    ],
)
def test_memory_that_is_not_there_is_one_line(error, monkeypatch, capsys):
    def ask(**options):
        raise error

    monkeypatch.setattr(cli, "app", ask)
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 4
    assert f"not enough memory ({error})" in capsys.readouterr().err


def test_defects_are_not_hidden(monkeypatch):
    def fail(**options):
        raise RuntimeError("a defect")

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(RuntimeError, match="a defect"):
        cli.main()


def test_brackets_in_data_are_text(capsys):
    table = Table(title="[/b]")
    table.add_column("a[/b]")
    table.add_row("[/b] [bold]x")
    terminal.print_tables(table, footer="Report: o[/b]/report.html", sentences=["[/b]"])
    output = capsys.readouterr().out
    assert output.count("[/b]") == 5
    assert "[bold]x" in output


def test_notes_break_between_words_and_paths_do_not_break(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "20")
    terminal.print_tables(notes=["Data: a note on rows."], footer=f"Report: {'o' * 20}")
    assert capsys.readouterr().out == f"Data: a note on \nrows.\nReport: {'o' * 20}\n"


def test_an_error_is_one_line_without_control_codes(monkeypatch, capsys):
    def refuse(**options):
        raise UserError("name 'a\nb\x1b[2J' is odd.")

    monkeypatch.setattr(cli, "app", refuse)
    with pytest.raises(SystemExit):
        cli.main()
    assert capsys.readouterr().err == "comity: name 'a\\nb\\x1b[2J' is odd.\n"
