"""The server's step of an algorithm under its wrappers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from comity.algorithms.base import Algorithm, Round
from comity.algorithms.wrappers.base import Mixings, Wrapper
from comity.core.fleet import Fleet
from comity.core.mixing import Mixing, mixed
from comity.core.typing import FloatArray


@dataclass(frozen=True)
class Step:
    """The mixings of a round, and what they mix."""

    mixings: Mixings
    figures: dict[str, float] | None
    """Figures of the wrappers for the history, if they have any."""
    combined: FloatArray | None
    """Matrix C (rows of ``sent`` x rows of ``sent``) with Δ' = C Δ; None: updates as sent."""

    def models(self, sent: Fleet, start: Fleet) -> Fleet:
        """Return the models to mix in place of those that were sent.

        Args:
            sent: The models that were sent.
            start: The model from which each row of ``sent`` started.
        """
        if self.combined is None:
            return sent
        changed = np.flatnonzero((self.combined != np.eye(len(sent))).any(axis=1))
        moved = (sent - Fleet({name: start[name] for name in sent})).mix(self.combined[changed])
        models = sent.clone()
        models.put(changed, Fleet({n: start[n][changed] + t for n, t in moved.tensors.items()}))
        return models

    @property
    def shares(self) -> Mixings:
        """The mixings by what each client sent: weights times C."""
        if self.combined is None:
            return self.mixings
        return {
            key: replace(mixing, weights=mixing.weights @ self.combined)
            if isinstance(mixing, Mixing) and mixing.stored is None
            else mixing
            for key, mixing in self.mixings.items()
        }


def step_of(algorithm: Algorithm, wrappers: Sequence[Wrapper], round: Round) -> Step:
    """Return the server's step: updates combined, mixed, and mixings adjusted, each in order.

    Args:
        algorithm: The host.
        wrappers: Its wrappers, the first nearest to the host.
        round: What the server received.
    """
    step = Step({}, None, None)
    sent = round.sent
    for wrapper in wrappers:
        matrix = wrapper.combine(round)
        if matrix is not None and not np.array_equal(matrix, np.eye(len(matrix))):
            rows = np.asarray(np.kron(matrix, np.eye(len(sent) // len(matrix))), dtype=np.float64)
            step = replace(step, combined=rows if step.combined is None else rows @ step.combined)
            round = replace(round, sent=step.models(sent, round.start))
    mixings: Mixings = algorithm.mix(round)
    figures: dict[str, float] = {}
    for wrapper in wrappers:
        mixings, more = wrapper.adjust(mixings, round, algorithm.shared_update)
        figures |= more
    return replace(step, mixings=mixings, figures=figures or None)


def server_models(
    algorithm: Algorithm,
    mixings: Mixings,
    sent: Fleet,
    start: Fleet,
    parameters: Collection[str],
    previous: Callable[[Sequence[str], Sequence[int]], Fleet],
) -> tuple[Fleet, dict[int, int]]:
    """Return the models that the server holds after a round, and the row that each client gets.

    Args:
        algorithm: The host, whose `Algorithm.server_step` is taken.
        mixings: The mixing of each group of tensors.
        sent: Models to mix, one row per sender.
        start: The models from which the senders started, one row per sender.
        parameters: Names of the parameters.
        previous: ``(names, clients)`` -> these tensors of what the server held for these clients.
    """
    rows, route = mixed(mixings, sent, start, previous)
    if not algorithm.has_server_step:
        return rows, route
    receiver = {row: client for client, row in sorted(route.items(), reverse=True)}
    names = [name for name in rows if name in parameters]
    held = previous(names, [receiver[row] for row in range(len(rows))])
    stepped = algorithm.server_step(held, Fleet({name: rows[name] for name in names}))
    _check_step(stepped, held)
    return Fleet({**rows.tensors, **stepped.tensors}), route


def _check_step(stepped: Fleet, held: Fleet) -> None:
    """Refuse a server's step that returns other tensors or rows than it was given."""
    if not isinstance(stepped, Fleet):
        raise TypeError(f"server_step must return a Fleet, got {type(stepped).__name__}")
    shapes, expected = (
        {name: tuple(tensor.shape) for name, tensor in fleet.tensors.items()}
        for fleet in (stepped, held)
    )
    for name in {**expected, **shapes}:
        if shapes.get(name) != expected.get(name):
            raise TypeError(
                f"server_step must return the tensors that it was given: {name} has shape "
                f"{shapes.get(name)}, expected {expected.get(name)}"
            )
