"""MOFL/D (Hartmann, thesis Algorithm 2): a front of models by decomposition into preferences.

Each iteration proposes weights, trains a complete federation for each, evaluates the resulting
models on the server, and archives the non-dominated ones. The federations of an iteration are
independent, so they advance together, their clients as one fleet.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from comity.algorithms import Declaration
from comity.configuration import Configuration
from comity.core.devices import CPU, placed
from comity.core.fleet import Fleet
from comity.core.rng import stream, torch_seeded
from comity.core.storage import strip_prefix
from comity.core.typing import FloatArray, NamedArrays
from comity.errors import UserError
from comity.federation.engines.chunked import ChunkedEngine
from comity.federation.loop import SimulatedLoop
from comity.federation.server import Server
from comity.runs.base import CHECKPOINT
from comity.runs.cluster import Workers, engine_of
from comity.runs.events import Notify, RoundEvent, StartEvent
from comity.searches.archive import Origin
from comity.searches.configuration import SearchConfiguration
from comity.searches.directory import Search
from comity.searches.evaluation import evaluation_of
from comity.searches.state import SearchState

_CHECKPOINT_SECONDS = 10.0
DECLARATION = Declaration(
    "mofld",
    title="MOFL/D",
    paper="Hartmann et al., 2023",
    place="server-led",
    method="linearised objectives; metaheuristic on weights",
    communication="that of the federations",
)
"""Name and place of this search in the taxonomy."""


class MOFLD:
    """One search under way.

    Args:
        search: The directory of the search; its checkpoint, if there is one, is restored.
        workers: Processes that train clients, or a cluster.
        notify: Called at the start, and after each round of an iteration's federations.
    """

    def __init__(self, search: Search, workers: Workers, notify: Notify) -> None:
        self.directory, self.configuration = search, search.configuration
        self.state = SearchState(self.configuration)
        self.evaluation = evaluation_of(self.configuration)
        self._generator = self.configuration.get_generator()
        self._workers, self._notify, self._source = workers, notify, source(search)
        self._engine: ChunkedEngine | None = None
        self._interrupted: tuple[NamedArrays, dict[str, Any]] | None = None

    # -- the search ------------------------------------------------------------------------

    def run(self) -> None:
        """Iterate until a stopping criterion holds."""
        self._restore()
        done = len(self.state.history) * self.configuration.federation.rounds
        if self._interrupted is not None:
            done += int(self._interrupted[1]["federations"][0]["done"])
        settings = self.configuration.plain()
        self._notify(StartEvent(**self._source, round=done, settings=settings))
        try:
            while (count := self._next_count()) > 0:
                self._iterate(count)
        finally:
            if self._engine is not None:
                self._engine.close()

    def _next_count(self) -> int:
        """Return the number of candidates of the next iteration; 0: the search is over."""
        settings, state = self.configuration.search, self.state
        if len(state.history) >= settings.iterations or state.stalled(settings.stall):
            return 0
        count = min(settings.candidates, self.configuration.budget - state.evaluations)
        size = self.configuration.federation.clients if settings.spread else 1
        return count - count % size  # a spread federation is whole or not at all

    def _iterate(self, count: int) -> None:
        number, seed, state = len(self.state.history), self.configuration.seed, self.state
        weights = self._generator.propose(
            count, state.objectives, state.findings(), stream(seed, "candidates", number)
        )
        starts = self._starts(number, weights)
        models, steps = self._train(number, weights, starts)
        vectors = self._evaluate(number, weights, models)
        entry = state.record(weights, vectors, starts, steps, self.evaluation.steps)
        self._generator.learn(
            weights, vectors, state.findings(), stream(seed, "acceptance", number)
        )
        self._save()
        self.directory.append_history(entry)

    def _starts(self, number: int, weights: FloatArray) -> list[int | None]:
        """Return the nearest solved subproblem of each candidate; None: start from scratch."""
        if not self.configuration.search.warm_start or number == 0:
            return [None] * len(weights)
        return [*self.state.nearest(weights)]

    # -- one iteration ---------------------------------------------------------------------

    def _train(
        self, number: int, weights: FloatArray, starts: list[int | None]
    ) -> tuple[Fleet, dict[str, int]]:
        """Train all candidates' federations.

        Returns:
            The final models of all clients, and their steps by kind.
        """
        configuration = self._configuration(number, weights)
        federations = list(self._federations(number, configuration, starts))
        if self._engine is None:
            self._engine = engine_of(configuration, self._workers)
        else:
            self._engine.begin(configuration)  # the same processes
        engine = self._engine
        loop = SimulatedLoop(engine, *federations)
        if self._interrupted is not None:
            loop.load(*self._interrupted)
            self._interrupted = None
        else:
            self.state.communication["bytes_down"] += loop.install()
        saved = time.monotonic()
        for records in loop.rounds():
            self.state.add_costs(records)
            if self.configuration.search.harvest:
                self._harvest(number, weights, federations)
            now = time.monotonic()
            if now - saved >= _CHECKPOINT_SECONDS:
                self._save(loop)
                saved = now
            self._notify(self._round_event(number, records[0].round))
        records = loop.finish()
        self.state.add_costs(records)
        metrics = engine.metrics(tuple(range(configuration.clients)))
        steps = {
            "training": int(metrics.steps.sum()),
            "validation": int(metrics.validation_steps.sum()),
        }
        models = engine.models(kept=configuration.keep == "best")
        broken = np.flatnonzero(~models.finite())
        if len(broken):
            models = models.clone()
            models.put(broken, engine.models(kept=True).select(broken))
        return models, steps

    def _configuration(self, number: int, weights: FloatArray) -> Configuration:
        """Return all clients of an iteration as one configuration."""
        seed = int(stream(self.configuration.seed, "iteration", number).integers(2**31))
        return self.configuration.iteration(weights, seed)

    def _federations(
        self, number: int, configuration: Configuration, starts: list[int | None]
    ) -> Iterator[Server]:
        """Yield one federation per candidate (spread: one per as many candidates as clients)."""
        size, spread = self.configuration.federation.clients, self.configuration.search.spread
        for place in range(configuration.clients // size):
            members = starts[place * size : (place + 1) * size] if spread else [starts[place]]
            nearest = [start for start in members if start is not None]
            if nearest and self.state.models is not None:
                initial = self.state.models.select(nearest)
            else:
                seed = self.configuration.seed
                with placed(CPU), torch_seeded(seed, "candidate", number, place):
                    module = self.configuration.problem.model()
                initial = Fleet.of(module, 1)
            yield Server(configuration, range(place * size, (place + 1) * size), initial)

    def _evaluate(self, number: int, weights: FloatArray, models: Fleet) -> FloatArray:
        """Evaluate and archive each candidate's models on the server.

        Returns:
            The vector of each candidate that its own weight prefers (candidates x objectives).
        """
        size = len(models) // len(weights)
        vectors, chosen = [], []
        rows = [_distinct(models, range(i * size, (i + 1) * size)) for i in range(len(weights))]
        evaluated = self.evaluation.evaluate(
            models.select([row for part in rows for row in part]), "server"
        )
        at = 0
        for candidate, part in enumerate(rows):
            values = evaluated[at : at + len(part)]
            at += len(part)
            origin = Origin(weights[candidate].tolist(), number + 1, candidate, None)
            self.state.archive.add(values, models.select(part), [origin] * len(part))
            best = int((values @ weights[candidate]).argmax())
            vectors.append(values[best])
            chosen.append(part[best])
        if self.configuration.search.warm_start:
            self.state.add_models(models.select(chosen).clone())
        return np.array(vectors)

    def _harvest(self, number: int, weights: FloatArray, federations: list[Server]) -> None:
        """Archive the non-dominated models that the servers hold after a round."""
        size = 1 if self.configuration.search.spread else self.configuration.federation.clients
        parts, origins = [], []
        for federation in federations:
            for client, model in federation.server_models().items():
                if model.finite().all():
                    candidate = client // size
                    weight = weights[candidate].tolist()
                    origins.append(Origin(weight, number + 1, candidate, federation.done))
                    parts.append(model)
        if parts:
            models = Fleet.cat(parts)
            self.state.archive.add(self.evaluation.evaluate(models, "server"), models, origins)

    # -- checkpoints -----------------------------------------------------------------------

    def _save(self, loop: SimulatedLoop | None = None) -> None:
        """Write a checkpoint, with the loop's state when inside an iteration."""
        arrays, values = self.state.save()
        values["evaluation_steps"] = self.evaluation.steps
        if loop is not None:
            inner, values["loop"] = loop.state()
            arrays.update({f"loop/{name}": value for name, value in inner.items()})
        self.directory.save_checkpoint(arrays, values)

    def _restore(self) -> None:
        """Return to the last checkpoint, if there is one."""
        checkpoint = self.directory.load_checkpoint()
        if checkpoint is None:
            self.directory.rewrite_history([])
            return
        arrays, values = checkpoint
        try:
            self.state.restore(arrays, values)
            self.evaluation.steps = int(values["evaluation_steps"])
            if "loop" in values:
                self._interrupted = strip_prefix(arrays, "loop/"), values["loop"]
            self._replay()
        except (KeyError, ValueError, RuntimeError) as error:
            raise UserError(
                f"{self.directory.path / CHECKPOINT} does not fit its configuration ({error})."
            ) from None
        self.directory.rewrite_history(self.state.history)

    def _replay(self) -> None:
        """Bring the generator up to date by repeating its calls of all recorded iterations."""
        seed, state = self.configuration.seed, self.state
        for number, entry in enumerate(state.history):
            weights = np.array([candidate["weight"] for candidate in entry["candidates"]])
            vectors = np.array([candidate["objectives"] for candidate in entry["candidates"]])
            before, after = state.findings(number), state.findings(number + 1)
            draw = stream(seed, "candidates", number)
            self._generator.propose(len(weights), state.objectives, before, draw)
            self._generator.learn(weights, vectors, after, stream(seed, "acceptance", number))

    def _round_event(self, number: int, round: int) -> RoundEvent:
        done = number * self.configuration.federation.rounds + round
        return RoundEvent(
            **self._source,
            round=done,
            done=done,
            total=total_rounds(self.configuration),
            seconds=self.state.seconds,
            metrics={"iteration": number + 1.0, "hypervolume": self.state.hypervolume},
        )


def source(search: Search) -> dict[str, Any]:
    """Return the fields that all events of a search share."""
    configuration = search.configuration
    return {
        "kind": "search",
        "run": str(search.path),
        "problem": configuration.federation.problem_name,
        "algorithm": configuration.federation.label,
        "generator": configuration.label,
        "seed": configuration.seed,
        "clients": configuration.federation.clients,
        "rounds": total_rounds(configuration),
        "objectives": tuple(each.name for each in configuration.problem.objectives),
    }


def total_rounds(configuration: SearchConfiguration) -> int:
    """Return the rounds of all iterations, for progress bars."""
    settings = configuration.search
    iterations = min(settings.iterations, -(-configuration.budget // settings.candidates))
    return iterations * configuration.federation.rounds


def _distinct(models: Fleet, rows: range) -> list[int]:
    """Return one row per distinct model: the clients of one global model all hold the same."""
    first: list[int] = []
    for row in rows:
        same = (
            all(bool((models[name][row] == models[name][other]).all()) for name in models)
            for other in first
        )
        if not any(same):
            first.append(row)
    return first
