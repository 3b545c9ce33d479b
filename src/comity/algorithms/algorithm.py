"""What an algorithm is: what is federated about a federation.

An algorithm is its settings, a few hooks and a declaration. Client hooks are written for one
client; the server's one step is `mix`: who learns from whom. Everything that the rest of the
system knows about an algorithm (lists, docs, validation, error messages) it reads from here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from comity.errors import unknown
from comity.fleet import Fleet
from comity.local import Phase
from comity.mixing import Mixing
from comity.settings import Settings, build


@dataclass(frozen=True)
class Declaration:
    """An algorithm's place on the map of the field."""

    name: str
    title: str
    paper: str
    family: str
    travels: str
    tuned: Mapping[str, Mapping[str, Any]]
    """The paper's settings by problem; ``local_steps`` among them speaks to the learner."""


@dataclass(frozen=True)
class Round:
    """What the server sees of a round: the clients that sent, in the order of their ids."""

    number: int
    present: tuple[int, ...]
    everyone: tuple[int, ...]
    sent: Fleet
    """One row a client; where objectives are trained apart, one an objective of each client."""
    start: Fleet
    """The model from which each row started this round."""
    sizes: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    """How much data each present client has; equal for environments."""


@dataclass(frozen=True)
class Survey:
    """What the present clients said of the models that they received, before training."""

    present: tuple[int, ...]
    values: Mapping[str, NDArray[np.float64]]
    """``losses`` and ``preferences``, one row a client, where the algorithm asks for them."""
    gradients: Fleet | None = None
    """One row an objective of each client, client by client."""


Asked = Literal["gradients", "losses", "preferences"]


class Algorithm(Settings):
    """Base class: settings as fields, server state as private attributes."""

    declaration: ClassVar[Declaration]
    personal: ClassVar[bool] = True
    """Each client trains on from a model of its own, so a client may decline what it is sent."""
    communicates: ClassVar[bool] = True
    surveys: ClassVar[tuple[Asked, ...]] = ()
    """What clients tell the server in a first exchange, before they train."""
    apart: ClassVar[bool] = False
    """Clients train one copy for each objective alone, from the same start, and send them all."""

    @classmethod
    def needs_losses(cls) -> bool:
        """It reads the objectives as differentiable losses, which environments do not have."""
        return cls.apart or "gradients" in cls.surveys or "losses" in cls.surveys

    def phase(self) -> Phase:
        """How a client trains in a round. Default: on its own objective."""
        return Phase()

    def brief(self, survey: Survey) -> dict[str, NDArray[np.float64]]:
        """The server's answer to a survey, the same for all clients (`View.brief`)."""
        return {}

    def mix(self, round: Round) -> Mapping[str, Mixing]:
        """Who learns from whom, by tensor name; the key ``"*"`` stands for all other tensors."""
        raise NotImplementedError

    def clusters(self) -> list[list[int]] | None:
        """The present partition of the clients, for algorithms that keep one."""
        return None

    def state(self) -> dict[str, Any]:
        """What the server must remember, as plain values."""
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
    travels: str,
    tuned: Mapping[str, Mapping[str, Any]] | None = None,
) -> Callable[[A], A]:
    """Register an algorithm under a name, with its declaration."""

    def declare(cls: A) -> A:
        cls.declaration = Declaration(name, title, paper, family, travels, tuned or {})
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
