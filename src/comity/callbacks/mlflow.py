"""Rounds, settings and results for MLflow (extra ``mlflow``)."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from comity.callbacks.base import Callback
from comity.callbacks.values import final_metrics, flat, missing, title, verdict_of
from comity.errors import StoppedError, UserError
from comity.runs.events import EndEvent, RoundEvent, StartEvent
from comity.version import __version__

_LONGEST = 500
"""Characters of a parameter's value, which every kind of MLflow's stores takes."""
_AT_ONCE = 100
"""Parameters of one call."""


class MLflow(Callback):
    """Log to MLflow: one MLflow run per run or search.

    Metrics have the names of the event's metrics, at the step of the round; those of results begin
    with ``result/``. Settings are parameters. The directory is the tag ``comity.run``.

    Args:
        experiment: Name of the experiment, made if there is none.
        uri: Where MLflow keeps its runs; None: as MLflow is set up, by ``MLFLOW_TRACKING_URI``.
    """

    def __init__(self, experiment: str = "comity", uri: str | None = None) -> None:
        try:
            from mlflow.entities import Metric, Param
            from mlflow.exceptions import MlflowException
            from mlflow.tracking import MlflowClient
        except ImportError:
            raise missing("MLflow", "mlflow") from None
        self._metric, self._param, self._error = Metric, Param, MlflowException
        self._runs: dict[str, str] = {}
        """MLflow's runs by directory."""
        try:
            self._client = MlflowClient(tracking_uri=uri)
            existing = self._client.get_experiment_by_name(experiment)
            self._experiment = (
                self._client.create_experiment(experiment)
                if existing is None
                else existing.experiment_id
            )
        except (MlflowException, OSError) as error:
            raise UserError(
                f"log: MLflow cannot use experiment '{experiment}' ({_sentence(error)}). Set "
                "MLFLOW_TRACKING_URI to a server; a database needs pip install mlflow, files need "
                "MLFLOW_ALLOW_FILE_STORE=true."
            ) from None

    def on_start(self, event: StartEvent) -> None:
        tags = {"comity.run": event.run, "comity.version": __version__}
        with self._stopping():
            made = self._client.create_run(self._experiment, run_name=title(event), tags=tags)
            number: str = made.info.run_id
            self._runs[event.run] = number
            params = [
                self._param(_key(name), str(value)[:_LONGEST])
                for name, value in flat(event.settings).items()
            ]
            for first in range(0, len(params), _AT_ONCE):
                self._client.log_batch(number, params=params[first : first + _AT_ONCE])

    def on_round(self, event: RoundEvent) -> None:
        with self._stopping():
            self._log(self._runs[event.run], event.metrics, event.round)

    def on_end(self, event: EndEvent) -> None:
        number = self._runs.pop(event.run)
        with self._stopping():
            self._log(number, final_metrics(event), event.rounds)
            self._client.set_tag(number, "mlflow.note.content", verdict_of(event))
            self._client.set_terminated(number)

    def close(self) -> None:
        for number in self._runs.values():
            with self._stopping():
                self._client.set_terminated(number, status="KILLED")

    def _log(self, number: str, values: Mapping[str, float], step: int) -> None:
        now = int(time.time() * 1000)
        metrics = [self._metric(_key(name), value, now, step) for name, value in values.items()]
        self._client.log_batch(number, metrics=metrics)

    @contextmanager
    def _stopping(self) -> Iterator[None]:
        """Name a failure of MLflow's server as what stopped the work, which can go on."""
        try:
            yield
        except self._error as error:
            raise StoppedError(f"MLflow failed: {_sentence(error)}") from None


def _key(name: str) -> str:
    """Return a name with the characters that MLflow takes."""
    return re.sub(r"[^\w./ -]", "_", name)


def _sentence(error: Exception) -> str:
    """Return the first sentence of an error."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text.partition(". ")[0].rstrip(".")
