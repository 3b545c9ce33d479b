"""Wrappers: server rules that go on top of any algorithm. Importing this registers all of them."""

from importlib import import_module
from pkgutil import iter_modules

from comity.algorithms.wrappers.base import (
    NONE,
    Mixings,
    Wrapper,
    WrapperDeclaration,
    find_wrapper,
    find_wrappers,
    fits,
    wrapper,
    wrappers,
)

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = [
    "NONE",
    "Mixings",
    "Wrapper",
    "WrapperDeclaration",
    "find_wrapper",
    "find_wrappers",
    "fits",
    "wrapper",
    "wrappers",
]
