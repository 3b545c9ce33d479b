"""Whatever a client sends, the server goes on, and names the right one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from comity.algorithms import algorithms
from comity.core.fleet import Fleet
from comity.federation.checks import FACTOR, LARGEST, LONGEST, Checks, lengths, possible
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.messages import ClientUpdate, RoundRequest
from comity.federation.server import RoundRecord, Server
from tests.laws.conftest import ALGORITHMS, data_of
from tests.tiny import tiny

BAD = 3
"""The client that sends nonsense."""
SENDING = [name for name in ALGORITHMS if algorithms()[name].communicates]
TRIED = [
    pytest.param(name, marks=pytest.mark.slow) if name == "pfedrlla" else name for name in SENDING
]
"""All of them; one whose server trains an agent takes half a minute."""
SURVEYING = [case for case in TRIED if algorithms()[getattr(case, "values", [case])[0]].surveys]
VALUES = {
    **{"nan": np.nan, "inf": np.inf, "minus inf": -np.inf, "1e19": 1e19, "1e38": 1e38},
    **{"3e38": 3e38, "zeros": 0.0, "subnormal": 1e-40, "-1e19": -1e19},
}
"""What a client may put into all its tensors, by name."""
IMPOSSIBLE = {"nan", "inf", "minus inf", "1e19", "1e38", "3e38", "-1e19"}
SIZES = {
    **{"nan": np.nan, "inf": np.inf, "negative": -5.0, "zero": 0.0, "huge": 1e30},
    **{"subnormal": 1e-310, "cancelling": -1.0, "large": 1e15},
}


@cache
def exchanged(name: str) -> tuple[Server, RoundRequest, ClientUpdate | None, ClientUpdate]:
    """The first round of an algorithm: server, request, survey if any, and updates."""
    guard = not algorithms()[name].centralised
    configuration = tiny(problem=data_of(name), algorithm=name, guard=guard, chunk=4)
    server = Server(configuration)
    with EmbeddedEngine(configuration, 1) as engine:
        request, record = server.request()
        survey = None
        if server.algorithm.surveys:
            survey = engine.survey(request)
            request = server.reply(request, survey, record)
        return server, request, survey, engine.round(request)


def filled(update: ClientUpdate, clients: tuple[int, ...], value: float) -> ClientUpdate:
    """The update in which some clients send one value everywhere."""
    if update.models is None:
        return update
    models = update.models.clone()
    each = len(models) // len(update.clients)
    for client in clients:
        for tensor in models.tensors.values():
            tensor[client * each : (client + 1) * each] = value
    return replace(update, models=models)


def told(update: ClientUpdate, clients: tuple[int, ...], name: str, value: float) -> ClientUpdate:
    """The update in which some clients tell one value of a statistic."""
    values = update.statistics[name].copy()
    values[list(clients)] = value
    return replace(update, statistics={**update.statistics, name: values})


Change = Callable[[ClientUpdate, tuple[int, ...]], ClientUpdate]


def changes(update: ClientUpdate) -> dict[str, Change]:
    """Everything that clients may do to an update, by name."""
    made: dict[str, Change] = {
        f"models {label}": partial(filled, value=value) for label, value in VALUES.items()
    }
    for name in update.statistics:
        for label, value in {**SIZES, "two": 2.0}.items():
            made[f"{name} {label}"] = partial(told, name=name, value=value)
    return made


@pytest.mark.parametrize("name", TRIED)
def test_a_server_goes_on_whatever_clients_send(name):
    """Two rounds of every fault, of one client and of all; every delivered number is finite."""
    first, _, survey, update = exchanged(name)
    for clients in ((BAD,), (0, 1, 2, 3)):
        for label, change in changes(update).items():
            server = Server(first.configuration)
            for _ in range(2):
                request, record = server.request()
                if survey is not None:
                    request = server.reply(request, survey, record)
                server.take(request, change(update, clients), record)
            request, _ = server.request()
            assert request.models is None or request.models.finite().all(), label
            if label.removeprefix("models ") in IMPOSSIBLE and clients == (BAD,):
                named = [e for e in record.events if e.startswith(f"client {BAD}, round 2: ")]
                assert named, label
                assert record.events == named, label


@pytest.mark.parametrize("name", ["fedavg", "fedpref", "fsmgda"])
@pytest.mark.parametrize(
    "wrapper",
    ["clip", "clip,geometric-median", "nearest-neighbour-mixing,multi-krum", "centered-clipping"],
)
def test_a_server_goes_on_under_robust_wrappers(name, wrapper):
    _, first, _, update = exchanged(name)
    configuration = tiny(problem=data_of(name), algorithm=name, wrapper=wrapper, guard=True)
    for clients in ((BAD,), (0, 1, 2, 3)):
        for label, change in changes(update).items():
            server, record = Server(configuration), RoundRecord(1, update.clients)
            server.take(first, change(update, clients), record)
            request, _ = server.request()
            assert request.models is None or request.models.finite().all(), label


@pytest.mark.parametrize("name", SURVEYING)
def test_a_server_goes_on_whatever_clients_answer(name):
    first, _, survey, update = exchanged(name)
    assert survey is not None
    for clients in ((BAD,), (0, 1, 2, 3)):
        for change in changes(survey).values():
            server = Server(first.configuration)
            # a first round of honest answers, because some rules only begin with it
            for answer in (survey, change(survey, clients), survey):
                request, record = server.request()
                request = server.reply(request, answer, record)
                assert all(np.isfinite(values).all() for values in request.broadcast.values())
                server.take(request, update, record)
            request, _ = server.request()
            assert request.models is None or request.models.finite().all()


@pytest.mark.parametrize("name", ["fedavg", "fedpref", "matfl", "fedamp", "cfl"])
@pytest.mark.parametrize("value", [1e9, 1e19, 3e38])
def test_who_sends_huge_numbers_is_the_one_who_is_named_and_rolled_back(name, value):
    """One client sends 1e19 everywhere: products of float32 overflow, and honest models break."""
    server, request, _, update = exchanged(name)
    server, record = Server(server.configuration), RoundRecord(1, update.clients)
    server.take(request, filled(update, (BAD,), value), record)
    (event,) = record.events
    assert event.startswith(f"client {BAD}, round 1: its update is ")
    assert event.endswith("; rolled back to its start and left out")
    request, record = server.request()
    assert [verdict.rolled_back for verdict in request.verdicts] == [False, False, False, True]


def test_what_a_statistic_may_be():
    good = {"size": 3.0, "steps": 0.0, "declined": 1.0, "unsound": 0.0, "gains": -7.5}
    bad = {"size": 0.0, "steps": -1.0, "declined": 0.5, "unsound": np.nan, "gains": 2 * LARGEST}
    for name, value in good.items():
        rows = np.array([value, bad[name], np.inf])
        assert possible(name, rows).tolist() == [True, False, False], name
    nothing = np.array([np.nan, 1.0, np.inf, -np.inf])
    assert possible("validation", nothing, finite=False).tolist() == [True, True, False, False]
    assert possible("gains", nothing, finite=False).all()
    rows = np.array([[0.5, 0.5], [0.7, 0.7], [1.5, -0.5], [np.nan, 1.0]])
    assert possible("preferences", rows).tolist() == [True, False, False, False]


def test_lengths_do_not_overflow():
    models = Fleet({"a": torch.full((2, 4), 1e38), "b": torch.zeros(2, 1)})
    models["a"][1] = 3.0
    start = Fleet({"a": torch.zeros(2, 4), "b": torch.zeros(2, 1)})
    assert lengths(models) == pytest.approx([2e38, 6.0])
    start["a"][1] = 1.0
    assert lengths(models, start) == pytest.approx([2e38, 4.0])


def sent(*values: float) -> ClientUpdate:
    """One number from each client, all with the same amount of data."""
    models = Fleet({"a": torch.tensor(values)[:, None]})
    return ClientUpdate(tuple(range(len(values))), models, {"size": np.ones(len(values))})


def checks(**settings) -> Checks:
    return Checks(tiny(**settings), Fleet({"a": torch.zeros(1, 1)}))


@pytest.mark.parametrize(
    ("values", "sound"),
    [
        ((1.0, 2.0, 3.0), (True, True, True)),
        ((1.0, 2.0, 1.9 * FACTOR), (True, True, True)),
        ((1.0, 2.0, 2.1 * FACTOR), (True, True, False)),
        ((0.0, 0.0, 0.9 * FACTOR), (True, True, True)),  # nobody else moved: at least 1 is usual
        ((1.0, 2 * FACTOR), (True, False)),  # of two, the shorter is the measure
        ((2 * LONGEST, 2 * LONGEST), (False, False)),
        ((2 * FACTOR, 2 * FACTOR, 2 * FACTOR), (True, True, True)),  # all members together
    ],
)
def test_an_update_beyond_ten_thousand_medians_is_no_update(values, sound):
    update, events = sent(*values), []
    start = Fleet({"a": torch.zeros(len(values), 1)})
    assert tuple(checks(clients=len(values)).sound(update, start, 1, events)) == sound
    assert len(events) == len(values) - sum(sound)


def test_a_long_update_is_noticed_beside_models_that_are_delivered_stacked():
    """Of those a client makes its own; of all others its update is measured from the start."""
    far = 2 * FACTOR
    models = {"a": torch.tensor([far, far + 1, far + 3 * FACTOR]), "b": torch.ones(3)}
    update = replace(sent(1, 1, 1), models=Fleet({k: t[:, None] for k, t in models.items()}))
    start = Fleet({"a": torch.full((3, 1), far), "b": torch.ones(3, 4, 1)})
    assert checks(clients=3).sound(update, start, 1, []).tolist() == [True, True, False]


def rounds_of(*rounds: dict[int, float], clients: int = 4) -> list[list[bool]]:
    """Which senders of each round are sound, by the lengths that they sent."""
    guarding, outcomes = checks(clients=clients), []
    for number, lengths_sent in enumerate(rounds, start=1):
        update = replace(sent(*lengths_sent.values()), clients=tuple(lengths_sent))
        start = Fleet({"a": torch.zeros(len(lengths_sent), 1)})
        outcomes.append(guarding.sound(update, start, number, []).tolist())
        again = checks(clients=clients)
        again.load(json.loads(json.dumps(guarding.state())))  # as if resumed after every round
        guarding = again
    return outcomes


LONG = 2 * FACTOR


def test_who_sends_alone_does_not_decide_what_is_usual():
    assert rounds_of({0: LONG}) == [[False]]
    assert rounds_of({0: 0.9 * FACTOR}) == [[True]]  # in lengths of the initial model, at least 1
    # nor do those who are most of a round, but not of the federation
    assert rounds_of({0: LONG, 1: 1.0}, {2: 1e15, 3: 1e15}) == [[False, True], [False, False]]
    # nor does anybody by repeating it
    assert rounds_of({0: LONG}, {0: LONG}, {0: LONG}) == [[False]] * 3


def test_what_was_usual_before_counts_and_not_the_round():
    usual = dict.fromkeys(range(4), 5.0)
    assert rounds_of(usual, dict.fromkeys(range(4), 4 * LONG)) == [[True] * 4, [False] * 4]
    assert rounds_of(usual, {2: 2 * LONG}) == [[True] * 4, [True]]
    # a federation whose members all send long updates, one after the other
    alternating = [{client: LONG} for client in (0, 1, 2, 3, 0)]
    assert rounds_of(*alternating) == [[False], [False], [True], [True], [True]]


def test_who_trains_for_all_is_not_alone_among_others():
    pooled = checks(problem="tiny-people", algorithm="agnostic-fair-pooled")
    start = Fleet({"a": torch.zeros(1, 1)})
    assert pooled.sound(sent(LONG), start, 1, []).all()


def test_without_a_server_nobody_is_measured_by_clients_that_it_may_not_have_heard():
    values = (1e6, 2e6, 3e6)
    start = Fleet({"a": torch.zeros(3, 1)})
    assert checks(clients=3).sound(sent(*values), start, 1, []).all()
    assert not checks(topology="neighbours", clients=3).sound(sent(*values), start, 1, []).any()


def test_sizes_count_as_at_most_three_medians_and_it_is_said_once():
    guarding, events = checks(), []
    sizes = np.array([10.0, 20.0, 30.0, 61.0, 1e6])
    capped = guarding.sizes((0, 1, 2, 3, 4), sizes, 1, events)
    assert capped.tolist() == [10.0, 20.0, 30.0, 61.0, 90.0]
    assert events == [
        "client 4, round 1: its data size 1e+06 counts as 90, 3 times the median, from now on "
        "(size_cap)"
    ]
    guarding.sizes((0, 1, 2, 3, 4), sizes, 2, events)
    assert len(events) == 1
    assert guarding.capped == [4]
    assert checks(size_cap=0).sizes((0, 1, 2, 3, 4), sizes, 1, events) is sizes


def test_a_capped_client_has_three_shares_of_a_mean():
    first, request, _, update = exchanged("fedavg")
    server = Server(first.configuration)
    record = RoundRecord(1, update.clients)
    server.take(request, told(update, (BAD,), "size", 1e12), record)
    assert record.mixing is not None
    assert "size_cap" in record.events[0]
    sizes = update.statistics["size"].copy()
    sizes[BAD] = 3 * np.median([*sizes[:BAD], np.inf])
    assert record.mixing[0] == pytest.approx(sizes / sizes.sum())
    again = Server(first.configuration)
    again.load(*server.state())
    assert again._checks.capped == [BAD]


@pytest.mark.parametrize(
    ("name", "exchange"),
    [("fairfed", "survey"), ("fedfb", "survey"), ("lft-fedavg", "round"), ("fedpac", "round")],
)
def test_counts_that_weigh_are_capped_like_sizes(name, exchange):
    """A client that multiplies its counts by a thousand counts for three medians."""
    first, _, survey, update = exchanged(name)
    amounts = first.algorithm.amounts
    liar = survey if exchange == "survey" else update
    assert liar is not None
    values = {}
    for each in amounts:
        values[each] = liar.statistics[each].copy()
        values[each][BAD] *= 1000
    liar = replace(liar, statistics={**liar.statistics, **values})
    events: list[str] = []
    capped = Checks(first.configuration, first.initial).amounts(
        liar.clients, liar.statistics, 1, events
    )
    sums = [array.reshape(4, -1).sum(axis=1) for array in (values[amounts[0]], capped[amounts[0]])]
    assert sums[1][BAD] == pytest.approx(3 * np.median(sums[0]))
    assert np.array_equal(sums[0][:BAD], sums[1][:BAD])
    for each in amounts:  # all by one factor: rates and means stay what they were
        assert capped[each][BAD] == pytest.approx(values[each][BAD] * sums[1][BAD] / sums[0][BAD])
    (event,) = events
    assert event.startswith(f"client {BAD}, round 1: its '{amounts[0]}', ")
    assert event.endswith("3 times the median, from now on (size_cap)")
    # and the server uses them
    server = Server(first.configuration)
    request, record = server.request()
    if survey is not None:
        request = server.reply(request, liar if exchange == "survey" else survey, record)
    server.take(request, liar if exchange == "round" else update, record)
    assert sum("(size_cap)" in text for text in record.events) == 1
    if name != "fedpac":  # there counts weigh centroids, not models
        assert record.mixing is not None
        assert record.mixing[0, BAD] < 0.6


def test_amounts_as_they_are_sent():
    settings = {"problem": "tiny-people", "algorithm": "lft-fedavg"}
    total = {"total": np.array([1.0, 1.0, 1.0, 50.0]), "size": np.ones(4)}
    clients = (0, 1, 2, 3)
    assert checks(**settings).amounts(clients, total, 1, [])["total"].tolist() == [1, 1, 1, 3]
    asis = checks(**settings, size_cap=0).amounts(clients, total, 1, [])
    assert asis["total"].tolist() == [1, 1, 1, 50]
    nothing = {"total": np.zeros(4)}
    assert checks(**settings).amounts(clients, nothing, 1, [])["total"].tolist() == [0] * 4


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=4, max_size=4),
    name=st.sampled_from(["fedavg", "cfl", "fedmgda-plus", "fedpref", "fedrep"]),
)
def test_any_sizes_give_honest_weights_or_nothing(sizes, name):
    first, request, _, update = exchanged(name)
    server, record = Server(first.configuration), RoundRecord(1, update.clients)
    statistics = {**update.statistics, "size": np.array(sizes)}
    server.take(request, replace(update, statistics=statistics), record)
    right = [0 < size <= LARGEST for size in sizes]
    assert (record.mixing is not None) == any(right)
    if record.mixing is not None:
        weights = record.mixing[~np.isnan(record.mixing).all(axis=1)]
        assert np.isfinite(weights).all()
        assert (weights >= 0).all()
        assert (weights[:, ~np.array(right)] == 0).all()


def test_who_reports_an_infinite_validation_does_not_choose_the_round():
    configuration = tiny(problem="tiny-people", algorithm="fedavg", keep_scope="federation")
    server = Server(configuration)
    worth = np.array([0.1, 0.2, 0.3, np.inf])
    record = RoundRecord(1, (0, 1, 2, 3))
    server._choose(ClientUpdate((0, 1, 2, 3), None, {"validation": worth}), record)
    assert record.worth == pytest.approx(0.2)
    assert record.events == [
        "client 3, round 1: its statistic 'validation' has an impossible value; left out"
    ]
