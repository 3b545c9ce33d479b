"""The document of a comparison: entries, their differences pair by pair, their vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, cast

import numpy as np

from comity.core.typing import FloatArray
from comity.errors import UserError
from comity.explore.arrays import packed, rounded
from comity.explore.items import Item
from comity.explore.run_document import RunView, known_front, problem_of
from comity.explore.search_document import measure_of
from comity.explore.states import quoted, state_of
from comity.report.captions import comparison_caption
from comity.report.gains import gains_caption
from comity.report.measures import baselines, compared_measures, display_names, has_single_objective
from comity.report.names import client_names
from comity.report.series.learning import Runs, learning_curves, y_label
from comity.report.table_files import comparison_csv, comparison_latex
from comity.runs.compare import Comparison, open_comparison
from comity.runs.comparison_verdict import counts_of
from comity.runs.differences import correct, difference, seed_pairs, tested
from comity.runs.directory import Run
from comity.runs.schema import ComparisonResults, Difference
from comity.runs.spreads import spread_of
from comity.version import __version__

_NOTHING: dict[str, Any] = {
    **dict.fromkeys(("problem", "verdict", "known_front", "trivial_point"), None),
    **{key: [] for key in ("sampled", "measures", "entries", "differences", "curves", "vectors")},
    **dict.fromkeys(("curve_label", "caption", "gains_caption"), ""),
    "baselines": {},
}
"""What is known of a comparison that is not finished."""


def comparison_document(item: Item, children: Sequence[Item]) -> dict[str, Any]:
    """Return the document of a comparison.

    Args:
        item: The comparison.
        children: Its runs.
    """
    item.check_links()
    for child in children:
        child.check_links()
    done = sum(child.finished for child in children)
    path = quoted(item.path)
    head = {
        "kind": "comparison",
        "id": item.id,
        "path": str(item.path),
        "version": __version__,
        "state": state_of(item, done, len(children), (0, 0), None),
        "commands": {
            "resume": None if item.finished else f"comity resume {path}",
            "report": f"comity report {path}",
            "explore": f"comity explore {path}",
        },
    }
    if not item.finished:
        return {**head, "title": item.path.name, **_NOTHING}
    comparison = open_comparison(item.path)
    ids = {child.path.resolve(): child.id for child in children}
    title = f"Comparison on {comparison.results['problem']}"
    return {**head, "title": title, **_body(comparison.results, comparison.runs, ids)}


def compared(views: Sequence[RunView]) -> dict[str, Any]:
    """Return a comparison of finished runs that were made one by one; nothing is written.

    Runs with the same algorithm and preferences are one entry, one per seed.

    Args:
        views: The runs, of one problem.
    """
    if len(views) < 2:
        raise UserError("ids: a comparison takes at least two runs.")
    for view in views:
        if view.results is None:
            raise UserError(f"ids: {view.item.id} is not a finished run.")
    problems = sorted({view.problem.name for view in views})
    if len(problems) > 1:
        raise UserError(f"ids: runs of one problem can be compared, not of {', '.join(problems)}.")
    runs: dict[tuple[str, str], list[Run]] = {}
    for view in views:
        configuration, preferences = view.configuration, str(view.configuration.preferences)
        key = configuration.label, preferences
        seeds = [run.configuration.seed for run in runs.get(key, [])]
        if configuration.seed in seeds:  # other settings: an entry of its own
            key = f"{configuration.label} ({view.item.id})", preferences
        runs.setdefault(key, []).append(view.run)
    ids = {view.item.path.resolve(): view.item.id for view in views}
    return {
        "kind": "comparison",
        "id": None,
        "path": None,
        "version": __version__,
        "state": None,
        "commands": {},
        "title": f"Chosen runs on {problems[0]}",
        **_body(_table(problems[0], runs), runs, ids),
    }


def table_text(item: Item, format: str) -> str:
    """Return the tables of a finished comparison as text.

    Args:
        item: The comparison.
        format: csv or latex.
    """
    writers = {"csv": comparison_csv, "latex": comparison_latex}
    if format not in writers:
        raise UserError(f"format = {format}: must be one of {', '.join(writers)}.")
    if item.kind != "comparison":
        raise UserError(f"id = {item.id}: only a comparison of runs has tables.")
    comparison: Comparison = open_comparison(item.path)
    return writers[format](comparison.results)


def _table(problem: str, runs: Runs) -> ComparisonResults:
    """Return the table of runs, as far as it needs no common reference set."""
    rows: Any = [
        {
            "algorithm": entry,
            "preferences": preferences,
            "centralised": same[0].configuration.get_algorithm().centralised,
            "seeds": [run.configuration.seed for run in same],
            "metrics": spread_of([run.results["metrics"] for run in same]),
            **counts_of(same),
            "runs": [],
        }
        for (entry, preferences), same in runs.items()
    ]
    first = next(iter(runs.values()))[0].results
    known: Any = {key: first[key] for key in ("trivial", "optimum") if key in first}
    table: Any = {
        "problem": problem,
        "reference_point": first["reference_point"],
        "rows": rows,
        **known,
    }
    return cast(ComparisonResults, table)


def _body(results: ComparisonResults, runs: Runs, ids: Mapping[Any, str]) -> dict[str, Any]:
    rows, keys = results["rows"], list(runs)
    names = display_names(rows)
    measures = compared_measures(rows, has_single_objective(results))
    first = runs[keys[0]][0]
    problem = first.configuration.get_problem()
    objectives = [objective.name for objective in problem.objectives]
    trivial = results.get("trivial", {})
    curves = learning_curves(results, runs)
    return {
        "sampled": [],
        "problem": problem_of(problem),
        "verdict": results.get("verdict"),
        "measures": [measure_of(measure) for measure in measures],
        "entries": [
            {
                "entry": row["algorithm"],
                "label": names[row["algorithm"]],
                "preferences": row["preferences"],
                "seeds": row["seeds"],
                "runs": [ids.get(run.path.resolve()) for run in runs[key]],
                "centralised": row["centralised"],
                "metrics": {
                    name: {
                        **spread,
                        "each": [run.results["metrics"].get(name) for run in runs[key]],
                    }
                    for name, spread in row["metrics"].items()
                },
                "marks": row.get("marks"),
                "trivial": row.get("trivial"),
            }
            for row, key in zip(rows, keys, strict=True)
        ],
        "baselines": baselines(results),
        "differences": _differences(runs, results),
        "curves": [
            {
                "entry": keys.index(key),
                "steps": rounded(curve.steps),
                "mean": rounded(curve.mean),
                "std": rounded(curve.std),
            }
            for key, curve in curves.items()
        ],
        "curve_label": y_label(runs),
        "vectors": [
            {
                "entry": place,
                "seed": run.configuration.seed,
                "run": ids.get(run.path.resolve()),
                "name": client_names(run.results),
                "objectives": packed(run.vectors),
                "preference": packed([c["preference"] for c in run.results["per_client"]]),
                "scalarised": [c["scalarised"] for c in run.results["per_client"]],
            }
            for place, key in enumerate(keys)
            for run in runs[key]
        ],
        "known_front": known_front(problem),
        "trivial_point": [trivial[name] for name in objectives]
        if set(objectives) <= trivial.keys()
        else None,
        "caption": comparison_caption(results, runs),
        "gains_caption": gains_caption(results),
    }


def _differences(runs: Runs, results: ComparisonResults) -> list[dict[str, Any]]:
    """Return the gain of each entry over each earlier one under the same preferences.

    p after Holm's correction is that of the comparison's own tests, or of all pairs here.
    """
    pairs: dict[tuple[str, str, str], Difference] = {}
    places: dict[tuple[str, str, str], tuple[int, int]] = {}
    for (j, other), (i, entry) in combinations(enumerate(runs), 2):
        if entry[1] == other[1]:
            gain = difference(runs[entry], runs[other])
            if gain is not None:
                key = entry[1], entry[0], other[0]
                pairs[key], places[key] = gain, (i, j)
    correct(pairs)
    recorded = {
        (row["preferences"], frozenset((row["algorithm"], other))): gain
        for row in results["rows"]
        for other, gain in row.get("paired", {}).items()
    }
    keys = list(runs)
    lines = []
    for key, gain in pairs.items():
        i, j = places[key]
        printed = recorded.get((key[0], frozenset(key[1:])), gain)
        lines.append(
            {
                "entry": i,
                "over": j,
                **{name: gain[name] for name in ("mean", "std", "each")},
                "interval": gain.get("interval"),
                "p": gain.get("p"),
                "p_holm": printed.get("p_holm"),
                "counts": gain.get("clients"),
                **_by_client(runs[keys[i]], runs[keys[j]]),
            }
        )
    return lines


def _by_client(runs: Sequence[Run], others: Sequence[Run]) -> dict[str, Any]:
    """Return the difference of each client's value, seed by seed, and its interval over seeds."""
    pairs = seed_pairs(runs, others)
    seeds = [run.configuration.seed for run, _ in pairs]
    sizes = {len(run.results["per_client"]) for pair in pairs for run in pair}
    if len(sizes) != 1:
        return {"seeds": seeds, "clients": None}
    each = np.array([_values(run) - _values(other) for run, other in pairs]).round(6)
    intervals = [tested(column)[0] if np.isfinite(column).all() else None for column in each.T]
    known = any(interval is not None for interval in intervals)
    clients = {
        "name": client_names(pairs[0][0].results),
        "each": packed(each),
        "mean": rounded(each.mean(axis=0)),
        "low": [interval and interval[0] for interval in intervals] if known else None,
        "high": [interval and interval[1] for interval in intervals] if known else None,
    }
    return {"seeds": seeds, "clients": clients}


def _values(run: Run) -> FloatArray:
    return np.array([row["scalarised"] for row in run.results["per_client"]], dtype=float)
