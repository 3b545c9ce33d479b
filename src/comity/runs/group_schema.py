"""Schema of ``groups.json`` and ``cross.json``: models by attribute value, and by client."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class Rate(TypedDict):
    """An estimate with its interval of 95 %; None where something is undefined."""

    value: float | None
    low: float | None
    high: float | None
    reason: NotRequired[str]
    """Why something is None."""


class Gap(Rate):
    """The largest difference between an attribute's values."""

    highest: NotRequired[str]
    """Attribute value with the largest rate."""
    lowest: NotRequired[str]
    """Attribute value with the smallest rate."""


class Ratio(TypedDict):
    """The smallest selection rate over the largest; None where it is undefined."""

    value: float | None
    reason: NotRequired[str]


class Bin(TypedDict):
    """Rows whose probability of yes is in one tenth of its range."""

    low: float
    high: float
    rows: int
    mean_probability: float
    share_of_yes: Rate


class Calibration(TypedDict):
    """Agreement of probabilities with shares of yes."""

    error: float | None
    """Expected calibration error over ten bins of equal width."""
    mean_probability: float | None
    share_of_yes: Rate
    """Share of rows whose label is yes, to compare with the mean probability."""
    bins: list[Bin]
    """Bins that have rows."""


class Group(TypedDict):
    """Measures of some rows."""

    rows: int
    true_positives: int
    false_positives: int
    true_negatives: int
    false_negatives: int
    selection_rate: Rate
    true_positive_rate: Rate
    false_positive_rate: Rate
    accuracy: Rate
    auc: Rate
    calibration: Calibration


class Attribute(TypedDict):
    """Measures of the values of one attribute, and what is between them."""

    values: dict[str, Group]
    demographic_parity_difference: Gap
    demographic_parity_ratio: Ratio
    equal_opportunity_difference: Gap
    equalised_odds_difference: Gap


class Measured(TypedDict):
    """Measures of one model, or of all clients' models, each on its client's rows."""

    all: Group
    attributes: dict[str, Attribute]


class ClientGroups(Measured):
    """Measures of one client's kept model on the client's test rows."""

    client: int
    name: str


class Groups(TypedDict):
    """The content of ``groups.json``."""

    clients: list[ClientGroups]
    together: Measured


class Cross(TypedDict):
    """The content of ``cross.json``: every client's model for every client."""

    clients: list[str]
    """Names of the clients."""
    models: list[str]
    """Names of the models: the clients', or that of one exported model."""
    preferences: list[list[float]]
    """Preference of each client."""
    objectives: list[str]
    vectors: list[list[list[float | None]]]
    """Objective vector of each model on each client's test data (models x clients x objectives)."""
    scalarised_by_client: list[list[float | None]]
    """The same by the preference of the client whose data it is (models x clients)."""
    scalarised_by_model: list[list[float | None]]
    """The same by the preference of the client whose model it is (models x clients)."""
    trivial: list[float | None]
    """Scalarised value of the trivial model for each client."""
