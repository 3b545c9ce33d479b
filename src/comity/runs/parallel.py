"""Execution of many independent runs or searches by several workers, with one progress."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from threading import Thread

from comity.errors import StoppedError
from comity.federation.cluster import Cluster
from comity.problems import Problem, register
from comity.runs.cluster import Work, Workers, spread
from comity.runs.events import EndEvent, Event, Notify, RoundEvent


@dataclass(frozen=True)
class Job:
    """A run or search that is to be brought to its end."""

    path: Path
    """Its directory."""
    rounds: int
    """Its number of rounds, for progress."""


def run_jobs(
    jobs: Sequence[Job], work: Work, problem: Problem, workers: Workers, notify: Notify | None
) -> None:
    """Execute one job per process, at most ``workers`` at a time, or on a cluster.

    Args:
        jobs: Runs or searches that are not finished.
        work: Brings one of them to its end.
        problem: Their problem, registered in every process.
        workers: Number of processes; 1: this process alone. Or a cluster, where the caller holds
            the lock of a directory above those of all jobs (see `spread`).
        notify: Called in this process with each event of any job; rounds are counted over all.
    """
    total = sum(job.rounds for job in jobs)
    done: dict[str, int] = {}  # rounds by run: one whose worker was lost does some again

    def forward(event: Event) -> None:
        if not isinstance(event, EndEvent):
            done[event.run] = event.round
        if isinstance(event, RoundEvent):
            event = replace(event, done=sum(done.values()), total=total)
        if notify is not None:
            notify(event)

    if isinstance(workers, Cluster):
        spread([job.path for job in jobs], work, problem, workers, forward)
        return
    if min(workers, len(jobs)) <= 1:
        for job in jobs:
            work(job.path, forward)
        return
    context = multiprocessing.get_context("spawn")
    events: SimpleQueue[Event] = context.SimpleQueue()
    pool = ProcessPoolExecutor(
        min(workers, len(jobs)),
        mp_context=context,
        initializer=_start_worker,
        initargs=(events, problem),
    )
    try:
        pending: set[Future[None]] = {pool.submit(_execute_job, work, job.path) for job in jobs}
        while pending:
            finished, pending = wait(pending, timeout=0.05)  # a full pipe holds workers up
            while not events.empty():
                forward(events.get())
            for future in finished:
                future.result()
    except BaseException as error:
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        for process in processes:  # which hold the locks of their directories
            process.join()
        if isinstance(error, BrokenProcessPool):
            raise StoppedError(
                "a worker process was ended from outside, perhaps for want of memory"
            ) from None
        raise
    pool.shutdown()


_events: SimpleQueue[Event] | None = None
"""In a worker: the queue for the events of its jobs."""


def _start_worker(events: SimpleQueue[Event], problem: Problem) -> None:
    """Prepare a process for jobs."""
    global _events
    for number in (signal.SIGINT, signal.SIGHUP):  # the main process deals with them
        signal.signal(number, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    register(problem)
    _events = events


def _end_with_parent() -> None:
    """End this worker when its parent is killed.

    It would otherwise go on writing into a directory that may be resumed.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _execute_job(work: Work, path: Path) -> None:
    """Execute one job in a worker."""

    def send(event: Event) -> None:
        if _events is not None:
            _events.put(event)

    work(path, send)
