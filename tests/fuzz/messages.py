"""Messages of every kind, changed by a hostile member or a hostile server, and how they end.

Each has a valid signature, or was changed on its way. It is refused and its sender named, or it
says the same as the message that it was made from, or something else that a party may say: then
nothing is raised, nothing that is delivered is other than finite, and nobody else is blamed.
"""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from comity.core.encodings import Encoded
from comity.core.envelope import BROADCAST, MODELS
from comity.core.fleet import Fleet
from comity.federation.agreement import Agreement
from comity.federation.engines.deployed import DeployedEngine, _unlike
from comity.federation.hello import (
    Greeting,
    begin_message,
    greeting_of,
    hello_message,
    scales_of,
)
from comity.federation.member import SCALES
from comity.federation.messages import ClientUpdate, RoundRequest
from comity.federation.record import RoundRecord
from comity.federation.site import FAILED, Membership, Site
from comity.federation.transports.base import Arrived
from comity.federation.transports.memory import MemoryTransport
from comity.federation.wire import (
    SERVER,
    Expected,
    Kind,
    Message,
    WireError,
    digest_of,
    is_refusal,
    seal,
    unseal,
)
from comity.problems.schema import SchemaProblem
from tests.federation.test_deployed import FEDERATION, SITES
from tests.federation.test_members import Scaled
from tests.federation.test_sites import (
    Signed,
    mutated,
    people,
    resealed,
    signer,
    snapshot,
    verify,
)
from tests.laws.conftest import data_of

SCENARIOS: dict[str, dict[str, Any]] = {
    "gradients": {"algorithm": "fedcmoo"},
    "counts": {"algorithm": "fairfed"},
    "broadcast": {"algorithm": "fedfb"},
    "ensemble": {"algorithm": "lft-ensemble"},
    "validation": {"algorithm": "fedavg", "keep_scope": "federation"},
    "personal": {"algorithm": "fedrep", "guard": True},
    "fine-tuned": {"algorithm": "fedprox", "fine_tune": "extra:1"},
    "encoded": {"algorithm": "fedpref", "encoding": "int8"},
}
"""Federations whose exchanges have, together, every kind of message."""
LIAR = "bank-b"
ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    2,
    10**30,
    2.5,
    "",
    "round",
    "x" * 300,
    [],
    [[1]],
    {},
    {"a": 1},
]
"""Values that a control field does not expect, or does."""
VALUES = [np.nan, np.inf, -np.inf, 1e19, -1e19, 3e38, 0.0, -1.0, 0.5, 1e-40, 2.0**60]


@dataclass
class Case:
    """One changed message."""

    name: str
    data: bytes
    honest: bool = False
    """Its numbers, not its form, were changed: it may be taken."""


# -- changes -------------------------------------------------------------------------------


def _control(message: Message, dice: random.Random) -> Message:
    control = dict(message.control)
    name = dice.choice([*control, "more"])
    kind = dice.randrange(3)
    if kind == 0 and name in control:
        del control[name]
    elif kind == 1 and name in control:
        control[f"{name}-"] = control.pop(name)
    else:
        control[name] = dice.choice(ODD)
    return replace(message, control=control)


def _arrays(message: Message, dice: random.Random) -> Message:
    arrays = dict(message.arrays)
    if message.encoded is not None:
        arrays = {name: array for name, array in arrays.items() if not name.startswith(MODELS)}
    kind = dice.randrange(6) if arrays else 0
    if kind == 0:
        prefix = dice.choice(["models/", "statistics/", "pickles/", "broadcast/", ""])
        arrays[f"{prefix}x"] = dice.choice([np.ones((1, 2), np.float32), np.ones(1), np.ones(())])
        return replace(message, arrays={**message.arrays, **arrays})
    name = dice.choice(list(arrays))
    array = arrays[name]
    if kind == 1:
        del arrays[name]
    elif kind == 2:
        arrays[f"{name}x"] = arrays.pop(name)
    elif kind == 3:
        arrays[name] = array.astype(dice.choice([np.float32, np.float64, np.int64, np.uint8]))
    elif kind == 4:
        arrays[name] = np.repeat(array, 2, axis=dice.randrange(max(array.ndim, 1)))
    else:
        arrays[name] = array.reshape(1, *array.shape)
    kept = {n: a for n, a in message.arrays.items() if message.encoded and n.startswith(MODELS)}
    return replace(message, arrays={**kept, **arrays})


def _header(message: Message, dice: random.Random) -> Message:
    change: dict[str, Any] = dice.choice(
        [
            {"round": message.round + dice.choice((-1, 1, 1000)) & 0xFFFF},
            {"sequence": message.sequence + dice.choice((-1, 1, 5)) & 0xFFFF},
            {"sender": dice.choice((0, 2, 77))},
            {"kind": dice.choice([kind for kind in Kind if kind != message.kind])},
        ]
    )
    return replace(message, **change)


def _encoded(message: Message, dice: random.Random) -> Message:
    encoded = message.encoded
    if encoded is None:
        return replace(message, encoded=Encoded(dice.randbytes(16), dice.randbytes(40)))
    body = dice.choice([b"", encoded.body[:-3], encoded.body * 2, dice.randbytes(50)])
    base = dice.choice([encoded.base, dice.randbytes(16)])
    return replace(message, encoded=Encoded(base, body))


def _numbers(message: Message, dice: random.Random) -> Message:
    names = [n for n in message.arrays if message.encoded is None or not n.startswith(MODELS)]
    if not names:
        return message
    name = dice.choice(names)
    array = message.arrays[name].copy()
    value = dice.choice(VALUES)
    with np.errstate(all="ignore"):
        if dice.random() < 0.5:
            array[...] = np.array(value).astype(array.dtype)
        else:
            array.flat[dice.randrange(array.size)] = np.array(value).astype(array.dtype)
    return replace(message, arrays={**message.arrays, name: array})


CHANGES: dict[str, Callable[[Message, random.Random], Message]] = {
    "control": _control, "arrays": _arrays, "header": _header, "encoded": _encoded,
    "numbers": _numbers,
}  # fmt: skip


class Siege(Signed):
    """A federation in which many changed messages arrive before each good one.

    Args:
        scenario: Name of the federation.
        path: Where sites keep their state.
        seed: Seed of the changes.
        each: Number of changed messages per message.
    """

    def __init__(self, scenario: str, path: Path, seed: int, each: int) -> None:
        values = SCENARIOS[scenario]
        self.dice, self.each = random.Random(f"{scenario} {seed}"), each
        self.faults: list[str] = []
        self.kinds: dict[str, int] = {}
        """Changed messages by exchange and direction."""
        self._pending: list[tuple[str, ClientUpdate, Case]] = []
        super().__init__(people(problem=data_of(values["algorithm"]), rounds=2, **values), path)

    def site(self, number: int) -> Site:
        membership = Membership(number, FEDERATION, signer(number), verify, shares_results=True)
        return Site(self.path / SITES[number], self.configuration, membership, self.agreement)

    def new_engine(self) -> DeployedEngine:
        transport = _Transport({name: self._carry(name) for name in SITES}, self)
        return _Engine(self, transport)

    def changed(self, sealed: bytes, bases: Sequence[Any]) -> Case:
        """Return a message, changed."""
        kind = self.dice.choice([*CHANGES, *CHANGES, "numbers", "bytes", "signed bytes"])
        if kind == "bytes":
            return Case(kind, mutated(sealed, self.dice))
        if kind == "signed bytes":
            return Case(kind, resealed(self, sealed, self.dice), honest=True)
        message = self.content(sealed, bases)
        changed = CHANGES[kind](message, self.dice)
        sender = message.sender  # who signs is who sends
        try:
            data = self.sealed(changed, signature=sender)
        except (KeyError, ValueError, struct.error, AttributeError):  # cannot even be written
            return Case("bytes", mutated(sealed, self.dice))
        # what an algorithm broadcasts is not declared: a site finds out when it uses it
        replies = [message.arrays, changed.arrays]
        names = [
            {n: a.shape for n, a in each.items() if n.startswith(BROADCAST)} for each in replies
        ]
        honest = kind == "numbers" or names[0] != names[1]
        return Case(f"{kind} of {changed.control} {list(changed.arrays)}", data, honest)

    def content(self, sealed: bytes, bases: Sequence[Any]) -> Message:
        """Return the content of a message whose models are measured from one of some bases."""
        layout, largest = self.agreement.layout, self.agreement.largest
        expected = Expected(
            FEDERATION, tuple(Kind), (0, 1, 2, SERVER), layout, largest, verify,
            self.agreement.decoder(bases),
        )  # fmt: skip
        return unseal(sealed, expected)

    def fault(self, exchange: str, case: Case, text: str) -> None:
        self.faults.append(f"{exchange}, {case.name}: {text}")

    # -- a hostile server ------------------------------------------------------------------

    def fate(self, name: str, message: bytes) -> str:
        if name == LIAR:
            for _ in range(self.each):
                self._ask(message)
        return ""

    def _ask(self, request: bytes) -> None:
        """Hand the liar's site a changed request; judge its answer."""
        site = self.sites[LIAR]
        bases = list(site._bases.values())
        good = self.agreement.request_of(self.content(request, bases), site.client)
        case = self.changed(request, bases)
        exchange = f"request {good[0]}"
        self.kinds[exchange] = self.kinds.get(exchange, 0) + 1
        before, copy = snapshot(site), self.path / "copy"
        shutil.copytree(site.directory, copy)
        try:
            self._check_answer(exchange, case, site.answer(case.data), good, before)
        except Exception as error:  # what is tested
            self.fault(exchange, case, f"traceback {error!r}")
        shutil.rmtree(site.directory)
        copy.replace(site.directory)
        if site._surveyed == 0 or snapshot(site) != before:
            self.restart(LIAR)

    def _check_answer(
        self, exchange: str, case: Case, answer: bytes, good: Any, before: dict[str, bytes]
    ) -> None:
        """Judge the answer of the liar's site to a changed request."""
        site = self.sites[LIAR]
        bases = list(site._bases.values())
        if is_refusal(answer):
            control = self.content(answer, bases).control
            if control["answers"] != digest_of(case.data) or not control["reason"]:
                self.fault(exchange, case, f"the refusal says {control}")
            if control["reason"] == FAILED and not case.honest:
                self.fault(exchange, case, "an exception at the site")
            settled = "behind" in control["reason"] or control["reason"] == FAILED
            if not settled and snapshot(site) != before:
                self.fault(exchange, case, "a refused request changed the site")
        elif not case.honest:
            taken = self.agreement.request_of(self.content(case.data, bases), site.client)
            if not _same_request(taken, good):
                self.fault(exchange, case, "another request was taken")

    # -- a hostile site --------------------------------------------------------------------

    def answered(self, site: str, good: bytes, arrived: Arrived) -> None:
        """Hand the server changed answers of a site; judge what it does."""
        question: Any = arrived.__self__  # type: ignore[attr-defined]
        exchange = f"answer {question._exchange}"
        bases = [base] if (base := self.bases.get(site)) is not None else []
        arrived(site, good)
        right = question.answers.pop(site)
        for _ in range(self.each):
            case = self.changed(good, bases)
            self.kinds[exchange] = self.kinds.get(exchange, 0) + 1
            count = len(self.incidents)
            try:
                arrived(site, case.data)
            except Exception as error:  # what is tested
                self.fault(exchange, case, f"traceback {error!r}")
                continue
            (incident,) = self.incidents[count:]
            value = question.answers.pop(site, None)
            if value is None:
                if incident.site != site or len(incident.text) < 12:
                    self.fault(exchange, case, f"not named: {incident}")
            elif isinstance(value, ClientUpdate):
                optional = question._exchange == "end" and not value.statistics
                case.honest |= optional or _same_update(value, right)
                self._pending.append((site, value, case))
            elif not _same_greeting(value, right):
                self.fault(exchange, case, "another greeting was taken")
        del self.incidents[:]

    bases: Mapping[str, Any] = {}

    def judge(self, exchange: str, request: RoundRequest, update: ClientUpdate) -> None:
        """Let copies of the server use each answer that was taken in place of the good one."""
        parts = {SITES[client]: update.only((client,)) for client in update.clients}
        for site, wrong, case in self._pending:
            tried = {**parts, site: wrong}
            if site in _unlike(tried):
                continue  # refused and named by the engine
            if not case.honest:
                self.fault(exchange, case, "another answer was taken")
            joined = ClientUpdate.joined([tried[name] for name in SITES if name in tried])
            try:
                events = self._used(exchange, request, joined)
            except Exception as error:  # what is tested
                self.fault(exchange, case, f"server: {error!r}")
                continue
            name = f"client {SITES.index(site)}, "
            if blamed := [event for event in events if not event.startswith(name)]:
                self.fault(exchange, case, f"others are blamed: {blamed}")
            finite = wrong.models is None or wrong.models.finite().all()
            if not finite and not events:
                self.fault(exchange, case, "numbers that are not finite are not named")
        self._pending.clear()

    def _used(self, exchange: str, request: RoundRequest, update: ClientUpdate) -> list[str]:
        """Return the events of a copy of the server that uses an answer."""
        server = deepcopy(self.loop.servers[0])
        record = RoundRecord(request.round, request.clients)
        if exchange == "survey":
            reply = server.reply(request, update, record)
            assert all(np.isfinite(values).all() for values in reply.broadcast.values())
        elif exchange == "round":
            server.take(request, update, record)
            following, _ = server.last_request()
            assert following.models is None or following.models.finite().all()
        elif exchange == "collect":
            models = server.ensemble(request, update, record).models
            assert models is not None
            assert models.finite().all()
        elif exchange == "finish":
            server.take_last(request, update, record)
        return record.events


class _Engine(DeployedEngine):
    """An engine that judges what was taken."""

    def __init__(self, siege: Siege, transport: MemoryTransport) -> None:
        super().__init__(siege.terms, siege.agreement, transport, siege.incidents.append)
        self._siege = siege

    def _updates(self, exchange: Any, request: RoundRequest, *others: Any, **named: Any) -> Any:
        self._siege.bases = self._bases(request)
        updates = super()._updates(exchange, request, *others, **named)
        whole = ClientUpdate.joined(sorted(updates.values(), key=lambda update: update.clients))
        self._siege.judge(exchange, request, whole)
        return updates


class _Transport(MemoryTransport):
    """A transport on which changed answers arrive before the good ones."""

    def __init__(self, sites: Mapping[str, Any], siege: Siege) -> None:
        super().__init__(sites)
        self._siege = siege

    def exchange(self, messages: Mapping[str, bytes], patience: float, arrived: Arrived) -> Any:
        def watched(site: str, answer: bytes) -> bool:
            if site == LIAR:
                self._siege.answered(site, answer, arrived)
            return arrived(site, answer)

        return super().exchange(messages, patience, watched)


def _same_models(one: Fleet | None, other: Fleet | None) -> bool:
    if one is None or other is None:
        return one is other
    return set(one) == set(other) and all(
        np.array_equal(one[name].numpy(), other[name].numpy()) for name in one
    )


def _same_arrays(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(one[name], other[name], equal_nan=True) for name in one
    )


def _same_update(one: ClientUpdate, other: ClientUpdate) -> bool:
    same = _same_arrays(one.statistics, other.statistics)
    return one.clients == other.clients and same and _same_models(one.models, other.models)


def _same_request(one: tuple[Any, RoundRequest, int], other: tuple[Any, RoundRequest, int]) -> bool:
    first, second = one[1], other[1]
    # what a verdict says of a client's update is the server's to say
    plain = [(e, extra, r.round, r.alone, r.verdicts[0].round) for e, r, extra in (one, other)]
    known = {n: a for n, a in first.broadcast.items() if n != "x"}  # nobody reads it
    same = _same_arrays(known, second.broadcast)
    return plain[0] == plain[1] and same and _same_models(first.models, second.models)


def _same_greeting(one: Greeting, other: Greeting) -> bool:
    if one.scales is None or other.scales is None:
        return one == other
    return one.versions == other.versions and np.array_equal(one.scales, other.scales)


# -- before the first round ----------------------------------------------------------------


def hello_faults(home: Path, seed: int, count: int) -> list[str]:
    """Return what went wrong with changed hellos, scales and greetings.

    Args:
        home: A directory for three banks whose columns have federated scales.
        seed: Seed of the changes.
        count: Changed messages per message.
    """
    dice, faults = random.Random(f"hello {seed}"), []
    banks = Scaled(home)
    identity, member = banks.file.identity, banks.members[LIAR]
    agreement = Agreement(banks.file.configuration())
    expected = Expected(identity, tuple(Kind), (0, 1, 2, SERVER), {}, 1 << 20)
    hello = hello_message()
    greeting = unseal(member.answer(seal(hello, identity, {})), expected)
    right = greeting_of(greeting, agreement.scaled)
    for number in range(count):
        kind = dice.choice(["control", "arrays", "header", "numbers", "bytes"])
        change = CHANGES.get(kind, lambda message, dice: message)
        for message in (hello, begin_message({"age": (40.0, dice.choice(VALUES))})):
            data = _sealed(change(message, dice), identity, dice)
            data = mutated(data, dice) if kind == "bytes" else data
            banks.members[LIAR] = member = banks.member(LIAR)
            try:
                answer = unseal(member.answer(data), expected)
                if answer.control.get("reason") == FAILED:
                    faults.append(f"{number}: an exception at the site: {data!r}")
            except Exception as error:  # what is tested
                faults.append(f"{number}: traceback {error!r}: {data!r}")
            if member.site is not None:
                _, (mean, spread) = next(iter(member._scales().items()))
                if not (np.isfinite([mean, spread]).all() and spread > 0):
                    faults.append(f"{number}: scales {mean}, {spread} were taken")
                (home / LIAR / SCALES).unlink()
        try:
            data = _sealed(change(greeting, dice), identity, dice)
            data = mutated(data, dice) if kind == "bytes" else data
            taken = greeting_of(unseal(data, replace(expected, senders=(1,))), agreement.scaled)
            if kind != "numbers" and not _same_greeting(taken, right):
                faults.append(f"{number}: another greeting was taken: {taken}")
            problem = banks.file.configuration().get_problem()
            assert isinstance(problem, SchemaProblem)
            assert taken.scales is not None
            assert right.scales is not None
            told = [right.scales, taken.scales, right.scales]
            begin = begin_message(problem.federated_scales(told))
            scales_of(unseal(seal(begin, identity, {}), replace(expected, senders=(SERVER,))))
        except WireError:
            pass
        except Exception as error:  # what is tested
            faults.append(f"{number}: server: {error!r}")
    return faults


def _sealed(message: Message, identity: str, dice: random.Random) -> bytes:
    try:
        return seal(message, identity, {})
    except ValueError:  # a number that JSON has not: somebody else writes it
        return mutated(seal(hello_message(), identity, {}), dice)
