"""The page as one file, for those who may not run servers: documents and grids inside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from comity.errors import UserError
from comity.explore.assets import inert, saved_page
from comity.explore.explorer import Explorer
from comity.explore.items import Item
from comity.runs.export import write_new

MOST_BYTES = 5_000_000
"""Size of the largest file."""
MOST_CLIENTS = 100
"""Clients of a run whose models are tried beforehand."""
_SIZES = ((101, 101), (21, 51), (11, 21), (2, 11))
"""Numbers of thresholds and of preferences per client, finest first."""


def save_page(explorer: Explorer, target: Path) -> list[str]:
    """Write the page with all that it shows, and return what was reduced, in sentences.

    Args:
        explorer: What there is to see.
        target: The file, which must not exist yet.
    """
    if target.suffix not in (".html", ".htm"):
        raise UserError(f"save: {target} must end in .html.")
    data = saved_data(explorer)
    write_new(target, saved_page(data).decode())
    return [f"Page: {target}", *data["reduced"]]


def saved_data(explorer: Explorer) -> dict[str, Any]:
    """Return what a saved page holds: the index, documents, grids, and what was reduced.

    Args:
        explorer: What there is to see.
    """
    index, items = explorer.index(), explorer.shelf.items()
    data: dict[str, Any] = {"index": index, "items": {}, "grids": {}, "reduced": []}
    room = MOST_BYTES - len(saved_page(data)) - 20_000  # for sentences and separators
    lines = {line["id"]: line for line in index["items"]}
    for item in sorted(items, key=lambda each: each.parent is not None):
        try:
            document = explorer.document(item.id)
        except UserError as error:
            lines[item.id] |= {"state": "damaged", "error": str(error)}
            continue
        size = len(inert(document))
        if size > room:
            data["reduced"].append(f"{item.id} is left out: the file would be too large.")
            lines.pop(item.id)
            continue
        data["items"][item.id] = document
        room -= size
    index["items"] = list(lines.values())
    _add_grids(explorer, [item for item in items if item.id in data["items"]], data, room)
    return data


def _add_grids(explorer: Explorer, items: list[Item], data: dict[str, Any], room: int) -> None:
    """Add what models do at many preferences, as finely as there is room for."""
    pairs = [(item.id, client) for item in items for client in _clients(item, data)]
    size = next(_fitting(explorer, pairs, room), None) if pairs else None
    if pairs and size is None:
        data["reduced"].append("No models were tried beforehand: the file would be too large.")
    if size is None:
        return
    thresholds, most = size
    for id, client in pairs:
        data["grids"][f"{id}/{client}"] = explorer.grid(id, client, thresholds, most)
    if size != _SIZES[0]:
        data["reduced"].append(
            f"Models were tried at up to {most} preferences and {thresholds} thresholds per client."
        )


def _clients(item: Item, data: dict[str, Any]) -> list[int]:
    """Return the clients of a run whose models are tried."""
    document = data["items"][item.id]
    if item.kind != "run" or not document["exports"]:
        return []
    numbers: list[int] = document["clients"]["number"]
    if len(numbers) > MOST_CLIENTS:
        data["reduced"].append(
            f"{item.id}: the models of the first {MOST_CLIENTS} of {len(numbers):,} clients were "
            "tried beforehand."
        )
    return numbers[:MOST_CLIENTS]


def _fitting(
    explorer: Explorer, pairs: list[tuple[str, int]], room: int
) -> Iterator[tuple[int, int]]:
    """Yield the sizes of grids at which all fit in, finest first."""
    for thresholds, most in _SIZES:
        total = 0
        for id, client in pairs:
            total += len(inert(explorer.grid(id, client, thresholds, most)))
            if total > room:
                break
        else:
            yield thresholds, most
