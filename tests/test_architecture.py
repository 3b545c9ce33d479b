"""The plan of the house, enforced: rooms, direction of imports, sizes (see CONTRIBUTING.md).

Each rule is a function from parsed modules to a list of faults, so that every rule is tested twice:
on a tiny tree that breaks it, and on the package.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "comity"

LEVELS = {
    "errors": 0,
    "settings": 0,
    "version": 0,
    "core": 1,
    "datasets": 2,
    "links": 2,
    "problems": 3,
    "learners": 4,
    "algorithms": 5,
    "configuration": 6,
    "federation": 7,
    "runs": 8,
    "testing": 8,
    "callbacks": 9,
    "searches": 9,
    "tuning": 9,
    "report": 10,
    "reproductions": 10,
    "explore": 11,
    "api": 11,
    "cli": 12,
    "comity": 13,
    "__main__": 13,
}
"""Level of each room: imports point to a lower level, or stay in the room.

Rooms of one level do not import each other, except the three modules below everything.
``comity`` is the package's own ``__init__``, ``__main__`` what ``python -m comity`` runs.
"""

MOST_ROOT_MODULES = 6
MOST_LINES = 400
MOST_ALGORITHM_LINES = 250
MOST_PARAMETERS = 8

SHARED_BY_ALGORITHMS = {
    "base",
    "registry",
    "taxonomy",
    "parts",
    "clustered",
    "fairbatch",
    "wrappers.base",
}
"""Modules of ``algorithms`` that every algorithm may import."""

DELAYED: dict[tuple[str, str], str] = {
    ("comity.report", "comity.report.writing"): "matplotlib and plotly take seconds to import",
    ("comity.report.plan", "comity.report.writing"): "the same; a plan needs no picture",
    ("comity.federation.parties", "comity.federation.transports.grpc"): "grpcio is an extra",
}
"""Imports inside functions that are needed: (module, imported module) -> reason. Keep it short."""

WIDE: dict[str, int] = {
    "comity.api.execution.compare": 9,
    "comity.api.execution.compare_searches": 9,
    "comity.cli.compare.compare": 10,
    "comity.cli.reproduce.reproduce": 9,
}
"""Functions above the limit, with their number of parameters: commands, whose parameters are the
options of the command line, and entry points of the API. This list only gets shorter."""

OPTIONAL = {
    "cryptography": "comity.federation.keys",
    "distributed": "comity.federation.cluster",
    "dp_accounting": "comity.configuration.privacy",
    "grpc": "comity.federation.transports.grpc",
    "mlflow": "comity.callbacks.mlflow",
    "optuna": "comity.tuning.sampling",
    "pandas": "comity.runs.notebook",
    "sgp4": "comity.links.orbits",
    "skyfield": "comity.links.orbits",
    "starlette": "comity.explore.server",
    "uvicorn": "comity.explore.server",
    "wandb": "comity.callbacks.wandb",
}
"""Libraries of extras with one door each: library -> the only module that imports it."""


# -- parsed modules ------------------------------------------------------------------------


@dataclass(frozen=True)
class Import:
    """One import of a module of the package."""

    target: str
    """The imported module, with its full name."""
    names: tuple[tuple[str, str], ...]
    """Names taken from it: (name there, name here)."""
    line: int
    delayed: bool
    """Inside a function."""


@dataclass(frozen=True)
class Module:
    """One parsed module of the package."""

    name: str
    """Full name; a package has the name of its ``__init__``."""
    package: bool
    """The module is the ``__init__`` of a package."""
    lines: int
    tree: ast.Module
    imports: tuple[Import, ...]

    @property
    def room(self) -> str:
        """Name of the package or module directly below the root."""
        return self.name.split(".")[1] if "." in self.name else self.name

    def at(self, line: int) -> str:
        return f"{self.name}:{line}"


Modules = Mapping[str, Module]


def read(root: Path) -> dict[str, Module]:
    """Parse all modules of the package at ``root``, by name."""
    texts = {}
    packages = set()
    for path in sorted(root.rglob("*.py")):
        parts = [root.name, *path.relative_to(root).with_suffix("").parts]
        if parts[-1] == "__init__":
            parts.pop()
            packages.add(".".join(parts))
        texts[".".join(parts)] = path.read_text()
    modules = {}
    for name, text in texts.items():
        tree = ast.parse(text)
        home = name if name in packages else name.rpartition(".")[0]
        imports = tuple(_imports(tree, home, texts))
        modules[name] = Module(name, name in packages, len(text.splitlines()), tree, imports)
    return modules


_CHECKING = ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _imports(
    tree: ast.AST, package: str, known: Mapping[str, str], delayed: bool = False
) -> Iterator[Import]:
    """Yield the imports of known modules at any depth, without ``if TYPE_CHECKING`` blocks."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) in _CHECKING:
            yield from _imports(ast.Module(node.orelse, []), package, known, delayed)
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in known:
                    yield Import(alias.name, (), node.lineno, delayed)
        elif isinstance(node, ast.ImportFrom):
            yield from _taken(node, package, known, delayed)
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from _imports(node, package, known, delayed or inside)


def _taken(
    node: ast.ImportFrom, package: str, known: Mapping[str, str], delayed: bool
) -> Iterator[Import]:
    """Yield the imports of one ``from ... import ...``, of modules or of names in a module."""
    above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
    module = ".".join([*above, *([node.module] if node.module else [])])
    names = []
    for alias in node.names:
        if f"{module}.{alias.name}" in known:
            yield Import(f"{module}.{alias.name}", (), node.lineno, delayed)
        else:
            names.append((alias.name, alias.asname or alias.name))
    if names and module in known:
        yield Import(module, tuple(names), node.lineno, delayed)


# -- the rules -----------------------------------------------------------------------------


def against_the_direction(modules: Modules) -> list[str]:
    """Find imports of a higher room, or of another room on the same level."""
    faults = []
    for module in modules.values():
        if module.room not in LEVELS:
            faults.append(f"{module.name}: the room '{module.room}' has no level in LEVELS")
            continue
        for item in module.imports:
            room = modules[item.target].room
            here, there = LEVELS[module.room], LEVELS.get(room, -1)
            if room != module.room and (there > here or (there == here and here > 0)):
                faults.append(f"{module.at(item.line)} imports {item.target}")
    return faults


def crowded_root(modules: Modules) -> list[str]:
    """Return the modules that lie directly in the root if there are too many."""
    root = [m.name for m in modules.values() if m.name.count(".") == 1 and not m.package]
    return root if len(root) > MOST_ROOT_MODULES else []


def delayed_imports(
    modules: Modules, allowed: Mapping[tuple[str, str], str] = DELAYED
) -> list[str]:
    """Find imports of the package's own modules inside functions, and permissions not used."""
    used = set()
    faults = []
    for module in modules.values():
        if module.room in ("cli", "comity"):
            continue
        for item in module.imports:
            pair = (module.name, item.target)
            if item.delayed and pair in allowed:
                used.add(pair)
            elif item.delayed:
                faults.append(f"{module.at(item.line)} imports {item.target} inside a function")
    return faults + [f"{pair} is allowed, but not used" for pair in allowed if pair not in used]


def entangled_algorithms(modules: Modules) -> list[str]:
    """Find algorithms that import another algorithm's module without extending a class of it."""
    prefix = "comity.algorithms."
    faults = []
    for module in modules.values():
        if not module.name.startswith(prefix) or module.package:
            continue
        for item in module.imports:
            other = item.target.removeprefix(prefix)
            shared = not item.target.startswith(prefix) or other in SHARED_BY_ALGORITHMS
            home = module.name.rpartition(".")[0]
            inside = home != prefix[:-1] and item.target.startswith(f"{home}.")
            if not (shared or inside or _extends(module.tree, item)):
                faults.append(f"{module.at(item.line)} imports {item.target} and extends nothing")
    return faults


def _extends(tree: ast.Module, item: Import) -> bool:
    """Return whether a class in the tree has a base class that the import brought."""
    here = {name for _, name in item.names} or {item.target.rpartition(".")[2]}
    bases = [b for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for b in node.bases]
    names = {node.id for b in bases for node in ast.walk(b) if isinstance(node, ast.Name)}
    return bool(here & names)


def long_modules(modules: Modules) -> list[str]:
    """Find modules with too many lines."""
    faults = []
    for module in modules.values():
        shared = module.name.removeprefix("comity.algorithms.") in SHARED_BY_ALGORITHMS
        algorithm = module.room == "algorithms" and not shared
        most = MOST_ALGORITHM_LINES if algorithm else MOST_LINES
        if module.lines > most:
            faults.append(f"{module.name} has {module.lines} lines, {most} at most")
    return faults


def wide_functions(modules: Modules, allowed: Mapping[str, int] = WIDE) -> list[str]:
    """Find functions with too many parameters, and permissions larger than needed."""
    widths = {
        f"{module.name}.{name}": width
        for module in modules.values()
        for name, width in _widths(module.tree)
    }
    faults = [
        f"{name} has {width} parameters, {allowed.get(name, MOST_PARAMETERS)} at most"
        for name, width in widths.items()
        if width > allowed.get(name, MOST_PARAMETERS)
    ]
    for name, most in allowed.items():
        width = widths.get(name, 0)
        if width <= MOST_PARAMETERS:
            faults.append(f"{name} needs no entry in WIDE any more: remove it")
        elif width < most:
            faults.append(f"{name} has {width} parameters: lower its entry in WIDE")
    return faults


def _widths(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, int]]:
    """Yield the number of parameters of each function, without self, cls, *args and **kwargs."""
    for node in ast.iter_child_nodes(tree):
        name = prefix
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{prefix}{node.name}."
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            yield name[:-1], sum(argument.arg not in ("self", "cls") for argument in arguments)
        elif isinstance(node, ast.ClassDef):
            name = f"{prefix}{node.name}."
        yield from _widths(node, name)


def cycle(modules: Modules) -> list[str]:
    """Return the modules of one cycle of imports at load time, or an empty list."""
    graph = {
        name: {i.target for i in module.imports if not i.delayed and i.target != name}
        for name, module in modules.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def strangers_to(room: str, importers: set[str], modules: Modules) -> list[str]:
    """Find imports of a room from rooms other than ``importers``."""
    return [
        f"{module.at(item.line)} imports {item.target}"
        for module in modules.values()
        for item in module.imports
        if modules[item.target].room == room and module.room not in {room, *importers}
    ]


def side_doors(modules: Modules, doors: Mapping[str, str] = OPTIONAL) -> list[str]:
    """Find imports of an optional library outside its one module, and doors that nobody uses."""
    used = set()
    faults = []
    for module in modules.values():
        for line, library in _libraries(module.tree):
            if doors.get(library) == module.name:
                used.add(library)
            elif library in doors:
                faults.append(f"{module.at(line)} imports {library}, not {doors[library]}")
    return faults + [f"{doors[name]} does not import {name}" for name in doors if name not in used]


def _libraries(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and top-level name of every absolute import, at any depth."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module.split(".")[0]


# -- the package obeys the rules -----------------------------------------------------------


@cache
def package() -> dict[str, Module]:
    return read(SOURCE)


def message(faults: list[str], remedy: str) -> str:
    return "\n".join([*faults, f"-> {remedy}"])


def test_imports_point_one_way():
    faults = against_the_direction(package())
    remedy = "move the code to the lower room, or pass what is needed as an argument"
    assert not faults, message(faults, remedy)


def test_only_the_api_and_the_command_line_import_reproductions():
    faults = strangers_to("reproductions", {"api", "cli"}, package())
    assert not faults, message(faults, "call reproductions from api.py")


def test_few_modules_lie_in_the_root():
    faults = crowded_root(package())
    remedy = f"move modules into a room until {MOST_ROOT_MODULES} are left beside __init__"
    assert not faults, message(faults, remedy)


def test_imports_stand_at_the_top():
    faults = delayed_imports(package())
    remedy = "import at the top of the module; if that makes a cycle, one of them is misplaced"
    assert not faults, message(faults, remedy)


def test_algorithms_import_each_other_only_to_extend():
    faults = entangled_algorithms(package())
    remedy = f"move what is shared into one of {sorted(SHARED_BY_ALGORITHMS)}, or extend a class"
    assert not faults, message(faults, remedy)


def test_modules_are_short():
    faults = long_modules(package())
    assert not faults, message(faults, "split the module by what a reader looks for")


def test_functions_have_few_parameters():
    faults = wide_functions(package())
    remedy = "collect parameters that travel together in a dataclass or NamedTuple"
    assert not faults, message(faults, remedy)


def test_no_modules_import_each_other_in_a_circle():
    faults = cycle(package())
    remedy = "each imports the one before: move what they share into a module below them"
    assert not faults, message(faults, remedy)


def test_optional_libraries_have_one_door():
    faults = side_doors(package())
    assert not faults, message(faults, "go through the module that imports the library")


# -- the rules can fail --------------------------------------------------------------------


@pytest.fixture
def house(tmp_path):
    """Return a function that writes a small package and parses it."""

    def build(files: Mapping[str, str]) -> dict[str, Module]:
        for name, text in {"__init__.py": "", **files}.items():
            path = tmp_path / "comity" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            if path.parent.name != "comity":
                (path.parent / "__init__.py").touch()
        return read(tmp_path / "comity")

    return build


IMPORTS_OF_RUNS = [
    "from comity.runs import execute",
    "from comity.runs.execute import run",
    "import comity.runs.execute",
    "from ..runs import execute",
    "from ..runs.execute import run as start",
    "def f():\n    from comity.runs.execute import run",
    "try:\n    import comity.runs.execute\nexcept ImportError:\n    pass",
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    pass\nelse:\n"
    "    import comity.runs.execute",
]


@pytest.mark.parametrize("statement", IMPORTS_OF_RUNS)
def test_an_import_against_the_direction_is_found_however_it_is_written(house, statement):
    modules = house({"core/fleet.py": statement, "runs/execute.py": "run = 1"})
    (fault,) = against_the_direction(modules)
    assert fault.startswith("comity.core.fleet:")
    assert fault.endswith("imports comity.runs.execute")


@pytest.mark.parametrize("statement", IMPORTS_OF_RUNS)
def test_an_import_along_the_direction_is_fine(house, statement):
    modules = house({"report/tables.py": statement, "runs/execute.py": "run = 1"})
    assert against_the_direction(modules) == []
    assert [item.target for item in modules["comity.report.tables"].imports] == [
        "comity.runs.execute"
    ]


@pytest.mark.parametrize("name", ["TYPE_CHECKING", "typing.TYPE_CHECKING"])
def test_imports_for_the_type_checker_do_not_count(house, name):
    text = f"if {name}:\n    from comity.runs.execute import run"
    modules = house({"core/fleet.py": text, "runs/execute.py": "run = 1"})
    assert modules["comity.core.fleet"].imports == ()


@pytest.mark.parametrize(
    ("importer", "imported", "allowed"),
    [
        ("searches/mofld.py", "comity.runs.execute", True),
        ("runs/execute.py", "comity.searches.mofld", False),
        ("report/page.py", "comity.reproductions.printed", False),
        ("reproductions/printed.py", "comity.report.page", False),
        ("federation/server.py", "comity.configuration", True),
        ("algorithms/fedavg.py", "comity.configuration", False),
        ("configuration.py", "comity.algorithms.fedavg", True),
        ("settings.py", "comity.errors", True),
        ("errors.py", "comity.core.fleet", False),
        ("runs/execute.py", "comity", False),
        ("cli/running.py", "comity.api", True),
        ("api.py", "comity.cli.running", False),
    ],
)
def test_rooms_stand_in_one_order(house, importer, imported, allowed):
    names = {
        "api", "errors", "configuration", "settings", "searches/mofld", "runs/execute",
        "report/page", "reproductions/printed", "federation/server", "algorithms/fedavg",
        "core/fleet", "cli/running",
    }  # fmt: skip
    files = {f"{name}.py": "" for name in names}
    modules = house({**files, importer: f"from {imported} import x"})
    assert bool(against_the_direction(modules)) is not allowed


def test_a_room_without_a_level_is_found(house):
    modules = house({"attic/box.py": "", "core/fleet.py": ""})
    assert [fault.split(":")[0] for fault in against_the_direction(modules)] == [
        "comity.attic",
        "comity.attic.box",
    ]


def test_a_room_with_few_importers_is_guarded(house):
    text = "from comity.reproductions import printed"
    files = {"reproductions/printed.py": "", "api.py": text, "runs/execute.py": text}
    faults = strangers_to("reproductions", {"api"}, house(files))
    assert faults == ["comity.runs.execute:1 imports comity.reproductions.printed"]


def test_a_crowded_root_is_found(house):
    files = {f"m{number}.py": "" for number in range(6)} | {"core/fleet.py": ""}
    assert crowded_root(house(files)) == []
    assert len(crowded_root(house({**files, "opening.py": ""}))) == 7


def test_an_import_inside_a_function_is_found(house):
    text = "class A:\n    def f(self):\n        import comity.errors\n        import matplotlib"
    modules = house({"runs/execute.py": text, "cli/running.py": text, "errors.py": ""})
    fault = "comity.runs.execute:3 imports comity.errors inside a function"
    pair = ("comity.runs.execute", "comity.errors")
    assert delayed_imports(modules, {}) == [fault]
    assert delayed_imports(modules, {pair: "a reason"}) == []
    assert delayed_imports(modules, {pair: "a reason", ("a", "b"): "old"}) == [
        "('a', 'b') is allowed, but not used"
    ]


ALGORITHMS = {
    "algorithms/base.py": "class Algorithm: pass",
    "algorithms/fedavg.py": "from comity.algorithms.base import Algorithm\n"
    "class FedAvg(Algorithm): pass\ndef average(): pass",
    "algorithms/pfedrlla/agent.py": "class Agent: pass",
}


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("fedprox", "from comity.algorithms.fedavg import average", False),
        ("fedprox", "from comity.algorithms import fedavg", False),
        ("fedprox", "from .fedavg import FedAvg\nclass FedProx(object): pass", False),
        ("fedprox", "from .fedavg import FedAvg\nclass FedProx(FedAvg): pass", True),
        ("fedprox", "from comity.algorithms import fedavg\nclass P(fedavg.FedAvg): pass", True),
        ("fedprox", "from comity.algorithms.pfedrlla.agent import Agent", False),
        ("pfedrlla/trainer", "from comity.algorithms.pfedrlla.agent import Agent", True),
        ("pfedrlla/trainer", "from comity.algorithms.fedavg import FedAvg", False),
        ("wrappers/confree", "from comity.algorithms.fedavg import FedAvg", False),
        ("wrappers/__init__", "from comity.algorithms.fedavg import FedAvg", True),
    ],
)
def test_algorithms_that_import_each_other_are_found(house, name, text, allowed):
    faults = entangled_algorithms(house({**ALGORITHMS, f"algorithms/{name}.py": text}))
    assert (not faults) is allowed


def test_long_modules_are_found(house):
    files = {"algorithms/a.py": "\n" * 250, "algorithms/b.py": "\n" * 251}
    files |= {"core/c.py": "\n" * 400, "core/d.py": "\n" * 401, "algorithms/base.py": "\n" * 400}
    assert long_modules(house(files)) == [
        "comity.algorithms.b has 251 lines, 250 at most",
        "comity.core.d has 401 lines, 400 at most",
    ]


def test_wide_functions_are_found(house):
    eight = "a, b, /, c, d, *rest, e, f=1, g=2, h=3, **more"
    text = (
        f"def fine({eight}): pass\n"
        f"class C:\n    def fine(self, {eight}): pass\n    def wide(self, i, {eight}): pass\n"
        f"def outer():\n    async def wide(i, {eight}): pass\n"
    )
    modules = house({"core/fleet.py": text})
    method, inner = "comity.core.fleet.C.wide", "comity.core.fleet.outer.wide"
    assert wide_functions(modules, {}) == [
        f"{method} has 9 parameters, 8 at most",
        f"{inner} has 9 parameters, 8 at most",
    ]
    assert wide_functions(modules, {method: 9, inner: 9}) == []
    assert wide_functions(modules, {method: 10, inner: 9, "comity.gone": 9}) == [
        f"{method} has 9 parameters: lower its entry in WIDE",
        "comity.gone needs no entry in WIDE any more: remove it",
    ]


def test_a_circle_is_found(house):
    files = {
        "core/a.py": "from comity.core.b import x",
        "core/b.py": "import comity.core.c",
        "core/c.py": "def f():\n    from comity.core import a",
    }
    assert cycle(house(files)) == []
    names = cycle(house({**files, "core/c.py": "from comity.core import a"}))
    assert {name.rpartition(".")[2] for name in names} == {"a", "b", "c"}


def test_side_doors_to_optional_libraries_are_found(house):
    doors = {"grpc": "comity.federation.wires", "ssh": "comity.federation.shell"}
    files = {
        "federation/wires.py": "import grpc",
        "federation/shell.py": "from . import ssh\nfrom comity.federation import wires",
        "runs/execute.py": "def f():\n    from grpc.aio import server",
    }
    assert side_doors(house(files), doors) == [
        "comity.runs.execute:2 imports grpc, not comity.federation.wires",
        "comity.federation.shell does not import ssh",
    ]
