"""Executing runs: rounds, checkpoints, results."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from comity.configuration import Configuration, configure
from comity.core.pareto import front, measures, reach
from comity.core.threads import limited
from comity.core.typing import AnyArray, FloatArray, OnRound
from comity.datasets.partition import fingerprint
from comity.errors import UserError
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import RoundLoop
from comity.federation.server import RoundRecord, Server
from comity.problems import DataProblem, EnvironmentProblem, Problem, register
from comity.runs.directory import CONFIG, Run, Spans

_CHECKPOINT_SECONDS = 5.0


def run(
    problem: str | Problem | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    workers: int = 1,
    on_round: OnRound | None = None,
    **settings: Any,
) -> Run:
    """Run one federation to its end: ``comity.run("deep-sea-treasure", algorithm="fedpref")``.

    ``settings`` are the run-level settings by name, and tables by the name of the algorithm or the
    learner: ``fedpref={"top_r": 0.4}, dqn={"local_steps": 1000}``. The run directory is ``out``,
    or a new one under ``runs/``.
    """
    check_workers(workers)
    if isinstance(problem, Problem):
        problem = register(problem).name
    configuration = configure({"problem": problem, **settings})
    path = Path(out) if out is not None else free_path(default_name(configuration))
    return execute(Run.create(path, configuration), workers, on_round)


def resume(path: str | Path, *, workers: int = 1, on_round: OnRound | None = None) -> Run:
    """Go on with an interrupted run; it ends as if it had never been interrupted."""
    found = Run.open(path)
    if found.finished:
        raise UserError(f"{path} is finished already; see it with: comity report {path}")
    return execute(found, workers, on_round)


def default_name(configuration: Configuration) -> str:
    problem = configuration.problem_name.replace(":", "-")
    return f"{problem}-{configuration.label}-seed{configuration.seed}"


def free_path(name: str) -> Path:
    """A directory under ``runs/`` that does not exist yet."""
    path, number = Path("runs") / name, 2
    while path.exists():
        path, number = Path("runs") / f"{name}-{number}", number + 1
    return path


def check_workers(workers: int) -> None:
    """Refuse a number of processes that cannot do anything."""
    if workers < 1:
        raise UserError(f"workers = {workers}: must be at least 1.")


def execute(run: Run, workers: int = 1, on_round: OnRound | None = None) -> Run:
    """Bring a run to its end, from its last checkpoint or from the start."""
    check_workers(workers)
    configuration = run.configuration
    with limited(configuration.threads):
        started = time.monotonic()
        with EmbeddedEngine(configuration, workers) as engine:
            loop = RoundLoop(engine, Server(configuration))
            started -= _restore(run, loop)
            _advance(run, loop, started, on_round)
            run.append_history(_entry(loop.finish()[0]))
            run.save_models(engine.models(kept=configuration.keep == "best"))
            # rewards are float32: a return of 8.2 must equal the front's 8.2
            tested = {kept: engine.test(kept).round(6) for kept in (True, False)}
            has_data = isinstance(configuration.get_problem(), DataProblem)
            on_all_test_data = (
                engine.test(configuration.keep == "best", "everyone") if has_data else None
            )
            spans = _spans(configuration, engine)
        kept = tested[configuration.keep == "best"]
        results = summarise(configuration, kept, tested[False], run.history, on_all_test_data)
        if spans is not None:
            run.save_spans(spans)
            results["spanned"] = _spanned(spans, results["reference_point"])
            # what a client can reach is all that it spans, not the one point it prefers
            results["metrics"]["own_hypervolume"] = results["spanned"]["hypervolume"]
            results.get("metrics_last", {}).pop("own_hypervolume", None)  # of what nobody asked
        run.save_results(results, time.monotonic() - started, loop.spent)

    from comity.report import write_report  # drawing is slow to import and comes last

    write_report(run)
    return run


def _spans(configuration: Configuration, engine: EmbeddedEngine) -> Spans | None:
    """What every client reaches at many preferences, where its model takes any."""
    objectives = len(configuration.get_problem().objectives)
    asked = configuration.get_algorithm().evaluation_preferences(objectives, "test")
    return None if asked is None else Spans(asked, engine.evaluate_preferences(asked).round(6))


def _spanned(spans: Spans, reference: list[float]) -> dict[str, Any]:
    each = reach(spans.vectors, reference)
    return {
        "preferences": len(spans.preferences),
        "hypervolume": float(each.mean()),
        "per_client": each.tolist(),
    }


def _restore(run: Run, loop: RoundLoop) -> float:
    """Go back to the last checkpoint, if there is one; the seconds spent before it."""
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


def _advance(run: Run, loop: RoundLoop, started: float, on_round: OnRound | None) -> None:
    """Run the rounds that are left; save now and then, and after the last one."""
    rounds = run.configuration.rounds
    saved = time.monotonic()
    every = run.configuration.evaluate_every
    for (record,) in loop.rounds():
        everyone = loop.judged() if every and loop.done % every == 0 else None
        run.append_history(_entry(record, everyone))
        now = time.monotonic()
        if now - saved >= _CHECKPOINT_SECONDS or loop.done == rounds:
            state, plain = loop.state()
            run.save_checkpoint(state, {**plain, "seconds": now - started, "spent": loop.spent})
            saved = now
        if on_round is not None:
            on_round(loop.done, rounds, _progress(run.configuration, record))


def summarise(
    configuration: Configuration,
    kept: FloatArray,
    last: FloatArray,
    history: list[dict[str, Any]],
    on_all_test_data: FloatArray | None = None,
) -> dict[str, Any]:
    """The results of a run, from the objective vectors of its final models.

    ``on_all_test_data`` are the vectors of the kept models on the test samples of all clients.
    """
    problem, preferences = configuration.get_problem(), configuration.get_preferences()
    names = [objective.name for objective in problem.objectives]
    target, optimum = problem.target(), problem.optimum(preferences)
    clients, episodes = range(configuration.clients), configuration.test_episodes
    trivial = problem.trivial(clients, configuration.seed, episodes)
    results: dict[str, Any] = {
        "problem": configuration.problem_name,
        "algorithm": configuration.algorithm,
        **({} if configuration.wrapper == "none" else {"wrapper": configuration.wrapper}),
        "seed": configuration.seed,
        "clients": configuration.clients,
        "rounds": configuration.rounds,
        "preferences": (
            configuration.preferences if isinstance(configuration.preferences, str) else "given"
        ),
        "keep": configuration.keep,
        "keep_scope": configuration.keep_scope,
        "guard": configuration.guard,
        "fine_tune": configuration.fine_tune,
        "reference_point": list(problem.reference_point),
        **_protocol(configuration, problem),
        "metrics": problem.measures(kept, preferences),
    }
    if not np.array_equal(kept, last, equal_nan=True):
        results["metrics_last"] = problem.measures(last, preferences)
    results["trivial"] = problem.trivial_measures(trivial, preferences)
    if on_all_test_data is not None:
        means = np.nanmean(on_all_test_data, axis=0).round(6).tolist()
        results["metrics"] |= {f"global_{n}": mean for n, mean in zip(names, means, strict=True)}
        results["metrics"]["trivial_hypervolume"] = results["trivial"]["hypervolume"]
    if optimum is not None and target is not None:
        results["optimum"] = {
            "mean_scalarised": float(optimum.mean()),
            "hypervolume": measures(target, target, problem.reference_point, None, None)[
                "hypervolume"
            ],
        }
    results["per_client"] = [
        {
            "client": client,
            "preference": preferences[client].tolist(),
            "objectives": dict(zip(names, finite(kept[client]), strict=True)),
            "scalarised": finite([preferences[client] @ kept[client]])[0],
            **(
                {}
                if np.array_equal(kept, last, equal_nan=True)
                else {"objectives_last": dict(zip(names, finite(last[client]), strict=True))}
            ),
            **({} if optimum is None else {"optimum": float(optimum[client])}),
        }
        for client in range(configuration.clients)
    ]
    results["front"] = front(kept[problem.counts(kept)]).tolist()
    results["communication"] = {
        name: sum(entry[name] for entry in history) for name in ("bytes_up", "bytes_down")
    }
    if isinstance(problem, EnvironmentProblem):
        results["environment_steps"] = {
            "training": sum(history[-1]["steps"]),
            "validation": sum(history[-1]["validation_steps"]),
        }
    else:
        results["validation"] = _validation(history, preferences)
        results["training_steps"] = sum(history[-1]["steps"])
        results["skipped_terms"] = sum(history[-1]["skipped"])
    return results


def _validation(history: list[dict[str, Any]], preferences: FloatArray) -> dict[str, float | None]:
    """Before and after local training, when clients last had both: means over these clients."""
    for entry in reversed(history):
        if entry["received"] is not None and entry["trained"] is not None:
            own = preferences[entry["clients"]]
            both = {k: np.array(entry[k], dtype=float) * own for k in ("received", "trained")}
            means = [float(values.sum(axis=1).mean()) for values in both.values()]
            return dict(zip(both, finite(means), strict=True))
    return {}


def _protocol(configuration: Configuration, problem: Problem) -> dict[str, Any]:
    """What a reader must know to compare figures, beyond the settings of every run."""
    if isinstance(problem, DataProblem):
        shares = problem.shares()
        parts = ("train", "validation", "test")
        said: dict[str, Any] = {
            "partition": configuration.partition,
            "sizes": configuration.sizes,
            "samples": {part: [len(getattr(s, part)) for s in shares] for part in parts},
            "split": fingerprint(shares),
            "notes": list(problem.samples().notes),
        }
        if (strict_point := problem.strict_point()) is not None:
            said["strict_reference_point"] = list(strict_point)
        return said
    return {
        "episodes": {
            "validation": configuration.validation_episodes,
            "test": configuration.test_episodes,
        }
    }


def _entry(record: RoundRecord, everyone: FloatArray | None = None) -> dict[str, Any]:
    """A record as a line of the history; how everyone would do now, if that was asked."""
    report = record.report
    assert report is not None

    def plain(values: AnyArray | None) -> Any:
        return None if values is None else [finite(row) for row in values]

    return {
        "round": record.round,
        "clients": list(record.clients),
        "steps": report.steps.tolist(),
        "validation_steps": report.validation_steps.tolist(),
        "skipped": report.skipped.tolist(),
        "received": plain(report.received),
        "trained": plain(report.trained),
        "kept": plain(report.kept),
        **({} if everyone is None else {"everyone": plain(everyone)}),
        "declined": report.declined.tolist(),
        "clusters": record.clusters,
        "chosen": record.chosen,
        "conflict": record.conflict,
        **({"server": record.diagnostics} if record.diagnostics else {}),
        "mixing": plain(record.mixing if _drawable(record.mixing) else None),
        "bytes_up": record.bytes_up,
        "bytes_down": record.bytes_down,
        "events": [*record.events, *(report.remarks if record.round == 1 else ())],
    }


def finite(values: Iterable[float]) -> list[float | None]:
    """Numbers as JSON has them: what is not one is null."""
    return [float(value) if np.isfinite(value) else None for value in values]


def _drawable(mixing: AnyArray | None) -> bool:
    """A matrix of more clients than this is no picture, and would fill the disk."""
    return mixing is not None and len(mixing) <= 100


def _progress(configuration: Configuration, record: RoundRecord) -> str:
    preferences = configuration.get_preferences()[list(record.clients)]
    assert record.report is not None
    if not np.isfinite(record.report.kept).all():  # nobody has validated anything yet
        return ""
    best = float((record.report.kept * preferences).sum(axis=1).mean())
    return f"validated {best:.3g}"
