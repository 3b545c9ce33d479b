"""Lone companions: what they equal, what they guarantee, and that nobody hears of them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

import comity.report
import comity.runs.execute
from comity.algorithms import Algorithm, algorithms
from comity.api import resume
from comity.configuration import Configuration, lacks_companions
from comity.core.fleet import Fleet
from comity.core.storage import strip_prefix
from comity.core.typing import NamedArrays
from comity.errors import UserError
from comity.federation.clients import Clients
from comity.federation.companion import AccompaniedClients, clients_of, lone_steps
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.initial_model import initial_fleet
from comity.federation.loop import SimulatedLoop
from comity.federation.messages import RoundMetrics, RoundRequest
from comity.federation.record import RoundRecord
from comity.federation.server import Server
from comity.runs.directory import Run
from comity.runs.execute import execute
from comity.searches.configuration import configure_search
from tests.events import stopping
from tests.federation.test_deployed import (
    LOSSES,
    Deployment,
    Lossy,
    check_equal,
    configuration_of,
    equal,
)
from tests.laws.conftest import CASES
from tests.laws.test_runs import contents
from tests.tiny import tiny

ACCOMPANIED = [case for case in CASES if not lacks_companions(algorithms()[case[0]])]
EVERYBODY = (0, 1, 2, 3)
STEPS = {"tiny-treasure": ("dqn", 48), "tiny-trolley": ("ddpg", 48)}
SUPERVISED = ("supervised", 8)


def wraps(name: str) -> bool:
    """Whether the clients of an algorithm hold more than the problem's network."""
    return algorithms()[name].build is not Algorithm.build


def settings(name: str, problem: str, share: float, part: float = 1.0, **values: Any) -> Any:
    """A run of two rounds in which clients take a part of the usual steps, 48 or 8 in a round."""
    learner, steps = STEPS.get(problem, SUPERVISED)
    table = {"local_steps": round(part * steps)}
    if learner == "supervised":
        table["learning_rate"] = 0.05
    shared = {"alone_share": share} if share else {}
    values = {"rounds": 2, learner: table, **shared, **values}
    return tiny(algorithm=name, problem=problem, **values)


class Ended:
    """All that is left when a simulated federation is over."""

    def __init__(self, configuration: Configuration) -> None:
        with EmbeddedEngine(configuration) as engine:
            loop = SimulatedLoop(engine, Server(configuration))
            self.records: list[RoundRecord] = [record for (record,) in loop.rounds()]
            self.records += loop.finish()
            self.metrics: RoundMetrics = engine.metrics(EVERYBODY)
            self.kept: Fleet = engine.models(True).clone()
            self.last: Fleet = engine.models(False).clone()
            self.state: NamedArrays = {k: v.copy() for k, v in engine.state().items()}
            self.chunks: list[Clients] = list(engine._local._chunks.values())

    def part(self, prefix: str) -> NamedArrays:
        """The state of both chunks under a prefix."""
        return {
            f"{chunk}/{name}": array
            for chunk in (0, 1)
            for name, array in strip_prefix(self.state, f"{chunk}/{prefix}").items()
        }


@cache
def accompanied(name: str, problem: str) -> Ended:
    """A run whose clients spend half of their steps alone."""
    return Ended(settings(name, problem, 0.5))


def same(one: NamedArrays, other: NamedArrays) -> None:
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)


# -- what a companion is -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "problem", "participation"),
    [
        *(("fedpref", problem, 1.0) for problem in ("tiny-people", "tiny-treasure")),
        *(("fedprox", problem, 0.5) for problem in ("tiny-people", "tiny-treasure")),
        ("fedpref", "tiny-trolley", 0.5),
        ("fsmgda", "tiny-people", 1.0),
        ("fedcmoo", "tiny-people", 0.5),
    ],
)
def test_a_companion_is_the_client_of_no_communication_with_its_share_of_the_steps(
    name, problem, participation
):
    """Everything that a lone client remembers is equal, bit for bit, its kept model among it."""
    both = Ended(settings(name, problem, 0.25, participation=participation))
    alone = Ended(
        settings("no-communication", problem, 0.0, part=0.25, participation=participation)
    )
    same(both.part("alone/"), alone.part(""))


@pytest.mark.parametrize(("name", "problem"), [case for case in ACCOMPANIED if wraps(case[0])])
def test_where_the_network_is_wrapped_a_companion_is_a_client_that_hears_nobody(name, problem):
    lone = settings(name, problem, 0.0, part=0.5, keep_scope="client")
    for chunk, ids in enumerate([(0, 1), (2, 3)]):
        clients = Clients(lone, ids)
        for number in (1, 2):
            clients.round(RoundRequest(number, ids, None, alone=True))
        clients.finish(RoundRequest(3, ids, None, alone=True), lone.extra_rounds)
        same(strip_prefix(accompanied(name, problem).state, f"{chunk}/alone/"), clients.state())


def test_the_steps_of_a_client_are_shared_exactly():
    """⌊s·T⌋ of all T steps, counted over rounds, also where a round's part is not whole."""
    assert lone_steps(0.29, np.array([100, 10])).tolist() == [29, 2]
    configuration = settings("fedavg", "tiny-people", 0.3)  # 8 steps per round: 2.4, 4.8, 7.2
    clients = clients_of(configuration, EVERYBODY)
    assert isinstance(clients, AccompaniedClients)
    for number, alone in ((1, 2), (2, 4), (3, 7)):
        clients.round(RoundRequest(number, EVERYBODY, None))
        assert clients._companions._learner.steps.tolist() == [alone] * 4
        assert clients._learner.steps.tolist() == [8 * number - alone] * 4
        assert clients.metrics(EVERYBODY).steps.tolist() == [8 * number] * 4


def test_without_a_share_there_are_no_companions():
    clients = clients_of(settings("fedavg", "tiny-people", 0.0), (0,))
    assert type(clients) is Clients
    assert not any(name.startswith("alone/") for name in clients.state())
    assert clients.metrics((0,)).alone is None


def test_companions_are_fine_tuned_too():
    plain, tuned = (
        Ended(settings("fedavg", "tiny-people", 0.25, fine_tune=tune))
        for tune in ("none", "extra:2")
    )
    assert tuned.metrics.steps.tolist() == [32] * 4
    steps = [run.part("alone/learner/")["0/steps"].tolist() for run in (plain, tuned)]
    assert steps == [[4, 4], [8, 8]]


# -- what is guaranteed --------------------------------------------------------------------


@pytest.mark.parametrize(("name", "problem"), ACCOMPANIED, ids="-".join)
def test_nobody_ends_worse_off_on_validation_than_its_companion(name, problem):
    """The kept models are validated once more, by a learner that knows nothing of companions."""
    ended = accompanied(name, problem)
    alone, federated = ended.metrics.alone, ended.metrics.federated
    assert alone is not None
    assert federated is not None
    values = []
    for clients in ended.chunks:
        rows = np.arange(len(clients.clients))
        episodes = clients.configuration.validation_episodes
        kept = clients.models(True)
        value, _ = clients._learner.evaluate(kept, rows, "validation", episodes)
        if clients._span is not None:
            clients._models.put(rows, kept)  # hypervolumes are of the present models
        values.append(clients._selection._worth(rows, value))
    worth = np.concatenate(values)
    np.testing.assert_allclose(worth, np.maximum(alone, federated), rtol=0, atol=1e-9)
    assert (worth >= alone - 1e-9).all()


def test_clients_keep_the_better_of_two_models():
    """Here one model for all serves some clients worse than they serve themselves."""
    ended = Ended(settings("fedavg", "tiny-people", 0.5, partition="dirichlet:0.5", rounds=3))
    alone, federated = ended.metrics.alone, ended.metrics.federated
    stays = alone > federated
    assert 0 < stays.sum() < 4
    companions = ended.part("alone/kept/")
    plain = ended.part("kept/")
    for name in ended.kept:
        lone, own = (
            np.concatenate([part[f"{chunk}/{name}"] for chunk in (0, 1)])
            for part in (companions, plain)
        )
        kept = ended.kept[name].numpy()
        np.testing.assert_array_equal(kept[stays], lone[stays])
        np.testing.assert_array_equal(kept[~stays], own[~stays])
    preference = settings("fedavg", "tiny-people", 0.5).get_preferences()
    values = (ended.metrics.kept * preference).sum(axis=1)
    np.testing.assert_allclose(values, np.maximum(alone, federated), atol=1e-9)


# -- nobody hears of them ------------------------------------------------------------------


@pytest.mark.parametrize(("name", "problem"), ACCOMPANIED, ids="-".join)
def test_companions_change_nothing_for_the_others(name, problem):
    """What federates is, bit for bit and byte by byte, the run with the other half of the steps."""
    both = accompanied(name, problem)
    plain = Ended(settings(name, problem, 0.0, part=0.5, keep_scope="client"))
    assert equal(both.last, plain.last)
    same(both.part("kept/"), plain.part("kept/"))
    for ours, theirs in zip(both.records, plain.records, strict=True):
        assert (ours.bytes_up, ours.bytes_down) == (theirs.bytes_up, theirs.bytes_down)
        assert ours.clusters == theirs.clusters


@pytest.mark.parametrize("name", ["fedpref", "ditto", "lft-ensemble"])
def test_no_companion_leaves_its_site(name, tmp_path):
    configuration = configuration_of(
        problem="tiny-people", algorithm=name, alone_share=0.25, rounds=2,
        supervised={"local_steps": 8, "learning_rate": 0.05},
    )  # fmt: skip
    deployment = Deployment(configuration, tmp_path)
    deployment.run()
    traffic = b"".join(deployment.passed)
    tensors = [
        array
        for site in deployment.sites.values()
        for name, array in strip_prefix(site.clients.state(), "alone/").items()
        if name.startswith(("models/", "kept/")) and len(np.unique(array)) > 3
    ]
    initial = initial_fleet(configuration, 1).tensors.values()
    private = {array.tobytes() for array in tensors} - {t.numpy().tobytes() for t in initial}
    assert len(private) >= 6
    assert not [tensor for tensor in private if tensor in traffic]


# -- as in every run -----------------------------------------------------------------------


@pytest.mark.parametrize("problem", ["tiny-people", "tiny-treasure"])
def test_sites_equal_the_simulation(problem, tmp_path):
    check_equal(configuration_of(problem=problem, algorithm="fedpref", alone_share=0.5), tmp_path)


@pytest.mark.parametrize("what", LOSSES)
def test_a_lost_answer_equals_never_having_been_asked(what, tmp_path):
    """The companion of the absent client has not worked, either."""
    learner = {"local_steps": 8, "learning_rate": 0.05}
    values = {"problem": "tiny-people", "alone_share": 0.5, "supervised": learner}
    configuration = configuration_of(**values, algorithm="fedavg")
    deployment = Lossy(configuration, tmp_path, when=(2, "round"), what=what)
    deployment.run()
    absent = configuration_of(**values, algorithm="fedavg", absences=[[2, 1, "round"]])
    with EmbeddedEngine(absent) as engine:
        loop = SimulatedLoop(engine, Server(absent))
        list(loop.rounds())
        loop.finish()
        simulated = engine.state()
        assert equal(deployment.models(True), engine.models(True))
    for number, site in enumerate(deployment.sites.values()):
        same(
            strip_prefix(site.clients.state(), "alone/"),
            strip_prefix(simulated, f"{number}/alone/"),
        )
    assert [int(simulated[f"{n}/alone/rounds"][0]) for n in range(3)] == [3, 2, 3]


@pytest.fixture
def _bare(monkeypatch) -> None:
    monkeypatch.setattr(comity.report, "write_report", lambda run, kind: None)
    monkeypatch.setattr(comity.runs.execute, "_CHECKPOINT_SECONDS", 0.0)


@pytest.mark.usefixtures("_bare")
@pytest.mark.parametrize(
    ("name", "problem"),
    [("fedavg", "tiny-people"), ("ditto", "tiny-people"), ("fedpref", "tiny-treasure")],
)
def test_stop_anywhere_and_any_number_of_workers(name, problem, tmp_path):
    configuration = settings(name, problem, 0.5, participation=0.75)
    whole = contents(execute(Run.create(tmp_path / "whole", configuration)))

    broken = Run.create(tmp_path / "broken", configuration)
    with pytest.raises(KeyboardInterrupt):
        execute(broken, notify=stopping(1))
    assert contents(resume(broken.path)) == whole
    if name == "fedavg":
        assert contents(execute(Run.create(tmp_path / "two", configuration), workers=2)) == whole


@pytest.mark.parametrize(
    ("name", "problem"), [("fedavg", "tiny-people"), ("fedpref", "tiny-treasure")]
)
def test_one_fleet_or_many(name, problem):
    one, *others = (Ended(settings(name, problem, 0.5, chunk=chunk)) for chunk in (4, 2, 1))
    for other in others:
        for tensor in one.kept:
            torch.testing.assert_close(one.kept[tensor], other.kept[tensor], rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(one.metrics.alone, other.metrics.alone, atol=1e-6)


# -- what is refused -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"algorithm": "no-communication"}, "its clients learn alone anyway"),
        ({"algorithm": "agnostic-fair-pooled"}, "it pools the data of all"),
        ({"keep": "last"}, "Say keep = best"),
        ({"keep_scope": "federation"}, "exclude each other"),
        ({"alone_share": 1.0}, "alone_share = 1.0.*less than 1"),
        ({"alone_share": -0.1}, "alone_share = -0.1.*greater than or equal to 0"),
    ],
    ids=str,
)
def test_what_companions_cannot_go_with_is_refused(values, message):
    given = {"problem": "tiny-people", "algorithm": "fedavg", "alone_share": 0.5, **values}
    with pytest.raises(UserError, match=message):
        tiny(**given)


def test_companions_turn_off_the_default_of_one_round_for_all():
    assert tiny(problem="tiny-people", algorithm="praffl").keep_scope == "federation"
    assert settings("praffl", "tiny-people", 0.5).keep_scope == "client"


def test_a_search_has_no_companions():
    with pytest.raises(UserError, match="alone_share means nothing in a search"):
        configure_search({"problem": "tiny-people", "algorithm": "fedavg", "alone_share": 0.5})
