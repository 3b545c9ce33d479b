"""Names, order, comparison and printing of measures, shared by tables, figures and pages."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from comity.runs.reproduction_schema import PrintedValue
from comity.runs.schema import (
    AlgorithmRow,
    ClientResult,
    ComparisonResults,
    ComparisonRow,
    MeasuredRow,
    Metrics,
    Referenced,
    Results,
    Spread,
)
from comity.runs.search_schema import SearchComparisonResults, SearchResults, SearchRow

if TYPE_CHECKING:
    from comity.problems import Objective, Problem


@dataclass(frozen=True)
class Measure:
    """A measure as readers see it; ``better`` is None where neither direction is a merit."""

    name: str
    label: str
    better: Literal["higher", "lower"] | None = None

    @property
    def arrow(self) -> str:
        """The direction of merit, to append to the label."""
        return {"higher": " ↑", "lower": " ↓", None: ""}[self.better]


MEASURES = (
    Measure("mean_scalarised", "mean scalarised", "higher"),
    Measure("mean_regret", "mean regret", "lower"),
    Measure("served_regret", "regret over preferences", "lower"),
    Measure("pooled_hypervolume", "pooled hypervolume", "higher"),
    Measure("hypervolume", "hypervolume", "higher"),
    Measure("strict_hypervolume", "strict hypervolume", "higher"),
    Measure("own_hypervolume", "hypervolume per client", "higher"),
    Measure("igd", "IGD", "lower"),
    Measure("sparsity", "sparsity", "lower"),
    Measure("cardinality", "cardinality", "higher"),
    Measure("expected_utility", "expected utility", "higher"),
)
MAIN = MEASURES[:10]
"""The measures that comparisons show."""
HYPERVOLUMES = tuple(measure for measure in MEASURES if measure.name.endswith("hypervolume"))
SHARES = (Measure("dropped", "dropped"), Measure("undefined", "undefined"))
"""Shares of the clients that count for no front; only problems with data have them."""


# -- choosing measures ---------------------------------------------------------------------


def has_single_objective(results: Referenced) -> bool:
    """Return whether a run or comparison has one objective, so no front and no preferences."""
    return len(results["reference_point"]) == 1


def available_measures(names: Iterable[str], single_objective: bool = False) -> list[Measure]:
    """Return the measures with these names: known ones first, then objectives.

    With a single objective, measures of fronts and scalarisation are left out.
    """
    names = dict.fromkeys(names)
    # the constant classifier has a column of its own
    known = {measure.name for measure in MEASURES + SHARES} | {"trivial_hypervolume"}
    objectives = [Measure(n, n.replace("_", " "), "higher") for n in names if n not in known]
    if single_objective:
        return objectives or [measure for measure in MEASURES[:2] if measure.name in names]
    return [
        *(measure for measure in MEASURES if measure.name in names),
        *objectives,
        *(measure for measure in SHARES if measure.name in names),
    ]


def main_measures(names: Iterable[str], single_objective: bool = False) -> list[Measure]:
    """Return the most important of the measures with these names.

    The mean scalarised value is the first. For clients with data, the objectives are among them.
    """
    measures = available_measures(names, single_objective)
    if single_objective:
        return measures
    if any(measure in SHARES for measure in measures):
        local = [m for m in measures if not m.name.startswith("global_")]
        return [m for m in local if m in (MEASURES[0], *HYPERVOLUMES) or m not in MEASURES]
    return [m for m in measures if m in MAIN]


def compared_measures(rows: Sequence[MeasuredRow], single_objective: bool = False) -> list[Measure]:
    """Return the main measures that at least one row has; shares only where one is not zero."""
    largest: dict[str, float] = {}
    for row in rows:
        for name, metric in row["metrics"].items():
            if metric["mean"] is not None and math.isfinite(metric["mean"]):
                largest[name] = max(largest.get(name, 0.0), abs(metric["mean"]))
    measures = main_measures(largest, single_objective)
    return [m for m in measures if m not in SHARES or largest[m.name] > 1e-9]


def kept_and_last(results: Results) -> dict[str, Metrics]:
    """Return the measures of the kept and of the last models; equal ones are stored once."""
    metrics = results["metrics"]
    return {"kept": metrics, "last": results.get("metrics_last", metrics)}


def baselines(
    results: Results | ComparisonResults | SearchResults | SearchComparisonResults,
) -> dict[str, Metrics]:
    """Return the measures of the trivial baseline and of the optimum, where they are known."""
    known = {"trivial": results.get("trivial"), "optimum": results.get("optimum")}
    return {name: metrics for name, metrics in known.items() if metrics is not None}


def regret_of(client: ClientResult) -> float | None:
    """Return a client's distance to its optimum; None where that is unknown."""
    if "optimum" not in client or client["scalarised"] is None:
        return None
    # returns are sums of float32 rewards: what is below is noise, of either sign
    return round(float(client["optimum"] - client["scalarised"]), 5)


# -- rows of comparisons -------------------------------------------------------------------


def has_data(comparison: ComparisonResults) -> bool:
    """Return whether the clients of a comparison have data, and not environments."""
    return any("dropped" in row["metrics"] for row in comparison["rows"])


def with_pooled(comparison: ComparisonResults) -> list[ComparisonRow]:
    """Return the rows; for clients with data, with the hypervolume of all seeds as one set."""
    rows: list[ComparisonRow] = [
        {**row, "metrics": dict(row["metrics"])} for row in comparison["rows"]
    ]
    if has_data(comparison):
        for row in rows:
            metric: Spread = {"mean": row["pooled"]["hypervolume"], "std": None}
            row["metrics"]["pooled_hypervolume"] = metric
    return rows


def display_names(rows: Sequence[AlgorithmRow]) -> dict[str, str]:
    """Return the names that readers see of a comparison's algorithms.

    Algorithms that pool data are marked as centralised; an encoding stands at the end. Files in
    settings are shown without their directories, and tuned settings as ``[tuned]``, where this
    leaves all names different.
    """
    names = {row["algorithm"]: _shown(str(row.get("label", row["algorithm"]))) for row in rows}
    if len(set(names.values())) < len(names):
        names = {name: name for name in names}
    pooled = {row["algorithm"]: row.get("centralised", False) for row in rows}
    return {name: shown + " (centralised)" * pooled[name] for name, shown in names.items()}


def _shown(entry: str) -> str:
    """Return an entry as readers see it: ``fedavg[encoding=int8]`` as ``fedavg, int8``."""
    entry = re.sub(r"=[^,\]]*/", "=", entry)
    entry = re.sub(r"\[encoding=(\w+)\]$", r", \1", entry)
    return re.sub(r",encoding=(\w+)\]$", r"], \1", entry)


def by_preferences(rows: Sequence[ComparisonRow]) -> list[ComparisonRow]:
    """Return the rows of a comparison sorted by preference distribution, in order of appearance."""
    kinds = list(dict.fromkeys(row["preferences"] for row in rows))
    return sorted(rows, key=lambda row: kinds.index(row["preferences"]))


def has_several_preferences(rows: Sequence[ComparisonRow]) -> bool:
    """Return whether the rows of a comparison are of several preference distributions."""
    return len({row["preferences"] for row in rows}) > 1


def with_progress(
    rows: Sequence[SearchRow], percents: Iterable[int]
) -> tuple[list[Measure], list[SearchRow]]:
    """Return the measures and rows of a comparison of searches, with intermediate hypervolumes.

    Each of ``percents`` adds the hypervolume after that part of the iterations, in per cent.
    """
    extended: list[SearchRow] = [{**row, "metrics": dict(row["metrics"])} for row in rows]
    measures = []
    for percent in percents:
        name = f"hypervolume_{percent}"
        measures.append(Measure(name, f"hypervolume after {percent}\u00a0%", "higher"))
        for row in extended:
            index = math.ceil(len(row["growth"]) * percent / 100) - 1
            row["metrics"][name] = row["growth"][index]["hypervolume"]
    return [*measures, *compared_measures(rows)], extended


@dataclass(frozen=True)
class Cell:
    """A cell of a comparison, as readers see it."""

    text: str
    best: bool = False
    """The best of its column and preference distribution, and better than the trivial baseline."""
    below: bool = False
    """Worse than the trivial baseline."""


def compared_cells(
    rows: Sequence[MeasuredRow], measures: Sequence[Measure], trivial: Metrics | None = None
) -> list[list[Cell]]:
    """Return the cells of a comparison, one row each and one cell per measure: mean ± std.

    Args:
        rows: The rows of a comparison of algorithms or of searches.
        measures: The measures, one per column.
        trivial: Measures of the trivial baseline, for rows that have none of their own.
    """
    columns = [_column(rows, measure, trivial or {}) for measure in measures]
    return [list(cells) for cells in zip(*columns, strict=True)] or [[] for _ in rows]


def _column(rows: Sequence[MeasuredRow], measure: Measure, trivial: Metrics) -> list[Cell]:
    """Return the cells of one measure; each preference distribution has a best of its own.

    Searches have no distribution: all of them are compared together.
    """
    scores = [_score(row, measure) for row in rows]
    standings = [_standing(row, measure, trivial) for row in rows]
    kinds = [row.get("preferences") for row in rows]
    highest: dict[object, float] = {}
    for kind, score in zip(kinds, scores, strict=True):
        if score is not None:
            highest[kind] = max(score, highest.get(kind, -math.inf))
    return [
        Cell(
            _mean(row, measure),
            score is not None and standing > 0 and math.isclose(score, highest[kind], rel_tol=1e-9),
            standing < 0,
        )
        for row, kind, score, standing in zip(rows, kinds, scores, standings, strict=True)
    ]


def _mean(row: MeasuredRow, measure: Measure) -> str:
    """Return a row's mean ± standard deviation over seeds."""
    return mean_and_std(row["metrics"][measure.name]) if measure.name in row["metrics"] else "–"


def _standing(row: MeasuredRow, measure: Measure, trivial: Metrics) -> int:
    """Return 1, 0 or -1: whether a row is better than, level with or worse than trivial.

    Without a trivial value every row is better. The trivial baseline's pooled hypervolume is at
    least its hypervolume, which takes its place.
    """
    score = _score(row, measure)
    values = cast(Metrics, row.get("trivial", trivial))
    known: dict[str, Spread] = {name: {"mean": v, "std": None} for name, v in values.items()}
    if "hypervolume" in known:
        known["pooled_hypervolume"] = known["hypervolume"]
    line = _score({"metrics": known}, measure)
    if score is None or line is None:
        return 1
    if math.isclose(score, line, rel_tol=1e-6, abs_tol=1e-9):
        return 0
    return 1 if score > line else -1


def _score(row: MeasuredRow, measure: Measure) -> float | None:
    """Return a row's value with the sign for which more is better; None if it does not compete."""
    metrics = row["metrics"]
    if measure.better is None or measure.name not in metrics:
        return None
    single_point = "cardinality" in metrics and metrics["cardinality"]["mean"] < 2
    if measure.name == "sparsity" and single_point:
        return None  # there are no gaps: that is no merit
    value = metrics[measure.name]["mean"]
    if value is None or not math.isfinite(value):
        return None
    return float(value if measure.better == "higher" else -value)


# -- labels and numbers --------------------------------------------------------------------


def target_label(problem: Problem) -> str:
    """Return the name of the points with the best hypervolume."""
    return "known front" if problem.known_front is not None else "reference set"


def objective_label(objective: Objective) -> str:
    """Return an objective as an axis label."""
    return f"{objective.name} ({objective.unit})" if objective.unit else objective.name


def number(value: float | None, digits: int = 4) -> str:
    """Return a readable number: about four digits, a true minus sign, a dash if unknown."""
    if value is None or not math.isfinite(value):
        return "–"
    if abs(value) < 1e-9:
        return "0"  # a sum of floats that should be nothing
    text = f"{value:,.0f}" if abs(value) >= 10 ** min(digits, 3) else f"{value:.{digits}g}"
    return text.replace("-", "−")


def with_unit(count: float, units: Sequence[str]) -> str:
    """Return a count in the unit that suits it, as 1.23 MB; each unit is 1000 of the one before."""
    left = list(units)
    while count >= 1000 and len(left) > 1:
        count, left = count / 1000, left[1:]
    return f"{count:.3g} {left[0]}".strip()


def range_text(counts: Sequence[int]) -> str:
    """Return a count, or the range of several."""
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def fold_label(name: str) -> str:
    """Return a label with settings in several lines: ``fedpref`` over ``[clustering=false]``."""
    if len(name) <= 16:
        return name
    return name.replace("[", "\n[").replace(" (", "\n(").replace(",", ",\n")


def vector(values: Iterable[float]) -> str:
    """Return an objective vector as text."""
    return f"({', '.join(number(value) for value in values)})"


def mean_and_std(metric: Spread | PrintedValue, digits: int = 4, factor: float = 1.0) -> str:
    """Return mean ± standard deviation over seeds; the mean alone where there is no spread.

    Args:
        metric: Mean and standard deviation, None where unknown.
        digits: Digits of the mean.
        factor: What both are multiplied by, such as 100 for per cent.
    """
    mean, std = metric["mean"], metric.get("std")
    text = number(None if mean is None else factor * mean, digits)
    return text if std is None else f"{text} ± {number(factor * std, 2)}"


def preference_text(preference: Sequence[float]) -> str:
    """Return a preference as text, two digits per weight."""
    return "  ".join(f"{weight:.2f}" for weight in preference)


# -- tables of pictures --------------------------------------------------------------------

PICTURE_HEADINGS = {
    "accuracy": "accuracy, %",
    "before": "before, %",
    "after": "after, %",
    "seconds": "seconds",
    "seconds_per_round": "seconds per round",
    "seconds_to_stable": "seconds to stable",
    "accuracy_when_stable": "when stable, %",
}
"""Names of the measures in tables of pictures; accuracies are shown in per cent."""


def percent(measure: str) -> float:
    """Return by what a measure is multiplied for readers: 100 for an accuracy."""
    return 100.0 if PICTURE_HEADINGS[measure].endswith("%") else 1.0
