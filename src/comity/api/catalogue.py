"""What runs and searches can be made of: algorithms, problems, wrappers, generators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from html import escape

from comity.algorithms.registry import algorithms as registered_algorithms
from comity.algorithms.wrappers import wrappers as registered_wrappers
from comity.learners import LEARNERS
from comity.problems.registry import problems as registered_problems
from comity.runs.notebook import html_table
from comity.searches import generators as registered_generators
from comity.settings import SettingInfo, describe


@dataclass(frozen=True, repr=False)
class Entry:
    """One algorithm, problem, wrapper or generator."""

    name: str
    """The name that `run`, `compare` and `search` take."""
    summary: str
    """What it is, in one line."""
    facts: Mapping[str, str]
    """More about it, by heading."""
    settings: tuple[SettingInfo, ...]
    """Its settings; of a problem, those of its learner, with the problem's defaults."""

    def __repr__(self) -> str:
        facts = [f"  {heading}: {text}" for heading, text in self.facts.items()]
        return "\n".join(
            [f"{self.name}: {self.summary}", *facts, *(f"  · {s}" for s in self.settings)]
        )

    def _repr_html_(self) -> str:
        facts = "".join(
            f"<br>{escape(heading)}: {escape(text)}" for heading, text in self.facts.items()
        )
        names = ("name", "default", "range", "help")
        rows = [[getattr(each, name) for name in names] for each in self.settings]
        table = html_table(["setting", *names[1:]], rows) if rows else ""
        return f"<p><b>{escape(self.name)}</b>: {escape(self.summary)}{facts}</p>{table}"


class Catalogue(Mapping[str, Entry]):
    """Entries by name, in the order of names; a notebook shows them as a table.

    Args:
        entries: The entries.
    """

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = {each.name: each for each in sorted(entries, key=lambda each: each.name)}

    def __getitem__(self, name: str) -> Entry:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        width = max(map(len, self), default=0)
        return "\n".join(f"{name:{width}}  {each.summary}" for name, each in self.items())

    def _repr_html_(self) -> str:
        rows = [
            [name, each.summary, ", ".join(setting.name for setting in each.settings)]
            for name, each in self.items()
        ]
        return html_table(["name", "what it is", "settings"], rows)


def algorithms() -> Catalogue:
    """Return all algorithms, those of your own that are declared included."""
    return Catalogue(
        [
            Entry(
                name,
                f"{cls.declaration.title} ({cls.declaration.paper})",
                {
                    cls.declaration.place: cls.declaration.method,
                    "travels": cls.declaration.communication,
                },
                tuple(describe(cls)),
            )
            for name, cls in registered_algorithms().items()
        ]
    )


def problems() -> Catalogue:
    """Return all problems."""
    return Catalogue(
        [
            Entry(
                name,
                problem.title,
                {
                    "objectives": ", ".join(each.name for each in problem.objectives),
                    "learner": problem.learner,
                    "front": "known" if problem.known_front is not None else "not known",
                },
                tuple(
                    replace(each, default=problem.defaults.get(each.name, each.default))
                    for each in describe(LEARNERS[problem.learner][1])
                ),
            )
            for name, problem in registered_problems().items()
        ]
    )


def wrappers() -> Catalogue:
    """Return all wrappers: server rules on top of any algorithm."""
    return Catalogue(
        [
            Entry(
                name,
                f"{cls.declaration.title} ({cls.declaration.paper})",
                {cls.declaration.place: cls.declaration.method},
                tuple(describe(cls)),
            )
            for name, cls in registered_wrappers().items()
        ]
    )


def generators() -> Catalogue:
    """Return all generators of weights for searches."""
    return Catalogue(
        [
            Entry(name, cls.title, {}, tuple(describe(cls)))
            for name, cls in registered_generators().items()
        ]
    )
