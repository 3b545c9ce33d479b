"""The verdict on a comparison, in words: who gained, whether federating paid, how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from comity.runs.alone import ALONE, is_alone, worse_texts
from comity.runs.differences import ENOUGH_SEEDS
from comity.runs.directory import Run
from comity.runs.schema import ComparisonRow, ComparisonVerdict, Difference, Mark
from comity.runs.verdict import MARKS, TOLERANCE, compare_values

_MOST = 6  # entries of which a sentence speaks
_SURE = 0.05


def counts_of(runs: Sequence[Run]) -> dict[str, Any]:
    """Return what the verdicts of several runs count, for a row of the comparison.

    ``marks``: clients with each mark; ``unmixed``: rounds in which nothing could be mixed, if any.
    Nothing for runs of an older version, which have no marks.

    Args:
        runs: The runs of an entry.
    """
    if not all("verdict" in run.results for run in runs):
        return {}
    verdicts = [run.results["verdict"] for run in runs]
    marks = {mark: sum(verdict["counts"][mark] for verdict in verdicts) for mark in MARKS}
    unmixed = sum(verdict.get("unmixed", 0) for verdict in verdicts)
    return {"marks": marks, **({"unmixed": unmixed} if unmixed else {})}


def comparison_verdict(rows: Sequence[ComparisonRow], tests: int) -> ComparisonVerdict:
    """Return the verdict on a comparison.

    Args:
        rows: Its rows, with marks and paired differences.
        tests: The number of paired tests.
    """
    seeds = min(len(row["seeds"]) for row in rows)
    several = len({row["preferences"] for row in rows}) > 1

    def name(row: ComparisonRow) -> str:
        shown = row.get("label", row["algorithm"])
        return f"{shown} ({row['preferences']})" if several else shown

    sentences = [
        *_mark_texts(rows, name),
        *_unmixed_text(rows, name),
        *_below_text(rows, name),
        *_paid_texts(rows, name),
        *worse_texts(rows, name)[:_MOST],
        *_seeds_text(seeds),
    ]
    if tests > 1:
        sentences.append(
            f"{tests} paired t-tests were made; p after Holm's correction accounts for that."
        )
    return {
        "sentences": sentences,
        "tolerance": TOLERANCE,
        "seeds": seeds,
        "tests": tests,
        "enough_seeds": seeds >= ENOUGH_SEEDS,
    }


Name = Callable[[ComparisonRow], str]


def _mark_texts(rows: Sequence[ComparisonRow], name: Name) -> list[str]:
    """Return how many clients of each row gained over the trivial baseline, or are constant."""
    texts = []
    starts: dict[Mark, str] = {
        "gained": "Clients that gained over the trivial baseline",
        "constant": "Clients whose model gives every test sample the same answer",
    }
    seeds = max(len(row["seeds"]) for row in rows)
    each = f" (each counts once per seed, {seeds} times)" if seeds > 1 else ""
    for mark, start in starts.items():
        known = [row for row in rows if "marks" in row]
        if mark == "constant":
            known = [row for row in known if row["marks"]["constant"]]
        parts = [
            f"{name(row)} {row['marks'][mark]} of {sum(row['marks'].values())}" for row in known
        ]
        if parts:
            texts.append(f"{start}{each}: {_some(parts)}.")
            each = ""  # said once
    return texts


def _unmixed_text(rows: Sequence[ComparisonRow], name: Name) -> list[str]:
    """Return in how many rounds of which rows nothing could be mixed."""
    parts = [f"{name(row)} {row['unmixed']}" for row in rows if "unmixed" in row]
    if not parts:
        return []
    return [f"Attention: rounds of all seeds in which nothing was mixed: {_some(parts)}."]


def _below_text(rows: Sequence[ComparisonRow], name: Name) -> list[str]:
    """Return which rows are below the trivial baseline in what clients want."""
    below = []
    for row in rows:
        value = row["metrics"].get("mean_scalarised")
        line = row.get("trivial", {}).get("mean_scalarised")
        if value is not None and line is not None and compare_values(value["mean"], line) < 0:
            below.append(name(row))
    return [f"Worse than the trivial baseline on average: {_some(below)}."] if below else []


def _paid_texts(rows: Sequence[ComparisonRow], name: Name) -> list[str]:
    """Return for each row that federates whether that paid, against learning alone."""
    federating = [row for row in rows if not is_alone(row["algorithm"])]
    if len(federating) == len(rows):
        return [f"Nobody learns alone here, so whether federating pays is open: add {ALONE}."]
    texts = []
    for row in federating:
        gain = next((g for other, g in row.get("paired", {}).items() if is_alone(other)), None)
        if gain is not None:
            texts.append((gain["mean"], f"{name(row)}: {_paid_text(row, gain)}"))
    ranked = [text for _, text in sorted(texts, key=lambda pair: -pair[0])]
    rest = len(ranked) - _MOST
    more = [f"The table of differences has {rest} more."] if rest > 0 else []
    return [*ranked[:_MOST], *more]


def _paid_text(row: ComparisonRow, gain: Difference) -> str:
    what = "pooling the data" if row["centralised"] else "federating"
    counts = gain.get("clients")
    paid = f"{what} against learning alone, "
    if counts is not None:
        total = counts["better"] + counts["level"] + counts["worse"]
        paid = (
            f"{what} paid for {counts['better']} of {total} clients against learning alone "
            f"({counts['level']} level, {counts['worse']} worse off), "
        )
    count, mean, interval = len(gain["each"]), gain["mean"], gain.get("interval")
    paid += f"mean {mean:+.3g}"
    if count == 1:
        return f"{paid}; one seed gives no interval."
    if interval is None:
        return f"{paid}, the same in all {count} seeds."
    paid += f", 95 % interval {interval[0]:.3g} to {interval[1]:.3g} over {count} seeds"
    if count < ENOUGH_SEEDS:
        return f"{paid}: too few to decide."
    p = gain.get("p_holm")
    if p is None or p >= _SURE:
        return f"{paid}: not decided."
    return f"{paid}: {'better' if mean > 0 else 'worse'} (p = {p:.2g} after Holm's correction)."


def _seeds_text(seeds: int) -> list[str]:
    if seeds >= ENOUGH_SEEDS:
        return []
    counted = "one seed decides nothing" if seeds == 1 else f"{seeds} seeds are few"
    return [f"Attention: {counted}; take at least {ENOUGH_SEEDS} before believing a difference."]


def _some(parts: Sequence[str]) -> str:
    rest = len(parts) - _MOST
    return ", ".join(parts[:_MOST]) + (f" and {rest} more" if rest > 0 else "")
