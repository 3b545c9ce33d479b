"""The learner of some clients of a run."""

from __future__ import annotations

from comity.configuration import Configuration
from comity.core.devices import moved
from comity.core.fleet import Fleet
from comity.core.phases import ClientModel
from comity.core.typing import FloatArray
from comity.federation.poisoning import poisoned
from comity.learners import CONDITIONED, LEARNERS, Learner, LearnerContext


def client_learner(
    configuration: Configuration,
    clients: tuple[int, ...],
    models: Fleet,
    preferences: FloatArray,
) -> Learner:
    """Return the learner that trains and evaluates the models of some clients.

    Args:
        configuration: The run's configuration.
        clients: Ids of these clients, whose data or environments are used.
        models: One model per client.
        preferences: One preference per model (clients x objectives).
    """
    algorithm = configuration.get_algorithm()
    problem = poisoned(configuration.get_problem(), configuration)
    objectives = len(problem.objectives)
    conditional = algorithm.evaluation_preferences(objectives, "validation") is not None
    learner_class, settings_class = LEARNERS[problem.learner]
    if conditional:
        learner_class = CONDITIONED[problem.learner]
    return learner_class(
        LearnerContext(
            problem,
            settings_class(**configuration.learner_settings),
            clients,
            preferences,
            configuration.seed,
            models,
            ClientModel(
                moved(configuration.get_module()),
                conditional,
                configuration.rounds,
                configuration.participation,
                pooled=algorithm.centralised,
                acting=algorithm.acting_preference,
            ),
            configuration.global_test,
        )
    )
