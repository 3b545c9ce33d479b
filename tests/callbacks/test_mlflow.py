"""What MLflow has kept, read back with MLflow's own client."""

from __future__ import annotations

import sys

import pytest

from comity.callbacks import MLflow
from comity.callbacks.base import notifying
from comity.callbacks.values import flat
from comity.errors import UserError
from comity.runs.directory import Run
from comity.runs.execute import execute
from tests.callbacks.logged import logged_run, trained
from tests.events import stopping
from tests.tiny import tiny


@pytest.fixture
def client(tmp_path, monkeypatch):
    """Return a client of a store of files below the test's directory."""
    for name in ("MLFLOW_ALLOW_FILE_STORE", "MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
        monkeypatch.setenv(name, "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    tracking = pytest.importorskip(
        "mlflow.tracking", reason="the extra mlflow is not installed", exc_type=ImportError
    )
    return tracking.MlflowClient()


def runs_of(client, experiment: str):
    found = client.get_experiment_by_name(experiment)
    return client.search_runs([found.experiment_id])


def test_metrics_are_those_of_history_and_results(tmp_path, client):
    run = logged_run(tmp_path / "r", MLflow("mine"))
    (kept,) = runs_of(client, "mine")
    points = client.get_metric_history(kept.info.run_id, "trained/accuracy")
    assert [point.step for point in points] == [1, 2]
    assert [point.value for point in points] == trained(run, "accuracy")
    for name, value in run.results["metrics"].items():
        assert kept.data.metrics[f"result/{name}"] == value
    wanted = flat(run.configuration.plain())
    assert kept.data.params == {name: str(value) for name, value in wanted.items()}
    assert kept.data.params["supervised.local_steps"] == "3"
    assert kept.data.tags["comity.run"] == str(run.path)
    assert kept.info.status == "FINISHED"
    assert kept.info.run_name == "tiny-people, fedavg, seed 1"


def test_an_interrupted_run_is_marked_so(tmp_path, client):
    run = Run.create(tmp_path / "r", tiny(clients=2, rounds=2, algorithm="fedavg"))
    with (
        pytest.raises(KeyboardInterrupt),
        notifying([MLflow("mine")], stopping(1)) as notify,
    ):
        execute(run, notify=notify)
    (kept,) = runs_of(client, "mine")
    assert kept.info.status == "KILLED"


def test_a_store_that_cannot_be_used_is_one_clear_error(client):
    with pytest.raises(UserError, match=r"MLflow cannot use experiment 'mine'.*_TRACKING_URI"):
        MLflow("mine", "gopher://nowhere")


def test_a_missing_library_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow.entities", None)
    with pytest.raises(UserError, match=r"MLflow is not installed.*comity\[mlflow\]"):
        MLflow()
