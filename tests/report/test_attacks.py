"""Algorithms against attacks: the table, the picture and where there is none."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from comity.cli import main
from comity.report.figures.attacks import attacks
from comity.report.names import label_of, name_of
from comity.report.series.attacks import attacked
from comity.report.tables.attacks import attack_tables
from comity.runs.compare import open_comparison
from comity.runs.differences import gains_of


def comparison(values: dict[str, float]) -> Any:
    """A comparison with these mean values by entry, over two seeds."""
    rows = [
        {
            "algorithm": entry,
            "preferences": "dirichlet",
            "seeds": [1, 2],
            "metrics": {"mean_scalarised": {"mean": value, "std": 0.01}},
        }
        for entry, value in values.items()
    ]
    return {"problem": "p", "reference_point": [0.0], "rows": rows}


VALUES = {
    "fedavg": 0.9,
    "fedavg[attack=sign-flip:3]": 0.1,
    "fedavg[attack=scale:1;factor=9]": 0.2,
    "fedpref[top_r=1]": 0.8,
    "fedpref[top_r=1,attack=sign-flip:3]": 0.7,
}


def test_rows_become_algorithms_against_attacks():
    (table,) = attacked(comparison(VALUES))
    assert table.entries == ["fedavg", "fedpref[top_r=1]"]
    assert table.attacks == ["none", "sign-flip:3", "scale:1,factor=9"]
    expected = [[0.9, 0.1, 0.2], [0.8, 0.7, np.nan]]
    np.testing.assert_array_equal(table.means, expected)
    assert attacked(comparison({"fedavg": 0.9})) == []


def test_the_table_shows_them():
    console = Console(width=120, record=True)
    (table,) = attack_tables(comparison(VALUES))
    console.print(table)
    text = console.export_text()
    for part in ("fedpref[top_r=1]", "sign-flip:3", "0.1 ± 0.01", "0.7 ± 0.01", "–"):
        assert part in text
    assert attack_tables(comparison({"fedavg": 0.9})) == []


def test_the_picture_has_a_cell_per_run():
    figure = attacks(comparison(VALUES))
    assert figure is not None
    texts = {text.get_text() for text in figure.axes[0].texts}
    assert texts == {"0.9", "0.1", "0.2", "0.8", "0.7"}
    assert figure.axes[1].get_ylabel() == "scalarised value,\nhonest clients"
    assert attacks(comparison({"fedavg": 0.9})) is None


def test_attackers_are_marked():
    row: Any = {"client": 3, "name": "3", "attacker": True}
    assert name_of(row) == "3 (attacker)"
    assert label_of(row) == "client 3 (attacker)"
    assert label_of({**row, "name": "BancoSur"}) == "BancoSur (attacker)"


def test_gains_are_over_others_under_the_same_attack(monkeypatch):
    monkeypatch.setattr("comity.runs.differences.difference", lambda runs, others: {"mean": 1.0})
    settings = {
        "fedavg": {"algorithm": "fedavg"},
        "a": {"algorithm": "fedavg", "attack": "size:1"},
        "b": {"algorithm": "fedpref", "attack": "size:1"},
    }
    gains = gains_of("b", settings, {entry: [] for entry in settings})
    assert list(gains["paired"]) == ["a"]


def test_a_comparison_under_attack_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = (
        "comity compare german-credit-gender-dp --algorithms fedavg --with clip --seeds 1 "
        "--attacks none,sign-flip:1,scale:1,factor=9 --clients 4 --rounds 2 --workers 1 "
        "--set supervised.local_steps=2 --out out"
    )
    monkeypatch.setattr(sys, "argv", words.split())
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    assert "Under attack" in capsys.readouterr().out
    assert (tmp_path / "out" / "attacks.png").is_file()
    runs = open_comparison(tmp_path / "out").runs
    assert [entry for entry, _ in runs] == [
        f"fedavg{wrapper}{attack}"
        for wrapper in ("", "+clip")
        for attack in ("", "[attack=sign-flip:1]", "[attack=scale:1;factor=9]")
    ]
    (attacked_run,) = runs["fedavg+clip[attack=scale:1;factor=9]", "interior"]
    assert attacked_run.configuration.attack == "scale:1,factor=9"
    assert attacked_run.configuration.wrapper == "clip"
