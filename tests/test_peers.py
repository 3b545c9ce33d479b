"""Comity beside other libraries: the same steps for all contenders, and the table of results."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from benchmarks.peers import loops, process_tree, with_comity
from benchmarks.peers.contender import Clock, arrays_of
from benchmarks.peers.results import HEADINGS, rows_of
from benchmarks.peers.tasks import Federation, Task, network, write_data

from comity.core.threads import limited
from comity.problems.networks import cnn

TINY = {
    "table": Task("table", 3, 20, 4, 8, 4, "adam", 1e-3, 1),
    "pictures": Task("pictures", 2, 9, 3, 4, 3, "sgd", 0.05, 1),
}


@pytest.fixture(params=TINY)
def federation(request, tmp_path):
    task = TINY[request.param]
    write_data(task, tmp_path)
    with_comity.write_order(task, tmp_path, rounds=2)
    return Federation(task, tmp_path)


def test_comity_and_the_loops_take_the_same_steps(federation):
    def trained(contender):
        clock = Clock(2, 0.0)
        with limited(1):
            last = arrays_of(contender(federation, 2, 1, clock))
        return clock.first_model, last

    initial = arrays_of(federation.network().state_dict())
    first, last = trained(loops.plain)
    assert any(np.abs(last[name] - first[name]).max() > 1e-3 for name in initial)
    assert any(np.abs(first[name] - initial[name]).max() > 1e-3 for name in initial)
    for contender in (with_comity.engine, loops.pfllib_like):
        for model, expected in zip(trained(contender), (first, last), strict=True):
            for name in initial:
                np.testing.assert_allclose(model[name], expected[name], atol=1e-5)


def test_every_pass_over_the_samples_is_in_the_order(federation):
    task = federation.task
    for client in range(task.clients):
        rows = federation.batches(2, client).flatten()
        assert sorted(rows[: task.rows].tolist()) == list(range(task.rows))
    assert not torch.equal(federation.batches(1, 0), federation.batches(2, 0))
    assert not torch.equal(federation.batches(2, 0), federation.batches(2, 1))


def test_the_cnn_is_that_of_comity():
    sizes = [tensor.shape for tensor in network("pictures").state_dict().values()]
    ours = cnn(3, 32, 32, 10).state_dict().values()
    assert sizes == [tensor.shape for tensor in ours]
    assert sum(shape.numel() for shape in sizes) == 878_538


BURN = "import time\nwhile time.process_time() < 0.3: pass\n"


def test_the_time_of_processes_below_counts_also_when_they_have_ended():
    before, own = process_tree.cpu_seconds(os.getpid()), time_of_this_process()
    subprocess.run([sys.executable, "-c", BURN], check=True)
    spent = process_tree.cpu_seconds(os.getpid()) - before
    assert spent - (time_of_this_process() - own) >= 0.25


def time_of_this_process():
    times = os.times()
    return times.user + times.system


def run(peer, repeat, cpu, digest, workers=1, **others):
    measures = {"cpu_per_round": cpu, "wall_per_round": 2 * cpu, "digest": digest, "peak": 300.4}
    measures |= {"startup_cpu": 2.0, "startup_wall": 3.0, "accuracy": 0.815}
    off = {"off_plain_first": 3e-8}
    return {"peer": peer, "repeat": repeat, "workers": workers, **measures, **off, **others}


def test_the_table_has_medians_spreads_ratios_of_the_same_turn_and_reasons():
    runs = [
        run("plain-loop", 0, 0.4, "a", off_plain_first=0.0),
        run("comity", 0, 0.1, "b"),
        run("comity", 0, 0.06, "b", workers=2),
        run("drifting", 0, 0.8, "c", startup_cpu=4.0, off_plain_first=None),
        {"peer": "absent", "repeat": 0, "workers": 1, "failure": "not installed: no such package"},
        run("plain-loop", 1, 0.6, "a", off_plain_first=0.0),
        run("comity", 1, 0.12, "b", off_plain_first=5e-8),
        run("drifting", 1, 1.2, "d", startup_cpu=6.0, off_plain_first=None),
        run("plain-loop", 2, 0.5, "a", off_plain_first=0.0),
    ]
    table = {row[0]: dict(zip(HEADINGS[1:], row[1:], strict=True)) for row in rows_of(runs, 10)}
    assert list(table) == ["plain-loop", "comity", "drifting", "absent"]
    comity = table["comity"]
    assert table["plain-loop"]["CPU ms per client-round"] == "50 (40 to 60)"
    assert comity["CPU ms per client-round"] == "11 (10 to 12)"
    assert comity["plain loop / it"] == "4.50 (4.00 to 5.00)"  # 0.4 / 0.1 and 0.6 / 0.12
    assert comity["wall s per round"] == "0.22 (0.2 to 0.24)"
    assert comity["with two workers"] == "0.12"
    assert comity["two runs equal"] == "yes; two workers the same"
    assert comity["off the plain loop"] == "5e-08"
    assert comity["peak MB"] == "300"
    assert comity["accuracy"] == "81.5 %"
    assert table["drifting"]["start-up, CPU s (wall)"] == "5.0 (3.0)"
    assert table["drifting"]["two runs equal"] == "no"
    assert table["drifting"]["with two workers"] == "–"
    assert table["drifting"]["off the plain loop"] == "not compared"
    assert table["absent"]["CPU ms per client-round"] == "not installed: no such package"
    assert table["absent"]["peak MB"] == "–"
