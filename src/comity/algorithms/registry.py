"""The registry of algorithms: shipped ones by name, a user's own as ``module:class``."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from types import ModuleType
from typing import Any, TypeVar

from comity.algorithms.base import Algorithm, Declaration
from comity.algorithms.taxonomy import find_cell
from comity.core.importing import imported, is_reference
from comity.errors import UserError, unknown
from comity.settings import build

A = TypeVar("A", bound=type[Algorithm])
_REGISTRY: dict[str, type[Algorithm]] = {}
_PACKAGE = "comity."


def algorithm(
    name: str, *, title: str, paper: str, place: str, method: str, communication: str
) -> Callable[[A], A]:
    """Register an algorithm under a name; the arguments are the fields of its `Declaration`."""
    find_cell(place)

    def declare(cls: A) -> A:
        if "losses" not in cls.needs and implies_losses(cls):
            raise TypeError(
                f"{cls.__name__}.needs must contain 'losses': it has another need, a build or an "
                "on_receipt of its own, or surveys clients."
            )
        if is_shipped(_REGISTRY.get(name, cls)) and not is_shipped(cls):
            raise UserError(
                f"algorithm '{name}' of {cls.__module__}: Comity has one of this name; declare "
                "yours under another."
            )
        if re.fullmatch(r"[\w-]+", name) is None:
            raise UserError(
                f"algorithm '{name}' of {cls.__module__}: a name has letters, digits, _ and -."
            )
        _check_hooks(cls)
        _check_values(cls)
        cls.declaration = Declaration(name, title, paper, place, method, communication)
        _REGISTRY[name] = cls
        return cls

    return declare


def is_shipped(cls: type[Algorithm]) -> bool:
    """Return whether an algorithm is one of Comity's."""
    return cls.__module__.startswith(_PACKAGE)


def _check_hooks(cls: type[Algorithm]) -> None:
    """Refuse a method whose name is nearly that of a hook: nothing would call it."""
    hooks = [name for name in dir(Algorithm) if not name.startswith("_")]
    for name, value in vars(cls).items():
        if callable(value) and name not in hooks and not name.startswith("_"):
            for hook in get_close_matches(name, hooks, n=1, cutoff=0.85):
                raise UserError(
                    f"{cls.__name__}.{name}: there is no such hook, nothing would call it; did you "
                    f"mean {hook}? Give a helper of your own another name, such as _{name}."
                )


def _check_values(cls: type[Algorithm]) -> None:
    """Refuse declared values of other kinds, and settings that stand in a declaration's place."""
    kinds = {n: k for n, k in Algorithm.__annotations__.items() if k.startswith("ClassVar")}
    for name in cls.model_fields:
        if name in kinds:
            raise UserError(
                f"{cls.__name__}.{name}: what an algorithm declares has no annotation, which makes "
                f"it a setting; write {name} = … alone."
            )
        for near in get_close_matches(name, kinds, n=1, cutoff=0.85):
            raise UserError(
                f"{cls.__name__}.{name}: did you mean what algorithms declare, {near} = …? Give a "
                "setting of your own another name."
            )
    for name, kind in kinds.items():
        value = getattr(cls, name, None)
        if kind == "ClassVar[tuple[str, ...]]" and isinstance(value, str):
            raise UserError(
                f"{cls.__name__}.{name} = {value!r}: must be a tuple of names; one alone has a "
                f"comma: ({value!r},)."
            )
        if name == "needs" and not isinstance(value, frozenset | set):
            raise UserError(
                f"{cls.__name__}.needs = {value!r}: must be a set of names: "
                'frozenset({"losses"}).'
            )


def implies_losses(cls: type[Algorithm]) -> bool:
    """Return whether something that an algorithm declares works with differentiable losses only."""
    rewards = "rewards" in cls.needs
    wraps = (cls.build is not Algorithm.build and not rewards) or (
        cls.on_receipt is not Algorithm.on_receipt
    )
    return wraps or bool(cls.needs - {"rewards"}) or bool(cls.surveys)


def algorithms() -> dict[str, type[Algorithm]]:
    """Return all registered algorithms by name."""
    return dict(_REGISTRY)


def find(name: str) -> type[Algorithm]:
    """Return an algorithm.

    Args:
        name: Name of a registered algorithm, or ``module:class`` of your own.

    Raises:
        UserError: there is none of this name.
    """
    if is_reference(name):
        return _own(name)
    if name not in _REGISTRY:
        raise UserError(
            f"{unknown('algorithm', name, _REGISTRY)} One of your own is named module:class."
        )
    return _REGISTRY[name]


def _own(reference: str) -> type[Algorithm]:
    """Return the algorithm ``module:class``."""
    cls = imported("algorithm", reference)
    if not (isinstance(cls, type) and issubclass(cls, Algorithm)):
        named = "a module" if isinstance(cls, ModuleType) else f"a {type(cls).__name__}"
        kind = cls.__name__ if isinstance(cls, type) else named
        raise UserError(f"algorithm '{reference}' is {kind}, not a class of comity.Algorithm.")
    _check_declared(cls, reference)
    return cls


def _check_declared(cls: type[Algorithm], name: str) -> None:
    """Refuse a class without a declaration of its own; one that it inherits is another's."""
    if "declaration" not in vars(cls):
        raise UserError(
            f"algorithm '{name}' is not declared: put @comity.algorithm(name, title=…, …) above "
            "its class."
        )


def name_of(choice: object) -> str:
    """Return the name by which `find` finds an algorithm, in other processes too if it can.

    Args:
        choice: A name, which stays as it is, or a class. A class that can be imported becomes
            ``module:class``. Shipped ones, and those of a script or a notebook, which no other
            process can import, have their declared name.
    """
    if isinstance(choice, Algorithm):
        name = type(choice).declaration.name
        raise UserError(
            f"algorithm: give the class {type(choice).__name__} instead of an object, and its "
            f'settings as a table: **{{"{name}": {{…}}}}.'
        )
    if not (isinstance(choice, type) and issubclass(choice, Algorithm)):
        return str(choice)
    cls = choice
    _check_declared(cls, cls.__qualname__)
    module = cls.__module__
    importable = getattr(sys.modules.get(module), cls.__qualname__, None) is cls
    if not importable or module == "__main__" or is_shipped(cls):
        return cls.declaration.name
    return f"{module}:{cls.__qualname__}"


def make(name: str, values: Mapping[str, Any]) -> Algorithm:
    """Return an algorithm with the given settings; a wrong one is a `UserError`."""
    cls = find(name)
    return build(cls, values, where=cls.declaration.name)
