"""The encoding of a fleet: every client's models by themselves, against that client's base."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from comity.core.encodings import Encoded, Encoding, digest
from comity.core.fleet import Fleet
from comity.core.typing import NamedArrays


def encode_fleet(
    encoding: Encoding,
    order: Sequence[str],
    models: Fleet,
    base: Fleet,
    residual: NamedArrays | None = None,
) -> tuple[Fleet, tuple[Encoded, ...]]:
    """Return the models that receivers decode, and what travels, one per client.

    A fleet of n gives what n fleets of one give. Equal models with equal bases are encoded once.

    Args:
        encoding: How models travel.
        order: Names of the tensors in the order in which they travel.
        models: One row per client, or several.
        base: What each client's models are measured from, one row per client.
        residual: What earlier updates have lost (clients x rows x shape); changed in place.
    """
    clients = len(base)
    rows = len(models) // clients
    arrays = {name: models[name].numpy(force=True) for name in order}
    bases = {name: base[name].numpy(force=True) for name in order}
    seen: dict[tuple[bytes, bytes], tuple[bytes, NamedArrays]] = {}
    encoded: list[Encoded] = []
    parts: list[NamedArrays] = []
    for client in range(clients):
        mine = {name: array[client * rows : (client + 1) * rows] for name, array in arrays.items()}
        start = {name: array[client : client + 1] for name, array in bases.items()}
        mark = digest(start)
        if residual is not None:
            left = {name: array[client] for name, array in residual.items()}
            body, decoded = encoding.encode(mine, start, left)
        else:
            key = mark, digest(mine)
            if key not in seen:
                seen[key] = encoding.encode(mine, start)
            body, decoded = seen[key]
        encoded.append(Encoded(mark, body))
        parts.append(decoded)
    joined = {name: np.concatenate([part[name] for part in parts]) for name in models}
    fleet = Fleet.from_arrays(joined)
    assert fleet is not None
    return fleet, tuple(encoded)


def posted_after(posted: Fleet, delivered: Fleet) -> Fleet:
    """Return the base of clients once they have received models.

    Tensors that are delivered in another shape, such as several models to choose from, are no base.

    Args:
        posted: The base before, one row per client.
        delivered: The models as clients decode them, one row per client.
    """
    alike = {n: t for n, t in delivered.tensors.items() if t.shape == posted[n].shape}
    return Fleet({**posted.tensors, **alike})
