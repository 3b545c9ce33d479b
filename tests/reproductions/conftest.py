"""The command line in this process."""

from __future__ import annotations

import sys

import pytest

from comity.cli import main


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """The command line, without pictures of runs and comparisons; returns what it printed."""
    monkeypatch.setattr("comity.report.write_report", lambda run, kind: None)
    monkeypatch.setattr("comity.report.write_comparison_report", lambda *about: None)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)

    def called(*arguments: object, code: str = "0") -> str:
        monkeypatch.setattr(sys, "argv", ["comity", *map(str, arguments)])
        with pytest.raises(SystemExit, match=code):
            main()
        printed = capsys.readouterr()
        return printed.out if code == "0" else printed.err

    called.home = tmp_path  # type: ignore[attr-defined]
    return called
