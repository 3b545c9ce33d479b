"""A Dask cluster beside the embedded engine: equal bytes, cost per round, killed workers.

**Equal bytes**: a digest of results, history and models of one run with one process, with two, on
two workers of a local cluster, on a cluster of which one worker is killed in the middle, and of the
same run as a job of a comparison whose worker is killed.

**Cost**: models are delivered to all clients (`install`) and fetched from them (`models`), which is
what a round adds on top of training. The engines take turns in one process. The wall time is the
shortest of all calls, because other work on the machine only ever adds to it; on a busy machine it
takes many calls to be of use. CPU time is that of this process and of those that hold clients. It
includes Dask's scheduler, which runs in this process all the time, so it is of use on an idle
machine only. One process has no transport: what it takes is the work itself.

    python -m benchmarks.cluster [--clients N] [--rounds N] [--calls N]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from comity.configuration import Configuration, configure
from comity.core.locks import LOCK
from comity.federation.cluster import Cluster
from comity.federation.engines.chunked import ChunkedEngine
from comity.federation.engines.cluster import ClusterEngine
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.messages import RoundRequest
from comity.runs import execute as execution
from comity.runs.compare import run_plan, start_comparison
from comity.runs.directory import Run
from comity.runs.events import Event, Notify, RoundEvent
from comity.runs.execute import execute

PROBLEM, TURNS = "adult-gender-dp", 3


def digest(path: Path) -> str:
    """Return a checksum of what a run found out."""
    files = [path / "results.json", path / "history.jsonl", *sorted((path / "models").iterdir())]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


# -- equal bytes, killed workers -----------------------------------------------------------


def killing(process: Callable[[RoundEvent], int]) -> Notify:
    """Return what kills a process after the second round of a run, once."""
    killed: list[int] = []

    def notify(event: Event) -> None:
        if isinstance(event, RoundEvent) and event.round == 2 and not killed:
            killed.append(process(event))
            os.kill(killed[0], signal.SIGKILL)

    return notify


def patient(path: Path, notify: Notify) -> None:
    """Execute a run with a checkpoint per round, in a worker; it may be killed after round two."""
    execution._CHECKPOINT_SECONDS = 0.0

    def slowly(event: Event) -> None:
        notify(event)
        if isinstance(event, RoundEvent) and event.round == 2:
            time.sleep(1.0)

    execute(Run.open(path), notify=slowly)


def holder(event: RoundEvent) -> int:
    """Return the process that works in the directory of a run."""
    return int(json.loads((Path(event.run) / LOCK).read_text())["process"])


def digests(configuration: Configuration, cluster: Cluster, place: Path) -> dict[str, str]:
    """Return a digest of the same run, executed in several ways."""

    def run(name: str, workers: int | Cluster, notify: Notify | None = None) -> str:
        return digest(execute(Run.create(place / name, configuration), workers, notify).path)

    def victim(event: RoundEvent) -> int:
        return int(min(cluster.client.run(os.getpid).values()))

    checksums = {
        "embedded, 1 process": run("one", 1),
        "embedded, 2 processes": run("two", 2),
        "cluster, 2 workers": run("cluster", cluster),
    }
    execution._CHECKPOINT_SECONDS = 0.0
    checksums["cluster, a worker killed after round 2"] = run("killed", cluster, killing(victim))
    plan = {"algorithms": [configuration.algorithm], "seeds": [configuration.seed]}
    path = start_comparison(
        PROBLEM, **plan, out=place / "jobs", clients=configuration.clients,
        rounds=configuration.rounds,
    )  # fmt: skip
    ((job,),) = run_plan(path, cluster, killing(holder), patient).runs.values()
    checksums["job on the cluster, its worker killed after round 2"] = digest(job.path)
    return checksums


# -- cost ----------------------------------------------------------------------------------


def costs(
    configuration: Configuration, cluster: Cluster, calls: int
) -> dict[str, dict[str, list[float]]]:
    """Return CPU ms per call of each turn, and the shortest wall ms, by engine and call."""
    two = EmbeddedEngine(configuration, 2)
    engines: dict[str, tuple[ChunkedEngine, list[int]]] = {
        "embedded, 1 process": (EmbeddedEngine(configuration), []),
        "embedded, 2 processes (pipes)": (two, [two._remote[0]._process.pid or 0]),
        "cluster, 2 workers (actors)": (
            ClusterEngine(configuration, cluster),
            [*cluster.client.run(os.getpid).values()],
        ),
    }
    models = two.models(kept=False)
    request = RoundRequest(0, tuple(range(configuration.clients)), models)
    times: dict[str, dict[str, list[float]]] = {}
    for _ in range(TURNS + 1):  # the first turn warms up
        for name, (engine, others) in engines.items():
            actions = {
                "deliver": lambda e=engine: e.install(request),
                "fetch": lambda e=engine: e.models(kept=False),
            }
            for call, action in actions.items():
                before, walls = _cpu(others), []
                for _ in range(calls):
                    began = time.perf_counter()
                    action()
                    walls.append(1000 * (time.perf_counter() - began))
                spent = 1000 * (_cpu(others) - before) / calls
                times.setdefault(name, {}).setdefault(f"{call} CPU", []).append(spent)
                times[name].setdefault(f"{call} wall", []).append(min(walls))
    for engine, _ in engines.values():
        engine.close()
    return {n: {c: values[1:] for c, values in by.items()} for n, by in times.items()}


def _cpu(others: list[int]) -> float:
    """Return the CPU seconds of this process and of others."""
    times = [psutil.Process(process).cpu_times() for process in others]
    return time.process_time() + sum(each.user + each.system for each in times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--calls", type=int, default=200)
    arguments = parser.parse_args()
    configuration = configure(
        {"problem": PROBLEM, "clients": arguments.clients, "rounds": arguments.rounds}
    )
    console = Console()
    with Cluster("local:2") as cluster, tempfile.TemporaryDirectory() as place:
        size = parameters(configuration)
        table = Table(title=f"{arguments.clients} models of {size:,} parameters, ms per call")
        times = costs(configuration, cluster, arguments.calls)
        columns = list(next(iter(times.values())))
        for column in ("engine", *columns):
            table.add_column(column, justify="left" if column == "engine" else "right")
        for name, by in times.items():
            spread = [" ".join(f"{value:.1f}" for value in by[column]) for column in columns]
            table.add_row(name, *spread)
        console.print(table)
        table = Table(title=f"{PROBLEM}, {configuration.algorithm}, {arguments.rounds} rounds")
        for column in ("run", "digest of results, history and models"):
            table.add_column(column)
        for name, text in digests(configuration, cluster, Path(place)).items():
            table.add_row(name, text)
        console.print(table)


def parameters(configuration: Configuration) -> int:
    """Return the number of parameters of a model."""
    with EmbeddedEngine(configuration) as engine:
        return sum(tensor[0].numel() for tensor in engine.models(kept=False).tensors.values())


if __name__ == "__main__":
    main()
