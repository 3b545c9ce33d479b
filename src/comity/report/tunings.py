"""Words and cells of tunings that terminal tables and pages share."""

from __future__ import annotations

from collections.abc import Sequence

from comity.report.measures import Measure, number
from comity.runs.tuning_schema import TrialRow, Tuned, TuningResults
from comity.tuning import Tuning
from comity.tuning.directory import ranked

TUNINGS = (
    "Each tuning chose its entry's settings by the objective on validation data, before this "
    "comparison. Budgets are equal where trials and seeds are; steps: of all clients in all its "
    "runs; seconds: of all its runs together."
)


def tuning_headings() -> list[str]:
    """Return the headings of the table of tunings behind a comparison."""
    return ["tuned", "objective", "sampler", "trials", "seeds", "runs", "steps", "seconds"]


def tuning_rows(tunings: Sequence[Tuned]) -> list[list[str]]:
    """Return one row per tuning behind a comparison."""
    return [
        [
            tuned["algorithm"],
            tuned["objective"].replace("_", " "),
            tuned["sampler"],
            str(tuned["trials"]),
            ", ".join(map(str, tuned["seeds"])),
            str(tuned["runs"]),
            f"{tuned['steps']:,}",
            number(tuned["seconds"], 3),
        ]
        for tuned in tunings
    ]


def objective_measures(results: TuningResults) -> list[Measure]:
    """Return the objectives of a tuning as readers see them."""
    return [
        Measure(name, name.replace("_", " "), way) for name, way in results["objectives"].items()
    ]


def trial_headings(results: TuningResults) -> list[str]:
    """Return the headings of the table of trials."""
    objectives = [measure.label + measure.arrow for measure in objective_measures(results)]
    return ["trial", *results["space"], *objectives, "rounds", "steps", "seconds"]


def trial_rows(tuning: Tuning) -> list[tuple[TrialRow, list[str]]]:
    """Return trials, best first, and their cells; the chosen one has a star."""
    results = tuning.results
    rows = []
    for row in ranked(results):
        star = " ★" if row["trial"] == results["chosen"] else ""
        settings = [setting_text(row["settings"][name]) for name in results["space"]]
        figures = [_figure(row, name) for name in results["objectives"]]
        seconds = sum(run.seconds for run in tuning.runs[row["trial"]])
        budget = row["budget"]
        costs = [f"{budget['rounds']:,}", f"{budget['steps']:,}"]
        label = f"{row['trial']}{' (as it was)' * (row['trial'] == 0)}{star}"
        rows.append((row, [label, *settings, *figures, *costs, number(seconds, 3)]))
    return rows


def trials_caption(results: TuningResults) -> str:
    """Return the caption of the table of trials."""
    seeds = results["seeds"]
    listed = ", ".join(map(str, seeds))
    spread = "mean ± population standard deviation over them" if len(seeds) > 1 else "its value"
    parts = [
        f"Validation data only. Seed{'s' * (len(seeds) > 1)} {listed}: {spread}",
        "rounds, steps of all clients and seconds are of all runs of a trial",
        f"trial 0 has the settings as they were; sampler {results['sampler']}, seed "
        f"{results['seed']}",
    ]
    if len(results["objectives"]) > 1:
        numbers = ", ".join(map(str, sorted(results["front"])))
        parts.append(f"on the front, which no other trial dominates: {numbers}")
    return "; ".join(parts) + "."


def setting_text(value: object) -> str:
    """Return the value of a setting as in a file; a dash where it has none."""
    if value is None:
        return "–"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _figure(row: TrialRow, name: str) -> str:
    """Return mean ± standard deviation over seeds, or the state of a trial without a value."""
    mean, values = row["means"][name], [each for each in row["values"][name] if each is not None]
    if mean is None:
        return row["state"]
    if len(values) == 1:
        return number(mean)
    deviation = (sum((each - mean) ** 2 for each in values) / len(values)) ** 0.5
    return f"{number(mean)} ± {number(deviation, 2)}"
