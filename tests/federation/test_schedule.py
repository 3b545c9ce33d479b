"""Late updates by hand, and a request to clients of whom some have received nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from comity.configuration.budget import planned_updates
from comity.configuration.privacy import Privacy
from comity.core.fleet import Fleet
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import SimulatedLoop
from comity.federation.messages import ClientUpdate, RoundRequest
from comity.federation.schedule import Schedule
from comity.federation.server import Server
from comity.runs.privacy_results import updates_sent
from comity.runs.results import history_entry
from tests.links.plans import passes, plan
from tests.tiny import tiny


def fleet(*rows: tuple[float, float]) -> Fleet:
    return Fleet({"w": torch.tensor(rows)})


@pytest.fixture
def configured(tmp_path):
    """Return a function: settings of links -> configuration of two early and two late clients."""
    path = tmp_path / "plan.csv"
    contacts = plan(
        passes("a/1", (100, 300)),
        passes("a/2", (100, 300), station="ground/h"),
        passes("b/1", (200, 300), station="ground/i"),
        passes("b/2", (200, 300), station="ground/k"),
    )
    path.write_text(contacts.to_csv())

    def configure(**links):
        rules = {"contacts": str(path), "work": "60s", "collect": "count:2", **links}
        return tiny(algorithm="fedavg", problem="tiny-people", links=rules)

    return configure


def aged(schedule: Schedule, *ages: int) -> Schedule:
    """Count mixings that changed the rows of some clients."""
    for number in range(max(ages)):
        after = torch.tensor([[float(number < age)] for age in ages])
        schedule.mixed(Fleet({"w": torch.zeros(4, 1)}), Fleet({"w": after}))
    return schedule


def test_a_late_update_is_measured_from_the_present_model(configured):
    schedule = aged(Schedule(configured()), 0, 3, 0, 0)
    sent, start = fleet((1.0, 2.0), (5.0, 1.0)), fleet((0.0, 0.0), (4.0, 4.0))
    now = fleet((9.0, 9.0), (10.0, 20.0))
    moved, begun = schedule.rebased((0, 1), sent, start, now)
    # client 0 is in time: as it sent; client 1: (10, 20) + ((5, 1) - (4, 4))
    assert moved["w"].tolist() == [[1.0, 2.0], [11.0, 17.0]]
    assert begun["w"].tolist() == [[0.0, 0.0], [10.0, 20.0]]
    assert sent["w"].tolist() == [[1.0, 2.0], [5.0, 1.0]]  # what was given is not touched


def test_a_late_update_counts_less_when_damped(configured):
    schedule = aged(Schedule(configured(damp=0.5)), 0, 3, 0, 0)
    sent, start = fleet((1.0, 2.0), (5.0, 1.0)), fleet((0.0, 0.0), (4.0, 4.0))
    moved, _ = schedule.rebased((0, 1), sent, start, fleet((9.0, 9.0), (10.0, 20.0)))
    # (1 + 3)^-0.5 = 0.5
    assert moved["w"].tolist() == [[1.0, 2.0], [10.5, 18.5]]


def test_several_rows_per_client_are_measured_from_one_start(configured):
    schedule = aged(Schedule(configured()), 0, 1, 0, 0)
    sent = fleet((1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (4.0, 4.0))
    moved, begun = schedule.rebased((0, 1), sent, fleet((0, 0), (1, 1)), fleet((8, 8), (9, 9)))
    assert moved["w"].tolist() == [[1.0, 1.0], [2.0, 2.0], [11.0, 11.0], [12.0, 12.0]]
    assert begun["w"].tolist() == [[0.0, 0.0], [9.0, 9.0]]


def test_without_rebasing_updates_stay_as_sent(configured):
    schedule = aged(Schedule(configured(rebase=False)), 0, 3, 0, 0)
    sent, start = fleet((1.0, 2.0), (5.0, 1.0)), fleet((0.0, 0.0), (4.0, 4.0))
    moved, begun = schedule.rebased((0, 1), sent, start, fleet((9.0, 9.0), (10.0, 20.0)))
    assert moved is sent
    assert begun is start


def test_only_mixings_that_changed_a_row_make_its_client_late(configured):
    schedule = Schedule(configured())
    before = Fleet({"w": torch.zeros(4, 2), "b": torch.zeros(4)})
    after = before.clone()
    after["w"][1, 0] = 1.0
    after["b"][3] = 2.0
    schedule.mixed(before, after)
    assert schedule.ages(range(4)).tolist() == [0, 1, 0, 1]
    schedule.mixed(after, after.clone())
    assert schedule.ages(range(4)).tolist() == [0, 1, 0, 1]


def answer(server: Server, request: RoundRequest, step: float) -> ClientUpdate:
    """Return an update in which everybody moves by a step from what it holds."""
    start = request.models or server._initial(tuple(server._template), request.clients)
    tensors = {name: tensor + step for name, tensor in start.tensors.items()}
    ones = np.ones(len(request.clients))
    return ClientUpdate(request.clients, Fleet(tensors), {"size": ones})


def test_late_clients_start_from_what_they_were_sent(configured):
    """FedAvg of equal clients: two early ones move by 1, two late ones by 10, from the start."""
    server = Server(configured())
    table = server._schedule.table
    assert [planned.senders for planned in table.rounds][:3] == [(0, 1), (0, 1), (2, 3)]
    name = next(iter(server.initial))
    initial = server.initial[name][0]
    for step in (1.0, 1.0):
        request, record = server.request()
        server.take(request, answer(server, request, step), record)
    assert torch.allclose(server._present([2])[name][0], initial + 2, atol=1e-5)
    request, record = server.request()
    assert request.models is None  # nothing has been delivered to them
    server.take(request, answer(server, request, 10.0), record)
    assert record.ages == (2, 2)
    assert torch.allclose(server._present([2])[name][0], initial + 12, atol=1e-5)


def test_a_request_is_split_into_those_with_models_and_those_without():
    models = fleet((1.0, 1.0), (2.0, 2.0), (3.0, 3.0))
    request = RoundRequest(3, (0, 2, 5), models, undelivered=frozenset({2}), work=(1, 2, 3))
    given, without = request.apart()
    assert (given.clients, without.clients) == ((0, 5), (2,))
    assert given.models["w"].tolist() == [[1.0, 1.0], [3.0, 3.0]]
    assert without.models is None
    assert (given.work, without.work) == ((1, 3), (2,))
    whole = RoundRequest(3, (0, 2), models.select([0, 1]))
    assert whole.apart() == [whole]


def test_an_update_costs_privacy_whether_it_is_late_or_dropped(configured):
    for rules in ({}, {"oldest": 0}):
        plain = configured(collect="count:1", **rules)
        configuration = plain.model_copy(update={"privacy": Privacy(noise=1.0)})
        with EmbeddedEngine(configuration) as engine:
            loop = SimulatedLoop(engine, Server(configuration))
            records = [record for (record,) in loop.rounds()]
        history = [history_entry(record, None) for record in records]
        assert any(age for record in records for age in record.ages), "some are late"
        assert any(record.dropped for record in records) == ("oldest" in rules)
        sent = updates_sent(configuration, history)
        assert tuple(sent) == planned_updates(configuration)
        assert sum(sent) == sum(len(record.clients) for record in records)
