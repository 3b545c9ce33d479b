"""What leaves a site, and what neither a site nor a server takes."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from comity.algorithms import algorithms
from comity.core.envelope import MODELS, STATISTICS
from comity.core.fleet import Fleet
from comity.federation.clients import Clients
from comity.federation.engines.deployed import DeployedEngine
from comity.federation.initial_model import initial_fleet
from comity.federation.site import ANSWER, COMMITTED, PENDING, Membership, Site
from comity.federation.transports.base import Arrived
from comity.federation.transports.memory import MemoryTransport
from comity.federation.wire import (
    SERVER,
    Expected,
    Kind,
    Message,
    digest_of,
    is_refusal,
    seal,
    unseal,
)
from comity.problems import DataProblem
from tests.federation.test_deployed import (
    FEDERATION,
    SITES,
    Deployment,
    configuration_of,
    equal,
    exchange_of,
    simulated,
)
from tests.laws.conftest import ALGORITHMS, EVERYBODY, REWARDED, data_of

PREFERENCES = [[0.731058, 0.268942], [0.598688, 0.401312], [0.119203, 0.880797]]
FEDERATED = [name for name in ALGORITHMS if name not in EVERYBODY]
HEADER, TAIL = 72, 96


# -- signatures without certificates -------------------------------------------------------


def signer(party: int) -> Callable[[bytes], bytes]:
    """Return the signature of a party: anybody in this file can check it, nobody else makes it."""
    return lambda data: hashlib.sha512(b"secret %d " % party + data).digest()


def verify(sender: int, data: bytes, signature: bytes) -> bool:
    return signer(sender)(data) == signature


class Signed(Deployment):
    """A deployment whose parties sign."""

    def __init__(self, *arguments: Any, **terms: Any) -> None:
        super().__init__(*arguments, sign=signer(SERVER), verify=verify, **terms)

    def site(self, number: int) -> Site:
        membership = Membership(number, FEDERATION, signer(number), verify)
        return Site(self.path / SITES[number], self.configuration, membership, self.agreement)

    def opened(self, sealed: bytes) -> Message:
        """Return the content of any message of this federation."""
        kinds, senders = tuple(Kind), (0, 1, 2, SERVER)
        layout, largest = self.agreement.layout, self.agreement.largest
        return unseal(sealed, Expected(FEDERATION, kinds, senders, layout, largest, verify))

    def sealed(self, message: Message, signature: int | None = None) -> bytes:
        """Return a message with a valid signature of its sender, or with another's."""
        party = message.sender if signature is None else signature
        return seal(message, FEDERATION, self.agreement.layout, signer(party))


def people(**values: Any) -> Any:
    return configuration_of(**{"problem": "tiny-people", "algorithm": "fedpref", **values})


# -- what leaves a site --------------------------------------------------------------------


class Watched(Deployment):
    """A deployment that notes what is private at the sites after every answer."""

    def __init__(self, *arguments: Any) -> None:
        self.private: set[bytes] = set()
        super().__init__(*arguments)
        algorithm = self.configuration.get_algorithm()
        copies = tuple(algorithm.receive_as.values())  # of what was delivered
        # 0 and 1 of FedFew's choice stand in any message
        names = set(self.agreement.personal) - set(algorithm.statistics) - {"chosen"}
        self.personal = {name for name in names if not name.startswith(copies or ("-",))}

    def fate(self, name: str, message: bytes) -> str:
        for site in self.sites.values():
            fleet = site.clients.models(kept=False).tensors
            held = {name: tensor.numpy() for name, tensor in fleet.items()}
            shared = {array.tobytes() for name, array in held.items() if name not in self.personal}
            own = [held[n] for n in self.personal if len(np.unique(held[n])) > 3]
            self.private |= {array.tobytes() for array in own} - shared  # not yet trained apart
        return super().fate(name, message)

    @property
    def updates(self) -> list[bytes]:
        return [message for message in self.passed if message[5] == Kind.UPDATE]


def control_of(sealed: bytes) -> dict[str, Any]:
    """Return the control fields of a message, read by hand."""
    size = int.from_bytes(sealed[HEADER : HEADER + 4], "big")
    return dict(json.loads(sealed[HEADER + 4 : HEADER + 4 + size]))


def rows_of(configuration: Any) -> Iterator[bytes]:
    """Yield training rows of every client, as they are in the file and as they are learned."""
    problem = configuration.get_problem()
    assert isinstance(problem, DataProblem)
    raw, scaled = problem.samples().columns["inputs"], problem.columns()["inputs"]
    for share in problem.client_rows():
        for row in share.train[:40]:
            for inputs in (raw, scaled):
                yield inputs[row].numpy().tobytes()


@pytest.mark.parametrize("algorithm", [name for name in FEDERATED if name not in REWARDED])
def test_nothing_leaves_a_site_but_what_is_declared(algorithm, tmp_path):
    declared = algorithms()[algorithm]
    configuration = configuration_of(
        problem=data_of(algorithm), algorithm=algorithm, preferences=PREFERENCES, rounds=2,
        guard=declared.communicates and not declared.ensembles,
    )  # fmt: skip
    deployment = Watched(configuration, tmp_path)
    deployment.run()
    assert len(deployment.updates) >= 3 * 4  # two rounds, the last delivery, the end

    traffic = b"".join(deployment.passed)
    assert bool(deployment.private) == bool(deployment.personal)
    rows = set(rows_of(configuration))
    assert len(rows) > 100
    assert not [row for row in rows if row in traffic]
    left = b"".join(deployment.updates)  # some personal tensors are copies of delivered ones
    assert not [tensor for tensor in deployment.private if tensor in left]
    if "preferences" not in declared.surveys:
        for weights in PREFERENCES:
            for dtype in (np.float32, np.float64):
                assert np.array(weights, dtype).tobytes() not in traffic
            assert str(weights[0]).encode() not in traffic

    fleet = initial_fleet(configuration, 1)
    module = configuration.get_module()
    trained, sends = module.named_parameters(), configuration.get_algorithm().travelling(module)
    names = {f"{MODELS}{name}" for name in fleet.group(*sends)}
    if "gradients" in declared.surveys:
        names |= {f"{MODELS}{name}" for name, tensor in trained if tensor.requires_grad}
    statistics = {"size", "declined", "unsound", *declared.statistics, *declared.surveys}
    names |= {f"{STATISTICS}{name}" for name in statistics}
    sent: set[str] = set()
    for update in deployment.updates:
        control = control_of(update)
        assert set(control) == {"answers", "agreed", "arrays"}
        sent |= {name for name, *_ in control["arrays"]}
        sent |= set(deployment.agreement.layout) if control["agreed"] else set()
    assert sent <= names
    assert bool(sent) == (declared.communicates or declared.ensembles)


def test_no_tensor_leaves_where_nothing_is_mixed(tmp_path):
    silent = Watched(people(algorithm="no-communication"), tmp_path / "silent")
    silent.run()
    assert silent.updates
    assert not silent.agreement.tensors
    last = Watched(people(fine_tune="replace-last"), tmp_path / "last")
    last.run()
    numbers = {True: [], False: []}
    for deployment in (silent, last):
        for update in deployment.updates:
            control = control_of(update)
            tensors = control["agreed"] or any(n.startswith(MODELS) for n, *_ in control["arrays"])
            numbers[tensors].append((deployment is last, *exchange_of(update)))
    assert set(numbers[True]) == {(True, 1, "round"), (True, 2, "round")}
    assert (True, 3, "round") in numbers[False]


def test_an_exception_stays_at_its_site(tmp_path, monkeypatch, caplog):
    """Its text may hold private values; the site counts as absent in this round."""
    configuration = people()
    deployment = Deployment(configuration, tmp_path)
    plain = Clients.round

    def failing(self: Clients, request: Any) -> Any:
        if request.round == 2 and request.clients == (1,):
            raise ValueError("/home/bank-b/rows.csv, row 17: Smith")
        return plain(self, request)

    monkeypatch.setattr(Clients, "round", failing)
    records = deployment.run()
    monkeypatch.setattr(Clients, "round", plain)
    traffic = b"".join(deployment.passed)
    assert not any(part in traffic for part in (b"rows.csv", b"Smith", b"ValueError", b"home"))
    assert "row 17: Smith" in caplog.text  # it is not lost, either
    assert records[1].absent == {"round": (1,)}
    assert any("its own log has the reason" in i.text for i in deployment.incidents)
    assert equal(deployment.models(False), simulated(people(absences=[[2, 1, "round"]]))[2])
    assert not equal(deployment.models(False), simulated(configuration)[2])


# -- messages changed on their way ---------------------------------------------------------


def mutated(sealed: bytes, dice: random.Random) -> bytes:
    """Return a message with some bytes changed, lost, doubled, or something else altogether."""
    data = bytearray(sealed)
    place = dice.choice([dice.randrange(len(data)), dice.randrange(min(len(data), 200))])
    kind = dice.randrange(7)
    if kind <= 2:
        data[place] ^= dice.randrange(1, 256)
    elif kind == 3:
        del data[place:]
    elif kind == 4:
        del data[place : place + dice.randrange(1, 9)]
    elif kind == 5:
        data[place:place] = dice.randbytes(dice.randrange(1, 9))
    else:
        data = bytearray(dice.randbytes(dice.randrange(300)))
    return bytes(data)


def resealed(deployment: Signed, sealed: bytes, dice: random.Random) -> bytes:
    """Return a message with bytes of its body or header changed, and a valid signature."""
    content = bytearray(sealed[:-TAIL])
    for _ in range(dice.randrange(1, 4)):
        content[dice.choice([dice.randrange(8, 16), dice.randrange(64, len(content))])] ^= (
            1 << dice.randrange(8)
        )
    sender = int.from_bytes(content[6:8], "big")
    checksum = hashlib.sha256(content).digest()
    return bytes(content) + checksum + signer(sender)(checksum)


def snapshot(site: Site) -> dict[str, bytes]:
    """Return everything that a site remembers."""
    state = {name: array.tobytes() for name, array in site.clients.state().items()}
    files = {
        name: (site.directory / name).read_bytes()
        for name in (COMMITTED, PENDING, ANSWER)
        if (site.directory / name).is_file()
    }
    return {**state, **files}


@pytest.fixture
def trained(monkeypatch) -> list[str]:
    """The work that clients do."""
    work: list[str] = []
    for name in ("round", "survey", "finish", "collect", "end"):
        plain = getattr(Clients, name)

        def noted(self: Clients, *arguments: Any, name: str = name, plain: Any = plain) -> Any:
            work.append(name)
            return plain(self, *arguments)

        monkeypatch.setattr(Clients, name, noted)
    return work


def requests_of(deployment: Deployment, client: int) -> list[bytes]:
    """Return the requests to a client that have passed."""
    following = zip(deployment.passed, deployment.passed[1:], strict=False)
    return [one for one, other in following if other[6:8] == client.to_bytes(2, "big")]


@pytest.mark.parametrize("encoding", ["none", "int8"])
def test_a_site_refuses_10_000_mutated_messages(encoding, tmp_path, trained):
    deployment = Signed(people(algorithm="fedcmoo", encoding=encoding), tmp_path)
    rounds = deployment.loop.rounds()
    next(rounds), next(rounds)
    site, requests = deployment.sites["bank-b"], requests_of(deployment, 1)
    assert {exchange_of(request) for request in requests} >= {(2, "survey"), (2, "round")}
    before, dice = snapshot(site), random.Random(1)
    trained.clear()
    for number in range(10_000):
        answer = site.answer(mutated(requests[number % len(requests)], dice))
        assert is_refusal(answer)
    assert deployment.opened(answer).control["reason"].startswith("message not taken")
    assert snapshot(site) == before
    assert not trained
    next(rounds)
    deployment.loop.finish()
    assert equal(deployment.models(False), simulated(deployment.configuration)[2])


@pytest.mark.parametrize("encoding", ["none", "int8"])
def test_a_site_answers_whatever_a_server_signs(encoding, tmp_path):
    """Nonsense with a valid signature may be taken where it makes sense; nothing is raised."""
    deployment = Signed(people(algorithm="fedcmoo", encoding=encoding), tmp_path)
    next(deployment.loop.rounds())
    dice, site = random.Random(2), deployment.sites["bank-b"]
    requests = requests_of(deployment, 1)
    answers = [site.answer(resealed(deployment, dice.choice(requests), dice)) for _ in range(1500)]
    assert sum(map(is_refusal, answers)) > 1300


def listed(message: Message, arrays: Any) -> bytes:
    """Return a sealed message of the server whose list of arrays is anything."""
    text = json.dumps({**message.control, "agreed": False, "arrays": arrays}).encode()
    body = len(text).to_bytes(4, "big") + text
    plain = seal(replace(message, arrays={}), FEDERATION, {}, signer(SERVER))
    content = plain[: HEADER - 8] + len(body).to_bytes(8, "big") + body
    checksum = hashlib.sha256(content).digest()
    return content + checksum + signer(SERVER)(checksum)


def _control(**values: Any) -> Callable[[Message], Message]:
    return lambda message: replace(message, control={**message.control, **values})


def _array(change: Callable[[Any], Any], prefix: str = MODELS) -> Callable[[Message], Message]:
    """Return a change of the first array under a prefix."""

    def changed(message: Message) -> Message:
        name = next(name for name in message.arrays if name.startswith(prefix))
        return replace(message, arrays={**message.arrays, name: change(message.arrays[name])})

    return changed


def _more(name: str, array: Any) -> Callable[[Message], Message]:
    return lambda message: replace(message, arrays={**message.arrays, name: array})


def _nan(array: Any) -> Any:
    wrong = array.copy()
    wrong.flat[0] = np.nan
    return wrong


REQUESTS: dict[str, tuple[Callable[[Message], Message], str]] = {
    "no exchange": (_control(exchange="dance"), "exchange"),
    "a list for an exchange": (_control(exchange=["round"]), "exchange"),
    "a number for a flag": (_control(alone=1), "control fields"),
    "a negative number": (_control(extra=-1), "control fields"),
    "a flag for a number": (_control(acknowledged=True), "control fields"),
    "a server that is behind": (_control(acknowledged=0), "the server is behind"),
    "a server that is ahead": (_control(acknowledged=9), "this site is behind"),
    "a tensor of nan": (_array(_nan), "not finite"),
    "a tensor of another shape": (_array(lambda a: a[..., :-1]), "tensor"),
    "a tensor of another type": (_array(lambda a: a.astype(np.float64)), "tensor"),
    "an unknown tensor": (_more(f"{MODELS}rows", np.ones((1, 2), np.float32)), "tensor unknown"),
    "an unknown array": (_more("pickles/x", np.ones((1, 2))), "arrays: unknown"),
    "a broadcast of integers": (
        _more("broadcast/x", np.ones((1, 2), np.int64)), "statistic x: type or shape",
    ),
    "two rows": (_array(lambda a: np.repeat(a, 2, axis=0)), "tensor"),
}  # fmt: skip


@pytest.fixture(scope="module")
def asked(tmp_path_factory) -> tuple[Signed, bytes]:
    """A deployment after two rounds, and the request of the third to bank-b."""
    deployment = Signed(people(), tmp_path_factory.mktemp("asked"))
    list(deployment.loop.rounds())
    return deployment, requests_of(deployment, 1)[-1]


@pytest.mark.parametrize("name", REQUESTS)
def test_a_site_refuses_signed_nonsense_with_a_reason(name, asked, trained):
    deployment, request = asked
    site, (change, reason) = deployment.sites["bank-b"], REQUESTS[name]
    before = snapshot(site)
    message = deployment.opened(request)
    bad = deployment.sealed(change(message))
    answer = site.answer(bad)
    assert is_refusal(answer)
    control = deployment.opened(answer).control
    assert reason in control["reason"]
    assert control["answers"] == digest_of(bad)  # so that the server hears it
    assert snapshot(site) == before
    assert not trained


LISTS = {
    "no list": {"a": 1},
    "a list of numbers": [1, 2],
    "an unhashable type": [["a", ["f4"], [1]]],
    "an unknown type": [["a", "O8", [1]]],
    "an empty shape of nothing": [["a", "f4", [0, 1 << 31, 1 << 31, 1 << 31]]],
    "petabytes": [["a", "f8", [1 << 31, 1 << 20]]],
    "a fraction": [["a", "f4", [1.5]]],
    "a flag": [["a", "f4", [True]]],
    "a negative size": [["a", "f4", [-1]]],
    "many axes": [["a", "f4", [1] * 9]],
    "one name twice": [["a", "f4", [1]], ["a", "f4", [1]]],
}


@pytest.mark.parametrize("name", LISTS)
def test_a_site_refuses_signed_lists_of_arrays(name, asked, trained):
    deployment, request = asked
    answer = deployment.sites["bank-b"].answer(listed(deployment.opened(request), LISTS[name]))
    reason = deployment.opened(answer).control["reason"]
    assert reason in ("message not taken: arrays", "message not taken: control fields")
    assert not trained


def test_only_the_server_is_answered(asked, trained):
    deployment, request = asked
    site, message = deployment.sites["bank-b"], deployment.opened(request)
    stranger = deployment.sealed(message, signature=0)
    other = seal(message, "cd" * 32, deployment.agreement.layout, signer(SERVER))
    for bad, reason in ((stranger, "signature"), (other, "another federation")):
        answer = deployment.opened(site.answer(bad))
        assert answer.control["reason"] == f"message not taken: {reason}"
        assert site.foreign == (bad is other)
    site.foreign = False
    assert not trained


# -- at the server -------------------------------------------------------------------------


class Hostile(MemoryTransport):
    """A transport on which many bad answers arrive before each good one."""

    bad: Callable[[str, bytes], Iterator[bytes]]
    count = 0
    taken = 0

    def exchange(self, messages: Mapping[str, bytes], patience: float, arrived: Arrived) -> Any:
        def watched(site: str, answer: bytes) -> bool:
            for bad in self.bad(site, answer):
                self.count += 1
                self.taken += arrived(site, bad)
            return arrived(site, answer)

        return super().exchange(messages, patience, watched)


class Besieged(Signed):
    def new_engine(self) -> DeployedEngine:
        self.transport = Hostile({name: self._carry(name) for name in SITES})
        return DeployedEngine(self.terms, self.agreement, self.transport, self.incidents.append)


@pytest.mark.parametrize("encoding", ["none", "int8"])
def test_a_server_takes_none_of_10_000_mutated_answers(encoding, tmp_path):
    deployment, dice = (
        Besieged(people(algorithm="fedcmoo", encoding=encoding), tmp_path),
        random.Random(3),
    )

    def bad(site: str, answer: bytes) -> Iterator[bytes]:
        old = [m for m in deployment.passed if m[5] == Kind.UPDATE and m != answer]
        for _ in range(450):
            yield mutated(answer, dice)
        yield from dice.choices(old, k=min(len(old), 20))  # replayed, and other sites'

    deployment.transport.bad = bad
    deployment.run()
    assert deployment.transport.count >= 10_000
    assert deployment.transport.taken == 0
    assert len([i for i in deployment.incidents if i.text]) == deployment.transport.count
    _, kept, last = simulated(deployment.configuration)
    assert equal(deployment.models(True), kept)
    assert equal(deployment.models(False), last)


def test_a_server_survives_whatever_a_site_signs(tmp_path):
    deployment, dice = Besieged(people(), tmp_path), random.Random(4)
    deployment.transport.bad = lambda site, answer: (
        resealed(deployment, answer, dice) for _ in range(150)
    )
    deployment.run()
    assert deployment.transport.count == 3 * 5 * 150
    assert deployment.transport.taken < 0.1 * deployment.transport.count


def _statistic(name: str, value: float) -> Callable[[Message], Message]:
    return _more(f"{STATISTICS}{name}", np.array([value]))


def _without(prefix: str) -> Callable[[Message], Message]:
    return lambda message: replace(
        message, arrays={n: a for n, a in message.arrays.items() if not n.startswith(prefix)}
    )


ANSWERS: dict[str, tuple[Callable[[Message], Message], str]] = {
    "a size of nan": (_statistic("size", np.nan), "statistic size: value"),
    "a negative size": (_statistic("size", -1.0), "statistic size: value"),
    "an endless size": (_statistic("size", np.inf), "statistic size: value"),
    "an absurd size": (_statistic("size", 1e300), "statistic size: value"),
    "half a flag": (_statistic("declined", 0.5), "statistic declined: value"),
    "two sizes": (_more(f"{STATISTICS}size", np.ones(2)), "statistic size"),
    "another statistic": (_statistic("income", 1.0), "statistics: other names"),
    "no statistics": (_without(STATISTICS), "statistics: other names"),
    "no tensors": (_without(MODELS), "tensors: other names"),
    "another tensor": (
        _more(f"{MODELS}rows", np.ones((1, 2), np.float32)), "tensors: other names",
    ),
    "another shape": (_array(lambda a: a[..., :-1]), "type or shape"),
    "another type": (_array(lambda a: a.astype(np.float64)), "type or shape"),
    "an unknown array": (_more("pickles/x", np.ones((1, 2))), "arrays: unknown"),
    "another round": (lambda message: replace(message, round=1), "round"),
    "an answer to nothing": (_control(answers=None), "answers another message"),
    "another site's name": (lambda message: replace(message, sender=0), "sender"),
}  # fmt: skip


@cache
def absent_models() -> tuple[Fleet, Fleet, Fleet]:
    """Return kept and last models without bank-b in round 2, and the last ones with it."""
    _, kept, last = simulated(people(guard=True, absences=[[2, 1, "round"]]))
    return kept, last, simulated(people(guard=True))[2]


class Lying(Signed):
    """A deployment in which bank-b answers a round with something else."""

    lie: Callable[[bytes], bytes]
    when, exchange = 2, "round"

    def _carry(self, name: str) -> Any:
        plain = super()._carry(name)

        def carry(message: bytes) -> bytes | None:
            answer = plain(message)
            chosen = name == "bank-b" and exchange_of(message) == (self.when, self.exchange)
            return self.lie(answer) if chosen and answer is not None else answer

        return carry


@pytest.mark.parametrize("name", [*ANSWERS, "its answer of round 1", "the answer of bank-a"])
def test_a_site_that_answers_nonsense_is_absent(name, tmp_path):
    deployment = Lying(people(guard=True), tmp_path)

    def lie(answer: bytes) -> bytes:
        if name in ANSWERS:
            return deployment.sealed(ANSWERS[name][0](deployment.opened(answer)), signature=1)
        updates = [m for m in deployment.passed if m[5] == Kind.UPDATE]
        if name == "the answer of bank-a":
            return next(m for m in updates if exchange_of(m)[0] == 2)
        return next(m for m in updates if m[6:8] == answer[6:8])

    deployment.lie = lie
    records = deployment.run()
    assert records[1].absent == {"round": (1,)}
    (text,) = [incident.text for incident in deployment.incidents if incident.text]
    reason = ANSWERS[name][1] if name in ANSWERS else "sender" if "bank-a" in name else "another"
    assert text.startswith("answer not taken")
    assert reason in text
    kept, last, everybody = absent_models()
    assert equal(deployment.models(True), kept)
    assert equal(deployment.models(False), last)
    assert not equal(last, everybody)  # the absence changes bits


def test_a_tensor_of_nan_harms_nobody_else(tmp_path):
    """As in the simulation, the site is named, rolled back and left out of the mixing."""
    deployment = Lying(people(), tmp_path)
    deployment.when = 3
    deployment.lie = lambda answer: deployment.sealed(_array(_nan)(deployment.opened(answer)))
    records = deployment.run()
    assert any("client 1, round 3: its model is no longer finite" in e for e in records[2].events)
    last, everybody = simulated(people(absences=[[3, 1, "round"]]))[2], simulated(people())[2]
    others = [0, 2]
    assert equal(deployment.models(False).select(others), last.select(others))
    assert not equal(last.select(others), everybody.select(others))
    assert deployment.models(False).finite().all()


def test_a_model_that_breaks_is_rolled_back_as_in_the_simulation(tmp_path, monkeypatch):
    plain = Clients._train

    def breaking(self: Clients, rows: Any, request: Any, *more: Any) -> Any:
        value = plain(self, rows, request, *more)
        if request.round == 2 and request.clients == (1,):
            next(iter(self._models.tensors.values())).fill_(np.nan)
        return value

    monkeypatch.setattr(Clients, "_train", breaking)
    deployment = Signed(people(), tmp_path)
    records = deployment.run()
    assert any("client 1, round 2: its model is no longer finite" in e for e in records[1].events)
    _, kept, last = simulated(deployment.configuration)
    assert equal(deployment.models(True), kept)
    assert equal(deployment.models(False), last)


def test_a_refusal_is_one_line_of_plain_text(tmp_path):
    deployment = Lying(people(guard=True), tmp_path)
    reason = "\x1b[2J[/red] look\nhere " + 300 * "a"

    def lie(answer: bytes) -> bytes:
        message = deployment.opened(answer)
        control = {"answers": message.control["answers"], "reason": reason}
        return deployment.sealed(Message(Kind.REFUSAL, 1, 2, message.sequence, control))

    deployment.lie = lie
    records = deployment.run()
    assert records[1].absent == {"round": (1,)}
    (text,) = [incident.text for incident in deployment.incidents if incident.text]
    assert text.startswith("refused:  [2J[/red] look here aaa")
    assert len(text) < 220


ABSURD: dict[str, Callable[[Any], Any]] = {
    "nan": lambda array: array * np.nan,
    "huge": lambda array: array * 0 + 1e300,
    "negative": lambda array: -np.abs(array) - 1,
    "unlike": lambda array: np.resize([9e15, -9e15, 0.0, 1e-300], array.shape),
    "of another shape": lambda array: np.ones((1, 3, 3)),
}


@pytest.mark.parametrize("how", ABSURD)
@pytest.mark.parametrize(
    ("algorithm", "exchange"),
    [("fairfed", "survey"), ("fedfb", "survey"), ("fedpac", "survey"), ("lft-fedavg", "round")],
)
def test_a_server_survives_absurd_statistics(algorithm, exchange, how, tmp_path, recwarn):
    problem = data_of(algorithm)
    deployment = Lying(configuration_of(problem=problem, algorithm=algorithm), tmp_path)
    deployment.exchange = exchange

    def lie(answer: bytes) -> bytes:
        message = deployment.opened(answer)
        told = [n for n in message.arrays if n.startswith(STATISTICS)]
        chosen = [n for n in told if n.rpartition("/")[2] not in ("size", "unsound")]
        assert chosen
        changed = {name: ABSURD[how](message.arrays[name]) for name in chosen}
        return deployment.sealed(replace(message, arrays={**message.arrays, **changed}))

    deployment.lie = lie
    records = deployment.run()
    assert len(records) == 4
    assert deployment.models(False).finite().all()
