"""Lists of problems, algorithms, presets, the taxonomy …, from their declarations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from math import prod
from typing import Any, Literal

from rich.table import Table
from rich.text import Text

from comity.algorithms import algorithms
from comity.algorithms.taxonomy import CELLS, find_cell, works
from comity.algorithms.wrappers import wrappers
from comity.configuration import Layer, PresetEntry, axes, grids, named_presets, presets
from comity.core.preferences import KINDS
from comity.learners import LEARNERS
from comity.problems import problems
from comity.searches import generators, mofld
from comity.settings import describe

What = Literal[
    "problems", "algorithms", "preferences", "generators", "presets", "grids", "taxonomy"
]


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
            for _, problem in sorted(problems().items())
        ]
    if what == "algorithms":
        return [
            {
                "name": name,
                "title": cls.declaration.title,
                "paper": cls.declaration.paper,
                "level": find_cell(cls.declaration.place).level,
                "place": cls.declaration.place,
                "method": cls.declaration.method,
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
    if what == "grids":
        return [
            {
                "entries": [f"{algorithm}[grid]" for algorithm in grid.algorithms],
                "combinations": prod(len(values) for values in axes(grid, "").values()),
                **_preset_entry(grid),
            }
            for grid in grids()
        ]
    if what == "taxonomy":
        return _taxonomy()
    return [{"name": name, "title": meaning} for name, meaning in KINDS.items()]


def _taxonomy() -> list[dict[str, Any]]:
    """Return one entry per cell of the taxonomy, with all works in it."""
    declared = [cls.declaration for _, cls in sorted(algorithms().items())]
    wrapping = [cls.declaration for _, cls in sorted(wrappers().items())]
    entries = [(d, d.name) for d in declared] + [(d, f"ALGORITHM+{d.name}") for d in wrapping]
    entries.append((mofld.DECLARATION, "comity search"))
    members: list[dict[str, Any]] = [
        {"name": d.title, "paper": d.paper, "place": d.place, "method": d.method, "shipped_as": use}
        for d, use in entries
    ]
    members += [{**asdict(work), "shipped_as": None} for work in works()]
    return [
        {
            "level": cell.level,
            "branch": list(cell.branch),
            "label": cell.label,
            "explored": cell.explored,
            "works": [
                {key: value for key, value in member.items() if key != "place"}
                for member in members
                if member["place"] == cell.label
            ],
        }
        for cell in CELLS
    ]


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
        {"name": each.name, "default": defaults.get(each.name, each.default), "meaning": each.help}
        for each in describe(cls)
    ]


def _lines(settings: list[dict[str, Any]]) -> list[str]:
    """Return one line per setting."""
    return [f"· {s['name']} ({s['default']}): {s['meaning']}" for s in settings]


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
    if what == "taxonomy":
        return _taxonomy_table(entries)
    table = Table(title=what.capitalize(), title_justify="left", show_lines=what != "preferences")
    table.add_column("entries" if what == "grids" else "name", no_wrap=True)
    if what == "problems":
        table.add_column("what it is")
        for alike in _alike(entries):
            names = "\n".join(entry["name"] for entry in alike)
            table.add_row(names, "\n".join(_about(alike)))
    elif what in ("algorithms", "generators"):
        table.add_column("what it is, and its settings (default): meaning")
        for entry in entries:
            about = [entry["title"]]
            if what == "algorithms":
                about = [
                    f"{entry['title']} ({entry['paper']})",
                    f"{entry['place']}: {entry['method']}",
                    f"travels: {entry['travels']}",
                ]
            table.add_row(entry["name"], Text("\n".join([*about, *_lines(entry["settings"])])))
    elif what in ("presets", "grids"):
        table.add_column("what it is for, and its settings", overflow="fold")
        for entry in entries:
            settings = [
                f"· {name} = {value}"
                for part in entry["settings"].values()
                for name, value in part.items()
            ]
            grid = what == "grids"
            lines = [
                f"{entry['combinations']} runs" if grid else ", ".join(entry["algorithms"]),
                f"on {', '.join(entry['problems'])}",
                f"source: {entry['source']}",
            ]
            name = "\n".join(entry["entries"]) if grid else entry["name"]
            table.add_row(Text(name), Text("\n".join([*lines, *(settings or ["as by default"])])))
    else:
        table.add_column("meaning")
        for entry in entries:
            table.add_row(entry["name"], entry["title"])
    return table


def _taxonomy_table(entries: list[dict[str, Any]]) -> Table:
    """Return the taxonomy as a table: one row per cell, one line per work."""
    caption = (
        "After the thesis, chapter 2. Top and federation level: multi-objective federated "
        "learning; client level: federated multi-objective learning; none: without a "
        "multi-objective method. In bold: what comes with this package, by its name there."
    )
    table = Table(title="Taxonomy", caption=caption, title_justify="left", show_lines=True)
    table.caption_justify = "left"
    table.add_column("level", no_wrap=True)
    table.add_column("label", min_width=18, ratio=1)
    table.add_column("works: method", ratio=3)
    for entry in entries:
        lines = Text("\n").join(_work_line(work) for work in entry["works"])
        if not entry["explored"]:
            note = "unexplored in the thesis' survey"
            lines = Text(note, style="italic").append("\n" if lines else "").append(lines)
        label = Text("\n").join(Text(name) for name in (entry["label"], *entry["branch"][1:]))
        table.add_row(entry["level"], label, lines)
    return table


def _work_line(work: dict[str, Any]) -> Text:
    shipped = work["shipped_as"]
    name = Text(work["name"] if shipped is None else shipped, style="bold" if shipped else "")
    return name.append(f" ({work['paper']}): {work['method']}", style="not bold")
