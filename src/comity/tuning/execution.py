"""Execution of tunings: batches of trials, each trial one run per seed.

A batch is proposed from the trials of the batches before it, so that neither the number of workers
nor an interruption changes a proposal. Proposals are written before they are run; everything else
is in the directories of the runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from comity.configuration import configure
from comity.core.locks import held
from comity.core.storage import remove_leftovers, write_whole
from comity.errors import UserError
from comity.problems import find as find_problem
from comity.runs.checksums import read_json, save_sealed, to_json
from comity.runs.cluster import Work, Workers, check_workers
from comity.runs.contacts import CONTACTS
from comity.runs.directory import Run
from comity.runs.events import Event, Notify, RoundEvent
from comity.runs.execute import execute_at
from comity.runs.parallel import Job, run_jobs
from comity.runs.tuned import RESULTS
from comity.runs.tuning_schema import Budget, TrialRow, TuningResults
from comity.tuning.directory import BEST, PROPOSALS, Tuning, trial_place
from comity.tuning.objectives import values_of
from comity.tuning.plan import PLAN, TuningPlan
from comity.tuning.sampling import Outcome, Sampler
from comity.tuning.space import combinations, current, settled
from comity.tuning.verdict import tuning_verdict

_ATTEMPTS = 50  # proposals in a row that were tried before, until a new one is looked up


@dataclass(frozen=True)
class _Trial:
    """A proposed trial."""

    number: int
    settings: dict[str, Any]
    runs: list[Run]
    """One per seed; none where its settings are refused."""
    fault: str | None = None


def run_tuning(
    path: Path, workers: Workers = 1, notify: Notify | None = None, work: Work = execute_at
) -> Tuning:
    """Execute what is not finished of a tuning, and choose a trial.

    Args:
        path: The directory with the plan.
        workers: Processes that share the runs of a batch, or a cluster.
        notify: Called with each event of any run.
        work: Brings the run in a directory to its end, in a process of its own; a named function.
    """
    check_workers(workers)
    with held(path):
        remove_leftovers(path)
        plan = TuningPlan.read(path)
        problem = find_problem(plan.problem)
        trials: list[_Trial] = []
        rows: list[TrialRow] = []
        for batch in _batches(path, plan, rows):
            trials += [_trial(path, plan, number, settings) for number, settings in batch]
            new = trials[len(rows) :]
            jobs = [
                Job(run.path, run.configuration.rounds)
                for trial in new
                for run in trial.runs
                if not run.finished
            ]
            progress = None if notify is None else _progress(plan, trials, rows, jobs, notify)
            run_jobs(jobs, work, problem, workers, progress)
            rows += [_row(path, plan, trial) for trial in new]
        results = _results(plan, problem.name, rows, path)
        if results["chosen"] is not None:
            chosen = rows[results["chosen"]]
            values = settled(plan.common, chosen["settings"]) if chosen["trial"] else plan.common
            write_whole(path / BEST, tomli_w.dumps(values).encode())
        save_sealed(path / RESULTS, results, [PLAN, PROPOSALS, BEST, CONTACTS])
    return Tuning(path, results, {trial.number: trial.runs for trial in trials})


# -- proposals -----------------------------------------------------------------------------

Proposal = tuple[int, dict[str, Any]]
"""Number and settings of a trial."""


def _batches(
    path: Path, plan: TuningPlan, rows: Sequence[TrialRow]
) -> Iterator[Sequence[Proposal]]:
    """Yield batches of trials, those that were proposed before an interruption first.

    Args:
        path: The directory.
        plan: The plan.
        rows: All trials that are over, which the caller extends after each batch.
    """
    known = _read_proposals(path)
    size = plan.batch if plan.sampler == "tpe" else plan.trials  # others look at no result
    while len(rows) < plan.trials:
        if len(known) == len(rows):
            proposed = _propose(plan, rows, min(size, plan.trials - len(rows)))
            if not proposed:
                return  # all combinations were tried
            known += proposed
            content = json.dumps({"trials": known}, indent=2) + "\n"
            write_whole(path / PROPOSALS, content.encode())
        yield list(enumerate(known))[len(rows) :]


def _read_proposals(path: Path) -> list[dict[str, Any]]:
    if not (path / PROPOSALS).is_file():
        return []
    trials: list[dict[str, Any]] = read_json(path / PROPOSALS, ["trials"])["trials"]
    return trials


def _propose(plan: TuningPlan, rows: Sequence[TrialRow], count: int) -> list[dict[str, Any]]:
    """Return the settings of the next trials, none of which was tried before; the first is 0."""
    space = plan.space()
    base = configure({**plan.common, "seed": plan.seeds[0]})
    proposals = [] if rows else [{name: current(base, name) for name in space}]
    known = [row["settings"] for row in rows] + proposals
    everything = combinations(space)
    sampler = None
    if plan.sampler != "grid":
        outcomes = [Outcome(row["settings"], _values(row)) for row in rows]
        batch = len(rows) // plan.batch
        ways = list(plan.objectives.values())
        sampler = Sampler(plan.sampler, space, ways, outcomes, plan.seed, batch)
    while len(proposals) < count:
        settings = _new(sampler, everything, known)
        if settings is None:
            break
        proposals.append(settings)
        known.append(settings)
    return proposals


def _new(
    sampler: Sampler | None,
    everything: list[dict[str, Any]] | None,
    known: Sequence[dict[str, Any]],
) -> dict[str, Any] | None:
    """Return settings that are not among the known ones; None: there are no more."""
    for _ in range(0 if sampler is None else _ATTEMPTS):
        assert sampler is not None
        if (settings := sampler.propose()) not in known:
            return settings
    return next((each for each in everything or () if each not in known), None)


def _values(row: TrialRow) -> list[float] | None:
    """Return the means of a trial in the order of the objectives; None where it has none."""
    means = [value for value in row["means"].values() if value is not None]
    return means if row["state"] == "done" else None


# -- runs ----------------------------------------------------------------------------------


def _trial(path: Path, plan: TuningPlan, number: int, settings: dict[str, Any]) -> _Trial:
    """Return a trial with the directories of its runs."""
    try:
        planned = plan.configurations(number, settings)
    except UserError as error:  # settings that are right one by one may exclude each other
        if number == 0:
            raise
        return _Trial(number, settings, [], str(error))
    runs = [Run.create_or_open(path / trial_place(number, c.seed), c) for c in planned]
    return _Trial(number, settings, runs)


def _progress(
    plan: TuningPlan,
    trials: Sequence[_Trial],
    rows: Sequence[TrialRow],
    jobs: Sequence[Job],
    notify: Notify,
) -> Notify:
    """Return what counts the rounds of a batch as part of the whole tuning."""
    rounds = sum(run.configuration.rounds for trial in trials for run in trial.runs)
    before = rounds - sum(job.rounds for job in jobs)
    ahead = plan.trials - len(trials)
    total = rounds + ahead * sum(run.configuration.rounds for run in trials[0].runs)
    last = len(trials) - 1
    part = f"trials {len(rows)} to {last} of 0 to {plan.trials - 1}"
    best = _best(plan, rows)
    if best is not None:
        part += f", best so far {rows[best]['means'][next(iter(plan.objectives))]:.4g}"

    def forward(event: Event) -> None:
        if isinstance(event, RoundEvent):
            event = replace(event, done=before + event.done, total=total, part=part)
        notify(event)

    return forward


# -- results -------------------------------------------------------------------------------


def _row(path: Path, plan: TuningPlan, trial: _Trial) -> TrialRow:
    """Return a trial whose runs are finished."""
    names = list(plan.objectives)
    measured = [values_of(run, names) for run in trial.runs]
    values = {name: [each[name] for each, _ in measured] for name in names}
    means = {
        name: None if None in column or not column else float(np.mean(np.array(column)))
        for name, column in values.items()
    }
    row: TrialRow = {
        "trial": trial.number,
        "settings": trial.settings,
        "state": "undefined" if None in means.values() else "done",
        "seeds": plan.seeds,
        "budget": _spent(trial.runs),
        "values": values,
        "means": means,
        "runs": [str(run.path.relative_to(path)) for run in trial.runs],
    }
    if trial.fault is not None:
        row |= {"state": "refused", "fault": trial.fault}
    if dropped := sum(share for _, share in measured) / max(1, len(measured)):
        row["dropped"] = dropped
    return row


def _spent(runs: Sequence[Run]) -> Budget:
    """Return rounds and steps of training of several runs."""
    steps = [sum(run.history[-1]["steps"]) for run in runs]
    return {
        "runs": len(runs),
        "rounds": sum(run.configuration.rounds for run in runs),
        "steps": sum(steps),
    }


def _results(plan: TuningPlan, problem: str, rows: list[TrialRow], path: Path) -> TuningResults:
    """Return the content of ``tuning.json``."""
    chosen = _best(plan, rows)
    results: TuningResults = {
        "verdict": {"sentences": []},
        "problem": problem,
        "algorithm": plan.algorithm,
        "objectives": plan.objectives,
        "sampler": plan.sampler,
        "seed": plan.seed,
        "seeds": plan.seeds,
        "batch": plan.batch,
        "space": plan.over,
        "settings": plan.settings,
        "budget": {
            "runs": sum(row["budget"]["runs"] for row in rows),
            "rounds": sum(row["budget"]["rounds"] for row in rows),
            "steps": sum(row["budget"]["steps"] for row in rows),
        },
        "chosen": chosen,
        "front": _front(plan, rows),
        "trials": rows,
    }
    results["verdict"] = tuning_verdict(results, plan.space())
    return json.loads(to_json(results, path / RESULTS))  # type: ignore[no-any-return]


def _best(plan: TuningPlan, rows: Sequence[TrialRow]) -> int | None:
    """Return the trial of the front with the best first objective, the first of equal ones."""
    return next(iter(_front(plan, rows)), None)


def _front(plan: TuningPlan, rows: Sequence[TrialRow]) -> list[int]:
    """Return the trials that no other dominates, best first; of equal trials the first."""
    signs = [1.0 if way == "higher" else -1.0 for way in plan.objectives.values()]
    trials: dict[tuple[float, ...], int] = {}
    for row in rows:
        if (values := _values(row)) is not None:
            vector = tuple(sign * value for sign, value in zip(signs, values, strict=True))
            trials.setdefault(vector, row["trial"])
    front = [vector for vector in trials if not any(_dominates(each, vector) for each in trials)]
    return [trials[vector] for vector in sorted(front, reverse=True)]


def _dominates(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(a >= b for a, b in zip(one, other, strict=True))
