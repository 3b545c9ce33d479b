"""Rounds, settings and results for Weights & Biases (extra ``wandb``)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from comity.callbacks.base import Callback
from comity.callbacks.values import final_metrics, missing, title, verdict_of
from comity.errors import StoppedError
from comity.runs.events import EndEvent, RoundEvent, StartEvent


class WandB(Callback):
    """Log to Weights & Biases: one of its runs per run or search.

    Logged values have the names of the event's metrics, at the step of the round. Settings are the
    configuration; results are in the summary, as ``result/NAME``, with the verdict. Without an
    account or a network, set ``WANDB_MODE=offline`` and upload with ``wandb sync`` later.

    Args:
        project: Name of the project.
        **options: Other arguments of ``wandb.init``: ``entity``, ``mode``, ``dir``, ``tags`` ...
    """

    def __init__(self, project: str = "comity", **options: Any) -> None:
        try:
            import wandb
        except ImportError:
            raise missing("Weights & Biases", "wandb") from None
        self._wandb, self._options = wandb, {"project": project, **options}
        self._runs: dict[str, Any] = {}
        """Runs of Weights & Biases by directory."""

    def on_start(self, event: StartEvent) -> None:
        with self._stopping():
            self._runs[event.run] = self._wandb.init(
                **self._options,
                name=title(event),
                config={**event.settings, "run": event.run},
                reinit="create_new",  # several runs of a comparison are under way at once
            )

    def on_round(self, event: RoundEvent) -> None:
        with self._stopping():
            self._runs[event.run].log(dict(event.metrics), step=event.round)

    def on_end(self, event: EndEvent) -> None:
        run = self._runs.pop(event.run)
        with self._stopping():
            run.summary.update({**final_metrics(event), "verdict": verdict_of(event)})
            run.finish()

    def close(self) -> None:
        for run in self._runs.values():
            with self._stopping():
                run.finish(exit_code=1)

    @contextmanager
    def _stopping(self) -> Iterator[None]:
        """Name a failure of Weights & Biases as what stopped the work, which can go on."""
        try:
            yield
        except self._wandb.Error as error:
            reason = str(error).rstrip(".")
            raise StoppedError(
                f"Weights & Biases failed: {reason}. Without an account: WANDB_MODE=offline"
            ) from None
