"""Stand-in rows: random ones that fit a public schema, for a rehearsal without anybody's data.

Nothing can be learned from them; they show that a federation works, not how well.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from comity.core.rng import stream
from comity.core.typing import AnyArray
from comity.errors import UserError
from comity.problems.registry import find
from comity.problems.schema import SchemaProblem
from comity.problems.schema_pictures import Description as Pictures
from comity.problems.schema_pictures import PicturesProblem
from comity.settings import build


def write_stand_in(values: Mapping[str, Any], directory: Path, name: str, count: int) -> Path:
    """Write random rows that fit a schema, and return the file.

    Args:
        values: The ``[problem]`` table with the schema.
        directory: Where the file goes.
        name: Name of the site, from which the rows are drawn.
        count: Number of rows or pictures.
    """
    problem = find(values)
    generator = stream(0, f"stand-in {name}")
    if isinstance(problem, SchemaProblem):
        path = directory / f"{name}.csv"
        _write_table(problem, path, generator, count)
        return path
    if not isinstance(problem, PicturesProblem):
        raise UserError(f"problem {problem.name}: there is no stand-in for its rows.")
    about = build(Pictures, values, where="problem")
    path = directory / f"{name}.npz"
    shape = (count, *about.shape)
    pictures = generator.integers(0, 256, shape, dtype=np.uint8)
    np.savez(path, images=pictures, labels=np.arange(count) % len(about.classes))
    return path


def _write_table(
    problem: SchemaProblem, path: Path, generator: np.random.Generator, count: int
) -> None:
    schema = problem.schema
    columns: dict[str, AnyArray] = {}
    for column in schema.columns:
        if column.values is None:
            mean, spread = column.scale or (0.0, 1.0)
            columns[column.name] = generator.normal(mean, spread, count).round(3)
        else:
            columns[column.name] = generator.choice(np.array(column.values), count)
    labels = np.array([schema.negative or f"not {schema.positive}", schema.positive])
    columns[schema.label] = generator.choice(labels, count)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
