"""Callbacks: what is called with the events of runs and searches, and loggers for other tools.

The library of a tool is an extra, and imported when its logger is made.
"""

from __future__ import annotations

from collections.abc import Callable

from comity.callbacks.base import Callback, notifying
from comity.callbacks.json_lines import JsonLines
from comity.callbacks.mlflow import MLflow
from comity.callbacks.tensorboard import TensorBoard
from comity.callbacks.wandb import WandB
from comity.errors import UserError, unknown

_LOGGERS: dict[str, Callable[[str], Callback]] = {
    "jsonl": JsonLines,
    "tensorboard": TensorBoard,
    "mlflow": lambda experiment: MLflow(experiment or "comity"),
    "wandb": lambda project: WandB(project or "comity"),
}
"""Loggers by the name that they have on the command line."""
_NEED_A_PLACE = {"jsonl": "jsonl:rounds.jsonl", "tensorboard": "tensorboard:logs"}


def logger(text: str) -> Callback:
    """Return the logger that a text names: ``jsonl:rounds.jsonl``, ``mlflow`` ...

    Args:
        text: ``jsonl:FILE``, ``tensorboard:DIRECTORY``, ``mlflow``, ``mlflow:EXPERIMENT``,
            ``wandb`` or ``wandb:PROJECT``.
    """
    name, _, place = text.partition(":")
    if name not in _LOGGERS:
        raise unknown("log", name, _LOGGERS)
    if not place and name in _NEED_A_PLACE:
        raise UserError(f"log = {text}: say where, e.g. {_NEED_A_PLACE[name]}.")
    return _LOGGERS[name](place)


__all__ = ["Callback", "JsonLines", "MLflow", "TensorBoard", "WandB", "logger", "notifying"]
