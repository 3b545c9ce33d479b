"""The laws of whole runs, for every registered algorithm."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import pytest
import torch

from comity.algorithms import Algorithm, find
from comity.api import resume
from comity.configuration import Configuration
from comity.core.fleet import Fleet
from comity.errors import UserError
from comity.federation.clients import Clients, ClientUpdate
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import RoundLoop
from comity.federation.server import Server
from comity.learners import CONDITIONED, LEARNERS, Supervised
from comity.problems import DataProblem, EnvironmentProblem
from comity.problems import find as find_problem
from comity.runs.directory import Run
from comity.runs.execute import execute
from tests.events import stopping
from tests.laws.conftest import ACTING, EVERYBODY
from tests.tiny import tiny


def outcome(path, configuration, workers=1):
    """All that a run leaves behind, as bytes, without times."""
    run = execute(Run.create(path, configuration), workers)
    return contents(run)


def contents(run: Run) -> dict[str, bytes]:
    files = ["results.json", "history.jsonl", "config.toml"]
    files += [f"models/client-{client}.safetensors" for client in range(4)]
    files += ["spans.safetensors"] * (run.spans is not None)
    return {file: (run.path / file).read_bytes() for file in files}


def test_1_same_configuration_same_bits(case, tmp_path):
    """Two rounds; four of them are repeated where runs stop and go on."""
    configuration = tiny(**case, rounds=2)
    first = outcome(tmp_path / "a", configuration)
    assert outcome(tmp_path / "b", configuration) == first
    other = outcome(tmp_path / "c", tiny(**case, rounds=2, seed=2))
    assert all(other[file] != first[file] for file in first if file.startswith("models"))


def test_1_whatever_the_number_of_workers(tmp_path):
    configuration = tiny(algorithm="fedpref", guard=True)
    assert outcome(tmp_path / "1", configuration) == outcome(tmp_path / "2", configuration, 2)


ROUNDED = ("fedamp", "fedcp")
"""Algorithms with gradients of nothing but rounding errors, of which Adam makes whole steps."""


def ends(settings: dict[str, Any], chunks=(4, 2, 1), rounds=2) -> list[Fleet]:
    """The models with which a federation ends, for several sizes of its chunks."""
    models = []
    if settings["algorithm"] in ROUNDED:
        own = {"optimiser": "sgd", "learning_rate": 0.1, **settings.get("supervised", {})}
        settings = {**settings, "supervised": own}
    for chunk in chunks:
        configuration = tiny(**settings, chunk=chunk, rounds=rounds)
        with EmbeddedEngine(configuration) as engine:
            list(RoundLoop(engine, Server(configuration)).rounds())
            models.append(engine.models(kept=False))
    return models


def test_2_one_fleet_or_many(case):
    """Chunks of four, of two and of one client end with the same models, to tolerance."""
    models = ends({**case, "guard": False})
    for other in models[1:]:
        for tensor_name in models[0]:
            np.testing.assert_allclose(
                models[0][tensor_name], other[tensor_name], rtol=1e-3, atol=1e-4
            )


def test_2_one_fleet_or_many_of_clients_with_unequal_work(uneven):
    """Unlike numbers of steps, of batches and, where something follows each pass, of passes."""
    sizes = [len(share.train) for share in tiny(**uneven).get_problem().client_rows()]
    batch = uneven["supervised"]["batch_size"]
    assert sorted(sizes)[0] < batch < sorted(sizes)[1], "one has less than a batch"
    models = ends(uneven, chunks=(4, 3, 1))
    for other in models[1:]:
        for name in models[0]:
            np.testing.assert_allclose(models[0][name], other[name], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("rule", ["initial", "units", "ends"])
def test_2_one_fleet_or_many_whatever_losses_are_divided_by(rule):
    settings = {"algorithm": "fedavg", "problem": "tiny-people", "supervised": {"normalise": rule}}
    whole, *others = ends(settings)
    for other in others:
        for name in whole:
            np.testing.assert_allclose(whole[name], other[name], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", ["tchebycheff", "smooth-tchebycheff", "pbi"])
def test_2_one_fleet_or_many_whatever_the_scalarisation(kind):
    rule = {"scalarisation": kind, "ideal": "seen", "sharpness": "relative"}
    settings = {"algorithm": "fedavg", "problem": "tiny-people", "supervised": rule}
    whole, *others = ends(settings)
    for other in others:
        for name in whole:
            np.testing.assert_allclose(whole[name], other[name], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("fusion", ["tuned", "weights"])
def test_2_one_fleet_or_many_where_hypernetworks_are_fused(fusion):
    settings = {"algorithm": "hetpfl", "problem": "tiny-people"}
    settings["hetpfl"] = {"front": "global", "fusion": fusion, "fusion_share": 0.5}
    whole, *others = ends(settings, rounds=4)
    assert whole["fused.ready"].all()
    for other in others:
        for name in whole:
            np.testing.assert_allclose(whole[name], other[name], rtol=1e-3, atol=1e-4)


WEIGHED = {"front": "global", "fusion": "weights", "fusion_share": 0.5}
JOINING = {"threshold": 1e9, "patience": 1, "merge": "earned"}


@pytest.mark.parametrize(
    "values",
    [
        {"algorithm": "praffl", "keep_scope": "federation"},
        {"algorithm": "praffl", "keep_scope": "federation", "problem": "tiny-crowd"},
        {"algorithm": "hetpfl", "problem": "tiny-crowd", "participation": 0.75},
        {"algorithm": "hetpfl", "hetpfl": {"front": "global", "fusion_share": 0.5}},
        {"algorithm": "hetpfl", "hetpfl": WEIGHED, "participation": 0.75},
        {"algorithm": "fairfed", "fairfed": {"rule": "additive", "beta": 2.0}},
        {"algorithm": "fedfb", "keep_scope": "federation", "fedfb": {"alpha": 1.0}},
        {"algorithm": "lft-ensemble", "keep": "last"},
        {"algorithm": "lft-fedavg", "sizes": "8,4,2,1", "supervised": {"local_epochs": 2}},
        {"algorithm": "fedpref", "supervised": {"normalise": "units", "warm_up": 0.6}},
        {"algorithm": "fedpref", "fedpref": JOINING, "participation": 0.75},
        {"algorithm": "cfl", "cfl": {**JOINING, "split": "earned"}, "participation": 0.75},
        {"algorithm": "fedavg", "supervised": {"normalise": "ends"}},
        {"algorithm": "ditto", "supervised": {"scalarisation": "tchebycheff", "ideal": "seen"}},
        {"algorithm": "matfl", "privacy": {"noise": 0.1}, "participation": 0.5},
        {"algorithm": "ditto", "privacy": {"epsilon": 50.0}, "encoding": "int4"},
    ],
    ids=lambda values: "-".join(str(v) for v in values.values() if isinstance(v, str)),
)
def test_5_stop_anywhere_with_more_to_remember(values, tmp_path):
    """What the server weighs by, which round is kept, and where clients' own weights stand."""
    configuration = tiny(**{"problem": "tiny-people", "preferences": "equidistant", **values})
    whole = outcome(tmp_path / "whole", configuration)

    broken = Run.create(tmp_path / "broken", configuration)
    with pytest.raises(KeyboardInterrupt):
        execute(broken, notify=stopping(2))
    assert contents(resume(broken.path)) == whole


def test_5_stop_anywhere(case, tmp_path):
    """A run that stops after the first round, and again after the third."""
    absent = {} if case["algorithm"] in EVERYBODY else {"participation": 0.75}
    configuration = tiny(**case, **absent)
    whole = outcome(tmp_path / "whole", configuration)

    broken = Run.create(tmp_path / "broken", configuration)
    for after in (1, 3):
        with pytest.raises(KeyboardInterrupt):
            execute(Run.open(broken.path), notify=stopping(after))
        # rounds that were recorded after the checkpoint are cut back
        broken.append_history({"round": 99})
    assert contents(resume(broken.path)) == whole


@dataclass
class Wire:
    """All messages of one federation, by what the server asked for."""

    rounds: list[ClientUpdate] = field(default_factory=list)
    surveys: list[ClientUpdate] = field(default_factory=list)
    collected: list[ClientUpdate] = field(default_factory=list)
    last: list[ClientUpdate] = field(default_factory=list)

    @property
    def everything(self) -> list[ClientUpdate]:
        return [*self.rounds, *self.surveys, *self.collected, *self.last]


@pytest.fixture
def wires(monkeypatch) -> list[Wire]:
    """What is overheard between sites and servers; begin with a `Wire` for each federation."""
    found: list[Wire] = []
    places = {"round": "rounds", "survey": "surveys", "collect": "collected", "finish": "last"}
    for method, place in places.items():
        original = getattr(Clients, method)

        def listening(self, *asked, original=original, place=place):
            update = original(self, *asked)
            getattr(found[-1], place).append(copied(update))
            return update

        monkeypatch.setattr(Clients, method, listening)
    return found


def overheard(configuration, wires: list[Wire]) -> tuple[Wire, Fleet]:
    """Everything that was said in a federation, and all that its clients hold in the end."""
    wires.append(Wire())
    with EmbeddedEngine(configuration) as engine:
        loop = RoundLoop(engine, Server(configuration))
        list(loop.rounds())
        loop.finish()
        return wires[-1], engine.models(kept=False).clone()


def test_6_private_stays_private(case, wires):
    """Every message holds the declared tensors and statistics and nothing else.

    Two federations that differ in one client's preference send, in the first round, messages
    that are equal bit for bit: from everybody as long as nobody has learned (with data, in the
    survey before training), and from all other clients in any case.
    """
    weights = [[0.3, 0.7], [0.6, 0.4], [0.9, 0.1], [0.2, 0.8]]
    problem, algorithm = find_problem(case["problem"]), find(case["algorithm"])
    acting = isinstance(problem, EnvironmentProblem)
    late = {problem.learner: {"learning_starts": 60}} if acting else {}
    for first in ([0.3, 0.7], [0.8, 0.2]):
        configuration = tiny(**case, preferences=[first, *weights[1:]], **late)
        _, models = overheard(configuration, wires)
    seen, again = wires
    assert_declared(seen, configuration, set(models))
    assert not any("validation" in message.statistics for message in seen.everything)
    others = slice(0, 2) if acting else slice(1, 2)
    told = "preferences" in algorithm.surveys  # then what everybody trains on depends on them
    for one, other in zip(seen.rounds[:2], again.rounds[:2], strict=True):
        assert one.statistics.keys() == other.statistics.keys()
        if not told:
            clients = one.clients[others]
            assert_equal(one.only(clients), other.only(clients))
    for one, other in zip(seen.surveys[:2], again.surveys[:2], strict=True):
        for message in (one, other):
            message.statistics.pop("preferences", None)
        assert_equal(one, other)


def test_6_private_stays_private_where_hypernetworks_are_weighed(wires):
    """Hypernetworks leave as what is declared, all else of them stays."""
    case = {"algorithm": "hetpfl", "problem": "tiny-people", "hetpfl": WEIGHED}
    configuration = tiny(**case, rounds=4)
    wire, models = overheard(configuration, wires)
    assert_declared(wire, configuration, set(models))
    names = set(wire.rounds[0].models or ())
    assert {name.partition(".")[0] for name in names} == {"body", "fused", "upload"}


def assert_declared(wire: Wire, configuration: Configuration, held: set[str]) -> None:
    """What an algorithm says about what its clients send is the truth."""
    algorithm, problem = configuration.get_algorithm(), configuration.get_problem()
    sends = algorithm.travelling(configuration.get_module())
    sizes = [1.0]
    if isinstance(problem, DataProblem):
        sizes = [len(share.train) for share in problem.client_rows()]
        # only who says so has another's data
        sizes += [sum(sizes)] * algorithm.centralised
    communication = {name for name in held if any(fnmatchcase(name, p) for p in sends)}
    if configuration.learner_settings.get("average_targets"):
        communication |= {f"target.{name}" for name in communication}
    known = {"size", "declined", "unsound", "validation"}
    assert wire.rounds
    for message in wire.rounds:
        if not algorithm.communicates:
            assert message.models is None
            assert not message.statistics
            continue
        assert message.models is not None
        assert set(message.models) == communication
        assert set(message.statistics) <= known | set(algorithm.statistics)
        assert set(message.statistics) >= {"size", *algorithm.statistics}
        assert ("unsound" in message.statistics) == (communication < held)
    assert bool(wire.surveys) == bool(algorithm.surveys)
    for message in wire.surveys:
        assert set(message.statistics) == set(algorithm.surveys) - {"gradients"}
        assert (message.models is None) == ("gradients" not in algorithm.surveys)
    assert bool(wire.collected) == algorithm.ensembles
    for message in wire.collected:
        assert message.models is not None
        assert set(message.models) == communication
        assert set(message.statistics) == {"size"}
    for message in wire.last:
        assert message.models is None
        assert set(message.statistics) <= {"validation"}
    for message in wire.everything:
        for name, values in message.statistics.items():
            if name in known:
                assert values.shape == (len(message.clients),)
            if name in known - {"validation"}:
                assert np.isin(values, sizes if name == "size" else (0.0, 1.0)).all()


@pytest.mark.parametrize("problem", ["tiny-people", "tiny-crowd"])
def test_6_hypernetworks_and_preferences_never_travel(problem, wires):
    """Not by name, not by value, and not by what else is said: messages do not depend on them."""
    objectives = len(find_problem(problem).objectives)
    drawn = np.random.default_rng(5).dirichlet(np.ones(objectives), (2, 4)).round(6)
    drawn[..., -1] = 1 - drawn[..., :-1].sum(axis=-1)
    private: list[np.ndarray] = [drawn]
    for preferences in drawn:
        configuration = tiny(
            problem=problem,
            algorithm="praffl",
            preferences=preferences.tolist(),
            keep_scope="federation",
        )
        wire, models = overheard(configuration, wires)
        hyper = [name for name in models if name.startswith("hyper.")]
        assert hyper
        private += [models[name].numpy() for name in hyper]
        assert_declared(wire, configuration, set(models))
        assert all("validation" in message.statistics for message in wire.rounds + wire.last)
    secrets = np.unique(np.concatenate([values.ravel() for values in private]).astype(np.float32))
    secrets = secrets[~np.isin(secrets, [0.0, 1.0])]
    for message in wires[0].everything:
        assert message.models is None or not any("hyper" in name for name in message.models)
        said = [values.ravel() for values in message.statistics.values()]
        if message.models is not None:
            said += [tensor.numpy().ravel() for tensor in message.models.tensors.values()]
        assert not np.isin(np.concatenate(said).astype(np.float32), secrets).any()
    for one, other in zip(wires[0].everything, wires[1].everything, strict=True):
        assert_equal(one, other)


@pytest.mark.parametrize("algorithm", ["praffl", "fedavg", "fairfed", "agnostic-fair-pooled"])
def test_6_one_number_more_where_a_round_is_kept_for_all(algorithm, wires):
    configuration = tiny(problem="tiny-people", algorithm=algorithm, keep_scope="federation")
    wire, models = overheard(configuration, wires)
    assert_declared(wire, configuration, set(models))
    trained = configuration.get_algorithm().select_after_training
    for message in wire.rounds[:2]:
        unknown = np.isnan(message.statistics["validation"])
        assert (unknown != trained).all(), "nothing was sent yet"
    for message in [*wire.rounds[2:], *wire.last]:
        values = message.statistics["validation"]
        assert ((values > 0) & (values <= 1)).all()


def copied(message: ClientUpdate) -> ClientUpdate:
    models = None if message.models is None else message.models.clone()
    return replace(message, models=models, statistics=dict(message.statistics))


def assert_equal(one: ClientUpdate, other: ClientUpdate) -> None:
    for name, values in one.statistics.items():
        np.testing.assert_array_equal(values, other.statistics[name])
    assert (one.models is None) == (other.models is None)
    if one.models is not None:
        for name in one.models:
            assert (one.models[name] == other.models[name]).all()


def test_7_absent_clients_keep_their_state(plain):
    if plain["algorithm"] in EVERYBODY:
        with pytest.raises(UserError, match="participation means nothing"):
            tiny(**plain, participation=0.5)
        return
    configuration = tiny(**plain, participation=0.5, chunk=4)
    with EmbeddedEngine(configuration) as engine:
        federation = Server(configuration)
        seen = set()
        before = engine.models(kept=False).clone()
        state = {k: v.copy() for k, v in engine.state().items()}
        for (record,) in RoundLoop(engine, federation).rounds():
            assert len(record.clients) == 2
            seen |= set(record.clients)
            absent = [c for c in federation.clients if c not in record.clients]
            now = engine.state()
            watched = [key for key in now if key.startswith(("0/models/", "0/kept/"))]
            assert watched
            watched += {"0/learner/steps", "0/learner/environment.at"} & set(now)
            for key in watched:
                np.testing.assert_array_equal(now[key][absent], state[key][absent])
            assert (now["0/learner/steps"] > state["0/learner/steps"]).sum() == 2
            state = {k: v.copy() for k, v in now.items()}
        assert engine.models(kept=False).distance(before).any()
        assert len(seen) > 2, "the selection must change from round to round"


def of_its_cluster(server: Server, record, name: str, client: int, before, models) -> None:
    """An absent client gets its cluster's model, if somebody of its cluster took part."""
    rows = held(server)[name]
    (cluster,) = [members for members in record.clusters if client in members]
    here = [other for other in cluster if other in record.clients]
    wanted = rows[here[0]] if here else before[name][client]
    assert torch.equal(rows[client], wanted), (name, client)


def of_its_last_upload(server: Server, record, name: str, client: int, before, models) -> None:
    """Participants' models are mixed with the client's own last one, which the server keeps."""
    allocator = server.algorithm._allocator  # type: ignore[attr-defined]
    assert torch.equal(allocator.stored[name][client], models[name][client]), (name, client)


def of_participants(server: Server, record, name: str, client: int, before, models) -> None:
    """Participants' models to choose from are offered to all; a client's own is not among them."""
    rows = held(server)[name]
    offered = {row.numpy().tobytes() for row in rows[client]}
    assert offered <= {models[name][c].numpy().tobytes() for c in record.clients}


PERSONAL = ("cfl", "fedamp", "fedfomo", "fedpac", "fedpref", "matfl", "pfedrlla")
"""Some algorithms whose server models differ from client to client: the law must see it."""
OWN_RULES = {"cfl": of_its_cluster, "pfedrlla": of_its_last_upload, "fedfomo": of_participants}
"""Checks of algorithms whose server makes something for absent clients as well."""


def waits(server: Server, record, name: str, client: int, before, models) -> None:
    """The rule of all other algorithms: the server holds what it held."""
    assert torch.equal(held(server)[name][client], before[name][client]), (name, client)


def held(server: Server) -> dict[str, list[torch.Tensor]]:
    """The server's tensors for each client, by name."""
    models = server.last_request()[0].models
    assert models is not None
    return {name: [row.clone() for row in models[name]] for name in models}


def received_as(algorithm: type[Algorithm], name: str) -> str:
    """The local name of a tensor that travels."""
    for prefix, local in algorithm.receive_as.items():
        if name.startswith(prefix):
            return name.replace(prefix, local, 1)
    return name


def test_7_personal_tensors_wait_for_their_client(plain):
    """Every tensor that is a client's own, over all rounds and the last delivery.

    A tensor that does not travel changes in the client's own rounds alone, or, if the algorithm
    says so, when a model reaches the client. One that travels is the
    same for all clients after a mixing, or it is personal: then the server mixes it for
    participants alone, and holds what it was for all others.
    """
    if plain["algorithm"] in EVERYBODY or not find(plain["algorithm"]).communicates:
        return
    configuration = tiny(
        **plain, participation=0.5, chunk=4, rounds=6, keep="last", fine_tune="none"
    )
    algorithm, rule = find(plain["algorithm"]), OWN_RULES.get(plain["algorithm"], waits)
    with EmbeddedEngine(configuration) as engine:
        server = Server(configuration)
        names = engine.models(kept=False)
        landing = {received_as(algorithm, name) for name in server.initial}
        private = [name for name in names if name not in landing]
        own = engine.models(kept=False).clone()
        before = {name: list(tensor.clone()) for name, tensor in server.initial.tensors.items()}
        loop, personal = RoundLoop(engine, server), set[str]()
        for (record,) in loop.rounds():
            absent = [c for c in server.clients if c not in record.clients]
            now, models = held(server), engine.models(kept=False)
            for name in private:
                for client in absent:
                    assert torch.equal(models[name][client], own[name][client]), (name, client)
            for name, rows in now.items():
                if name not in before or all(torch.equal(row, rows[0]) for row in rows):
                    continue
                personal.add(name)
                for client in absent:
                    rule(server, record, name, client, before, models)
            own, before = models.clone(), now
        request, _ = server.last_request()
        loop.finish()
        last = engine.models(kept=False)
        if algorithm.on_receipt is Algorithm.on_receipt:
            for name in private:
                assert torch.equal(last[name], own[name]), f"{name}: changed by the last delivery"
        assert request.models is not None
        if not algorithm.ensembles and plain["algorithm"] != "fedfomo":
            for name in set(before) & set(server.initial):
                local = last[received_as(algorithm, name)]
                assert torch.equal(local, request.models[name]), name
    assert personal or plain["algorithm"] not in PERSONAL, "the law looked at nothing"


class LosingAnswers(EmbeddedEngine):
    """An engine on which clients work and their answers are lost."""

    def __init__(self, configuration, lost: dict[int, int]) -> None:
        super().__init__(configuration)
        self._lost = lost

    def round(self, request):
        client = self._lost.get(request.round)
        if client not in request.clients:
            return super().round(request)
        before = self._call("snapshot", self._clients((client,)))
        update = super().round(request)
        for number, part in self._clients((client,)).items():
            self._ask("restore", {number: (*part, before[number])})
        return update.only([other for other in request.clients if other != client])


def test_7_a_lost_answer_equals_never_having_been_asked(plain):
    """Bit for bit, with one client per chunk: the kept and the last models of all clients."""
    absences = [(2, 1, "round"), (3, 0, "round")]
    if plain["algorithm"] in EVERYBODY:
        with pytest.raises(UserError, match="absences mean nothing"):
            tiny(**plain, absences=absences)
        return
    ends = []
    for engine in (
        EmbeddedEngine(tiny(**plain, chunk=1, rounds=3, absences=absences)),
        LosingAnswers(tiny(**plain, chunk=1, rounds=3), {2: 1, 3: 0}),
        EmbeddedEngine(tiny(**plain, chunk=1, rounds=3)),
    ):
        with engine:
            loop = RoundLoop(engine, Server(tiny(**plain, rounds=3)))
            records = [record for (record,) in loop.rounds()]
            loop.finish()
            ends.append((records, engine.models(kept=True), engine.models(kept=False)))
    (absent, *simulated), (unanswered, *lost), (_, *present) = ends
    assert [record.absent for record in absent] == [{}, {"round": (1,)}, {"round": (0,)}]
    for records in (absent, unanswered):
        assert [record.clients for record in records] == [(0, 1, 2, 3), (0, 2, 3), (1, 2, 3)]
    for one, other in zip(simulated, lost, strict=True):
        for name in one:
            assert torch.equal(one[name], other[name]), name
    # the absence itself must show
    assert any(not torch.equal(simulated[1][name], present[1][name]) for name in simulated[1])


def test_8_a_client_that_is_no_longer_finite_is_named_and_left_out(plain, monkeypatch):
    name, learner = plain["algorithm"], LEARNERS[find_problem(plain["problem"]).learner][0]
    original, apart = learner.train, learner.train_per_objective
    configuration = tiny(**plain, chunk=4)
    sends = configuration.get_algorithm().travelling(configuration.get_module())

    def poisoned(self, fleet, rows, task):
        original(self, fleet, rows, task)
        if task.round == 2:
            communication = next(iter(fleet.group(*sends)))
            fleet[communication][1, 0, 0] = float("nan")

    def poisoned_apart(self, fleet, rows, task):
        copies = apart(self, fleet, rows, task)
        if task.round == 2:
            copies["0.weight"][3, 0, 0] = float("nan")  # client 1, its second objective
        return copies

    monkeypatch.setattr(learner, "train", poisoned)
    monkeypatch.setattr(learner, "train_per_objective", poisoned_apart)
    with EmbeddedEngine(configuration) as engine:
        loop = RoundLoop(engine, Server(configuration))
        records = [record for (record,) in loop.rounds()]
        loop.finish()
        for kept in (True, False):
            if find(name).communicates:
                assert engine.models(kept).finite().all()
        others = engine.models(kept=True).finite()
    assert others[[0, 2, 3]].all()
    if find(name).communicates:
        (event,) = [event for record in records for event in record.events]
        assert "client 1" in event
        assert "round 2" in event
        mixing = records[1].mixing
        assert mixing is not None
        given = np.delete(mixing, 1, axis=0)  # its own last sound model it may have back
        assert (given[~np.isnan(given).any(axis=1)][:, 1] == 0).all()


@pytest.mark.parametrize(
    ("algorithm", "group"),
    [
        ("praffl", "hyper.heads.0.weight"),
        ("lft-fedavg", "balance"),
        ("fairfed", "cells"),
    ],
)
def test_8_what_never_travels_is_rolled_back_as_well(algorithm, group, monkeypatch):
    """A client whose personal tensors are no longer finite says so, without showing them."""
    original = Supervised.train

    def poisoned(self, fleet, rows, task):
        original(self, fleet, rows, task)
        if task.round == 2:
            fleet[group][1] = float("nan")

    monkeypatch.setattr(Supervised, "train", poisoned)
    configuration = tiny(problem="tiny-people", algorithm=algorithm, chunk=4)
    with EmbeddedEngine(configuration) as engine:
        server, records, own = Server(configuration), [], []
        loop = RoundLoop(engine, server)
        for (record,) in loop.rounds():
            records.append(record)
            engine.end(server.end())  # the verdict on this round, which the next request brings
            own.append(engine.models(kept=False).clone())
        loop.finish()
        assert all(engine.models(kept).finite().all() for kept in (True, False))
    (event,) = [event for record in records for event in record.events]
    assert "client 1" in event
    assert "round 2" in event
    mixing = records[1].mixing
    assert mixing is not None
    assert (mixing[:, 1] == 0).all()
    assert torch.equal(own[1][group][1], own[0][group][1]), "back to where it was"
    assert not torch.equal(own[2][group][1], own[1][group][1]) or algorithm != "praffl"


def test_8_where_data_are_pooled_a_broken_model_is_left_out(monkeypatch):
    """The only one that trains is rolled back; everybody goes on with what there was."""
    original = Supervised.train

    def poisoned(self, fleet, rows, task):
        original(self, fleet, rows, task)
        if task.round == 2:
            fleet["0.weight"][0] = float("nan")

    monkeypatch.setattr(Supervised, "train", poisoned)
    configuration = tiny(problem="tiny-people", algorithm="agnostic-fair-pooled", chunk=4)
    with EmbeddedEngine(configuration) as engine:
        loop = RoundLoop(engine, Server(configuration))
        records = [record for (record,) in loop.rounds()]
        loop.finish()
        assert engine.models(kept=False).finite().all()
    (event,) = [event for event in records[1].events if "client 0" in event]
    assert "round 2" in event


def test_9_the_test_is_used_once_at_the_end(plain, monkeypatch, tmp_path):
    purposes: list[str] = []
    spans: list[str] = []
    learner = LEARNERS[find_problem(plain["problem"]).learner][0]
    takes_any = find(plain["algorithm"])().evaluation_preferences(2, "test") is not None
    if takes_any:
        learner = CONDITIONED[find_problem(plain["problem"]).learner]
    original = learner.evaluate

    def watching(self, fleet, rows, purpose, episodes):
        purposes.append(purpose)
        return original(self, fleet, rows, purpose, episodes)

    spanning = learner.evaluate_preferences

    def evaluation_preferences(self, fleet, rows, purpose, *others):
        spans.append(purpose)
        return spanning(self, fleet, rows, purpose, *others)

    monkeypatch.setattr(learner, "evaluate", watching)
    monkeypatch.setattr(learner, "evaluate_preferences", evaluation_preferences)
    configuration = tiny(**plain, chunk=4)
    execute(Run.create(tmp_path / "run", configuration))
    tests = ["test"] * (2 if configuration.keep == "best" else 1)
    assert purposes.count("test") == len(tests), "once for the kept models, once for the last ones"
    acting = isinstance(find_problem(plain["problem"]), EnvironmentProblem)
    end = tests if acting else [*tests, "everyone"]
    assert purposes[-len(end) :] == end
    assert set(purposes[: -len(end)]) == {"validation"}
    assert spans.count("test") == takes_any, "once, where models take any preference"
    assert "test" not in spans[:-1]


@pytest.fixture(scope="module", params=ACTING)
def finished(request, tmp_path_factory) -> Run:
    """A run of every registered algorithm that can learn from rewards."""
    path = tmp_path_factory.mktemp("finished") / "run"
    return execute(Run.create(path, tiny(algorithm=request.param)))


def test_9_trivial_and_optimum_stand_beside_every_figure(finished):
    results = finished.results
    assert results["trivial"]["mean_regret"] > 0
    assert results["optimum"]["hypervolume"] == pytest.approx(2303.0)
    assert results["reference_point"] == [-1.0, -101.0]
    for metrics in (results["metrics"], results["trivial"]):
        gap = results["optimum"]["mean_scalarised"] - metrics["mean_scalarised"]
        assert metrics["mean_regret"] == pytest.approx(gap)


def test_nobody_is_handed_a_worse_model_than_it_validated(finished):
    """keep = best: on a deterministic problem the kept model is the best ever seen."""
    weights = finished.configuration.get_preferences()
    best = np.full(4, -np.inf)
    for entry in finished.history:
        for part in ("received", "trained"):
            if entry[part] is not None:
                best = np.maximum(best, (np.array(entry[part]) * weights).sum(axis=1))
    kept = [row["scalarised"] for row in finished.results["per_client"]]
    np.testing.assert_allclose(kept, best)


def test_a_fleet_keeps_its_size() -> None:
    with pytest.raises(ValueError, match="client axis"):
        Fleet({"a": np.zeros((2, 1)), "b": np.zeros((3, 1))})  # type: ignore[dict-item]
