"""Files of image data sets: where they are looked for, how they are read, and proof of wholeness.

Files are looked for in ``~/.cache/comity``, or in the directory that ``COMITY_DATA`` names.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import os
import zlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Literal

import numpy as np

from comity.core.typing import ByteArray, IntArray
from comity.errors import UserError

Part = Literal["train", "test"]
PARTS: tuple[Part, ...] = ("train", "test")
"""Official parts of a data set."""

Images = tuple[ByteArray, ByteArray]
"""Images, one per row, and the class of each."""

_AGAIN = "install comity again"


# -- places --------------------------------------------------------------------------------


def places(*names: str) -> list[Path]:
    """Return the directories in which a data set is looked for; the first is the proper one.

    Args:
        names: Comity's name of the directory, and the name that its authors' archive has.
    """
    own = os.environ.get("COMITY_DATA")
    root = Path(own).expanduser() if own else Path.home() / ".cache" / "comity"
    first, folder = names
    return [root / first, root / first / folder, root / folder, root]


def holding(places: Sequence[Path], *files: str) -> Path | None:
    """Return the first place that has all files."""
    return next((p for p in places if all((p / file).exists() for file in files)), None)


def user_files(title: str, places: Sequence[Path], *files: str) -> Path:
    """Return the first place that has all files of a data set that users get themselves."""
    place = holding(places, *files)
    if place is None:
        raise absent(title, places, ", ".join(files))
    return place


def absent(title: str, places: Sequence[Path], files: str) -> UserError:
    """Return the error for files that are in none of the places."""
    return UserError(
        f"data set {title}: no directory with {files} among {', '.join(map(str, places))}. It does "
        f"not come with Comity: get it from its authors and unpack it into {places[0]}, or "
        "let the environment variable COMITY_DATA name the directory that has it."
    )


# -- proof of wholeness --------------------------------------------------------------------


def damaged(name: str, reason: str, advice: str = _AGAIN) -> UserError:
    """Return the error for a damaged copy of the data set ``name``."""
    return UserError(f"data set {name}: its copy is damaged ({reason}); {advice}.")


def checked(
    name: str,
    images: Images,
    counts: tuple[int, ...],
    shape: tuple[int, ...] = (28, 28),
    advice: str = _AGAIN,
) -> Images:
    """Return images after a comparison with what a whole copy has.

    Args:
        name: Name of the data set, for messages.
        images: Images and their classes.
        counts: Number of images of each class in a whole copy.
        shape: Shape of one image.
        advice: What to do about a damaged copy.
    """
    pixels, labels = images
    if pixels.shape != (sum(counts), *shape) or labels.shape != (sum(counts),):
        shapes = f"arrays of shape {pixels.shape} and {labels.shape}"
        raise damaged(name, f"{shapes} instead of {sum(counts):,} images", advice)
    if tuple(np.bincount(labels).tolist()) != counts:
        raise damaged(name, f"{np.bincount(labels).tolist()} images a class", advice)
    return images


# -- reading -------------------------------------------------------------------------------


def shipped_images(name: str, file: str, sha256: str) -> dict[Part, Images]:
    """Return the images, by official part, in a file that comes with the package.

    Args:
        name: Name of the data set, for messages.
        file: Name of the file.
        sha256: Checksum of a whole copy.
    """
    path = files("comity.datasets.data") / file
    packed = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(packed).hexdigest() != sha256:
        raise damaged(name, f"{file} is absent or not the file that was shipped")
    with np.load(io.BytesIO(lzma.decompress(packed))) as arrays:
        return {part: (arrays[f"x_{part}"], arrays[f"y_{part}"]) for part in PARTS}


def read_idx(path: Path) -> ByteArray:
    """Return the array in an IDX file of bytes, compressed or not."""
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


def read_bytes(path: Path) -> bytes:
    """Return the content of a file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}. Get the file again.") from None


def read_picture(
    content: bytes, name: str, mode: str, size: tuple[int, int] | None = None
) -> ByteArray:
    """Return the pixels in the content of a picture's file.

    Args:
        content: Content of the file.
        name: Name of the file, for messages.
        mode: ``L`` for grey, ``RGB`` for colours.
        size: Width and height to which the picture is squeezed.
    """
    from PIL import Image  # slow to import; comes with matplotlib

    try:
        with Image.open(io.BytesIO(content)) as image:
            if size is not None:
                image.draft(mode, size)  # large photographs are decoded no finer than is needed
            converted = image.convert(mode)
            return np.asarray(converted if size is None else converted.resize(size))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise UserError(f"{name} is not a whole picture: {error}. Get the file again.") from None


def read_matrix(path: Path, name: str) -> IntArray:
    """Return a variable of a MATLAB file as a list of whole numbers."""
    from scipy.io import loadmat  # slow to import, and only one data set needs it

    try:
        return np.asarray(loadmat(str(path))[name]).astype(np.int64).ravel()
    except Exception as error:  # of many types: scipy does not check what it reads
        raise UserError(
            f"{path} is no MATLAB file with numbers called {name}: {error}. Get the file again."
        ) from None
