"""Two tasks in one picture: name what is at the upper left, and what is at the lower right.

Pictures are made as for Multi-MNIST (Sener and Koltun, 2018): two images overlap on a larger
canvas, which is shrunk to the size of one of them. One trunk with two heads learns both labels; the
objectives are the heads' accuracies. The pairs of images do not depend on a run's seed, and an
image is in one picture only, so no image occurs in both training and test pictures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from comity.core.phases import Batch
from comity.core.rng import stream
from comity.core.typing import ByteArray
from comity.datasets.album import Album
from comity.datasets.images import fashion_mnist, mnist
from comity.errors import UserError
from comity.problems.base import Objective
from comity.problems.data import DataProblem, Samples

SIDE, CLASSES = 28, 10
SAMPLES = 20_000
"""Default number of pictures: two clients train within minutes on one core."""
_CANVAS, _SHIFT = 36, 6  # the second image lies this far down and to the right
_SEED = 2018  # the pictures are the same in every run

# -- pictures ------------------------------------------------------------------------------


def training_digits() -> Album:
    """Return the training part of MNIST."""
    return mnist("train")


def training_clothes() -> Album:
    """Return the training part of Fashion-MNIST."""
    return fashion_mnist("train")


@lru_cache(maxsize=4)
def _samples(source: Callable[[], Album], count: int) -> Samples:
    album = source()
    images = album.pixels[:, 0]
    most = len(images) // 2
    if not 1 <= count <= most:
        raise UserError(
            f"samples = {count}: must be from 1 to {most}, because an image is in one picture "
            f"only and there are {len(images):,} images."
        )
    pairs = stream(_SEED, "pictures").permutation(len(images))[: 2 * count].reshape(-1, 2)
    labels = album.labels[pairs]
    inputs = overlaid(images[pairs[:, 0]], images[pairs[:, 1]])
    columns = {
        "inputs": torch.from_numpy(inputs[:, None]).float() / 255,
        "labels": torch.from_numpy(labels),
    }
    notes = (f"{count:,} pictures of two images each; no image is in two of them",)
    return Samples(columns, labels[:, 0] * CLASSES + labels[:, 1], {}, notes=notes)


def overlaid(left: ByteArray, right: ByteArray) -> ByteArray:
    """Return pictures of two images each, shrunk without blur; the brighter pixel wins."""
    canvas = np.zeros((len(left), _CANVAS, _CANVAS), dtype=np.uint8)
    canvas[:, :SIDE, :SIDE] = left
    below = canvas[:, _SHIFT : _SHIFT + SIDE, _SHIFT : _SHIFT + SIDE]
    np.maximum(below, right, out=below)
    kept = ((np.arange(SIDE) + 0.5) * _CANVAS / SIDE).astype(np.int64)
    return canvas[:, kept[:, None], kept]


# -- problems ------------------------------------------------------------------------------


class LeNet(nn.Module):
    """A small convolutional trunk with one head per task."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            *(nn.Conv2d(1, 10, 5), nn.MaxPool2d(2), nn.ReLU()),
            *(nn.Conv2d(10, 20, 5), nn.MaxPool2d(2), nn.ReLU()),
            *(nn.Flatten(), nn.Linear(20 * 4 * 4, 50), nn.ReLU()),
        )
        self.left = nn.Linear(50, CLASSES)
        self.right = nn.Linear(50, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits (samples x tasks x classes)."""
        features = self.trunk(inputs)
        return torch.stack([self.left(features), self.right(features)], dim=1)


@dataclass(frozen=True, kw_only=True)
class TwoTasksProblem(DataProblem):
    """Accuracy on the upper left image, and on the lower right one."""

    source: Callable[[], Album]
    """Function that returns the images, 28 x 28 and grey, of ten classes."""
    count: int
    """Number of pictures, each of two images."""

    def samples(self) -> Samples:
        """Return the pictures; strata are pairs of classes."""
        return _samples(self.source, self.count)

    def network(self, samples: Samples) -> nn.Module:
        """Return a `LeNet`."""
        return LeNet()

    def losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Return the cross entropy of each head."""
        entropy = F.cross_entropy(outputs.transpose(1, 2), batch["labels"], reduction="none")
        return _mean(entropy, batch)

    def scores(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Return the accuracy of each head."""
        return _mean((outputs.argmax(dim=-1) == batch["labels"]).float(), batch)

    def constant(self, batch: Batch) -> Tensor:
        """Return logits that always name a client's commonest classes: the counts."""
        return F.one_hot(batch["labels"], CLASSES).sum(dim=0).float()


def _mean(values: Tensor, batch: Batch) -> Tensor:
    """Return the weighted mean over samples, one per task."""
    weight = batch["weight"]
    return (values * weight.unsqueeze(-1)).sum(dim=0) / weight.sum()


def multi_task(name: str, source: Callable[[], Album], samples: int = SAMPLES) -> TwoTasksProblem:
    """Return a problem with two tasks; nothing is read before a run needs it.

    A round is about one pass over the data of each of two clients.

    Args:
        name: Name of the problem.
        source: Function that returns the images, 28 x 28 and grey, of ten classes.
        samples: Number of pictures, at most half of the images.
    """
    batch_size = 256
    steps = max(1, round(0.7 * samples / 2 / batch_size))  # seven tenths are for training
    return TwoTasksProblem(
        name=name,
        title=f"{name}: two overlapping images, name the left one and the right one",
        objectives=(
            Objective("left-accuracy", "share", "right answers about the image at the upper left"),
            Objective("right-accuracy", "share", "right answers about that at the lower right"),
        ),
        reference_point=(0.0, 0.0),
        defaults={
            "learning_rate": 1e-3,
            "batch_size": batch_size,
            "normalise": "none",
            "local_steps": steps,
            "total_steps": 30 * steps,
        },
        source=source,
        count=samples,
    )


PROBLEMS = (
    multi_task("multi-mnist", training_digits),
    multi_task("multi-fashion", training_clothes),
)
"""All problems of this module."""
