"""The laws of the server's rules, for every registered algorithm and random rounds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from comity.algorithms import Algorithm, Round, Survey, algorithms, make
from comity.algorithms.wrappers import fits, wrappers
from comity.algorithms.wrappers.application import server_models, step_of
from comity.algorithms.wrappers.confree import ConFREE
from comity.algorithms.wrappers.robust import Robust
from comity.configuration import configure
from comity.core.fleet import Fleet
from comity.core.mixing import Mixing, Pick
from comity.core.mixing import mixed as mixed_models
from tests import tiny  # noqa: F401  (registers problems)
from tests.laws.conftest import ALGORITHMS, data_of, settings_of

OBJECTIVES = 3
SETTINGS = {
    "fedpref": {"threshold": 1e9, "patience": 1},
    "cfl": {"threshold": 1e9, "patience": 1},
    "fairfed": {"rule": "additive"},
    "pfedrlla": {"warmup": 0, "every": 1, "batch_size": 2},
}
GROUPS, CLASSES, FEATURES = 2, 3, 4
TOLD = {"centroids": (CLASSES, FEATURES), "counts": (CLASSES,), "model_losses": (3,)}
"""What is told beside a model, if it is more than a number; gains are one for each client."""
SURVEYING = [name for name in ALGORITHMS if algorithms()[name].surveys]
MIXING = [name for name in ALGORITHMS if algorithms()[name].mix is not Algorithm.mix]
ORDERED = {"pfedrlla"}
"""Their rule depends on the order of the clients by definition, not only on what they sent."""
EQUAL = [n for n in MIXING if not algorithms()[n].centralised and n not in ORDERED]
"""All algorithms to which clients are alike and their order means nothing."""
SHARED = [name for name in MIXING if algorithms()[name].shared_update]
"""Hosts of ConFREE."""


ROBUST = sorted(name for name, cls in wrappers().items() if issubclass(cls, Robust))
WITHSTANDING = [
    (host, name) for host in MIXING for name in ROBUST if fits(wrappers()[name], algorithms()[host])
]
"""Every host with every robust wrapper that fits it."""
COVERING = {
    *(pair for pair in WITHSTANDING if pair[0] in ("fedavg", "fedpref")),
    *(
        fitting[place % len(fitting)]
        for place, host in enumerate(MIXING)
        if (fitting := [pair for pair in WITHSTANDING if pair[0] == host])
    ),
}
"""Every host with one of them and every one of them with some hosts; the others are slow."""


def saved(state: dict[str, Any]) -> tuple[str, dict[str, tuple[str, tuple[int, ...], bytes]]]:
    """What a checkpoint keeps of a server's state: JSON, and arrays as they are."""
    arrays = {k: v for k, v in state.items() if isinstance(v, np.ndarray)}
    plain = json.dumps({k: v for k, v in state.items() if k not in arrays})
    return plain, {k: (str(v.dtype), v.shape, v.tobytes()) for k, v in arrays.items()}


def restored(kept: tuple[str, dict[str, tuple[str, tuple[int, ...], bytes]]]) -> dict[str, Any]:
    plain, arrays = kept
    found = {
        key: np.frombuffer(content, dtype).reshape(shape).copy()
        for key, (dtype, shape, content) in arrays.items()
    }
    return {**json.loads(plain), **found}


def prepared(name: str, survey: Survey | None = None) -> Algorithm:
    """An algorithm, which has seen a survey if it asks for any."""
    algorithm = make(name, SETTINGS.get(name, {}))
    if survey is not None and algorithm.surveys:
        algorithm.broadcast(survey)
    return algorithm


@cache
def trains_per_objective(name: str) -> bool:
    """Return whether clients of an algorithm send one model per objective."""
    configuration = configure({**settings_of(name, data_of(name)), "clients": 4})
    phases = make(name, {}).phases(configuration.get_problem())
    return any(phase.per_objective for phase in phases)


def rows_of(name: str, clients: np.ndarray) -> np.ndarray:
    """The rows of a round's fleets that belong to these clients, in this order."""
    each = OBJECTIVES if trains_per_objective(name) else 1
    return (clients[:, None] * each + np.arange(each)).ravel()


def random_round(seed: int, clients: int, name: str, number: int = 1) -> Round:
    """A round as this algorithm would see it."""
    rows = len(rows_of(name, np.arange(clients)))
    g = torch.Generator().manual_seed(seed)
    shapes = {"body.a": (5, 3), "body.b": (4,), "head.a": (2, 3)}
    start = Fleet({k: torch.randn(1, *shape, generator=g) for k, shape in shapes.items()})
    start = Fleet({k: t.expand(rows, *t.shape[1:]) for k, t in start.tensors.items()})
    sent = Fleet({k: t + torch.randn(t.shape, generator=g) for k, t in start.tensors.items()})
    sizes = torch.randint(1, 50, (clients,), generator=g).double().numpy()
    ids = tuple(range(clients))
    told = {}
    for tell in algorithms()[name].statistics:
        shape = (clients,) if tell == "gains" else TOLD.get(tell, ())
        told[tell] = torch.rand(clients, *shape, generator=g).double().numpy() + 0.1
    learner = {"learning_rate": 0.1}
    return Round(number, ids, ids, sent, start, sizes, told, learner=learner, asked=clients)


def relabelled(name: str, round: Round, order: np.ndarray) -> Round:
    """The same round, in which the clients have other names."""
    return replace(
        round,
        sent=round.sent.select(rows_of(name, order)),
        start=round.start.select(rows_of(name, order)),
        sizes=round.sizes[order],
        statistics={tell: values[order] for tell, values in round.statistics.items()},
    )


def random_survey(seed: int, clients: int) -> Survey:
    rng = np.random.default_rng(seed)
    gradients = rng.normal(size=(clients * OBJECTIVES, 8)).astype(np.float32)
    cells = rng.integers(0, 20, (clients, 2, GROUPS)).astype(float)
    cells[:, :, 0] += 1.0  # somebody is there
    members = cells.sum(axis=1)
    values = {
        "cells": cells,
        "cell_losses": cells * rng.uniform(0.1, 2.0, cells.shape),
        "members": members,
        "yes": np.floor(members * rng.uniform(size=members.shape)),
        "right": np.floor(members.sum(axis=1) * rng.uniform(size=clients)),
        "losses": rng.uniform(0.1, 2.0, (clients, OBJECTIVES)),
        "preferences": rng.dirichlet(np.ones(OBJECTIVES), clients),
        "moments": rng.normal(size=(clients, CLASSES, FEATURES)),
        "variance": rng.uniform(0.01, 0.1, clients),
        "before": rng.uniform(size=clients),
        "after": rng.uniform(size=clients),
        "objective": rng.uniform(0.1, 2.0, clients),
    }
    return Survey(tuple(range(clients)), values, Fleet({"a": torch.from_numpy(gradients)}))


def shuffled(survey: Survey, order: np.ndarray) -> Survey:
    """The same survey, in which the clients have other names."""
    assert survey.gradients is not None
    rows = (order[:, None] * OBJECTIVES + np.arange(OBJECTIVES)).ravel()
    values = {key: values[order] for key, values in survey.values.items()}
    return Survey(survey.participants, values, survey.gradients.select(rows))


def surveyed(round: Round, survey: Survey | None) -> Round:
    """The round after a survey, which nobody may have answered."""
    nobody = {key: values[:0] for key, values in random_survey(1, 1).values.items()}
    return replace(round, survey=survey or Survey((), nobody))


def mixed(
    algorithm: Algorithm, round: Round, survey: Survey | None, wrapper: ConFREE | None
) -> Mapping[str, Mixing | Pick]:
    """What the server makes of a round, with something in the place of its means or without."""
    mixings = algorithm.mix(surveyed(round, survey))
    if wrapper is None:
        return mixings
    return wrapper.adjust(mixings, round, algorithm.shared_update)[0]


def stepped(
    algorithm: Algorithm, mixings: Mapping[str, Mixing | Pick], round: Round
) -> dict[str, torch.Tensor]:
    """The one model of a server that does more than mix; of all others, nothing."""

    def previous(names: Sequence[str], clients: Sequence[int]) -> Fleet:
        return Fleet({name: round.start[name] for name in names}).select(list(clients))

    if not algorithm.has_server_step:
        return {}
    models, _ = server_models(
        algorithm, mixings, round.sent, round.start, list(round.sent), previous
    )
    assert len(models) == 1
    return {name: models[name][0] for name in models}


def given_models(
    name: str, round: Round, survey: Survey, wrapper: ConFREE | None = None
) -> dict[int, np.ndarray]:
    """What each client would be sent after a survey and training; of several models, the mean."""
    algorithm = prepared(name, survey)
    mixings = mixed(algorithm, round, survey, wrapper)
    if one := stepped(algorithm, mixings, round):
        everything = np.concatenate([tensor.flatten().numpy() for tensor in one.values()])
        return dict.fromkeys(round.clients, everything)
    models: dict[int, list[np.ndarray]] = {client: [] for client in round.clients}
    for tensor in round.sent:
        mixing = next(m for pattern, m in mixings.items() if fnmatchcase(tensor, pattern))
        given, base = round.sent[tensor], torch.zeros(1)
        if isinstance(mixing, Mixing) and mixing.base is not None:
            given, base = given - round.start[tensor], mixing.base[tensor]
        rows = (base + Fleet({tensor: given}).mix(mixing.weights)[tensor]).flatten(1)
        for client, row in mixing.route.items():
            models[client].append(rows[row].numpy())
    return {client: np.concatenate(parts) for client, parts in models.items()}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_needs_differentiable_losses_declares_it(name):
    """The rule by which they were once inferred, and no environment is refused without need."""
    cls = algorithms()[name]
    wraps = cls.build is not Algorithm.build and "rewards" not in cls.needs
    other = bool(cls.needs & {"attribute", "classes"})
    asks = bool(cls.surveys)
    assert ("losses" in cls.needs) == (wraps or other or trains_per_objective(name) or asks)


@pytest.mark.parametrize("name", MIXING)
@settings(deadline=None, max_examples=3)
@given(seed=st.integers(0, 2**30), clients=st.integers(1, 7))
def test_4_honest_weights(seed, clients, name):
    assert_honest(name, random_round(seed, clients, name), None)


@pytest.mark.parametrize("name", SHARED)
@settings(deadline=None, max_examples=3)
@given(seed=st.integers(0, 2**30), clients=st.integers(1, 7))
def test_4_honest_weights_of_steps_without_conflict(seed, clients, name):
    """They sum to what they like, but nobody counts less than nothing."""
    for wrapper in (ConFREE(), ConFREE(scope="model", guidance="sequential", rescale=False)):
        assert_honest(name, random_round(seed, clients, name), wrapper)


def assert_honest(name: str, round: Round, wrapper: ConFREE | None) -> None:
    for survey in (None, random_survey(1, len(round.participants))):
        for mixing in mixed(prepared(name, survey), round, survey, wrapper).values():
            mixing.check(len(round.sent))
            assert (mixing.weights >= 0).all()
            assert set(mixing.route.values()) <= set(range(len(mixing.weights)))
            base = mixing.base if isinstance(mixing, Mixing) else None
            assert base is None or len(base) == len(mixing.weights)


@pytest.mark.parametrize("name", EQUAL)
@settings(deadline=None, max_examples=3)
@given(seed=st.integers(0, 2**30), clients=st.integers(3, 6))
def test_3_no_favourites(seed, clients, name):
    """Relabelled clients are sent the same models under their new names."""
    round, survey = random_round(seed, clients, name), random_survey(seed, clients)
    order = np.random.default_rng(seed).permutation(clients)
    plain = given_models(name, round, survey)
    renamed = given_models(name, relabelled(name, round, order), shuffled(survey, order))
    for new, old in enumerate(order.tolist()):
        np.testing.assert_allclose(renamed[new], plain[old], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", SHARED)
@settings(deadline=None, max_examples=3)
@given(seed=st.integers(0, 2**30), clients=st.integers(3, 6))
def test_3_no_favourites_of_a_step_without_conflict(seed, clients, name):
    round, survey = random_round(seed, clients, name), random_survey(seed, clients)
    order = np.random.default_rng(seed).permutation(clients)
    plain = given_models(name, round, survey, ConFREE())
    again = relabelled(name, round, order), shuffled(survey, order), ConFREE()
    renamed = given_models(name, *again)
    for new, old in enumerate(order.tolist()):
        np.testing.assert_allclose(renamed[new], plain[old], rtol=1e-3, atol=1e-3)


def robust_models(name: str, wrapper: str, round: Round, survey: Survey) -> dict[int, np.ndarray]:
    """What each client would be sent by a host under a robust wrapper."""
    algorithm = prepared(name, survey)
    if algorithm.surveys:
        round = replace(round, survey=survey)
    step = step_of(algorithm, [wrappers()[wrapper]()], round)
    for mixing in step.mixings.values():
        mixing.check(len(round.sent))
        assert (mixing.weights >= 0).all()
    sent = step.models(round.sent, round.start)
    if one := stepped(algorithm, step.mixings, replace(round, sent=sent)):
        everything = np.concatenate([tensor.flatten().numpy() for tensor in one.values()])
        return dict.fromkeys(round.clients, everything)
    models, route = mixed_models(
        step.mixings,
        sent,
        round.start,
        lambda names, clients: round.start.group(*names).select(clients),
    )
    flat = torch.cat([models[tensor].flatten(1) for tensor in models], dim=1)
    return {client: flat[row].numpy() for client, row in route.items()}


@pytest.mark.parametrize(
    ("name", "wrapper"),
    [
        pytest.param(*pair, marks=() if pair in COVERING else pytest.mark.slow)
        for pair in WITHSTANDING
    ],
)
@settings(deadline=None, max_examples=3)
@given(seed=st.integers(0, 2**30), clients=st.integers(1, 7))
def test_3_and_4_of_every_host_that_withstands_outliers(name, wrapper, seed, clients):
    """Weights are honest, and relabelled clients are sent the same under their new names."""
    round, survey = random_round(seed, clients, name), random_survey(seed, clients)
    plain = robust_models(name, wrapper, round, survey)
    assert all(np.isfinite(model).all() for model in plain.values())
    if name not in ORDERED:
        order = np.random.default_rng(seed).permutation(clients)
        again = relabelled(name, round, order), shuffled(survey, order)
        renamed = robust_models(name, wrapper, *again)
        for new, old in enumerate(order.tolist()):
            np.testing.assert_allclose(renamed[new], plain[old], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", SURVEYING)
@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 2**30), clients=st.integers(1, 6))
def test_3_no_favourites_in_a_survey(seed, clients, name):
    """The server's answer to a survey does not depend on who said what."""
    survey = random_survey(seed, clients)
    order = np.random.default_rng(seed).permutation(clients)
    first, second = prepared(name), prepared(name)
    for _ in range(2):  # the first answer of some is always the same
        plain, mixed = first.broadcast(survey), second.broadcast(shuffled(survey, order))
    assert plain.keys() == mixed.keys()
    for key in plain:
        assert np.isfinite(plain[key]).all()
        np.testing.assert_allclose(mixed[key], plain[key], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", SURVEYING)
def test_7_a_survey_that_nobody_answered_changes_nothing(name):
    """Those whose losses or gradients are not finite are left out, and that may be everybody."""
    survey = random_survey(1, 3)
    nobody = Survey((), {key: values[:0] for key, values in survey.values.items()})
    algorithm = prepared(name, survey)
    before = saved(algorithm.state())
    for values in algorithm.broadcast(nobody).values():
        assert np.isfinite(values).all()
    assert saved(algorithm.state()) == before


@pytest.mark.parametrize("name", MIXING)
@settings(deadline=None, max_examples=3)
@given(seed=st.integers(0, 2**30))
def test_a_single_client_is_left_alone(seed, name):
    """Means of one are what it sent; a step may be of another length than the client's own."""
    round, algorithm = random_round(seed, 1, name), prepared(name)
    mixings = algorithm.mix(surveyed(round, None)).values()
    if algorithm.has_server_step or any(getattr(m, "base", None) is not None for m in mixings):
        return
    sent = torch.cat([t.flatten() for t in round.sent.tensors.values()]).numpy()
    given = given_models(name, round, random_survey(seed, 1))
    np.testing.assert_allclose(given[0], sent, rtol=1e-6)


@pytest.mark.parametrize("name", MIXING)
@settings(deadline=None, max_examples=3)
@given(seed=st.integers(0, 2**30))
def test_server_state_survives_a_file(seed, name):
    """State is plain values and arrays: read again, the next round is the same, bit for bit."""
    surveys = bool(algorithms()[name].surveys)
    first, second = prepared(name), prepared(name)
    if surveys:
        first.broadcast(random_survey(seed, 5))
    before = surveyed(random_round(seed, 5, name), random_survey(seed, 5))
    stepped(first, first.mix(before), before)
    second.load(restored(saved(first.state())))
    if surveys:
        wanted_brief, found_brief = (
            a.broadcast(random_survey(seed + 1, 5)) for a in (first, second)
        )
        for key, values in wanted_brief.items():
            np.testing.assert_array_equal(values, found_brief[key])
    following = random_round(seed + 1, 5, name, number=2)
    following = surveyed(following, random_survey(seed + 1, 5))
    wanted, found = first.mix(following), second.mix(following)
    one, other = stepped(first, wanted, following), stepped(second, found, following)
    assert all(torch.equal(one[tensor], other[tensor]) for tensor in one)
    assert saved(first.state()) == saved(second.state())
    for key, mixing in wanted.items():
        np.testing.assert_array_equal(mixing.weights, found[key].weights)


JOINING = {"threshold": 1e9, "patience": 1, "merge": "earned"}
"""Every cluster has stalled in every round, and joins as soon as it gains."""


def course(name: str, seed: int, clients: int, presence: float = 1.0) -> list[Round]:
    """Six rounds in which clients take part by chance; updates go along one line, either way."""
    rng, rounds = np.random.default_rng(seed), []
    for number in range(1, 7):
        round = random_round(int(rng.integers(2**30)), clients, name, number)
        signs = torch.as_tensor(rng.choice([-1.0, 1.0], clients), dtype=torch.float32)
        sent = {}
        for key, tensor in round.sent.tensors.items():
            line = tensor[0] - round.start[key][0]
            sent[key] = tensor + torch.einsum("c,...->c...", signs, line)
        present = np.flatnonzero(rng.random(clients) < presence).tolist() or [0]
        rounds.append(replace(round, sent=Fleet(sent)).only(present))
    return rounds


@pytest.mark.parametrize("name", ["fedpref", "cfl"])
@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**30), clients=st.integers(3, 6))
def test_3_no_favourites_where_clusters_join(name, seed, clients):
    """Relabelled clients end in the same clusters under their new names."""
    plain, renamed = make(name, JOINING), make(name, JOINING)
    order = np.random.default_rng(seed).permutation(clients)
    for round in course(name, seed, clients):
        plain.mix(round)
        renamed.mix(relabelled(name, round, order))
        old = {frozenset(order[members].tolist()) for members in renamed.diagnostics()["clusters"]}
        assert old == {frozenset(members) for members in plain.diagnostics()["clusters"]}


@pytest.mark.parametrize("name", ["fedpref", "cfl"])
@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**30), clients=st.integers(1, 6))
def test_4_5_and_7_where_clusters_join(name, seed, clients):
    """Weights are honest, absent clusters stay as they are, and a file holds all of the state."""
    algorithm, before = make(name, JOINING), [list(range(clients))]
    for round in course(name, seed, clients, presence=0.7):
        restarted = make(name, JOINING)
        restarted.load(restored(saved(algorithm.state())))
        mixing = algorithm.mix(round)["*"]
        mixing.check(len(round.participants))
        np.testing.assert_array_equal(restarted.mix(round)["*"].weights, mixing.weights)
        assert saved(restarted.state()) == saved(algorithm.state())
        clusters = algorithm.diagnostics()["clusters"]
        assert sorted(client for members in clusters for client in members) == [*range(clients)]
        absent = [members for members in before if not set(members) & set(round.participants)]
        assert all(members in clusters for members in absent)
        before = clusters


@pytest.mark.parametrize("name", ["fedpref", "cfl"])
@pytest.mark.parametrize("presence", [1.0, 0.7])
def test_clusters_join_in_the_rounds_of_these_laws(name, presence):
    joined = 0
    for seed in range(10):
        algorithm, counts = make(name, JOINING), [1]
        for round in course(name, seed, 5, presence):
            algorithm.mix(round)
            counts.append(len(algorithm.diagnostics()["clusters"]))
        joined += any(after < before for before, after in pairwise(counts))
    assert joined > 3
