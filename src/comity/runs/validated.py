"""Validation of the models that a run hands over, from its history; no test sample is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from comity.configuration import Configuration
from comity.core.typing import FloatArray
from comity.runs.schema import HistoryEntry

Kind = Literal["received", "trained", "kept"]


def validated_vectors(configuration: Configuration, history: Sequence[HistoryEntry]) -> FloatArray:
    """Return the validation vectors of the models that clients hold at the end.

    They are those by which ``keep`` and ``guard`` decide: on validation samples or, with
    environments, in validation episodes. One row per client; NaN where a client's model was never
    validated, or a score is undefined.

    Args:
        configuration: The run's configuration.
        history: All entries of its history.
    """
    objectives = len(configuration.get_problem().objectives)
    vectors = np.full((configuration.clients, objectives), np.nan)
    algorithm, best = configuration.get_algorithm(), configuration.keep == "best"
    if algorithm.ensembles and not configuration.alone_share:
        _note(vectors, history[-1], "received")
        return vectors
    for entry in history:
        if configuration.keeps_together:  # the server chooses the round
            if entry["chosen"]:
                after = algorithm.select_after_training
                _note(vectors, entry, "trained" if after else "received")
        elif best:
            _note(vectors, entry, "kept")
        else:
            _note(vectors, entry, "received")
            _note(vectors, entry, "trained")
    return vectors


def _note(vectors: FloatArray, entry: HistoryEntry, kind: Kind) -> None:
    """Put the vectors of a round in their clients' rows, where models were validated and taken."""
    rows = np.array(entry[kind] or [], dtype=np.float64)
    for place, row in enumerate(rows):
        declined = kind == "received" and entry["declined"][place]
        if not declined and not np.isnan(row).all():
            vectors[entry["clients"][place]] = row
