"""The interface of a wrapper, which changes the server's step of an algorithm, and the registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from pydantic import PrivateAttr

from comity.algorithms.base import Algorithm, Round
from comity.algorithms.taxonomy import find_cell
from comity.core.mixing import Mixing, Pick
from comity.core.typing import FloatArray
from comity.errors import UserError, unknown
from comity.settings import Settings, build

Mixings = Mapping[str, Mixing | Pick]
"""Result of `Algorithm.mix`."""


@dataclass(frozen=True)
class WrapperDeclaration:
    """A wrapper's name and place on the map of the field."""

    name: str
    """As users write it: ``--with confree``, ``fedavg+confree``."""
    title: str
    paper: str
    place: str
    """Label of its cell in the taxonomy (`comity.algorithms.taxonomy`)."""
    method: str
    """Its treatment of several objectives, or else its rule, in a few words."""


class Wrapper(Settings):
    """Base class: a server rule on top of an algorithm, its host; settings are fields.

    With the name of a host, ``ConFREE("fedrep", c=0.3)``, it may be passed as ``algorithm`` of
    `comity.run`; the host may be wrapped itself: ``ConFREE(Clip("fedrep"))`` clips first.
    """

    declaration: ClassVar[WrapperDeclaration]
    """Set by the decorator `wrapper`."""

    _host: str | Wrapper | None = PrivateAttr(None)

    def __init__(self, host: str | Wrapper | None = None, /, **values: Any) -> None:
        if host is not None:
            build(type(self), values, where=self.declaration.name)  # faults become a `UserError`
        super().__init__(**values)
        self._host = host

    @property
    def host(self) -> str | None:
        """Name of the algorithm that is wrapped, if the user gave it here."""
        return self._host.host if isinstance(self._host, Wrapper) else self._host

    def run_settings(self) -> dict[str, Any]:
        """Return the settings of a run of the host under this wrapper."""
        name = type(self).__name__
        if self._host is None:
            raise UserError(f"{name} needs an algorithm to go on top of: {name}('fedrep').")
        wrapper = self.declaration.name
        if isinstance(self._host, Wrapper):
            inner = self._host.run_settings()
            return {**inner, "wrapper": f"{inner['wrapper']},{wrapper}", wrapper: self.model_dump()}
        return {"algorithm": self._host, "wrapper": wrapper, wrapper: self.model_dump()}

    @classmethod
    def check(cls, algorithm: type[Algorithm]) -> None:
        """Refuse (`UserError`) an algorithm that this wrapper does not fit."""

    def combine(self, round: Round) -> FloatArray | None:
        """Return a matrix C that makes others of the clients' updates, before the host sees them.

        Δ'_i = Σ_j C_ij Δ_j (participants x participants); None: all stay as they are.

        Args:
            round: what the server received.
        """
        return None

    def adjust(
        self, mixings: Mixings, round: Round, shared_update: Sequence[str]
    ) -> tuple[Mixings, dict[str, float]]:
        """Return the mixings that take the place of a host's, and figures for the history.

        The figures are the history's ``conflict``; reports draw ``pairs``, ``mean`` and ``guided``.
        Default: the host's mixings.

        Args:
            mixings: what the host's `mix` returned.
            round: what the server received.
            shared_update: patterns of the tensors of which clients share one update.
        """
        return mixings, {}


NONE = "none"
"""The setting of a run without a wrapper."""
W = TypeVar("W", bound=type[Wrapper])
_REGISTRY: dict[str, type[Wrapper]] = {}


def wrapper(name: str, *, title: str, paper: str, place: str, method: str) -> Callable[[W], W]:
    """Register a wrapper under a name; the arguments are the fields of its declaration."""
    find_cell(place)

    def declare(cls: W) -> W:
        cls.declaration = WrapperDeclaration(name, title, paper, place, method)
        _REGISTRY[name] = cls
        return cls

    return declare


def wrappers() -> dict[str, type[Wrapper]]:
    """Return all registered wrappers by name."""
    return dict(_REGISTRY)


def find_wrapper(name: str) -> type[Wrapper]:
    """Return a registered wrapper by its name; an unknown one is a `UserError`."""
    if name not in _REGISTRY:
        raise unknown("wrapper", name, _REGISTRY)
    return _REGISTRY[name]


def find_wrappers(names: str) -> list[type[Wrapper]]:
    """Return the wrappers of a setting, ``clip,confree``, in their order; ``none``: no wrapper."""
    if names == NONE:
        return []
    listed = [name.strip() for name in names.split(",")]
    for place, name in enumerate(listed):
        if name not in _REGISTRY:
            raise unknown("wrapper", name, (NONE, *_REGISTRY))
        if name in listed[:place]:
            raise UserError(f"wrapper = '{names}': {name} occurs twice; name each once.")
    return [_REGISTRY[name] for name in listed]


def fits(wrapper: type[Wrapper], algorithm: type[Algorithm]) -> bool:
    """Return whether an algorithm may be the host of a wrapper."""
    try:
        wrapper.check(algorithm)
    except UserError:
        return False
    return True
