"""The attack on data: attackers that learn from turned labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from comity.configuration import Configuration
from comity.configuration.attack import LABEL_FLIP
from comity.core.typing import IntArray
from comity.problems import DataProblem, Problem, Samples


def poisoned(problem: Problem, configuration: Configuration) -> Problem:
    """Return a problem in which attackers that flip labels learn from turned labels.

    Label y becomes largest + smallest − y in their training samples: C − 1 − y of C classes.

    Args:
        problem: The problem, with its data dealt out.
        configuration: The run's configuration.
    """
    if configuration.get_attack().name != LABEL_FLIP or not isinstance(problem, DataProblem):
        return problem
    shares, original = problem.client_rows(), problem.prepare
    rows = torch.from_numpy(np.concatenate([shares[c].train for c in configuration.attackers]))

    def prepare(samples: Samples, train: IntArray) -> Mapping[str, Tensor]:
        columns = dict(original(samples, train))
        labels = columns["label"].clone()
        labels[rows] = labels.max() + labels.min() - labels[rows]
        return {**columns, "label": labels}

    return replace(problem, functions={**problem.functions, "prepare": prepare})
