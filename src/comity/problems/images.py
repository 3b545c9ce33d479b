"""Classification of pictures: the problems of personalised federated learning.

There is one objective, accuracy. Clients have different classes (``pathological:S``, ``shards:S``,
``dirichlet:ALPHA``) or different kinds of pictures (``natural``), so that one model for all is a
compromise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from comity.core.phases import Batch
from comity.core.rng import stream
from comity.core.typing import ByteArray
from comity.datasets.album import Album
from comity.datasets.apportionment import apportion
from comity.datasets.cifar import cifar10, cifar100
from comity.datasets.images import cifar10_small, fashion_mnist, flowers102, mnist, omniglot, usps
from comity.datasets.partition import ClientRows, PartitionSpec
from comity.errors import UserError
from comity.problems.base import Objective
from comity.problems.data import DataProblem, Samples, weighted_mean
from comity.problems.networks import BodyAndHead, batch_norm_cnn, cnn, mlp

_SEED = 2016  # which pictures are chosen or blended is the same in every run

# -- samples -------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _samples(source: Callable[[], Album], each: int | None) -> Samples:
    album = source()
    return album_samples(album if each is None else _some(album, each))


def album_samples(album: Album) -> Samples:
    """Return pictures as samples; strata are classes."""
    columns = {"inputs": torch.from_numpy(album.pixels), "label": torch.from_numpy(album.labels)}
    return Samples(columns, album.labels, {}, album.silos, album.silo_names, album.notes)


def _some(album: Album, each: int) -> Album:
    """Return ``each`` pictures of each class, drawn at random; fewer are the first of more."""
    counts = np.bincount(album.labels)
    if not 1 <= each <= counts.min():
        raise UserError(
            f"each = {each}: must be from 1 to {counts.min()}, because there is a class that has "
            "no more pictures."
        )
    order = stream(_SEED, "pictures").permutation(len(album.labels))
    rows = np.concatenate(
        [order[album.labels[order] == label][:each] for label in range(len(counts))]
    )
    silos = None if album.silos is None else album.silos[rows]
    notes = (*album.notes, f"{each:,} pictures of each class, drawn at random")
    return replace(
        album, pixels=album.pixels[rows], labels=album.labels[rows], silos=silos, notes=notes
    )


# -- domains -------------------------------------------------------------------------------

DOMAINS = {"MNIST": 0.4, "USPS": 0.4, "blended": 0.2}
"""Kinds of digits, and the share of the clients that has each."""


def digits_domains() -> Album:
    """Return digits of three kinds, 28 x 28 in colour: MNIST's, USPS', MNIST's blended with photos.

    The numbers of each kind make clients equally large when each has one kind. No digit of MNIST
    occurs twice. The blended ones are made in the way of MNIST-M, but from CIFAR-10's photographs.
    """
    plain, envelopes, photos = mnist(), usps(), cifar10_small()
    count = len(envelopes.labels)
    chosen = stream(_SEED, "domains").permutation(len(plain.labels))
    first, second = chosen[:count], chosen[count : count + count // 2]
    kinds = [
        _coloured(plain.pixels[first]),
        _coloured(enlarged(envelopes.pixels)),
        blended(plain.pixels[second], photos.pixels),
    ]
    return Album(
        np.concatenate(kinds),
        np.concatenate([plain.labels[first], envelopes.labels, plain.labels[second]]),
        np.repeat(np.arange(len(kinds)), [len(kind) for kind in kinds]),
        tuple(DOMAINS),
        ("blended: the difference between a digit of MNIST and a piece of a CIFAR-10 picture",),
    )


def _coloured(pixels: ByteArray) -> ByteArray:
    return np.repeat(pixels, 3, axis=1)


def enlarged(pixels: ByteArray) -> ByteArray:
    """Return pictures of 16 x 16 as 28 x 28, bilinear; in whole numbers, equal on all machines."""
    # pixel i lies at ((i + 1/2) 16/28 - 1/2) = (8 i - 3) / 14
    position = np.clip(8 * np.arange(28) - 3, 0, 15 * 14)
    left, part = position // 14, position % 14
    weight = np.zeros((28, 16), dtype=np.int64)
    weight[np.arange(28), left] = 14 - part
    weight[np.arange(28), np.minimum(left + 1, 15)] += part
    return ((weight @ pixels @ weight.T + 98) // 196).astype(np.uint8)


def blended(digits: ByteArray, photos: ByteArray) -> ByteArray:
    """Return each digit's absolute difference to a random piece of a random photograph."""
    generator = stream(_SEED, "blended")
    which = generator.integers(len(photos), size=len(digits))
    spare = [size - side + 1 for size, side in zip(photos.shape[2:], digits.shape[2:], strict=True)]
    top, left = (generator.integers(most, size=len(digits)) for most in spare)
    down, right = (np.arange(side) for side in digits.shape[2:])
    pieces = photos[
        which[:, None, None, None],
        np.arange(3)[:, None, None],
        (top[:, None] + down)[:, None, :, None],
        (left[:, None] + right)[:, None, None, :],
    ]
    difference: ByteArray = np.abs(pieces.astype(np.int16) - digits).astype(np.uint8)
    return difference


# -- problems ------------------------------------------------------------------------------


def classes(samples: Samples) -> int:
    """Return the number of classes; every one has pictures."""
    return int(samples.columns["label"].max()) + 1


@dataclass(frozen=True, kw_only=True)
class ImageProblem(DataProblem):
    """Accuracy on pictures with one class each."""

    source: Callable[[], Album]
    """Function that returns all pictures."""
    each: int | None = None
    """Number of pictures of each class; all if None."""
    architecture: Callable[[int, int, int, int], BodyAndHead] = cnn
    """Function of channels, height, width and classes that returns a network."""

    def samples(self) -> Samples:
        """Return the pictures as bytes; strata are classes."""
        return _samples(self.source, self.each)

    def network(self, samples: Samples) -> nn.Module:
        """Return a network that fits the pictures and classes."""
        channels, height, width = samples.columns["inputs"].shape[1:]
        return self.architecture(channels, height, width, classes(samples))

    def losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Return the cross entropy."""
        entropy = F.cross_entropy(outputs, batch["label"], reduction="none")
        return weighted_mean(entropy, batch).reshape(1)

    def scores(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Return the accuracy."""
        right = outputs.argmax(dim=-1) == batch["label"]
        return weighted_mean(right.float(), batch).reshape(1)

    def constant(self, batch: Batch) -> Tensor:
        """Return logits that always name a client's commonest class: the counts of the classes."""
        return F.one_hot(batch["label"], classes(self.samples())).sum(dim=0).float()

    def partition(self, samples: Samples, spec: PartitionSpec) -> list[ClientRows]:
        """Distribute classes by the rules of the literature."""
        return samples.partition(spec, capped=True)


class DomainProblem(ImageProblem):
    """Accuracy on digits of three domains, one of which each natural client has."""

    def partition(self, samples: Samples, spec: PartitionSpec) -> list[ClientRows]:
        """Distribute each domain among several clients if ``natural``, else classes."""
        if spec.partition != "natural":
            return super().partition(samples, spec)
        if spec.clients < len(DOMAINS):
            raise UserError(
                f"partition 'natural': there are {len(DOMAINS)} domains ({', '.join(DOMAINS)}), so "
                f"say clients = {len(DOMAINS)} or more instead of {spec.clients}."
            )
        assert samples.silos is not None
        quotas = np.array([list(DOMAINS.values())]) * spec.clients
        counts = apportion(quotas, np.ones(1, dtype=np.int64))[0]
        domain_of = np.repeat(np.arange(len(DOMAINS)), counts)
        order = stream(spec.seed, "domains").permutation(len(samples.strata))
        order = order[np.argsort(samples.strata[order], kind="stable")]  # all get every class
        holder = np.empty_like(samples.strata)
        for domain in range(len(DOMAINS)):
            rows = order[samples.silos[order] == domain]
            holder[rows] = np.resize(np.flatnonzero(domain_of == domain), len(rows))
        names = [samples.silo_names[domain] for domain in domain_of]
        names = [f"{name}, client {client}" for client, name in enumerate(names)]
        held = replace(samples, silos=holder, silo_names=tuple(names))
        return super().partition(held, spec)


P = TypeVar("P", bound=ImageProblem)


def image_problem(
    name: str,
    title: str,
    source: Callable[[], Album],
    *,
    network: Callable[[int, int, int, int], BodyAndHead] = cnn,
    each: int | None = None,
    rounds: int = 50,
    partition: str = "stratified",
    family: Callable[..., P] = ImageProblem,  # type: ignore[assignment]
) -> P:
    """Return a problem on pictures; nothing is read before a run needs it.

    Learning is FedALA's: plain steps of 0.005 on batches of 10, once through the data per round;
    pFedRLLA's is the preset ``pfedrlla-appendix``. Clients keep their last model, as in the papers:
    they have too few validation pictures to choose by.

    Args:
        name: Name of the problem.
        title: Description in one line.
        source: Function that returns all pictures.
        network: Function of channels, height, width and classes that returns a network.
        each: Number of pictures of each class; all if None.
        rounds: Default number of rounds: fewer than the papers', what two cores do in an hour.
        partition: Default partition.
        family: Class of the problem.
    """
    return family(
        name=name,
        title=title,
        objectives=(Objective("accuracy", "share", "right answers"),),
        reference_point=(0.0,),
        classified=True,
        defaults={
            "optimiser": "sgd",
            "learning_rate": 0.005,
            "batch_size": 10,
            "normalise": "none",
            "local_epochs": 1,
        },
        run_defaults={
            "clients": 20,
            "rounds": rounds,
            "partition": partition,
            "keep": "last",
            "evaluate_every": 10,
            "global_test": 1000,
        },
        source=source,
        each=each,
        architecture=network,
    )


def _all_problems() -> Iterator[ImageProblem]:
    """Pose every source with the papers' network, with batch normalisation, and a small one."""
    digits, clothes = "name the handwritten digit", "name the article of clothing"
    for problem in (
        image_problem("mnist", f"MNIST: {digits}", mnist, rounds=20),
        image_problem("usps", f"USPS: {digits}", usps),
        image_problem("fashion-mnist", f"Fashion-MNIST: {clothes}", fashion_mnist, rounds=20),
        image_problem("cifar10", "CIFAR-10: name what is in a picture", cifar10),
        image_problem(
            "cifar10-small", "5,000 pictures of CIFAR-10: name what is in one", cifar10_small
        ),
        image_problem(
            "digits-domains",
            f"digits of MNIST, of USPS, and blended with photographs: {digits}",
            digits_domains,
            rounds=20,
            partition="natural",
            family=DomainProblem,
        ),
        image_problem("cifar100", "CIFAR-100 (your copy): name one of 100", cifar100),
        image_problem(
            "omniglot",
            "Omniglot (your copy): name the alphabet of a drawn character",
            omniglot,
            rounds=10,
            partition="natural",
        ),
        image_problem("flowers102", "Flowers102 (your copy): name a flower", flowers102),
    ):
        yield replace(problem, title=f"{problem.title}; by a CNN")
        name, title = f"{problem.name}-bn", f"{problem.title}; by a CNN with batch normalisation"
        yield replace(problem, name=name, title=title, architecture=batch_norm_cnn)
        name, title = f"{problem.name}-mlp", f"{problem.title}; by an MLP"
        yield replace(problem, name=name, title=title, architecture=mlp)


PROBLEMS = tuple(_all_problems())
"""All problems of this module."""
