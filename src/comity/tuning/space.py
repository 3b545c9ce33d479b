"""The space of a tuning: for each setting a list of choices, or a range.

A file has names as in entries of a comparison, tables for dotted ones:

mu = [0.01, 0.1, 1.0]
supervised.learning_rate = { low = 1e-4, high = 1e-1, log = true }
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, get_args

from comity.algorithms import find
from comity.algorithms.wrappers import wrappers
from comity.configuration import RUN_SETTINGS, Configuration, assignment, configure
from comity.configuration.privacy import Privacy
from comity.errors import Faults, UserError, unknown
from comity.learners import LEARNERS
from comity.problems import find as find_problem
from comity.runs.entries import entry_values, merge, put
from comity.settings import Settings

FIXED = (
    *("problem", "algorithm", "preset", "seed", "clients", "names", "preferences", "partition"),
    *("sizes", "split_ratio", "absences", "attack", "validation_episodes", "test_episodes"),
    *("evaluate_every", "global_test", "keep_checkpoint", "chunk", "threads", "device", "links"),
)
"""Settings of a run that are not tuned: they decide what is measured, or where it is computed."""
_RANGE = ("low", "high", "log", "step")


@dataclass(frozen=True)
class Choices:
    """Values of a setting, of which a trial has one."""

    values: tuple[Any, ...]

    def plain(self) -> list[Any]:
        """Return the choices as in a file."""
        return list(self.values)

    def points(self) -> tuple[Any, ...]:
        """Return all values."""
        return self.values

    def ends(self) -> tuple[Any, ...]:
        """Return the values from which a search cannot go on; lists have none."""
        return ()


@dataclass(frozen=True)
class Range:
    """Numbers between two bounds, both included."""

    low: float
    high: float
    log: bool = False
    """Whether proposals are uniform in the logarithm."""
    step: float | None = None
    """Distance between values; None: any, or of integers 1."""
    integer: bool = False

    def plain(self) -> dict[str, Any]:
        """Return the range as in a file."""
        step = {} if self.step is None else {"step": self.step}
        return {"low": self.low, "high": self.high, **({"log": True} if self.log else {}), **step}

    def points(self) -> tuple[float, ...] | None:
        """Return all values; None where there are endlessly many."""
        step = 1 if self.integer and self.step is None else self.step
        if step is None:
            return None
        count = math.floor((self.high - self.low) / step + 1e-9) + 1
        values = (self.low + number * step for number in range(count))
        return tuple(round(value) if self.integer else float(f"{value:.10g}") for value in values)

    def ends(self) -> tuple[float, ...]:
        """Return the bounds."""
        return self.low, self.high


Axis = Choices | Range
Space = dict[str, Axis]
"""What is tried of each setting, by its name in an entry of a comparison."""


def rounded(value: float) -> float:
    """Return a number with four digits, as trials have them."""
    return float(f"{value:.4g}")


def combinations(space: Space) -> list[dict[str, Any]] | None:
    """Return all settings of a space; None where there are endlessly many."""
    points = [axis.points() for axis in space.values()]
    if any(values is None for values in points):
        return None
    return [dict(zip(space, chosen, strict=True)) for chosen in product(*filter(None, points))]


def plain_space(space: Space) -> dict[str, Any]:
    """Return a space as a file has it."""
    return {name: axis.plain() for name, axis in space.items()}


def settled(common: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a run: those of all, and those of one trial.

    Args:
        common: Values of a configuration, with the algorithm.
        settings: Tuned settings by name.
    """
    own: dict[str, Any] = {}
    table = find(common["algorithm"]).declaration.name
    for name, value in settings.items():
        put(own, name.split("."), value, table)
    return merge(common, own)


def current(configuration: Configuration, name: str) -> Any:
    """Return the value that a configuration has of a setting; None if it has none."""
    values: Any = configuration.plain()
    path = name.split(".")
    if len(path) == 1 and name not in RUN_SETTINGS:
        path = [configuration.algorithm_name, name]
    for key in path:
        values = values.get(key) if isinstance(values, Mapping) else None
    return values


# -- reading -------------------------------------------------------------------------------


def read_space(document: Mapping[str, Any], common: Mapping[str, Any], where: str) -> Space:
    """Return the space of a document; all that is wrong with it is refused at once.

    Args:
        document: Choices and ranges by name, as a TOML file holds them.
        common: Values of a configuration that all runs share; its problem and algorithm are known
            to be right.
        where: Name of the document, for messages.

    Raises:
        UserError: Settings that do not exist or are not tuned, values outside a setting's range.
    """
    faults, space = Faults(where), Space()
    algorithm = find(common["algorithm"]).declaration.name
    for name, value in _flat(document):
        name = name.removeprefix(f"{algorithm}.")
        with faults.gathered():
            if name in space:
                raise UserError(f"{name} is there twice.")
            field = _field(name, common)
            space[name] = _axis(name, value, field)
    faults.refuse()
    if not space:
        raise UserError(f"{where}: nothing to tune; name at least one setting with its values.")
    for name, axis in space.items():
        for value in axis.plain() if isinstance(axis, Choices) else axis.ends():
            with faults.gathered():
                configure(settled(common, {name: value}))
                _check_text(name, value, algorithm)
    faults.refuse()
    return space


def _flat(document: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return names with dots and what stands there: choices, or a range."""
    entries: list[tuple[str, Any]] = []
    for name, value in document.items():
        if isinstance(value, Mapping) and not set(value) & set(_RANGE):
            entries += [(f"{name}.{inner}", each) for inner, each in value.items()]
        else:
            entries.append((name, value))
    return entries


def _field(name: str, common: Mapping[str, Any]) -> Any:
    """Return the declaration of a setting; one that does not exist or is fixed is refused."""
    algorithm, problem = find(common["algorithm"]), find_problem(common["problem"])
    own = algorithm.declaration.name
    tables: dict[str, type[Settings]] = {
        own: algorithm,
        problem.learner: LEARNERS[problem.learner][1],
        **wrappers(),
        "privacy": Privacy,
    }
    table, dot, key = name.rpartition(".")
    if not dot and name in FIXED:
        raise UserError(
            f"{name} is not tuned: it decides what is measured, not how well it is learned; fix it "
            f"with --set {name}=…"
        )
    if not dot and name in RUN_SETTINGS:
        return Configuration.model_fields[name]
    if dot and table not in tables:
        raise unknown(f"table of settings in '{name}'", table, tables)
    fields = tables[table if dot else own].model_fields
    if key not in fields:
        valid = [*fields] if dot else [*fields, *(s for s in RUN_SETTINGS if s not in FIXED)]
        raise unknown(f"setting of {table or own}", key, valid)
    return fields[key]


def _axis(name: str, value: Any, field: Any) -> Axis:
    if isinstance(value, Mapping):
        return _range(name, value, _types(field.annotation))
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise UserError(
            f"{name} = {value!r}: give a list of values, [0.1, 1.0], or a range, "
            "{ low = 0.01, high = 1.0, log = true }."
        )
    if any(each in value[:place] for place, each in enumerate(value)):
        raise UserError(f"{name} = {value!r}: a value is there twice.")
    return Choices(tuple(value))


def _range(name: str, table: Mapping[str, Any], types: frozenset[Any]) -> Range:
    for key in table:
        if key not in _RANGE:
            raise unknown(f"part of the range of {name}", key, _RANGE)
    if not types & {int, float}:
        raise UserError(f"{name} is no number: list the values that are to be tried.")
    integer = float not in types
    log, step = table.get("log", False), table.get("step")
    numbers = {key: table.get(key) for key in ("low", "high")}
    numbers |= {} if step is None else {"step": step}
    if not isinstance(log, bool):
        raise UserError(f"{name}: log = {log!r}: must be true or false.")
    for key, each in numbers.items():
        whole = isinstance(each, int) or not integer
        if isinstance(each, bool) or not isinstance(each, int | float) or not whole:
            kind = "an integer" if integer else "a number"
            raise UserError(f"{name}: {key} = {each!r}: must be {kind}.")
    low, high = table["low"], table["high"]
    if not (low < high and math.isfinite(high - low)):
        raise UserError(f"{name}: low = {low} must be below high = {high}.")
    if log and (low <= 0 or step is not None):
        raise UserError(f"{name}: log = true needs low above 0, and no step.")
    if step is not None and not 0 < step <= high - low:
        raise UserError(f"{name}: step = {step}: must be above 0, at most high - low.")
    if integer:
        return Range(low, high, log, step, integer=True)
    return Range(float(low), float(high), log, None if step is None else float(step))


def _types(annotation: Any) -> frozenset[Any]:
    """Return the plain types in an annotation."""
    inner = get_args(annotation)
    if not inner:
        return frozenset([annotation])
    return frozenset().union(*map(_types, inner))


def _check_text(name: str, value: Any, algorithm: str) -> None:
    """Refuse a value that cannot stand in an entry of a comparison."""
    try:
        values = entry_values(f"{algorithm}[{assignment(name, value)}]")
    except UserError:
        values = {}
    expected: dict[str, Any] = {"algorithm": algorithm}
    put(expected, name.split("."), value, algorithm)
    if values != expected:
        raise UserError(f"{name} = {value!r}: only numbers, true, false and plain words are tuned.")
