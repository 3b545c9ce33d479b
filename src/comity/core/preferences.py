"""Preferences: each client's weights over the objectives, on the simplex.

A specification is one short string, the same on the command line, in TOML and in Python:
``dirichlet``, ``dirichlet:0.5``, ``interior``, ``interior:0.4``, ``equidistant``, ``gaussian``,
``same:0.3,0.7``, ``shared:5,5,5,5`` or the path of a CSV file with one row per client and one
column per objective.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from comity.core.rng import stream
from comity.core.typing import FloatArray, IntArray
from comity.errors import UserError

LARGEST_GAP = "largest-gap"
"""Specification that follows from clients' rows: `comity.problems.disparity`."""
_LARGEST = 1e12  # parameter of a Dirichlet draw; far larger ones overflow to no weights at all

KINDS = {
    "dirichlet": "Dirichlet(alpha) draws, alpha = 1 by default: dirichlet:0.5",
    "interior": "Dirichlet draws mixed with a share, 0.2 by default, of even weights: interior:0.4",
    "equidistant": "evenly spread points of least Riesz energy, the same for every seed",
    "gaussian": "absolute values of a standard normal draw, divided by their sum",
    "same": "the same weights for all clients: same:0.3,0.7",
    "shared": "a few distinct preferences, each held by several clients: shared:5,5,5,5",
    LARGEST_GAP: "fairness: a weight, 0.5 by default, for the attribute that divides the client's "
    "people most, the rest for accuracy: largest-gap:0.3",
    "FILE.csv": "your own: one row per client, one column per objective, rows sum to one",
}
"""Kinds of specification and their help text."""


def preferences(
    spec: str | Sequence[Sequence[float]], clients: int, objectives: int, seed: int
) -> FloatArray:
    """Return the preference matrix (clients x objectives) of a specification.

    Args:
        spec: A specification (see the module) or the matrix itself, one row per client. An empty
            row is a preference that is not known here, and becomes NaN.
        clients: Number of clients.
        objectives: Number of objectives.
        seed: Seed of the run, for specifications that draw.
    """
    if not isinstance(spec, str):
        return checked(spec, clients, objectives, where="preferences", gaps=True)
    kind, colon, argument = spec.partition(":")
    generator = stream(seed, "preferences")
    if kind == "dirichlet":
        alpha = _number(argument if colon else "1", spec, below=_LARGEST)
        return generator.dirichlet([alpha] * objectives, size=clients)
    if kind == "interior":
        even = _number(argument if colon else "0.2", spec, below=1)
        draws = generator.dirichlet([1.0] * objectives, size=clients)
        return np.asarray((1 - even) * draws + even / objectives)
    if kind == "gaussian" and not argument:
        draws = np.abs(generator.standard_normal((clients, objectives)))
        return np.asarray(draws / draws.sum(axis=1, keepdims=True))
    if kind == "equidistant" and not argument:
        return equidistant(clients, objectives)
    if kind == "same":
        try:
            weights = [float(part) for part in argument.split(",")]
        except ValueError:
            weights = []
        return checked([weights] * clients, clients, objectives, where=f"preferences: '{spec}'")
    if kind == "shared":
        counts = _counts(argument, spec, clients)
        distinct = generator.dirichlet([1.0] * objectives, size=len(counts))
        return np.repeat(distinct, counts, axis=0)
    if spec.endswith(".csv"):
        return read_csv(Path(spec), clients, objectives)
    raise UserError(
        f"preferences: '{spec}' is not one of dirichlet[:ALPHA], interior[:SHARE], equidistant, "
        "gaussian, same:W,W,…, shared:N,N,…, largest-gap[:W] or a file name ending in .csv."
    )


def follows_from_rows(spec: str | Sequence[Sequence[float]]) -> bool:
    """Return whether a specification can only be computed from clients' rows."""
    return isinstance(spec, str) and spec.partition(":")[0] == LARGEST_GAP


def gap_weight(spec: str) -> float:
    """Return the weight W of ``largest-gap:W``, 0.5 by default."""
    _, colon, argument = spec.partition(":")
    return _number(argument if colon else "0.5", spec, below=1)


def shared_groups(matrix: FloatArray) -> IntArray | None:
    """Return a number per client, equal where preferences are; None if all are equal or none."""
    labels: IntArray = np.unique(matrix, axis=0, return_inverse=True)[1].reshape(-1)
    return labels if 0 < labels.max() < len(matrix) - 1 else None


def read_csv(path: Path, clients: int, objectives: int) -> FloatArray:
    """Return the preferences in a CSV file, one row per client; a first row of names is allowed."""
    try:
        rows = [row for row in csv.reader(path.read_text().splitlines()) if row]
    except (OSError, ValueError, csv.Error) as error:
        raise UserError(f"preferences: cannot read {path}: {error}.") from None
    values: list[list[float]] = []
    for number, row in enumerate(rows, start=1):
        try:
            values.append([float(cell) for cell in row])
        except ValueError:
            if number > 1:
                raise UserError(
                    f"preferences: {path}, row {number} is not numbers: {row}."
                ) from None
    return checked(values, clients, objectives, where=f"preferences: {path}")


def checked(
    values: Sequence[Sequence[float]],
    clients: int,
    objectives: int,
    where: str,
    gaps: bool = False,
) -> FloatArray:
    """Return preferences as a matrix, after checking their shape and that they are on the simplex.

    Args:
        values: One row per client, one weight per objective.
        clients: Expected number of rows.
        objectives: Expected number of weights per row.
        where: Field and source, the beginning of an error message.
        gaps: Whether a row may be empty: a preference that is not known here. It becomes NaN.
    """
    known = [not gaps or len(row) > 0 for row in values]
    rows = [row if k else [np.nan] * objectives for row, k in zip(values, known, strict=True)]
    if len(rows) != clients or any(len(row) != objectives for row in rows):
        widths = sorted({len(row) for row in values})
        raise UserError(
            f"{where}: expected {clients} rows (one per client) of {objectives} weights (one per "
            f"objective), got {len(values)} rows of {'/'.join(map(str, widths)) or 'no'} weights."
        )
    matrix = np.array(rows, dtype=np.float64).reshape(clients, objectives)
    for number, row in enumerate(matrix, start=1):
        off = not np.isfinite(row).all() or (row < 0).any() or abs(row.sum() - 1) > 1e-6
        if known[number - 1] and off:
            label = f"row {number} " if clients > 1 else ""
            raise UserError(
                f"{where}: {label}{row.tolist()} is off the simplex: weights must be "
                "non-negative and sum to one."
            )
    return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))


@lru_cache(maxsize=32)
def equidistant(count: int, objectives: int) -> FloatArray:
    """Return evenly spread weights (count x objectives), corners of the simplex included.

    They are the points of least Riesz s-energy. The energy of points at distances d is the sum of
    1/d^s with s = objectives²; its logarithm is minimised from a fixed start, so the points depend
    on their number alone. For two objectives they are i/(count-1).
    """
    if objectives == 2 and count > 1:
        first = np.linspace(0.0, 1.0, count)
        return np.stack([first, 1.0 - first], axis=1)
    if count == 1 or objectives == 1:
        return np.full((count, objectives), 1.0 / objectives)
    corners = np.eye(objectives)[:count]
    if count <= objectives:
        return corners
    from scipy.optimize import minimize  # slow to import, and few runs need it
    from scipy.special import logsumexp

    power = float(objectives**2)

    def points(free: FloatArray) -> FloatArray:
        # squares of free numbers, divided by their sum, cover the simplex and its edges
        squares = free.reshape(-1, objectives) ** 2
        return np.concatenate([corners, squares / squares.sum(axis=1, keepdims=True)])

    def log_energy(free: FloatArray) -> tuple[float, FloatArray]:
        weights = points(free)
        gaps = weights[:, None] - weights[None]
        squared = (gaps**2).sum(axis=2) + np.eye(count)
        logs = -power / 2 * np.log(squared)
        np.fill_diagonal(logs, -np.inf)
        energy = float(logsumexp(logs))
        pull = np.exp(logs - energy) / squared
        slope = -2 * power * (gaps * pull[..., None]).sum(axis=1)[objectives:]
        share, root = weights[objectives:], free.reshape(-1, objectives)
        slope -= (slope * share).sum(axis=1, keepdims=True)
        return energy, (slope * 2 * root / (root**2).sum(axis=1, keepdims=True)).ravel()

    start = stream(0, "equidistant", count, objectives).dirichlet([1.0] * objectives, count)
    solution = minimize(
        log_energy,
        np.sqrt(start[objectives:]).ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 500},
    )
    return points(solution.x)


def _number(text: str, spec: str, below: float = np.inf) -> float:
    """Parse a positive number below a bound."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < below:
        bound = "" if below == np.inf else f" below {below:g}"
        raise UserError(f"preferences: '{spec}' needs a positive number{bound} after the colon.")
    return value


def _counts(text: str, spec: str, clients: int) -> list[int]:
    """Parse positive counts that add up to the number of clients."""
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = [0]
    if min(counts) < 1 or sum(counts) != clients:
        raise UserError(
            f"preferences: '{spec}' must list positive counts that add up to {clients} clients, "
            "e.g. shared:5,5,5,5."
        )
    return counts
