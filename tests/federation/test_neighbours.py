"""Federations without a server: what is mixed, refused, counted, recorded."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import comity.runs.execute
from comity.api import resume
from comity.configuration import Configuration
from comity.configuration.planning import planned_sizes
from comity.core.fleet import Fleet
from comity.core.mixing import Mixing, Mixings
from comity.errors import UserError
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import SimulatedLoop
from comity.federation.neighbours import Neighbours, server_of
from comity.federation.record import RoundRecord
from comity.federation.server import Server
from comity.runs.directory import Run
from comity.runs.execute import execute
from comity.runs.plans import make_plan
from comity.searches.configuration import configure_search
from tests.events import stopping
from tests.tiny import tiny


def neighbours(**values) -> Configuration:
    return tiny(**{"problem": "tiny-people", "topology": "neighbours", "chunk": 4, **values})


def run(configuration: Configuration, kept: bool = False) -> tuple[list[RoundRecord], Fleet]:
    """The records of a federation, and the models of its clients in the end."""
    with EmbeddedEngine(configuration) as engine:
        loop = SimulatedLoop(engine, server_of(configuration))
        records = [record for (record,) in loop.rounds()]
        loop.finish()
        return records, engine.models(kept).clone()


def test_with_a_server_nothing_changes():
    assert type(server_of(tiny())) is Server
    assert tiny().topology == "star"


def test_a_complete_graph_of_equal_clients_is_federated_averaging():
    records, models = run(neighbours(algorithm="fedavg"))
    _, star = run(neighbours(algorithm="fedavg", topology="star"))
    for name in star:
        torch.testing.assert_close(models[name], star[name], rtol=1e-5, atol=1e-6)
    assert records[0].heard == {0: (1, 2, 3), 1: (0, 2, 3), 2: (0, 1, 3), 3: (0, 1, 2)}
    np.testing.assert_allclose(records[0].mixing, np.full((4, 4), 0.25), atol=0.01)


@pytest.mark.parametrize("problem", ["tiny-people", "tiny-treasure"])
def test_fedpref_on_a_complete_graph_is_fedpref_with_a_server(problem):
    """Everybody knows what the server would know, and each takes the row it would be sent."""
    values = {"algorithm": "fedpref", "problem": problem, "fedpref": {"threshold": 1e9}}
    records, models = run(neighbours(**values))
    star_records, star = run(neighbours(**values, topology="star"))
    assert len(star_records[-1].clusters or []) > 1, "a cluster has split"
    for record, other in zip(records, star_records, strict=True):
        np.testing.assert_array_equal(record.mixing, other.mixing)
    for name in star:
        assert torch.equal(models[name], star[name])


@pytest.mark.parametrize("algorithm", ["fedavg", "fedpref", "cfl", "matfl"])
@pytest.mark.parametrize("kept", [True, False])
def test_an_empty_graph_is_no_communication(algorithm, kept):
    """Bit for bit with data; learners from rewards set their target networks to what they get."""
    records, models = run(neighbours(algorithm=algorithm, graph="random:0"), kept)
    _, alone = run(neighbours(algorithm="no-communication"), kept)
    for name in alone:
        assert torch.equal(models[name], alone[name])
    assert all(record.heard == dict.fromkeys(range(4), ()) for record in records)
    assert [record.bytes_up for record in records] == [0] * 4


def test_a_ring_by_hand():
    """Clients 0 and 2 of a ring of four hear 1 and 3: means of three of four models."""
    configuration = neighbours(algorithm="fedavg", graph="ring", rounds=1)
    with EmbeddedEngine(configuration) as engine:
        server = Neighbours(configuration)
        request, record = server.request()
        update = engine.round(request)
        server.take(request, update, record)
    sizes = update.statistics["size"]
    weights = np.array([[1, 1, 0, 1], [1, 1, 1, 0], [0, 1, 1, 1], [1, 0, 1, 1]]) * sizes
    weights = weights / weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(record.mixing, weights)
    delivered = server.last_request()[0].models
    assert delivered is not None
    assert update.models is not None
    for name in delivered:
        wanted = np.einsum("ij,j...->i...", weights, update.models[name].double().numpy())
        np.testing.assert_allclose(delivered[name], wanted, atol=1e-6)


def test_bytes_are_those_of_messages_that_were_heard():
    """As many as a server gets of each client; FedPref compares updates, so starts travel, too."""
    module = neighbours().get_module()
    entries = sum(parameter.numel() for parameter in module.parameters())
    for algorithm, starts in (("fedavg", 0), ("fedpref", 1)):
        star, _ = run(neighbours(algorithm=algorithm, topology="star"))
        message = star[0].bytes_up // 4 + 4 * entries * starts
        records, _ = run(neighbours(algorithm=algorithm, graph="ring"))
        assert [record.bytes_up for record in records] == [8 * message] * 4
        assert [record.bytes_down for record in records] == [0] * 4


def test_half_of_the_clients_exchange_among_themselves():
    records, _ = run(neighbours(algorithm="fedavg", participation=0.5))
    for record in records:
        one, other = record.clients
        assert record.heard == {one: (other,), other: (one,)}
        assert record.mixing is not None
        assert np.isnan(record.mixing[[c for c in range(4) if c not in record.clients]]).all()


@pytest.mark.parametrize("algorithm", ["fedavg", "matfl"])
def test_who_is_absent_hears_and_tells_nothing(algorithm):
    records, _ = run(neighbours(algorithm=algorithm, absences=[[2, 1, "round"]]))
    assert records[1].heard == {0: (2, 3), 2: (0, 3), 3: (0, 2)}
    assert records[1].mixing is not None
    assert np.isnan(records[1].mixing[1]).all()
    assert not records[1].mixing[[0, 2, 3], 1].any()
    assert records[2].heard is not None
    assert 1 in records[2].heard


REFUSED = {
    "survey": ({"algorithm": "fedcmoo"}, "fedcmoo asks all clients before they train"),
    "agent": ({"algorithm": "pfedrlla"}, "pfedrlla asks all clients"),
    "step": ({"algorithm": "fedmgda-plus"}, "steps from one model that all clients hold"),
    "objectives apart": ({"algorithm": "fsmgda"}, "steps from one model"),
    "whole models": ({"algorithm": "fedfomo"}, "several models of others"),
    "all hypernetworks": (
        {"algorithm": "hetpfl", "hetpfl": {"front": "global", "fusion": "weights"}},
        "hands everybody the hypernetworks of all",
    ),
    "ensemble": ({"algorithm": "lft-ensemble"}, "hands the models of all clients to everybody"),
    "pooled": ({"algorithm": "agnostic-fair-pooled"}, "pools the data"),
    "public average": (
        {"algorithm": "lft-fedavg", "lft-fedavg": {"average": "public"}},
        "average = public.*topology = star",
    ),
    "public weighting": (
        {"algorithm": "praffl", "praffl": {"weighting": "public"}},
        "weighting = public",
    ),
    "wrapper": ({"algorithm": "fedavg", "wrapper": "confree"}, "Say wrapper = none"),
    "one round for all": (
        {"algorithm": "fedavg", "keep_scope": "federation"},
        "topology = neighbours and keep_scope = federation exclude each other",
    ),
    "encoding": ({"algorithm": "fedavg", "encoding": "int8"}, "Say encoding = none"),
    "graph": ({"graph": "square"}, "graph = 'square': is not one of the valid forms.*ring:K"),
    "no ring": ({"graph": "ring:0"}, "graph"),
    "share": ({"graph": "random:1.5"}, "graph"),
    "graph of a star": ({"topology": "star", "graph": "ring"}, "Say topology = neighbours"),
    "topology": ({"topology": "tree"}, "topology = 'tree'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_needs_a_server_is_refused(case):
    values, message = REFUSED[case]
    with pytest.raises(UserError, match=message):
        neighbours(**values)


def test_a_default_that_needs_a_server_is_changed():
    assert neighbours(algorithm="praffl", topology="star").keep_scope == "federation"
    assert neighbours(algorithm="praffl").keep_scope == "client"


# -- by a contact plan ---------------------------------------------------------------------


@pytest.fixture
def contacts(tmp_path) -> str:
    """Client 0 hears 1 in the first hour; 1 and 2 hear each other in the third."""
    path = tmp_path / "contacts.csv"
    rows = ["a/1,a/0,600,700", "a/1,a/2,7300,7400", "a/2,a/1,7300,7400", "a/3,ground/g,0,60"]
    path.write_text("\n".join(["from,to,start,end,rate", *(f"{row},{8 * 2_000}" for row in rows)]))
    return str(path)


def test_a_contact_plan_says_who_hears_whom(contacts, tmp_path):
    links = {"contacts": contacts, "collect": "every:1h", "work": "60s"}
    configuration = neighbours(algorithm="fedavg", links=links)
    assert configuration.rounds == 2
    assert configuration.learner_settings["total_steps"] == 2 * 3
    records, _ = run(configuration)
    assert [record.heard for record in records] == [
        {0: (1,), 1: (), 2: (), 3: ()},
        {0: (), 1: (2,), 2: (1,), 3: ()},
    ]
    assert records[1].mixing is not None
    np.testing.assert_allclose(records[1].mixing[3], [0, 0, 0, 1])
    results = execute(Run.create(tmp_path / "run", configuration)).results
    assert results["neighbours"] == {"heard": 3 / 8, "pairs": 2, "possible_pairs": 6}
    assert "graph" not in results


def test_stopped_between_two_windows(contacts, tmp_path, monkeypatch):
    monkeypatch.setattr(comity.runs.execute, "_CHECKPOINT_SECONDS", 0.0)
    links = {"contacts": contacts, "collect": "every:1h", "work": "60s"}
    configuration = neighbours(algorithm="fedpref", links=links, keep="last")
    whole = execute(Run.create(tmp_path / "whole", configuration))

    broken = Run.create(tmp_path / "broken", configuration)
    with pytest.raises(KeyboardInterrupt):
        execute(broken, notify=stopping(1))
    assert broken.load_checkpoint() is not None
    resumed = resume(broken.path)
    for file in ("history.jsonl", "results.json", "models/client-1.safetensors"):
        assert (resumed.path / file).read_bytes() == (whole.path / file).read_bytes()
    assert [entry.get("time") for entry in whole.history] == [3600.0, 10800.0, None]


def test_a_plan_is_one_of_contacts_with_a_server(contacts):
    links = {"contacts": contacts, "collect": "every:1h", "work": "60s"}
    values = {"problem": "tiny-people", "algorithm": "fedavg", "topology": "neighbours"}
    with pytest.raises(UserError, match="this run has 2 rounds"):
        make_plan({**values, "links": links})


def test_alone_has_the_same_rounds_of_work(contacts):
    links = {"contacts": contacts, "collect": "every:1h", "work": "60s"}
    alone = neighbours(algorithm="no-communication", links=links)
    assert alone.rounds == 2
    records, _ = run(alone)
    assert [record.clients for record in records] == [(0, 1, 2, 3)] * 2


PLANS = {
    "count": ({"collect": "count:2"}, {}, "clients mix by the clock. Use every:DURATION"),
    "graph": ({}, {"graph": "ring"}, "graph = ring means nothing with links"),
    "slow": ({"overhead": 500.0}, {}, "nobody hears anybody.*Mix less often"),
}


@pytest.mark.parametrize("case", PLANS)
def test_a_plan_that_does_not_fit_is_refused(case, contacts):
    table, values, message = PLANS[case]
    links = {"contacts": contacts, "collect": "every:1h", "work": "60s", **table}
    with pytest.raises(UserError, match=message):
        neighbours(algorithm="fedavg", links=links, **values)


def test_contacts_are_planned_with_the_starts_that_travel():
    """In steps of 1,000 bytes."""
    sizes = [planned_sizes(neighbours(algorithm=name))[0] for name in ("fedavg", "fedpref")]
    entries = sum(parameter.numel() for parameter in neighbours().get_module().parameters())
    assert sizes[1] - sizes[0] in range(4 * entries - 1000, 4 * entries + 1001)


def test_a_search_needs_a_server():
    with pytest.raises(UserError, match=r"the server evaluates.*Say topology = star"):
        configure_search({"problem": "tiny-treasure", "topology": "neighbours"})


def test_a_rule_that_steps_without_declaring_it_is_named(monkeypatch):
    """An algorithm of a user's own, which says nothing of a server that it needs."""
    server = Neighbours(neighbours(algorithm="fedavg", rounds=1))

    def stepping(self, round) -> Mixings:
        return {"*": Mixing.step(round.sizes, round.clients, round.start.select([0]))}

    monkeypatch.setattr(type(server.algorithm), "mix", stepping)
    with EmbeddedEngine(server.configuration) as engine:
        request, record = server.request()
        update = engine.round(request)
        with pytest.raises(UserError, match="fedavg does more than mix"):
            server.take(request, update, record)


def test_a_run_says_who_heard_whom(tmp_path):
    configuration = neighbours(algorithm="fedavg", graph="ring", rounds=2)
    run = execute(Run.create(tmp_path / "run", configuration))
    heard = {"0": [1, 3], "1": [0, 2], "2": [1, 3], "3": [0, 2]}
    assert [entry.get("heard") for entry in run.history] == [heard, heard, None]
    assert run.results["neighbours"] == {"heard": 2.0, "pairs": 4, "possible_pairs": 6}
    assert (run.results["topology"], run.results["graph"]) == ("neighbours", "ring")
    assert run.results["communication"]["bytes_down"] == 0
    star = execute(Run.create(tmp_path / "star", neighbours(algorithm="fedavg", topology="star")))
    assert not {"neighbours", "topology", "graph"} & set(star.results)
