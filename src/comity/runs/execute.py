"""Execution of runs: rounds, checkpoints, results."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from comity.configuration import Configuration, check_complete, configure
from comity.core.locks import held
from comity.core.progress import Progress
from comity.core.storage import remove_leftovers, strip_prefix
from comity.core.threads import limited
from comity.core.typing import FloatArray, OnRound
from comity.errors import UserError
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import SimulatedLoop
from comity.federation.messages import RoundMetrics
from comity.federation.neighbours import server_of
from comity.federation.record import RoundRecord
from comity.problems import DataProblem
from comity.runs.answers import constant_models
from comity.runs.base import CONFIG, GROUPS, MODELS
from comity.runs.directory import Run
from comity.runs.groups import groups_of
from comity.runs.places import free_path
from comity.runs.results import history_entry, span_result, summarise
from comity.runs.spans import Spans

_CHECKPOINT_SECONDS = 5.0


def check_workers(workers: int) -> None:
    """Refuse a number of processes below one."""
    if workers < 1:
        raise UserError(f"workers = {workers}: must be at least 1.")


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


def execute(run: Run, workers: int = 1, on_round: OnRound | None = None) -> Run:
    """Bring a run to its end, from its last checkpoint or from the start.

    Args:
        run: A run that is not finished.
        workers: Processes that share the clients; results do not depend on it.
        on_round: Called after each round.
    """
    check_workers(workers)
    with held(run.path):
        if not run.finished:  # another process may just have finished it
            remove_leftovers(run.path, run.path / MODELS)
            _execute(run, workers, on_round)
    return run


def _execute(run: Run, workers: int, on_round: OnRound | None) -> None:
    """Bring a run to its end; arguments as of `execute`."""
    configuration = run.configuration
    check_complete(configuration)
    with limited(configuration.threads):
        started = time.monotonic()
        with EmbeddedEngine(configuration, workers) as engine:
            loop = SimulatedLoop(engine, server_of(configuration))
            started -= _restore(run, loop)
            _advance(run, loop, started, on_round)
            (last,) = loop.finish()
            run.append_history(history_entry(last, engine.metrics(last.clients)))
            models = engine.models(kept=configuration.keep == "best")
            run.save_models(models)
            constant = constant_models(configuration, models)
            # rewards are float32: a return of 8.2 must equal the front's 8.2
            tested = {kept: engine.test(kept).round(6) for kept in (True, False)}
            has_data = isinstance(configuration.get_problem(), DataProblem)
            on_all_test_data = (
                engine.test(configuration.keep == "best", "everyone")
                if has_data and configuration.global_test != 0
                else None
            )
            spans = _spans(configuration, engine)
            groups = groups_of(configuration, engine, range(configuration.clients))
        kept = tested[configuration.keep == "best"]
        results = summarise(
            configuration,
            kept,
            tested[False],
            run.history,
            on_all_test_data=on_all_test_data,
            constant=constant,
            groups=groups,
        )
        if spans is not None:
            run.save_spans(spans)
            results["spanned"] = span_result(
                spans, results["reference_point"], configuration.attackers
            )
            # a client reaches all that its model spans, not only the point that it prefers
            results["metrics"]["own_hypervolume"] = results["spanned"]["hypervolume"]
            results.get("metrics_last", {}).pop(
                "own_hypervolume", None
            )  # spans are measured on kept models only
        if groups is not None:
            run.save_json(GROUPS, groups)
        run.save_schema(configuration)
        if loop.servers[0].algorithm.outlasts:
            run.save_server(strip_prefix(loop.servers[0].state()[0], "algorithm/"))
        run.save_results(results, time.monotonic() - started, loop.spent)
    if not configuration.keep_checkpoint:
        run.drop_checkpoint()


def execute_at(path: Path, on_round: OnRound) -> None:
    """Execute the run in a directory in this process."""
    execute(Run.open(path), on_round=on_round)


def _spans(configuration: Configuration, engine: EmbeddedEngine) -> Spans | None:
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


def _advance(run: Run, loop: SimulatedLoop, started: float, on_round: OnRound | None) -> None:
    """Run the remaining rounds; save a checkpoint every few seconds and after the last round."""
    rounds = run.configuration.rounds
    saved = time.monotonic()
    every = run.configuration.evaluate_every
    for (record,) in loop.rounds():
        metrics = loop.engine.metrics(record.clients)
        everyone = loop.evaluate() if every and loop.done % every == 0 else None
        run.append_history(history_entry(record, metrics, everyone))
        now = time.monotonic()
        if now - saved >= _CHECKPOINT_SECONDS or loop.done == rounds:
            state, plain = loop.state()
            run.save_checkpoint(state, {**plain, "seconds": now - started, "spent": loop.spent})
            saved = now
        if on_round is not None:
            on_round(loop.done, rounds, _progress(run, record, metrics, everyone))


def _progress(
    run: Run, record: RoundRecord, metrics: RoundMetrics, everyone: FloatArray | None
) -> Progress:
    """Return the values of a round, above all that of the models that would be handed over.

    They are means over the honest clients.
    """
    configuration = run.configuration
    names = [objective.name for objective in configuration.get_problem().objectives]
    honest = np.isin(record.clients, configuration.attackers, invert=True)
    values = {
        f"{kind}/{name}": float(column.mean())
        for kind in ("received", "trained", "kept")
        if (vectors := getattr(metrics, kind)) is not None and honest.any()
        for name, column in zip(names, vectors[honest].T, strict=True)
    }
    values |= {"bytes_up": float(record.bytes_up), "bytes_down": float(record.bytes_down)}
    text = ""
    preferences = configuration.get_preferences()
    vectors = _handed_over(configuration, metrics, everyone)
    if vectors is not everyone:
        preferences = preferences[list(record.clients)]
    else:
        honest = np.isin(range(configuration.clients), configuration.attackers, invert=True)
    if vectors is not None and honest.any() and np.isfinite(vectors[honest]).all():
        values["validated"] = float((vectors * preferences)[honest].sum(axis=1).mean())
        last = "" if configuration.keep == "best" else " (last)"
        text = f"validated{last} {values['validated']:.3g}"
    finite = {name: value for name, value in values.items() if np.isfinite(value)}
    return Progress(text, str(run.path), record.round, finite)


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
