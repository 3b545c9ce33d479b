"""The taxonomy of multi-objective methods in federated learning (thesis, chapter 2, fig. 2.4).

Every algorithm declares the cell that it belongs to. Works of the thesis' survey that are not
shipped are in ``works.toml``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

Level = Literal["top", "federation", "client", "none"]
_WORKS = Path(__file__).with_name("works.toml")


@dataclass(frozen=True)
class Cell:
    """One leaf of the taxonomy."""

    label: str
    """Its name, which algorithms declare as their ``place``."""
    level: Level
    """Level of the federated system at which several objectives enter; none: they do not."""
    branch: tuple[str, ...]
    """Names of the branches above it, the widest first."""
    explored: bool = True
    """Whether the thesis knows a work of this kind."""


_MOFL, _FMOL = "multi-objective federated learning", "federated multi-objective learning"
_OFFLINE, _ONLINE = "offline hyper-parameter optimisation", "online hyper-parameter optimisation"
_FRONT, _EACH = "several solutions: a Pareto front", "several solutions: one per client"
_PLAIN = "no multi-objective method"

CELLS = (
    Cell("offline hyper-parameter tuning", "top", (_MOFL, _OFFLINE)),
    Cell("offline architecture search", "top", (_MOFL, _OFFLINE)),
    Cell("clients as objectives", "federation", (_MOFL, "multi-objective aggregation")),
    Cell("multi-criteria aggregation", "federation", (_MOFL, "multi-objective aggregation")),
    Cell("online hyper-parameter tuning", "federation", (_MOFL, _ONLINE)),
    Cell("online architecture search", "federation", (_MOFL, _ONLINE)),
    Cell("single solution", "client", (_FMOL,)),
    Cell("server-led", "client", (_FMOL, _FRONT)),
    Cell("client-led", "client", (_FMOL, _FRONT), explored=False),
    Cell("fully distributed", "client", (_FMOL, _FRONT), explored=False),
    Cell("preference-driven", "client", (_FMOL, _EACH)),
    Cell("multi-task", "client", (_FMOL, _EACH)),
    Cell("global model", "none", (_PLAIN,)),
    Cell("personalised models", "none", (_PLAIN,)),
    Cell("not federated", "none", (_PLAIN,)),
)
"""All cells, in the order of the figure; the last three are outside of it."""


@dataclass(frozen=True)
class Work:
    """A work of the survey that is not shipped."""

    name: str
    paper: str
    """Authors and year."""
    place: str
    """Label of its cell."""
    method: str
    """Treatment of several objectives."""
    objectives: str


def find_cell(label: str) -> Cell:
    """Return the cell with a label; an unknown one is a `ValueError`."""
    for cell in CELLS:
        if cell.label == label:
            return cell
    raise ValueError(f"place = {label!r}: must be one of {[cell.label for cell in CELLS]}")


@cache
def works() -> tuple[Work, ...]:
    """Return the works of the survey that are not shipped."""
    with _WORKS.open("rb") as file:
        entries: list[Mapping[str, str]] = tomllib.load(file)["work"]
    return tuple(Work(**entry) for entry in entries)
