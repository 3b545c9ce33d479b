"""Directory of a search, and the front of models in it."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal, Self, cast

import numpy as np
from torch import nn

from comity.configuration import read_toml
from comity.core.preferences import checked
from comity.core.storage import own_directory, write_together, write_whole
from comity.core.typing import FloatArray
from comity.problems import Problem
from comity.runs.base import CONFIG, MODELS, Directory
from comity.runs.model_files import about, load_model, model_content
from comity.runs.notebook import Rows, Tabular, iteration_rows, point_rows
from comity.runs.search_schema import FrontPoint, SearchEntry, SearchResults
from comity.searches.archive import Archive
from comity.searches.configuration import SearchConfiguration, configure_search

FRONT, CONTROL = "front.csv", "control"


class ModelFront:
    """Non-dominated vectors and their models, from which a preference chooses.

    Args:
        vectors: Objectives in the test (points x objectives).
        files: The file of each point's model.
        problem: The problem that the models solve.
    """

    def __init__(self, vectors: FloatArray, files: Sequence[Path], problem: Problem) -> None:
        self.vectors = vectors
        self._files, self._problem = list(files), problem

    def __len__(self) -> int:
        return len(self.vectors)

    def choose(self, preference: Sequence[float]) -> int:
        """Return the index of the point that is worth most under a preference (on the simplex)."""
        objectives = self.vectors.shape[1]
        (weights,) = checked([list(preference)], 1, objectives, where="preference")
        return int((self.vectors @ weights).argmax())

    def best(self, preference: Sequence[float]) -> nn.Module:
        """Return the model to use for a preference (on the simplex), as a plain module."""
        return self.model(self.choose(preference))

    def model(self, point: int) -> nn.Module:
        """Return the model of the point with this index."""
        return load_model(self._files[point], self._problem.model())


class Search(Directory, Tabular[Literal["points", "iterations"]]):
    """Directory of one search, finished or not."""

    kind = "search"

    @classmethod
    def create(cls, path: Path, configuration: SearchConfiguration) -> Self:
        """Create the directory of a search with its configuration."""
        return cls.make(path, configuration.to_toml())

    @staticmethod
    def is_at(path: Path) -> bool:
        """Return whether a directory is that of a search."""
        return (path / CONFIG).is_file() and "search" in read_toml(path / CONFIG)

    @cached_property
    def configuration(self) -> SearchConfiguration:
        """Configuration of the search, complete."""
        return configure_search(self._values)

    @property
    def results(self) -> SearchResults:
        """The content of ``results.json``."""
        return cast(SearchResults, self._results)

    @property
    def history(self) -> list[SearchEntry]:
        """One entry per iteration."""
        return self._history

    def _tables(self) -> dict[Literal["points", "iterations"], Callable[[], Rows]]:
        return {
            "points": lambda: point_rows(self.results["front"]),
            "iterations": lambda: iteration_rows(self.history),
        }

    @property
    def control(self) -> Search | None:
        """The same search with random weights, if it was started beside this one."""
        path = self.path / CONTROL
        return Search.open(path) if (path / CONFIG).is_file() else None

    @cached_property
    def front(self) -> ModelFront:
        """The front: its vectors and models."""
        points = self.results["front"]
        names = self._objectives()
        vectors = np.array([[point["objectives"][name] for name in names] for point in points])
        files = [self.path / point["model"] for point in points]
        return ModelFront(vectors, files, self.configuration.problem)

    def _objectives(self) -> list[str]:
        return [objective.name for objective in self.configuration.problem.objectives]

    def save_front(self, archive: Archive, tested: FloatArray) -> list[FrontPoint]:
        """Write the models as safetensors and the table as CSV.

        Args:
            archive: The models and their origins.
            tested: Their vectors in the test (points x objectives).

        Returns:
            One entry per point, sorted by the first objective.
        """
        models = archive.models
        assert models is not None
        own_directory(self.path / MODELS)
        names = self._objectives()
        header = about(self.configuration.federation)
        points: list[FrontPoint] = []
        rows = np.lexsort(tested.T[::-1]).tolist()
        for number, row in enumerate(rows):
            origin, vector = archive.origins[row], tested[row].tolist()
            points.append(
                {
                    "point": number,
                    "objectives": dict(zip(names, vector, strict=True)),
                    "weight": origin.weight,
                    "iteration": origin.iteration,
                    "candidate": origin.candidate,
                    "round": origin.round,
                    "model": f"{MODELS}/point-{number}.safetensors",
                }
            )
        write_together(
            (
                self.path / point["model"],
                model_content(models, row, {**header, "weight": point["weight"]}),
            )
            for point, row in zip(points, rows, strict=True)
        )
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        weights = [f"weight of {name}" for name in names]
        table.writerow(["point", *names, *weights, "iteration", "candidate", "round", "model"])
        for point in points:
            values = (*point["objectives"].values(), *point["weight"])
            source = (point["iteration"], point["candidate"], point["round"])
            table.writerow([point["point"], *values, *source, point["model"]])
        write_whole(self.path / FRONT, text.getvalue().encode())
        return points
