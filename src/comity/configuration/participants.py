"""Who takes part in a round, where no contact plan decides it."""

from __future__ import annotations

from comity.configuration.run import Configuration
from comity.core.rng import stream


def mixes(configuration: Configuration, number: int) -> bool:
    """Return whether the server mixes after a round."""
    replaced = configuration.fine_tune == "replace-last"
    return not (replaced and number == configuration.rounds)


def participants(
    configuration: Configuration, clients: tuple[int, ...], number: int
) -> tuple[int, ...]:
    """Return the clients that are asked in a round: all, or a random selection."""
    count = configuration.participants(len(clients))
    if count == len(clients) or not mixes(configuration, number):
        return clients
    generator = stream(configuration.seed, "selection", number, clients[0])
    return tuple(sorted(generator.choice(clients, count, replace=False).tolist()))
