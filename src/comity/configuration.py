"""The complete configuration of a run: every value that decides its bits, in one place.

It is written to ``config.toml`` after all defaults are filled in, so running that file again gives
the same bits. The papers' settings for an algorithm on a problem are in
``reproductions/presets.toml``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import tomli_w
from pydantic import StringConstraints
from torch import nn

from comity import algorithms, problems
from comity.algorithms import Algorithm
from comity.algorithms.wrappers import Wrapper, find_wrapper, wrappers
from comity.core.preferences import preferences
from comity.core.typing import FloatArray
from comity.errors import UserError, unknown
from comity.learners import LEARNERS, LearnerSettings
from comity.problems import DataProblem, EnvironmentProblem, Problem
from comity.problems.base import EVEN
from comity.problems.own_table import resolved
from comity.settings import Settings, build, setting

EXCHANGES = ("survey", "round", "finish")
"""Exchanges of messages in which a client may be absent."""
Absence = tuple[int, int, Literal["survey", "round", "finish"]]
"""Round, client and exchange that the client misses."""
FineTune = Annotated[str, StringConstraints(pattern=r"^(none|replace-last|extra:[1-9]\d*)$")]


class Configuration(Settings):
    """All settings of one run; three tables hold those of algorithm, learner and wrapper."""

    problem: str | dict[str, Any] = setting(
        ..., "what is learned: a name, module:attribute, or a table that describes your own data"
    )
    algorithm: str = setting("fedpref", "what is federated about it")
    wrapper: str = setting("none", "a rule on top of the algorithm's server step, by its name")
    clients: int = setting(20, "number of clients", at_least=1)
    rounds: int = setting(1, "how often clients train and the server mixes", at_least=1)
    seed: int = setting(1, "where all random numbers come from", at_least=0)
    preferences: str | list[list[float]] = setting(
        "dirichlet", "dirichlet[:ALPHA], equidistant, gaussian, same:W,W, shared:N,N or a CSV file"
    )
    partition: str = setting(
        EVEN["partition"],
        "how data are dealt out: iid, dirichlet:ALPHA, pathological:S, shards:S or natural",
    )
    sizes: str = setting(
        EVEN["sizes"], "how much data clients have: equal, dirichlet:BETA or N,N,…"
    )
    participation: float = setting(
        1.0, "share of the clients that take part in a round", above=0, at_most=1
    )
    absences: list[Absence] = setting(
        [], "simulated absences: [round, client, exchange], exchange one of survey, round, finish"
    )
    keep: Literal["best", "last"] = setting(
        "best", "hand over each client's best validated model, or its last one"
    )
    keep_scope: Literal["client", "federation"] = setting(
        "client", "best model of each client, or one best round for all clients together"
    )
    guard: bool = setting(
        False, "a client declines a mixed model that does worse on its validation than its own"
    )
    fine_tune: FineTune = setting(
        "none", "none; replace-last: no mixing in the last round; extra:K: K rounds' work more"
    )
    validation_episodes: int = setting(1, "episodes that judge a model in a round", at_least=1)
    test_episodes: int = setting(1, "episodes that judge a model at the end", at_least=1)
    evaluate_every: int = setting(
        0,
        "data: rounds between evaluations of all clients, absent ones too, on validation data; "
        "0: never",
        at_least=0,
    )
    chunk: int = setting(10, "clients trained as one stack by one process", at_least=1)
    threads: int = setting(1, "threads of one process; more may change bits", at_least=1)
    algorithm_settings: dict[str, Any] = setting({}, "settings of the algorithm")
    learner_settings: dict[str, Any] = setting({}, "settings of the learner")
    wrapper_settings: dict[str, Any] = setting({}, "settings of the wrapper")

    @property
    def problem_name(self) -> str:
        """Name of the problem in results and directories."""
        return self.problem if isinstance(self.problem, str) else problems.find(self.problem).name

    @property
    def label(self) -> str:
        """Name of the run as a row of a comparison: ``fedavg+ft`` when fine-tuned."""
        wrapped = self.algorithm if self.wrapper == "none" else f"{self.algorithm}+{self.wrapper}"
        return wrapped if self.fine_tune == "none" else f"{wrapped}+ft"

    def get_problem(self) -> Problem:
        """Return the problem with its data dealt out to the clients of this run."""
        problem = problems.find(self.problem)
        return problem.partitioned(self.clients, self.seed, self.partition, self.sizes)

    def get_algorithm(self) -> Algorithm:
        """Return a fresh algorithm with the settings of this run."""
        return algorithms.make(self.algorithm, self.algorithm_settings)

    def get_wrapper(self) -> Wrapper | None:
        """Return a fresh wrapper with the settings of this run, if it has one."""
        return (
            None if self.wrapper == "none" else find_wrapper(self.wrapper)(**self.wrapper_settings)
        )

    def get_module(self) -> nn.Module:
        """Return a fresh module as every client of this run holds one."""
        problem = self.get_problem()
        return self.get_algorithm().build(problem.model(), problem)

    def participants(self, clients: int) -> int:
        """Return the number of participants of a round among this many clients."""
        return max(1, round(self.participation * clients))

    @property
    def keeps_together(self) -> bool:
        """Whether the server chooses the round whose models are kept."""
        return self.keep == "best" and self.keep_scope == "federation"

    def get_preferences(self) -> FloatArray:
        """Return one preference per client (clients, objectives)."""
        objectives = len(self.get_problem().objectives)
        return preferences(self.preferences, self.clients, objectives, self.seed)

    def to_toml(self) -> str:
        """Return the file: run-level settings, then one table each for the three parts."""
        values = self.model_dump(exclude=set(_TABLES))
        if self.wrapper != "none":
            values[self.wrapper] = self.wrapper_settings
        values[self.algorithm] = self.algorithm_settings
        values[self.get_problem().learner] = self.learner_settings
        return tomli_w.dumps(values)


_TABLES = ("algorithm_settings", "learner_settings", "wrapper_settings")
RUN_SETTINGS = tuple(name for name in Configuration.model_fields if name not in _TABLES)
PRESETS = Path(__file__).with_name("reproductions") / "presets.toml"


# -- layers of values ----------------------------------------------------------------------


class Layer(NamedTuple):
    """Values from one source, by the part that they belong to; empty where it sets nothing."""

    run: Mapping[str, Any] = {}
    learner: Mapping[str, Any] = {}
    algorithm: Mapping[str, Any] = {}
    wrapper: Mapping[str, Any] = {}


@cache
def presets() -> dict[str, dict[str, dict[str, dict[str, Any]]]]:
    """Return the papers' settings by problem, algorithm and part of a `Layer`. Read only."""
    with PRESETS.open("rb") as file:
        return tomllib.load(file)


def preset(problem: str, algorithm: str) -> Layer:
    """Return the papers' settings for an algorithm on a problem, both by name."""
    return Layer(**presets().get(problem, {}).get(algorithm, {}))


def merged(layers: Sequence[Layer]) -> Layer:
    """Return one layer in which a later layer wins over an earlier one, setting by setting."""
    parts = zip(*layers, strict=True)
    return Layer(*({k: v for source in part for k, v in source.items()} for part in parts))


@dataclass(frozen=True)
class _Choice:
    """What the user wants to run: the values, and what is registered under the names in them."""

    values: Mapping[str, Any]
    problem: Problem
    learner: type[Any]
    learner_settings: type[LearnerSettings]
    algorithm: type[Algorithm]
    wrapper: type[Wrapper] | None

    @property
    def name(self) -> str:
        """The algorithm's name."""
        return self.algorithm.declaration.name

    @property
    def tables(self) -> tuple[str, ...]:
        """Names under which tables of settings may be among the values."""
        wrapper = () if self.wrapper is None else (self.wrapper.declaration.name,)
        return self.name, self.problem.learner, *wrapper

    @property
    def user_learner(self) -> Mapping[str, Any]:
        """The user's settings of the learner."""
        table: Mapping[str, Any] = self.values.get(self.problem.learner, {})
        return table

    def layers(self) -> list[Layer]:
        """Return all sources of values, later ones winning; general defaults are the fields'."""
        problem, values = self.problem, self.values
        paper = preset(problem.name, self.name)
        evaluation = {}
        if isinstance(problem, EnvironmentProblem):
            evaluation = {name: getattr(problem, name) for name in _EPISODES}
        learner = self.user_learner
        if "local_steps" in learner and "local_epochs" in {**problem.defaults, **paper.learner}:
            learner = {"local_epochs": 0, **learner}  # steps replace epochs
        user = Layer(
            run={key: value for key, value in values.items() if key in RUN_SETTINGS},
            learner=learner,
            algorithm=values.get(self.name, {}),
            wrapper={} if self.wrapper is None else values.get(self.wrapper.declaration.name, {}),
        )
        return [
            Layer(run={**evaluation, **problem.run_defaults}, learner=problem.defaults),
            Layer(run=self.algorithm.run_defaults),
            paper,
            user,
        ]


def configure(values: Mapping[str, Any]) -> Configuration:
    """Return the complete configuration of a run.

    Defaults are filled in setting by setting: the user's values win over the paper's for this
    problem and algorithm, these over the algorithm's, the problem's and the general defaults.

    Args:
        values: run-level settings by name and tables of settings by the name of the algorithm, the
            learner or the wrapper: what a TOML file holds. ``algorithm`` may also be a `Wrapper`
            around a host.

    Raises:
        UserError: a value is unknown, wrong, or does not fit the others.
    """
    choice = _choose(values)
    for check_choice in CHOICE_CHECKS:
        check_choice(choice)
    run, learner_values, algorithm_values, wrapper_values = merged(choice.layers())
    learner = build(choice.learner_settings, learner_values, where=choice.problem.learner)
    run, learner = _scheduled(choice, run, learner)
    run = _adjusted(choice, run)
    for check in CHECKS:
        check(choice, run)
    wrapper = {}
    if choice.wrapper is not None:
        name = choice.wrapper.declaration.name
        wrapper = build(choice.wrapper, wrapper_values, where=name).model_dump()
    algorithm = build(choice.algorithm, algorithm_values, where=choice.name)
    tables = (algorithm.model_dump(), learner.model_dump(), wrapper)
    complete = {**run, **dict(zip(_TABLES, tables, strict=True))}
    return _verified(build(Configuration, complete, where="run"), algorithm)


def _choose(values: Mapping[str, Any]) -> _Choice:
    """Find everything that the values name."""
    if "problem" not in values:
        raise UserError("problem is missing: name what is to be learned, e.g. deep-sea-treasure.")
    if isinstance(values["problem"], Mapping):
        values = {**values, "problem": resolved(values["problem"])}
    if isinstance(host := values.get("algorithm"), Wrapper):
        values = {**values, **host.run_settings()}
    problem = problems.find(values["problem"])
    if problem.learner not in LEARNERS:
        raise unknown(f"learner of problem {problem.name}", problem.learner, LEARNERS)
    learner, learner_settings = LEARNERS[problem.learner]
    learner.check(problem)
    algorithm = algorithms.find(str(values.get("algorithm", "fedpref")))
    name = str(values.get("wrapper", "none"))
    if name not in ("none", *wrappers()):
        raise unknown("wrapper", name, ("none", *wrappers()))
    wrapper = None if name == "none" else find_wrapper(name)
    return _Choice(values, problem, learner, learner_settings, algorithm, wrapper)


def _scheduled(
    choice: _Choice, run: Mapping[str, Any], learner: LearnerSettings
) -> tuple[Mapping[str, Any], LearnerSettings]:
    """Fill in rounds or all steps, and what depends on these; wrong types are refused later."""
    if "rounds" not in run:
        run = {**run, "rounds": max(1, round(learner.total_steps / learner.local_steps))}
    elif isinstance(run["rounds"], int) and "total_steps" not in choice.user_learner:
        total = max(1, run["rounds"] * learner.local_steps)
        learner = learner.model_copy(update={"total_steps": total})
    if isinstance(stack := run.get("chunk", 10), int):
        clients = run.get("clients", 20)
        learner = learner.decided(min(stack, clients) if isinstance(clients, int) else stack)
    return run, learner


def _adjusted(choice: _Choice, run: Mapping[str, Any]) -> Mapping[str, Any]:
    """Turn off defaults that mean nothing here or exclude what the user has set."""
    alone = not choice.algorithm.communicates
    if alone or ("keep_scope" not in choice.values and _excluded(run)):
        run = {**run, "keep_scope": "client"}
    return {**run, "guard": False} if alone else run


def _verified(configuration: Configuration, algorithm: Algorithm) -> Configuration:
    """Try out what a run begins with, so that it is refused before anything is written."""
    _check_absences(configuration)
    vectors, problem = configuration.get_preferences(), configuration.get_problem()
    algorithm.check(problem, configuration.participants(configuration.clients))
    if isinstance(problem, DataProblem):
        problem.shares()
    if isinstance(configuration.preferences, str) and configuration.preferences.endswith(".csv"):
        # a file may change or move: the configuration holds its content
        configuration = configuration.model_copy(update={"preferences": vectors.tolist()})
    return configuration


# -- checks --------------------------------------------------------------------------------

_EPISODES = ("validation_episodes", "test_episodes")


def _check_names(choice: _Choice) -> None:
    names = (*RUN_SETTINGS, *choice.tables)
    for key in choice.values:
        if key not in names:
            tables = (f"{table}.…" for table in choice.tables)
            raise unknown("setting", key, [*RUN_SETTINGS, *tables])


def _check_tables(choice: _Choice) -> None:
    for name in choice.tables:
        table = choice.values.get(name, {})
        if not isinstance(table, Mapping):
            raise UserError(f"{name} = {table!r}: must be a table of settings.")


def _check_losses(choice: _Choice) -> None:
    if "losses" in choice.algorithm.needs and not choice.learner.differentiable:
        raise UserError(
            f"{choice.name} needs objectives that are differentiable losses; {choice.problem.name} "
            "has the rewards of an environment. Use it on a problem with data: comity list "
            "problems."
        )


def _check_absences(configuration: Configuration) -> None:
    """Refuse absences of clients, rounds or exchanges that the run does not have."""
    last = configuration.rounds + 1
    algorithm = configuration.get_algorithm()
    if configuration.absences and algorithm.centralised:
        raise UserError(
            f"absences mean nothing for {configuration.algorithm}: it pools the data of all."
        )
    for round, client, exchange in configuration.absences:
        entry = f"absences: [{round}, {client}, {exchange!r}]"
        if not 0 <= client < configuration.clients:
            raise UserError(f"{entry}: clients are 0 to {configuration.clients - 1}.")
        if exchange == "finish" and round != last:
            raise UserError(f"{entry}: the last delivery is round {last}.")
        if exchange != "finish" and not 1 <= round < last:
            raise UserError(f"{entry}: rounds are 1 to {last - 1}.")
        if exchange == "survey" and not algorithm.surveys:
            raise UserError(f"{entry}: {configuration.algorithm} makes no survey; say 'round'.")


def _check_wrapper(choice: _Choice) -> None:
    if choice.wrapper is not None:
        choice.wrapper.check(choice.algorithm)


def _check_evaluation(choice: _Choice, run: Mapping[str, Any]) -> None:
    problem = choice.problem
    if isinstance(problem, EnvironmentProblem):
        if run.get("evaluate_every", 0) != 0:
            raise UserError(f"evaluate_every means nothing for {problem.name}: it has no data.")
        return
    for name in _EPISODES:
        if run.get(name, 1) != 1:
            raise UserError(f"{name} means nothing for {problem.name}: it has data.")


def _check_communication(choice: _Choice, run: Mapping[str, Any]) -> None:
    name, values = choice.name, choice.values
    if choice.algorithm.communicates:
        return
    if values.get("keep_scope", "client") != "client":
        raise UserError(
            f"keep_scope = federation means nothing for {name}: its clients are sent no models."
        )
    if values.get("guard", False):
        raise UserError(f"guard = true means nothing for {name}: its clients receive no models.")
    if values.get("fine_tune", "none") != "none":
        raise UserError(f"fine_tune means nothing for {name}: its clients only train locally.")


def _check_attribute(choice: _Choice, run: Mapping[str, Any]) -> None:
    problem = choice.problem
    attributes = problem.attributes if isinstance(problem, DataProblem) else {}
    if "attribute" in choice.algorithm.needs and len(attributes) != 1:
        raise UserError(
            f"{choice.name} balances the groups of one attribute of people; {problem.name} has "
            f"{len(attributes) or 'no'} such attributes. Use it on a problem with one, e.g. "
            "adult-gender-dp: comity list problems."
        )


def _check_classes(choice: _Choice, run: Mapping[str, Any]) -> None:
    problem = choice.problem
    classified = isinstance(problem, DataProblem) and problem.classified
    if "classes" in choice.algorithm.needs and not classified:
        raise UserError(
            f"{choice.name} needs labels that are classes, with one output of the network for "
            f"each; {problem.name} has none. Use it on a problem such as cifar10-small or "
            "praffl-adult."
        )


def _check_participation(choice: _Choice, run: Mapping[str, Any]) -> None:
    if choice.algorithm.centralised and run.get("participation", 1.0) != 1.0:
        raise UserError(f"participation means nothing for {choice.name}: it pools the data of all.")


def _check_keep_scope(choice: _Choice, run: Mapping[str, Any]) -> None:
    together = run.get("keep", "best") == "best" and run.get("keep_scope") == "federation"
    if together and (key := _excluded(run)):
        raise UserError(
            f"{key} = {run[key]} and keep_scope = federation exclude each other: one round is "
            "chosen of what all clients were sent. Say keep_scope = client."
        )


CHOICE_CHECKS = (_check_names, _check_tables, _check_losses, _check_wrapper)
"""Of what is chosen, before any setting is looked at; in this order."""
CHECKS = (
    _check_evaluation,
    _check_communication,
    _check_attribute,
    _check_classes,
    _check_participation,
    _check_keep_scope,
)
"""Of the merged values of a run; in this order."""


def _excluded(run: Mapping[str, Any]) -> str | None:
    """Return the setting, if any, under which clients cannot choose a round together."""
    plain = {"participation": 1.0, "fine_tune": "none", "guard": False}
    return next((key for key in plain if run.get(key, plain[key]) != plain[key]), None)


# -- reading -------------------------------------------------------------------------------


def read_toml(path: Path) -> dict[str, Any]:
    """Return the values in a configuration file."""
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise UserError(f"config: no file {path}.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"config: {path} is not a TOML file: {error}.") from None


def parse_setting(text: str) -> tuple[list[str], Any]:
    """Split ``"fedpref.top_r=0.4"`` into path and value; values are TOML, bare words strings."""
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise UserError(f"--set {text}: expected NAME=VALUE, e.g. --set dqn.learning_rate=1e-3.")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    return path.strip().split("."), parsed
