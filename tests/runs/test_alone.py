"""Who is better off than alone: in one run by companions, in a comparison seed by seed."""

from __future__ import annotations

from typing import Any, cast

import pytest

import comity.report
from comity.configuration import configure
from comity.report.over_alone import over_alone_headings, over_alone_rows
from comity.report.tables import clients_table, over_alone_table
from comity.runs.alone import (
    beside_companions,
    companion_texts,
    count_standings,
    gains_over_alone,
    worse_texts,
)
from comity.runs.compare import Comparison, run_plan, start_comparison
from comity.runs.execute import execute, start_run
from comity.runs.schema import ClientResult, ComparisonRow, HistoryEntry

FEW = {"problem": "heart-disease", "rounds": 2, "supervised": {"local_steps": 20}}


@pytest.fixture(autouse=True)
def _bare(monkeypatch) -> None:
    monkeypatch.setattr(comity.report, "write_report", lambda run, kind: None)


def entry(clients: list[int], **values: Any) -> HistoryEntry:
    return cast(HistoryEntry, {"clients": clients, **values})


def client(name: str, federated: float | None, alone: float | None) -> ClientResult:
    history = [entry([0], federated=[federated], alone=[alone])]
    return cast(ClientResult, {"name": name, "alone": beside_companions(history)[0]})


# -- one run -------------------------------------------------------------------------------


def test_the_last_entry_of_a_client_counts():
    history = [
        entry([0, 1], federated=[0.5, 0.5], alone=[0.6, 0.4]),
        entry([1], federated=[0.5], alone=[0.5005]),
        entry([2], federated=[None], alone=[0.3]),
    ]
    beside = beside_companions(history)
    assert beside[0] == {"federated": 0.5, "alone": 0.6, "standing": "worse", "keeps": "alone"}
    # within the tolerance it is level; yet the better one is kept
    assert beside[1] == {"federated": 0.5, "alone": 0.5005, "standing": "level", "keeps": "alone"}
    assert beside[2] == {"federated": None, "alone": 0.3, "standing": None, "keeps": "alone"}
    assert beside_companions([entry([0, 1])]) == {}


def test_the_verdict_names_who_is_worse_off():
    configuration = configure({**FEW, "algorithm": "fedavg", "alone_share": 0.25})
    clients = [client("Bern", 0.8, 0.7), client("Zurich", 0.6, 0.7), client("3", 0.5, 0.5)]
    assert companion_texts(configuration, clients) == [
        "On validation data, beside companions with 0.25 of the steps: 1 of 3 clients is better "
        "off than alone; client 3 is level; Zurich is worse off.",
        "Zurich keeps what was learned alone.",
    ]
    assert count_standings(clients) == {"better": 1, "level": 1, "worse": 1}
    many = [client(f"h{number}", 0.1, 0.2) for number in range(9)]
    assert "9 clients are worse off" in companion_texts(configuration, many)[0]
    assert companion_texts(configuration, [cast(ClientResult, {"name": "Bern"})]) == []


def test_a_run_with_companions_says_it_everywhere(tmp_path):
    values = {**FEW, "algorithm": "fedavg", "alone_share": 0.25}
    run = execute(start_run(values, tmp_path / "run"))
    results, last = run.results, run.history[-1]
    assert results["alone_share"] == 0.25
    for row, result in enumerate(results["per_client"]):
        beside = result["alone"]
        assert (beside["federated"], beside["alone"]) == (
            last["federated"][row],
            last["alone"][row],
        )
        best = max(last["federated"][row], last["alone"][row])
        assert last["kept"][row] == [pytest.approx(best)]
    verdict = results["verdict"]
    assert sum(verdict["alone"].values()) == 4
    texts = companion_texts(run.configuration, results["per_client"])
    assert set(texts) < set(verdict["sentences"])
    assert not any("One run does not tell" in text for text in verdict["sentences"])
    headings = [str(column.header) for column in clients_table(results).columns]
    assert headings[-3:] == ["federated", "alone", "keeps"]


def test_a_run_without_companions_says_nothing_of_it(tmp_path):
    run = execute(start_run({**FEW, "algorithm": "fedavg"}, tmp_path / "run"))
    assert not {"alone", "federated"} & run.history[-1].keys()
    assert "alone_share" not in run.results
    assert "alone" not in run.results["verdict"]
    assert all("alone" not in result for result in run.results["per_client"])


# -- a comparison --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def comparison(tmp_path_factory) -> Comparison:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comity.report, "write_report", lambda run, kind: None)
        path = start_comparison(
            **FEW,
            algorithms=["no-communication", "fedavg", "fedavg[alone_share=0.5]"],
            seeds=2,
            out=tmp_path_factory.mktemp("comparison") / "c",
        )
        return run_plan(path)


def test_gains_over_alone_are_differences_seed_by_seed(comparison):
    rows = {row["algorithm"]: row for row in comparison.results["rows"]}
    assert "over_alone" not in rows["no-communication"]
    runs = {entry: runs for (entry, _), runs in comparison.runs.items()}
    gains = rows["fedavg"]["over_alone"]
    assert [gain["name"] for gain in gains] == ["Cleveland", "Hungary", "Switzerland", "Long Beach"]
    for number, gain in enumerate(gains):
        pairs = list(zip(runs["fedavg"], runs["no-communication"], strict=True))
        test = [
            ours.results["per_client"][number]["scalarised"]
            - alone.results["per_client"][number]["scalarised"]
            for ours, alone in pairs
        ]
        assert gain["test"] is not None
        assert gain["test"]["mean"] == pytest.approx(sum(test) / 2, abs=1e-6)
        assert gain["test"]["seeds"] == {
            "better": sum(d > 0.001 for d in test),
            "level": sum(abs(d) <= 0.001 for d in test),
            "worse": sum(d < -0.001 for d in test),
        }
        validation = [
            ours.history[-1]["kept"][number][0] - alone.history[-1]["kept"][number][0]
            for ours, alone in pairs
        ]
        assert gain["validation"] is not None
        assert gain["validation"]["mean"] == pytest.approx(sum(validation) / 2, abs=1e-6)


def test_nothing_is_said_where_nobody_learns_alone(comparison):
    runs = {entry: runs for (entry, _), runs in comparison.runs.items() if "no-c" not in entry}
    settings = {entry: {"algorithm": "fedavg"} for entry in runs}
    assert gains_over_alone("fedavg", settings, runs) == {}


def test_the_verdict_on_a_comparison_names_clients(comparison):
    rows = comparison.results["rows"]
    texts = worse_texts(rows, lambda row: row["algorithm"])
    assert len(texts) == 2
    assert set(texts) < set(comparison.results["verdict"]["sentences"])


def row_of(name: str) -> ComparisonRow:
    gain = {"mean": -0.04, "interval": [-0.1, 0.02], "seeds": {"better": 1, "level": 0, "worse": 4}}
    better = {**gain, "mean": 0.02, "interval": None}
    clients = [
        {"client": 0, "name": name, "validation": better, "test": gain},
        {"client": 1, "name": "1", "validation": gain, "test": gain},
    ]
    row = {"algorithm": "fedavg", "preferences": "dirichlet", "centralised": False}
    return cast(ComparisonRow, {**row, "seeds": [1, 2, 3, 4, 5], "over_alone": clients})


def test_only_clients_with_names_are_named():
    """The others have other preferences under every seed."""
    assert worse_texts([row_of("0")], lambda row: "fedavg") == []
    assert worse_texts([row_of("Bern")], lambda row: "fedavg") == [
        "Worse off with fedavg than alone: on validation data nobody; on test data Bern (-0.04)."
    ]
    assert over_alone_rows([row_of("0")]) == []
    cells = ["Bern", "+0.02", "1/0/4", "−0.04", "−0.1 to 0.02", "1/0/4"]
    assert over_alone_rows([row_of("Bern")]) == [["fedavg", *cells]]
    assert over_alone_headings([row_of("Bern")])[:2] == ["algorithm", "client"]


def test_the_table_has_one_row_per_entry_and_client(comparison):
    table = over_alone_table(comparison.results)
    assert table is not None
    assert table.row_count == 8
