"""Names of clients as tables and figures show them."""

from __future__ import annotations

from collections.abc import Sequence

from comity.runs.schema import ClientResult, Results

_SHORT = 3  # characters that fit beneath a bar


def client_names(results: Results) -> list[str]:
    """Return the names of a run's clients; those without a name have their number."""
    return [name_of(client) for client in results["per_client"]]


def client_labels(results: Results) -> list[str]:
    """Return the names of a run's clients for a legend: ``client 3`` in place of a number."""
    return [label_of(client) for client in results["per_client"]]


def name_of(client: ClientResult) -> str:
    """Return a client's name, or its number; runs of older versions have no names."""
    name = client.get("name", str(client["client"]))
    return f"{name} (attacker)" if client.get("attacker") else name


def label_of(client: ClientResult) -> str:
    """Return a client's name, or ``client 3`` where it has none but its number."""
    name, number = name_of(client), str(client["client"])
    return f"client {name}" if name.partition(" (")[0] == number else name


def turned(names: Sequence[str]) -> float:
    """Return the rotation of names along a horizontal axis, in degrees: long ones stand upright."""
    return 90.0 if any(len(name) > _SHORT for name in names) else 0.0
