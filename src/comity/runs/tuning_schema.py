"""Schema of what tunings write as JSON, and of what comparisons say of them."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

Direction = Literal["higher", "lower"]
"""Which values of an objective are better."""
TrialState = Literal["done", "undefined", "refused"]
"""A trial has a value of every objective; or not, as its models were never validated; or its
settings exclude each other."""


class Budget(TypedDict):
    """What a tuning, or one of its trials, took."""

    runs: int
    rounds: int
    """Rounds of all runs."""
    steps: int
    """Steps of training of all clients in all runs."""


class TrialRow(TypedDict):
    """One trial: settings, its runs, and what they reached on validation data."""

    trial: int
    """Its number; 0: the settings as they are."""
    settings: dict[str, Any]
    """Values of the tuned settings, by name."""
    state: TrialState
    fault: NotRequired[str]
    """Why the settings were refused."""
    seeds: list[int]
    budget: Budget
    values: dict[str, list[float | None]]
    """Values of each objective, one per seed."""
    means: dict[str, float | None]
    """Means over seeds of each objective; None where a seed has none."""
    dropped: NotRequired[float]
    """Share of clients whose models count for no front, as they give everybody the same answer."""
    runs: list[str]


class TuningVerdict(TypedDict):
    """Verdict on a tuning: sentences, and the gain in them."""

    sentences: list[str]
    gain: NotRequired[list[float]]
    """Gain of the chosen trial over the settings as they were in the first objective, per seed;
    above zero is better."""


class TuningResults(TypedDict):
    """The content of ``tuning.json``: no times, so equal tunings have equal bytes."""

    verdict: TuningVerdict
    problem: str
    algorithm: str
    objectives: dict[str, Direction]
    sampler: str
    seed: int
    seeds: list[int]
    batch: int
    space: dict[str, Any]
    """Values or range of each tuned setting."""
    settings: dict[str, Any]
    """What all runs have in common."""
    budget: Budget
    chosen: int | None
    """Number of the chosen trial; None where no trial has a value."""
    front: list[int]
    """Trials that no other one dominates; with one objective the chosen one."""
    trials: list[TrialRow]


class Tuned(TypedDict):
    """How an entry of a comparison was tuned."""

    algorithm: str
    """The entry, with the settings that were chosen."""
    tuning: str
    """Directory of the tuning."""
    objective: str
    sampler: str
    trials: int
    seeds: list[int]
    runs: int
    rounds: int
    steps: int
    seconds: float
    """Time of all runs of the tuning together."""
    settings: dict[str, Any]
    """What all its runs had in common."""
