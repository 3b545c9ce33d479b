"""Checks of a configuration: each names the setting, the fault and the remedy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from comity.algorithms import Algorithm
from comity.configuration.attack import LABEL_FLIP
from comity.configuration.layers import Choice
from comity.configuration.run import EPISODES, RUN_SETTINGS, Configuration
from comity.core.devices import check_device
from comity.core.fleet import Fleet
from comity.core.graphs import COMPLETE
from comity.errors import UserError, unknown
from comity.learners import CONDITIONED
from comity.problems import DataProblem, EnvironmentProblem
from comity.problems.schema import SchemaProblem


def _check_names(choice: Choice) -> None:
    names = (*RUN_SETTINGS, *choice.tables)
    for key in choice.values:
        if key not in names:
            tables = (f"{table}.…" for table in choice.tables)
            raise unknown("setting", key, [*RUN_SETTINGS, *tables])


def _check_tables(choice: Choice) -> None:
    for name in choice.tables:
        table = choice.values.get(name, {})
        if not isinstance(table, Mapping):
            raise UserError(f"{name} = {table!r}: must be a table of settings.")


def _check_losses(choice: Choice) -> None:
    if "losses" in choice.algorithm.needs and not choice.learner.differentiable:
        raise UserError(
            f"{choice.name} needs objectives that are differentiable losses; {choice.problem.name} "
            "has the rewards of an environment. Use it on a problem with data: comity list "
            "problems."
        )


def _check_rewards(choice: Choice) -> None:
    acts = not choice.learner.differentiable and choice.problem.learner in CONDITIONED
    if "rewards" in choice.algorithm.needs and not acts:
        raise UserError(
            f"{choice.name} learns from the rewards of environments with discrete actions; "
            f"{choice.problem.name} has none. Use it on a problem such as deep-sea-treasure: "
            "comity list problems."
        )


def _check_wrapper(choice: Choice) -> None:
    for wrapper in choice.wrappers.values():
        wrapper.check(choice.algorithm)


def _check_evaluation(choice: Choice, run: Mapping[str, Any]) -> None:
    problem = choice.problem
    if isinstance(problem, EnvironmentProblem):
        if run.get("evaluate_every", 0) != 0:
            raise UserError(f"evaluate_every means nothing for {problem.name}: it has no data.")
        if run.get("global_test", "all") != "all":
            raise UserError(f"global_test means nothing for {problem.name}: it has no data.")
        return
    for name in EPISODES:
        if run.get(name, 1) != 1:
            raise UserError(f"{name} means nothing for {problem.name}: it has data.")


def _check_communication(choice: Choice, run: Mapping[str, Any]) -> None:
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


def _check_attribute(choice: Choice, run: Mapping[str, Any]) -> None:
    problem = choice.problem
    attributes = problem.attributes if isinstance(problem, DataProblem) else {}
    if "attribute" in choice.algorithm.needs and len(attributes) != 1:
        raise UserError(
            f"{choice.name} balances the groups of one attribute of people; {problem.name} has "
            f"{len(attributes) or 'no'} such attributes. Use it on a problem with one, e.g. "
            "adult-gender-dp: comity list problems."
        )


def _check_classes(choice: Choice, run: Mapping[str, Any]) -> None:
    problem = choice.problem
    classified = isinstance(problem, DataProblem) and problem.classified
    if "classes" in choice.algorithm.needs and not classified:
        raise UserError(
            f"{choice.name} needs labels that are classes, with one output of the network for "
            f"each; {problem.name} has none. Use it on a problem such as cifar10-small or "
            "praffl-adult."
        )


def _check_participation(choice: Choice, run: Mapping[str, Any]) -> None:
    if choice.algorithm.centralised and run.get("participation", 1.0) != 1.0:
        raise UserError(f"participation means nothing for {choice.name}: it pools the data of all.")


def _check_keep_scope(choice: Choice, run: Mapping[str, Any]) -> None:
    together = run.get("keep", "best") == "best" and run.get("keep_scope") == "federation"
    if together and run.get("privacy") is not None:
        raise UserError(
            "privacy and keep_scope = federation exclude each other: clients would send the value "
            "of their validation data, which no noise covers. Say keep_scope = client."
        )
    if together and (key := excluded_by(run)):
        raise UserError(
            f"{key} = {run[key]} and keep_scope = federation exclude each other: one round is "
            "chosen of what all clients were sent. Say keep_scope = client."
        )


def _check_alone_share(choice: Choice, run: Mapping[str, Any]) -> None:
    share = run.get("alone_share", 0.0)
    if share == 0:
        return
    if reason := lacks_companions(choice.algorithm):
        raise UserError(f"alone_share = {share} means nothing for {choice.name}: {reason}.")
    if run.get("keep", "best") != "best":
        raise UserError(
            f"alone_share = {share} keeps the better of two models by validation, and keep = "
            "last the last one, whatever it does. Say keep = best."
        )


def lacks_companions(algorithm: type[Algorithm]) -> str:
    """Return the reason why clients of an algorithm have no lone companions; empty: they can."""
    if algorithm.centralised:
        return "it pools the data of all, so nobody learns alone"
    if not (algorithm.communicates or algorithm.ensembles):
        return "its clients learn alone anyway"
    return ""


def _check_links(choice: Choice, run: Mapping[str, Any]) -> None:
    if run.get("links") is None:
        return
    name, algorithm = choice.name, choice.algorithm
    if algorithm.surveys:
        raise UserError(
            f"{name} asks clients twice per round, before training and after it; with links a "
            "round is one exchange. Use an algorithm without a survey, e.g. fedavg or fedpref."
        )
    if algorithm.centralised or algorithm.ensembles:
        what = "pools the data" if algorithm.centralised else "gathers the models"
        raise UserError(
            f"{name} {what} of all clients in one place, which links do not allow for. Use an "
            "algorithm that mixes what arrives, e.g. fedavg or fedpref."
        )
    if run.get("keep", "best") == "best" and run.get("keep_scope") == "federation":
        raise UserError(
            "keep_scope = federation chooses one round of all clients; with links no round has "
            "all of them. Say keep_scope = client."
        )
    if run.get("participation", 1.0) != 1.0:
        raise UserError(
            f"participation = {run['participation']} means nothing with links: the contact plan "
            "decides who takes part in a round."
        )
    if run.get("fine_tune") == "replace-last":
        raise UserError(
            "fine_tune = replace-last means nothing with links: clients send for the last time in "
            "different rounds. Say fine_tune = extra:1."
        )


CHOICE_CHECKS = (_check_names, _check_tables, _check_losses, _check_rewards, _check_wrapper)
"""Of what is chosen, before any setting is looked at; in this order."""
CHECKS = (
    _check_evaluation,
    _check_communication,
    _check_alone_share,
    _check_attribute,
    _check_classes,
    _check_links,
    _check_participation,
    _check_keep_scope,
)
"""Of the merged values of a run; in this order."""


def excluded_by(run: Mapping[str, Any]) -> str | None:
    """Return the setting, if any, under which clients cannot choose a round together."""
    plain = {"participation": 1.0, "fine_tune": "none", "guard": False, "alone_share": 0.0}
    plain |= {"topology": "star", "links": None, "privacy": None}
    return next((key for key in plain if run.get(key, plain[key]) != plain[key]), None)


def check_absences(configuration: Configuration) -> None:
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


def check_topology(configuration: Configuration, algorithm: Algorithm) -> None:
    """Refuse a federation without a server where something needs one."""
    graph = configuration.graph
    if configuration.topology == "star":
        if graph != COMPLETE:
            raise UserError(
                f"graph = {graph} means nothing with a server. Say topology = neighbours."
            )
        return
    if reason := algorithm.needs_server:
        raise UserError(
            f"topology = neighbours: {configuration.algorithm} {reason}, which takes a server. Say "
            "topology = star, or choose another algorithm, e.g. fedpref."
        )
    if configuration.wrapper != "none":
        raise UserError(
            f"topology = neighbours: {configuration.wrapper} changes the step of the server, "
            "and there is none. Say wrapper = none."
        )
    if configuration.encoding != "none":
        raise UserError(
            f"topology = neighbours: encoding = {configuration.encoding} measures a model from one "
            "that sender and receiver hold, and neighbours hold different ones. Say encoding = "
            "none."
        )
    if configuration.links is not None and graph != COMPLETE:
        raise UserError(
            f"graph = {graph} means nothing with links: the contact plan decides who hears whom."
        )


def check_attack(configuration: Configuration) -> None:
    """Refuse an attack that the run's clients cannot make."""
    attack, problem = configuration.get_attack(), configuration.get_problem()
    entry = f"attack = '{configuration.attack}'"
    if not attack.count:
        return
    if attack.count >= configuration.clients:
        raise UserError(
            f"{entry}: of {configuration.clients} clients at least one must be honest; have at "
            f"most {configuration.clients - 1} attackers."
        )
    if configuration.get_algorithm().centralised:
        raise UserError(f"{entry} means nothing for {configuration.algorithm}: it pools data.")
    labels = isinstance(problem, DataProblem) and "label" in problem.samples().columns
    if attack.name == LABEL_FLIP and not labels:
        raise UserError(f"{entry}: {problem.name} has no labels to flip; choose another attack.")


def check_privacy(configuration: Configuration, algorithm: Algorithm) -> None:
    """Refuse differential privacy where more would leave a client than its noised update."""
    if configuration.privacy is None:
        return
    problem, module = configuration.get_problem(), configuration.get_module()
    if reason := algorithm.needs_exact(problem):
        raise UserError(
            f"privacy: {configuration.algorithm} {reason}, which the noise on updates does not "
            "cover. Leave [privacy] out, or choose another algorithm, e.g. fedavg or fedpref."
        )
    sent = Fleet.of(module, 1).group(*algorithm.travelling(module))
    if buffers := [name for name, _ in module.named_buffers() if name in sent.tensors]:
        raise UserError(
            f"privacy: the network has tensors that are counted or averaged, not trained, such as "
            f"{buffers[0]}; noise would break them. Use a network without batch normalisation."
        )
    if isinstance(problem, SchemaProblem) and problem.federated:
        raise UserError(
            f"privacy: the scale of {', '.join(problem.federated)} is federated: every client "
            "would tell count, sum and sum of squares, which no noise covers. Give [mean, spread] "
            "of what is publicly known."
        )
    if configuration.get_attack().name == "size":
        raise UserError(
            f"attack = '{configuration.attack}' means nothing with privacy: no client sends the "
            "size of its data. Choose another attack."
        )


def check_names(configuration: Configuration) -> None:
    """Refuse names that do not tell the clients apart."""
    names = configuration.names
    if names and len(names) != configuration.clients:
        raise UserError(
            f"names: {len(names)} names for {configuration.clients} clients; give one each."
        )
    for client, name in enumerate(names):
        if not name.strip() or not name.isprintable():
            raise UserError(f"names: that of client {client} is {name!r}; give a printable name.")
        if name in names[:client]:
            raise UserError(f"names: '{name}' occurs twice; give each client a name of its own.")
        if name.isdecimal() and name != str(client):
            raise UserError(
                f"names: '{name}' is the number of another client than {client}; add a letter."
            )


def check_complete(configuration: Configuration) -> None:
    """Refuse to simulate a run that cannot be simulated here.

    Its device is missing, or this party knows a part of it only: its own rows, its preference.
    """
    check_device(configuration.device)
    for client, preference in enumerate(configuration.get_preferences()):
        if np.isnan(preference).any():
            raise UserError(
                f"preferences: that of {configuration.named(client)} is empty; a simulation "
                "needs those of all clients."
            )
    problem = configuration.get_problem()
    for client, rows in enumerate(
        problem.client_rows() if isinstance(problem, DataProblem) else ()
    ):
        if not len(rows.train):
            raise UserError(
                f"problem.rows: the rows of {configuration.named(client)} are not held here; a "
                "simulation needs those of all clients, one path each."
            )
