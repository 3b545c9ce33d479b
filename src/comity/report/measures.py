"""How measures are named, ordered, compared and printed, the same in tables, figures and pages."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from comity.problems import Problem


@dataclass(frozen=True)
class Measure:
    """A measure as readers see it; ``better`` is None where neither direction is a merit."""

    name: str
    label: str
    better: Literal["higher", "lower"] | None = None

    @property
    def arrow(self) -> str:
        return {"higher": " ↑", "lower": " ↓", None: ""}[self.better]


MEASURES = (
    Measure("mean_regret", "mean regret", "lower"),
    Measure("mean_scalarised", "mean scalarised", "higher"),
    Measure("pooled_hypervolume", "pooled hypervolume", "higher"),
    Measure("hypervolume", "hypervolume", "higher"),
    Measure("strict_hypervolume", "strict hypervolume", "higher"),
    Measure("own_hypervolume", "hypervolume per client", "higher"),
    Measure("igd", "IGD", "lower"),
    Measure("sparsity", "sparsity", "lower"),
    Measure("cardinality", "cardinality", "higher"),
    Measure("expected_utility", "expected utility", "higher"),
)
OVER_HOST = "over host"
"""The heading above how much better a wrapped algorithm is."""
MAIN = MEASURES[:9]
"""The measures that comparisons show."""
HYPERVOLUMES = MEASURES[2:6]
SHARES = (Measure("dropped", "dropped"), Measure("undefined", "undefined"))
"""Which part of the clients counts for no front; only clients with data have these."""


def single(results: Mapping[str, Any]) -> bool:
    """Whether a run or a comparison has one objective, and so no front and no preferences."""
    return len(results["reference_point"]) == 1


def present(names: Iterable[str], alone: bool = False) -> list[Measure]:
    """The measures that somebody has: the best known, then objectives by their own names.

    An objective that is ``alone`` needs no measures of fronts, and no scalarisation.
    """
    names = dict.fromkeys(names)
    # the constant classifier has a column of its own
    known = {measure.name for measure in MEASURES + SHARES} | {"trivial_hypervolume"}
    own = [Measure(n, n.replace("_", " "), "higher") for n in names if n not in known]
    if alone:
        return own or [measure for measure in MEASURES[:2] if measure.name in names]
    return [
        *(measure for measure in MEASURES if measure.name in names),
        *own,
        *(measure for measure in SHARES if measure.name in names),
    ]


def main(names: Iterable[str], alone: bool = False) -> list[Measure]:
    """Those that a reader looks for first; for clients with data, objectives are among them."""
    found = present(names, alone)
    if alone:
        return found
    if any(measure in SHARES for measure in found):
        shown = [m for m in found if not m.name.startswith("global_")]
        return [m for m in shown if m in HYPERVOLUMES or m not in MEASURES]
    return [m for m in found if m in MAIN]


def compared(rows: Sequence[Mapping[str, Any]], alone: bool = False) -> list[Measure]:
    """The main measures that at least one row of a comparison has, and shares if one has any."""
    means: dict[str, float] = {}
    for row in rows:
        for name, metric in row["metrics"].items():
            if metric["mean"] is not None and math.isfinite(metric["mean"]):
                means[name] = max(means.get(name, 0.0), abs(metric["mean"]))
    return [m for m in main(means, alone) if m not in SHARES or means[m.name] > 1e-9]


def has_data(comparison: Mapping[str, Any]) -> bool:
    """Whether the clients of a comparison have data, and not environments."""
    return any("dropped" in row["metrics"] for row in comparison["rows"])


def with_pooled(comparison: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows; where clients have data, with the hypervolume of all seeds' clients as one set."""
    rows = [{**row, "metrics": dict(row["metrics"])} for row in comparison["rows"]]
    if has_data(comparison):
        for row in rows:
            metric = {"mean": row["pooled"]["hypervolume"], "std": None}
            row["metrics"]["pooled_hypervolume"] = metric
    return rows


def shown_names(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What readers see of a comparison's algorithms: one that pools data is no federation.

    Of files in settings they see the names without the directories, if these tell them apart.
    """
    names = {row["algorithm"]: re.sub(r"=[^,\]]*/", "=", row["algorithm"]) for row in rows}
    if len(set(names.values())) < len(names):
        names = {name: name for name in names}
    pooled = {row["algorithm"]: row.get("centralised", False) for row in rows}
    return {name: shown + " (centralised)" * pooled[name] for name, shown in names.items()}


def arranged(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows of a comparison, one preference distribution after the other."""
    kinds = list(dict.fromkeys(row["preferences"] for row in rows))
    return sorted(rows, key=lambda row: kinds.index(row["preferences"]))


def graded(
    rows: Sequence[Mapping[str, Any]], percents: Iterable[int]
) -> tuple[list[Measure], list[dict[str, Any]]]:
    """The measures and rows of a comparison of searches, with how good they were on the way.

    That is their hypervolume after parts of their iterations, in per cent.
    """
    extended = [{**row, "metrics": dict(row["metrics"])} for row in rows]
    measures = []
    for percent in percents:
        name = f"hypervolume_{percent}"
        measures.append(Measure(name, f"hypervolume after {percent}\u00a0%", "higher"))
        for row in extended:
            place = math.ceil(len(row["growth"]) * percent / 100) - 1
            row["metrics"][name] = row["growth"][place]["hypervolume"]
    return [*measures, *compared(rows)], extended


def target_label(problem: Problem) -> str:
    """What the best hypervolume is that of."""
    return "known front" if problem.known_front is not None else "reference set"


def number(value: float | None, digits: int = 4) -> str:
    """A number as people read it: about four digits, a true minus sign, a dash if unknown."""
    if value is None or not math.isfinite(value):
        return "–"
    if abs(value) < 1e-9:
        return "0"  # a sum of floats that should be nothing
    text = f"{value:,.0f}" if abs(value) >= 10 ** min(digits, 3) else f"{value:.{digits}g}"
    return text.replace("-", "−")


def scaled(count: float, units: Sequence[str]) -> str:
    """A large count in the unit, each a thousand of the one before, that suits it: 1.23 MB."""
    left = list(units)
    while count >= 1000 and len(left) > 1:
        count, left = count / 1000, left[1:]
    return f"{count:.3g} {left[0]}".strip()


def extent(counts: Sequence[int]) -> str:
    """A count, or the range of several."""
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def folded(name: str) -> str:
    """A label with settings in two lines or more: ``fedpref`` over ``[clustering=false]``."""
    if len(name) <= 16:
        return name
    return name.replace("[", "\n[").replace(" (", "\n(").replace(",", ",\n")


def vector(values: Iterable[float]) -> str:
    """A point among the objectives."""
    return f"({', '.join(number(value) for value in values)})"


def spread(metric: Mapping[str, float | None]) -> str:
    """Mean ± standard deviation over seeds; the mean alone where one seed has no spread."""
    mean, std = metric["mean"], metric.get("std")
    return number(mean) if std is None else f"{number(mean)} ± {number(std, 2)}"


def pairings(rows: Sequence[Mapping[str, Any]], alone: bool) -> list[str]:
    """Headings of the differences that a comparison shows.

    They are over the host and, where one objective leaves room for it, over each baseline.
    """
    found = [OVER_HOST] if any("host" in row for row in rows) else []
    for row in rows if alone else ():
        found += [f"over {name}" for name in row.get("paired", {}) if name != row.get("host")]
    return list(dict.fromkeys(found))


def paired(row: Mapping[str, Any], heading: str) -> str:
    """How much better an algorithm is than another: mean ± std of the differences."""
    other = row.get("host") if heading == OVER_HOST else heading.removeprefix("over ")
    difference = row.get("paired", {}).get(other)
    if difference is None:
        return "–"
    sign = "+" if difference["mean"] > 0 else ""
    return f"{sign}{number(difference['mean'], 2)} ± {number(difference['std'], 2)}"


def best(rows: Sequence[Mapping[str, Any]], measure: Measure) -> list[bool]:
    """Which rows of a comparison are best; preference distributions are judged apart.

    Searches have none: all of them are judged together.
    """
    scores = [(row.get("preferences"), _score(row, measure)) for row in rows]
    tops: dict[str | None, float] = {}
    for kind, score in scores:
        if score is not None:
            tops[kind] = max(score, tops.get(kind, -math.inf))
    return [
        score is not None and math.isclose(score, tops[kind], rel_tol=1e-9)
        for kind, score in scores
    ]


def starred(rows: Sequence[Mapping[str, Any]], measures: Sequence[Measure]) -> list[list[str]]:
    """The cells of a comparison, one a measure: mean ± std, a star before the best."""
    marks = [best(rows, measure) for measure in measures]
    return [
        [
            ("★ " if own[place] else "")
            + (spread(row["metrics"][measure.name]) if measure.name in row["metrics"] else "–")
            for measure, own in zip(measures, marks, strict=True)
        ]
        for place, row in enumerate(rows)
    ]


def _score(row: Mapping[str, Any], measure: Measure) -> float | None:
    """A row's value turned so that more is better; None if it takes no part."""
    metrics = row["metrics"]
    if measure.better is None or measure.name not in metrics:
        return None
    if measure.name == "sparsity" and metrics.get("cardinality", {"mean": 2})["mean"] < 2:
        return None  # a single point has no gaps: that is no merit
    value = metrics[measure.name]["mean"]
    if value is None or not math.isfinite(value):
        return None
    return float(value if measure.better == "higher" else -value)
