"""The complete configuration of a run: every value that decides its bits, in one place.

It is written to ``config.toml`` as it stands after all defaults are filled in, so running that
file again gives the same bits.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import StringConstraints
from torch import nn

from comity import algorithms, problems
from comity.algorithms import Algorithm
from comity.algorithms.wrappers.confree import ConFREE
from comity.core.preferences import preferences
from comity.core.typing import FloatArray
from comity.errors import UserError, unknown
from comity.learners import LEARNERS
from comity.problems import DataProblem, EnvironmentProblem, Problem
from comity.problems.base import EVEN
from comity.problems.own_table import resolved
from comity.settings import Settings, build, setting

FineTune = Annotated[str, StringConstraints(pattern=r"^(none|replace-last|extra:[1-9]\d*)$")]


class Configuration(Settings):
    """All settings of one run. Two tables hold those of the algorithm and of the learner."""

    problem: str | dict[str, Any] = setting(
        ..., "what is learned: a name, module:attribute, or a table that describes your own data"
    )
    algorithm: str = setting("fedpref", "what is federated about it")
    wrapper: Literal["none", "confree"] = setting(
        "none", "confree: the server's step without what clients' updates do to each other"
    )
    clients: int = setting(20, "how many participants", at_least=1)
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
    keep: Literal["best", "last"] = setting(
        "best", "hand over each client's best validated model, or its last one"
    )
    keep_scope: Literal["client", "federation"] = setting(
        "client", "who chooses what is best: each client its model, or all together one round"
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
        "data: every so many rounds all clients are judged on validation data, absent ones, too; "
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
        """What results and directories call the problem."""
        return self.problem if isinstance(self.problem, str) else problems.find(self.problem).name

    @property
    def label(self) -> str:
        """The algorithm's name as a row of a comparison: ``fedavg+ft`` when fine-tuned."""
        wrapped = self.algorithm if self.wrapper == "none" else f"{self.algorithm}+{self.wrapper}"
        return wrapped if self.fine_tune == "none" else f"{wrapped}+ft"

    def get_problem(self) -> Problem:
        """The problem as the clients of this run have it."""
        found = problems.find(self.problem)
        return found.partitioned(self.clients, self.seed, self.partition, self.sizes)

    def get_algorithm(self) -> Algorithm:
        return algorithms.make(self.algorithm, self.algorithm_settings)

    def get_wrapper(self) -> ConFREE | None:
        return None if self.wrapper == "none" else ConFREE(**self.wrapper_settings)

    def get_module(self) -> nn.Module:
        """A fresh module as every client of this run holds one."""
        problem = self.get_problem()
        return self.get_algorithm().build(problem.model(), problem)

    def participants(self, clients: int) -> int:
        """How many of so many clients take part in a round."""
        return max(1, round(self.participation * clients))

    @property
    def keeps_together(self) -> bool:
        """Whether the server chooses the round whose models are kept."""
        return self.keep == "best" and self.keep_scope == "federation"

    def get_preferences(self) -> FloatArray:
        objectives = len(self.get_problem().objectives)
        return preferences(self.preferences, self.clients, objectives, self.seed)

    def to_toml(self) -> str:
        """As a file: run-level settings, then one table each for algorithm and learner."""
        values = self.model_dump(exclude=set(_TABLES))
        if self.wrapper != "none":
            values[self.wrapper] = self.wrapper_settings
        values[self.algorithm] = self.algorithm_settings
        values[self.get_problem().learner] = self.learner_settings
        return tomli_w.dumps(values)


_FOR_THE_LEARNER = ("local_steps", "learning_rate", "optimiser")  # among an algorithm's tuned
_TABLES = ("algorithm_settings", "learner_settings", "wrapper_settings")
RUN_SETTINGS = tuple(name for name in Configuration.model_fields if name not in _TABLES)


def configure(values: Mapping[str, Any]) -> Configuration:
    """Fill in all defaults: the user's values over the paper's for this problem over general ones.

    ``values`` has run-level settings by name and, by the name of the algorithm or the learner,
    tables of theirs: what a TOML file holds.
    """
    if "problem" not in values:
        raise UserError("problem is missing: name what is to be learned, e.g. deep-sea-treasure.")
    if isinstance(values["problem"], Mapping):
        values = {**values, "problem": resolved(values["problem"])}
    if isinstance(values.get("algorithm"), ConFREE):
        values = {**values, **values["algorithm"].unwrapped()}
    problem = problems.find(values["problem"])
    if problem.learner not in LEARNERS:
        raise unknown(f"learner of problem {problem.name}", problem.learner, LEARNERS)
    learner_class, settings_class = LEARNERS[problem.learner]
    learner_class.check(problem)
    name = str(values.get("algorithm", "fedpref"))
    algorithm_class = algorithms.find(name)
    wrapper = values.get("wrapper", "none")
    tables = (name, problem.learner, *(["confree"] if wrapper == "confree" else []))
    for key in values:
        if key not in (*RUN_SETTINGS, *tables):
            raise unknown("setting", key, [*RUN_SETTINGS, *(f"{table}.…" for table in tables)])
    for table in tables:
        if not isinstance(values.get(table, {}), Mapping):
            raise UserError(f"{table} = {values[table]!r}: must be a table of settings.")

    if algorithm_class.needs_losses() and not learner_class.differentiable:
        raise UserError(
            f"{name} needs objectives that are differentiable losses; {problem.name} has the "
            "rewards of an environment. Use it on a problem with data: comity list problems."
        )
    if wrapper == "confree" and not algorithm_class.guided:
        hosts = [key for key, found in algorithms.algorithms().items() if found.guided]
        raise UserError(
            f"confree takes the place of a mean of updates that clients share; {name} has none. "
            f"It works with {', '.join(sorted(hosts))}."
        )
    tuned = dict(algorithm_class.declaration.tuned.get(problem.name, {}))
    spoken = {key: tuned.pop(key) for key in _FOR_THE_LEARNER if key in tuned}
    run_defaults = {key: tuned.pop(key) for key in ("rounds",) if key in tuned}
    given = values.get(problem.learner, {})
    learner_values = {**problem.defaults, **spoken, **given}
    if "local_steps" in given and "local_epochs" in learner_values:
        learner_values["local_epochs"] = given.get("local_epochs", 0)  # who counts steps means it
    settings = build(settings_class, learner_values, where=problem.learner)
    run_values = {key: value for key, value in values.items() if key in RUN_SETTINGS}
    for key, value in {
        **problem.run_defaults,
        **algorithm_class.run_defaults,
        **run_defaults,
    }.items():
        run_values.setdefault(key, value)
    if "rounds" not in run_values:
        run_values["rounds"] = max(1, round(settings.total_steps / settings.local_steps))
    elif "total_steps" not in given and isinstance(run_values["rounds"], int):
        total = max(1, run_values["rounds"] * settings.local_steps)
        settings = settings.model_copy(update={"total_steps": total})
    for episodes in ("validation_episodes", "test_episodes"):
        if isinstance(problem, EnvironmentProblem):
            run_values.setdefault(episodes, getattr(problem, episodes))
        elif run_values.get(episodes, 1) != 1:
            raise UserError(f"{episodes} means nothing for {problem.name}: it has data.")
    if isinstance(problem, EnvironmentProblem) and run_values.get("evaluate_every", 0) != 0:
        raise UserError(f"evaluate_every means nothing for {problem.name}: it has no data.")
    if not algorithm_class.communicates:
        _refuse_meaningless(name, values)
        run_values |= {"guard": False, "keep_scope": "client"}
    if "keep_scope" not in values and _excluded(run_values):
        run_values["keep_scope"] = "client"
    _refuse_unfit(name, algorithm_class, problem, run_values)
    if isinstance(stack := run_values.get("chunk", 10), int):  # if not, it is refused below
        clients = run_values.get("clients", 20)
        settings = settings.decided(min(stack, clients) if isinstance(clients, int) else stack)
    wrapped = build(ConFREE, values.get("confree", {}), where="confree")
    chosen = build(algorithm_class, {**tuned, **values.get(name, {})}, where=name)
    configuration = build(
        Configuration,
        {
            **run_values,
            "algorithm_settings": chosen.model_dump(),
            "learner_settings": settings.model_dump(),
            "wrapper_settings": wrapped.model_dump() if wrapper == "confree" else {},
        },
        where="run",
    )
    vectors = configuration.get_preferences()
    partitioned = configuration.get_problem()
    chosen.check(partitioned, configuration.participants(configuration.clients))
    if isinstance(partitioned, DataProblem):
        partitioned.shares()  # what cannot be dealt out so is refused before anything is written
    if isinstance(configuration.preferences, str) and configuration.preferences.endswith(".csv"):
        # a file may change or move: the configuration holds what it said
        configuration = configuration.model_copy(update={"preferences": vectors.tolist()})
    return configuration


def _refuse_unfit(
    name: str, algorithm: type[Algorithm], problem: Problem, values: Mapping[str, Any]
) -> None:
    """What an algorithm cannot do here, and settings that exclude each other."""
    groups = problem.attributes if isinstance(problem, DataProblem) else {}
    if algorithm.needs_groups and len(groups) != 1:
        raise UserError(
            f"{name} balances the groups of one attribute of people; {problem.name} has "
            f"{len(groups) or 'no'} such attributes. Use it on a problem with one, e.g. "
            "adult-gender-dp: comity list problems."
        )
    if algorithm.needs_classes and not (isinstance(problem, DataProblem) and problem.classified):
        raise UserError(
            f"{name} needs labels that are classes, with one output of the network for each; "
            f"{problem.name} has none. Use it on a problem such as cifar10-small or praffl-adult."
        )
    whole = values.get("participation", 1.0) == 1.0
    if algorithm.centralised and not whole:
        raise UserError(f"participation means nothing for {name}: it pools the data of all.")
    together = values.get("keep", "best") == "best" and values.get("keep_scope") == "federation"
    if together and (key := _excluded(values)):
        raise UserError(
            f"{key} = {values[key]} and keep_scope = federation exclude each other: one round is "
            "chosen of what all clients were sent. Say keep_scope = client."
        )


def _excluded(values: Mapping[str, Any]) -> str | None:
    """The setting, if any, under which clients cannot choose a round together."""
    plain = {"participation": 1.0, "fine_tune": "none", "guard": False}
    return next((key for key in plain if values.get(key, plain[key]) != plain[key]), None)


def _refuse_meaningless(name: str, values: Mapping[str, Any]) -> None:
    if values.get("keep_scope", "client") != "client":
        raise UserError(
            f"keep_scope = federation means nothing for {name}: its clients are sent no models."
        )
    if values.get("guard", False):
        raise UserError(f"guard = true means nothing for {name}: its clients receive no models.")
    if values.get("fine_tune", "none") != "none":
        raise UserError(f"fine_tune means nothing for {name}: its clients only train locally.")


def read_toml(path: Path) -> dict[str, Any]:
    """The values in a configuration file."""
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise UserError(f"config: no file {path}.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"config: {path} is not a TOML file: {error}.") from None


def parse_setting(text: str) -> tuple[list[str], Any]:
    """``"fedpref.top_r=0.4"`` as path and value; values are TOML, bare words are strings."""
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise UserError(f"--set {text}: expected NAME=VALUE, e.g. --set dqn.learning_rate=1e-3.")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    return path.strip().split("."), parsed
