"""Preferences that follow from what is unequal in each client's own rows.

The specification ``largest-gap:W`` gives every client the weight W for being fair to the attribute
that divides its people most, and 1 − W for the first objective, accuracy. What divides people is
measured on the client's training rows, before anything is learned: the largest difference between
an attribute's values in how often the label is yes (`comity.problems.gaps`).
"""

from __future__ import annotations

import numpy as np

from comity.core.preferences import LARGEST_GAP, gap_weight
from comity.core.typing import FloatArray
from comity.errors import UserError
from comity.problems.base import Problem
from comity.problems.data import batch_of
from comity.problems.fairness import FairnessProblem
from comity.problems.gaps import gap


def label_gaps(problem: FairnessProblem) -> dict[str, FloatArray]:
    """Return each client's gap in its training labels, by attribute.

    Args:
        problem: The problem, with its rows distributed among clients.
    """
    columns = {name: c for name, c in problem.samples().columns.items() if name != "inputs"}
    batches = [batch_of(columns, rows.train) for rows in problem.client_rows()]
    aims = {aim.attribute: aim for aim in problem.aims}
    return {
        name: np.array(
            [float(gap(b["label"], b[aim.column], b["weight"], aim.values)[0]) for b in batches]
        )
        for name, aim in aims.items()
    }


def largest_gap(problem: Problem, spec: str) -> FloatArray:
    """Return preferences (clients x objectives): weight for the attribute with the largest gap.

    Where several metrics measure that attribute, its weight is divided evenly among them; of equal
    gaps the first attribute counts.

    Args:
        problem: A fairness problem, with its rows distributed among clients.
        spec: ``largest-gap`` or ``largest-gap:W``.
    """
    weight = gap_weight(spec)
    if not isinstance(problem, FairnessProblem):
        raise UserError(
            f"preferences: '{spec}' needs a problem of accuracy and fairness; {problem.name} is "
            "none. Choose another distribution."
        )
    if any(not len(rows.train) for rows in problem.client_rows()):
        raise UserError(
            f"preferences: '{LARGEST_GAP}' needs the rows of all clients, which are not all held "
            "here; give each client's preference."
        )
    gaps = label_gaps(problem)
    chosen = np.stack(list(gaps.values())).argmax(axis=0)
    vectors = np.zeros((len(chosen), len(problem.objectives)))
    vectors[:, 0] = 1 - weight
    for client, attribute in enumerate(chosen):
        places = [
            place
            for place, aim in enumerate(problem.aims, start=1)
            if aim.attribute == list(gaps)[attribute]
        ]
        vectors[client, places] = weight / len(places)
    return vectors
