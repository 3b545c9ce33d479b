"""State of a search: all that it needs to continue after an interruption."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from comity.core.fleet import Fleet
from comity.core.pareto import front, hypervolume
from comity.core.storage import strip_prefix
from comity.core.typing import FloatArray, NamedArrays
from comity.federation.record import RoundRecord
from comity.problems import DataProblem
from comity.runs.link_schema import Communication
from comity.runs.search_schema import SearchEffort, SearchEntry
from comity.searches.archive import Archive
from comity.searches.candidates import Findings
from comity.searches.configuration import SearchConfiguration


class SearchState:
    """Archive, history, models for warm starts, and costs of a search so far."""

    def __init__(self, configuration: SearchConfiguration) -> None:
        self._configuration = configuration
        self.objectives = len(configuration.problem.objectives)
        self.archive = Archive(self.objectives, configuration.problem.counts)
        self.history: list[SearchEntry] = []
        self.models: Fleet | None = None
        """One model per solved subproblem, in the order of solving; only with warm starts."""
        self.communication: Communication = {"bytes_up": 0, "bytes_down": 0}
        self.events: list[str] = []
        """Events of the iteration under way."""
        self._earlier, self._began = 0.0, time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds that the search has taken, those before interruptions included."""
        return self._earlier + time.monotonic() - self._began

    @property
    def evaluations(self) -> int:
        """Number of subproblems solved."""
        return self.history[-1]["evaluations"] if self.history else 0

    @property
    def hypervolume(self) -> float:
        """Hypervolume of the archive, on the server's evaluation."""
        if not len(self.archive):
            return 0.0
        counted = self._configuration.problem.counts(self.archive.vectors)
        point = self._configuration.search.reference_point
        return hypervolume(self.archive.vectors[counted], point)

    def stalled(self, patience: int) -> bool:
        """Return whether the last ``patience`` iterations left the hypervolume as it was."""
        if not patience or len(self.history) <= patience:
            return False
        values = [entry["hypervolume"] for entry in self.history]
        return values[-1] <= values[-1 - patience]

    def findings(self, iterations: int | None = None) -> Findings:
        """Return what a generator is given after some iterations (None: after all so far)."""
        entries = self.history[:iterations]
        candidates = [candidate for entry in entries for candidate in entry["candidates"]]
        shape = (-1, self.objectives)
        return Findings(
            weights=np.array([candidate["weight"] for candidate in candidates]).reshape(shape),
            vectors=np.array([candidate["objectives"] for candidate in candidates]).reshape(shape),
            front=np.array(entries[-1]["front"] if entries else []).reshape(shape),
            budget=self._configuration.budget,
        )

    def nearest(self, weights: FloatArray) -> list[int]:
        """Return the solved subproblem that is nearest to each weight."""
        solved = self.findings().weights
        return [int(np.linalg.norm(solved - weight, axis=1).argmin()) for weight in weights]

    def add_models(self, models: Fleet) -> None:
        """Keep the models of newly solved subproblems for warm starts."""
        self.models = models if self.models is None else Fleet.cat([self.models, models])

    def add_costs(self, records: Iterable[RoundRecord]) -> None:
        """Add the bytes and events of a round of some federations."""
        for record in records:
            self.events += record.events
            self.communication["bytes_up"] += record.bytes_up
            self.communication["bytes_down"] += record.bytes_down

    def record(
        self,
        weights: FloatArray,
        vectors: FloatArray,
        starts: list[int | None],
        steps: Mapping[str, int],
        evaluation_steps: int,
    ) -> SearchEntry:
        """Append an iteration to the history and return its entry.

        Args:
            weights: The weights tried (candidates x objectives).
            vectors: The objectives that each led to (candidates x objectives).
            starts: The solved subproblem from which each started; None: from scratch.
            steps: Steps of the iteration's clients, by kind.
            evaluation_steps: Environment steps of the server's evaluation since the beginning.
        """
        entry: SearchEntry = {
            "iteration": len(self.history) + 1,
            "candidates": [
                {"weight": weight, "objectives": vector, "start": start}
                for weight, vector, start in zip(
                    weights.tolist(), vectors.tolist(), starts, strict=True
                )
            ],
            "evaluations": self.evaluations + len(weights),
            "hypervolume": self.hypervolume,
            "front": front(self.archive.vectors).tolist(),
            **self._effort(steps, evaluation_steps),
            "communication": self.communication.copy(),
            "events": self.events,
        }
        self.events = []
        self.history.append(entry)
        return entry

    def _effort(self, steps: Mapping[str, int], evaluation_steps: int) -> SearchEffort:
        """Return the steps since the beginning; arguments as in `record`."""
        last = self.history[-1] if self.history else SearchEffort()
        if isinstance(self._configuration.problem, DataProblem):
            return {"training_steps": last.get("training_steps", 0) + steps["training"]}
        before = last.get("environment_steps", {})
        total = {kind: before.get(kind, 0) + count for kind, count in steps.items()}
        return {"environment_steps": {**total, "evaluation": evaluation_steps}}

    def save(self) -> tuple[NamedArrays, dict[str, Any]]:
        """Return the state as named arrays and plain values."""
        tensors, archive = self.archive.state()
        arrays = {f"archive/{name}": value for name, value in tensors.items()}
        if self.models is not None:
            arrays.update(
                {f"solved/{k}": t.numpy(force=True) for k, t in self.models.tensors.items()}
            )
        return arrays, {
            "archive": archive,
            "history": self.history,
            "communication": self.communication,
            "events": self.events,
            "seconds": self.seconds,
        }

    def restore(self, arrays: NamedArrays, values: Mapping[str, Any]) -> None:
        """Restore what `save` returned."""
        self.archive.load(strip_prefix(arrays, "archive/"), values["archive"])
        self.models = Fleet.from_arrays(strip_prefix(arrays, "solved/"))
        self.history = list(values["history"])
        communication = values["communication"]
        self.communication = {
            "bytes_up": communication["bytes_up"],
            "bytes_down": communication["bytes_down"],
        }
        self.events = list(values["events"])
        self._earlier, self._began = float(values["seconds"]), time.monotonic()
