"""Encodings in a federation: bases, feedback, sizes of messages, losses and refusals."""

from __future__ import annotations

import zlib
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from comity.configuration import Travel, message_sizes
from comity.core.encodings import Encoded, Encoding
from comity.core.fleet import Fleet
from comity.errors import UserError
from comity.federation.agreement import Agreement
from comity.federation.clients import Clients
from comity.federation.encoder import encode_fleet
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import RoundLoop, SimulatedLoop
from comity.federation.messages import RoundRequest, Verdict
from comity.federation.selection import ModelSelection
from comity.federation.server import Server
from comity.federation.uplink import Uplink
from comity.federation.wire import Expected, Kind, WireError, seal, unseal
from comity.learners import Supervised
from tests.federation.test_deployed import (
    FEDERATION,
    Deployment,
    Lossy,
    configuration_of,
    equal,
    simulated,
)
from tests.laws.conftest import ALGORITHMS, EVERYBODY, data_of

LOSSY = ("float16", "int8", "int4")


def people(**values: Any):
    return configuration_of(**{"problem": "tiny-people", "algorithm": "fedavg", **values})


def loop_of(configuration) -> SimulatedLoop:
    return SimulatedLoop(EmbeddedEngine(configuration), Server(configuration))


# -- both ends hold the same base ----------------------------------------------------------


@pytest.mark.parametrize("encoding", LOSSY)
def test_the_server_knows_what_each_client_decoded(encoding, monkeypatch):
    """Also where a client was not asked, and where one declined what it was sent."""
    configuration = people(
        algorithm="fedpref", encoding=encoding, guard=True, participation=0.6, rounds=4
    )
    monkeypatch.setattr(ModelSelection, "declines", lambda self, rows, value: rows == rows)
    loop = loop_of(configuration)
    declined = 0
    for (_record,) in loop.rounds():
        state = loop.engine.state()
        for client in range(3):
            declined += int(loop.engine.metrics((client,)).declined.sum())
            for name, tensor in loop.servers[0]._posted.tensors.items():
                held = state[f"{client}/uplink/posted/{name}"]
                assert np.array_equal(held[0], tensor[client].numpy())
    assert declined, "otherwise this tests nothing"


def test_lossy_encodings_change_models_and_exact_does_not():
    plain = simulated(people())[2]
    assert equal(simulated(people(encoding="exact"))[2], plain)
    for encoding in LOSSY:
        other = simulated(people(encoding=encoding))[2]
        assert not equal(other, plain), encoding
        assert float(other.distance(plain).max()) < 0.5 * float(
            plain.distance(Server(people()).initial).max()
        )


def test_models_that_travel_whole_leave_no_trace():
    loop = loop_of(people())
    next(loop.rounds())
    tensors, _ = loop.state()
    assert not [name for name in tensors if "posted" in name or "residual" in name]
    assert loop.servers[0].request()[0].posted is None


def test_a_fleet_of_n_is_encoded_like_n_fleets_of_one():
    g = torch.Generator().manual_seed(1)
    base = Fleet({"a": torch.randn(3, 4, generator=g), "b": torch.randn(3, 2, generator=g)})
    models = Fleet(
        {n: t + 0.1 * torch.randn(t.shape, generator=g) for n, t in base.tensors.items()}
    )
    for name in ("exact", *LOSSY):
        encoding = Encoding(name, {"a"})
        decoded, encoded = encode_fleet(encoding, ("a", "b"), models, base)
        assert torch.equal(decoded["b"], models["b"])
        assert torch.equal(decoded["a"], models["a"]) == (name == "exact")
        for row in range(3):
            one, alone = encode_fleet(
                encoding, ("a", "b"), models.select([row]), base.select([row])
            )
            assert alone == encoded[row : row + 1]
            assert equal(one, decoded.select([row]))


def test_running_statistics_are_exact():
    """Of a network with normalisation only the trained parameters lose precision."""
    configuration = configuration_of(problem="tiny-people", algorithm="fedavg", encoding="int4")
    travel = Travel(configuration)
    assert travel.encoding is not None
    assert set(travel.encoding.lossy) == set(travel.trained)
    g = torch.Generator().manual_seed(2)
    base = Fleet({"weight": torch.randn(1, 8, generator=g), "running_var": torch.rand(1, 8)})
    models = Fleet({n: t + 0.3 for n, t in base.tensors.items()})
    decoded, _ = encode_fleet(Encoding("int4", {"weight"}), tuple(base), models, base)
    assert torch.equal(decoded["running_var"], models["running_var"])


# -- feedback ------------------------------------------------------------------------------


def test_int4_sends_later_what_it_lost():
    """Over some updates, decoded plus residual is what was meant, to float32."""
    configuration = people(encoding="int4")
    travel = Travel(configuration)
    start = Server(configuration).initial.select([0])
    uplink = Uplink(travel, start)
    g = torch.Generator().manual_seed(3)
    rows = np.array([0])
    meant = {name: torch.zeros_like(t, dtype=torch.float64) for name, t in start.tensors.items()}
    seen = {name: total.clone() for name, total in meant.items()}
    base = start
    for _ in range(6):
        moved = {n: 1e-2 * torch.randn(t.shape, generator=g) for n, t in base.tensors.items()}
        models = Fleet({name: base[name] + step for name, step in moved.items()})
        decoded, _ = uplink.encode(rows, models)
        for name in meant:
            meant[name] += models[name].double() - base[name]
            seen[name] += decoded[name].double() - base[name]
        base = decoded
        uplink.received(rows, base)
    residual = uplink.state()
    for name in meant:
        left = torch.from_numpy(residual[f"residual/{name}"][:, 0]).double()
        torch.testing.assert_close(seen[name] + left, meant[name], atol=1e-6, rtol=1e-5)
        assert left.numel() == 1 or left.abs().max() > 0  # one number is its own scale
    uplink.rolled_back(rows)
    for name, values in uplink.state().items():
        assert not (name.startswith("residual/") and values.any())


def test_a_roll_back_forgets_what_was_lost():
    configuration = people(encoding="int4")
    clients = Clients(configuration, (0, 1, 2))
    request, _ = Server(configuration).request()
    clients.round(request)
    lost = {n: v for n, v in clients.state().items() if n.startswith("uplink/residual/")}
    assert any(values[0].any() for values in lost.values())
    verdicts = (Verdict(1, rolled_back=True), Verdict(1), Verdict(1))
    clients.end(RoundRequest(5, (0, 1, 2), None, verdicts=verdicts))
    after = clients.state()
    for name, values in lost.items():
        assert not after[name][0].any()
        assert np.array_equal(after[name][1:], values[1:])


def test_objectives_that_train_apart_have_a_residual_each():
    travel = Travel(people(algorithm="fsmgda", encoding="int4"))
    assert travel.rows == 2
    clients = Clients(people(algorithm="fsmgda", encoding="int4"), (0,))
    state = clients.state()
    assert state["uplink/residual/0.weight"].shape[:2] == (1, 2)


@pytest.mark.parametrize("encoding", LOSSY)
def test_a_model_that_is_not_finite_is_named_and_left_out(encoding, monkeypatch):
    train = Supervised.train

    def poisoned(self, fleet, rows, task):
        train(self, fleet, rows, task)
        if task.round == 2 and self._clients[rows[0]] == 1:
            next(iter(fleet.tensors.values()))[rows[0]] = float("nan")

    monkeypatch.setattr(Supervised, "train", poisoned)
    records, _, last = simulated(people(encoding=encoding))
    assert any("client 1" in event and "no longer finite" in event for event in records[1].events)
    assert last.finite().all()


# -- stop anywhere -------------------------------------------------------------------------


@pytest.mark.parametrize("values", [
    {"encoding": "int8", "guard": True, "algorithm": "fedpref"},
    {"encoding": "int4", "participation": 0.6},
    {"encoding": "int4", "algorithm": "fsmgda"},
])  # fmt: skip
def test_a_run_that_is_interrupted_ends_with_the_same_bits(values):
    configuration = people(**values, rounds=4)
    _, kept, last = simulated(configuration)
    loop = loop_of(configuration)
    rounds = loop.rounds()
    next(rounds)
    next(rounds)
    tensors, plain = deepcopy(loop.state())
    again = loop_of(configuration)
    again.load({name: tensors[name] for name in sorted(tensors)}, plain)  # as a file has them
    list(again.rounds())
    again.finish()
    assert equal(again.engine.models(True), kept)
    assert equal(again.engine.models(False), last)


def test_two_workers_give_the_same_bits():
    configuration = people(encoding="int4")
    _, _, last = simulated(configuration)
    with EmbeddedEngine(configuration, workers=2) as engine:
        loop = SimulatedLoop(engine, Server(configuration))
        list(loop.rounds())
        loop.finish()
        assert equal(engine.models(False), last)


@pytest.mark.parametrize("what", ["request lost", "answer lost", "answer lost, restart"])
@pytest.mark.parametrize(
    ("algorithm", "exchange", "number"),
    [("fedpref", "round", 2), ("fedcmoo", "survey", 2), ("fedcmoo", "round", 2),
     ("fedavg", "finish", 4)],
)  # fmt: skip
def test_a_lost_message_equals_never_having_been_asked(algorithm, exchange, number, what, tmp_path):
    values = {"algorithm": algorithm, "encoding": "int4"}
    deployment = Lossy(people(**values), tmp_path, when=(number, exchange), what=what)
    deployment.run()
    _, kept, last = simulated(people(**values, absences=[[number, 1, exchange]]))
    assert equal(deployment.models(True), kept)
    assert equal(deployment.models(False), last)


@pytest.mark.parametrize("after", [1, 2])
def test_a_server_restarted_from_its_checkpoint_has_the_same_bases(after, tmp_path):
    configuration = people(encoding="int8", algorithm="fedpref", guard=True)
    deployment = Deployment(configuration, tmp_path)
    rounds = deployment.loop.rounds()
    for _ in range(after):
        next(rounds)
    state, values = deepcopy(deployment.loop.state())
    next(rounds)  # asked and answered, but the server forgets it
    deployment.loop = RoundLoop(deployment.new_engine(), Server(configuration))
    deployment.loop.load({name: state[name] for name in sorted(state)}, values)
    for site in ("bank-a", "bank-c"):
        deployment.restart(site)
    deployment.run()
    assert not [i.text for i in deployment.incidents if i.text]
    assert equal(deployment.models(False), simulated(configuration)[2])


# -- sizes ---------------------------------------------------------------------------------

SIZED = [
    *({"encoding": encoding} for encoding in ("none", "exact", "int8", "int4")),
    {"encoding": "none", "algorithm": "fedcmoo"},
    {"encoding": "int8", "algorithm": "fedcmoo-pref"},
    {"encoding": "int8", "algorithm": "fedfomo", "guard": True},
    {"encoding": "int8", "algorithm": "fsmgda"},
    {"encoding": "none", "algorithm": "no-communication"},
    {"encoding": "none", "algorithm": "lft-ensemble"},
    {"encoding": "int8", "algorithm": "fedpac", "problem": "tiny-answers", "fine_tune": "extra:2"},
    {"encoding": "none", "keep_scope": "federation"},
]


@pytest.mark.parametrize("values", SIZED, ids=lambda v: "-".join(map(str, v.values())))
def test_byte_counts_are_lengths_of_messages(values, tmp_path):
    """Of all that passes, apart from the farewell; and no message is larger than the bound."""
    configuration = people(**values, rounds=2)
    records = simulated(configuration)[0]
    deployment = Deployment(configuration, tmp_path)
    deployment.run()
    up, down = message_sizes(configuration)
    rounds: dict[int, list[int]] = {}
    for message in deployment.passed:
        number = int.from_bytes(message[8:12], "big")
        sides = rounds.setdefault(number, [0, 0])
        sides[message[5] == Kind.REQUEST] += len(message)
        sequence = int.from_bytes(message[12:16], "big") % 5
        if sequence == 1:  # a round
            arrays = 0 if message[5] == Kind.UPDATE else _replies(configuration)
            assert len(message) <= (up if message[5] == Kind.UPDATE else down) + arrays
    counted = {record.round: [record.bytes_up, record.bytes_down] for record in records}
    assert counted == {number: rounds[number] for number in counted}
    assert set(rounds) - set(counted) == {configuration.rounds + 2}  # the end


def _replies(configuration) -> int:
    """Bytes more where a reply to a survey travels with the request."""
    return 300 if configuration.get_algorithm().surveys else 0


def test_the_bound_is_near():
    """Of a table problem the worst case is the plain arithmetic of section and envelope."""
    configuration = people(encoding="int8")
    entries = 61 * 8 + 8 + 8 + 1
    raw = entries + 4 * 4
    up, down = message_sizes(configuration)
    assert raw + 168 < up < raw + 13 + 168 + 200
    assert raw + 168 < down < raw + 13 + 168 + 250
    whole, _ = message_sizes(people())
    assert 4 * entries + 168 < whole < 4 * entries + 168 + 200
    assert message_sizes(people(encoding="int8", rounds=900)) == (up, down)


@pytest.mark.parametrize("algorithm", [name for name in ALGORITHMS if name not in EVERYBODY])
def test_every_algorithm_runs_with_int8(algorithm):
    configuration = configuration_of(
        algorithm=algorithm, problem=data_of(algorithm), encoding="int8", rounds=2
    )
    plain = configuration_of(algorithm=algorithm, problem=data_of(algorithm), rounds=2)
    records, _, last = simulated(configuration)
    assert last.finite().all()
    up, _ = message_sizes(configuration)
    if configuration.get_algorithm().communicates:
        assert up < message_sizes(plain)[0]
        if configuration.get_algorithm().surveys:  # whose answers are no part of the bound
            assert records[0].bytes_up < simulated(plain)[0][0].bytes_up
        else:
            assert all(0 < record.bytes_up <= 3 * up for record in records[:2])


# -- refusals ------------------------------------------------------------------------------


def test_whole_models_are_refused_where_an_encoding_is_agreed_and_the_reverse():
    plain, coded = people(), people(encoding="int8")
    for ours, theirs in ((plain, coded), (coded, plain)):
        request, _ = Server(theirs).request()
        request = request.only((1,))
        update = Clients(theirs, (1,)).round(request)
        message = Agreement(theirs).update_message("round", request, update, "0" * 64)
        assert Agreement(theirs).update_of(message, "round", alone=False).clients == (1,)
        with pytest.raises(WireError, match="encoding"):
            Agreement(ours).update_of(message, "round", alone=False)
        loop = loop_of(theirs)
        next(loop.rounds())
        request = loop.servers[0].request()[0].only((1,))
        asked = Agreement(theirs).request_message("round", request)
        assert Agreement(theirs).request_of(asked, 1)[0] == "round"
        with pytest.raises(WireError, match="encoding"):
            Agreement(ours).request_of(asked, 1)


def test_a_false_result_and_a_false_length_are_refused():
    configuration = people(encoding="int8")
    agreement = Agreement(configuration)
    request, _ = Server(configuration).request()
    request = request.only((1,))
    update = Clients(configuration, (1,)).round(request)
    message = agreement.update_message("round", request, update, "0" * 64)
    base = {name: tensor.numpy() for name, tensor in request.posted.tensors.items()}
    expected = Expected(
        FEDERATION, (Kind.UPDATE,), (1,), agreement.layout, 1 << 20,
        decode=agreement.decoder([base]),
    )  # fmt: skip
    assert unseal(seal(message, FEDERATION, agreement.layout), expected).encoded == message.encoded
    other = {n: a + 1.0 if n.startswith("models/") else a for n, a in message.arrays.items()}
    other = {n: a.astype(message.arrays[n].dtype) for n, a in other.items()}
    for wrong, reason in (
        (replace(message, arrays=other), "result"),
        (replace(message, encoded=Encoded(bytes(15) + b"x", message.encoded.body)), "base"),
        (replace(message, encoded=replace(message.encoded, body=b"x")), "encoded models"),
        (
            replace(message, encoded=replace(message.encoded, body=zlib.compress(bytes(1 << 20)))),
            "encoded models",
        ),
    ):
        with pytest.raises(WireError, match=reason):
            unseal(seal(wrong, FEDERATION, agreement.layout), expected)
    with pytest.raises(WireError, match="base"):
        unseal(seal(message, FEDERATION, agreement.layout), replace(expected, decode=None))


def test_an_unknown_base_is_refused_and_named(tmp_path):
    """A site whose disk was replaced by an old copy does not hold what the server measures from."""
    configuration = people(encoding="int8")
    deployment = Deployment(configuration, tmp_path, quorum=0)
    rounds = deployment.loop.rounds()
    next(rounds)
    next(rounds)
    server = deployment.loop.servers[0]
    server._posted = Fleet({n: t + 1.0 for n, t in server._posted.tensors.items()})
    with pytest.raises(UserError, match="answered"):
        next(rounds)
    assert {i.text for i in deployment.incidents if i.text} == {"refused: message not taken: base"}
