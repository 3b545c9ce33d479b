"""Problems on pictures with declared classes and shape, without the pictures of others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from comity.core.phases import Batch
from comity.datasets.album import Album
from comity.datasets.own_pictures import Shape, read_pictures
from comity.datasets.schema import Finding
from comity.errors import UserError
from comity.problems.data import Samples
from comity.problems.images import ImageProblem, album_samples, image_problem
from comity.problems.networks import cnn, mlp
from comity.problems.own_rows import (
    OwnRows,
    OwnRowsProblem,
    RowsFile,
    RowsReport,
    located,
    rows_files,
)
from comity.settings import build, setting

_NETWORKS = {"cnn": cnn, "mlp": mlp}


class Description(OwnRows):
    """The ``[problem]`` table of a configuration: classes and shape, and the pictures held here."""

    kind: Literal["pictures"] = setting(..., "pictures with declared classes")
    name: str = setting("pictures", "what to call the problem")
    classes: list[str] = setting(..., "names of the classes, in the order of the outputs")
    shape: tuple[Literal[1, 3], PositiveInt, PositiveInt] = setting(
        ..., "channels (1 or 3), height and width"
    )
    network: Literal["cnn", "mlp"] = setting("cnn", "cnn: two convolutions; mlp: none, small")


def described(values: Mapping[str, Any]) -> PicturesProblem:
    """Return the problem that a ``[problem]`` table with declared classes describes."""
    description = build(Description, values, where="problem")
    return _described(json.dumps(description.model_dump(mode="json")))


def resolved(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a ``[problem]`` table with all that decides a run's bits: defaults, paths, sums."""
    description = build(Description, values, where="problem")
    described(values)
    return description.model_copy(update=located(description)).model_dump(mode="json")


@lru_cache(maxsize=8)
def _described(text: str) -> PicturesProblem:
    description = Description(**json.loads(text))
    classes, files = tuple(description.classes), rows_files(description)
    if len(classes) < 2 or len(set(classes)) < len(classes):
        raise UserError(f"problem.classes = {list(classes)}: must be two or more different names.")
    source = HeldPictures(classes, description.shape, files)
    problem = image_problem(
        description.name,
        f"{description.name}: name one of {len(classes)} classes",
        source,
        network=_NETWORKS[description.network],
        partition="natural",
        family=partial(PicturesProblem, files=files),
    )
    clients = {"clients": len(files)} if files else {}
    return replace(problem, run_defaults={**problem.run_defaults, **clients})


@dataclass(frozen=True)
class HeldPictures:
    """The pictures that are held here, read when they are needed."""

    classes: tuple[str, ...]
    shape: Shape
    files: tuple[RowsFile, ...]

    def __call__(self) -> Album:
        """Return all pictures, client by client."""
        albums = [album for album in _albums(self) if album is not None]
        nothing = np.zeros(0, dtype=np.int64)
        pixels = np.zeros((0, *self.shape), dtype=np.uint8)
        return Album(
            np.concatenate([pixels, *(album.pixels for album in albums)]),
            np.concatenate([nothing, *(album.labels for album in albums)]),
        )

    def of(self, client: int) -> Album:
        """Return the pictures of one client, whose file is held here."""
        album = _albums(self)[client]
        assert album is not None
        return album


@lru_cache(maxsize=2)
def _albums(held: HeldPictures) -> tuple[Album | None, ...]:
    return tuple(
        read_pictures(file.verified(), held.classes, held.shape) if file.path else None
        for file in held.files
    )


@dataclass(frozen=True, kw_only=True)
class PicturesProblem(OwnRowsProblem, ImageProblem):
    """Accuracy on pictures of declared classes."""

    source: HeldPictures

    def client_samples(self, client: int) -> Samples:
        """Return the pictures of one client, in the order of its file."""
        return album_samples(self.source.of(client))

    def network(self, samples: Samples) -> nn.Module:
        """Return a network for the declared shape and classes."""
        return self.architecture(*self.source.shape, len(self.source.classes))

    def constant(self, batch: Batch) -> Tensor:
        """Return logits that always name a client's commonest class: the counts of the classes."""
        return F.one_hot(batch["label"], len(self.source.classes)).sum(dim=0).float()


def check_rows(values: Mapping[str, Any], path: str | Path) -> RowsReport:
    """Return how pictures fit declared classes and shape; see `comity.problems.check_rows`."""
    problem = described({**values, "rows": [str(path)], "sha256": []})
    classes = problem.source.classes
    try:
        album = read_pictures(Path(path), classes, problem.source.shape)
    except UserError as error:
        return RowsReport(0, (Finding("", None, str(error)),))
    totals = np.bincount(album.labels, minlength=len(classes)).tolist()
    counts = {name: {"pictures": total} for name, total in zip(classes, totals, strict=True)}
    return RowsReport(len(album.labels), problem.shortage_findings(0), counts)
