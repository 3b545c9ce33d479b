"""Configuration of a search: its own settings and those of its federations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import tomli_w

from comity.algorithms import Algorithm, algorithms, name_of
from comity.algorithms import find as find_algorithm
from comity.configuration import RUN_SETTINGS, Configuration, configure
from comity.core.pareto import above
from comity.core.typing import FloatArray
from comity.errors import UserError, unknown
from comity.problems import DataProblem, EnvironmentProblem, Problem
from comity.problems import find as find_problem
from comity.searches.candidates import Generator, find, make
from comity.settings import Settings, build, setting

_CHUNK = 10  # clients in one stack: the fastest size


class SearchSettings(Settings):
    """Settings of a search."""

    generator: str = setting("annealing", "where to look next: annealing, gap, grid or random")
    iterations: int = setting(20, "how often candidates are proposed", at_least=1)
    candidates: int = setting(5, "weights tried in one iteration", at_least=1)
    evaluations: int = setting(
        0, "stop once this many candidates were tried; 0: no limit", at_least=0
    )
    stall: int = setting(
        0, "stop after this many iterations without a larger hypervolume; 0: never", at_least=0
    )
    warm_start: bool = setting(False, "start from the model of the nearest weight solved before")
    spread: bool = setting(
        False, "each client carries a candidate of its own (off: all clients of one share it)"
    )
    harvest: bool = setting(
        True, "also evaluate the server's models of every round, not only the last ones"
    )
    evaluation_episodes: int = setting(
        1, "environments: episodes in which the server evaluates a model", at_least=1
    )
    server_share: float = setting(
        0.2,
        "data: share of the clients' training rows that the server holds instead, to evaluate "
        "models on",
        above=0,
        below=1,
    )
    reference_point: list[float] = setting(..., "where hypervolume is measured from")
    control: bool = setting(True, "run the same search with random weights beside it")


class IterationConfiguration(Configuration):
    """The clients of all federations of an iteration, one federation after the other.

    Where clients have data, all federations are of the same clients.
    """

    federations: int = setting(1, "number of federations", at_least=1)
    data_seed: int = setting(1, "the seed by which data are distributed", at_least=0)
    server_share: float = setting(0.0, "share of the training rows that the server holds")

    def get_problem(self) -> Problem:
        """Return the problem as the clients of all federations have it."""
        clients = self.clients // self.federations
        problem = find_problem(self.problem).partitioned(
            clients, self.data_seed, self.partition, self.sizes, self.split_ratio
        )
        if isinstance(problem, DataProblem):
            problem = replace(problem, federations=self.federations)
        return _with_server_rows(problem, self.server_share)


def _with_server_rows(problem: Problem, share: float) -> Problem:
    """Return a problem with data with a share of the training rows at the server."""
    return replace(problem, withheld=share) if isinstance(problem, DataProblem) else problem


@dataclass(frozen=True)
class SearchConfiguration:
    """Every value on which the bits of a search depend."""

    search: SearchSettings
    generator_settings: dict[str, Any]
    """Settings of the generator that ``search`` names."""
    federation: Configuration
    """The federation of one candidate (spread: of as many candidates as it has clients)."""

    @property
    def problem(self) -> Problem:
        """The problem that the search is about, as the clients of one federation have it."""
        return _with_server_rows(self.federation.get_problem(), self.search.server_share)

    @property
    def seed(self) -> int:
        """Seed of the search and its federations."""
        return self.federation.seed

    @property
    def label(self) -> str:
        """Name of the search as a row of a comparison."""
        return self.search.generator + ("+spread" if self.search.spread else "")

    @property
    def budget(self) -> int:
        """Number of candidates that may be tried."""
        most = self.search.iterations * self.search.candidates
        return min(most, self.search.evaluations) if self.search.evaluations else most

    @property
    def chunks(self) -> int:
        """Number of stacks into which the clients of an iteration are divided."""
        return ceil(_clients_in_all(self.search, self.federation.clients) / self.federation.chunk)

    def iteration(self, weights: FloatArray, seed: int) -> IterationConfiguration:
        """Return all clients of an iteration as one configuration.

        Args:
            weights: The candidates (candidates x objectives).
            seed: The seed of the iteration; all iterations distribute data by the search's.
        """
        clients = self.federation.clients
        each = weights if self.search.spread else weights.repeat(clients, axis=0)
        values = {
            **dict(self.federation),
            "clients": len(each),
            "names": [],
            "preferences": each.tolist(),
            "seed": seed,
            "federations": len(each) // clients,
            "data_seed": self.seed,
            "server_share": self.search.server_share,
        }
        return IterationConfiguration(**values)

    def get_generator(self) -> Generator:
        """Return a new generator with the settings of this search."""
        return make(self.search.generator, self.generator_settings)

    def to_toml(self) -> str:
        """Return the content of ``config.toml``: all settings, with one table per part."""
        return tomli_w.dumps(self.plain())

    def plain(self) -> dict[str, Any]:
        """Return all settings, with one table per part, as plain values."""
        values = {name: getattr(self.federation, name) for name in _SHARED}
        values[self.federation.algorithm_name] = self.federation.algorithm_settings
        values[self.problem.learner] = self.federation.learner_settings
        values["search"] = self.search.model_dump()
        values[self.search.generator] = self.generator_settings
        return values


_SHARED = tuple(name for name in RUN_SETTINGS if name not in ("preferences", "links", "privacy"))


def configure_search(values: Mapping[str, Any]) -> SearchConfiguration:
    """Return a complete configuration, with defaults where nothing is given.

    Args:
        values: The content of a TOML file: settings of the federations as in `configure`, the
            settings of the search in the table ``search``, those of the generator in a table of
            its name.
    """
    if "problem" not in values:
        raise UserError("problem is missing: name what is to be learned, e.g. deep-sea-treasure.")
    if "preferences" in values:
        raise UserError("preferences mean nothing in a search: it chooses the weights itself.")
    if "privacy" in values:
        raise UserError(
            "privacy means nothing in a search: it asks the same clients for one federation per "
            "candidate, and judges models on rows of theirs. comity run and compare have it."
        )
    if "links" in values:
        raise UserError("links mean nothing in a search: its federations run one after another.")
    problem = find_problem(values["problem"])
    if len(problem.objectives) < 2:
        raise UserError(
            f"{problem.name} has one objective, so there is no front to search for: comity run."
        )
    settings = {**problem.search, **_table(values, "search")}
    steps = {key: settings.pop(key) for key in ("local_steps", "total_steps") if key in settings}
    settings.setdefault("reference_point", list(problem.reference_point))
    search = build(SearchSettings, settings, where="search")
    _check_reference(problem, search.reference_point)
    _check_evaluation(problem, search)
    generator = find(search.generator)
    table = _table(values, generator.name)
    inner = {
        "algorithm": _algorithm(search),
        "clients": search.candidates if search.spread else 3,
        **(_data_defaults(problem, search) if isinstance(problem, DataProblem) else {}),
        **{key: value for key, value in values.items() if key not in ("search", generator.name)},
    }
    chosen = find_algorithm(name_of(inner["algorithm"]))
    for name, value in inner.items():
        known = ("problem", chosen.declaration.name, problem.learner)
        if isinstance(value, Mapping) and name not in known:
            raise unknown("table of settings", name, ["search", generator.name, problem.learner])
    learner = inner.get(problem.learner, {})
    if isinstance(learner, Mapping):  # if not, the run's configuration refuses it
        if "rounds" in inner:
            steps.pop("total_steps", None)
        inner[problem.learner] = {**steps, **learner}
    federation = configure({**inner, "preferences": "dirichlet"})
    if federation.attackers:
        raise UserError("attack means nothing in a search: comity run and compare have attacks.")
    if federation.alone_share:
        raise UserError(
            "alone_share means nothing in a search: its models are for everybody, not for the "
            "client that trained them. Leave it out."
        )
    _check_clients(search, federation.clients)
    _check_algorithm(federation)
    if "chunk" not in inner:
        total = _clients_in_all(search, federation.clients)
        chunk = ceil(total / ceil(total / _CHUNK))
        federation = federation.model_copy(update={"chunk": chunk})
    configuration = SearchConfiguration(
        search, build(generator, table, where=generator.name).model_dump(), federation
    )
    if isinstance(dealt := configuration.problem, DataProblem):
        dealt.server_rows()  # too few rows must show before anything is written
    return configuration


def _table(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the table of settings of this name; empty if there is none."""
    table = values.get(name, {})
    if not isinstance(table, Mapping):
        raise UserError(f"{name} = {table!r}: must be a table of settings.")
    return table


def split_search_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Move the settings of the search that are given by name into the table ``search``."""
    moved = {name: value for name, value in values.items() if name in SearchSettings.model_fields}
    rest = {name: value for name, value in values.items() if name not in moved}
    return {**rest, "search": {**moved, **_table(rest, "search")}}


def _algorithm(search: SearchSettings) -> str:
    """Return the default algorithm: averaging as printed, a personal one for different weights."""
    return "fedpref" if search.spread else "fedavg"


def _data_defaults(problem: DataProblem, search: SearchSettings) -> dict[str, Any]:
    """Return defaults for clients with data: those of a partition that fixes their number."""
    clients = {} if search.spread else {"clients": problem.run_defaults.get("clients", 3)}
    return {**clients, "global_test": 0}  # all models are tested on all clients' samples anyway


def _clients_in_all(search: SearchSettings, clients: int) -> int:
    """Return the clients of all federations of an iteration."""
    return search.candidates * (1 if search.spread else clients)


def _check_clients(search: SearchSettings, clients: int) -> None:
    if not search.spread:
        return
    if clients > search.candidates:
        raise UserError(
            f"clients = {clients}: more than the {search.candidates} candidates of an iteration. "
            "In a spread search every client carries a candidate of its own: raise "
            "search.candidates or lower clients."
        )
    if search.candidates % clients:
        raise UserError(
            f"search.candidates = {search.candidates}: must be a multiple of clients = {clients} "
            "in a spread search, where every client carries a candidate of its own."
        )


def _check_evaluation(problem: Problem, search: SearchSettings) -> None:
    name = "server_share" if isinstance(problem, EnvironmentProblem) else "evaluation_episodes"
    if getattr(search, name) != SearchSettings.model_fields[name].default:
        kind = "environments" if isinstance(problem, EnvironmentProblem) else "data"
        raise UserError(f"search.{name} means nothing for {problem.name}: its clients have {kind}.")


def _check_algorithm(federation: Configuration) -> None:
    """Refuse algorithms of which the server never sees a whole model of the problem's network."""
    if federation.topology != "star":
        raise UserError(
            f"topology = {federation.topology}: in a search the server evaluates the models of all "
            "candidates. Say topology = star."
        )
    chosen = type(federation.get_algorithm())
    if _evaluated_by_server(chosen):
        return
    fit = [name for name, cls in sorted(algorithms().items()) if _evaluated_by_server(cls)]
    raise UserError(
        f"algorithm = {federation.algorithm}: in a search the server evaluates whole models of the "
        "problem's network, which this algorithm does not train in a federation or wraps in parts "
        f"that stay with clients. Choose one of {', '.join(fit)}."
    )


def _evaluated_by_server(cls: type[Algorithm]) -> bool:
    return cls.build is Algorithm.build and not cls.centralised


def _check_reference(problem: Problem, point: list[float]) -> None:
    names = [objective.name for objective in problem.objectives]
    if len(point) != len(names):
        raise UserError(
            f"search.reference_point = {point}: needs {len(names)} numbers, one for each of "
            f"{', '.join(names)}."
        )
    front = problem.front()
    if front is not None and not above(front, point).any():
        raise UserError(
            f"search.reference_point = {point}: no point of {problem.name}'s known front is better "
            f"in every objective, so every hypervolume would be 0. The worst of the front is "
            f"{front.min(axis=0).tolist()}."
        )
