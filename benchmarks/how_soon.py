"""Environment steps that a client needs to reach a given regret, by algorithm.

    comity compare deep-sea-treasure --algorithms fedpref,no-communication --seeds 5 --out DIR
    python -m benchmarks.how_soon DIR

For every entry of a comparison on a problem with a known optimum: the mean validated regret of the
kept models at given numbers of environment steps per client (training and validation), and the
steps at which the mean over clients first falls to given regrets, as mean over the seeds. A regret
that a seed never reached counts as the run's whole length and is marked with ">".
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

import comity
from benchmarks.records import spread
from comity.core.typing import FloatArray
from comity.report.series.curves import curves
from comity.runs.compare import Comparison
from comity.runs.directory import Run

REGRETS = (2.31, 1.0, 0.5, 0.35)
STEPS = (2000, 4000, 6000, 8000, 10_000, 14_000)


def curve(run: Run) -> tuple[FloatArray, FloatArray]:
    """Return steps per client and mean regret of the kept models after each round."""
    series = curves(run)
    regret = series.regret("kept")
    if regret is None:
        raise SystemExit(f"{run.configuration.problem} has no known optimum")
    return series.steps, regret


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("comparison", type=Path)
    comparison = comity.open(parser.parse_args().comparison)
    if not isinstance(comparison, Comparison):
        raise SystemExit("give the directory of a comparison")
    table = Table(
        title=f"{comparison.results['problem']}: mean regret, and steps to reach a regret"
    )
    table.add_column("entry")
    for step in STEPS:
        table.add_column(f"at {step}", justify="right")
    for regret in REGRETS:
        table.add_column(f"steps to {regret}", justify="right")
    for (entry, preferences), runs in comparison.runs.items():
        regret_curves = [curve(run) for run in runs]
        cells = []
        for step in STEPS:
            values = [regret[steps <= step + 100][-1] for steps, regret in regret_curves]
            cells.append(spread(values, 2))
        for bound in REGRETS:
            reached = [bool((regret <= bound).any()) for _, regret in regret_curves]
            first = [
                steps[np.argmax(regret <= bound)] if ok else steps[-1]
                for ok, (steps, regret) in zip(reached, regret_curves, strict=True)
            ]
            cells.append(f"{'' if all(reached) else '>'}{np.mean(first):.0f}")
        table.add_row(Text(f"{entry}|{preferences}"), *cells)  # brackets in a name are not markup
    Console(width=200).print(table)


if __name__ == "__main__":
    main()
