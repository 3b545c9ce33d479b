"""The laws without a server, for every registered algorithm that can do without one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from comity.algorithms import Round, algorithms, make
from comity.api import resume
from comity.configuration import Configuration
from comity.core.fleet import Fleet
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import RoundLoop
from comity.federation.messages import ClientUpdate
from comity.federation.neighbours import Neighbours
from comity.federation.record import RoundRecord
from comity.federation.server import Server
from comity.runs.directory import Run
from comity.runs.execute import execute
from tests.events import stopping
from tests.laws.conftest import ALGORITHMS, data_of
from tests.laws.test_rules import SETTINGS, random_round, relabelled
from tests.laws.test_runs import contents, outcome
from tests.tiny import tiny

LOCAL = [
    name
    for name in ALGORITHMS
    if algorithms()[name].communicates and not make(name, {}).needs_server
]
"""Algorithms that clients can run on what they heard."""


def without_server(name: str, **values) -> Configuration:
    own = {name: SETTINGS[name]} if name in SETTINGS else {}
    default = {"topology": "neighbours", "graph": "random:0.5", "problem": data_of(name)}
    return tiny(**{"algorithm": name, **own, **default, **values})


def test_algorithms_of_all_kinds_do_without_a_server():
    """Means, clusters, similarities, attention, private parts, hypernetworks."""
    assert {"fedavg", "cfl", "fedpref", "matfl", "fedamp", "ditto", "praffl"} <= set(LOCAL)
    assert len(LOCAL) == 22


class Unread:
    """A fleet that nobody may look at."""

    def __getattr__(self, name: str) -> object:
        raise PermissionError(name)


@pytest.mark.parametrize("name", LOCAL)
def test_who_reads_starts_says_so(name):
    """Where the rule does not read them, messages between clients do not hold them."""
    round = replace(random_round(1, 4, name), start=Unread())  # type: ignore[arg-type]
    if algorithms()[name].reads_start:
        with pytest.raises(PermissionError):
            make(name, {}).mix(round)
    else:
        make(name, {}).mix(round)


@pytest.mark.parametrize("name", LOCAL)
def test_1_and_5_repeatable_and_resumed(name, tmp_path):
    """With absences, guards and graphs that change: the same bytes twice, and after a stop."""
    configuration = without_server(name, participation=0.75, guard=True, rounds=3)
    whole = outcome(tmp_path / "whole", configuration)

    broken = Run.create(tmp_path / "broken", configuration)
    with pytest.raises(KeyboardInterrupt):
        execute(broken, notify=stopping(2))
    assert contents(resume(broken.path)) == whole


def test_1_whatever_the_number_of_workers(tmp_path):
    configuration = without_server("fedpref", guard=True)
    assert outcome(tmp_path / "1", configuration) == outcome(tmp_path / "2", configuration, 2)


# -- rules ---------------------------------------------------------------------------------


class Given(Neighbours):
    """Clients that hear whom a test says."""

    graph: np.ndarray

    def _graph(self, number: int) -> np.ndarray:
        return self.graph


def rows_of(name: str, graph: np.ndarray, rounds: list[Round]) -> list[dict[str, np.ndarray]]:
    """The weights of each round by group: one row per client."""
    server = Given(without_server(name, clients=len(graph)))
    server.graph = graph
    found = []
    for round in rounds:
        record = RoundRecord(round.number, round.participants)
        mixings = server._apply_rule(round, record).mixings
        for mixing in mixings.values():
            mixing.check(len(round.participants))
            assert (mixing.weights >= 0).all()
            assert mixing.route == {client: client for client in range(len(graph))}
        found.append({key: mixing.weights for key, mixing in mixings.items()})
    return found


def drawn(seed: int, clients: int) -> np.ndarray:
    """Who hears whom, which need not be mutual."""
    graph = np.random.default_rng(seed).random((clients, clients)) < 0.5
    return graph & ~np.eye(clients, dtype=bool)


@pytest.mark.parametrize("name", LOCAL)
@settings(deadline=None, max_examples=2)
@given(seed=st.integers(0, 2**30), clients=st.integers(2, 5))
def test_4_and_6_nothing_is_used_that_was_not_heard(seed, clients, name):
    """Weights are honest and inside the graph; what others sent to others makes no difference."""
    graph = drawn(seed, clients)
    rounds = [random_round(seed + k, clients, name, number=k + 1) for k in range(3)]
    plain = rows_of(name, graph, rounds)
    for weights in plain:
        for matrix in weights.values():
            assert not matrix[~graph & ~np.eye(clients, dtype=bool)].any()
    deaf = 0
    unheard = [c for c in range(1, clients) if not graph[deaf, c]]
    others = [altered(round, unheard) for round in rounds]
    for weights, again in zip(plain, rows_of(name, graph, others), strict=True):
        for key, matrix in weights.items():
            np.testing.assert_array_equal(matrix[deaf], again[key][deaf])


def altered(round: Round, clients: list[int]) -> Round:
    """The same round, in which some clients sent something else."""

    def other(fleet: Fleet) -> Fleet:
        tensors = {k: t.clone() for k, t in fleet.tensors.items()}
        for tensor in tensors.values():
            tensor[clients] = 3.0 - 2.0 * tensor[clients]
        return Fleet(tensors)

    sizes = round.sizes.copy()
    sizes[clients] += 7
    told = {key: values.copy() for key, values in round.statistics.items()}
    for values in told.values():
        values[clients] += 1.0
    return replace(
        round, sent=other(round.sent), start=other(round.start), sizes=sizes, statistics=told
    )


@pytest.mark.parametrize("name", LOCAL)
@settings(deadline=None, max_examples=2)
@given(seed=st.integers(0, 2**30), clients=st.integers(2, 5))
def test_3_no_favourites(seed, clients, name):
    """Relabelled clients, who hear the same others, have the same weights."""
    graph, order = drawn(seed, clients), np.random.default_rng(seed).permutation(clients)
    round = random_round(seed, clients, name)
    (plain,) = rows_of(name, graph, [round])
    (renamed,) = rows_of(name, graph[np.ix_(order, order)], [relabelled(name, round, order)])
    for key, matrix in plain.items():
        np.testing.assert_allclose(renamed[key], matrix[np.ix_(order, order)], atol=1e-5)


# -- whole federations ---------------------------------------------------------------------


@pytest.mark.parametrize("name", LOCAL)
def test_6_clients_send_what_they_send_to_a_server(name):
    """The first updates are equal bit for bit, later ones have the same tensors and statistics."""
    updates: dict[str, list[ClientUpdate]] = {}
    for topology, graph in (("star", "complete"), ("neighbours", "ring")):
        values = {"topology": topology, "graph": graph, "keep_scope": "client", "rounds": 2}
        configuration = without_server(name, **values, guard=True, chunk=4)
        server = (Server if topology == "star" else Neighbours)(configuration)
        updates[topology] = []
        with EmbeddedEngine(configuration) as engine:
            for _ in range(2):
                request, record = server.request()
                updates[topology].append(engine.round(request))
                server.take(request, updates[topology][-1], record)
    for one, other in zip(*updates.values(), strict=True):
        assert one.models is not None
        assert other.models is not None
        assert set(one.models) == set(other.models)
        assert set(one.statistics) == set(other.statistics)
    one, other = (sent[0] for sent in updates.values())
    assert one.models is not None
    assert other.models is not None
    for tensor in one.models:
        assert torch.equal(one.models[tensor], other.models[tensor])
    for key, values in one.statistics.items():
        np.testing.assert_array_equal(values, other.statistics[key])


@pytest.mark.parametrize("name", LOCAL)
def test_7_absent_clients_keep_everything(name):
    """Their state, and the model that they have mixed for themselves; nobody hears them."""
    configuration = without_server(name, participation=0.5, graph="complete", chunk=4, rounds=3)
    with EmbeddedEngine(configuration) as engine:
        server = Neighbours(configuration)
        state, mixed = copied(engine), None
        for (record,) in RoundLoop(engine, server).rounds():
            absent = [c for c in server.clients if c not in record.clients]
            now = copied(engine)
            for key in now:
                if key.startswith(("0/models/", "0/kept/", "0/learner/steps")):
                    np.testing.assert_array_equal(now[key][absent], state[key][absent])
            delivery = server.last_request()[0].models
            assert delivery is not None
            for tensor in delivery if mixed is not None else ():
                assert torch.equal(delivery[tensor][absent], mixed[tensor][absent])
            assert record.mixing is not None
            assert np.isnan(record.mixing[absent]).all()
            assert not record.mixing[np.ix_(record.clients, absent)].any()
            state, mixed = now, delivery.clone()


def copied(engine: EmbeddedEngine) -> dict[str, np.ndarray]:
    return {key: value.copy() for key, value in engine.state().items()}


@pytest.mark.parametrize("name", LOCAL)
def test_8_who_is_no_longer_finite_is_named_and_left_out(name):
    configuration = without_server(name, graph="complete", chunk=4, rounds=2)
    with EmbeddedEngine(configuration) as engine:
        server = Neighbours(configuration)
        request, record = server.request()
        update = engine.round(request)
        assert update.models is not None
        for tensor in update.models.tensors.values():
            tensor[2] = torch.nan
        server.take(request, update, record)
        assert record.heard == {0: (1, 3), 1: (0, 3), 3: (0, 1)}
        assert record.events == [
            "client 2, round 1: its model is no longer finite; rolled back to its start and left "
            "out"
        ]
        request, record = server.request()
        assert request.models is not None
        assert request.models.finite().all()
        assert request.verdicts[2].rolled_back
        for tensor in server.initial:
            assert torch.equal(request.models[tensor][2], server.initial[tensor][2])
        server.take(request, engine.round(request), record)
        assert record.heard is not None
        assert sorted(record.heard) == [0, 1, 2, 3]
