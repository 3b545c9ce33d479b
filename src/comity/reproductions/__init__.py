"""Printed tables beside our own figures: `comity reproduce thesis-4.1`."""

from collections.abc import Callable

from comity.reproductions import fairness, federations, praffl, searches
from comity.reproductions.printed import Reproduction

TABLES: dict[str, Callable[..., Reproduction]] = {
    **dict.fromkeys(searches.TABLES, searches.reproduce_searches),
    **dict.fromkeys(federations.TABLES, federations.reproduce),
    **dict.fromkeys(fairness.TABLES, fairness.reproduce_fairness),
    **dict.fromkeys(praffl.TABLES, praffl.reproduce_praffl),
}
"""Which function reproduces which printed table."""

__all__ = ["TABLES", "Reproduction"]
