"""Clients beside learning alone: who is better off for having federated, by name.

In one run lone companions tell (``alone_share``), on validation data; in a comparison the runs of
``no-communication`` with the same seeds do, on validation and test data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from comity.configuration import Configuration
from comity.runs.alone_schema import BesideAlone, ClientGain, ClientGains, Standing
from comity.runs.differences import seed_pairs, tested
from comity.runs.directory import Run
from comity.runs.schema import ClientResult, ComparisonRow, HistoryEntry
from comity.runs.verdict import TOLERANCE, be, compare_values, listed

ALONE = "no-communication"
"""The algorithm whose clients learn alone."""
STANDINGS: dict[int, Standing] = {1: "better", 0: "level", -1: "worse"}
_MOST = 6  # clients that a sentence names


def is_alone(entry: str) -> bool:
    """Return whether clients learn alone in an entry of a comparison."""
    return entry.partition("[")[0].partition("+")[0] == ALONE


# -- one run -------------------------------------------------------------------------------


def beside_companions(history: Sequence[HistoryEntry]) -> dict[int, BesideAlone]:
    """Return each client's federated model beside its companion; nothing without companions.

    Args:
        history: All entries of the run's history; the last one of a client counts.
    """
    beside: dict[int, BesideAlone] = {}
    for entry in history:
        values = zip(entry.get("federated", ()), entry.get("alone", ()), strict=True)
        for client, (federated, alone) in zip(entry["clients"], values, strict=False):
            beside[client] = _beside(federated, alone)
    return beside


def _beside(federated: float | None, alone: float | None) -> BesideAlone:
    """Return two values as a record; a model that was never validated is not kept."""
    if federated is None or alone is None:
        keeps: Literal["federated", "alone"] = "federated" if alone is None else "alone"
        return {"federated": federated, "alone": alone, "standing": None, "keeps": keeps}
    return {
        "federated": federated,
        "alone": alone,
        "standing": STANDINGS[compare_values(federated, alone)],
        "keeps": "alone" if alone > federated else "federated",
    }


def count_standings(clients: Sequence[ClientResult]) -> dict[Standing, int]:
    """Return how many clients are better off, level and worse off federated than alone."""
    standings = [client["alone"]["standing"] for client in clients if "alone" in client]
    return {standing: standings.count(standing) for standing in STANDINGS.values()}


def companion_texts(configuration: Configuration, clients: Sequence[ClientResult]) -> list[str]:
    """Return who is better off than alone, and who keeps a companion; nothing without companions.

    Args:
        configuration: The run's configuration.
        clients: The results of its clients.
    """
    rows = [client for client in clients if "alone" in client]
    if not rows:
        return []
    better = [client for client in rows if client["alone"]["standing"] == "better"]
    parts = [f"{len(better)} of {len(rows)} clients {be(len(better))} better off than alone"]
    for standing, words in (("level", "level"), ("worse", "worse off")):
        names = [c["name"] for c in rows if c["alone"]["standing"] == standing]
        if names:
            parts.append(f"{_named(names)} {be(len(names))} {words}")
    share = f"with {configuration.alone_share:.3g} of the steps"
    texts = [f"On validation data, beside companions {share}: {'; '.join(parts)}."]
    stay = [client["name"] for client in rows if client["alone"]["keeps"] == "alone"]
    if stay:
        texts.append(
            f"{_named(stay)} {'keeps' if len(stay) == 1 else 'keep'} what was learned alone."
        )
    return texts


def _named(names: Sequence[str]) -> str:
    """Return some names: ``north and south``, ``client 3``; many are counted."""
    if len(names) > _MOST:
        return f"{len(names)} clients"
    return listed([f"client {name}" if name.isdecimal() else name for name in names])


# -- a comparison --------------------------------------------------------------------------


def gains_over_alone(
    entry: str, settings: Mapping[str, Mapping[str, Any]], runs: Mapping[str, Sequence[Run]]
) -> dict[str, list[ClientGains]]:
    """Return the gains of each client over learning alone, under ``over_alone``.

    Nothing where nobody learns alone, or where clients have other preferences there.

    Args:
        entry: The entry of a comparison.
        settings: The settings that each entry stands for.
        runs: The runs of each entry under one preference distribution, one per seed.
    """
    attack = settings[entry].get("attack")
    lone = [o for o in runs if is_alone(o) and settings[o].get("attack") == attack]
    if is_alone(entry) or not lone:
        return {}
    pairs = seed_pairs(runs[entry], runs[lone[0]])
    if not pairs or any(_wishes(run) != _wishes(other) for run, other in pairs):
        return {}
    tests = [[_test_values(run) for run in pair] for pair in pairs]
    validations = [[_validation_values(run) for run in pair] for pair in pairs]
    gains: list[ClientGains] = []
    for row, client in enumerate(pairs[0][0].results["per_client"]):
        if not client.get("attacker"):
            gains.append(
                {
                    "client": client["client"],
                    "name": client["name"],
                    "validation": _gain(validations, row),
                    "test": _gain(tests, row),
                }
            )
    return {"over_alone": gains}


def _wishes(run: Run) -> list[tuple[str, list[float], bool]]:
    """Return names, preferences and sides of a run's clients."""
    clients = run.results["per_client"]
    return [(c["name"], c["preference"], c.get("attacker", False)) for c in clients]


def _test_values(run: Run) -> list[float | None]:
    return [client["scalarised"] for client in run.results["per_client"]]


def _validation_values(run: Run) -> list[float | None]:
    """Return scalarised validation values of the kept models, where each client keeps its best."""
    configuration = run.configuration
    preferences = configuration.get_preferences()
    ensembles = configuration.get_algorithm().ensembles and not configuration.alone_share
    values: list[float | None] = [None] * len(preferences)
    if configuration.keep == "last" or configuration.keeps_together or ensembles:
        return values
    for entry in run.history:
        for client, vector in zip(entry["clients"], entry.get("kept") or (), strict=False):
            if all(value is not None for value in vector):
                values[client] = float(preferences[client] @ np.array(vector, dtype=float))
    return values


def _gain(pairs: Sequence[Sequence[Sequence[float | None]]], row: int) -> ClientGain | None:
    """Return the gain of the client of a row over all seeds."""
    ours, theirs = zip(*((one[row], other[row]) for one, other in pairs), strict=True)
    if None in ours or None in theirs:
        return None
    signs = [compare_values(value, other) for value, other in zip(ours, theirs, strict=True)]
    each = np.round(np.array(ours) - np.array(theirs), 6)
    return {
        "mean": float(each.mean().round(6)) + 0.0,
        "interval": tested(each)[0],
        "seeds": {
            "better": signs.count(1),
            "level": signs.count(0),
            "worse": signs.count(-1),
        },
    }


def worse_texts(rows: Sequence[ComparisonRow], name: Callable[[ComparisonRow], str]) -> list[str]:
    """Return which clients that have names are worse off than alone, mean over seeds, per row.

    Args:
        rows: Rows of a comparison.
        name: Returns the name of a row.
    """
    texts = []
    for row in rows:
        gains = [gain for gain in row.get("over_alone", ()) if gain["name"] != str(gain["client"])]
        if not gains:
            continue
        parts = []
        for kind in ("validation", "test"):
            means = {g["name"]: known["mean"] for g in gains if (known := g[kind]) is not None}
            worse = [f"{who} ({mean:+.3g})" for who, mean in means.items() if mean < -TOLERANCE]
            names = listed(worse) if worse else "nobody"
            if means:
                parts.append(f"on {kind} data {names}")
        if parts:
            texts.append(f"Worse off with {name(row)} than alone: {'; '.join(parts)}.")
    return texts
