"""The epsilon of a run: the accountant on the updates that really left its clients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from comity.configuration import Configuration
from comity.configuration.participants import mixes
from comity.runs.privacy_schema import PrivacyResult
from comity.runs.schema import HistoryEntry


def privacy_result(
    configuration: Configuration, updates: Sequence[int], simulated: bool
) -> PrivacyResult:
    """Return epsilon and delta of a run with differential privacy.

    Args:
        configuration: The run's configuration.
        updates: Updates that left each client.
        simulated: Whether noise came from the run's seed.
    """
    privacy = configuration.privacy
    assert privacy is not None
    spent = {count: round(privacy.spent(count), 6) for count in set(updates)}
    most = max(updates)
    result: PrivacyResult = {
        "epsilon": spent[most],
        "delta": privacy.delta,
        "noise": privacy.noise,
        "clip": privacy.clip,
        "updates": most,
        "simulated": simulated,
    }
    if len(spent) > 1:
        result["per_client"] = [spent[count] for count in updates]
    return result


def updates_sent(configuration: Configuration, history: Iterable[HistoryEntry]) -> list[int]:
    """Return the number of updates that each client sent, used or not.

    Args:
        configuration: The run's configuration.
        history: All entries of the run's history.
    """
    counts = [0] * configuration.clients
    if configuration.get_algorithm().communicates:
        for entry in history:
            if entry["round"] <= configuration.rounds and mixes(configuration, entry["round"]):
                for client in entry["clients"]:
                    counts[client] += 1
    return counts
