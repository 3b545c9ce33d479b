"""Verdicts on searches, against values computed by hand."""

from __future__ import annotations

from typing import Any

from comity.searches.verdict import search_verdict


def results(value: float, trivial: float, **others: Any) -> Any:
    return {
        "front": [{}, {}],
        "candidates": 8,
        "metrics": {"hypervolume": value},
        "trivial": {"hypervolume": trivial},
        **others,
    }


def test_a_search_stands_beside_random_weights_and_trivial() -> None:
    control = {"metrics": {"hypervolume": 980.0}}
    verdict = search_verdict(results(990.0, 1.0, control=control))
    assert verdict["sentences"] == [
        "2 of the models of 8 candidates are dominated by no other.",
        "Their hypervolume is 990, more than that of the trivial baseline (1) and more than that "
        "of random weights (980).",
        "One seed decides nothing: compare generators over several seeds.",
    ]
    assert (verdict["points"], verdict["trivial"], verdict["control"]) == (2, "better", "better")
    close = search_verdict(results(980.5, 1.0, control=control))
    assert close["control"] == "level"


def test_a_search_without_a_control() -> None:
    verdict = search_verdict(results(0.5, 0.9))
    assert verdict["trivial"] == "worse"
    assert "control" not in verdict
    assert "less than that of the trivial baseline (0.9)." in verdict["sentences"][1]
