"""Links in the document of a run: contacts, ages of updates, bytes against quality."""

from __future__ import annotations

from typing import Any

import numpy as np

from comity.configuration import Configuration
from comity.configuration.planning import planned
from comity.explore.arrays import rounded
from comity.explore.rounds import Rounds
from comity.report.measures import number
from comity.report.series.contacts import Spans, contact_chart
from comity.runs.schema import Results


def links_of(
    configuration: Configuration, rounds: Rounds, results: Results | None
) -> dict[str, Any] | None:
    """Return the links of a run and the use that it made of them; None without a plan.

    Args:
        configuration: The run's configuration.
        rounds: Its rounds so far.
        results: Its results, if it is finished.
    """
    if configuration.links is None or configuration.topology != "star":
        return None
    chart = contact_chart(planned(configuration))
    timed = [each for each in rounds.rounds if each.hours is not None]
    columns = rounds.columns()
    means = dict(zip(columns["rounds"], columns["mean"]["kept"], strict=True))
    sent = np.cumsum([sum(each.sent) for each in timed], dtype=np.int64)
    return {
        "hours": round(chart.hours, 4),
        "rows": [
            {
                "name": row.name,
                "passes": _listed(row.passes),
                "up": _listed(row.up),
                "down": _listed(row.down),
            }
            for row in chart.rows
        ],
        "mixings": rounded(chart.mixings),
        "facts": _facts(results),
        "age": rounds.ages(),
        "quality": {
            "hours": rounded([each.hours for each in timed]),
            "bytes": sent.tolist(),
            "value": [means[each.number] for each in timed],
        },
    }


def _listed(spans: Spans) -> list[Any]:
    return rounded(np.array(spans).reshape(-1, 2))


def _facts(results: Results | None) -> list[list[str]]:
    if results is None or "links" not in results:
        return []
    links = results["links"]
    counts = links["updates_per_client"]
    return [
        ["days", number(links["days"])],
        ["rounds", f"{links['rounds']:,}"],
        ["updates", f"{links['updates']:,}"],
        ["updates per client", f"{counts['least']} to {counts['most']}, median {counts['median']}"],
        ["late by", f"{number(links['age']['mean'], 3)} mixings on average"],
        ["late and dropped", f"{links['late_dropped']:,}"],
        ["radio time", f"{number(links['radio_seconds'])} s"],
        ["use of passes", f"{100 * links['pass_use']:.2g} %"],
    ]
