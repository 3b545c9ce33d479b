"""Ground cover from orbit: name every kind of ground, and find the rare one.

Objectives are accuracy over six kinds of ground, and the detection of the rarest, damp grey soil:
the share of it that is found minus the share of other ground that is taken for it (Youden's index).
The two conflict, because damp grey soil looks like the soils that are drier and wetter, of which
there is more than twice as much each: in doubt, the commoner answer is more often right, and the
rarer one misses less. Detection is 0 for a model that gives all pixels the same answer, whatever it
is, and for one that guesses: naming everything damp grey soil misses nothing and gains nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from comity.core.phases import Batch
from comity.core.typing import Float32Array, IntArray
from comity.datasets.landsat import FEATURES, GROUNDS, LICENCE, NAME, brightness, landsat
from comity.datasets.reading import Columns
from comity.problems.base import Objective
from comity.problems.data import DataProblem, Samples
from comity.problems.networks import layers

RARE = list(GROUNDS.values()).index("damp grey soil")
"""Class of the rarest ground."""
HIDDEN = (64, 32)


@lru_cache(maxsize=1)
def _samples() -> Samples:
    scene = landsat()
    columns = {"inputs": torch.from_numpy(scene.inputs), "label": torch.from_numpy(scene.ground)}
    needed = {RARE: ("damp grey soil", scene.ground[scene.ground == RARE][:1])}
    notes = (
        "the official training and test parts are pooled",
        "squares of pixels overlap, so figures are better than they would be on another scene",
    )
    return Samples(columns, scene.ground, needed, notes=notes)


def rates(values: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the means over damp grey soil and over other ground (2), and whether each is present.

    Args:
        values: One value per sample.
        batch: The samples.
    """
    rare = batch["label"] == RARE
    member = torch.stack([rare, ~rare]) * batch["weight"]
    size = member.sum(dim=1)
    present = size > 0
    return (member @ values) / torch.where(present, size, 1.0), present


@dataclass(frozen=True, kw_only=True)
class LandsatProblem(DataProblem):
    """Accuracy over all kinds of ground, and detection of damp grey soil."""

    def samples(self) -> Samples:
        """Return the rows of the table; strata are kinds of ground."""
        return _samples()

    def network(self, samples: Samples) -> nn.Module:
        """Return a small network with one logit per kind of ground."""
        return nn.Sequential(*layers(len(FEATURES), HIDDEN, len(GROUNDS)))

    def losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Return two cross entropies: over all kinds of ground, and of damp grey soil against rest.

        In the second, damp grey soil and all other ground weigh one half each, however rare the one
        is, as they do in the score. A half that a batch lacks is left out.
        """
        chances = outputs.log_softmax(dim=-1)
        weight = batch["weight"]
        error = F.nll_loss(chances, batch["label"], reduction="none") @ weight / weight.sum()
        rest = torch.cat([chances[:, :RARE], chances[:, RARE + 1 :]], dim=1).logsumexp(dim=1)
        right = torch.where(batch["label"] == RARE, chances[:, RARE], rest)
        return torch.stack([error, -rates(right, batch)[0].mean()])

    def scores(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Return accuracy and detection; NaN where a client has none or nothing but the rare."""
        answers, weight = outputs.argmax(dim=-1), batch["weight"]
        accuracy = (answers == batch["label"]).float() @ weight / weight.sum()
        (found, false), present = rates((answers == RARE).float(), batch)
        return torch.stack([accuracy, torch.where(present.all(), found - false, torch.nan)])

    def constant(self, batch: Batch) -> Tensor:
        """Return logits that always name a client's commonest ground: the counts."""
        return F.one_hot(batch["label"], len(GROUNDS)).sum(dim=0).float()

    def undefined(self, batch: Batch) -> Tensor:
        """Return whether a batch lacks damp grey soil, or all other ground."""
        present = rates(torch.zeros_like(batch["weight"]), batch)[1].all()
        return torch.stack([torch.zeros_like(present), ~present])

    def prepare(self, samples: Samples, train: IntArray) -> Mapping[str, Tensor]:
        """Measure brightness from its mean in its spread, both of the training rows."""
        inputs = samples.columns["inputs"]
        learned = inputs[torch.from_numpy(train)]
        return {**samples.columns, "inputs": (inputs - learned.mean(0)) / learned.std(0)}

    def features(self) -> tuple[str, ...]:
        """Return the names of the inputs."""
        return FEATURES

    def encode(self, columns: Columns) -> Float32Array:
        """Return new rows as inputs, from the columns of a file like the shipped one."""
        return brightness(columns)


PROBLEMS = (
    LandsatProblem(
        name=NAME,
        title="Landsat: name the ground of a pixel, and find damp grey soil, the rarest",
        objectives=(
            Objective("accuracy", "share", "right answers"),
            Objective(
                "detection",
                "share",
                "share of damp grey soil that is found - share of other ground taken for it",
            ),
        ),
        reference_point=(0.0, 0.0),
        licence=LICENCE,
        classified=True,
        defaults={
            "learning_rate": 2e-3,
            "batch_size": 64,
            "normalise": "none",
            "local_steps": 50,
        },
        run_defaults={
            "clients": 10,
            "preferences": "interior",
            "partition": "dirichlet:2",
            "split_ratio": "50:20:30",
        },
        search={"iterations": 6, "candidates": 5, "local_steps": 50, "total_steps": 500},
    ),
)
"""All problems of this module."""
