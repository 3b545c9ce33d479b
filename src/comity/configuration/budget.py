"""The privacy budget of a run: how many updates clients send, and the noise that follows."""

from __future__ import annotations

from comity.configuration.participants import mixes, participants
from comity.configuration.planning import planned
from comity.configuration.run import Configuration


def planned_updates(configuration: Configuration) -> tuple[int, ...]:
    """Return the most updates that each client sends in a run, whatever is learned.

    Args:
        configuration: The run's configuration.
    """
    everyone, rounds = tuple(range(configuration.clients)), configuration.rounds
    if not configuration.get_algorithm().communicates:
        return (0,) * len(everyone)
    if configuration.links is not None and configuration.topology == "star":
        return planned(configuration).updates
    counts = [0] * len(everyone)
    for number in range(1, rounds + 1):
        if mixes(configuration, number):
            for client in participants(configuration, everyone, number):
                counts[client] += 1
    return tuple(counts)


def with_budget(configuration: Configuration) -> Configuration:
    """Return a configuration with the noise that keeps the epsilon of all its clients.

    Args:
        configuration: A configuration whose rounds are known.
    """
    if configuration.privacy is None:
        return configuration
    privacy = configuration.privacy.with_noise(max(planned_updates(configuration)))
    return configuration.model_copy(update={"privacy": privacy})


def largest_epsilon(configuration: Configuration) -> float | None:
    """Return the epsilon that no client of a run exceeds; None without differential privacy.

    Args:
        configuration: The run's configuration.
    """
    if configuration.privacy is None:
        return None
    return configuration.privacy.spent(max(planned_updates(configuration)))
