"""JSON contents of reproductions: a printed table beside ours, of every kind."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from comity.runs.schema import Difference, HowSoon, Metrics, Spread

Range = list[float]
"""Smallest and largest value."""
Ranges = dict[str, Range]
"""Range by objective."""


class PrintedValue(TypedDict):
    """A mean and a spread as printed in a paper; None where nothing is printed."""

    mean: float | None
    std: float | None


class ReproductionRow(TypedDict):
    """One row of a printed table beside ours, under the protocols that were run."""

    measure: NotRequired[str]
    algorithm: str
    preferences: str
    printed: PrintedValue
    paper_protocol: NotRequired[PrintedValue]
    our_defaults: NotRequired[PrintedValue]
    trivial: float | None
    optimum: float | None
    dropped: NotRequired[dict[str, float]]
    strict_hypervolume: NotRequired[float | None]
    ranks: NotRequired[dict[str, list[float]]]
    """Hypervolumes of the front and of those behind it, while points are left, by protocol."""


class ReproductionNotes(TypedDict):
    """Remarks on what stands beside print in a reproduction."""

    table: str
    models: NotRequired[dict[str, str]]
    """By column, whether its models are the ``last`` or the ``kept`` (best validated) ones."""
    spreads: NotRequired[dict[str, str]]
    """Kind of spread of the ``printed`` values and of ``ours``."""
    reference_point_source: NotRequired[str]
    """Origin of the reference point: printed, derived or guessed."""
    igd_reference: NotRequired[str]
    """The set from which IGD is measured; only where a table has IGD."""
    note: NotRequired[str]
    """A known fault of the printed table, or what the paper shows instead of one."""


class ReproductionResults(ReproductionNotes):
    """A printed table on one problem beside ours."""

    measure: str | None
    """The measure of all rows; None where they differ."""
    across: NotRequired[str | None]
    """Setting that the table varies; None where its rows are algorithms."""
    problem: str
    reference_point: NotRequired[list[float]]
    rows: list[ReproductionRow]


class PerClientRow(TypedDict):
    """One printed hypervolume per client beside ours."""

    problem: str
    clients: int
    partition: NotRequired[str]
    split: NotRequired[float]
    algorithm: str
    centralised: bool
    printed: PrintedValue
    ours: Spread
    trivial: float
    reference: float | None
    measures: NotRequired[dict[str, PrintedValue]]
    """Means over clients of what a table shows beside the hypervolume."""
    each: NotRequired[list[list[Metrics]]]
    """The same per seed and client."""
    rounds: NotRequired[list[list[float]]]
    """Validation hypervolume per seed and round."""
    fit: NotRequired[Metrics | None]
    """The curve of linear convergence that is nearest to the mean over seeds."""


class TrainingTime(TypedDict):
    """Seconds of training, ours over seeds and the printed one."""

    ours: Spread
    printed: float | None


class PerClientResults(ReproductionNotes):
    """A printed table of hypervolumes per client beside ours."""

    measure: str
    across: Literal["clients", "split", "partition"] | None
    """Setting that the table varies; None where it has one panel per problem."""
    shows: NotRequired[Literal["fronts", "splits", "responses", "losses", "rounds"]]
    """Measure beside the hypervolume; absent where it stands alone."""
    reading: NotRequired[Literal["meant", "public"]]
    """Rules as meant, or with the known defects of the public code."""
    reference_point: list[float]
    rows: list[PerClientRow]
    seconds: NotRequired[list[TrainingTime]]
    """Time of training of each row."""


class SearchReproductionRow(TypedDict):
    """One row of a printed table of searches beside ours."""

    measure: str
    row: str
    printed: PrintedValue
    paper_protocol: NotRequired[PrintedValue]
    our_defaults: NotRequired[PrintedValue]
    random_control_paper: NotRequired[PrintedValue]
    """The same search as under ``paper_protocol`` with random weights."""
    random_control: NotRequired[PrintedValue]
    """The same search as under ``our_defaults`` with random weights."""
    optimum: float | None


class SearchReproductionResults(ReproductionNotes):
    """A printed table of searches beside ours, with the control of random weights."""

    problem: str
    reference_point: list[float]
    rows: list[SearchReproductionRow]


class ClusterRound(TypedDict):
    """Clusters after one round, over seeds."""

    round: int
    sizes: list[list[int]]
    """Sizes of the clusters, largest first, per seed."""
    adjusted_rand: NotRequired[list[float]]
    """Agreement with groups of equal preferences, per seed; absent where there are no groups."""


class ClusterRow(TypedDict):
    """Clusters of one entry under one specification of preferences."""

    algorithm: str
    preferences: str
    clients: int
    seeds: list[int]
    shown: list[int]
    """Rounds that the thesis shows, as far as they were run, and the last one."""
    rounds: list[ClusterRound]


class ClusterResults(ReproductionNotes):
    """Clusters by round; the thesis has only pictures of them."""

    measure: Literal["clusters"]
    problem: str
    rows: list[ClusterRow]


class RangeRow(TypedDict):
    """Ranges of the objectives on the front of one algorithm; None: no point is on a front."""

    algorithm: str
    preferences: str
    seeds: list[int]
    printed: Ranges
    paper_protocol: Ranges | None
    our_defaults: Ranges | None
    trivial: float


class RangeResults(ReproductionNotes):
    """Printed ranges of the objectives on fronts beside ours."""

    measure: Literal["ranges"]
    problem: str
    rows: list[RangeRow]


class WeightedPoint(TypedDict):
    """Accuracies of one client's model, and the client's weight on the left digit."""

    weight: float
    seed: int
    left: float
    right: float


class TwoTaskRow(TypedDict):
    """Models of one algorithm for two clients with opposite preferences."""

    algorithm: str
    seeds: list[int]
    left: Range
    """Range over weights of the mean accuracy on the left digit."""
    left_inner: Range
    """The same over weights from 0.1 to 0.9."""
    hypervolume: PrintedValue
    """Hypervolume of each seed's models, from (0, 0)."""
    points: list[WeightedPoint]


class TwoTaskResults(ReproductionNotes):
    """Two clients with two tasks, federated and alone; the thesis has only a picture."""

    measure: Literal["two_tasks"]
    problem: str
    reference_point: list[float]
    rows: list[TwoTaskRow]


class PictureRow(TypedDict):
    """One row of a printed table beside ours, in one partition and setting."""

    algorithm: str
    """Name of the row."""
    entry: str
    """Entry of the comparison behind it."""
    partition: str
    clients: NotRequired[int]
    participation: NotRequired[float]
    local_epochs: NotRequired[int]
    alpha: NotRequired[float]
    seeds: list[int]
    ours: dict[str, Spread | None]
    """By measure; accuracies are shares."""
    printed: dict[str, float]
    """By measure, where all is as printed."""
    trivial: float
    """Accuracy of the constant classifier."""
    how_soon: NotRequired[HowSoon]
    over: NotRequired[dict[str, Difference]]
    """Gain of a wrapped host over the ``host`` and over the ``control``."""


class PrintedElsewhere(TypedDict):
    """A printed figure beside which none of ours stands."""

    data: str
    setting: str
    algorithm: str
    metric: str
    value: float


class PictureResults(TypedDict):
    """A printed table of accuracies on pictures beside ours."""

    table: str
    title: str
    problem: str
    stands_in_for: str | None
    """Printed data set that the problem stands in for; None: it is the printed one."""
    measures: list[str]
    across: str | None
    """Setting on the picture's horizontal axis; None: rows side by side."""
    varied: list[str]
    """Settings that differ between parts of the table, besides the partition."""
    protocol: dict[str, Any]
    """Settings of all runs; rounds of lone clients and of agents' training."""
    note: str
    """Gaps in our knowledge of the printed table."""
    rows: list[PictureRow]
    printed_elsewhere: list[PrintedElsewhere]
