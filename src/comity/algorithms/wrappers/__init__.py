"""Wrappers: server rules that go on top of any algorithm. Importing this registers all of them."""

from importlib import import_module
from pkgutil import iter_modules

from comity.algorithms.wrappers.base import (
    Mixings,
    Wrapper,
    WrapperDeclaration,
    find_wrapper,
    fits,
    wrapper,
    wrappers,
)

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = [
    "Mixings",
    "Wrapper",
    "WrapperDeclaration",
    "find_wrapper",
    "fits",
    "wrapper",
    "wrappers",
]
