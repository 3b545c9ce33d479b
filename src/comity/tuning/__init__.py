"""Tuning: a layer above runs that chooses settings by validation."""

from comity.tuning.directory import Tuning, open_tuning
from comity.tuning.execution import run_tuning
from comity.tuning.plan import PLAN, TuningSettings, start_tuning

__all__ = ["PLAN", "Tuning", "TuningSettings", "open_tuning", "run_tuning", "start_tuning"]
