"""Differences between two entries of a comparison, paired by seed, with intervals and tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from comity.core.typing import FloatArray
from comity.runs.alone_schema import Counts
from comity.runs.directory import Run
from comity.runs.schema import Difference
from comity.runs.verdict import compare_values

PAIRED = "mean_scalarised"
"""The measure in which gains over another entry are reported."""
ENOUGH_SEEDS = 5
"""Number of seeds below which a difference is not called decided."""

BASELINES = ("no-communication", "fedavg")
"""Algorithms that every other one is compared with, seed by seed."""


def gains_of(
    entry: str,
    settings: Mapping[str, Mapping[str, Any]],
    runs: Mapping[str, Sequence[Run]],
) -> dict[str, str | dict[str, Difference]]:
    """Return the gains of an entry over its host, if wrapped, and the baselines, seed by seed.

    Where no baseline takes part, the first entry is one.

    Args:
        entry: The entry of a comparison.
        settings: The settings that each entry stands for.
        runs: The runs of each entry under one preference distribution, one per seed.
    """
    values = settings[entry]
    wrapping = ("wrapper", *values.get("wrapper", "").split(","))
    bare = {key: value for key, value in values.items() if key not in wrapping}
    # others under the same attack, whose honest clients are the same
    runs = {o: r for o, r in runs.items() if settings[o].get("attack") == values.get("attack")}
    baselines = {
        other
        for other in runs
        if settings[other]["algorithm"] in BASELINES and "wrapper" not in settings[other]
    } or {next(iter(runs))}
    host: dict[str, str] = {}
    over: dict[str, Difference] = {}
    for other, other_runs in runs.items():
        is_host = "wrapper" in values and settings[other] == bare
        if other != entry and (is_host or other in baselines):
            gain = difference(runs[entry], other_runs)
            if gain is not None:
                over[other] = gain
                host |= {"host": other} if is_host else {}
    return {**host, "paired": over} if over else {}


def difference(runs: Sequence[Run], others: Sequence[Run]) -> Difference | None:
    """Return how much better runs are than others of the same seeds; None if undefined.

    Args:
        runs: The runs of an entry, one per seed.
        others: Those of the other entry.
    """
    pairs = seed_pairs(runs, others)
    gains = []
    for run, other in pairs:
        ours, theirs = (r.results["metrics"].get(PAIRED) for r in (run, other))
        if ours is None or theirs is None:  # a score that is undefined for all clients
            return None
        gains.append(ours - theirs)
    if not gains:
        return None
    each = np.round(gains, 6)  # as exact as returns and scores are
    interval, p = tested(each)
    gain: Difference = {
        "mean": float(each.mean()),
        "std": float(each.std()),
        "each": each.tolist(),
        "interval": interval,
        "p": p,
    }
    counts = [_clients(run, other) for run, other in pairs]
    known = [count for count in counts if count is not None]
    if len(known) == len(counts):
        gain["clients"] = {
            "better": sum(count["better"] for count in known),
            "level": sum(count["level"] for count in known),
            "worse": sum(count["worse"] for count in known),
        }
    return gain


def seed_pairs(runs: Sequence[Run], others: Sequence[Run]) -> list[tuple[Run, Run]]:
    """Return runs of two entries that have the same seed."""
    by_seed = {run.configuration.seed: run for run in others}
    return [(run, by_seed[seed]) for run in runs if (seed := run.configuration.seed) in by_seed]


def tested(each: FloatArray) -> tuple[list[float] | None, float | None]:
    """Return Student's 95 % interval and the p of a paired t-test; None without any spread.

    Args:
        each: The differences.
    """
    count, mean = len(each), float(each.mean())
    error = float(each.std(ddof=1) / np.sqrt(count)) if count > 1 else 0.0
    if error < 1e-9:
        return None, None
    from scipy.special import stdtr, stdtrit  # slow to import, and few runs need it

    half = float(stdtrit(count - 1, 0.975)) * error
    p = 2 * float(stdtr(count - 1, -abs(mean) / error))
    return [round(mean - half, 6), round(mean + half, 6)], p


def _clients(run: Run, other: Run) -> Counts | None:
    """Return how many clients are better off; None if the two runs have other clients."""
    pairs = list(zip(run.results["per_client"], other.results["per_client"], strict=False))
    equal = len(run.results["per_client"]) == len(other.results["per_client"])
    if not equal or any(ours["preference"] != theirs["preference"] for ours, theirs in pairs):
        return None
    signs = [
        compare_values(ours["scalarised"], theirs["scalarised"])
        for ours, theirs in pairs
        if ours["scalarised"] is not None
        and theirs["scalarised"] is not None
        and not (ours.get("attacker") or theirs.get("attacker"))
    ]
    return {"better": signs.count(1), "level": signs.count(0), "worse": signs.count(-1)}


def correct(paired: Mapping[tuple[str, str, str], Difference]) -> int:
    """Add p values after Holm's correction to differences, and return the number of tests.

    A difference and the same one from the other side are one test.

    Args:
        paired: Differences by preference distribution, entry and other entry; changed in place.
    """
    tests: dict[tuple[str, frozenset[str]], float] = {}
    for (kind, entry, other), gain in paired.items():
        p = gain.get("p")
        if p is not None:
            tests[kind, frozenset((entry, other))] = p
    corrected, largest = {}, 0.0
    for rank, (key, p) in enumerate(sorted(tests.items(), key=lambda item: item[1])):
        largest = max(largest, min(1.0, p * (len(tests) - rank)))
        corrected[key] = largest
    for (kind, entry, other), gain in paired.items():
        gain["p_holm"] = corrected.get((kind, frozenset((entry, other))))
    return len(tests)
