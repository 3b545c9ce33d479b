"""From the user's values to a complete configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from comity.algorithms import Algorithm, name_of
from comity.algorithms import find as find_algorithm
from comity.algorithms.faults import check_hooks
from comity.algorithms.wrappers import NONE, Wrapper, find_wrappers
from comity.configuration.budget import with_budget
from comity.configuration.checks import (
    CHECKS,
    CHOICE_CHECKS,
    check_absences,
    check_attack,
    check_names,
    check_privacy,
    check_topology,
    excluded_by,
)
from comity.configuration.layers import Choice, merged
from comity.configuration.planning import with_plan
from comity.configuration.privacy import read_privacy
from comity.configuration.run import TABLES, Configuration
from comity.core.devices import CPU, resolve
from comity.core.preferences import follows_from_rows
from comity.errors import UserError, unknown
from comity.learners import LEARNERS, LearnerSettings
from comity.problems import DataProblem, resolved
from comity.problems import find as find_problem
from comity.settings import build


def configure(values: Mapping[str, Any]) -> Configuration:
    """Return the complete configuration of a run.

    Defaults are filled in setting by setting: the user's values win over the paper's for this
    problem and algorithm, these over the algorithm's, the problem's and the general defaults.

    Args:
        values: run-level settings by name and tables of settings by the name of the algorithm, the
            learner or a wrapper: what a TOML file holds. ``algorithm`` may also be a class, or a
            `Wrapper` around a host.

    Raises:
        UserError: a value is unknown, wrong, or does not fit the others.
    """
    return _complete(values) if values.get("links") is None else with_plan(values, _complete)


def _complete(values: Mapping[str, Any]) -> Configuration:
    """Return the complete configuration of a run whose rounds are known, or follow from steps."""
    choice = _choose(values)
    for check_choice in CHOICE_CHECKS:
        check_choice(choice)
    run, learner_values, algorithm_values, wrapper_values = merged(choice.layers())
    learner = build(choice.learner_settings, learner_values, where=choice.problem.learner)
    run = {**run, "device": resolve(run.get("device", CPU))}
    run, learner = _scheduled(choice, run, learner)
    if run.get("privacy") is not None:
        run = {**run, "privacy": read_privacy(run["privacy"])}
    run = _sampled(choice, _adjusted(choice, run))
    for check in CHECKS:
        check(choice, run)
    wrappers = {
        name: build(wrapper, wrapper_values.get(name, {}), where=name).model_dump()
        for name, wrapper in choice.wrappers.items()
    }
    algorithm = build(choice.algorithm, algorithm_values, where=choice.name)
    tables = (algorithm.model_dump(), learner.model_dump(), wrappers)
    complete = {**run, **dict(zip(TABLES, tables, strict=True))}
    return _verified(build(Configuration, complete, where="run"), algorithm)


def _choose(values: Mapping[str, Any]) -> Choice:
    """Find everything that the values name."""
    if "problem" not in values:
        raise UserError("problem is missing: name what is to be learned, e.g. deep-sea-treasure.")
    if isinstance(values["problem"], Mapping):
        values = {**values, "problem": resolved(values["problem"])}
    if isinstance(host := values.get("algorithm"), Wrapper):
        values = {**values, **host.run_settings()}
    if "algorithm" in values:
        values = {**values, "algorithm": name_of(values["algorithm"])}
    problem = find_problem(values["problem"])
    if problem.learner not in LEARNERS:
        raise unknown(f"learner of problem {problem.name}", problem.learner, LEARNERS)
    learner, learner_settings = LEARNERS[problem.learner]
    learner.check(problem)
    algorithm = find_algorithm(values.get("algorithm", "fedpref"))
    wrappers = {w.declaration.name: w for w in find_wrappers(str(values.get("wrapper", NONE)))}
    return Choice(values, problem, learner, learner_settings, algorithm, wrappers)


def _scheduled(
    choice: Choice, run: Mapping[str, Any], learner: LearnerSettings
) -> tuple[Mapping[str, Any], LearnerSettings]:
    """Fill in rounds or all steps, and what depends on these; wrong types are refused later."""
    if "rounds" not in run:
        run = {**run, "rounds": max(1, round(learner.total_steps / learner.local_steps))}
    elif isinstance(run["rounds"], int) and "total_steps" not in choice.user_learner:
        total = max(1, run["rounds"] * learner.local_steps)
        learner = learner.model_copy(update={"total_steps": total})
    if isinstance(stack := run.get("chunk", 10), int):
        clients = run.get("clients", 20)
        stack = min(stack, clients) if isinstance(clients, int) else stack
        learner = learner.decided(stack, run["device"])
    return run, learner


def _adjusted(choice: Choice, run: Mapping[str, Any]) -> Mapping[str, Any]:
    """Turn off defaults that mean nothing here or exclude what the user has set."""
    alone = not choice.algorithm.communicates
    if alone or ("keep_scope" not in choice.values and excluded_by(run)):
        run = {**run, "keep_scope": "client"}
    if run.get("links") is not None and "participation" not in choice.values:
        run = {**run, "participation": 1.0}
    return {**run, "guard": False} if alone else run


def _sampled(choice: Choice, run: Mapping[str, Any]) -> Mapping[str, Any]:
    """Let many models be judged on fewer samples of all clients, unless the user says on how many.

    With pictures, models x samples stay below 20 times the problem's number, which 20 clients
    reach; with tables below a million from 100 clients on, which up to then see all samples.
    """
    clients, most = run.get("clients", 20), run.get("global_test", "all")
    given = "global_test" in choice.values or not isinstance(choice.problem, DataProblem)
    if given or not isinstance(clients, int) or clients <= (100 if most == "all" else 20):
        return run
    fewer = max(1_000, 1_000_000 // clients) if most == "all" else max(100, 20 * most // clients)
    return {**run, "global_test": fewer}


def _verified(configuration: Configuration, algorithm: Algorithm) -> Configuration:
    """Try out what a run begins with, so that it is refused before anything is written."""
    check_absences(configuration)
    check_topology(configuration, algorithm)
    check_attack(configuration)
    check_privacy(configuration, algorithm)
    vectors, problem = configuration.get_preferences(), configuration.get_problem()
    algorithm.check(problem, configuration.participants(configuration.clients))
    check_hooks(algorithm, configuration.get_module(), problem)
    if isinstance(problem, DataProblem):
        problem.client_rows()
        configuration.get_module()
        if not configuration.names:
            names = list(problem.client_names())
            configuration = configuration.model_copy(update={"names": names})
    check_names(configuration)
    spec = configuration.preferences
    if isinstance(spec, str) and (spec.endswith(".csv") or follows_from_rows(spec)):
        # a file may change or move, rows may be gone: the configuration holds what they gave
        configuration = configuration.model_copy(update={"preferences": vectors.tolist()})
    return with_budget(configuration)
