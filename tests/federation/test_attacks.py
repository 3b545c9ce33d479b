"""Attacks as scenarios: what attackers send, who they are, and over whom results are."""

from __future__ import annotations

import json
from copy import deepcopy

import numpy as np
import pytest
import torch

import comity.report
import comity.runs.execute
from comity.algorithms.fedavg import FedAvg
from comity.configuration import Travel, attack_of, configure, split_attacks
from comity.configuration.attack import FACTORS, parse_attack
from comity.configuration.federation_file import read_federation
from comity.core.fleet import Fleet
from comity.core.rng import stream
from comity.errors import UserError
from comity.federation.agreement import Agreement
from comity.federation.attacks import Attackers, largest_shift
from comity.federation.client_learner import client_learner
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.initial_model import initial_fleet
from comity.federation.loop import SimulatedLoop
from comity.federation.messages import ClientUpdate, RoundRequest
from comity.federation.neighbours import server_of
from comity.federation.record import RoundRecord
from comity.federation.server import Server
from comity.runs.directory import Run
from comity.runs.entries import with_attacks
from comity.runs.execute import execute
from comity.searches.configuration import configure_search
from tests.events import stopping
from tests.links.plans import passes, plan
from tests.tiny import tiny

CLIENTS = 5


def attacking(attack: str, **values):
    return tiny(
        problem="tiny-people",
        algorithm="fedavg",
        clients=CLIENTS,
        attack=attack,
        keep="last",
        **values,
    )


def exchange(
    configuration, *updates: float, round: int = 1, start: float = 1.0
) -> tuple[RoundRequest, ClientUpdate]:
    """A round in which all start from one number everywhere, and add their own to it."""
    initial = initial_fleet(configuration, len(updates))
    delivered = Fleet({name: torch.full_like(t, start) for name, t in initial.tensors.items()})
    values = torch.tensor(updates)
    models = Fleet(
        {
            name: tensor + values.reshape(-1, *[1] * (tensor.dim() - 1))
            for name, tensor in delivered.tensors.items()
        }
    )
    clients = tuple(range(len(updates)))
    sizes = np.arange(1.0, len(updates) + 1)
    return (
        RoundRequest(round, clients, delivered),
        ClientUpdate(clients, models, {"size": sizes}),
    )


def updates_of(update: ClientUpdate, start: float = 1.0) -> list[float]:
    assert update.models is not None
    for tensor in update.models.tensors.values():
        flat = tensor.flatten(1)
        assert torch.equal(flat, flat[:, :1].expand(flat.shape))
    return (flat[:, 0] - start).tolist()


def test_attackers_are_drawn_and_fewer_are_among_more():
    two, three = attacking("sign-flip:2"), attacking("scale:3")
    order = stream(1, "attack").permutation(CLIENTS).tolist()
    assert two.attackers == tuple(sorted(order[:2]))
    assert set(two.attackers) < set(three.attackers)
    assert attacking("sign-flip:2", seed=2).attackers != two.attackers
    assert attacking("none").attackers == ()
    assert attacking("none:2").attackers == two.attackers


def with_attackers(values: list[float], bad: dict[int, float]) -> list[float]:
    return [bad.get(client, value) for client, value in enumerate(values)]


@pytest.mark.parametrize(
    ("attack", "formula"),
    [
        ("sign-flip:2", lambda own, mean, std: -3 * own),
        ("sign-flip:2,factor=0.5", lambda own, mean, std: -0.5 * own),
        ("scale:2", lambda own, mean, std: 100 * own),
        ("size:2", lambda own, mean, std: -3 * own),
        ("collude:2", lambda own, mean, std: -5 * mean),
        ("ipm:2,factor=0.25", lambda own, mean, std: -0.25 * mean),
        ("alie:2,factor=1.5", lambda own, mean, std: mean - 1.5 * std),
        ("label-flip:2", lambda own, mean, std: own),
        ("none:2", lambda own, mean, std: own),
    ],
)
def test_what_attackers_send(attack, formula):
    configuration = attacking(attack)
    values = [1.0, 2.0, 4.0, 0.5, -2.0]
    bad = configuration.attackers
    honest = [value for client, value in enumerate(values) if client not in bad]
    mean, std = np.mean(honest), np.std(honest)
    request, update = exchange(configuration, *values)
    before = {name: tensor.clone() for name, tensor in update.models.tensors.items()}
    changed = Attackers(configuration).changed(request, update)
    expected = with_attackers(values, {c: formula(values[c], mean, std) for c in bad})
    assert updates_of(changed) == pytest.approx(expected, rel=1e-5)
    sizes = np.arange(1.0, CLIENTS + 1)
    if attack.startswith("size"):
        sizes[list(bad)] *= 1000
    assert changed.statistics["size"].tolist() == sizes.tolist()
    assert all(torch.equal(update.models[n], t) for n, t in before.items())  # a copy is changed


def test_a_replay_is_of_the_first_round_and_survives_a_restart():
    configuration = attacking("replay:1")
    (bad,) = configuration.attackers
    attackers = Attackers(configuration)
    request, update = exchange(configuration, 1.0, 2.0, 3.0, 4.0, 5.0)
    assert updates_of(attackers.changed(request, update)) == pytest.approx([1, 2, 3, 4, 5])
    again = Attackers(configuration)
    again.load(attackers.state())
    request, update = exchange(configuration, 7.0, 7.0, 7.0, 7.0, 7.0, round=2, start=10.0)
    expected = with_attackers([17.0] * 5, {bad: bad + 2.0})  # the model as it was sent
    assert updates_of(again.changed(request, update), 0.0) == pytest.approx(expected)


def test_the_first_round_starts_from_the_initial_model():
    configuration = attacking("sign-flip:1")
    (bad,) = configuration.attackers
    initial = initial_fleet(configuration, CLIENTS)
    models = Fleet({name: tensor + 1.0 for name, tensor in initial.tensors.items()})
    update = ClientUpdate(tuple(range(CLIENTS)), models, {"size": np.ones(CLIENTS)})
    request = RoundRequest(1, update.clients, None)
    changed = Attackers(configuration).changed(request, update)
    for name, tensor in changed.models.tensors.items():
        assert tensor[bad] == pytest.approx(initial[name][bad] - 3.0, abs=1e-5)


def test_the_shift_of_a_little_is_enough():
    """Baruch et al.: n = 50, m = 24 have s = 2 and z = Φ⁻¹(24 / 26) = 1.43."""
    assert largest_shift(50, 24) == pytest.approx(1.426, abs=1e-3)
    assert largest_shift(10, 3) == pytest.approx(0.180, abs=1e-3)  # Φ⁻¹(4 / 7)
    assert largest_shift(3, 1) == 0.0


def test_labels_are_flipped_in_the_training_data_of_attackers_only():
    configuration = attacking("label-flip:2")
    problem = configuration.get_problem()
    labels = problem.columns()["label"]
    clients = tuple(range(CLIENTS))
    learner = client_learner(
        configuration,
        clients,
        initial_fleet(configuration, CLIENTS),
        configuration.get_preferences(),
    )
    learned = learner._data.columns["label"]
    for client, share in enumerate(problem.client_rows()):
        expected = labels[share.train]
        if client in configuration.attackers:
            expected = 1 - expected
        assert torch.equal(learned[share.train], expected)
        for rows in (share.validation, share.test):
            assert torch.equal(learned[rows], labels[rows])
    assert torch.equal(problem.columns()["label"], labels)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"attack": "sign-flip"}, "must be NAME:COUNT"),
        ({"attack": "sign-flip:0"}, "at least one client must attack"),
        ({"attack": "sign-flop:1"}, "unknown attack 'sign-flop'"),
        ({"attack": "sign-flip:1,factor=x"}, "factor must be a number"),
        ({"attack": "sign-flip:1,factor=inf"}, "factor must be a number"),
        ({"attack": "replay:1,factor=2"}, "replay has no factor"),
        ({"attack": f"scale:{CLIENTS}"}, "at least one must be honest"),
        ({"attack": 3}, "attack = 3"),
        ({"attack": "label-flip:1", "problem": "tiny-treasure"}, "no labels to flip"),
        ({"attack": "scale:1", "algorithm": "agnostic-fair-pooled"}, "it pools data"),
    ],
)
def test_impossible_attacks_are_refused(values, words):
    with pytest.raises(UserError, match=words):
        tiny(**{"problem": "tiny-people", "algorithm": "fedavg", "clients": CLIENTS, **values})


def test_attacks_are_simulated_only(tmp_path):
    path = tmp_path / "federation.toml"
    path.write_text('problem = "deep-sea-treasure"\nattack = "scale:1"\n[sites.a]\n[sites.b]\n')
    with pytest.raises(UserError, match=r"attack has no place in a federation file: .*simulated"):
        read_federation(path)
    with pytest.raises(UserError, match="attack means nothing in a search"):
        configure_search({"problem": "tiny-treasure", "attack": "scale:1"})


def test_entries_of_a_comparison():
    attacks = split_attacks("none, sign-flip:3,scale:1,factor=100")
    assert attacks == ["none", "sign-flip:3", "scale:1,factor=100"]
    entries = with_attacks(["fedavg", "fedpref[top_r=1]"], attacks)
    assert entries == [
        "fedavg",
        "fedavg[attack=sign-flip:3]",
        "fedavg[attack=scale:1;factor=100]",
        "fedpref[top_r=1]",
        "fedpref[top_r=1,attack=sign-flip:3]",
        "fedpref[top_r=1,attack=scale:1;factor=100]",
    ]
    assert [attack_of(entry) for entry in entries] == [
        (entry, attack) for entry in ("fedavg", "fedpref[top_r=1]") for attack in attacks
    ]
    assert attack_of("a[attack=size:1,top_r=1]") == ("a[top_r=1]", "size:1")
    with pytest.raises(UserError, match="must be NAME:COUNT"):
        split_attacks("none,,size:1")
    assert set(FACTORS) == {parse_attack(f"{name}:1").name for name in FACTORS}


# -- whole runs ----------------------------------------------------------------------------


@pytest.fixture
def bare(monkeypatch):
    monkeypatch.setattr(comity.report, "write_report", lambda run, kind: None)
    monkeypatch.setattr(comity.runs.execute, "_CHECKPOINT_SECONDS", 0.0)


def finished(path, workers: int = 1, **values) -> Run:
    configuration = attacking(values.pop("attack", "replay:2"), rounds=3, **values)
    return execute(Run.create(path, configuration), workers=workers)


def test_results_are_those_of_honest_clients(bare, tmp_path):
    run = finished(tmp_path / "a", attack="sign-flip:2")
    results, bad = run.results, run.configuration.attackers
    honest = [client for client in range(CLIENTS) if client not in bad]
    assert results["attack"] == "sign-flip:2"
    assert results["honest"] == honest
    marked = [row["client"] for row in results["per_client"] if row.get("attacker")]
    assert marked == list(bad)
    values = [row["scalarised"] for row in results["per_client"]]
    assert results["metrics"]["mean_scalarised"] == pytest.approx(np.mean(np.take(values, honest)))
    assert sum(results["verdict"]["counts"].values()) == len(honest)
    assert any("3 honest clients" in text for text in results["verdict"]["sentences"])
    plain = finished(tmp_path / "b", attack="none:2")
    assert plain.results["honest"] == honest
    weights = [next(r.model(client=honest[0]).parameters()) for r in (run, plain)]
    assert not torch.allclose(*weights, atol=1e-3)
    clean = finished(tmp_path / "c", attack="none")
    assert "honest" not in clean.results
    assert clean.vectors.tolist() == plain.vectors.tolist()


@pytest.mark.parametrize("attack", ["replay:2", "alie:2", "label-flip:1"])
def test_a_run_is_the_same_with_two_workers_and_after_an_interruption(bare, tmp_path, attack):
    whole = finished(tmp_path / "whole", attack=attack)
    shared = finished(tmp_path / "shared", workers=2, attack=attack)
    stopped = Run.create(tmp_path / "stopped", attacking(attack, rounds=3))

    with pytest.raises(KeyboardInterrupt):
        execute(stopped, notify=stopping(2))
    execute(Run.open(tmp_path / "stopped"))
    for name in ("results.json", "history.jsonl"):
        contents = [(run.path / name).read_bytes() for run in (whole, shared, stopped)]
        assert contents[0] == contents[1] == contents[2], name


@pytest.mark.parametrize("algorithm", ["fedfomo", "fsmgda", "lft-ensemble", "pfedrlla", "fedamp"])
def test_every_kind_of_algorithm_can_be_attacked(bare, tmp_path, algorithm):
    configuration = tiny(
        problem="tiny-people", algorithm=algorithm, attack="size:1", rounds=2, clients=4
    )
    run = execute(Run.create(tmp_path / "run", configuration))
    assert len(run.results["honest"]) == 3
    history = [json.loads(line) for line in (run.path / "history.jsonl").read_text().splitlines()]
    events = " ".join(event for entry in history for event in entry["events"])
    (bad,) = configuration.attackers
    assert f"client {bad}, " in events  # its size was capped
    assert configure(json.loads(json.dumps({"problem": "tiny-people", "attack": "size:1"})))


def test_a_clipped_mean_withstands_what_a_mean_does_not(bare, tmp_path):
    """The scenario end to end: three of ten exaggerate in the wrong direction."""
    values = {
        **{"problem": "usps-mlp", "algorithm": "fedavg", "clients": 10, "rounds": 3},
        **{"attack": "sign-flip:3,factor=5", "evaluate_every": 0},
        "supervised": {"local_steps": 15, "learning_rate": 0.05},
    }
    scores = {}
    for name, more in (("none", {}), ("median", {"wrapper": "geometric-median"})):
        configuration = configure({**values, **more})
        run = execute(Run.create(tmp_path / name, configuration))
        scores[name] = run.results["metrics"]["accuracy"]
    assert scores["median"] > scores["none"] + 0.3


# -- with encodings, links, and without a server -------------------------------------------


@pytest.fixture
def taken(monkeypatch):
    """Requests and updates of rounds as servers take them."""
    exchanges: list[tuple[RoundRequest, ClientUpdate]] = []
    original = Server.take

    def take(self, request, update, record):
        exchanges.append((deepcopy(request.only(update.clients)), update))
        original(self, request, update, record)

    monkeypatch.setattr(Server, "take", take)
    return exchanges


def records_of(configuration) -> list[RoundRecord]:
    with EmbeddedEngine(configuration) as engine:
        loop = SimulatedLoop(engine, server_of(configuration))
        records = [record for (record,) in loop.rounds()]
        loop.finish()
        return records


@pytest.mark.parametrize("encoding", ["exact", "int8", "int4"])
def test_attackers_encode_what_they_send(encoding, taken):
    """What the server mixes is what the counted bytes decode to."""
    configuration = attacking("scale:2", encoding=encoding)
    records = records_of(configuration)
    agreement, travel = Agreement(configuration), Travel(configuration)
    for record, (request, update) in zip(records, taken, strict=True):
        assert record.bytes_up == agreement.update_bytes(update)
        for place in range(len(update.clients)):
            base = {
                name: t[place : place + 1].numpy() for name, t in request.posted.tensors.items()
            }
            arrays = travel.encoding.decode(update.encoded[place].body, travel.sent, base)
            for name, array in arrays.items():
                np.testing.assert_array_equal(array[0], update.models[name][place].numpy())


def linked(tmp_path, attack: str, **values):
    path = tmp_path / "plan.csv"
    passing = [
        passes("a/1", (100, 300)),
        passes("a/2", (100, 104), (240, 262), station="ground/h"),
        passes("b/1", (110, 140), (200, 290), station="ground/i"),
        passes("b/2", (270, 290), station="ground/k"),
        passes("c/1", (100, 300), station="ground/l"),
    ]
    path.write_text(plan(*passing).to_csv())
    links = {"contacts": str(path), "collect": "count:3", "work": "20s"}
    return attacking(attack, links=links, **values)


def test_attackers_collude_over_links_whatever_each_was_sent(tmp_path, taken):
    """Clients of one round are asked apart, where some have received nothing yet."""
    configuration = linked(tmp_path, "collude:2")
    records_of(configuration)
    apart = 0
    for request, update in taken:
        bad = np.isin(update.clients, configuration.attackers)
        if bad.all() or not bad.any():
            continue
        apart += bool(request.undelivered)
        initial = initial_fleet(configuration, len(update.clients))
        start = initial if request.models is None else request.models
        for name, tensor in update.models.tensors.items():
            moved = (tensor - start[name]).numpy()
            wanted = np.broadcast_to(-5 * moved[~bad].mean(axis=0), moved[bad].shape)
            np.testing.assert_allclose(moved[bad], wanted, rtol=1e-3, atol=1e-4)
    assert apart


def test_late_updates_are_checked_before_they_are_measured_anew(tmp_path):
    configuration = linked(tmp_path, "scale:2,factor=1e30")
    records = records_of(configuration)
    for record in records:
        bad = sorted(set(record.clients) & set(configuration.attackers))
        named = [event for event in record.events if "beyond" in event]
        assert [configuration.named(c) for c in bad] == [e.partition(",")[0] for e in named]
        assert record.mixing is None or not record.mixing[:, list(configuration.attackers)].any()


def test_without_a_server_sizes_are_capped_by_what_a_client_heard(monkeypatch):
    configuration = attacking("size:1", topology="neighbours", graph="ring:1", rounds=1)
    (attacker,) = configuration.attackers
    heard: list[tuple[tuple[int, ...], list[float]]] = []
    original = FedAvg.mix

    def mix(self, round):
        heard.append((round.participants, round.sizes.tolist()))
        return original(self, round)

    monkeypatch.setattr(FedAvg, "mix", mix)
    (record,) = records_of(configuration)
    assert len(heard) == CLIENTS
    assert {len(clients) for clients, _ in heard} == {3}
    for clients, sizes in heard:
        if attacker in clients:
            others = [size for c, size in zip(clients, sizes, strict=True) if c != attacker]
            assert sizes[clients.index(attacker)] == 3 * max(others)  # the median of three
        else:
            assert max(sizes) <= 3 * min(sizes)
    (event,) = record.events
    assert event.startswith(f"{configuration.named(attacker)}, round 1: its data size")


def test_without_a_server_attackers_are_checked_and_wrappers_refused():
    values = {"topology": "neighbours", "graph": "ring:1"}
    records = records_of(attacking("scale:1,factor=1e30", **values))
    (attacker,) = attacking("scale:1").attackers
    for record in records:
        assert len(record.events) == 1
        assert "its update is" in record.events[0]
        others = [client for client in range(CLIENTS) if client != attacker]
        assert not record.mixing[others, attacker].any()
    with pytest.raises(UserError, match=r"clip,confree changes the step of the server, and there"):
        attacking("none", wrapper="clip,confree", **values)


def test_entries_with_an_attack_stay_and_malformed_ones_are_refused():
    assert with_attacks(["fedavg[attack=size:1]"], ["none", "scale:1"]) == ["fedavg[attack=size:1]"]
    with pytest.raises(UserError, match=r"'fedpref\[top_r=1' is not NAME"):
        with_attacks(["fedpref[top_r=1"], ["scale:1"])
