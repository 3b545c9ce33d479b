"""Whole numbers near wanted shares, and rows distributed by such numbers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from comity.core.typing import BoolArray, FloatArray, IntArray
from comity.errors import UserError

PARTS = 3
"""Number of a client's parts: training, validation and test."""


def apportion(quotas: FloatArray, least: IntArray) -> IntArray:
    """Return whole numbers near ``quotas`` (strata x receivers), each stratum with its total kept.

    What rounding owes a receiver in one stratum is made up in the next ones, so the receivers'
    totals are right, too.

    Args:
        quotas: Wanted numbers, not whole; each row sums to a whole number.
        least: Lowest number per receiver, one per stratum; the receiver with most gives.
    """
    counts = np.zeros(quotas.shape, dtype=np.int64)
    owed = np.zeros(quotas.shape[1])
    for row, quota, floor in zip(counts, quotas, least, strict=True):
        row[:] = np.floor(quota + 1e-9)
        over = round(quota.sum()) - row.sum()
        row[np.argsort(row - quota - owed, kind="stable")[:over]] += 1
        while row.min() < floor:
            poorest, richest = row.argmin(), row.argmax()
            row[poorest] += 1
            row[richest] -= 1
        owed += quota - row
    return counts


def distribute(rows: IntArray, stratum_of: IntArray, counts: IntArray) -> list[IntArray]:
    """Return each receiver's rows.

    Args:
        rows: Rows to distribute, in the order in which they are handed out.
        stratum_of: Stratum of every row of the data, numbered from 0.
        counts: Number of rows of each stratum per receiver (strata x receivers).
    """
    piles = [
        np.split(rows[stratum_of[rows] == stratum], np.cumsum(row))[:-1]  # the rest is left over
        for stratum, row in enumerate(counts)
    ]
    return [np.concatenate(pile) for pile in zip(*piles, strict=True)]


def set_aside(rows: IntArray, stratum_of: IntArray, fractions: FloatArray) -> list[IntArray]:
    """Return training rows without those set aside, and these, with the same mixture; sorted.

    Args:
        rows: All training rows, in random order.
        stratum_of: Stratum of every row of the data, numbered from 0.
        fractions: Relative sizes of the two parts.
    """
    counts = np.bincount(stratum_of[rows], minlength=1)
    quotas = counts[:, None] * fractions / fractions.sum()
    nothing = np.zeros(len(counts), dtype=np.int64)
    return [np.sort(part) for part in distribute(rows, stratum_of, apportion(quotas, nothing))]


def divide(
    owner: str,
    rows: IntArray,
    stratum_of: IntArray,
    members: Mapping[str, BoolArray],
    fractions: FloatArray,
) -> list[IntArray]:
    """Divide a client's rows among its three parts, stratum by stratum; each part is sorted.

    Every part gets a row for each need, from the part that has most. So does a part that would be
    empty: three rows are enough.

    Args:
        owner: The client, for messages.
        rows: Its rows, in random order.
        stratum_of: Stratum of every row of the data, numbered from 0.
        members: Which rows of the data meet each need, by the need's name.
        fractions: Shares of the parts, which sum to one.
    """
    if len(rows) < PARTS:
        raise UserError(
            f"partition: {owner} gets {len(rows)} rows, too few to train, validate and test; have "
            "fewer clients, more equal sizes or a less skewed partition."
        )
    members = {**members, "any kind": np.broadcast_to(np.True_, stratum_of.shape)}
    counts = np.bincount(stratum_of[rows])
    nothing = np.zeros(len(counts), dtype=np.int64)
    parts = distribute(rows, stratum_of, apportion(counts[:, None] * fractions, nothing))
    for _ in range(PARTS * len(members) + 1):  # a move may leave another need open, so again
        unmet = [
            (name, part)
            for name, member in members.items()
            for part in range(PARTS)
            if not member[parts[part]].any()
        ]
        if not unmet:
            break
        name, part = unmet[0]
        richest = max(range(PARTS), key=lambda other: members[name][parts[other]].sum())
        _move(parts, richest, part, members, name)
    else:
        raise UserError(f"partition: {owner} has too few rows of '{unmet[0][0]}' for its parts.")
    return [np.sort(part) for part in parts]


def _move(
    parts: list[IntArray], giver: int, taker: int, members: Mapping[str, BoolArray], need: str
) -> None:
    """Move one row that meets a need, at best one that its part can spare for all other needs."""
    rows = parts[giver]
    candidates = np.flatnonzero(members[need][rows])
    scarcity = [
        sum(member[rows[index]] and member[rows].sum() < 2 for member in members.values())
        for index in candidates
    ]
    index = candidates[int(np.argmin(scarcity))]
    parts[taker] = np.append(parts[taker], rows[index])
    parts[giver] = np.delete(rows, index)
