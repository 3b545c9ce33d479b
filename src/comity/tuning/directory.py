"""Directory of a tuning.

tuning.toml                  the plan: what is tried, seeds, settings of all runs
proposals.json               settings of all trials so far, written before they are run
trial-003/seed-1001/         an ordinary run
best.toml                    the chosen settings, for ``comity run --config``
tuning.json                  trials, choice and verdict; its presence marks the end
report.html, *.png           the pictures
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from comity.errors import UserError
from comity.runs.checksums import read_results
from comity.runs.directory import Run
from comity.runs.notebook import Rows, Tabular, html_table
from comity.runs.tuned import RESULTS, seconds_of
from comity.runs.tuning_schema import TrialRow, TuningResults
from comity.runs.verdict import counted

PROPOSALS, BEST = "proposals.json", "best.toml"


@dataclass(frozen=True, repr=False)
class Tuning(Tabular[Literal["trials", "seeds"]]):
    """A finished tuning: its trials and the runs behind them."""

    path: Path
    """Its directory."""
    results: TuningResults
    """Trials, choice and verdict, as in ``tuning.json``."""
    runs: Mapping[int, list[Run]]
    """Runs by trial, one per seed."""

    @property
    def best(self) -> dict[str, Any]:
        """The chosen values of the tuned settings, by name."""
        return dict(self._chosen["settings"])

    @property
    def config(self) -> Path:
        """The file with the chosen settings, for ``comity run --config``."""
        return self.path / BEST

    @property
    def seconds(self) -> float:
        """Time of all runs together."""
        return seconds_of(self.path, self.results)

    @property
    def _chosen(self) -> TrialRow:
        number = self.results["chosen"]
        if number is None:
            raise UserError(f"{self.path}: no trial has a value, so none is chosen.")
        return self.results["trials"][number]

    def _tables(self) -> dict[Literal["trials", "seeds"], Callable[[], Rows]]:
        return {"trials": self._trial_rows, "seeds": self._seed_rows}

    def _trial_rows(self) -> Rows:
        return [
            {
                "trial": row["trial"],
                "state": row["state"],
                **row["settings"],
                **row["means"],
                **row["budget"],
                "seconds": sum(run.seconds for run in self.runs[row["trial"]]),
            }
            for row in self.results["trials"]
        ]

    def _seed_rows(self) -> Rows:
        return [
            {
                "trial": row["trial"],
                **row["settings"],
                "seed": run.configuration.seed,
                **{name: values[place] for name, values in row["values"].items()},
                "seconds": run.seconds,
            }
            for row in self.results["trials"]
            for place, run in enumerate(self.runs[row["trial"]])
        ]

    def __repr__(self) -> str:
        results = self.results
        trials = counted(len(results["trials"]), "trial")
        seeds = counted(len(results["seeds"]), "seed")
        about = f"{results['algorithm']} on {results['problem']}, {trials}, {seeds}"
        return f"<comity tuning {self.path}: {about}>"

    def _repr_html_(self) -> str:
        """Return the trials, best first."""
        rows = ranked(self.results)
        names = [*self.results["space"], *self.results["objectives"]]
        cells = [
            [row["trial"], *({**row["settings"], **row["means"]}[name] for name in names)]
            for row in rows
        ]
        about = " ".join(self.results["verdict"]["sentences"])
        return html_table(["trial", *names], cells, about)


def ranked(results: TuningResults) -> list[TrialRow]:
    """Return the trials, best first by the first objective, those without a value at the end.

    Of equal ones the chosen trial is the first.
    """
    name, way = next(iter(results["objectives"].items()))
    sign = -1.0 if way == "higher" else 1.0

    def key(row: TrialRow) -> tuple[bool, float, bool, int]:
        value = row["means"][name] if row["state"] == "done" else None
        number, passed = row["trial"], row["trial"] != results["chosen"]
        return value is None, 0.0 if value is None else sign * value, passed, number

    return sorted(results["trials"], key=key)


def trial_place(trial: int, seed: int) -> Path:
    """Return where a run lies in the directory of its tuning."""
    return Path(f"trial-{trial:03d}") / f"seed-{seed}"


def open_tuning(path: Path) -> Tuning:
    """Return the finished tuning in a directory."""
    results = cast(TuningResults, read_results(path / RESULTS, ["problem", "trials", "chosen"]))
    runs = {
        row["trial"]: [Run.open(path / place) for place in row["runs"]] for row in results["trials"]
    }
    return Tuning(path, results, runs)
