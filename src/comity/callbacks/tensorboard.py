"""Rounds and results as event files of TensorBoard (extra ``tensorboard``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from comity.callbacks.base import Callback
from comity.callbacks.values import final_metrics, missing, verdict_of
from comity.errors import UserError
from comity.runs.events import EndEvent, RoundEvent, StartEvent


class TensorBoard(Callback):
    """Write scalars for TensorBoard, one directory per run below the given one.

    Scalars have the names of the event's metrics, at the step of the round; those of results begin
    with ``result/``, at the last step. Settings, incidents and the verdict are texts.

    Args:
        directory: Where TensorBoard looks: ``tensorboard --logdir DIRECTORY``.
    """

    def __init__(self, directory: str | Path) -> None:
        try:
            from torch.utils.tensorboard.writer import SummaryWriter
        except ImportError:
            raise missing("TensorBoard", "tensorboard") from None
        self._make: Any = SummaryWriter
        self._directory = Path(directory)
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"log: cannot write {directory}: {error.strerror}.") from None
        self._writers: dict[str, Any] = {}

    def on_start(self, event: StartEvent) -> None:
        place = self._directory / _relative(Path(event.run))
        # a step that is repeated after an interruption replaces the earlier one
        self._writers[event.run] = self._make(str(place), purge_step=event.round + 1)
        text = json.dumps(event.settings, indent=2)
        self._writers[event.run].add_text("settings", f"```\n{text}\n```", event.round)

    def on_round(self, event: RoundEvent) -> None:
        writer = self._writers[event.run]
        for name, value in event.metrics.items():
            writer.add_scalar(name, value, event.round)
        for incident in event.incidents:
            writer.add_text("incidents", incident, event.round)
        writer.flush()

    def on_end(self, event: EndEvent) -> None:
        writer = self._writers.pop(event.run)
        for name, value in final_metrics(event).items():
            writer.add_scalar(name, value, event.rounds)
        writer.add_text("verdict", verdict_of(event), event.rounds)
        writer.close()

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


def _relative(run: Path) -> Path:
    """Return where the files of a run lie below the directory: as the run lies below this one."""
    path, here = run.resolve(), Path.cwd().resolve()
    return path.relative_to(here if path.is_relative_to(here) else path.anchor)
