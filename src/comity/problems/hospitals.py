"""Is a patient ill? Four hospitals that differ, with the published cut of their patients.

There is one objective, accuracy, and logistic regression. Published figures say that FedAvg serves
these hospitals worse than staying alone (FLamby, NeurIPS 2022). Every hospital scales its patients
by its own training rows, so nothing but the model travels. `heart-disease` sets validation rows
aside; `heart-disease-flamby` is the published protocol, which does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from comity.core.phases import Batch
from comity.core.rng import stream
from comity.core.typing import IntArray
from comity.datasets.apportionment import set_aside
from comity.datasets.hospitals import FEATURES, HOSPITALS, LICENCE, NAME, patients
from comity.datasets.partition import ClientRows, PartitionSpec
from comity.errors import UserError
from comity.problems.base import Objective
from comity.problems.data import DataProblem, Samples, weighted_mean


@lru_cache(maxsize=2)
def _samples(set_aside: bool) -> Samples:
    everybody = patients()
    columns = {
        "inputs": torch.from_numpy(everybody.inputs),
        "label": torch.from_numpy(everybody.ill).float(),
    }
    notes: tuple[str, ...] = (
        "patients with a missing cell, and the columns slope, ca and thal, are left out",
        "each hospital's inputs are scaled by its own training rows",
        "with partition 'natural' test rows are FLamby's, the same under every seed",
    )
    if not set_aside:
        notes += ("with partition 'natural' validation rows are the training rows",)
    names = tuple(HOSPITALS.values())
    return Samples(columns, everybody.ill, {}, everybody.hospital, names, notes)


@dataclass(frozen=True, kw_only=True)
class HospitalsProblem(DataProblem):
    """Accuracy of logistic regression on the patients of each hospital."""

    set_aside: bool = True
    """Whether ``natural`` hospitals set validation rows aside.

    If not, all of FLamby's training rows are learned from, and validate, too: nothing may be chosen
    by them.
    """

    def samples(self) -> Samples:
        """Return all patients; strata are well and ill."""
        return _samples(self.set_aside)

    def network(self, samples: Samples) -> nn.Module:
        """Return logistic regression."""
        return nn.Sequential(nn.Linear(len(FEATURES), 1))

    def losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Return the cross entropy."""
        entropy = F.binary_cross_entropy_with_logits(
            outputs.squeeze(-1), batch["label"], reduction="none"
        )
        return weighted_mean(entropy, batch).reshape(1)

    def scores(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Return the accuracy."""
        right = (outputs.squeeze(-1) > 0).float() == batch["label"]
        return weighted_mean(right.float(), batch).reshape(1)

    def constant(self, batch: Batch) -> Tensor:
        """Return the logit of the answer that most of a hospital's patients would get right."""
        return torch.where(batch["label"].mean() > 0.5, 1.0, -1.0).reshape(1)

    def prepare(self, samples: Samples, train: IntArray) -> Mapping[str, Tensor]:
        """Scale each hospital's inputs by its own training rows; what is constant there stays."""
        inputs, hospital = samples.columns["inputs"].clone(), patients().hospital
        for number in range(len(HOSPITALS)):
            learned = samples.columns["inputs"][train[hospital[train] == number]]
            if not len(learned):
                continue
            spread = learned.std(0, unbiased=False)
            rows = hospital == number
            scaled = (inputs[rows] - learned.mean(0)) / torch.where(spread > 1e-6, spread, 1.0)
            inputs[rows] = scaled
        return {**samples.columns, "inputs": inputs}

    def prepared(self, inputs: Tensor) -> Tensor:
        """Refuse new patients: their hospital, whose scales they need, is not among the inputs."""
        raise UserError(f"problem {self.name}: new rows lack the scales of their hospital.")

    def partition(self, samples: Samples, spec: PartitionSpec) -> list[ClientRows]:
        """Return the rows of each client; with ``natural``, hospitals with FLamby's test rows.

        Validation rows, if they are set aside, come out of the training rows, by the first two
        numbers of the split.
        """
        if spec.partition != "natural" or spec.clients != len(HOSPITALS):
            return samples.partition(spec)
        everybody, fractions = patients(), spec.fractions[:2]
        order = stream(spec.seed, "partition", 1).permutation(len(samples.strata))
        shares = []
        for number in range(len(HOSPITALS)):
            here = everybody.hospital == number
            test = np.flatnonzero(here & everybody.test)
            if not self.set_aside:
                train = np.flatnonzero(here & ~everybody.test)
                shares.append(ClientRows(train, train, test))
                continue
            rows = order[here[order] & ~everybody.test[order]]
            train, validation = set_aside(rows, samples.strata, fractions)
            shares.append(ClientRows(train, validation, test))
        return shares


PROBLEM = HospitalsProblem(
    name=NAME,
    title="Heart disease: is a patient ill, at four hospitals; FLamby's cut",
    objectives=(Objective("accuracy", "share", "right answers"),),
    reference_point=(0.0,),
    licence=LICENCE,
    defaults={
        "learning_rate": 1e-3,
        "batch_size": 4,
        "normalise": "none",
        "local_steps": 100,
        "total_steps": 1500,
    },
    run_defaults={"clients": 4, "partition": "natural", "split_ratio": "50:16:34"},
)
PROBLEMS = (
    PROBLEM,
    replace(
        PROBLEM,
        name=f"{NAME}-flamby",
        title=f"{PROBLEM.title} and protocol: no validation rows, last models",
        defaults={**PROBLEM.defaults, "optimiser": "sgd"},
        run_defaults={**PROBLEM.run_defaults, "keep": "last"},
        set_aside=False,
    ),
)
"""All problems of this module."""
