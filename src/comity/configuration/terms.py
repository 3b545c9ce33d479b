"""What a member agrees to, whoever asks: the policy of a site, and the terms of a negotiation."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from comity.configuration.files import read_toml
from comity.configuration.negotiation import Range, Value, common, in_words, read_ranges
from comity.settings import Settings, build, setting


class Policy(Settings):
    """The ``[policy]`` table of a site file: what this site agrees to, whoever asks."""

    algorithms: list[str] = setting(
        [], "algorithms allowed; empty: all that Comity has. Others, module:class, must be named"
    )
    statistics: list[str] = setting(
        ["size", "declined", "unsound", "validation"],
        "statistics that may leave beside models; others must be added by name",
    )
    least_rows: int = setting(
        0, "rows that each value of a sensitive attribute must have here", at_least=0
    )
    least_partners: int = setting(1, "other sites without which nothing leaves", at_least=0)
    at_most_epsilon: float = setting(
        0.0,
        "largest privacy.epsilon of the whole federation; 0: it need not be private",
        at_least=0,
    )
    rounds_per_day: int = setting(0, "most rounds answered in 24 hours; 0: any", at_least=0)
    bytes_per_day: int = setting(0, "most bytes that leave in 24 hours; 0: any", at_least=0)


class MemberTerms(Policy):
    """A file of terms, which stays with its member: a policy, and what may be negotiated."""

    server_keys: list[str] = setting(
        [], "fingerprints of servers that are trusted, as `comity keys` prints them; empty: any"
    )
    at_most_parameters: int = setting(
        0, "largest number of parameters that the model may have; 0: any", at_least=0
    )
    accepts: dict[str, Any] = setting(
        {}, "by negotiable field, the values accepted; a field that is missing: any"
    )

    @cached_property
    def ranges(self) -> dict[str, Range]:
        """The values accepted, by negotiable field."""
        return read_ranges(self.accepts, "accepts")


def read_terms(path: str | Path) -> MemberTerms:
    """Return a file of terms.

    Args:
        path: The file.
    """
    path = Path(path)
    terms = build(MemberTerms, read_toml(path), where=path.name)
    _ = terms.ranges  # a fault in them is one of the file
    return terms


def accepted(terms: MemberTerms, ranges: Mapping[str, Range]) -> dict[str, Range | None]:
    """Return what a member accepts of each offered range, in the offer's order; None: nothing.

    Args:
        terms: The member's terms.
        ranges: What is offered per negotiable field.
    """
    own = terms.ranges
    return {
        field: common(range, own[field]) if field in own else range
        for field, range in ranges.items()
    }


def range_faults(terms: MemberTerms, fixed: Mapping[str, Value]) -> list[str]:
    """Return a sentence per value that is not negotiable and lies outside a member's terms.

    Args:
        terms: The member's terms.
        fixed: Values by negotiable field.
    """
    return [
        f"{field} = {in_words(value)}: the terms accept {terms.ranges[field]}."
        for field, value in fixed.items()
        if field in terms.ranges and value not in terms.ranges[field]
    ]
