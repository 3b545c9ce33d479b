"""The verdict on a search: how many models it found, against random weights and trivial."""

from __future__ import annotations

from comity.runs.alone import STANDINGS
from comity.runs.alone_schema import Standing
from comity.runs.search_schema import SearchResults, SearchVerdict
from comity.runs.verdict import TOLERANCE, compare_values

_WORDS: dict[Standing, str] = {"better": "more than", "level": "level with", "worse": "less than"}


def search_verdict(results: SearchResults) -> SearchVerdict:
    """Return the verdict on a search.

    Args:
        results: Its results, with those of the control if there is one.
    """
    points, candidates = len(results["front"]), results["candidates"]
    value = results["metrics"]["hypervolume"]
    verdict: SearchVerdict = {
        "sentences": [
            f"{points} of the models of {candidates} candidates {'is' if points == 1 else 'are'} "
            "dominated by no other."
        ],
        "tolerance": TOLERANCE,
        "points": points,
        "trivial": STANDINGS[compare_values(value, results["trivial"]["hypervolume"])],
    }
    parts = [_beside(verdict["trivial"], results["trivial"]["hypervolume"], "the trivial baseline")]
    if "control" in results:
        control = results["control"]["metrics"]["hypervolume"]
        verdict["control"] = STANDINGS[compare_values(value, control)]
        parts.append(_beside(verdict["control"], control, "random weights"))
    verdict["sentences"].append(f"Their hypervolume is {value:.4g}, {' and '.join(parts)}.")
    verdict["sentences"].append("One seed decides nothing: compare generators over several seeds.")
    return verdict


def _beside(standing: Standing, value: float, whose: str) -> str:
    return f"{_WORDS[standing]} that of {whose} ({value:.4g})"
