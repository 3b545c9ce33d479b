"""Naming what is in a picture: the problems of personalised federated learning.

One objective, accuracy. What makes them hard is that clients have different classes
(``pathological:S``, ``shards:S``, ``dirichlet:ALPHA``) or different kinds of pictures
(``natural``), so that one model for all is a compromise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from comity.core.phases import Batch
from comity.core.rng import stream
from comity.core.typing import ByteArray
from comity.datasets import images as pictures
from comity.datasets.images import Album
from comity.datasets.partition import Share, deal, shares
from comity.errors import UserError
from comity.problems.base import Objective, register
from comity.problems.data import DataProblem, PartitionSpec, Samples
from comity.problems.networks import BodyAndHead, cnn, mlp

_SEED = 2016  # which pictures are chosen or blended is the same in every run

# -- samples -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gallery:
    """The samples of a problem: all pictures of a source, or so many of each class."""

    source: Callable[[], Album]
    each: int | None = None

    def __call__(self) -> Samples:
        return _samples(self)


@lru_cache(maxsize=4)
def _samples(what: Gallery) -> Samples:
    album = what.source()
    if what.each is not None:
        album = _some(album, what.each)
    columns = {"inputs": torch.from_numpy(album.pixels), "label": torch.from_numpy(album.labels)}
    return Samples(columns, album.labels, {}, album.silos, album.silo_names, album.notes)


def _some(album: Album, each: int) -> Album:
    """So many pictures of each class, drawn at random; fewer are the first of more."""
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


def class_deal(samples: Samples, deal: PartitionSpec) -> list[Share]:
    """Who gets which pictures: as the literature deals out classes."""
    return shares(
        samples.cells,
        deal.clients,
        deal.seed,
        partition=deal.partition,
        sizes=deal.sizes,
        silos=samples.silos,
        silo_names=samples.silo_names,
        capped=True,
    )


# -- domains -------------------------------------------------------------------------------

DOMAINS = {"MNIST": 0.4, "USPS": 0.4, "blended": 0.2}
"""Three kinds of digits, and the share of the clients that has each."""


def digits_domains() -> Album:
    """Digits of three kinds, 28 x 28 in colour: MNIST's, USPS', and MNIST's blended with photos.

    There are as many of each kind as makes clients equally large when each has one kind. No digit
    of MNIST is there twice. The blended ones are made the way those of MNIST-M were, but they are
    not those: their photographs are CIFAR-10's.
    """
    plain, envelopes, photos = pictures.mnist(), pictures.usps(), pictures.cifar10_small()
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
    """16 x 16 made 28 x 28, bilinear; in whole numbers, so that it is the same everywhere."""
    # pixel i lies at ((i + 1/2) 16/28 - 1/2) = (8 i - 3) / 14
    place = np.clip(8 * np.arange(28) - 3, 0, 15 * 14)
    left, part = place // 14, place % 14
    weight = np.zeros((28, 16), dtype=np.int64)
    weight[np.arange(28), left] = 14 - part
    weight[np.arange(28), np.minimum(left + 1, 15)] += part
    return ((weight @ pixels @ weight.T + 98) // 196).astype(np.uint8)


def blended(digits: ByteArray, photos: ByteArray) -> ByteArray:
    """Each digit's absolute difference to a random piece of a random photograph."""
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
    apart: ByteArray = np.abs(pieces.astype(np.int16) - digits).astype(np.uint8)
    return apart


def domain_deal(samples: Samples, dealing: PartitionSpec) -> list[Share]:
    """Where clients are domains by nature, several share one; else classes are dealt out."""
    if dealing.partition != "natural":
        return class_deal(samples, dealing)
    if dealing.clients < len(DOMAINS):
        raise UserError(
            f"partition 'natural': there are {len(DOMAINS)} domains ({', '.join(DOMAINS)}), so say "
            f"clients = {len(DOMAINS)} or more instead of {dealing.clients}."
        )
    assert samples.silos is not None
    wanted = np.array([list(DOMAINS.values())]) * dealing.clients
    having = np.repeat(np.arange(len(DOMAINS)), deal(wanted, np.ones(1, dtype=np.int64))[0])
    order = stream(dealing.seed, "domains").permutation(len(samples.cells))
    order = order[np.argsort(samples.cells[order], kind="stable")]  # so all get of every class
    holder = np.empty_like(samples.cells)
    for domain in range(len(DOMAINS)):
        rows, clients = order[samples.silos[order] == domain], np.flatnonzero(having == domain)
        holder[rows] = np.resize(clients, len(rows))
    names = tuple(f"{samples.silo_names[domain]}, client {c}" for c, domain in enumerate(having))
    return class_deal(replace(samples, silos=holder, silo_names=names), dealing)


# -- learning and judging ------------------------------------------------------------------


def classes(samples: Samples) -> int:
    """How many classes there are; every one has pictures."""
    return int(samples.columns["label"].max()) + 1


@dataclass(frozen=True)
class Network:
    """A network of a kind, as large as the pictures and classes want it."""

    kind: Callable[[int, int, int, int], BodyAndHead]

    def __call__(self, samples: Samples) -> nn.Module:
        channels, height, width = samples.columns["inputs"].shape[1:]
        return self.kind(channels, height, width, classes(samples))


def losses(outputs: Tensor, batch: Batch) -> Tensor:
    """Cross entropy."""
    return _mean(F.cross_entropy(outputs, batch["label"], reduction="none"), batch)


def scores(outputs: Tensor, batch: Batch) -> Tensor:
    """Accuracy."""
    return _mean((outputs.argmax(dim=-1) == batch["label"]).float(), batch)


def _mean(values: Tensor, batch: Batch) -> Tensor:
    return ((values * batch["weight"]).sum() / batch["weight"].sum()).reshape(1)


@dataclass(frozen=True)
class Commonest:
    """Logits of the classifier that always names a client's commonest class: the counts."""

    samples: Callable[[], Samples]

    def __call__(self, batch: Batch) -> Tensor:
        return F.one_hot(batch["label"], classes(self.samples())).sum(dim=0).float()


# -- problems ------------------------------------------------------------------------------


def image_problem(
    name: str,
    title: str,
    source: Callable[[], Album],
    *,
    network: Callable[[int, int, int, int], BodyAndHead] = cnn,
    each: int | None = None,
    rounds: int = 50,
    partition: str = "iid",
    partitioner: Callable[[Samples, PartitionSpec], list[Share]] = class_deal,
) -> DataProblem:
    """A problem on a source's pictures, or on ``each`` of a class; nothing is read before it runs.

    Learning is the papers': plain steps of 0.005 on batches of 10, once through the data a round.
    ``rounds`` are fewer than theirs: what two cores do within an hour. Clients keep their last
    model, as in the papers: they have too few validation pictures to choose by.
    """
    samples = Gallery(source, each)
    return DataProblem(
        name=name,
        title=title,
        objectives=(Objective("accuracy", "share", "right answers"),),
        reference_point=(0.0,),
        samples=samples,
        network=Network(network),
        losses=losses,
        scores=scores,
        constant=Commonest(samples),
        classified=True,
        partitioner=partitioner,
        defaults={
            "optimiser": "sgd",
            "learning_rate": 0.005,
            "batch_size": 10,
            "normalise": False,
            "local_epochs": 1,
        },
        run_defaults={
            "clients": 20,
            "rounds": rounds,
            "partition": partition,
            "keep": "last",
            "evaluate_every": 10,
        },
    )


def _register_all() -> None:
    """Every source with the papers' network, and with a small one."""
    digits, clothes = "name the handwritten digit", "name the article of clothing"
    for problem in (
        image_problem("mnist", f"MNIST: {digits}", pictures.mnist, rounds=20),
        image_problem("usps", f"USPS: {digits}", pictures.usps),
        image_problem(
            "fashion-mnist", f"Fashion-MNIST: {clothes}", pictures.fashion_mnist, rounds=20
        ),
        image_problem("cifar10", "CIFAR-10: name what is in a picture", pictures.cifar10),
        image_problem(
            "cifar10-small",
            "5,000 pictures of CIFAR-10: name what is in one",
            pictures.cifar10_small,
        ),
        image_problem(
            "digits-domains",
            f"digits of MNIST, of USPS, and blended with photographs: {digits}",
            digits_domains,
            rounds=20,
            partition="natural",
            partitioner=domain_deal,
        ),
        image_problem("cifar100", "CIFAR-100 (your copy): name one of 100", pictures.cifar100),
        image_problem(
            "omniglot",
            "Omniglot (your copy): name the alphabet of a drawn character",
            pictures.omniglot,
            rounds=10,
            partition="natural",
        ),
        image_problem("flowers102", "Flowers102 (your copy): name a flower", pictures.flowers102),
    ):
        register(replace(problem, title=f"{problem.title}; by a CNN"))
        name, title = f"{problem.name}-mlp", f"{problem.title}; by an MLP"
        register(replace(problem, name=name, title=title, network=Network(mlp)))


_register_all()
