"""A user's own pictures: an ``.npz`` file, or a directory with one folder per class."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from comity.core.typing import ByteArray
from comity.datasets.album import Album
from comity.datasets.files import read_bytes, read_picture
from comity.errors import UserError

Shape = tuple[int, int, int]
"""Channels, height and width of a picture."""
_MODES = {1: "L", 3: "RGB"}
_ENDINGS = (".png", ".jpg", ".jpeg")


def read_pictures(path: Path, classes: Sequence[str], shape: Shape) -> Album:
    """Return the pictures of a file or directory, in the order in which they are there.

    Args:
        path: An ``.npz`` file with ``images`` (bytes, pictures x channels x height x width, or
            without channels if grey) and ``labels`` (places in ``classes``), or a directory with
            one folder per class of PNG or JPEG files, which are read in the order of their names.
        classes: Names of the classes.
        shape: Shape of every picture.
    """
    pixels, labels = _folders(path, classes, shape) if path.is_dir() else _arrays(path)
    if pixels.ndim == 3:
        pixels = pixels[:, None]
    if pixels.dtype != np.uint8 or pixels.shape[1:] != shape:
        raise UserError(
            f"{path}: pictures must be bytes (uint8) of {_text(shape)}, got {pixels.dtype} of "
            f"{_text(pixels.shape[1:])}."
        )
    if not np.issubdtype(labels.dtype, np.integer) or labels.shape != (len(pixels),):
        raise UserError(
            f"{path}: labels must be one whole number per picture, got {labels.dtype} of shape "
            f"{labels.shape} for {len(pixels):,} pictures."
        )
    wrong = np.flatnonzero((labels < 0) | (labels >= len(classes)))
    if len(wrong):
        raise UserError(
            f"{path}: picture {wrong[0]} has the label {labels[wrong[0]]}, but the classes are "
            f"numbered 0 to {len(classes) - 1}: {', '.join(classes)}."
        )
    silos = np.zeros(len(pixels), dtype=np.int64)
    return Album(pixels, labels.astype(np.int64), silos, (str(path),))


def _arrays(path: Path) -> tuple[ByteArray, ByteArray]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return arrays["images"], arrays["labels"]
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise UserError(
            f"{path}: must be a directory with one folder per class, or an .npz file with the "
            f"arrays images and labels ({error})."
        ) from None


def _folders(path: Path, classes: Sequence[str], shape: Shape) -> tuple[ByteArray, ByteArray]:
    channels, height, width = shape
    for folder in sorted(path.iterdir()):
        if folder.is_dir() and folder.name not in classes:
            raise UserError(f"{folder}: is no class; the classes are {', '.join(classes)}.")
    files = [
        (file, label)
        for label, name in enumerate(classes)
        for file in sorted((path / name).glob("*"))
        if file.suffix.lower() in _ENDINGS
    ]
    pixels = np.zeros((len(files), *shape), dtype=np.uint8)
    for row, (file, _) in zip(pixels, files, strict=True):
        picture = read_picture(read_bytes(file), str(file), _MODES[channels])
        if picture.shape[:2] != (height, width):
            size = f"{picture.shape[0]} x {picture.shape[1]}"
            raise UserError(f"{file}: has {size} pixels instead of {height} x {width}.")
        row[:] = picture.reshape(height, width, channels).transpose(2, 0, 1)
    return pixels, np.array([label for _, label in files], dtype=np.uint8)


def _text(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))
