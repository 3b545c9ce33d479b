"""Tables of deployed federations: a check, an audit, a rehearsal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from comity.report.captions import privacy_text
from comity.report.measures import number
from comity.report.tables.layout import empty_table


def check_table(results: Mapping[str, Any]) -> list[Table]:
    """Return what a site would bring to its federation: its rows, and what leaves it.

    Args:
        results: What `comity.runs.check.check_site` returned.
    """
    tables = []
    if counts := results.get("counts"):
        rows = empty_table(
            f"{results['site']}: {results['rows']:,} rows",
            "Rows of this site by value and label; these numbers do not leave it.",
        )
        rows.add_column("", no_wrap=True)
        for label in next(iter(counts.values())):
            rows.add_column(Text(label), justify="right")
        for value, labels in counts.items():
            rows.add_row(Text(value), *(f"{count:,}" for count in labels.values()))
        tables.append(rows)
    leaves, stays = results["leaves"], results["stays"]
    travel = empty_table("What would leave each round", _verdict(results))
    travel.add_column("what", no_wrap=True)
    travel.add_column("")
    tensors = f"{len(leaves['tensors'])} ({leaves['bytes_per_round']:,} bytes)"
    travel.add_row("tensors", tensors)
    travel.add_row("statistics", ", ".join(leaves["statistics"]) or "none")
    if leaves["scales"]:
        travel.add_row("once", f"count, sum, sum of squares: {', '.join(leaves['scales'])}")
    if leaves["epsilon"] is not None:
        travel.add_row("noised", f"epsilon {leaves['epsilon']:.3g} at most, over all rounds")
    travel.add_row("never", _never(stays["personal"], leaves["statistics"]))
    tables.append(travel)
    if trial := results.get("trial"):
        one = empty_table("One round alone", "Validation of this site's own rows.")
        one.add_column("objective", no_wrap=True)
        for heading in ("before", "after"):
            one.add_column(heading, justify="right")
        for name, before in trial["before"].items():
            one.add_row(name, number(before, 3), number(trial["after"][name], 3))
        tables.append(one)
    return tables


def _never(personal: Sequence[str], statistics: Sequence[str]) -> str:
    own = "rows" if "preferences" in statistics else "rows, preference"
    named = ", ".join([*personal[:3], "…"] if len(personal) > 3 else personal)
    return own + (f", personal tensors ({named})" if personal else "")


def _verdict(results: Mapping[str, Any]) -> str:
    if results["findings"]:
        return " ".join(results["findings"][:5])
    if results["policy"]:
        return f"The site's own policy refuses this federation: {results['policy']}"
    return "The rows fit the schema, and the site's policy allows this federation."


def audit_table(entries: Sequence[Mapping[str, Any]]) -> Table:
    """Return everything that has left a site, one row per message.

    Args:
        entries: Entries of the site's log.
    """
    total = sum(entry["bytes"] for entry in entries)
    table = empty_table(
        f"{len(entries)} messages, {total:,} bytes",
        "Every line of the log follows from the one before: none was changed or removed.",
    )
    for heading in ("time (UTC)", "exchange"):
        table.add_column(heading, no_wrap=True)
    for heading in ("round", "tensors", "bytes"):
        table.add_column(heading, justify="right")
    for heading in ("statistics", "sha256"):
        table.add_column(heading)
    for entry in entries:
        when = datetime.fromtimestamp(entry["time"], UTC).strftime("%Y-%m-%d %H:%M:%S")
        table.add_row(
            *(when, entry["exchange"], str(entry["round"])),
            *(str(len(entry["tensors"])), f"{entry['bytes']:,}"),
            *(", ".join(entry["statistics"]), entry["sha256"][:12]),
        )
    return table


def rehearsal_table(results: Mapping[str, Any]) -> Table:
    """Return the sites of a rehearsal beside the simulation.

    Args:
        results: What `comity.runs.rehearse.rehearse` returned.
    """
    verdict = "equal to the simulation, bit for bit"
    if not results["equal_to_simulation"]:
        verdict = "NOT equal to the simulation"
    names = list(results["per_client"][0]["objectives"])
    table = empty_table(
        f"{results['algorithm']} among {len(results['sites'])} sites over {results['transport']}: "
        f"{verdict}",
        f"{results['rounds']} rounds, {results['seconds']:.0f} s, "
        f"{len(results['absences'])} absences; test results of the models that sites keep.",
    )
    table.add_column("site", no_wrap=True)
    for name in (*names, "scalarised"):
        table.add_column(name, justify="right")
    table.add_column("equal", justify="right")
    for site, row in zip(results["sites"], results["per_client"], strict=True):
        values = [*row["objectives"].values(), row["scalarised"]]
        equal = "yes" if results["equal"][site] else "no"
        table.add_row(Text(site), *(number(value, 3) for value in values), equal)
    return table


def federation_table(results: Mapping[str, Any]) -> Table:
    """Return who took part in a deployed federation, as its organiser knows it.

    Args:
        results: What `comity.runs.serve.served_results` returned.
    """
    up, down = (results["communication"][name] for name in ("bytes_up", "bytes_down"))
    private = f" {privacy_text(results['privacy'])}, at most." if "privacy" in results else ""
    table = empty_table(
        f"{results['algorithm']} on {results['problem']} among {len(results['sites'])} sites",
        f"{results['rounds']} rounds; {up:,} bytes came from the sites, {down:,} went to them. "
        f"Models and scores are at the sites.{private}",
    )
    table.add_column("site", no_wrap=True)
    for heading in ("exchanges answered", "absences"):
        table.add_column(heading, justify="right")
    for client, site in enumerate(results["sites"]):
        absent = sum(entry[1] == client for entry in results["absences"])
        table.add_row(Text(site), str(results["answered"][site]), str(absent))
    return table
