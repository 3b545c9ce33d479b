"""Differential privacy of every registered algorithm: a noised update leaves, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from comity.algorithms import find
from comity.configuration import Configuration
from comity.core.fleet import Fleet
from comity.core.mixing import TARGET
from comity.core.rng import stream
from comity.errors import UserError
from comity.federation.clients import Clients
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.initial_model import initial_fleet
from comity.federation.loop import RoundLoop
from comity.federation.neighbours import server_of
from comity.problems import find as find_problem
from tests.laws.conftest import ALGORITHMS, CASES, CONTINUOUS, WRAPPED, data_of, settings_of
from tests.tiny import tiny

CLIP, NOISE = 0.01, 0.5
PRIVACY = {"clip": CLIP, "noise": NOISE}
DOCS = Path(__file__).parents[2] / "docs" / "privacy.md"


def flat(models: Fleet, names: list[str], row: int) -> np.ndarray:
    return np.concatenate([models[name][row].numpy().ravel() for name in names]).astype(float)


class Overheard:
    """What clients received and sent, as an eavesdropper with the seed sees it."""

    def __init__(self, configuration: Configuration) -> None:
        self.seed = configuration.seed
        self.base: dict[int, Fleet] = {}
        self.initial = initial_fleet(configuration, 1)
        self.messages, self.lengths = 0, list[float]()

    def received(self, clients: tuple[int, ...], models: Fleet | None) -> None:
        for row, client in enumerate(clients if models is not None else ()):
            self.base[client] = models.select([row]).clone()

    def sent(self, update: Any, number: int) -> None:
        """Take note of a message; without its noise it is not longer than the clip."""
        self.messages += 1
        assert update.statistics == {}
        if update.models is None:
            return
        assert len(update.models) == len(update.clients)
        names = list(update.models)
        for row, client in enumerate(update.clients):
            base = self.base.get(client)
            if base is None:
                base = Fleet({n: self.initial[n.removeprefix(TARGET)] for n in names})
            moved = flat(update.models, names, row) - flat(base, names, 0)
            normal = stream(self.seed, "privacy", number, client).standard_normal(len(moved))
            assert moved @ normal > 0.5 * NOISE * CLIP * normal @ normal, "it is noised"
            self.lengths.append(float(np.linalg.norm(moved - NOISE * CLIP * normal)))


def overhear(configuration: Configuration, monkeypatch: Any) -> Overheard:
    heard = Overheard(configuration)
    for method in ("survey", "round", "collect", "finish"):
        original = getattr(Clients, method)

        def listening(self, request, *more, original=original):
            heard.received(request.clients, request.models)
            update = original(self, request, *more)
            heard.sent(update, request.round)
            return update

        monkeypatch.setattr(Clients, method, listening)
    with EmbeddedEngine(configuration) as engine:
        loop = RoundLoop(engine, server_of(configuration))
        list(loop.rounds())
        loop.finish()
    return heard


def private(values: dict[str, Any]) -> Configuration | None:
    """Return the configuration under differential privacy; None if it is refused with a reason."""
    algorithm = find(values["algorithm"])
    reason = algorithm().needs_exact(find_problem(values["problem"]))
    assert bool(reason) >= bool(algorithm.surveys or algorithm.statistics or algorithm.ensembles)
    if not reason:
        return tiny(**values, privacy=PRIVACY)
    with pytest.raises(UserError, match=rf"privacy: \S+ {re.escape(reason)}, which the noise"):
        tiny(**values, privacy=PRIVACY)
    return None


@pytest.mark.parametrize("entry", [*CASES, *CONTINUOUS, *WRAPPED], ids="-".join)
def test_a_clipped_and_noised_update_leaves_or_the_algorithm_is_refused(entry, monkeypatch):
    values = settings_of(*entry)
    configuration = private({**values, "rounds": 3})
    if configuration is None:
        return
    heard = overhear(configuration, monkeypatch)
    assert heard.messages == 8  # of two chunks: three rounds and the last delivery
    if not find(values["algorithm"]).communicates:
        assert not heard.lengths
        return
    assert len(heard.lengths) == 12
    assert max(heard.lengths) <= CLIP * (1 + 1e-3)
    if values["problem"] not in ("tiny-treasure", "tiny-trolley"):  # these learn later
        assert max(heard.lengths) > CLIP * (1 - 1e-3), "something was clipped"


VARIANTS: dict[str, dict[str, Any]] = {
    "guard": {"guard": True},
    "some take part": {"participation": 0.5},
    "absent": {"absences": [[2, 1, "round"]]},
    "neighbours": {"topology": "neighbours", "graph": "ring"},
    "fine-tuned": {"fine_tune": "extra:1"},
    "exact": {"encoding": "exact"},
    "targets": {"problem": "tiny-treasure", "dqn": {"average_targets": True}},
}


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("algorithm", ["fedavg", "fedpref"])
def test_also_in_variants_of_a_run(algorithm, name, monkeypatch):
    values = {"problem": "tiny-people", "algorithm": algorithm, **VARIANTS[name]}
    heard = overhear(tiny(**values, privacy=PRIVACY), monkeypatch)
    assert heard.lengths
    assert max(heard.lengths) <= CLIP * (1 + 1e-3)


def test_one_fleet_or_many():
    """The noise of a client does not depend on the clients that are trained beside it."""
    models = []
    for chunk in (1, 4):
        values = {"problem": "tiny-people", "algorithm": "fedpref", "chunk": chunk}
        configuration = tiny(**values, privacy=PRIVACY)
        with EmbeddedEngine(configuration) as engine:
            list(RoundLoop(engine, server_of(configuration)).rounds())
            models.append(engine.models(kept=False).clone())
    for name in models[0]:
        np.testing.assert_allclose(models[0][name], models[1][name], rtol=1e-4, atol=1e-5)


def test_the_docs_name_what_is_supported():
    supported = {
        name for name in ALGORITHMS if not find(name)().needs_exact(find_problem(data_of(name)))
    }
    line = next(text for text in DOCS.read_text().splitlines() if text.startswith("Supported: "))
    assert set(re.findall(r"`([\w-]+)`", line)) == supported
    assert {"fedavg", "fedpref", "ditto"} <= supported
    assert not supported & {"fairfed", "fedcmoo", "fsmgda", "fedpac", "lft-ensemble"}
