"""The deployed engine: every client a site of its own, equal to the simulation bit for bit."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from comity.configuration import Configuration
from comity.core.fleet import Fleet
from comity.errors import UserError
from comity.federation.agreement import EXCHANGES, Agreement
from comity.federation.clients import Clients
from comity.federation.engines.deployed import DeployedEngine, Incident, Terms
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.initial_model import initial_fleet
from comity.federation.loop import RoundLoop, SimulatedLoop
from comity.federation.record import RoundRecord
from comity.federation.server import Server
from comity.federation.site import Membership, Site
from comity.federation.transports.memory import MemoryTransport
from comity.federation.wire import Kind
from tests.classics import NAMES
from tests.laws.conftest import CASES, EVERYBODY, WRAPPED, settings_of
from tests.tiny import tiny

FEDERATION = "ab" * 32
SITES = ("bank-a", "bank-b", "bank-c")


def configuration_of(**values: Any) -> Configuration:
    return tiny(**{"clients": 3, "rounds": 3, "seed": 7, "chunk": 1, **values})


def simulated(configuration: Configuration) -> tuple[list[RoundRecord], Fleet, Fleet]:
    """Return the records of a simulation, its kept models and its last ones."""
    with EmbeddedEngine(configuration) as engine:
        loop = SimulatedLoop(engine, Server(configuration))
        records = [record for (record,) in loop.rounds()]
        records += loop.finish()
        return records, engine.models(True).clone(), engine.models(False).clone()


class Deployment:
    """A federation with sites in this process; ``fates`` says what happens to messages."""

    def __init__(self, configuration: Configuration, path: Path, **terms: Any) -> None:
        self.configuration, self.path = configuration, path
        self.agreement = Agreement(configuration)
        self.sites = {name: self.site(number) for number, name in enumerate(SITES)}
        self.incidents: list[Incident] = []
        self.passed: list[bytes] = []
        self.terms = Terms(SITES, FEDERATION, **terms)
        self.engine = self.new_engine()
        self.loop = RoundLoop(self.engine, Server(configuration))

    def new_engine(self) -> DeployedEngine:
        transport = MemoryTransport({name: self._carry(name) for name in SITES})
        return DeployedEngine(self.terms, self.agreement, transport, self.incidents.append)

    def site(self, number: int) -> Site:
        directory = self.path / SITES[number]
        membership = Membership(number, FEDERATION)
        return Site(directory, self.configuration, membership, self.agreement)

    def restart(self, name: str) -> None:
        """Kill a site and start it again from its disk."""
        self.sites[name] = self.site(SITES.index(name))

    def fate(self, name: str, message: bytes) -> str:
        """Return what happens to a message: nothing unless a test says so."""
        return ""

    def _carry(self, name: str) -> Any:
        def carry(message: bytes) -> bytes | None:
            fate = self.fate(name, message)
            self.passed.append(message)
            if "request lost" in fate:
                return None
            answer = self.sites[name].answer(message)
            self.passed.append(answer)
            if "restart" in fate:
                self.restart(name)
            return None if "answer lost" in fate else answer

        return carry

    def run(self) -> list[RoundRecord]:
        records = [record for (record,) in self.loop.rounds()]
        return records + self.loop.finish()

    def models(self, kept: bool) -> Fleet:
        return Fleet.cat([site.clients.models(kept) for site in self.sites.values()])


def equal(one: Fleet, other: Fleet) -> bool:
    return set(one) == set(other) and all(torch.equal(one[name], other[name]) for name in one)


def check_equal(configuration: Configuration, path: Path, **terms: Any) -> None:
    records, kept, last = simulated(configuration)
    deployment = Deployment(configuration, path, **terms)
    deployed = deployment.run()
    assert not [incident for incident in deployment.incidents if incident.text]
    assert equal(deployment.models(True), kept)
    assert equal(deployment.models(False), last)
    assert not equal(last, initial_fleet(configuration, 3))
    for ours, theirs in zip(deployed, records, strict=True):
        assert (ours.clients, ours.clusters, ours.chosen) == (
            theirs.clients, theirs.clusters, theirs.chosen,
        )  # fmt: skip
        assert (ours.bytes_up, ours.bytes_down) == (theirs.bytes_up, theirs.bytes_down)
        assert (ours.mixing is None) == (theirs.mixing is None)
        if ours.mixing is not None and theirs.mixing is not None:
            assert np.array_equal(ours.mixing, theirs.mixing, equal_nan=True)


DEPLOYABLE = [case for case in (*CASES, *WRAPPED) if case[0] not in EVERYBODY]


@pytest.mark.parametrize("case", DEPLOYABLE, ids="-".join)
def test_sites_equal_the_simulation(case, tmp_path):
    check_equal(configuration_of(**settings_of(*case)), tmp_path)


VARIANTS: dict[str, dict[str, Any]] = {
    "guard": {"guard": True},
    "one round for all": {"keep_scope": "federation"},
    "extra": {"fine_tune": "extra:1"},
    "replace-last": {"fine_tune": "replace-last"},
    "some take part": {"participation": 0.5},
    "last model": {"keep": "last"},
}


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("algorithm", ["fedpref", "fedcmoo", "fedrep", "fedfomo"])
def test_variants_of_a_run_equal_the_simulation(algorithm, name, tmp_path):
    problem = "tiny-people"
    check_equal(configuration_of(algorithm=algorithm, problem=problem, **VARIANTS[name]), tmp_path)


@pytest.mark.parametrize("participation", [1.0, 0.5])
@pytest.mark.parametrize("name", NAMES)
def test_algorithms_of_a_users_own_equal_the_simulation(name, participation, tmp_path):
    """Among them steps that travel, a correction that stays, and a loss before training."""
    more = {"sizes": "8,4,2", "supervised": {"local_epochs": 2, "batch_size": 48}}
    values = {"problem": "tiny-people", "algorithm": name, "participation": participation, **more}
    check_equal(configuration_of(**values), tmp_path)


def test_a_lost_control_variate_equals_the_simulated_absence(tmp_path):
    values = {"problem": "tiny-people", "algorithm": "scaffold"}
    deployment = Lossy(
        configuration_of(**values), tmp_path, when=(2, "round"), what="answer lost, restart"
    )
    deployment.run()
    _, kept, last = simulated(configuration_of(**values, absences=[[2, 1, "round"]]))
    assert equal(deployment.models(True), kept)
    assert equal(deployment.models(False), last)


def test_steps_travel_where_they_are_declared(tmp_path):
    agreement = Agreement(configuration_of(problem="tiny-people", algorithm="fednova"))
    assert agreement.statistics == ["size", "steps"]
    plain = Agreement(configuration_of(problem="tiny-people", algorithm="fedavg"))
    assert plain.statistics == ["size"]


def test_travelling_target_networks_equal_the_simulation(tmp_path):
    values = {"problem": "tiny-treasure", "algorithm": "fedpref", "dqn": {"average_targets": True}}
    check_equal(configuration_of(**values), tmp_path)


# -- losses --------------------------------------------------------------------------------


def exchange_of(message: bytes) -> tuple[int, str]:
    """Return round and exchange of a request."""
    number = int.from_bytes(message[8:12], "big")
    return number, EXCHANGES[int.from_bytes(message[12:16], "big") % len(EXCHANGES)]


class Lossy(Deployment):
    """A deployment in which one message of bank-b has a fate, or each of its kind."""

    def __init__(self, *arguments: Any, when: tuple[int, str], what: str, **terms: Any) -> None:
        self.when, self.what, self.left = when, what, 1
        super().__init__(*arguments, **terms)

    def fate(self, name: str, message: bytes) -> str:
        if name != "bank-b" or exchange_of(message) != self.when or not self.left:
            return ""
        self.left -= 1
        return self.what


LOSSES = ["request lost", "answer lost", "answer lost, restart"]


@pytest.mark.parametrize("what", LOSSES)
@pytest.mark.parametrize(
    ("algorithm", "exchange"),
    [("fedpref", "round"), ("fedcmoo", "round"), ("fedcmoo", "survey"), ("ditto", "finish")],
)
def test_a_loss_equals_the_simulated_absence(algorithm, exchange, what, tmp_path):
    values = {"problem": "tiny-people", "algorithm": algorithm, "guard": True}
    number = 4 if exchange == "finish" else 2
    configuration = configuration_of(**values)
    deployment = Lossy(configuration, tmp_path, when=(number, exchange), what=what)
    records = deployment.run()
    assert records[number - 1].absent == {exchange: (1,)}
    absences = [[number, 1, exchange]]
    absent = configuration_of(**values, absences=absences)
    _, kept, last = simulated(absent)
    assert equal(deployment.models(True), kept)
    assert equal(deployment.models(False), last)
    assert not equal(last, simulated(configuration)[2])  # the absence changes bits


@pytest.mark.parametrize("when", [(2, "survey"), (2, "round"), (3, "round"), (4, "finish")])
@pytest.mark.parametrize("algorithm", ["fedpref", "fedcmoo", "praffl"])
def test_a_site_restarted_after_its_answer_changes_nothing(algorithm, when, tmp_path):
    configuration = configuration_of(problem="tiny-people", algorithm=algorithm)
    deployment = Lossy(configuration, tmp_path, when=when, what="restart")
    deployment.run()
    _, kept, last = simulated(configuration)
    assert equal(deployment.models(True), kept)
    assert equal(deployment.models(False), last)


def test_a_message_twice_gets_the_same_answer_and_trains_once(tmp_path, monkeypatch):
    configuration = configuration_of(problem="tiny-people", algorithm="fedpref")
    deployment = Deployment(configuration, tmp_path)
    trained: list[int] = []
    plain = Clients.round
    monkeypatch.setattr(
        Clients, "round", lambda self, request: trained.append(1) or plain(self, request)
    )
    list(deployment.loop.rounds())
    requests = [m for m in deployment.passed if m[5] == Kind.REQUEST and exchange_of(m)[0] == 3]
    answers = [m for m in deployment.passed if m[5] == Kind.UPDATE and exchange_of(m)[0] == 3]
    assert len(trained) == 9
    assert [
        site.answer(m) for site, m in zip(deployment.sites.values(), requests, strict=True)
    ] == answers
    deployment.restart("bank-a")
    assert deployment.sites["bank-a"].answer(requests[0]) == answers[0]
    assert len(trained) == 9


@pytest.mark.parametrize("after", [1, 2])
def test_a_server_restarted_from_its_checkpoint_changes_nothing(after, tmp_path):
    """The server dies after it asked; the new one asks again, with the same bytes."""
    configuration = configuration_of(problem="tiny-people", algorithm="fedpref", guard=True)
    deployment = Deployment(configuration, tmp_path)
    rounds = deployment.loop.rounds()
    for _ in range(after):
        next(rounds)
    state, values = deepcopy(deployment.loop.state())
    next(rounds)  # asked and answered, but the server forgets it
    deployment.loop = RoundLoop(deployment.new_engine(), Server(configuration))
    deployment.loop.load(state, values)
    deployment.run()
    _, kept, last = simulated(configuration)
    assert equal(deployment.models(True), kept)
    assert equal(deployment.models(False), last)


def test_a_server_from_an_old_backup_is_refused(tmp_path):
    configuration = configuration_of(problem="tiny-people", algorithm="fedpref")
    deployment = Deployment(configuration, tmp_path, quorum=0)
    rounds = deployment.loop.rounds()
    next(rounds)
    state, values = deepcopy(deployment.loop.state())
    next(rounds)
    next(rounds)  # commits round 2 at the sites
    deployment.loop = RoundLoop(deployment.new_engine(), Server(configuration))
    deployment.loop.load(state, values)
    with pytest.raises(UserError, match="answered"):
        next(deployment.loop.rounds())
    texts = [incident.text for incident in deployment.incidents if incident.text]
    assert len(texts) == 3
    assert all("the server is behind: it has taken round 1 of this site" in text for text in texts)


def test_fewer_answers_than_the_quorum_are_asked_for_again(tmp_path):
    configuration = configuration_of(problem="tiny-people", algorithm="fedpref")
    deployment = Lossy(
        configuration, tmp_path, when=(2, "round"), what="answer lost", quorum=3, patience=0.01
    )
    records = deployment.run()
    assert records[1].absent == {}
    assert any("quorum of 3" in incident.text for incident in deployment.incidents)
    assert equal(deployment.models(False), simulated(configuration)[2])


# -- encodings -----------------------------------------------------------------------------

ENCODED: dict[str, dict[str, Any]] = {
    "tables": {"problem": "tiny-people", "algorithm": "fedpref", "guard": True},
    "rewards": {"problem": "tiny-treasure", "algorithm": "fedavg"},
    "targets": {
        "problem": "tiny-treasure", "algorithm": "fedpref", "dqn": {"average_targets": True},
    },
    "survey": {"problem": "tiny-people", "algorithm": "fedcmoo"},
    "objectives apart": {"problem": "tiny-people", "algorithm": "fsmgda"},
    "stacked models": {"problem": "tiny-people", "algorithm": "fedfomo"},
    "one stacked group": {
        "problem": "tiny-people", "algorithm": "hetpfl",
        "hetpfl": {"front": "global", "fusion": "weights", "fusion_share": 0.5},
    },
    "some take part": {"problem": "tiny-people", "algorithm": "fedrep", "participation": 0.5},
}  # fmt: skip


@pytest.mark.parametrize("encoding", ["exact", "int8", "int4"])
@pytest.mark.parametrize("name", ENCODED)
def test_encoded_sites_equal_the_simulation(name, encoding, tmp_path):
    check_equal(configuration_of(**ENCODED[name], encoding=encoding), tmp_path)
