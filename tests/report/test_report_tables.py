"""Tables for the terminal have the right numbers, and mark the right ones."""

from __future__ import annotations

from typing import Any

import pytest
from printing import printed, rows_of

from comity.cli.terminal import print_tables
from comity.report.measures import mean_and_std, number
from comity.report.tables import (
    clients_table,
    comparison_tables,
    reproduction_table,
    run_table,
)
from comity.runs.directory import Run

RESULTS: dict[str, Any] = {
    "problem": "deep-sea-treasure",
    "algorithm": "fedpref",
    "seed": 3,
    "reference_point": [-1.0, -101.0],
    "metrics": {"hypervolume": 2282.9, "mean_regret": 0.25, "mean_scalarised": 3.5},
    "metrics_last": {"hypervolume": 2176.0, "mean_regret": 21.8, "mean_scalarised": -18.0},
    "trivial": {"hypervolume": 1.0, "mean_regret": 67.0, "mean_scalarised": -63.0},
    "optimum": {"hypervolume": 2303.0, "mean_scalarised": 3.75},
    "per_client": [
        {
            "client": 0,
            "preference": [0.25, 0.75],
            "objectives": {"treasure": 8.2, "time": -3.0},
            "scalarised": -0.2,
            "optimum": 0.3,
        },
        {
            "client": 1,
            "preference": [1.0, 0.0],
            "objectives": {"treasure": 23.7, "time": -19.0},
            "scalarised": 23.7000004,
            "optimum": 23.7,
        },
    ],
}


def test_a_runs_measures_stand_beside_the_baselines() -> None:
    table = run_table(RESULTS)
    assert [column.header for column in table.columns] == [
        "measure",
        "kept",
        "last",
        "trivial",
        "optimum",
    ]
    assert rows_of(table) == [
        ["mean scalarised ↑", "3.5", "−18", "−63", "3.75"],
        ["mean regret ↓", "0.25", "21.8", "67", "–"],
        ["hypervolume ↑", "2,283", "2,176", "1", "2,303"],
    ]
    assert "(−1, −101)" in printed(table)


def test_last_models_that_equal_the_kept_ones_are_shown_as_such() -> None:
    results = {key: value for key, value in RESULTS.items() if key != "metrics_last"}
    assert rows_of(run_table(results))[1][:3] == ["mean regret ↓", "0.25", "0.25"]


def test_each_client_has_a_row_and_noise_is_no_regret() -> None:
    assert rows_of(clients_table(RESULTS)) == [
        ["0", "0.25  0.75", "8.2", "−3", "−0.2", "0.5"],
        ["1", "1.00  0.00", "23.7", "−19", "23.7", "0"],
    ]


def test_real_results_fit_the_tables(real: Run) -> None:
    assert len(rows_of(clients_table(real.results))) == 4
    assert len(rows_of(run_table(real.results))) == len(real.results["metrics"])


def row(algorithm: str, preferences: str, **means: float) -> dict[str, Any]:
    metrics = {name: {"mean": mean, "std": 0.5} for name, mean in means.items()}
    return {
        "algorithm": algorithm,
        "preferences": preferences,
        "seeds": [1, 2, 3],
        "metrics": metrics,
    }


def compared(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"problem": "p", "reference_point": [-1.0, -101.0], "rows": list(rows)}


def test_the_best_of_each_distribution_is_marked() -> None:
    comparison = compared(
        row("a", "x", mean_regret=2.0, hypervolume=10.0),
        row("a", "y", mean_regret=5.0, hypervolume=10.0),
        row("b", "x", mean_regret=1.0, hypervolume=9.0),
        row("b", "y", mean_regret=6.0, hypervolume=11.0),
    )
    x, y = comparison_tables(comparison)
    assert rows_of(x) == [["a", "2 ± 0.5", "10 ± 0.5 ★"], ["b", "1 ± 0.5 ★", "9 ± 0.5"]]
    assert rows_of(y) == [["a", "5 ± 0.5 ★", "10 ± 0.5"], ["b", "6 ± 0.5", "11 ± 0.5 ★"]]
    text = " ".join(printed(y).split())
    assert "y preferences" in text
    assert "(−1, −101)" in text
    assert "3 seeds" in text


def test_a_single_point_is_not_praised_for_having_no_gaps() -> None:
    comparison = compared(
        row("one-point", "x", sparsity=0.0, cardinality=1.0),
        row("many", "x", sparsity=3.0, cardinality=6.0),
    )
    (table,) = comparison_tables(comparison)
    cells = {line[0]: line[1] for line in rows_of(table)}
    assert cells == {"one-point": "0 ± 0.5", "many": "3 ± 0.5 ★"}


def test_missing_measures_leave_a_dash_and_unknown_ones_no_column() -> None:
    comparison = compared(
        row("a", "x", hypervolume=1.0, expected_utility=3.0), row("b", "x", igd=2.0)
    )
    (table,) = comparison_tables(comparison)
    assert [str(column.header) for column in table.columns][1:] == ["hyper- volume ↑", "IGD ↓"]
    assert rows_of(table)[1] == ["b", "–", "2 ± 0.5 ★"]


def test_all_columns_fit_on_a_narrow_terminal() -> None:
    measures = {
        "mean_regret": 0.2312,
        "mean_scalarised": -17.625,
        "hypervolume": 2283.4,
        "igd": 0.9459,
        "sparsity": 139.38,
        "cardinality": 6.6,
    }
    (table,) = comparison_tables(compared(row("no-communication", "x", **measures)))
    text = printed(table, width=80)
    assert "…" not in text
    for word in ("no-communication", "0.2312", "2,283", "139.4", "6.6", "nality"):
        assert word in text


def test_two_kinds_of_fairness_fit_on_a_narrow_terminal() -> None:
    names = ("hypervolume", "own_hypervolume", "accuracy", "fairness-gender", "fairness-race")
    measures = {**dict.fromkeys(names, 0.7607), "strict_hypervolume": 0.02774, "dropped": 0.25}
    line = row("no-communication", "x", **measures)
    comparison = compared({**line, "pooled": {"hypervolume": 0.7607}})
    (table,) = comparison_tables(comparison)
    caption = " ".join(str(table.caption).split())
    shown = printed(table, width=80)
    assert max(map(len, shown.splitlines())) <= 80
    assert " ".join(shown.split()).endswith(caption)  # nothing is cut at the edge
    assert "gender" in shown


def test_settings_in_a_label_are_not_read_as_markup() -> None:
    comparison = compared(row("fedpref[clustering=false]", "x", hypervolume=1.0))
    shown = printed(comparison_tables(comparison)[0]).splitlines()
    (place,) = (number for number, line in enumerate(shown) if line.startswith(" fedpref "))
    assert shown[place + 1].split() == ["[clustering=false]"]  # as narrow as can be


def test_printed_values_stand_beside_ours() -> None:
    results = {
        "table": "thesis-4.1",
        "problem": "deep-sea-treasure",
        "measure": "mean_scalarised",
        "reference_point": [-1.0, -101.0],
        "rows": [
            {
                "algorithm": "fedavg",
                "preferences": "dirichlet",
                "seeds": [1],
                "paper_protocol": {"mean": 1.0, "std": 0.1},
                "our_defaults": {"mean": 2.0, "std": 0.2},
                "printed": {"mean": 3.0, "std": 0.3},
                "trivial": -60.0,
                "optimum": None,
            }
        ],
    }
    table = reproduction_table(results)
    assert rows_of(table) == [["dirichlet", "fedavg", "3 ± 0.3", "1 ± 0.1", "2 ± 0.2", "−60", "–"]]


def test_a_reproduction_with_data_says_how_much_was_left_out() -> None:
    row = {
        "algorithm": "fedpref",
        "preferences": "same",
        "printed": {"mean": 0.696, "std": None},
        "paper_protocol": {"mean": 0.811, "std": None},
        "our_defaults": {"mean": 0.829, "std": None},
        "trivial": 0.76,
        "optimum": None,
        "dropped": {"paper_protocol": 0.1, "our_defaults": 0.2},
        "strict_hypervolume": 0.0605,
    }
    head = {"table": "thesis-5.2", "measure": "hypervolume", "problem": "adult-gender-eo"}
    table = reproduction_table({**head, "rows": [row]})
    wanted = ["fedpref", "0.696", "0.811", "0.829", "0.76", "0.1", "0.2", "0.0605"]
    assert rows_of(table) == [wanted]
    assert "trivially fair" in str(table.caption)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (-0.0, "0"),
        (1e-12, "0"),
        (-3.14159, "−3.142"),
        (12345.6, "12,346"),
        (0.00012345, "0.0001234"),
    ],
)
def test_numbers_are_readable(value: float | None, text: str) -> None:
    assert number(value) == text


def test_large_spreads_need_no_exponent() -> None:
    assert mean_and_std({"mean": 1224.0, "std": 319.4}) == "1,224 ± 319"
    assert mean_and_std({"mean": 1.5, "std": None}) == "1.5"
    assert mean_and_std({"mean": 0.8768, "std": 0.0123}, digits=3, factor=100.0) == "87.7 ± 1.2"


def test_numbers_are_never_cut_in_a_pipe_of_80_columns(capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    row = {
        "measure": "hypervolume",
        "algorithm": "fedpref+ft[weighting=false]",
        "preferences": "dirichlet",
        "paper_protocol": {"mean": 1_939_412_345.0, "std": 75_123_456.0},
        "our_defaults": {"mean": 1_839_412_345.0, "std": 65_123_456.0},
        "printed": {"mean": 1_939_400_000.0, "std": 75_000_000.0},
        "trivial": 1_189_832_372.0,
        "optimum": None,
    }
    results = {
        "table": "thesis-4.7",
        "problem": "lunar-lander",
        "measure": None,
        "models": {"printed": "last", "paper_protocol": "last", "our_defaults": "kept"},
        "reference_point": [-200.0] * 4,
        "reference_point_source": "our guess",
        "igd_reference": "a union",
        "rows": [row],
    }
    print_tables(reproduction_table(results))
    text = capsys.readouterr().out
    assert "…" not in text
    for figure in ("1,939,412,345", "75,123,456", "1,839,412,345", "1,939,400,000"):
        assert figure in text
    words = " ".join(text.split())
    assert "(−200, −200, −200, −200), our guess." in words
    assert "our defaults: kept" in words
    assert "IGD is measured from a union." in words
