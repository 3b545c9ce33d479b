"""Schema of what runs and comparisons write as JSON."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from comity.runs.alone_schema import BesideAlone, ClientGains, Counts, Standing
from comity.runs.link_schema import Communication, LinkResults, NeighbourResult
from comity.runs.privacy_schema import PrivacyResult
from comity.runs.span_schema import SpanResult
from comity.runs.tuning_schema import Tuned

Metrics = dict[str, float]
"""Measures by name."""
Vectors = list[list[float | None]] | None
"""One objective vector per client; None where a score is undefined."""

Mark = Literal["gained", "level", "below", "constant", "undefined"]
"""Outcome of a client beside the trivial baseline."""


class ClientResult(TypedDict):
    """Final model of one client, in figures."""

    client: int
    name: str
    """The client's name, or its number as text."""
    attacker: NotRequired[bool]
    """Whether the client attacks the others, or could; it does not count for any measure."""
    preference: list[float]
    objectives: dict[str, float | None]
    scalarised: float | None
    trivial: NotRequired[float | None]
    """Scalarised value of the trivial baseline at the client's preference."""
    constant: NotRequired[bool]
    """Whether the model gives every test sample the same answer, where models give answers."""
    mark: NotRequired[Mark]
    kept_round: NotRequired[int | None]
    """Round of the kept model, where clients keep their best validated one; one more than the
    run's rounds for the last delivery."""
    alone: NotRequired[BesideAlone]
    objectives_last: NotRequired[dict[str, float | None]]
    optimum: NotRequired[float]
    gaps: NotRequired[dict[str, dict[str, float | None]]]
    """Differences between attribute values on test rows, by attribute; more is in groups.json."""


class KeptRounds(TypedDict):
    """Rule by which models were kept, and the earliest and latest round that they come from."""

    rule: Literal["client", "federation", "last", "ensemble"]
    first: NotRequired[int]
    last: NotRequired[int]


class Verdict(TypedDict):
    """Verdict on a run: sentences, and the numbers in them."""

    sentences: list[str]
    tolerance: float
    counts: dict[Mark, int]
    mean_gain: float | None
    """Mean gain over the trivial baseline, over the clients that have a value."""
    mean_gain_of_gained: float | None
    """The same over the clients that gained."""
    kept: KeptRounds
    unmixed: NotRequired[int]
    """Number of rounds in which nothing could be mixed, if any."""
    alone: NotRequired[dict[Standing, int]]


class ClusterResult(TypedDict):
    """Final clusters; the index where some but not all clients share their preferences."""

    count: int
    adjusted_rand: NotRequired[float]


class Results(TypedDict):
    """The content of ``results.json``: no times and no paths, so equal runs have equal bytes."""

    verdict: NotRequired[Verdict]
    problem: str
    algorithm: str
    wrapper: NotRequired[str]
    attack: NotRequired[str]
    honest: NotRequired[list[int]]
    """Clients over which all measures are, where others attack."""
    preset: NotRequired[str]
    seed: int
    clients: int
    rounds: int
    preferences: str
    keep: str
    keep_scope: str
    guard: bool
    alone_share: NotRequired[float]
    fine_tune: str
    topology: NotRequired[str]
    graph: NotRequired[str]
    reference_point: list[float]
    partition: NotRequired[str]
    sizes: NotRequired[str]
    split_ratio: NotRequired[str]
    classes: NotRequired[list[list[int]]]
    """Training samples of each class, per client, where labels are classes."""
    samples: NotRequired[dict[str, list[int]]]
    split: NotRequired[str]
    notes: NotRequired[list[str]]
    global_test: NotRequired[int]
    """Number of test samples behind the global measures, where it is not that of all clients."""
    strict_reference_point: NotRequired[list[float]]
    episodes: NotRequired[dict[str, int]]
    metrics: Metrics
    metrics_last: NotRequired[Metrics]
    trivial: Metrics
    optimum: NotRequired[Metrics]
    per_client: list[ClientResult]
    front: list[list[float]]
    clusters: NotRequired[ClusterResult]
    neighbours: NotRequired[NeighbourResult]
    communication: Communication
    links: NotRequired[LinkResults]
    privacy: NotRequired[PrivacyResult]
    environment_steps: NotRequired[dict[str, int]]
    validation: NotRequired[dict[str, float | None]]
    training_steps: NotRequired[int]
    skipped_terms: NotRequired[int]
    spanned: NotRequired[SpanResult]


class HistoryEntry(TypedDict):
    """One line of ``history.jsonl``: one round, with one row per participating client."""

    round: int
    clients: list[int]
    steps: list[int]
    validation_steps: list[int]
    skipped: list[int]
    received: Vectors
    trained: Vectors
    kept: Vectors
    federated: NotRequired[list[float | None]]
    alone: NotRequired[list[float | None]]
    everyone: NotRequired[Vectors]
    declined: list[bool]
    clusters: list[list[int]] | None
    chosen: bool
    validation_hypervolume: NotRequired[float]
    """Mean over clients of what their models reach on validation data, where all report it."""
    validation_utility: NotRequired[float]
    """Mean over clients of the value at their own preferences, where all report that instead."""
    conflict: dict[str, float] | None
    server: NotRequired[dict[str, Any]]
    mixing: Vectors
    heard: NotRequired[dict[str, list[int]]]
    """Clients whose models each client heard, where there is no server."""
    absent: NotRequired[dict[str, list[int]]]
    time: NotRequired[float]
    """Seconds from the beginning of the contact plan, with links."""
    age: NotRequired[list[int]]
    """With links, the mixings by which each client's update is late."""
    unmixed: NotRequired[bool]
    """Clients sent models, but nothing could be mixed of them."""
    dropped: NotRequired[list[int]]
    """Clients whose updates were too old to be mixed."""
    bytes_up: int
    bytes_down: int
    events: list[str]


class Spread(TypedDict):
    """Mean and population standard deviation over seeds; None where one value has no spread."""

    mean: float
    std: float | None


class Difference(TypedDict):
    """Gain of an entry over another, paired by seed."""

    mean: float
    std: float
    each: list[float]
    interval: NotRequired[list[float] | None]
    """Student's 95 % interval of the mean; None with one seed, or where all seeds are equal."""
    p: NotRequired[float | None]
    """Two-sided p of the paired t-test; None likewise."""
    p_holm: NotRequired[float | None]
    """The same after Holm's correction for all tests of the comparison."""
    clients: NotRequired[Counts]
    """Clients of all seeds that are better off, level and worse off than with the other entry."""


class Referenced(TypedDict):
    """Anything with a reference point: results of a run, a search or a comparison."""

    reference_point: list[float]


class MeasuredRow(TypedDict):
    """Any row with measures over seeds: of a comparison of algorithms or of searches."""

    metrics: dict[str, Spread]


class SeededRow(TypedDict):
    """Any row of several seeds."""

    seeds: list[int]


class AlgorithmRow(TypedDict):
    """Any row of an algorithm: of a comparison, or of a printed table beside ours."""

    algorithm: str
    centralised: bool


class HowSoon(TypedDict):
    """Rounds and seconds until a validation accuracy, one per seed; None: never reached."""

    target: float
    rounds: list[int | None]
    seconds: list[float | None]


class ComparisonRow(TypedDict):
    """One entry of a comparison under one preference distribution."""

    algorithm: str
    label: NotRequired[str]
    """Of an entry with tuned settings: ``fedavg[tuned]``."""
    preferences: str
    centralised: bool
    seeds: list[int]
    metrics: dict[str, Spread]
    metrics_last: dict[str, Spread]
    pooled: Metrics
    communication: NotRequired[dict[str, Spread]]
    """Megabytes in both directions together, bytes per update of one client, epsilon if any."""
    marks: NotRequired[dict[Mark, int]]
    """Number of clients of all seeds with each mark."""
    unmixed: NotRequired[int]
    host: NotRequired[str]
    paired: NotRequired[dict[str, Difference]]
    over_alone: NotRequired[list[ClientGains]]
    trivial: NotRequired[Metrics]
    optimum: NotRequired[Metrics]
    how_soon: NotRequired[HowSoon]
    runs: list[str]


class ComparisonVerdict(TypedDict):
    """Verdict on a comparison: sentences, and what they rest on."""

    sentences: list[str]
    tolerance: float
    seeds: int
    tests: int
    """Number of paired tests that p is corrected for."""
    enough_seeds: bool


class ComparisonResults(TypedDict):
    """The content of ``comparison.json``."""

    verdict: NotRequired[ComparisonVerdict]
    problem: str
    reference_point: list[float]
    trivial: NotRequired[Metrics]
    optimum: NotRequired[Metrics]
    rows: list[ComparisonRow]
    tuned: NotRequired[list[Tuned]]
    equal_budgets: NotRequired[bool]
    """Whether all tuned entries had equally many trials and seeds."""
