"""Time of whole commands by phase: imports, training, validation, tests, files, report.

Every job is a process of its own with one worker. Names of the package are wrapped while it runs;
the CPU time between entering and leaving them is theirs, without that of names inside them. Also
counted: calls of fsync, and the largest checkpoint.

    python -m benchmarks.phases [--jobs deep-sea-treasure,cifar10-small] [--turns 3] [--before SRC]

With ``--before`` (the ``src`` of another version) both versions take turns, job by job.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

JOBS: dict[str, dict[str, Any]] = {
    "deep-sea-treasure": {},
    "adult-gender-dp": {"clients": 10},
    "usps": {"clients": 20, "rounds": 10},
    "cifar10-small": {
        **{"clients": 100, "rounds": 10, "participation": 0.1, "algorithm": "fedavg"},
        "partition": "pathological:2",
    },
}
"""Settings of each job by its problem; the rest is as users get it."""
TRAINING = "training"
PHASES = {
    "start-up and imports": "start-up, imports",
    "problem, data, clients": "configuration, data, clients",
    TRAINING: "training at clients",
    "rounds": "clients, the rest of rounds",
    "validation": "validation",
    "server": "server",
    "test": "test: own samples",
    "everyone": "test: samples of all",
    "checkpoints": "checkpoints",
    "files": "history, models, results",
    "report": "report, its imports",
    "rest": "the rest",
}
"""Names of the phases in the table."""
Phase = str | Callable[..., str]


class Clock:
    """CPU time by phase; time inside an inner phase is not the outer one's."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter({"start-up and imports": time.process_time()})
        self._stack, self._mark = ["rest"], time.process_time()

    def _charge(self) -> None:
        now = time.process_time()
        self.spent[self._stack[-1]] += now - self._mark
        self._mark = now

    def read(self) -> dict[str, float]:
        """Return the CPU seconds of each phase so far."""
        self._charge()
        return {phase: self.spent[phase] for phase in PHASES}

    @contextmanager
    def within(self, phase: str) -> Iterator[None]:
        """Charge what happens inside to a phase."""
        self._charge()
        self._stack.append(phase)
        try:
            yield
        finally:
            self._charge()
            self._stack.pop()

    def wrap(self, owner: Any, names: str, phase: Phase) -> None:
        """Charge calls of functions to a phase, or to what it says about their arguments."""
        for name in names.split():
            inner = getattr(owner, name)

            def outer(*args: Any, _inner: Any = inner, **kwargs: Any) -> Any:
                with self.within(phase if isinstance(phase, str) else phase(*args)):
                    return _inner(*args, **kwargs)

            setattr(owner, name, functools.wraps(inner)(outer))


def _purpose(learner: Any, fleet: Any, rows: Any, purpose: str, *rest: Any) -> str:
    """Return the phase of an evaluation: what it is for."""
    return purpose


def watch(clock: Clock) -> None:
    """Charge what runs do in this process to the phases of a clock."""
    from comity.api import execution, finishing
    from comity.federation.clients import Clients
    from comity.federation.engines.embedded import EmbeddedEngine
    from comity.federation.loop import SimulatedLoop
    from comity.federation.server import Server
    from comity.learners.off_policy import OffPolicy
    from comity.learners.supervised import Supervised
    from comity.runs import execute
    from comity.runs.directory import Run

    for learner in (Supervised, OffPolicy):
        clock.wrap(learner, "train train_per_objective survey", TRAINING)
        clock.wrap(learner, "evaluate evaluate_preferences", _purpose)
    clock.wrap(execution, "start_run", "problem, data, clients")
    clock.wrap(EmbeddedEngine, "begin", "problem, data, clients")
    clock.wrap(Clients, "round finish metrics", "rounds")
    clock.wrap(Server, "take reply request last_request take_last", "server")
    clock.wrap(SimulatedLoop, "state", "checkpoints")
    clock.wrap(Run, "save_checkpoint", "checkpoints")
    clock.wrap(Run, "append_history save_models save_results save_json save_schema", "files")
    clock.wrap(execute, "summarise constant_models groups_of", "files")
    clock.wrap(finishing, "draw", "report")


def one(problem: str, out: Path) -> dict[str, Any]:
    """Run one job in this process; return CPU seconds by phase, fsyncs and megabytes."""
    from comity import api
    from comity.core import storage
    from comity.runs.directory import Run

    clock, syncs, sizes = Clock(), Counter[str](), [0]
    watch(clock)
    sync, save = os.fsync, Run.save_checkpoint

    def counted(handle: int) -> None:
        syncs["fsync"] += 1
        sync(handle)

    def measured(self: Run, *args: Any) -> None:
        save(self, *args)
        sizes.append((self.path / "checkpoint.safetensors").stat().st_size)

    storage.os.fsync, Run.save_checkpoint = counted, measured  # type: ignore[method-assign]
    api.run(problem, out=out, **JOBS[problem])
    return {
        "spent": clock.read(),
        "total": time.process_time(),
        "fsyncs": syncs["fsync"],
        "checkpoints": len(sizes) - 1,
        "megabytes": max(sizes) / 1e6,
    }


def run_child(module: str, job: str, source: str | None = None) -> dict[str, Any]:
    """Run one job of a benchmark in a process of its own; return what it prints as JSON.

    Args:
        module: The benchmark, a module with the options --one and --out.
        job: The value of --one.
        source: Directory ``src`` of another version of the package; None: the installed one.
    """
    path = os.pathsep.join(part for part in (source, os.environ.get("PYTHONPATH")) if part)
    with tempfile.TemporaryDirectory() as home:
        command = [sys.executable, "-m", module, "--one", job]
        done = subprocess.run(
            [*command, "--out", str(Path(home) / "run")],
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    return dict(json.loads(done.stdout))


def table(problem: str, turns: list[dict[str, Any]], title: str) -> None:
    """Print the median of each phase over the turns, and its share."""
    total = median(turn["total"] for turn in turns)
    print(f"\n{problem} ({JOBS[problem] or 'defaults'}), {title}, median of {len(turns)}")
    for phase, name in PHASES.items():
        seconds = median(turn["spent"][phase] for turn in turns)
        print(f"  {name:<30} {seconds:8.2f} s {seconds / total:7.1%}")
    apart = median(1 - turn["spent"][TRAINING] / turn["total"] for turn in turns)
    low, high = min(turn["total"] for turn in turns), max(turn["total"] for turn in turns)
    print(f"  {'all':<30} {total:8.2f} s  ({low:.2f} to {high:.2f})")
    print(f"  everything but training: {apart:.1%}")
    last = turns[-1]
    print(
        f"  {last['checkpoints']} checkpoints of up to {last['megabytes']:.1f} MB, "
        f"{last['fsyncs']} fsyncs",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--before", help="directory src of another version")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one, options.out)))
        return
    versions = {"before": options.before} if options.before else {}
    for problem in options.jobs.split(","):
        turns: dict[str, list[dict[str, Any]]] = {name: [] for name in (*versions, "now")}
        for _ in range(options.turns):
            for name, done in turns.items():
                done.append(run_child("benchmarks.phases", problem, versions.get(name)))
        for name, done in turns.items():
            table(problem, done, name)


if __name__ == "__main__":
    main()
