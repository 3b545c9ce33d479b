"""Two tasks in one picture: name what is at the upper left, and what is at the lower right.

Pictures are made as for Multi-MNIST (Sener and Koltun, 2018): two images overlap on a larger
canvas, which is made as small as one of them. One trunk with two heads learns both labels; the
objectives are the heads' accuracies. Which images meet does not depend on a run's seed, and an
image is in one picture only, so nothing that a model is tested on was seen in training.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from comity.core.phases import Batch
from comity.core.rng import stream
from comity.core.typing import ByteArray
from comity.errors import UserError
from comity.problems.base import Objective, register
from comity.problems.data import DataProblem, Samples

Images = tuple[ByteArray, ByteArray]
"""Square images, one a row, and the class of each."""
Part = Literal["train", "test"]
PARTS: tuple[Part, ...] = ("train", "test")

SIDE, CLASSES = 28, 10
SAMPLES = 20_000
"""Enough to learn from, and few enough for two clients to train within minutes on one core."""
_CANVAS, _SHIFT = 36, 6  # how far down and to the right the second image lies
_SEED = 2018  # the pictures are the same in every run

# -- images --------------------------------------------------------------------------------

MNIST = "mnist.npz.xz"
_SHA256 = "194245814334b8b0086b846d63c8d2d4d38c938b1dd83a822bc05a7bff95499d"
_DIGITS: dict[Part, tuple[int, ...]] = {
    "train": (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
    "test": (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
}
_CLOTHES: dict[Part, tuple[int, ...]] = {"train": (6000,) * CLASSES, "test": (1000,) * CLASSES}

_FILES: dict[Part, tuple[str, str]] = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
_DEBIAN = Path("/usr/share/datasets/fashion-mnist")
_AGAIN = "install comity again"


def mnist(part: Part = "train") -> Images:
    """MNIST's handwritten digits, which come with the package; their copy is checked first."""
    return mnist_parts()[part]


def mnist_parts() -> dict[Part, Images]:
    """Both parts of MNIST, unpacked once."""
    found = shipped("MNIST", MNIST, _SHA256)
    return {part: checked("MNIST", found[part], counts) for part, counts in _DIGITS.items()}


def shipped(name: str, file: str, sha256: str) -> dict[Part, Images]:
    """The images in a file that comes with the package, and their classes."""
    path = files("comity.datasets.data") / file
    packed = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(packed).hexdigest() != sha256:
        raise damaged(name, f"{file} is absent or not the file that was shipped")
    with np.load(io.BytesIO(lzma.decompress(packed))) as arrays:
        return {part: (arrays[f"x_{part}"], arrays[f"y_{part}"]) for part in PARTS}


def fashion_mnist(part: Part = "train") -> Images:
    """Fashion-MNIST's articles of clothing, from the original files where they are installed."""
    own = os.environ.get("COMITY_DATA")
    places = [Path(own).expanduser()] if own else []
    places += [Path.home() / ".cache" / "comity" / "fashion-mnist", _DEBIAN]
    names = [name for pair in _FILES.values() for name in pair]
    for place in places:
        paths = {name: path for name in names if (path := _present(place / name))}
        if len(paths) == len(names):
            images, labels = (read_idx(paths[name]) for name in _FILES[part])
            advice = f"put the original files into {place}"
            return checked("Fashion-MNIST", (images, labels), _CLOTHES[part], advice=advice)
    raise UserError(
        f"data set Fashion-MNIST: not found in {', '.join(map(str, places))}. Install Debian's "
        f"package dataset-fashion-mnist, or put the four files {', '.join(names)} (with .gz or "
        f"without) into {places[-2]} or a directory of your own that the environment variable "
        "COMITY_DATA names."
    )


def read_idx(path: Path) -> ByteArray:
    """The array in an IDX file of bytes, compressed or not."""
    try:
        content = path.read_bytes()
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} cannot be read: {error}. Get the file again.") from None
    # two zeros, 8 for bytes, the number of dimensions, and each dimension in four bytes
    start = 4 + 4 * content[3] if content.startswith(b"\0\0\x08") and len(content) > 3 else 0
    shape = [int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4)]
    if not shape or len(content) - start != np.prod(shape):
        raise UserError(
            f"{path} is not a whole IDX file of bytes ({len(content):,} bytes, uncompressed). Get "
            "the file again."
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _present(path: Path) -> Path | None:
    """A file, or its compressed copy."""
    copies = (path, path.with_name(f"{path.name}.gz"))
    return next((copy for copy in copies if copy.is_file()), None)


def checked(
    name: str,
    found: Images,
    counts: tuple[int, ...],
    shape: tuple[int, ...] = (SIDE, SIDE),
    advice: str = _AGAIN,
) -> Images:
    """Compare images with the number of each class that a whole copy has."""
    images, labels = found
    if images.shape != (sum(counts), *shape) or labels.shape != (sum(counts),):
        shapes = f"arrays of shape {images.shape} and {labels.shape}"
        raise damaged(name, f"{shapes} instead of {sum(counts):,} images", advice)
    if tuple(np.bincount(labels).tolist()) != counts:
        raise damaged(name, f"{np.bincount(labels).tolist()} images a class", advice)
    return found


def damaged(name: str, why: str, advice: str = _AGAIN) -> UserError:
    return UserError(f"data set {name}: its copy is damaged ({why}); {advice}.")


# -- pictures ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pictures:
    """The samples of a problem with two tasks: so many pairs of a source's images."""

    source: Callable[[], Images]
    count: int

    def __call__(self) -> Samples:
        return _pictures(self)


@lru_cache(maxsize=4)
def _pictures(what: Pictures) -> Samples:
    images, classes = what.source()
    most = len(images) // 2
    if not 1 <= what.count <= most:
        raise UserError(
            f"samples = {what.count}: must be from 1 to {most}, because an image is in one picture "
            f"only and there are {len(images):,} images."
        )
    pairs = stream(_SEED, "pictures").permutation(len(images))[: 2 * what.count].reshape(-1, 2)
    labels = classes[pairs].astype(np.int64)
    inputs = overlaid(images[pairs[:, 0]], images[pairs[:, 1]])
    columns = {
        "inputs": torch.from_numpy(inputs[:, None]).float() / 255,
        "labels": torch.from_numpy(labels),
    }
    notes = (f"{what.count:,} pictures of two images each; no image is in two of them",)
    return Samples(columns, labels[:, 0] * CLASSES + labels[:, 1], {}, notes=notes)


def overlaid(left: ByteArray, right: ByteArray) -> ByteArray:
    """Pictures of two images each, the brighter pixel where they overlap; shrunk without blur."""
    canvas = np.zeros((len(left), _CANVAS, _CANVAS), dtype=np.uint8)
    canvas[:, :SIDE, :SIDE] = left
    below = canvas[:, _SHIFT : _SHIFT + SIDE, _SHIFT : _SHIFT + SIDE]
    np.maximum(below, right, out=below)
    kept = ((np.arange(SIDE) + 0.5) * _CANVAS / SIDE).astype(np.int64)
    return canvas[:, kept[:, None], kept]


# -- learning and judging ------------------------------------------------------------------


class LeNet(nn.Module):
    """A small convolutional trunk with one head a task."""

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
        """Logits, samples x tasks x classes."""
        seen = self.trunk(inputs)
        return torch.stack([self.left(seen), self.right(seen)], dim=1)


def network(samples: Samples) -> nn.Module:
    return LeNet()


def losses(outputs: Tensor, batch: Batch) -> Tensor:
    """Cross entropy of each head."""
    entropy = F.cross_entropy(outputs.transpose(1, 2), batch["labels"], reduction="none")
    return _mean(entropy, batch)


def scores(outputs: Tensor, batch: Batch) -> Tensor:
    """Accuracy of each head."""
    return _mean((outputs.argmax(dim=-1) == batch["labels"]).float(), batch)


def _mean(values: Tensor, batch: Batch) -> Tensor:
    """The weighted mean over samples, one a task."""
    weight = batch["weight"]
    return (values * weight.unsqueeze(-1)).sum(dim=0) / weight.sum()


def commonest(batch: Batch) -> Tensor:
    """Logits of the classifier that always gives a client's commonest answer: the counts."""
    return F.one_hot(batch["labels"], CLASSES).sum(dim=0).float()


# -- problems ------------------------------------------------------------------------------


def multi_task(name: str, source: Callable[[], Images], samples: int = SAMPLES) -> DataProblem:
    """A problem with two tasks on pictures of a source's images; nothing is read before it runs.

    Its rounds are about one pass over the data of each of two clients.
    """
    batch_size = 256
    steps = max(1, round(0.7 * samples / 2 / batch_size))  # seven tenths are for training
    return DataProblem(
        name=name,
        title=f"{name}: two overlapping images, name the left one and the right one",
        objectives=(
            Objective("left-accuracy", "share", "right answers about the image at the upper left"),
            Objective("right-accuracy", "share", "right answers about that at the lower right"),
        ),
        reference_point=(0.0, 0.0),
        samples=Pictures(source, samples),
        network=network,
        losses=losses,
        scores=scores,
        constant=commonest,
        defaults={
            "learning_rate": 1e-3,
            "batch_size": batch_size,
            "normalise": False,
            "local_steps": steps,
            "total_steps": 30 * steps,
        },
    )


register(multi_task("multi-mnist", mnist))
register(multi_task("multi-fashion", fashion_mnist))
