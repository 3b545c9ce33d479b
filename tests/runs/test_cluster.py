"""Runs on a Dask cluster: real worker processes, some of them killed."""

from __future__ import annotations

import json
import logging
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

import comity
from comity.configuration import Configuration
from comity.core.locks import LOCK, InUseError, held
from comity.errors import StoppedError, UserError
from comity.federation import cluster as module
from comity.federation.cluster import Cluster, LostWorkerError, Send
from comity.problems import find
from comity.runs import cluster as jobs
from comity.runs import execute as execution
from comity.runs.base import CHECKPOINT
from comity.runs.compare import run_plan, start_comparison
from comity.runs.directory import Run
from comity.runs.events import Event, Notify, RoundEvent, StartEvent
from comity.runs.execute import execute, execute_at
from comity.runs.parallel import Job, run_jobs
from comity.searches.execution import execute_search, start_search
from tests.tiny import tiny

PROBLEM = find("german-credit-gender-dp")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two workers on this machine."""
    with Cluster("local:2") as connected:
        connected.workers()
        yield connected


def content(path: Path) -> dict[str, bytes]:
    """What a run found out: results, history and models."""
    files = [path / "results.json", path / "history.jsonl", *(path / "models").iterdir()]
    return {file.name: file.read_bytes() for file in files}


# -- the clients of one run over many workers ----------------------------------------------

RUNS = {
    "fedpref": {"rounds": 2},
    "fedcmoo": {"problem": "tiny-people"},
    "praffl": {"problem": "tiny-people"},
    "ditto": {"problem": "tiny-answers", "participation": 0.5},
}
"""FedPref trains by DQN; FedCMOO surveys; PraFFL answers any preference; Ditto keeps models."""


@pytest.mark.parametrize("algorithm", RUNS)
def test_a_cluster_gives_the_bytes_of_the_embedded_engine(algorithm, cluster, tmp_path):
    configuration = tiny(algorithm=algorithm, chunk=1, **{"rounds": 3, **RUNS[algorithm]})
    here = execute(Run.create(tmp_path / "here", configuration))
    there = execute(Run.create(tmp_path / "there", configuration), cluster)
    assert content(there.path) == content(here.path)


def test_clients_are_on_workers_and_not_here(cluster, monkeypatch):
    monkeypatch.setattr("comity.federation.engines.chunked.clients_of", None)
    with jobs.engine_of(tiny(problem="tiny-people", chunk=1), cluster) as engine:
        assert len(engine.models(kept=False)) == 4


def killing(cluster: Cluster, after: int) -> tuple[list[Event], Notify]:
    """What kills one worker with clients after a round, once, and the events that it sees."""
    events: list[Event] = []

    def notify(event: Event) -> None:
        known = [type(each) for each in events].count(StartEvent)
        events.append(event)
        if isinstance(event, RoundEvent) and event.round == after and known == 1:
            process = sorted(cluster.client.run(os.getpid).items())[0][1]
            os.kill(process, signal.SIGKILL)

    return events, notify


def test_a_run_goes_on_without_a_killed_worker(cluster, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(execution, "_CHECKPOINT_SECONDS", 0.0)
    configuration = tiny(problem="tiny-people", algorithm="fedavg", chunk=1, rounds=4)
    here = execute(Run.create(tmp_path / "here", configuration))
    events, notify = killing(cluster, after=2)
    there = execute(Run.create(tmp_path / "there", configuration), cluster, notify)
    assert content(there.path) == content(here.path)
    assert [event.round for event in events if isinstance(event, StartEvent)] == [0, 2]
    lines = [record.getMessage() for record in caplog.records if record.name == "comity"]
    assert lines  # two, if the scheduler counts the dead worker once more
    assert all("is lost; it goes on from its last checkpoint on others" in line for line in lines)


def test_a_search_spreads_its_clients(cluster, tmp_path):
    values = {
        **{"problem": "tiny-people", "iterations": 2, "candidates": 1, "rounds": 1, "seed": 1},
        **{"clients": 2, "algorithm": "fedavg", "chunk": 1, "control": False},
    }
    here = execute_search(start_search(values, tmp_path / "here"))
    there = execute_search(start_search(values, tmp_path / "there"), cluster)
    assert there.results == here.results


def test_losses_are_bounded_by_checkpoints(tmp_path, caplog):
    run, attempts = Run.create(tmp_path / "r", tiny()), []

    def attempt() -> None:
        attempts.append(1)
        if len(attempts) == 3:  # it advances after two losses
            (run.path / CHECKPOINT).touch()
        raise LostWorkerError("worker tcp://a:1 is lost")

    with pytest.raises(StoppedError, match=r"r: worker tcp://a:1 is lost, the 4th since"):
        jobs.persevere(run, attempt)
    assert len(attempts) == 2 + 4
    places = ["beginning" in record.getMessage() for record in caplog.records]
    assert places == [True, True, False, False, False]


# -- whole runs as jobs --------------------------------------------------------------------


def wait_once(path: Path, notify: Notify) -> None:
    """Execute a run with a checkpoint per round; the first with seed 1 waits after round two."""
    execution._CHECKPOINT_SECONDS = 0.0
    mark = path.parent / "waited"

    def wait(event: Event) -> None:
        notify(event)
        if isinstance(event, RoundEvent) and event.round == 2 and event.seed == 1:
            with suppress(FileExistsError):
                mark.touch(exist_ok=False)
                time.sleep(600)

    execute(Run.open(path), notify=wait)


def test_a_job_goes_on_elsewhere_when_its_worker_is_killed(cluster, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    settings: dict[str, Any] = {"clients": 2, "rounds": 4, "algorithms": ["fedavg"], "seeds": 2}
    for name in ("here", "there"):
        start_comparison(PROBLEM, out=Path(name), **settings)
    here = run_plan(Path("here"))
    rounds: list[tuple[int, int]] = []
    starts: list[tuple[str, int]] = []
    killed: list[str] = []

    def notify(event: Event) -> None:
        if isinstance(event, StartEvent):
            starts.append((event.run, event.round))
        if isinstance(event, RoundEvent):
            rounds.append((event.done, event.total))
            if event.seed == 1 and event.round == 2 and not killed:
                killed.append(event.run)
                lock = json.loads((Path(event.run) / LOCK).read_text())
                os.kill(lock["process"], signal.SIGKILL)

    there = run_plan(Path("there"), cluster, notify, wait_once)
    ((key, first),) = there.runs.items()
    assert [content(run.path) for run in first] == [content(run.path) for run in here.runs[key]]
    assert there.results == here.results
    again = str(first[0].path)
    assert sorted(starts) == sorted([(again, 0), (again, 2), (str(first[1].path), 0)])
    assert rounds[-1] == (8, 8)  # rounds that were done twice count once
    assert f"{again}: its worker was lost; it goes on after round 2 on another" in caplog.text


def die(path: Path, notify: Notify) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_job_that_ends_its_workers_is_named(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster._own.scheduler, "allowed_failures", 0)  # 3 by default
    (tmp_path / "mean").mkdir()
    with (
        held(tmp_path),
        pytest.raises(StoppedError, match=r"mean: 1 workers were lost on it in turn"),
    ):
        run_jobs([Job(tmp_path / "mean", 1)], die, PROBLEM, cluster, None)


def fail(path: Path, notify: Notify) -> None:
    raise UserError(f"{path.name} cannot work")


def test_the_fault_of_a_job_reaches_its_caller(cluster, tmp_path):
    (tmp_path / "a").mkdir()
    with held(tmp_path), pytest.raises(UserError, match="a cannot work"):
        run_jobs([Job(tmp_path / "a", 1)], fail, PROBLEM, cluster, None)


def test_a_worker_that_does_not_see_the_directory_says_so(cluster, tmp_path):
    with held(tmp_path), pytest.raises(UserError, match=r"worker process \d+ on .* does not see"):
        run_jobs([Job(tmp_path / "absent", 1)], fail, PROBLEM, cluster, None)
    (tmp_path / "a").mkdir()
    with pytest.raises(UserError, match=r"does not see .*a"):  # nobody holds a directory above
        run_jobs([Job(tmp_path / "a", 1)], fail, PROBLEM, cluster, None)


def test_a_file_system_without_common_locks_is_refused(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / LOCK).touch()  # seen, but locked by nobody as far as this process knows
    with pytest.raises(UserError, match=r"does not see the lock of .* locks hold"):
        jobs._execute(jobs._Assignment(Path.cwd(), tmp_path / "a", fail, PROBLEM), print)


def ignore(event: object) -> None:
    pass


def test_a_job_waits_for_the_worker_that_had_it_before(tmp_path, monkeypatch):
    configuration: Configuration = tiny(problem="tiny-people", algorithm="fedavg", rounds=1)
    run = Run.create(tmp_path / "a", configuration)
    assignment = jobs._Assignment(Path.cwd(), run.path, execute_at, configuration.get_problem())
    monkeypatch.setattr(jobs, "_PAUSE", 0.01)
    with held(tmp_path):
        with monkeypatch.context() as patch:
            patch.setattr(jobs, "PATIENCE", 0.1)
            with held(run.path), pytest.raises(InUseError, match=f"process {os.getpid()} on"):
                jobs._execute(assignment, ignore)
        assert not run.finished
        other = held(run.path)
        other.__enter__()
        Timer(0.2, other.__exit__, (None, None, None)).start()
        jobs._execute(assignment, ignore)
    assert run.finished


def beat(path: Path, send: Send) -> None:
    """Send values until it is told that nobody waits."""
    try:
        while True:
            send(1)
            time.sleep(0.05)
    except StoppedError:
        (path / "stopped").touch()


def test_jobs_stop_when_nobody_waits_for_them(cluster, tmp_path):
    def interrupt(value: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cluster.do(beat, {"a": tmp_path}, interrupt)
    deadline = time.monotonic() + 60
    while not (tmp_path / "stopped").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


# -- addresses, versions, certificates -----------------------------------------------------


@pytest.mark.parametrize("address", ["local:0", "local", "host:8786", "tcp://host", "http://h:1"])
def test_other_addresses_are_refused(address):
    with pytest.raises(UserError, match=f"cluster = '{address}': must be a scheduler's address"):
        Cluster(address)


def test_the_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r'pip install "comity\[cluster\]"'):
        Cluster("local:2")


def test_workers_and_a_cluster_together_are_refused(tmp_path):
    with pytest.raises(UserError, match="workers = 2: a cluster has its own"):
        comity.run(PROBLEM.name, workers=2, cluster="local:2", out=tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_a_scheduler_that_does_not_answer_is_named(monkeypatch):
    monkeypatch.setattr(module, "_CONNECT", 0.5)
    with pytest.raises(StoppedError, match=r"tcp://127.0.0.1:9: no scheduler answers there"):
        Cluster("tcp://127.0.0.1:9").workers()


def test_workers_with_other_versions_are_refused(monkeypatch):
    message = module._sealed("value")
    assert module._opened(message) == "value"
    monkeypatch.setattr(module.torch, "__version__", "1.0")
    with pytest.raises(UserError, match=r"worker on .* has torch 1.0, not 2"):
        module._opened(message)


def test_workers_without_what_they_need_are_named():
    absent = b"\x80\x04cabsent_module\nf\n."  # a pickle of its function f
    with pytest.raises(UserError, match=r"cannot import what it is sent \(No module named 'absent"):
        module._opened(module._pickled((module._versions(), absent)))
    outer = RuntimeError("Error during deserialization of the task graph")
    assert module._without_comity(outer) is outer
    outer.__cause__ = ImportError("No module named 'comity'", name="comity")
    shown = module._without_comity(outer)
    assert isinstance(shown, UserError)
    assert f"Install comity {comity.__version__} where they run" in str(shown)


def double(value: int, send: Send) -> None:
    send(2 * value)


def test_certificates_come_from_the_configuration_of_dask(tmp_path):
    import dask
    from distributed import LocalCluster, Security

    security = Security.temporary()
    place = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "protocol": "tls://"}
    with LocalCluster(
        **place, security=security, dashboard_address=":0", silence_logs=logging.CRITICAL
    ) as served:
        address = served.scheduler_address
        with pytest.raises(UserError, match=f"cluster {address}: .*certificates"):
            Cluster(address).workers()
        texts = {
            "ca-file": security.tls_ca_file,
            "client.cert": security.tls_client_cert,
            "client.key": security.tls_client_key,
        }
        for name, text in texts.items():
            (tmp_path / name).write_text(text)
        files = {f"distributed.comm.tls.{name}": str(tmp_path / name) for name in texts}
        values: list[int] = []
        with dask.config.set(files), Cluster(address) as connected:
            connected.do(double, {"a": 3}, values.append)
    assert values == [6]
