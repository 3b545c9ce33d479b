"""Settings under which an agent of pFedRLLA is trained for other runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from comity.errors import UserError

ALGORITHM = "pfedrlla"
DEFAULTS = {"body": "local", "warmup": 10, "every": 1, "agent_steps": 20}
"""The agent mixes heads and learns every round; bodies are not mixed."""
ORIGIN = ("partition", "clients", "participation", "rounds", "seed")
"""Run-level settings that an agent file records of the run in which the agent learned."""


def with_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a run, as for `configure`, with the defaults of a pretraining."""
    table = values.get(ALGORITHM, {})
    if isinstance(table, Mapping):  # if not, configure refuses it
        table = {**DEFAULTS, **table}
    return {**values, "algorithm": ALGORITHM, ALGORITHM: table}


def check_learning(settings: Mapping[str, Any]) -> None:
    """Refuse (`UserError`) settings of the algorithm under which the agent decides nothing."""
    if "agent" not in (settings["body"], settings["head"]):
        raise UserError(
            "pretrain: an agent that decides nothing learns nothing; pfedrlla.head or "
            "pfedrlla.body must be agent."
        )
