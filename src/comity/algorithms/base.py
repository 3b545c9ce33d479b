"""What an algorithm is: what is federated about a federation.

An algorithm is its settings, a few hooks and a declaration. Client hooks are written for one
client; the server's one step is `mix`: who learns from whom. Everything that the rest of the
system knows about an algorithm (lists, docs, validation, error messages) it reads from here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from torch import nn

from comity.core.fleet import Fleet
from comity.core.mixing import Mixing, Pick
from comity.core.phases import Phase, Update
from comity.core.typing import FloatArray, Tree
from comity.errors import unknown
from comity.problems import Problem
from comity.settings import Settings, build


@dataclass(frozen=True)
class Declaration:
    """An algorithm's place on the map of the field."""

    name: str
    title: str
    paper: str
    family: str
    communication: str
    tuned: Mapping[str, Mapping[str, Any]]
    """The paper's settings by problem; ``local_steps`` among them speaks to the learner."""


@dataclass(frozen=True)
class Round:
    """What the server sees of a round: the clients that sent, in the order of their ids."""

    number: int
    participants: tuple[int, ...]
    clients: tuple[int, ...]
    sent: Fleet
    """One row a client; where objectives are trained apart, one an objective of each client."""
    start: Fleet
    """The model from which each row started this round."""
    sizes: FloatArray = field(default_factory=lambda: np.zeros(0))
    """How much data each present client has; equal for environments."""
    statistics: Mapping[str, FloatArray] = field(default_factory=dict)
    """What the present clients told beside their models (`Algorithm.statistics`), one row each."""
    asked: int = 0
    """How many clients the round asked for; those whose models were broken are not present."""
    seed: int = 0
    """The run's, for rules that draw; see `comity.core.rng`."""


@dataclass(frozen=True)
class Survey:
    """What the present clients said of the models that they received, before training."""

    participants: tuple[int, ...]
    values: Mapping[str, FloatArray]
    """What the algorithm asks for (`Algorithm.surveys`) by name, one row a client."""
    gradients: Fleet | None = None
    """One row an objective of each client, client by client."""


class Algorithm(Settings):
    """Base class: settings as fields, server state as private attributes."""

    declaration: ClassVar[Declaration]
    personal: ClassVar[bool] = True
    """Each client trains on from a model of its own, so a client may decline what it is sent."""
    communicates: ClassVar[bool] = True
    surveys: ClassVar[tuple[str, ...]] = ()
    """What clients tell the server in a first exchange, before they train.

    Learners know ``gradients``, ``losses`` and ``preferences``; `answer` gives everything else.
    """
    sends: ClassVar[tuple[str, ...]] = ("*",)
    """Which tensors travel, as patterns of their names; all others never leave their client."""
    receive_as: ClassVar[Mapping[str, str]] = {}
    """Where received tensors are put, by prefixes of names; unless said, where they came from."""
    guided: ClassVar[tuple[str, ...]] = ()
    """Tensors, as patterns, of which clients share one update: ConFREE may choose the step."""
    statistics: ClassVar[tuple[str, ...]] = ()
    """Which tensors a client tells the server beside its model; they are not mixed."""
    apart: ClassVar[bool] = False
    """Clients train one copy for each objective alone, from the same start, and send them all."""

    centralised: ClassVar[bool] = False
    """No federation: the first client trains on the data of all, for everybody."""
    gathers: ClassVar[bool] = False
    """After the last round everybody gets what `gather` makes of everybody's model."""
    ordered: ClassVar[bool] = False
    """Its rule depends on the order of the clients by definition, not only on what they sent."""
    needs_groups: ClassVar[bool] = False
    """It reads labels and one group of people for each sample."""
    needs_classes: ClassVar[bool] = False
    """It reads labels that are classes, with one output of the network for each."""
    run_defaults: ClassVar[Mapping[str, Any]] = {}
    """Run-level settings under it unless somebody says otherwise."""

    @classmethod
    def needs_losses(cls) -> bool:
        """It reads the objectives as differentiable losses, which environments do not have."""
        local = cls.build is not Algorithm.build or cls.needs_groups or cls.needs_classes
        return local or cls.apart or "gradients" in cls.surveys or "losses" in cls.surveys

    def check(self, problem: Problem, participants: int) -> None:
        """Refuse (`UserError`) a run that its settings do not fit, before anything is written."""

    def build(self, model: nn.Module, problem: Problem) -> nn.Module:
        """The module that holds everything a client keeps, around the problem's network.

        Parameters that no gradient shall train have ``requires_grad = False``. The module's
        forward is the client's prediction.
        """
        return model

    def predictor(self, module: nn.Module, preference: FloatArray) -> nn.Module:
        """What `build` made, as a plain module that predicts at a client's preference."""
        return module

    def evaluation_preferences(self, objectives: int, purpose: str) -> FloatArray | None:
        """The preferences for which a client's model is judged, if it takes any; else None.

        Such a module's forward takes preferences after the inputs, see `Conditional`.
        """
        return None

    @property
    def select_after_training(self) -> bool:
        """One round is chosen for all by what clients have trained, not by what they were sent."""
        return False

    def phases(self, problem: Problem) -> Sequence[Phase]:
        """How a client trains in a round. Default: in one phase, on its own objective."""
        return [Phase()]

    def local_phases(self, problem: Problem) -> Sequence[Phase]:
        """How a client trains when the server neither tells it anything nor mixes afterwards."""
        return [replace(phase, weights=None, surveyed=False) for phase in self.phases(problem)]

    def survey_client(self, problem: Problem) -> Update:
        """How one client answers a survey, where it asks for more than learners know."""
        return lambda parameters, everything, view: {}

    def broadcast(self, survey: Survey) -> dict[str, FloatArray]:
        """The server's answer to a survey, the same for all clients (`View.broadcast`)."""
        return {}

    def mix(self, round: Round) -> Mapping[str, Mixing | Pick]:
        """Who learns from whom, by tensor name or pattern; ``"*"``, last, is all other tensors."""
        raise NotImplementedError

    def gather(self, models: Fleet, sizes: FloatArray) -> Tree:
        """What every client gets of the models that all hand over; a broken one has size 0."""
        raise NotImplementedError

    def clusters(self) -> list[list[int]] | None:
        """The present partition of the clients, for algorithms that keep one."""
        return None

    def diagnostics(self) -> dict[str, Any]:
        """What the history tells of the server's work in this round, as plain values."""
        return {}

    def state(self) -> dict[str, Any]:
        """What the server must remember, by name: plain values, and arrays."""
        return {}

    def load(self, state: dict[str, Any]) -> None:
        """Take back what `state` gave."""


A = TypeVar("A", bound=type[Algorithm])
_REGISTRY: dict[str, type[Algorithm]] = {}


def algorithm(
    name: str,
    *,
    title: str,
    paper: str,
    family: str,
    communication: str,
    tuned: Mapping[str, Mapping[str, Any]] | None = None,
) -> Callable[[A], A]:
    """Register an algorithm under a name, with its declaration."""

    def declare(cls: A) -> A:
        cls.declaration = Declaration(name, title, paper, family, communication, tuned or {})
        _REGISTRY[name] = cls
        return cls

    return declare


def algorithms() -> dict[str, type[Algorithm]]:
    """All registered algorithms by name."""
    return dict(_REGISTRY)


def find(name: str) -> type[Algorithm]:
    """A registered algorithm by its name."""
    if name not in _REGISTRY:
        raise unknown("algorithm", name, _REGISTRY)
    return _REGISTRY[name]


def make(name: str, values: Mapping[str, Any]) -> Algorithm:
    """An algorithm with given settings."""
    return build(find(name), values, where=name)
