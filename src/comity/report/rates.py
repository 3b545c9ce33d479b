"""Texts of rates with their intervals, and of the gaps between groups."""

from __future__ import annotations

from collections.abc import Iterator

from comity.report.measures import number
from comity.runs.group_schema import Attribute, Gap, Measured, Rate

GAPS = {
    "demographic_parity_difference": "demographic parity difference",
    "equal_opportunity_difference": "equal opportunity difference",
    "equalised_odds_difference": "equalised odds difference",
}
"""Gaps between the values of an attribute, with their names."""
INTERVALS = "Brackets: intervals of 95 %"


def rate_text(rate: Rate) -> str:
    """Return a rate with its interval in brackets: ``0.731 (0.70–0.76)``."""
    value, low, high = rate["value"], rate["low"], rate["high"]
    if value is None or low is None or high is None:
        return number(value, 3)
    between = "–" if low >= 0 else " to "
    return f"{value:.3f} ({low:.2f}{between}{high:.2f})".replace("-", "−")


def gaps_of(attribute: Attribute) -> dict[str, Gap]:
    """Return the gaps between the values of an attribute, in the order of `GAPS`."""
    return {
        "demographic_parity_difference": attribute["demographic_parity_difference"],
        "equal_opportunity_difference": attribute["equal_opportunity_difference"],
        "equalised_odds_difference": attribute["equalised_odds_difference"],
    }


def gap_sentences(measured: Measured) -> Iterator[str]:
    """Yield a sentence per attribute with the gaps between its values."""
    for name, attribute in measured["attributes"].items():
        gaps = [f"{GAPS[key]} {_gap_text(gap)}" for key, gap in gaps_of(attribute).items()]
        ratio = number(attribute["demographic_parity_ratio"]["value"], 3)
        yield f"{name}: {', '.join(gaps)}, demographic parity ratio {ratio}."


def _gap_text(gap: Gap) -> str:
    """Return a gap with its interval; what is undefined has its reason."""
    return f"undefined ({gap['reason']})" if gap["value"] is None else rate_text(gap)
