"""A search on disk, and the front of models that it ends with."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import cast

import numpy as np
from torch import nn

from comity.configuration import read_toml
from comity.core.preferences import checked
from comity.core.storage import write_whole
from comity.core.typing import FloatArray
from comity.problems import Problem
from comity.runs.directory import CONFIG, MODELS, Directory, about, load_model, save_model
from comity.runs.schema import SearchEntry, SearchResults
from comity.searches.archive import Archive
from comity.searches.configuration import SearchConfiguration, configure_search

FRONT, CONTROL = "front.csv", "control"


class ModelFront:
    """Non-dominated vectors and the models behind them: choose one when you know what you want."""

    def __init__(self, vectors: FloatArray, files: Sequence[Path], problem: Problem):
        self.vectors = vectors
        self._files, self._problem = list(files), problem

    def __len__(self) -> int:
        return len(self.vectors)

    def choose(self, preference: Sequence[float]) -> int:
        """The place of the point that is worth most under a preference."""
        objectives = self.vectors.shape[1]
        (weights,) = checked([list(preference)], 1, objectives, where="preference")
        return int((self.vectors @ weights).argmax())

    def best(self, preference: Sequence[float]) -> nn.Module:
        """The model to use for a preference, as a plain module."""
        return self.model(self.choose(preference))

    def model(self, point: int) -> nn.Module:
        """The model behind a point."""
        return load_model(self._files[point], self._problem.model())


class Search(Directory):
    """One search on disk, finished or not."""

    kind = "search"

    @classmethod
    def create(cls, path: Path, configuration: SearchConfiguration) -> Search:
        """Start a search's directory."""
        return cls.make(path, configuration.to_toml())

    @staticmethod
    def is_at(path: Path) -> bool:
        """Whether a directory is a search's."""
        return (path / CONFIG).is_file() and "search" in read_toml(path / CONFIG)

    @cached_property
    def configuration(self) -> SearchConfiguration:
        return configure_search(read_toml(self.path / CONFIG))

    @property
    def results(self) -> SearchResults:
        """What the search ended with, as in ``results.json``."""
        return cast(SearchResults, self._results)

    @property
    def history(self) -> list[SearchEntry]:
        """One entry per iteration."""
        return self._history

    @property
    def control(self) -> Search | None:
        """The same search with random weights, if it was run beside this one."""
        path = self.path / CONTROL
        return Search.open(path) if (path / CONFIG).is_file() else None

    @cached_property
    def front(self) -> ModelFront:
        """The front: its vectors, and the model for any preference."""
        points = self.results["front"]
        names = [o.name for o in self.configuration.problem.objectives]
        vectors = np.array([[point["objectives"][name] for name in names] for point in points])
        files = [self.path / point["model"] for point in points]
        return ModelFront(vectors, files, self.configuration.problem)

    def save_front(self, archive: Archive, tested: FloatArray) -> list[dict[str, object]]:
        """Models as safetensors, the table as CSV; what results say of each point.

        ``tested`` are the archive's vectors on test episodes; points are sorted by the first.
        """
        assert archive.models is not None
        (self.path / MODELS).mkdir(exist_ok=True)
        names = [o.name for o in self.configuration.problem.objectives]
        header = about(self.configuration.federation)
        points: list[dict[str, object]] = []
        for number, row in enumerate(np.lexsort(tested.T[::-1]).tolist()):
            origin, vector = archive.origins[row], tested[row].tolist()
            place = f"{MODELS}/point-{number}.safetensors"
            save_model(self.path / place, archive.models, row, {**header, "weight": origin.weight})
            points.append(
                {
                    "point": number,
                    "objectives": dict(zip(names, vector, strict=True)),
                    "weight": origin.weight,
                    "iteration": origin.iteration,
                    "candidate": origin.candidate,
                    "round": origin.round,
                    "model": place,
                }
            )
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        weights = [f"weight of {name}" for name in names]
        table.writerow(["point", *names, *weights, "iteration", "candidate", "round", "model"])
        for point in points:
            objectives, weight = point["objectives"], point["weight"]
            assert isinstance(objectives, dict)
            assert isinstance(weight, list)
            rest = (point[key] for key in ("iteration", "candidate", "round", "model"))
            table.writerow([point["point"], *objectives.values(), *weight, *rest])
        write_whole(self.path / FRONT, text.getvalue().encode())
        return points
