"""Comity beside other libraries and plain loops on the same FedAvg tasks.

*Contenders.* ``plain-loop``: the obvious program in PyTorch. ``comity``: whole rounds of its
engine, uncompiled; ``comity-compiled``: with compiled steps (tables only); ``comity-run``: the
call `comity.run` with validation, history and checkpoints, as users have it. ``pfllib-like-loop``:
a loop of our own that does per client what PFLlib does. ``flower``, ``pfl`` (pfl-research),
``fluke``: these libraries, each in an environment of its own that is made at the first call.

*Tasks.* ``table-10`` and ``table-100``: 10 and 100 clients, a network 100-64-32-1, 25 steps of
Adam on 256 rows per round. ``pictures``: 20 clients with 175 pictures, a CNN of 878,538
parameters, 18 steps of SGD on 10 pictures. All contenders have the same data, initial weights and
batches (`tasks`), and evaluate nothing, except for ``comity-run``.

*Measures.* Each run is a process of its own. CPU time is that of the process and all below it,
from the end of the first round to the end of the last. Start-up is the time to the end of the first
round, less one of the rounds after it. The peak of memory is that of the sum over processes,
sampled; what processes share is divided among them. Contenders take turns; a ratio compares runs of
the same turn. All have one thread per process. In the first turn Comity, Flower and pfl also run
with two workers, for the wall time alone; the others have no workers.

    python -m benchmarks.peers [--peers NAME,…] [--tasks NAME,…] [--repeats N] [--rounds N]
        [--workers 1,2] [--environments DIR] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import process_tree
from benchmarks.peers.contender import CONTENDERS, PARALLEL
from benchmarks.peers.environments import last_line, python_for
from benchmarks.peers.results import PLAIN, Run, markdown, rows_of
from benchmarks.peers.tasks import TASKS, Federation, digest, write_data
from benchmarks.peers.with_comity import write_order

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 900
"""Seconds after which a run is stopped."""
Weights = dict[str, np.ndarray]


def run_once(
    name: str, python: str, federation: Federation, task: str, rounds: int, workers: int
) -> tuple[Run, Weights, Weights]:
    """Return the measures of one run, and its models after the first and the last round.

    Args:
        name: The contender.
        python: Its interpreter.
        federation: The task.
        task: Name of the task.
        rounds: Number of rounds, the first one included.
        workers: Number of workers.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        launch = ["-m", "benchmarks.peers.contender"]
        if name == "pfl" and workers > 1:  # of which the first alone measures its CPU time
            launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
            launch += [str(workers), "-m", "benchmarks.peers.contender"]
        sizes = [str(rounds), str(workers), str(time.time())]
        peak, failure = _watched(
            [python, "-W", "ignore", *launch, name, task, str(federation.folder), *sizes], place
        )
        if failure:
            return {"failure": failure}, {}, {}
        measures: Run = json.loads((place / "measures.json").read_text())
        first, last = (_weights(place / f"{which}.npz") for which in ("first", "last"))
        measures |= {"peak": peak, "digest": digest(last), "accuracy": federation.accuracy(last)}
        return measures, first, last


def _weights(path: Path) -> Weights:
    with np.load(path) as file:
        return dict(file)


def _watched(command: list[str], place: Path) -> tuple[float, str]:
    """Run a command in a directory; return its peak of memory in MB, and why it failed."""
    variables = {
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
        "OMP_NUM_THREADS": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(place / "compiled"),  # nothing compiled by earlier runs
    }
    peak, started = 0.0, time.monotonic()
    with (place / "output").open("w") as output:
        process = subprocess.Popen(
            command, cwd=place, env={**os.environ, **variables}, stdout=output, stderr=output
        )
        while process.poll() is None:
            peak = max(peak, process_tree.memory(process.pid))
            if time.monotonic() - started > LONGEST:
                for identity in process_tree.identities(process.pid):
                    os.kill(identity, signal.SIGKILL)
                process.wait()
                return peak, f"stopped after {LONGEST} s"
            time.sleep(0.2)
    if process.returncode or not (place / "measures.json").is_file():
        return peak, f"failed: {last_line((place / 'output').read_text(errors='replace'))}"
    return peak, ""


def off(model: Weights, reference: Weights) -> float | None:
    """Return the largest difference of two models' weights; None if one was not shown."""
    if not model or not reference:
        return None
    return max(float(np.abs(model[name] - reference[name]).max()) for name in reference)


def measured(
    task: str, pythons: dict[str, tuple[str, str]], options: argparse.Namespace, folder: Path
) -> Iterator[Run]:
    """Yield all runs of a task, the contenders in turns.

    Args:
        task: Name of the task.
        pythons: Interpreter of each contender, or why there is none.
        options: Options of the command line.
        folder: Directory for the task's files.
    """
    rounds = 1 + (options.rounds or TASKS[task].rounds)
    write_data(TASKS[task], folder)
    write_order(TASKS[task], folder, rounds)
    federation = Federation(TASKS[task], folder)
    plain: tuple[Weights, Weights] = {}, {}
    for repeat in range(options.repeats):
        for name, (python, failure) in pythons.items():
            if name == "comity-compiled" and TASKS[task].kind == "pictures":
                continue  # its steps would not be compiled
            for workers in options.workers:
                if workers > 1 and (repeat or name not in PARALLEL):
                    continue
                key = {"task": task, "peer": name, "workers": workers, "repeat": repeat}
                if failure:
                    yield {**key, "failure": failure}
                    continue
                run, first, last = run_once(name, python, federation, task, rounds, workers)
                if name == PLAIN and workers == 1 and first:
                    plain = first, last
                if "failure" not in run:
                    run["off_plain_first"] = off(first, plain[0])
                    run["off_plain_last"] = off(last, plain[1])
                yield {**key, **run}


def _line(run: Run) -> str:
    """Return what is printed as soon as a run is over."""
    what = f"{run['task']}, {run['peer']}, workers {run['workers']}, repeat {run['repeat']}"
    if "failure" in run:
        return f"{what}: {run['failure']}"
    return f"{what}: {run['cpu_per_round']:.2f} CPU s per round, {run['startup_cpu']:.1f} before"


def machine() -> dict[str, Any]:
    """Return what the figures depend on beside the programs."""
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load_before": os.getloadavg(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [PLAIN, *(name for name in CONTENDERS if name != PLAIN)]
    parser.add_argument("--peers", default=",".join(names))
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--rounds", type=int, help="measured rounds (default: by task)")
    parser.add_argument("--workers", default="1,2", help="1, or 1,2 for two workers as well")
    parser.add_argument("--environments", type=Path, default=ROOT / ".venv-peers")
    parser.add_argument("--out", type=Path, default=Path("peers.json"))
    options = parser.parse_args()
    options.workers = [int(count) for count in options.workers.split(",")]
    chosen, tasks = options.peers.split(","), options.tasks.split(",")
    for kind, given, known in (("peer", chosen, names), ("task", tasks, list(TASKS))):
        if unknown := sorted(set(given) - set(known)):
            parser.error(f"--{kind}s: no {kind} {unknown[0]}; there are {', '.join(known)}")
    report: dict[str, Any] = {"machine": machine(), "runs": []}
    started = time.time()
    pythons = {name: python_for(name, options.environments) for name in chosen}
    with tempfile.TemporaryDirectory() as folder:
        for task in tasks:
            for run in measured(task, pythons, options, Path(folder) / task):
                print(_line(run), flush=True)
                report["runs"].append(run)
                report["seconds"] = time.time() - started
                options.out.write_text(json.dumps(report, indent=1) + "\n")
    for task in tasks:
        runs = [run for run in report["runs"] if run["task"] == task]
        print(markdown(task, rows_of(runs, TASKS[task].clients)))
    print(f"{report['seconds']:.0f} s in all, {options.out} has every run")


if __name__ == "__main__":
    main()
