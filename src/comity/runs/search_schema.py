"""Schema of what searches and their comparisons write as JSON."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from comity.runs.alone_schema import Standing
from comity.runs.link_schema import Communication
from comity.runs.schema import Metrics, Spread


class FrontPoint(TypedDict):
    """One model of a search's front."""

    point: int
    objectives: dict[str, float]
    weight: list[float]
    iteration: int
    candidate: int
    round: int | None
    model: str


class SearchEffort(TypedDict, total=False):
    """Steps of all clients: in environments, those of the server too, by kind; or on data."""

    environment_steps: dict[str, int]
    training_steps: int


class MeanEffort(TypedDict, total=False):
    """Steps of a search, the mean over seeds: in environments, or on data."""

    environment_steps: float
    training_steps: float


class SearchControl(SearchEffort):
    """The same search with random weights, for comparison."""

    generator: str
    metrics: Metrics
    candidates: int


class SearchVerdict(TypedDict):
    """Verdict on a search: sentences, and the standing of its hypervolume."""

    sentences: list[str]
    tolerance: float
    points: int
    trivial: Standing
    control: NotRequired[Standing]


class SearchResults(SearchEffort):
    """The content of a search's ``results.json``."""

    verdict: NotRequired[SearchVerdict]
    problem: str
    algorithm: str
    generator: str
    seed: int
    clients: int
    rounds: int
    iterations: int
    candidates: int
    spread: bool
    warm_start: bool
    harvest: bool
    keep: str
    reference_point: list[float]
    episodes: NotRequired[dict[str, int]]
    samples: NotRequired[dict[str, int]]
    metrics: Metrics
    metrics_evaluation: Metrics
    dropped: NotRequired[int]
    cut_by_reference_point: int
    trivial: Metrics
    optimum: NotRequired[Metrics]
    front: list[FrontPoint]
    communication: Communication
    environment_steps_per_client: NotRequired[int]
    training_steps_per_client: NotRequired[int]
    control: NotRequired[SearchControl]


class CandidateEntry(TypedDict):
    """One candidate of an iteration: its weight, what it reached, where it started."""

    weight: list[float]
    objectives: list[float]
    start: int | None


class SearchEntry(SearchEffort):
    """One line of a search's ``history.jsonl``: one iteration."""

    iteration: int
    candidates: list[CandidateEntry]
    evaluations: int
    hypervolume: float
    front: list[list[float]]
    communication: Communication
    events: list[str]


class GrowthEntry(MeanEffort):
    """Hypervolume after an iteration, over seeds."""

    evaluations: int
    hypervolume: Spread


class SearchRow(MeanEffort):
    """One entry of a comparison of searches."""

    search: str
    algorithm: str
    clients: int
    seeds: list[int]
    metrics: dict[str, Spread]
    candidates: float
    growth: list[GrowthEntry]
    runs: list[str]


class SearchComparisonResults(TypedDict):
    """The content of ``searches.json``."""

    problem: str
    reference_point: list[float]
    trivial: Metrics
    optimum: NotRequired[Metrics]
    rows: list[SearchRow]
