"""MOFL/D (Hartmann, thesis Algorithm 2): a front of models by decomposition into preferences.

Each iteration proposes weights, trains a complete federation for each, lets the server evaluate
what comes back, and keeps what nothing dominates. The federations of an iteration do not depend on
each other, so they are advanced together, their clients as one fleet.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from comity.configuration import Configuration
from comity.core.fleet import Fleet
from comity.core.pareto import front, hypervolume
from comity.core.rng import stream, torch_seeded
from comity.core.storage import strip_prefix
from comity.core.typing import FloatArray, NamedArrays, OnRound
from comity.errors import UserError
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import SimulatedLoop
from comity.federation.server import RoundRecord, Server
from comity.runs.directory import CHECKPOINT
from comity.searches.archive import Archive, Origin
from comity.searches.candidates import Found
from comity.searches.configuration import SearchConfiguration
from comity.searches.directory import Search
from comity.searches.evaluation import Evaluation

_CHECKPOINT_SECONDS = 10.0


@dataclass
class _Solved:
    """The subproblems solved so far, and the best model of each for warm starts."""

    weights: list[list[float]]
    vectors: list[list[float]]
    models: Fleet | None = None


class MOFLD:
    """One search under way; everything that it must remember is in its directory."""

    def __init__(self, search: Search, workers: int, on_round: OnRound | None) -> None:
        self.directory, self.configuration = search, search.configuration
        self._workers, self._on_round = workers, on_round
        self.objectives = len(self.configuration.problem.objectives)
        self.archive = Archive(self.objectives)
        self.evaluation = Evaluation(self.configuration.problem, self.configuration.seed)
        self.history: list[dict[str, Any]] = []
        self.seconds = 0.0
        self.communication = {"bytes_up": 0, "bytes_down": 0}
        self._events: list[str] = []
        self._steps: dict[str, int] = {}
        self._solved = _Solved([], [])
        self._generator = self.configuration.get_generator()
        self._interrupted: tuple[NamedArrays, dict[str, Any]] | None = None
        self._engine: EmbeddedEngine | None = None
        self._since = time.monotonic()

    # -- the search ------------------------------------------------------------------------

    def run(self) -> None:
        """Iterate until a stopping criterion holds."""
        self._restore()
        try:
            while (count := self._next_count()) > 0:
                self._iterate(count)
        finally:
            if self._engine is not None:
                self._engine.close()

    def _next_count(self) -> int:
        """How many candidates the next iteration has; 0: the search is over."""
        settings = self.configuration.search
        if len(self.history) >= settings.iterations or self._stalled(settings.stall):
            return 0
        count = min(settings.candidates, self.configuration.budget - len(self._solved.weights))
        size = self.configuration.federation.clients if settings.spread else 1
        return count - count % size  # a spread federation is whole or not at all

    def _stalled(self, patience: int) -> bool:
        if not patience or len(self.history) <= patience:
            return False
        values = [entry["hypervolume"] for entry in self.history]
        return bool(values[-1] <= values[-1 - patience])

    def _iterate(self, count: int) -> None:
        number, seed = len(self.history), self.configuration.seed
        weights = self._generator.propose(
            count, self.objectives, self._found(), stream(seed, "candidates", number)
        )
        starts = self._starts(number, weights)
        trained = self._train(number, weights, starts)
        vectors = self._evaluate(number, weights, trained)
        self._record(number, weights, vectors, starts)
        self._generator.learn(weights, vectors, self._found(), stream(seed, "acceptance", number))
        self._save()
        self.directory.append_history(self.history[-1])

    def _found(self) -> Found:
        """What the generator is told: the state after the last whole iteration."""
        shape = (-1, self.objectives)
        known = self.history[-1]["front"] if self.history else []
        return Found(
            weights=np.array(self._solved.weights).reshape(shape),
            vectors=np.array(self._solved.vectors).reshape(shape),
            front=np.array(known).reshape(shape),
            budget=self.configuration.budget,
        )

    def _starts(self, number: int, weights: FloatArray) -> list[int | None]:
        """The nearest solved subproblem of each candidate; None: it starts from scratch."""
        if not self.configuration.search.warm_start or number == 0:
            return [None] * len(weights)
        solved = np.array(self._solved.weights)
        return [int(np.linalg.norm(solved - weight, axis=1).argmin()) for weight in weights]

    # -- one iteration ---------------------------------------------------------------------

    def _train(self, number: int, weights: FloatArray, starts: list[int | None]) -> Fleet:
        """The final models of all clients of all candidates' federations."""
        configuration = self._configuration(number, weights)
        federations = list(self._federations(number, configuration, starts))
        if self._engine is None:
            self._engine = EmbeddedEngine(configuration, self._workers)
        else:
            self._engine.begin(configuration)  # the same processes
        engine = self._engine
        loop = SimulatedLoop(engine, *federations)
        if self._interrupted is not None:
            loop.load(*self._interrupted)
            self._interrupted = None
        else:
            self.communication["bytes_down"] += loop.install()
        saved = time.monotonic()
        for records in loop.rounds():
            self._note(records)
            if self.configuration.search.harvest:
                self._harvest(number, weights, federations)
            now = time.monotonic()
            if now - saved >= _CHECKPOINT_SECONDS:
                self._save(loop)
                saved = now
            self._tell(number, records[0].round)
        records = loop.finish()
        self._note(records)
        metrics = engine.metrics(tuple(range(configuration.clients)))
        self._steps = {
            "training": int(metrics.steps.sum()),
            "validation": int(metrics.validation_steps.sum()),
        }
        models = engine.models(kept=configuration.keep == "best")
        broken = np.flatnonzero(~models.finite())
        if len(broken):
            models = models.clone()
            models.put(broken, engine.models(kept=True).select(broken))
        return models

    def _note(self, records: list[RoundRecord]) -> None:
        """What was sent, and what went wrong."""
        self._events += [event for record in records for event in record.events]
        self.communication["bytes_up"] += sum(record.bytes_up for record in records)
        self.communication["bytes_down"] += sum(record.bytes_down for record in records)

    def _configuration(self, number: int, weights: FloatArray) -> Configuration:
        """All clients of an iteration as one configuration."""
        federation, settings = self.configuration.federation, self.configuration.search
        each = 1 if settings.spread else federation.clients
        preferences = np.repeat(weights, each, axis=0)
        seed = int(stream(federation.seed, "iteration", number).integers(2**31))
        update = {"clients": len(preferences), "preferences": preferences.tolist(), "seed": seed}
        return federation.model_copy(update=update)

    def _federations(
        self, number: int, configuration: Configuration, starts: list[int | None]
    ) -> Iterator[Server]:
        """One federation a candidate (spread: one for as many candidates as it has clients)."""
        size, spread = self.configuration.federation.clients, self.configuration.search.spread
        for place in range(configuration.clients // size):
            own = starts[place * size : (place + 1) * size] if spread else [starts[place]]
            nearest = [start for start in own if start is not None]
            if nearest and self._solved.models is not None:
                initial = self._solved.models.select(nearest)
            else:
                with torch_seeded(self.configuration.seed, "candidate", number, place):
                    initial = Fleet.of(self.configuration.problem.model(), 1)
            yield Server(configuration, range(place * size, (place + 1) * size), initial)

    def _evaluate(self, number: int, weights: FloatArray, trained: Fleet) -> FloatArray:
        """Judge each candidate's models by the server; the vector that its weight likes best."""
        each = len(trained) // len(weights)
        vectors, chosen = [], []
        rows = [_different(trained, range(i * each, (i + 1) * each)) for i in range(len(weights))]
        judged = self._judge(trained.select([row for own in rows for row in own]))
        at = 0
        for candidate, own in enumerate(rows):
            values = judged[at : at + len(own)]
            at += len(own)
            origin = Origin(weights[candidate].tolist(), number + 1, candidate, None)
            self.archive.add(values, trained.select(own), [origin] * len(own))
            best = int((values @ weights[candidate]).argmax())
            vectors.append(values[best])
            chosen.append(own[best])
        solved = self._solved
        solved.weights += weights.tolist()
        solved.vectors += np.array(vectors).tolist()
        if self.configuration.search.warm_start:
            models = trained.select(chosen).clone()
            solved.models = models if solved.models is None else Fleet.cat([solved.models, models])
        return np.array(vectors)

    def _harvest(self, number: int, weights: FloatArray, federations: list[Server]) -> None:
        """Archive what the servers hold after a round, if it is worth it."""
        each = 1 if self.configuration.search.spread else self.configuration.federation.clients
        held, origins = [], []
        for federation in federations:
            for client, model in federation.server_models().items():
                if model.finite().all():
                    candidate = client // each
                    weight = weights[candidate].tolist()
                    origins.append(Origin(weight, number + 1, candidate, federation.done))
                    held.append(model)
        if held:
            models = Fleet.cat(held)
            self.archive.add(self._judge(models), models, origins)

    def _judge(self, models: Fleet) -> FloatArray:
        episodes = self.configuration.search.evaluation_episodes
        return self.evaluation.evaluate(models, "server", episodes)

    # -- what is remembered ----------------------------------------------------------------

    def _record(
        self, number: int, weights: FloatArray, vectors: FloatArray, starts: list[int | None]
    ) -> None:
        before = self.history[-1]["environment_steps"] if self.history else {}
        steps = {kind: before.get(kind, 0) + count for kind, count in self._steps.items()}
        entry = {
            "iteration": number + 1,
            "candidates": [
                {"weight": weight, "objectives": vector, "start": start}
                for weight, vector, start in zip(
                    weights.tolist(), vectors.tolist(), starts, strict=True
                )
            ],
            "evaluations": len(self._solved.weights),
            "hypervolume": self.hypervolume(),
            "front": front(self.archive.vectors).tolist(),
            "environment_steps": {**steps, "evaluation": self.evaluation.steps},
            "communication": dict(self.communication),
            "events": self._events,
        }
        self._events = []
        self.history.append(entry)

    def hypervolume(self) -> float:
        """Of the archive, on the server's evaluation."""
        if not len(self.archive):
            return 0.0
        return hypervolume(self.archive.vectors, self.configuration.search.reference_point)

    def _save(self, loop: SimulatedLoop | None = None) -> None:
        """One file with everything; with the loop's state when inside an iteration."""
        tensors, plain = self.archive.state()
        state = {f"archive/{name}": value for name, value in tensors.items()}
        values: dict[str, Any] = {
            "archive": plain,
            "history": self.history,
            "evaluation_steps": self.evaluation.steps,
            "communication": self.communication,
            "events": self._events,
            "seconds": self.seconds + time.monotonic() - self._since,
        }
        if self._solved.models is not None:
            state.update({f"solved/{k}": t.numpy() for k, t in self._solved.models.tensors.items()})
        if loop is not None:
            inner, values["loop"] = loop.state()
            state.update({f"loop/{name}": value for name, value in inner.items()})
        self.directory.save_checkpoint(state, values)

    def _restore(self) -> None:
        """Go back to the last checkpoint; the generator hears all iterations again."""
        checkpoint = self.directory.load_checkpoint()
        if checkpoint is None:
            self.directory.rewrite_history([])
            return
        tensors, values = checkpoint
        try:
            self._replay(values["history"])
            self.archive.load(strip_prefix(tensors, "archive/"), values["archive"])
            self._solved.models = Fleet.from_arrays(strip_prefix(tensors, "solved/"))
            self.evaluation.steps = int(values["evaluation_steps"])
            self.communication = dict(values["communication"])
            self._events = list(values["events"])
            self.seconds = float(values["seconds"])
            if "loop" in values:
                self._interrupted = strip_prefix(tensors, "loop/"), values["loop"]
        except (KeyError, ValueError, RuntimeError) as error:
            raise UserError(
                f"{self.directory.path / CHECKPOINT} does not fit its configuration ({error})."
            ) from None
        self.directory.rewrite_history(self.history)

    def _replay(self, history: list[dict[str, Any]]) -> None:
        seed = self.configuration.seed
        for number, entry in enumerate(history):
            weights = np.array([candidate["weight"] for candidate in entry["candidates"]])
            vectors = np.array([candidate["objectives"] for candidate in entry["candidates"]])
            self._generator.propose(
                len(weights), self.objectives, self._found(), stream(seed, "candidates", number)
            )
            self._solved.weights += weights.tolist()
            self._solved.vectors += vectors.tolist()
            self.history.append(entry)
            self._generator.learn(
                weights, vectors, self._found(), stream(seed, "acceptance", number)
            )

    def _tell(self, number: int, round: int) -> None:
        if self._on_round is None:
            return
        rounds = self.configuration.federation.rounds
        text = f"iteration {number + 1}, hypervolume {self.hypervolume():.6g}"
        self._on_round(number * rounds + round, total_rounds(self.configuration), text)


def total_rounds(configuration: SearchConfiguration) -> int:
    """Rounds of all iterations, for progress bars."""
    settings = configuration.search
    iterations = min(settings.iterations, -(-configuration.budget // settings.candidates))
    return iterations * configuration.federation.rounds


def _different(models: Fleet, rows: range) -> list[int]:
    """One row of each different model (the clients of one global model all hold the same)."""
    found: list[int] = []
    for row in rows:
        same = (
            all(bool((models[name][row] == models[name][other]).all()) for name in models)
            for other in found
        )
        if not any(same):
            found.append(row)
    return found
