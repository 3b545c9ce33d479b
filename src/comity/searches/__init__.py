"""Searches: a layer above federations that looks for a whole front of models."""

from comity.searches import annealing, gap, grid, uniform
from comity.searches.candidates import Findings, Generator, find, generator, generators
from comity.searches.configuration import SearchConfiguration, SearchSettings, configure_search
from comity.searches.directory import ModelFront, Search

__all__ = [
    "Findings",
    "Generator",
    "ModelFront",
    "Search",
    "SearchConfiguration",
    "SearchSettings",
    "annealing",
    "configure_search",
    "find",
    "gap",
    "generator",
    "generators",
    "grid",
    "uniform",
]
