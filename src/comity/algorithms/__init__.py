"""Algorithms, one module each. Importing this package registers all of them."""

from importlib import import_module
from pkgutil import iter_modules

from comity.algorithms.base import STEPS, Algorithm, Declaration, Need, Round, Survey
from comity.algorithms.registry import algorithm, algorithms, find, make, name_of

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = [
    "STEPS",
    "Algorithm",
    "Declaration",
    "Need",
    "Round",
    "Survey",
    "algorithm",
    "algorithms",
    "find",
    "make",
    "name_of",
]
