"""Clipping and noise on clients; what sites release, count and repeat."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from comity.configuration.privacy import Privacy
from comity.core.encodings import Encoding
from comity.core.fleet import Fleet
from comity.errors import RefusedError, UserError
from comity.federation.clients import Clients
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.initial_model import initial_fleet
from comity.federation.ledger import LEDGER
from comity.federation.loop import SimulatedLoop
from comity.federation.messages import RoundRequest
from comity.federation.neighbours import server_of
from comity.federation.noise import Mechanism, drawn_from_entropy, drawn_from_seed
from comity.federation.server import Server
from comity.federation.wire import Kind, seal
from comity.runs.check import check_site
from comity.runs.execute import execute, start_run
from comity.runs.join import close, enter
from comity.runs.serve import served_results
from tests.federation.test_deployed import (
    FEDERATION,
    Deployment,
    Lossy,
    configuration_of,
    exchange_of,
)
from tests.federation.test_members import SCALED, Banks, federation_values, read_site, write
from tests.federation.test_sites import control_of
from tests.tiny import tiny

PEOPLE = {"problem": "tiny-people", "algorithm": "fedavg"}


# -- the mechanism -------------------------------------------------------------------------


def ones(number: int, client: int, count: int) -> np.ndarray:
    return np.full(count, 10.0 * number + client)


def released(noise: float, *rows: list[float], clip: float = 1.0, draw: Any = ones) -> np.ndarray:
    """What clients 0, 1, ... release in round 2 of updates from (1, 1), in two tensors."""
    models = Fleet({"a": torch.tensor(rows)[:, :1], "b": torch.tensor(rows)[:, 1:]})
    base = Fleet({name: torch.ones_like(tensor) for name, tensor in models.tensors.items()})
    mechanism = Mechanism(Privacy(noise=noise, clip=clip), draw)
    fleet = mechanism.released(2, range(len(rows)), models, base)
    return np.concatenate([fleet["a"].numpy(), fleet["b"].numpy()], axis=1)


def test_an_update_is_clipped_as_one_vector_and_noised_after_it():
    rows = [4.0, 5.0], [1.3, 1.4]  # updates (3, 4), which is clipped to (0.6, 0.8), and (0.3, 0.4)
    np.testing.assert_allclose(released(0.0, *rows), [[1.6, 1.8], [1.3, 1.4]], rtol=1e-6)
    np.testing.assert_allclose(released(0.5, *rows), [[11.6, 11.8], [11.8, 11.9]], rtol=1e-6)
    np.testing.assert_allclose(released(0.5, *rows, clip=10.0), [[104, 105], [106.3, 106.4]])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_update_that_is_not_finite_counts_as_none(value):
    np.testing.assert_allclose(released(0.5, [value, 5.0]), [[11.0, 11.0]])


def test_noise_of_a_simulation_can_be_repeated_and_is_of_one_client_and_round():
    draw = drawn_from_seed(3)
    assert np.array_equal(draw(1, 2, 5), draw(1, 2, 5))
    drawn = [drawn_from_seed(seed)(*keys, 5) for seed in (3, 4) for keys in ((1, 2), (2, 1))]
    assert len({each.tobytes() for each in drawn}) == 4


def test_noise_of_a_site_is_normal_and_never_the_same():
    """A right generator fails with a probability of 1e-9."""
    drawn = drawn_from_entropy(1, 2, 20_000)
    assert not np.array_equal(drawn, drawn_from_entropy(1, 2, 20_000))
    assert stats.kstest(drawn, "norm").pvalue > 1e-9
    assert np.abs(drawn).max() < 8.3


# -- clients -------------------------------------------------------------------------------


def test_models_that_stay_have_no_noise():
    """What a client holds after a round is what it learned; only what it sends is noised."""
    rows = {}
    for privacy in (None, {"noise": 100.0}):
        configuration = tiny(**PEOPLE, **({} if privacy is None else {"privacy": privacy}))
        clients = Clients(configuration, (0, 1))
        update = clients.round(RoundRequest(1, (0, 1), None))
        rows[privacy is None] = clients.models(kept=False).clone(), update.models
    for name in rows[True][0]:
        assert torch.equal(rows[True][0][name], rows[False][0][name])
        assert (rows[True][1][name] - rows[False][1][name]).abs().mean() > 10


def test_a_broken_model_tells_nothing_and_goes_back_to_its_start(monkeypatch):
    """Also where only a tensor that never travels is broken; the history of the client says so."""
    original = Clients._train

    def broken(self: Clients, rows: Any, request: RoundRequest, *more: Any) -> Any:
        value = original(self, rows, request, *more)
        if request.round == 2 and 1 in request.clients:
            tensors = self._models.tensors
            tensors[next(name for name in tensors if name.startswith("personal."))][1] = torch.nan
        return value

    monkeypatch.setattr(Clients, "_train", broken)
    configuration = tiny(problem="tiny-people", algorithm="ditto", chunk=4, privacy={"noise": 1.0})
    assert any(name.startswith("personal.") for name in initial_fleet(configuration, 1))
    with EmbeddedEngine(configuration) as engine:
        loop = SimulatedLoop(engine, server_of(configuration))
        incidents = []
        for (record,) in loop.rounds():
            incidents.append(engine.metrics(record.clients).incidents)
            assert not record.events, "the server hears nothing of it"
            assert engine.models(kept=False).finite().all()
    text = "client 1, round 2: its model is no longer finite; it went back to its start"
    assert incidents == [(), (text,), (), ()]


@pytest.mark.parametrize("encoding", ["float16", "int8", "int4"])
def test_what_travels_encoded_follows_from_noised_updates_alone(encoding, monkeypatch):
    """The residual of int4 is computed from noised models and added after clipping and noise."""
    noised: list[tuple[Fleet, Fleet]] = []
    original = Mechanism.released

    def noting(self: Mechanism, number: int, clients: Any, models: Fleet, base: Fleet) -> Fleet:
        fleet = original(self, number, clients, models, base)
        noised.append((fleet.clone(), base.clone()))
        return fleet

    monkeypatch.setattr(Mechanism, "released", noting)
    configuration = tiny(**PEOPLE, chunk=4, encoding=encoding, privacy={"noise": 0.1})
    bodies: list[list[bytes]] = []
    with EmbeddedEngine(configuration) as engine:
        server = Server(configuration)
        original_take = server.take

        def take(request: Any, update: Any, record: Any) -> None:
            bodies.append([each.body for each in update.encoded])
            original_take(request, update, record)

        monkeypatch.setattr(server, "take", take)
        list(SimulatedLoop(engine, server).rounds())
    names = list(noised[0][0])
    again = Encoding(encoding, frozenset(names))
    for client in range(4):
        shapes = {name: noised[0][0][name][:1].shape for name in names}
        residual = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
        for number, (models, base) in enumerate(noised):
            arrays = {n: models[n].numpy()[client : client + 1] for n in names}
            start = {n: base[n].numpy()[client : client + 1] for n in names}
            left = residual if again.feeds_back else None
            assert again.encode(arrays, start, left)[0] == bodies[number][client]


# -- results -------------------------------------------------------------------------------


def test_results_have_the_epsilon_of_what_was_sent(tmp_path):
    """An absent client has spent less; a round without mixing and the last delivery are free."""
    values = {**PEOPLE, "clients": 4, "rounds": 4, "fine_tune": "replace-last"}
    privacy = {"noise": 6.0, "clip": 0.5}
    run = execute(
        start_run({**values, "privacy": privacy, "absences": [[2, 3, "round"]]}, tmp_path / "run")
    )
    result = run.results["privacy"]
    exact = Privacy(noise=6.0)
    assert result["epsilon"] == pytest.approx(exact.spent(3), abs=1e-6)
    assert result["updates"] == 3
    assert result["per_client"] == pytest.approx([*[exact.spent(3)] * 3, exact.spent(2)], abs=1e-6)
    assert (result["noise"], result["clip"], result["delta"]) == (6.0, 0.5, 1e-5)
    assert result["simulated"]
    quiet = execute(
        start_run({**values, "fine_tune": "none", "algorithm": "no-communication",
                   "privacy": privacy}, tmp_path / "alone")
    )  # fmt: skip
    assert quiet.results["privacy"]["epsilon"] == 0.0


# -- sites ---------------------------------------------------------------------------------


def test_sites_draw_noise_of_their_own(tmp_path):
    configuration = configuration_of(**PEOPLE, privacy={"noise": 1.0})
    runs = []
    for name in ("one", "two"):
        deployment = Deployment(configuration, tmp_path / name)
        deployment.run()
        assert not [incident for incident in deployment.incidents if incident.text]
        sent = [m for m in deployment.passed if m[5] == Kind.UPDATE]
        runs.append(sent)
        assert [site.ledger.updates for site in deployment.sites.values()] == [3, 3, 3]
        for message in sent:
            assert not [n for n in control_of(message).get("arrays", {}) if "statistics" in n]
    assert not {m for m in runs[0] if len(m) > 1000} & set(runs[1])


def test_the_same_question_gets_the_same_bytes_and_is_counted_once(tmp_path):
    configuration = configuration_of(**PEOPLE, privacy={"noise": 1.0})
    deployment = Deployment(configuration, tmp_path)
    questions: list[bytes] = []

    def fate(name: str, message: bytes) -> str:
        if name == "bank-b" and exchange_of(message) == (2, "round") and not questions:
            questions.append(message)
            first = deployment.sites["bank-b"].answer(message)
            assert deployment.sites["bank-b"].answer(message) == first
            deployment.restart("bank-b")
            assert deployment.sites["bank-b"].answer(message) == first
            assert deployment.sites["bank-b"].ledger.updates == 2
        return ""

    deployment.fate = fate  # type: ignore[method-assign]
    deployment.run()
    assert questions
    assert deployment.sites["bank-b"].ledger.updates == 3


def test_a_lost_answer_has_left_all_the_same(tmp_path):
    configuration = configuration_of(**PEOPLE, privacy={"epsilon": 8.0})
    deployment = Lossy(configuration, tmp_path, when=(1, "round"), what="answer lost, restart")
    records = deployment.run()
    assert [record.absent for record in records] == [{"round": (1,)}, {}, {}, {}]
    assert deployment.sites["bank-b"].ledger.updates == 3  # of which the server took two
    assert json.loads((tmp_path / "bank-b" / LEDGER).read_text()) == {"updates": 3}


def test_a_server_that_asks_in_other_words_is_refused_once_the_budget_is_spent(tmp_path):
    configuration = configuration_of(**PEOPLE, privacy={"epsilon": 8.0})
    deployment = Deployment(configuration, tmp_path)
    request = deployment.loop.servers[0].request()[0].only([0])
    site, answers = deployment.sites["bank-a"], []
    for attempt in range(5):
        models = initial_fleet(configuration, 1).select([0])
        for tensor in models.tensors.values():
            tensor += 0.001 * attempt
        asked = RoundRequest(1, (0,), models, verdicts=request.verdicts)
        message = deployment.agreement.request_message("round", asked)
        answers.append(site.answer(seal(message, FEDERATION, deployment.agreement.layout)))
    assert [answer[5] == Kind.UPDATE for answer in answers] == [True, True, True, False, False]
    assert "the privacy budget is spent: 3 updates" in control_of(answers[-1])["reason"]


def test_a_server_gets_nothing_by_asking_for_something_else(tmp_path):
    """No exchange but a round has models or figures in its answer."""
    configuration = configuration_of(**PEOPLE, privacy={"epsilon": 8.0})
    deployment = Deployment(configuration, tmp_path)
    server = deployment.loop.servers[0]
    first, last, end = server.request()[0], server.last_request()[0], server.end()
    requests = {"survey": first, "collect": last, "finish": last, "end": end}
    for exchange, request in requests.items():
        message = deployment.agreement.request_message(exchange, request.only([0]))
        sealed = seal(message, FEDERATION, deployment.agreement.layout)
        answer = deployment.sites["bank-a"].answer(sealed)
        assert len(answer) < 400, exchange
        if exchange == "collect":
            assert "for an ensemble" in control_of(answer)["reason"]
    assert deployment.sites["bank-a"].ledger.updates == 0


def test_results_of_each_party(tmp_path):
    banks = Banks(tmp_path, privacy={"epsilon": 5.0})
    results = served_results(banks.serve())
    assert results["privacy"]["epsilon"] == pytest.approx(5.0, abs=1e-4)
    assert not results["privacy"]["simulated"]
    own = close(banks.members["bank-b"]).results["privacy"]
    assert own["epsilon"] == pytest.approx(5.0, abs=1e-4)
    assert own["updates"] == 2
    assert not own["simulated"]


RULES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "none": ({}, {"policy": {"at_most_epsilon": 4}}, "has no differential privacy"),
    "too much": (
        {"privacy": {"epsilon": 5.0}},
        {"policy": {"at_most_epsilon": 4}},
        "at_most_epsilon = 4: this federation has epsilon = 5",
    ),
    "results": (
        {"privacy": {"epsilon": 5.0}},
        {"share": {"results": True}},
        "share.results tells test results",
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_site_refuses_what_it_did_not_agree_to(rule, tmp_path):
    federation, site, text = RULES[rule]
    write(tmp_path, federation_values(**federation), **site)
    file = read_site(tmp_path / "bank-b.toml")
    with pytest.raises(RefusedError, match=text):
        enter(file, None)  # type: ignore[arg-type]
    allowed = federation_values(privacy={"epsilon": 3.9})
    write(tmp_path, allowed, policy={"at_most_epsilon": 4, "statistics": []})
    checked = check_site(read_site(tmp_path / "bank-b.toml"))
    assert checked["policy"] is None
    assert checked["leaves"]["statistics"] == []
    assert checked["leaves"]["epsilon"] == pytest.approx(3.9, abs=1e-4)


def test_scales_that_all_sites_would_tell_are_refused(tmp_path):
    write(tmp_path, federation_values(**SCALED, privacy={"epsilon": 5.0}))
    with pytest.raises(UserError, match=r"the scale of age is federated.*no noise covers"):
        read_site(tmp_path / "bank-b.toml").configuration()
