"""Checks of the laws that every algorithm obeys, for an algorithm of your own.

Each check runs a small federation. What the house enforces by itself (a client sends what is
declared and nothing else, an absent client keeps its tensors) is not checked here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor

from comity.algorithms import Algorithm, Round, find, name_of
from comity.algorithms.wrappers.application import server_models
from comity.configuration import Configuration, configure
from comity.core.fleet import Fleet
from comity.core.typing import IntArray, Tree
from comity.federation.agreement import Agreement
from comity.federation.engines.deployed import DeployedEngine, Terms
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import RoundLoop, SimulatedLoop
from comity.federation.messages import ClientUpdate, RoundRequest
from comity.federation.neighbours import server_of
from comity.federation.record import RoundRecord
from comity.federation.server import Server
from comity.federation.site import Membership, Site
from comity.federation.transports.memory import MemoryTransport

_SMALL: Mapping[str, Any] = {"clients": 4, "rounds": 3, "chunk": 1, "keep": "last", "seed": 1}
_SGD = {"local_steps": 3, "optimiser": "sgd", "learning_rate": 0.1}


def check_algorithm(
    algorithm: str | type[Algorithm], problem: str = "german-credit-gender-dp", **settings: Any
) -> list[str]:
    """Check an algorithm in small federations of four clients; return the laws that it obeys.

    Args:
        algorithm: Its class or its name.
        problem: What is learned, by name.
        **settings: Settings of the runs, as for `comity.run`: ``rounds``, tables ...

    Raises:
        AssertionError: names the law that is broken.
        UserError: the algorithm does not fit the problem or the settings.
    """
    defaults = {**_SMALL, "problem": problem, "algorithm": name_of(algorithm)}
    if problem == "german-credit-gender-dp":
        defaults["supervised"] = _SGD
    checked = _Checked({**defaults, **settings})
    checked.configuration()  # what does not fit is the user's error
    for law, check in _LAWS.items():
        try:
            check(checked)
        except Exception as error:
            name = checked.algorithm.declaration.name
            reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise AssertionError(f"{name}: {law}: {reason}") from error
    return list(_LAWS)


@dataclass(frozen=True)
class _Checked:
    """An algorithm under check: the settings of its runs."""

    values: Mapping[str, Any]

    @property
    def algorithm(self) -> type[Algorithm]:
        return find(self.values["algorithm"])

    def configuration(self, **others: Any) -> Configuration:
        return configure({**self.values, **others})

    def end(self, spoil: Callable[[ClientUpdate], None] | None = None, **others: Any) -> _End:
        """Return the end of a run."""
        configuration = self.configuration(**others)
        with EmbeddedEngine(configuration) as engine:
            server = server_of(configuration)
            recorder = _Recorder(server.algorithm)
            server.algorithm = recorder  # type: ignore[assignment]
            loop = SimulatedLoop(_Spoiling(engine, spoil) if spoil else engine, server)
            records = [record for (record,) in loop.rounds()]
            loop.finish()
            return _End(engine.models(kept=False).clone(), recorder.rounds, records)


@dataclass(frozen=True)
class _End:
    """The end of a run: models of all clients, and the rounds that the server's rule saw."""

    models: Fleet
    rounds: list[Round]
    records: list[RoundRecord]


@dataclass
class _Recorder:
    """An algorithm that keeps the rounds it is given."""

    algorithm: Algorithm
    rounds: list[Round] = field(default_factory=list)

    def mix(self, round: Round) -> Any:
        self.rounds.append(round)
        before = round.sent.clone()
        mixings = self.algorithm.mix(round)
        changed = [name for name in before if not _alike(before[name], round.sent[name])]
        assert not changed, f"mix changes round.sent in place: {', '.join(changed)}"
        return mixings

    def __getattr__(self, name: str) -> Any:
        return getattr(self.algorithm, name)


@dataclass
class _Spoiling:
    """An engine on which something happens to the updates of clients."""

    engine: EmbeddedEngine
    spoil: Callable[[ClientUpdate], None]

    def round(self, request: RoundRequest) -> ClientUpdate:
        update = self.engine.round(request)
        self.spoil(update)
        return update

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


# -- the laws ------------------------------------------------------------------------------


def _runs(checked: _Checked) -> None:
    end = checked.end()
    for record in end.records:
        assert not record.unmixed, " ".join(record.events)
    _assert_finite(end.models)


def _repeatable(checked: _Checked) -> None:
    _assert_equal(checked.end().models, checked.end().models)


def _one_fleet_or_many(checked: _Checked) -> None:
    one, many = checked.end(chunk=4).models, checked.end(chunk=1).models
    for name in one:
        _assert_close(one[name], many[name], name)


def _no_favourites(checked: _Checked) -> None:
    rounds = checked.end().rounds
    if not rounds or checked.algorithm.centralised:
        return
    order = np.roll(np.arange(len(rounds[0].participants)), 1)
    plain = _delivered(checked, rounds[0])
    renamed = _delivered(checked, _relabelled(rounds[0], order))
    for new, old in enumerate(order.tolist()):
        for name, tensor in renamed[new].items():
            _assert_close(tensor, plain[old][name], f"client {old}, {name}")


def _stop_anywhere(checked: _Checked) -> None:
    whole, configuration = checked.end().models, checked.configuration()
    with _loop(configuration) as loop:
        next(loop.rounds())
        arrays, values = loop.state()
        arrays = {name: array.copy() for name, array in arrays.items()}
        text = json.dumps(values)
    with _loop(configuration) as loop:
        loop.load(arrays, json.loads(text))
        list(loop.rounds())
        loop.finish()
        _assert_equal(loop.engine.models(kept=False), whole)


def _absent_is_not_wrong(checked: _Checked) -> None:
    if checked.algorithm.centralised:
        return
    _assert_finite(checked.end(participation=0.5).models)
    _assert_finite(checked.end(absences=[[1, 0, "round"], [2, 3, "round"]]).models)


def _broken_is_left_out(checked: _Checked) -> None:
    def spoil(update: ClientUpdate) -> None:
        if update.models is not None:
            for tensor in update.models.tensors.values():
                tensor[0] = torch.nan

    end = checked.end(spoil)
    _assert_finite(end.models)
    events = [event for record in end.records for event in record.events]
    assert not end.rounds or any("client 0" in event for event in events)


def _simulated_is_deployed(checked: _Checked) -> None:
    configuration, identity = checked.configuration(), "0" * 64
    if checked.algorithm.centralised or configuration.topology != "star":
        return
    agreement = Agreement(configuration)
    names = tuple(f"site-{client}" for client in range(configuration.clients))
    with TemporaryDirectory() as home:
        sites = {
            name: Site(Path(home) / name, configuration, Membership(client, identity), agreement)
            for client, name in enumerate(names)
        }
        transport = MemoryTransport({name: site.answer for name, site in sites.items()})
        engine = DeployedEngine(Terms(names, identity), agreement, transport)
        loop = RoundLoop(engine, Server(configuration))
        list(loop.rounds())
        loop.finish()
        models = Fleet.cat([site.clients.models(kept=False) for site in sites.values()])
    _assert_equal(models, checked.end().models)


_LAWS: Mapping[str, Callable[[_Checked], None]] = {
    "it runs, and models stay finite": _runs,
    "the same configuration gives the same bits": _repeatable,
    "clients train alike in one fleet or in many": _one_fleet_or_many,
    "reordering clients changes nothing": _no_favourites,
    "an interrupted and resumed run equals an uninterrupted one": _stop_anywhere,
    "absent clients are not wrong": _absent_is_not_wrong,
    "a client whose model is not finite is left out": _broken_is_left_out,
    "real sites give the bits of the simulation": _simulated_is_deployed,
}
"""Checks by the law that they check. Every mixing is checked for honest weights besides."""


@contextmanager
def _loop(configuration: Configuration) -> Iterator[SimulatedLoop]:
    with EmbeddedEngine(configuration) as engine:
        yield SimulatedLoop(engine, server_of(configuration))


def _relabelled(round: Round, order: IntArray) -> Round:
    """Return the same round, in which clients have other numbers."""
    each = len(round.sent) // len(order)
    rows = (order[:, None] * each + np.arange(each)).ravel()
    survey = round.survey
    if survey is not None and len(survey.participants) == len(order):
        gradients = survey.gradients
        if gradients is not None:
            count = len(gradients) // len(order)
            gradients = gradients.select((order[:, None] * count + np.arange(count)).ravel())
        values = {name: values[order] for name, values in survey.values.items()}
        survey = replace(survey, values=values, gradients=gradients)
    return replace(
        round,
        sent=round.sent.select(rows),
        start=round.start.select(rows),
        sizes=round.sizes[order],
        statistics={name: values[order] for name, values in round.statistics.items()},
        survey=survey,
    )


def _delivered(checked: _Checked, round: Round) -> list[Tree]:
    """Return the tensors that each client would be sent after a first round."""
    algorithm = checked.configuration().get_algorithm()
    if round.survey is not None:
        algorithm.broadcast(round.survey)
    each = len(round.sent) // len(round.participants)

    def previous(names: Any, clients: Any) -> Fleet:
        held = Fleet({name: round.start[name] for name in names})
        return held.select([client * each for client in clients])

    parameters = [name for name in round.sent if name not in round.buffers]
    models, route = server_models(
        algorithm, algorithm.mix(round), round.sent, round.start, parameters, previous
    )
    rows = [route.get(client) for client in round.clients]
    return [
        {} if row is None else {name: tensor[row] for name, tensor in models.tensors.items()}
        for row in rows
    ]


def _assert_equal(one: Fleet, other: Fleet) -> None:
    different = [name for name in one if not _alike(one[name], other[name])]
    assert not different, f"other bits in {', '.join(different)}"


def _alike(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have the same values; what is not a number equals itself."""
    return torch.equal(one.isnan(), other.isnan()) and torch.equal(
        one.nan_to_num(), other.nan_to_num()
    )


def _assert_close(one: Tensor, other: Tensor, where: str) -> None:
    """Refuse tensors that differ by more than other orders of summation make them differ."""
    close = torch.allclose(one, other, rtol=1e-3, atol=1e-4)
    assert close, f"{where} differs by up to {(one - other).abs().max().item():.2g}"


def _assert_finite(models: Fleet) -> None:
    broken = np.flatnonzero(~models.finite()).tolist()
    assert not broken, f"models of clients {broken} are not finite"
