"""Execution of runs: rounds, checkpoints, results."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from comity.configuration import Configuration, check_complete, configure
from comity.core.devices import placed
from comity.core.locks import held
from comity.core.storage import remove_leftovers, strip_prefix
from comity.core.threads import limited
from comity.core.typing import BoolArray, FloatArray
from comity.errors import UserError
from comity.federation.engine import SimulatedEngine
from comity.federation.loop import SimulatedLoop
from comity.federation.messages import RoundMetrics
from comity.federation.neighbours import server_of
from comity.problems import DataProblem
from comity.runs.answers import constant_models
from comity.runs.base import CONFIG, GROUPS, MODELS
from comity.runs.cluster import Workers, check_workers, engine_of, persevere
from comity.runs.directory import Run
from comity.runs.events import EndEvent, Notify, RoundEvent, StartEvent
from comity.runs.groups import groups_of
from comity.runs.places import free_path
from comity.runs.results import history_entry, summarise
from comity.runs.schema import HistoryEntry, Vectors
from comity.runs.span_results import add_span_metrics, span_result
from comity.runs.spans import Spans

_CHECKPOINT_SECONDS = 5.0
_CHEAP = 0.25  # seconds; checkpoints that take longer are made rarer in proportion
KINDS: tuple[Literal["received", "trained", "kept"], ...] = ("received", "trained", "kept")
"""Models of a round whose objective vectors are known."""


def start_run(values: Mapping[str, Any], out: str | Path | None = None) -> Run:
    """Configure a run and create its directory; nothing is trained yet.

    Args:
        values: Settings as a TOML file holds them: see `configure`.
        out: The directory to create; default: a new one under ``runs/``.
    """
    return begin(configure(values), out)


def begin(configuration: Configuration, out: str | Path | None = None) -> Run:
    """Create the directory of a run; nothing is trained yet.

    Args:
        configuration: The run's configuration.
        out: The directory to create; default: a new one under ``runs/``.
    """
    check_complete(configuration)
    if out is None:
        seed = f"seed{configuration.seed}"
        out = free_path(configuration.problem_name, configuration.label, seed)
    return Run.create(Path(out), configuration)


def execute(run: Run, workers: Workers = 1, notify: Notify | None = None) -> Run:
    """Bring a run to its end, from its last checkpoint or from the start.

    Args:
        run: A run that is not finished.
        workers: Processes that share the clients, or a cluster; results do not depend on it.
        notify: Called with each event: the start, each round, the end.
    """
    check_workers(workers)
    with held(run.path):
        if not run.finished:  # another process may just have finished it
            remove_leftovers(run.path, run.path / MODELS)
            persevere(run, partial(_execute, run, workers, notify))
    return run


def _execute(run: Run, workers: Workers, notify: Notify | None) -> None:
    """Bring a run to its end; arguments as of `execute`."""
    configuration = run.configuration
    check_complete(configuration)
    with limited(configuration.threads):
        started = time.monotonic()
        with placed(configuration.device), engine_of(configuration, workers) as engine:
            loop = SimulatedLoop(engine, server_of(configuration))
            started -= _restore(run, loop)
            if notify is not None:
                settings = configuration.plain()
                notify(StartEvent(**_source(run), round=loop.done, settings=settings))
            _advance(run, loop, started, notify)
            (last,) = loop.finish()
            run.append_history(history_entry(last, engine.metrics(last.clients)))
            keeps_best = configuration.keep == "best"
            models = engine.models(kept=keeps_best)
            run.save_models(models)
            # rewards are float32: a return of 8.2 must equal the front's 8.2
            best = engine.test(kept=True).round(6) if keeps_best else None
            last_tested = engine.test(kept=False).round(6)
            has_data = isinstance(configuration.get_problem(), DataProblem)
            on_all_test_data = (
                engine.test(keeps_best, "everyone")
                if has_data and configuration.global_test != 0
                else None
            )
            spans = _spans(configuration, engine)
            groups = groups_of(configuration, engine, range(configuration.clients))
        constant = constant_models(configuration, models)
        results = summarise(
            configuration,
            last_tested if best is None else best,
            last_tested,
            run.history,
            on_all_test_data=on_all_test_data,
            constant=constant,
            groups=groups,
        )
        if spans is not None:
            run.save_spans(spans)
            results["spanned"] = span_result(
                spans, configuration.get_problem(), configuration.attackers
            )
            add_span_metrics(results)
        if groups is not None:
            run.save_json(GROUPS, groups)
        run.save_schema(configuration)
        if loop.servers[0].algorithm.outlasts:
            run.save_server(strip_prefix(loop.servers[0].state()[0], "algorithm/"))
        run.save_results(results, time.monotonic() - started, loop.spent)
    if not configuration.keep_checkpoint:
        run.drop_checkpoint()
    if notify is not None:
        notify(EndEvent(**_source(run), seconds=run.seconds, results=run.results))


def execute_at(path: Path, notify: Notify) -> None:
    """Execute the run in a directory in this process."""
    execute(Run.open(path), notify=notify)


def _spans(configuration: Configuration, engine: SimulatedEngine) -> Spans | None:
    """Evaluate every client at many preferences; None if its model takes none."""
    objectives = len(configuration.get_problem().objectives)
    preferences = configuration.get_algorithm().evaluation_preferences(objectives, "test")
    if preferences is None:
        return None
    vectors, losses = engine.evaluate_preferences(preferences)
    return Spans(preferences, vectors.round(6), losses)


def _restore(run: Run, loop: SimulatedLoop) -> float:
    """Load the last checkpoint, if there is one; return the seconds spent before it."""
    seconds = 0.0
    checkpoint = run.load_checkpoint()
    if checkpoint is not None:
        tensors, values = checkpoint
        try:
            loop.load(tensors, values)
            seconds, loop.spent = float(values["seconds"]), dict(values["spent"])
        except (KeyError, ValueError, RuntimeError) as error:
            raise UserError(
                f"{run.path}: the checkpoint does not fit its configuration ({error}). Start "
                f"again with: comity run --config {run.path / CONFIG}"
            ) from None
    run.cut_history(loop.done)
    return seconds


def _advance(run: Run, loop: SimulatedLoop, started: float, notify: Notify | None) -> None:
    """Run the remaining rounds; save a checkpoint every few seconds and after the last round."""
    rounds = run.configuration.rounds
    due = time.monotonic() + _CHECKPOINT_SECONDS
    every = run.configuration.evaluate_every
    for (record,) in loop.rounds():
        metrics = loop.engine.metrics(record.clients)
        everyone = loop.evaluate() if every and loop.done % every == 0 else None
        entry = history_entry(record, metrics, everyone)
        run.append_history(entry)
        now = time.monotonic()
        if now >= due or loop.done == rounds:
            state, plain = loop.state()
            run.save_checkpoint(state, {**plain, "seconds": now - started, "spent": loop.spent})
            cost = (saved := time.monotonic()) - now
            due = saved + _CHECKPOINT_SECONDS * max(1.0, cost / _CHEAP)
        if notify is not None:
            vectors = _handed_over(run.configuration, metrics, everyone)
            notify(_round_event(run, entry, vectors, now - started))


def _source(run: Run) -> dict[str, Any]:
    """Return the fields that all events of a run share."""
    configuration = run.configuration
    return {
        "kind": "run",
        "run": str(run.path),
        "problem": configuration.problem_name,
        "algorithm": configuration.label,
        "seed": configuration.seed,
        "clients": configuration.clients,
        "rounds": configuration.rounds,
        "objectives": tuple(each.name for each in configuration.get_problem().objectives),
    }


def _round_event(
    run: Run, entry: HistoryEntry, handed_over: FloatArray | None, seconds: float
) -> RoundEvent:
    """Return a round as an event; its metrics are means over the honest clients.

    Args:
        run: The run.
        entry: The round as a line of the history.
        handed_over: Validation vectors of the models that would be handed over now, of the
            participants or of all clients.
        seconds: Time of the run so far.
    """
    configuration, source = run.configuration, _source(run)
    vectors: dict[str, Vectors] = {
        kind: rows for kind in KINDS if (rows := entry[kind]) is not None
    }
    honest = _honest(configuration, entry["clients"])
    metrics = {
        f"{kind}/{name}": float(column.mean())
        for kind, rows in vectors.items()
        if honest.any()
        for name, column in zip(
            source["objectives"], np.array(rows, dtype=np.float64)[honest].T, strict=True
        )
    }
    metrics |= {"bytes_up": float(entry["bytes_up"]), "bytes_down": float(entry["bytes_down"])}
    if handed_over is not None:
        preferences = configuration.get_preferences()
        everyone = len(handed_over) == len(preferences)
        clients = range(len(preferences)) if everyone else entry["clients"]
        honest = _honest(configuration, clients)
        validated = handed_over[honest]
        if len(validated) and np.isfinite(validated).all():  # else not all are validated yet
            values = (validated * preferences[list(clients)][honest]).sum(axis=1)
            metrics["validated"] = float(values.mean())
    return RoundEvent(
        **source,
        round=entry["round"],
        done=entry["round"],
        total=configuration.rounds,
        seconds=seconds,
        metrics={name: value for name, value in metrics.items() if np.isfinite(value)},
        models="kept" if configuration.keep == "best" else "last",
        participants=tuple(entry["clients"]),
        vectors=vectors,
        incidents=tuple(entry["events"]),
    )


def _honest(configuration: Configuration, clients: Sequence[int]) -> BoolArray:
    """Return which of these clients do not attack."""
    return np.isin(clients, configuration.attackers, invert=True)


def _handed_over(
    configuration: Configuration, metrics: RoundMetrics, everyone: FloatArray | None
) -> FloatArray | None:
    """Return the validation vectors of the models that would be handed over now.

    With ``keep = last`` these are delivered ones, unless clients train on after the last delivery
    or nothing is delivered.
    """
    if configuration.keep == "best":
        return metrics.kept
    if everyone is not None:
        return everyone
    delivered = metrics.received if configuration.fine_tune == "none" else None
    return metrics.trained if delivered is None else delivered
