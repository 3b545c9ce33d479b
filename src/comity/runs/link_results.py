"""Use that a run made of its links: planned by the timetable, accounted by what was sent."""

from __future__ import annotations

from collections.abc import Sequence

from comity.configuration import Configuration, planned, planned_sizes
from comity.links.limits import Spread
from comity.runs.link_schema import LinkResults
from comity.runs.schema import HistoryEntry


def link_results(configuration: Configuration, history: Sequence[HistoryEntry]) -> LinkResults:
    """Return the measures of a run's links.

    Args:
        configuration: A configuration with links.
        history: All entries of the run's history.
    """
    assert configuration.links is not None
    table, watts = planned(configuration), configuration.links.watts
    ages = [age for entry in history for age in entry.get("age", ())]
    up, down = (sum(entry[name] for entry in history) for name in ("bytes_up", "bytes_down"))
    counts = Spread.of(table.updates)
    sent = [client for entry in history if "time" in entry for client in entry["clients"]]
    largest = planned_sizes(configuration)[0] * sum(transfer.up for transfer in table.transfers)
    seconds = round(table.sending_seconds * min(1.0, up / largest), 3)
    results: LinkResults = {
        "days": round(table.plan.days, 6),
        "rounds": len(table.rounds),
        "updates": len(sent),
        "updates_per_client": {
            "least": counts.least,
            "median": counts.median,
            "most": counts.most,
        },
        "age": {
            "mean": round(sum(ages) / len(ages), 6) if ages else 0.0,
            "most": max(ages, default=0),
        },
        "bytes_up": up,
        "bytes_down": down,
        "radio_seconds": seconds,
        "pass_use": round(table.use_of_passes, 6),
        "late_dropped": sum(len(entry.get("dropped", ())) for entry in history),
    }
    if watts:
        results["energy_joules"] = round(seconds * watts, 3)
    return results
