"""Growth of cost with clients, rounds and parameters: time, memory, sizes of files.

Made-up rows (40 per client) and a network of one hidden layer; five steps of 16 rows per round.
Every point is a whole run in a process of its own, one worker, one thread, report included. A slope
is that of the logarithms between a point and the one before it: 1 is proportional, and what is
above 1.1 is marked, where the larger figure is above a floor that noise does not reach. FedPref's
server compares all pairs of clients: its slope may reach 2.

    python -m benchmarks.growth [--points clients:1000,rounds:100 | --all] [--out FILE.jsonl]

``--out`` keeps measured points, which are not measured again. Without arguments: up to 1,000
clients, 300 rounds and a million parameters, some CPU minutes.
"""

from __future__ import annotations

import argparse
import json
import resource
from math import log
from pathlib import Path
from typing import Any

from benchmarks.phases import PHASES, Clock, run_child, watch

ROWS, INPUTS = 40, 20
AXES: dict[str, tuple[str, list[int]]] = {
    "clients": ("fedavg", [10, 100, 1_000, 10_000]),
    "pairs": ("fedpref", [10, 100, 1_000, 10_000]),
    "rounds": ("fedavg", [10, 100, 300, 1_000]),
    "parameters": ("fedavg", [10_000, 100_000, 300_000, 1_000_000]),
}
"""Algorithm and values of each axis; ``pairs`` are clients whose server compares all pairs."""
QUICK = {"clients": 1_000, "pairs": 1_000, "rounds": 300, "parameters": 1_000_000}
"""Largest value of each axis that is measured unless asked for more."""
FIGURES = {
    "ms": ("CPU ms per client-round, all but start-up", 0.0),
    "run": ("CPU s, all but start-up", 2.0),
    "peak": ("peak memory, MB", 500.0),
    "checkpoint": ("checkpoint, MB", 1.0),
    "history": ("history, MB", 0.1),
    "results": ("results, MB", 0.1),
    "report": ("report, MB", 4.0),
}
"""Names in the table, and from which value on a slope counts."""
_SECONDS = 2.0  # from which on the slope of a phase counts
_STEEP = 1.1


def settings(axis: str, value: int) -> dict[str, Any]:
    """Return the settings of a point; of a million parameters the network makes most of them."""
    values = {"clients": 10, "rounds": 3, "hidden": 240, "algorithm": AXES[axis][0]}
    if axis == "parameters":
        values["hidden"] = value // (INPUTS + 2)
    else:
        values["clients" if axis == "pairs" else axis] = value
    return values


def one(axis: str, value: int, out: Path) -> dict[str, Any]:
    """Measure one point in this process."""
    import numpy as np
    import torch
    from torch import Tensor, nn
    from torch.nn.functional import binary_cross_entropy_with_logits as entropy

    from comity import api
    from comity.problems import DataProblem, Objective, Samples

    values = settings(axis, value)
    clients, hidden = values["clients"], values.pop("hidden")
    draw = np.random.default_rng(1)
    inputs = torch.from_numpy(draw.standard_normal((clients * ROWS, INPUTS)).astype(np.float32))
    columns = {"inputs": inputs, "label": (inputs[:, :2].sum(dim=1) > 0).float()}
    samples = Samples(columns, np.zeros(clients * ROWS, dtype=np.int64), {})

    def losses(outputs: Tensor, batch: Any) -> Tensor:
        logits, weight = outputs.squeeze(-1), batch["weight"]
        wrong = entropy(logits, batch["label"], weight, reduction="sum") / weight.sum()
        return torch.stack([wrong, (logits.sigmoid() * weight).sum() / weight.sum()])

    problem = DataProblem(
        name="made-up",
        title="Made-up rows",
        objectives=(Objective("entropy", "", ""), Objective("few", "", "")),
        reference_point=(-5.0, 0.0),
        samples=lambda: samples,
        network=lambda _: nn.Sequential(nn.Linear(INPUTS, hidden), nn.ReLU(), nn.Linear(hidden, 1)),
        losses=losses,
        scores=lambda outputs, batch: torch.tensor([0.0, 1.0]) - losses(outputs, batch),
        constant=lambda batch: torch.zeros(1),
    )
    clock = Clock()
    watch(clock)
    learner = {"local_steps": 5, "batch_size": 16}
    run = api.run(problem, out=out, supervised=learner, keep_checkpoint=True, **values)
    spent = clock.read()
    work = sum(spent.values()) - spent["start-up and imports"]
    pages = [path for path in run.path.iterdir() if path.suffix in (".html", ".png")]
    return {
        "axis": axis,
        "value": value,
        "ms": 1000 * work / (clients * values["rounds"]),
        "run": work,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        "checkpoint": _size(run.path / "checkpoint.safetensors"),
        "history": _size(run.path / "history.jsonl"),
        "results": _size(run.path / "results.json"),
        "report": sum(map(_size, pages)),
        "spent": spent,
    }


def _size(path: Path) -> float:
    return path.stat().st_size / 1e6


def _slope(before: float, now: float, growth: float, floor: float) -> str:
    """Return the slope of two figures; a star marks one that is too steep."""
    if min(before, now) <= 0 or now < floor:
        return ""
    steep = log(now / before) / log(growth)
    return f" ({steep:.2f}{'*' if steep > _STEEP else ''})"


def table(axis: str, points: list[dict[str, Any]]) -> None:
    """Print the points of an axis, with slopes, and the phases that take long."""
    algorithm, _ = AXES[axis]
    print(f"\n{axis} ({algorithm})\n")
    print(f"| | {' | '.join(str(point['value']) for point in points)} |")
    print("| --- |" + " --- |" * len(points))
    figures = [(label, name, floor) for name, (label, floor) in FIGURES.items()]
    lines = [(label, [point[name] for point in points], floor) for label, name, floor in figures]
    lines += [
        (f"CPU s: {label}", [point["spent"][phase] for point in points], _SECONDS)
        for phase, label in PHASES.items()
        if phase != "start-up and imports"
    ]
    for label, values, floor in lines:
        cells = [_number(values[0])]
        for place in range(1, len(points)):
            growth = points[place]["value"] / points[place - 1]["value"]
            slope = _slope(values[place - 1], values[place], growth, floor)
            cells.append(_number(values[place]) + ("" if label == FIGURES["ms"][0] else slope))
        print(f"| {label} | {' | '.join(cells)} |")
    print(flush=True)


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", help="axis:value,axis:value; axes: " + ", ".join(AXES))
    parser.add_argument("--all", action="store_true", help="up to 10,000 clients")
    parser.add_argument("--out", type=Path, help="points that are measured, one per line")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        axis, _, value = options.one.partition(":")
        print(json.dumps(one(axis, int(value), options.out)))
        return
    known = options.out is not None and options.out.is_file()
    lines = options.out.read_text().splitlines() if known else []
    done = {(point["axis"], point["value"]): point for point in map(json.loads, lines)}
    plan = [
        (axis, value)
        for axis, (_, values) in AXES.items()
        for value in values
        if options.all or value <= QUICK[axis]
    ]
    if options.points:
        pairs = (point.split(":") for point in options.points.split(","))
        plan = [(axis, int(value)) for axis, value in pairs]
    for axis, value in plan:
        if (axis, value) not in done:
            done[axis, value] = run_child("benchmarks.growth", f"{axis}:{value}")
            if options.out is not None:
                with options.out.open("a") as file:
                    file.write(json.dumps(done[axis, value]) + "\n")
    for axis in AXES:
        points = [done[pair] for pair in sorted(done) if pair[0] == axis]
        if points:
            table(axis, points)


if __name__ == "__main__":
    main()
