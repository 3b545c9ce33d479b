"""How soon the page answers a drag: a model made for a preference, and tried on 10,000 rows.

A PraFFL run on Adult (two clients) is trained for one round; then a slider is moved through many
preferences. Two places are timed: the judgement alone, and the whole answer as the page gets it,
over HTTP on the loopback, packed. CPU time is that of the whole process; wall time depends on what
else the machine does.

    python -m benchmarks.explore [--drags N] [--run DIRECTORY]
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded

import numpy as np
from rich.console import Console
from rich.table import Table

from comity.explore.explorer import Explorer
from comity.explore.server import HOST, listen, new_token, server_of
from comity.runs.execute import execute, start_run

PROBLEM = "adult-gender-dp"
SPLIT = "50:10:40"  # of 24,421 rows per client: 9,768 for the test


def made(path: Path) -> Path:
    """Train a run whose models take any preference."""
    values = {"problem": PROBLEM, "algorithm": "praffl", "clients": 2, "rounds": 1}
    run = start_run({**values, "split_ratio": SPLIT, "supervised": {"local_steps": 50}}, path)
    execute(run, 1)
    return path


def timed(drag: Callable[[float], object], drags: int) -> dict[str, np.ndarray]:
    """Move a slider, and return milliseconds of CPU and wall time per drag."""
    drag(0.5)
    times: dict[str, list[float]] = {"CPU": [], "wall": []}
    for weight in np.linspace(0.0, 1.0, drags).tolist():
        cpu, wall = time.process_time(), time.perf_counter()
        drag(weight)
        times["CPU"].append(1e3 * (time.process_time() - cpu))
        times["wall"].append(1e3 * (time.perf_counter() - wall))
    return {name: np.array(values) for name, values in times.items()}


def measure(path: Path, drags: int) -> Table:
    """Return the table of both places."""
    explorer = Explorer([path])
    (item,) = explorer.shelf.named()
    judged = explorer.judge(item.id, 0, [0.5, 0.5])
    rows = judged["parts"]["test"]["rows"], judged["parts"]["validation"]["rows"]
    bound, token = listen(0), new_token()
    server = server_of(explorer, bound, token)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    connection = http.client.HTTPConnection(HOST, bound.getsockname()[1], timeout=60)

    def over_http(weight: float) -> object:
        query = f"judge?id={item.id}&client=0&preference={weight},{1 - weight}"
        connection.request("GET", f"/{token}/{query}", headers={"Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        body = answer.read()
        packed = answer.getheader("content-encoding") == "gzip"
        return json.loads(gzip.decompress(body) if packed else body)

    places: dict[str, Callable[[float], object]] = {
        "judgement": lambda weight: explorer.judge(item.id, 0, [weight, 1 - weight]),
        "answer over HTTP": over_http,
    }
    title = f"Milliseconds per drag, {rows[0]:,} test and {rows[1]:,} validation rows"
    table = Table(title=title)
    for heading in ("place", "CPU median", "CPU 95 %", "wall median", "wall 95 %"):
        table.add_column(heading, justify="left" if heading == "place" else "right")
    for name, drag in places.items():
        times = timed(drag, drags)
        values = [f(times[kind]) for kind in times for f in (np.median, _high)]
        table.add_row(name, *(f"{value:.1f}" for value in values))
    server.should_exit = True
    connection.close()
    thread.join()
    return table


def _high(values: np.ndarray) -> float:
    return float(np.quantile(values, 0.95))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--drags", type=int, default=200)
    parser.add_argument("--run", type=Path, help="a finished run of praffl; default: a new one")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        path = chosen.run or made(Path(place) / "run")
        Console().print(measure(path, chosen.drags))


if __name__ == "__main__":
    main()
