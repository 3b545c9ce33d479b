"""Jobs over several processes, with one progress."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from comity.errors import StoppedError
from comity.problems import find
from comity.runs.events import Notify
from comity.runs.parallel import Job, run_jobs
from tests.events import round_event


def write_process(path: Path, notify: Notify) -> None:
    """Write down which process did the job."""
    notify(round_event(run=path.name, round=1, done=1))
    notify(round_event(run=path.name, round=2, done=2))
    path.write_text(str(os.getpid()))


def fail(path: Path, notify: Notify) -> None:
    raise ValueError(path.name)


@pytest.mark.parametrize("workers", [1, 2])
def test_progress_is_counted_over_all_jobs(workers, tmp_path):
    jobs = [Job(tmp_path / name, 2) for name in "ab"]
    rounds: list[tuple[int, int]] = []
    problem = find("deep-sea-treasure")
    run_jobs(
        jobs,
        write_process,
        problem,
        workers,
        lambda event: rounds.append((event.done, event.total)),
    )
    assert rounds == [(1, 4), (2, 4), (3, 4), (4, 4)]
    alone = [job.path.read_text() == str(os.getpid()) for job in jobs]
    assert alone == [workers == 1] * 2


def test_the_fault_of_a_job_reaches_its_caller(tmp_path):
    jobs = [Job(tmp_path / name, 1) for name in "ab"]
    with pytest.raises(ValueError, match=r"[ab]"):
        run_jobs(jobs, fail, find("deep-sea-treasure"), 2, None)


def die(path: Path, notify: Notify) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker_is_one_clear_error(tmp_path):
    jobs = [Job(tmp_path / name, 1) for name in "ab"]
    with pytest.raises(StoppedError, match="a worker process was ended from outside"):
        run_jobs(jobs, die, find("deep-sea-treasure"), 2, None)


def test_no_jobs_are_no_work(tmp_path):
    run_jobs([], fail, find("deep-sea-treasure"), 2, None)
