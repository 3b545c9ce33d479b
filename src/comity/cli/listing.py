"""Lists of problems, algorithms, preferences, generators and presets, from their declarations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from rich.table import Table

from comity.algorithms import algorithms
from comity.configuration import Layer, PresetEntry, named_presets, presets
from comity.core.preferences import KINDS
from comity.learners import LEARNERS
from comity.problems import problems
from comity.searches import generators
from comity.settings import describe

What = Literal["problems", "algorithms", "preferences", "generators", "presets"]


def catalogue(what: What) -> list[dict[str, Any]]:
    """Return one entry per problem, algorithm, preference kind, … as plain values."""
    if what == "problems":
        return [
            {
                "name": problem.name,
                "title": problem.title,
                "objectives": [o.name for o in problem.objectives],
                "learner": problem.learner,
                "reference_point": list(problem.reference_point),
                "front": "known" if problem.known_front is not None else "not known",
                "settings": _settings(LEARNERS[problem.learner][1], problem.defaults),
            }
            for problem in problems().values()
        ]
    if what == "algorithms":
        return [
            {
                "name": name,
                "title": cls.declaration.title,
                "paper": cls.declaration.paper,
                "family": cls.declaration.family,
                "travels": cls.declaration.communication,
                "settings": _settings(cls, {}),
                "tuned": _tuned(name),
            }
            for name, cls in sorted(algorithms().items())
        ]
    if what == "generators":
        return [
            {"name": name, "title": cls.title, "settings": _settings(cls, {})}
            for name, cls in sorted(generators().items())
        ]
    if what == "presets":
        return [
            {"name": name, **_preset_entry(entry)}
            for name, entries in named_presets().items()
            for entry in entries
        ]
    return [{"name": name, "title": meaning} for name, meaning in KINDS.items()]


def _tuned(algorithm: str) -> dict[str, dict[str, Any]]:
    """Return the papers' settings for an algorithm by problem, of all parts together."""
    return {
        problem: {key: value for part in table[algorithm].values() for key, value in part.items()}
        for problem, table in presets().items()
        if algorithm in table
    }


def _preset_entry(entry: PresetEntry) -> dict[str, Any]:
    parts = zip(Layer._fields, entry.layer, strict=True)
    return {
        "source": entry.source,
        "problems": list(entry.problems),
        "algorithms": list(entry.algorithms),
        "settings": {part: dict(values) for part, values in parts if values},
    }


def _settings(cls: Any, defaults: Any) -> list[dict[str, Any]]:
    return [
        {"name": name, "default": defaults.get(name, default), "meaning": meaning}
        for name, default, meaning in describe(cls)
    ]


def _lines(settings: list[dict[str, Any]]) -> str:
    lines = [f"{s['name']} ({s['default']}): {s['meaning']}" for s in settings]
    return "\n".join(lines) or "none"


def _alike(entries: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Group problems into rows: those of one data set share the first part of their titles."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        rows.setdefault(entry["title"].partition(";")[0], []).append(entry)
    return list(rows.values())


def _about(alike: list[dict[str, Any]]) -> Iterator[str]:
    """Yield title, objectives, reference point and learner; few lines, for narrow terminals."""
    first = alike[0]
    yield first["title"] if len(alike) == 1 else first["title"].partition(";")[0]
    sets = dict.fromkeys(", ".join(entry["objectives"]) for entry in alike)
    yield f"objectives: {'; or '.join(sets)}"
    point = [f"{value:g}" for value in first["reference_point"]]
    if any(entry["reference_point"] != first["reference_point"] for entry in alike):
        point.append("…")
    yield f"hypervolume from ({', '.join(point)}), front {first['front']}"
    yield f"learner: {first['learner']}"


def catalogue_table(what: What, entries: list[dict[str, Any]]) -> Table:
    """Return entries of `catalogue` as a table for the terminal."""
    table = Table(title=what.capitalize(), title_justify="left", show_lines=what != "preferences")
    table.add_column("name", no_wrap=True)
    if what == "problems":
        table.add_column("what it is")
        for alike in _alike(entries):
            names = "\n".join(entry["name"] for entry in alike)
            table.add_row(names, "\n".join(_about(alike)))
    elif what == "algorithms":
        for column in ("what it is", "family", "settings (default): meaning"):
            table.add_column(column)
        for entry in entries:
            about = f"{entry['title']}\n{entry['paper']}\ntravels: {entry['travels']}"
            table.add_row(entry["name"], about, entry["family"], _lines(entry["settings"]))
    elif what == "generators":
        for column in ("what it is", "settings (default): meaning"):
            table.add_column(column)
        for entry in entries:
            table.add_row(entry["name"], entry["title"], _lines(entry["settings"]))
    elif what == "presets":
        for column in ("what it is for", "settings"):
            table.add_column(column, overflow="fold")
        for entry in entries:
            settings = [
                f"{name} = {value}"
                for part in entry["settings"].values()
                for name, value in part.items()
            ]
            lines = [
                ", ".join(entry["algorithms"]),
                f"on {', '.join(entry['problems'])}",
                f"source: {entry['source']}",
            ]
            shown = "\n".join(settings) or "as by default"
            table.add_row(entry["name"], "\n".join(lines), shown)
    else:
        table.add_column("meaning")
        for entry in entries:
            table.add_row(entry["name"], entry["title"])
    return table
