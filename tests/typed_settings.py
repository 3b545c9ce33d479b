"""Settings as typed dicts, so that editors complete them: ``python -m tests.typed_settings``.

The modules in ``comity/api/typed`` are written from the declarations of the settings; a test keeps
both in step.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path

import comity.api
from comity.algorithms.registry import algorithms
from comity.algorithms.wrappers import wrappers
from comity.configuration import RUN_SETTINGS, Configuration
from comity.configuration.privacy import Privacy
from comity.learners import LEARNERS
from comity.searches import SearchSettings, generators
from comity.settings import SettingInfo, Settings, describe
from comity.tuning import TuningSettings

HOME = Path(comity.api.__file__).parent / "typed"
TYPES = {
    "algorithm": "str | type[Algorithm]",
    "names": "str | Sequence[str]",
    "preferences": "str | Sequence[Sequence[float]]",
    "absences": "Sequence[tuple[int, int, str]]",
    "links": "Mapping[str, Any]",
    "privacy": "PrivacySettings",
    "seeds": "int | Sequence[int]",
    "objectives": "Sequence[str]",
}
"""Types that users may give in more forms than settings keep."""
PERSONALISED = "personalised models"
"""Place of the algorithms that have a module of their own."""
OWN = ("algorithm", "seed", "preferences", "links")
"""Settings that a run has otherwise than a comparison or a search."""
COMPARED = """
class CompareSettings(SharedSettings, total=False):
    \"""Settings of a comparison by name, and tables of its parts.\"""

    preferences: str | Sequence[str]
    \"""One distribution of preferences, or several.\"""
    links: Mapping[str, Any]
    \"""Links that exist at times only: a table with a contact plan and its rules.\"""
    encodings: Sequence[str]
    \"""Ways in which models travel: each entry under each.\"""
    attacks: Sequence[str]
    \"""Attacks: each entry under each.\"""
    target: float
    \"""Validation accuracy of one objective; the table has when entries reach it.\"""
"""


def sources() -> dict[str, str]:
    """Return the text of each module by its name."""
    learners = {name: settings for name, (_, settings) in LEARNERS.items()}
    parts = learners | wrappers() | generators() | {"privacy": Privacy}
    shipped = {k: v for k, v in algorithms().items() if v.__module__.startswith("comity.")}
    run = {each.name: each for each in describe(Configuration) if each.name in RUN_SETTINGS}
    shared = [run[name] for name in run if name not in (*OWN, "problem")]
    tables = _tables(shipped | learners | wrappers())
    personal = {k: v for k, v in shipped.items() if v.declaration.place == PERSONALISED}
    others = {k: v for k, v in shipped.items() if k not in personal}
    names = _names(others), _names(parts), _names(personal)
    head = (
        "from __future__ import annotations\n\n"
        "from collections.abc import Mapping, Sequence\n"
        "from typing import Any, Literal, TypedDict\n\n"
        "from comity.algorithms import Algorithm\n"
        f"from comity.api.typed.algorithms import {', '.join(names[0])}\n"
        f"from comity.api.typed.parts import {', '.join(names[1])}\n"
        f"from comity.api.typed.personalised import {', '.join(names[2])}\n\n"
    )
    return {
        "algorithms": _module("Settings of each algorithm but for personalised ones.", others),
        "personalised": _module("Settings of each personalised algorithm.", personal),
        "parts": _module("Settings of learners, wrappers, generators and privacy.", parts),
        "run": f'"""Settings of runs, comparisons and searches."""\n\n{head}\n'
        + _class("SharedSettings", "TypedDict", "Settings of runs and searches.", shared, tables)
        + _class(
            "RunSettings",
            "SharedSettings",
            "Settings of a run by name, and tables of its parts.",
            [run[name] for name in OWN],
        )
        + COMPARED
        + _class(
            "SearchSettings",
            "SharedSettings",
            "Settings of a search by name, those of its federations, and tables of its parts.",
            [run["algorithm"], run["seed"], *describe(SearchSettings)],
            _tables(generators()),
        )
        + _class(
            "TuneSettings",
            "SharedSettings",
            "Settings of a tuning by name, those of its runs, and tables of their parts.",
            [*(run[name] for name in OWN if name != "seed"), *describe(TuningSettings)],
        ),
    }


def _module(title: str, parts: Mapping[str, type[Settings]]) -> str:
    classes = [
        _class(_class_name(cls), "TypedDict", f"Settings of {name}.", describe(cls))
        for name, cls in sorted(parts.items())
        if cls.model_fields
    ]
    imports = "from typing import Literal, TypedDict\n\n"
    return f'"""{title}"""\n\nfrom __future__ import annotations\n\n{imports}' + "".join(classes)


def _class(
    name: str, base: str, title: str, settings: Iterable[SettingInfo], tables: str = ""
) -> str:
    lines = [f'\nclass {name}({base}, total=False):\n    """{title}"""\n']
    for each in settings:
        lines.append(f"    {each.name}: {TYPES.get(each.name, each.type)}")
        symbol = not each.help[:2].isalpha()  # η: is not Η:
        first = each.help[0] if symbol else each.help[0].upper()
        about = f"{first}{each.help[1:]} (default: {each.default!r}"
        about += f"; {each.range})." if each.range else ")."
        text = textwrap.fill(about.replace("\\", "\\\\"), 88).replace("\n", "\n    ")
        lines.append(f'    """{text}"""')
    return "\n".join(lines) + f"\n{tables}\n"


def _tables(parts: Mapping[str, type[Settings]]) -> str:
    """Return one field per part that has settings and whose name can be a keyword."""
    return "\n".join(
        f'    {name}: {_class_name(cls)}\n    """Settings of {name}."""'
        for name, cls in sorted(parts.items())
        if cls.model_fields and name.isidentifier()
    )


def _names(parts: Mapping[str, type[Settings]]) -> list[str]:
    """Return the names of the classes that can be tables, in the order of imports."""
    names = [_class_name(v) for k, v in parts.items() if v.model_fields and k.isidentifier()]
    return sorted(names, key=str.lower)


def _class_name(cls: type[Settings]) -> str:
    return f"{cls.__name__.removesuffix('Settings')}Settings"


if __name__ == "__main__":
    for name, text in sources().items():
        (HOME / f"{name}.py").write_text(text)
    for command in (["check", "--fix", "--quiet"], ["format", "--quiet"]):
        subprocess.run([sys.executable, "-m", "ruff", *command, str(HOME)], check=True)
