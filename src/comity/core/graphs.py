"""Contact graphs: which client hears which in a round of a federation without a server.

A specification is one short string, as on the command line, in TOML and in Python: ``complete``,
``ring``, ``ring:2`` or ``random:0.3``.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import StringConstraints

from comity.core.rng import stream
from comity.core.typing import BoolArray

COMPLETE = "complete"
_SHARE = r"0|1|1\.0+|0?\.\d+"
Graph = Annotated[
    str, StringConstraints(pattern=rf"^(complete|ring(:[1-9]\d*)?|random:({_SHARE}))$")
]
"""Specification of a contact graph."""


def contact_graph(spec: str, clients: int, seed: int, round: int, first: int = 0) -> BoolArray:
    """Return who hears whom in a round (clients x clients, receivers first).

    The matrix is symmetric and nobody hears itself.

    Args:
        spec: ``complete``: everybody hears everybody. ``ring:K``: each client hears the K clients
            on either side of it, in the order of their ids; ``ring`` is ``ring:1``. ``random:P``:
            each pair hears each other with probability P, drawn anew in each round.
        clients: Number of clients.
        seed: Seed of the run.
        round: Number of the round.
        first: Id of the first client: federations that share a run draw apart.
    """
    kind, _, argument = spec.partition(":")
    others = ~np.eye(clients, dtype=bool)
    if kind == "complete":
        return others
    if kind == "ring":
        place = np.arange(clients)
        apart = (place[:, None] - place[None]) % clients
        near: BoolArray = np.minimum(apart, clients - apart) <= int(argument or 1)
        return others & near
    generator = stream(seed, "contact graph", round, first)
    drawn = np.triu(generator.random((clients, clients)) < float(argument), 1)
    return np.asarray(drawn | drawn.T)
