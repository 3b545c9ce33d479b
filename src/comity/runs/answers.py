"""Answers of final models: whether a client's model gives every test sample the same one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from comity.configuration import Configuration
from comity.core.fleet import Fleet
from comity.core.phases import Batch
from comity.problems import DataProblem
from comity.problems.data import batch_of

_PIECE = 500  # samples at a time


def constant_models(
    configuration: Configuration, models: Fleet, clients: Sequence[int] | None = None
) -> list[bool | None]:
    """Return whether each model gives all test samples of its client the same answer.

    None where that is unknown: in environments, with a single test sample, and where the scores of
    a problem depend on more than the answers, so that its models give none.

    Args:
        configuration: The run's configuration.
        models: One model per client.
        clients: The clients; None: all.
    """
    problem = configuration.get_problem()
    numbers = range(configuration.clients) if clients is None else clients
    if not isinstance(problem, DataProblem):
        return [None] * len(numbers)
    algorithm, template = configuration.get_algorithm(), configuration.get_module()
    preferences = configuration.get_preferences()
    columns, shares = problem.columns(), problem.client_rows()
    results = []
    for row, client in enumerate(numbers):
        network = algorithm.predictor(models.module(row, template), preferences[client]).eval()
        results.append(_is_constant(problem, network, batch_of(columns, shares[client].test)))
    return results


@torch.inference_mode()
def _is_constant(problem: DataProblem, network: nn.Module, batch: Batch) -> bool | None:
    pieces = torch.split(batch["inputs"], _PIECE)
    outputs = torch.cat([network(piece) for piece in pieces])
    if len(outputs) < 2:
        return None
    answers, plain = _answers(outputs)
    scores, same = problem.scores(outputs, batch), problem.scores(plain, batch)
    if not torch.allclose(scores, same, atol=1e-6, equal_nan=True):
        return None
    return bool((answers == answers[:1]).all())


def _answers(outputs: Tensor) -> tuple[Tensor, Tensor]:
    """Return hard answers, and outputs that give the same answers and tell nothing else.

    One output is a logit of yes; of several the largest is the class.
    """
    if outputs.ndim == 1 or outputs.shape[-1] == 1:
        yes = outputs > 0
        return yes, torch.where(yes, 1.0, -1.0).to(outputs.dtype)
    best = outputs.argmax(dim=-1)
    return best, F.one_hot(best, outputs.shape[-1]).to(outputs.dtype)
