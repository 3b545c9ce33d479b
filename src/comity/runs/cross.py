"""Every client's model on every client's test data."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from comity.configuration import Configuration
from comity.core.fleet import Fleet
from comity.core.storage import load_values
from comity.core.threads import limited
from comity.core.typing import FloatArray
from comity.errors import UserError
from comity.federation.client_learner import client_learner
from comity.problems import DataProblem, Problem
from comity.problems.data import batch_of
from comity.runs.base import MODELS
from comity.runs.directory import Run
from comity.runs.export import load_exported
from comity.runs.group_schema import Cross
from comity.runs.results import finite


class _Models(NamedTuple):
    """Models that were tried on every client."""

    names: list[str]
    preferences: FloatArray
    """Preference of each model's owner (models x objectives)."""
    vectors: FloatArray
    """Objective vectors (models x clients x objectives)."""


def cross_models(run: Run, model: str | Path | None = None) -> Cross:
    """Return what every client's model reaches for every client.

    With data each model answers each client's test rows. Environments are the same for all
    clients: there a model has the returns of its own test episodes, weighed by each preference.

    Args:
        run: A finished run whose clients' rows are all at hand.
        model: A .safetensors file that `export` wrote, to be tried in place of the clients' models.
    """
    configuration = _with_rows(run)
    clients, preferences = range(configuration.clients), configuration.get_preferences()
    problem = configuration.get_problem()
    with limited(configuration.threads):
        if model is not None:
            models = _exported(problem, configuration.clients, Path(model))
        elif isinstance(problem, DataProblem):
            vectors = _vectors(configuration, problem, _fleet(run))
            models = _Models(list(configuration.get_names()), preferences, vectors)
        else:
            vectors = np.repeat(run.vectors[:, None], configuration.clients, axis=1)
            models = _Models(list(configuration.get_names()), preferences, vectors)
        trivial = problem.trivial(clients, configuration.seed, configuration.test_episodes)
    return {
        "clients": list(configuration.get_names()),
        "models": models.names,
        "preferences": preferences.tolist(),
        "objectives": [objective.name for objective in problem.objectives],
        "vectors": [[finite(vector) for vector in row] for row in models.vectors],
        "scalarised_by_client": [
            finite(preferences[client] @ row[client] for client in clients)
            for row in models.vectors
        ],
        "scalarised_by_model": [
            finite(owner @ row[client] for client in clients)
            for owner, row in zip(models.preferences, models.vectors, strict=True)
        ],
        "trivial": finite(preferences[client] @ trivial[client] for client in clients),
    }


def _with_rows(run: Run) -> Configuration:
    """Return the configuration of a run, all of whose rows are at hand."""
    if len(run.clients) < run.configuration.clients:
        raise UserError(
            f"{run.path} has the model of one site only; to try every model on every client takes "
            "all models and all rows, which only a simulation has."
        )
    try:
        configuration = run.training_configuration
        problem = configuration.get_problem()
        if isinstance(problem, DataProblem):
            problem.client_rows()
    except UserError as error:
        raise UserError(
            f"to try every model on every client takes the rows of all clients: {error}"
        ) from None
    return configuration


def _vectors(configuration: Configuration, problem: DataProblem, fleet: Fleet) -> FloatArray:
    """Evaluate all models on all clients' test samples, a chunk of clients at a time.

    The models of a chunk are one fleet, of the same size as in the run's own test: first every
    client's own model, then that of the client after it, and so on. So the diagonal has the bits
    of the run's results.
    """
    clients, preferences = configuration.clients, configuration.get_preferences()
    algorithm, objectives = configuration.get_algorithm(), len(problem.objectives)
    conditional = algorithm.evaluation_preferences(objectives, "test") is not None
    vectors = np.empty((clients, clients, objectives))
    for start in range(0, clients, configuration.chunk):
        data = np.arange(start, min(start + configuration.chunk, clients))
        for shift in range(clients):
            models = (data + shift) % clients
            chosen = fleet.select(models)
            if shift == 0 or conditional:  # a model that takes a preference gets its owner's
                numbers = tuple(data.tolist())
                learner = client_learner(configuration, numbers, chosen, preferences[models])
            scores, _ = learner.evaluate(chosen, np.arange(len(data)), "test", 0)
            vectors[models, data] = scores.round(6)
    return vectors


def _fleet(run: Run) -> Fleet:
    """Return the models of all clients as they are stored."""
    models = [
        load_values(run.path / MODELS / f"client-{client}.safetensors")[0] for client in run.clients
    ]
    return Fleet(
        {name: torch.from_numpy(np.stack([model[name] for model in models])) for name in models[0]}
    )


def _exported(problem: Problem, clients: int, path: Path) -> _Models:
    """Try an exported model on the test samples of every client."""
    if not isinstance(problem, DataProblem):
        raise UserError(
            f"model: problem {problem.name} has environments, on which a file cannot be tried; "
            "leave the model out."
        )
    network, (_, header) = load_exported(path), load_values(path)
    for name, needed in (
        ("features", list(problem.features())),
        ("objectives", [objective.name for objective in problem.objectives]),
    ):
        if header.get(name) != needed:
            raise UserError(
                f"model: {path} has other {name} than {problem.name}, so its clients' rows mean "
                "nothing to it; name a model of a run on the same columns."
            )
    scaling, raw = header["scaling"], problem.samples().columns["inputs"].double()
    if scaling is None:
        raise UserError(f"model: {path} does not say how its inputs are scaled.")
    subtract, divide = (torch.tensor(scaling[key]).double() for key in ("subtract", "divide"))
    inputs = ((raw - subtract) / divide).float()
    columns, vectors = {**problem.columns(), "inputs": inputs}, []
    with torch.inference_mode():
        for share in problem.client_rows()[:clients]:
            batch = batch_of(columns, share.test)
            vectors.append(problem.scores(network(batch["inputs"]), batch).double().numpy())
    weights = np.array([header["preference"]])
    return _Models([path.name], weights, np.stack(vectors).round(6)[None])
