"""Data sets of pictures with one class each.

Every loader returns all pictures of a data set, the official training and test parts together:
every client splits its own. Some come with the package, CIFAR-10 (see `comity.datasets.cifar`) and
Fashion-MNIST are fetched once, and the others are read from the files that their authors publish,
once a user has them.
"""

from __future__ import annotations

import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from comity.core.typing import ByteArray
from comity.datasets.album import Album, album
from comity.datasets.fetching import NotFetchedError, Remote, fetch, not_fetched, report
from comity.datasets.files import (
    PARTS,
    Part,
    absent,
    checked,
    damaged,
    places,
    read_bytes,
    read_idx,
    read_matrix,
    read_picture,
    shipped_images,
    user_files,
)
from comity.errors import UserError

# -- pictures that come with the package ---------------------------------------------------

MNIST = "mnist.npz.xz"
USPS = "usps.npz.xz"
CIFAR10_SMALL = "cifar10_small.npz.xz"
_SHA256 = {
    MNIST: "194245814334b8b0086b846d63c8d2d4d38c938b1dd83a822bc05a7bff95499d",
    USPS: "fb89bb78349a3b12ffbad2d85a428704db7bae522cd10ecd1cbe67edf999bad8",
    CIFAR10_SMALL: "cadbf926d738e03ef262f5eb3ccbc3ff5175e0b9e7b016524f3025b529d594f8",
}
Counts = dict[Part, tuple[int, ...]]
"""Number of pictures of each class."""
_MNIST: Counts = {
    "train": (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
    "test": (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
}
_USPS: Counts = {
    "train": (1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644),
    "test": (359, 264, 198, 166, 200, 160, 170, 147, 166, 177),
}
_SMALL: Counts = {"train": (400,) * 10, "test": (100,) * 10}


def mnist(*parts: Part) -> Album:
    """Return MNIST's 70,000 handwritten digits, 28 x 28, or those of some official parts."""
    images = shipped_images("MNIST", MNIST, _SHA256[MNIST])
    return album([checked("MNIST", images[part], _MNIST[part]) for part in parts or PARTS])


def usps() -> Album:
    """Return USPS' 9,298 handwritten digits from envelopes, 16 x 16."""
    images = shipped_images("USPS", USPS, _SHA256[USPS])
    return album([checked("USPS", images[part], _USPS[part], (16, 16)) for part in PARTS])


def cifar10_small() -> Album:
    """Return 5,000 of CIFAR-10's pictures, 500 of each class."""
    name, parts = "cifar10-small", []
    images = shipped_images(name, CIFAR10_SMALL, _SHA256[CIFAR10_SMALL])
    for part, (packed, labels) in images.items():
        parts.append(checked(name, (restored(packed), labels), _SMALL[part], (3, 32, 32)))
    return album(parts, "4,000 training and 1,000 test pictures of CIFAR-10, 500 a class")


def restored(packed: ByteArray) -> ByteArray:
    """Return pictures from the differences (channel first) as which they are shipped.

    Differences take a quarter less space. Red and blue are differences to green, and every pixel is
    the difference to its prediction from its left, upper and upper left neighbours.
    """
    planes = np.cumsum(np.cumsum(packed, axis=-1, dtype=np.uint8), axis=-2, dtype=np.uint8)
    planes[[0, 2]] += planes[1]
    return np.ascontiguousarray(planes.swapaxes(0, 1))


# -- Fashion-MNIST -------------------------------------------------------------------------

_CLOTHES: Counts = {"train": (6000,) * 10, "test": (1000,) * 10}
_FILES: dict[Part, tuple[str, str]] = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
_FASHION = "fashion-mnist"
_FASHION_ADDRESSES = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
    "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion",
    "https://storage.googleapis.com/tensorflow/tf-keras-datasets",
)
_FASHION_SHA256 = {  # of NAME.gz
    "train-images-idx3-ubyte": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
    "train-labels-idx1-ubyte": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
    "t10k-images-idx3-ubyte": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
    "t10k-labels-idx1-ubyte": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
}
_DEBIAN = Path("/usr/share/datasets/fashion-mnist")


def fashion_mnist(*parts: Part) -> Album:
    """Return Fashion-MNIST's 70,000 articles of clothing, 28 x 28, or some official parts.

    They are read from the original files, where a user or the system has them, or fetched once.
    """
    place, paths = _fashion_files()
    advice = f"put the original files into {place}"
    images = []
    for part in parts or PARTS:
        pixels, labels = (read_idx(paths[name]) for name in _FILES[part])
        images.append(checked("Fashion-MNIST", (pixels, labels), _CLOTHES[part], advice=advice))
    return album(images)


def _fashion_files() -> tuple[Path, dict[str, Path]]:
    """Return the first directory that has all files, and the path of each file; or fetch them."""
    own = os.environ.get("COMITY_DATA")
    cache = Path.home() / ".cache" / "comity" / _FASHION
    directories = [cache, _DEBIAN]
    if own:
        root = Path(own).expanduser()
        directories = [root / _FASHION, root, *directories]
    for directory in directories:
        paths = {name: path for name in _FASHION_SHA256 if (path := _present(directory / name))}
        if len(paths) == len(_FASHION_SHA256):
            return directory, paths
    return directories[0], _fetch_fashion(directories)


def _fetch_fashion(directories: Sequence[Path]) -> dict[str, Path]:
    """Fetch the files from their authors or a mirror into the first of the directories."""
    target, title = directories[0], "Fashion-MNIST"
    report(title, f"fetching 31 MB, once, into {target} …")
    try:
        paths = {
            name: fetch(
                Remote(f"{name}.gz", sha256, tuple(f"{a}/{name}.gz" for a in _FASHION_ADDRESSES)),
                target,
            )
            for name, sha256 in _FASHION_SHA256.items()
        }
    except NotFetchedError as failure:
        raise not_fetched(
            title,
            failure.reasons,
            f"Try again with a connection, install Debian's package dataset-fashion-mnist, or put "
            f"the four files {', '.join(_FASHION_SHA256)} (with .gz or without) into one of "
            f"{', '.join(map(str, directories))}; the environment variable COMITY_DATA may name "
            "another directory.",
        ) from None
    report(title, "done.")
    return paths


def _present(path: Path) -> Path | None:
    """Return a file, or its compressed copy, if there is one."""
    copies = (path, path.with_name(f"{path.name}.gz"))
    return next((copy for copy in copies if copy.is_file()), None)


# -- pictures that a user has --------------------------------------------------------------

_DRAWING = re.compile(r"([^/]+)/character\d+/\d+_(\d+)\.png$")


def omniglot() -> Album:
    """Return Omniglot's drawings of characters, 105 x 105: classes are alphabets, silos drawers.

    Every drawer drew each character once, so that only alphabets can be learned from others.
    """
    sets = ("images_background", "images_evaluation")
    choices = [choice for name in sets for choice in (name, f"{name}.zip")]
    directories = places("omniglot", "omniglot-py")
    place = next((p for p in directories if any((p / choice).exists() for choice in choices)), None)
    if place is None:
        raise absent("Omniglot", directories, "images_background (a folder, or as .zip)")
    drawings = [drawing for name in sets for drawing in _drawings(place, name)]
    if not drawings:
        raise damaged("Omniglot", f"{place} has no Alphabet/characterNN/xxxx_yy.png", "look there")
    pixels = _stacked(
        [(read_picture(content, name, "L")[None], name) for name, _, _, content in drawings]
    )
    _, labels = np.unique([alphabet for _, alphabet, _, _ in drawings], return_inverse=True)
    drawers, silos = np.unique([drawer for _, _, drawer, _ in drawings], return_inverse=True)
    names = tuple(f"drawer {drawer}" for drawer in drawers)
    note = f"classes are {labels.max() + 1} alphabets, silos are drawers"
    return Album(pixels, labels.astype(np.int64), silos.astype(np.int64), names, (note,))


def _drawings(place: Path, name: str) -> Iterator[tuple[str, str, str, bytes]]:
    """Yield name, alphabet, drawer and content of each file, in order of the names."""
    if (place / name).is_dir():
        for path in sorted((place / name).rglob("*.png")):
            if match := _DRAWING.search(path.as_posix()):
                yield str(path), match[1], match[2], read_bytes(path)
    elif (packed := place / f"{name}.zip").is_file():
        try:
            with zipfile.ZipFile(packed) as archive:
                for member in sorted(archive.namelist()):
                    if match := _DRAWING.search(member):
                        yield f"{packed}: {member}", match[1], match[2], archive.read(member)
        except (OSError, zipfile.BadZipFile, zlib.error) as error:
            raise UserError(f"{packed} cannot be read: {error}. Get the file again.") from None


def flowers102() -> Album:
    """Return the 8,189 photographs of flowers of Oxford's 102 categories, made 64 x 64."""
    directories = places("flowers102", "flowers-102")
    place = user_files("Flowers102", directories, "imagelabels.mat", "setid.mat", "jpg")
    labels = read_matrix(place / "imagelabels.mat", "labels") - 1
    parts = [read_matrix(place / "setid.mat", part) for part in ("trnid", "valid", "tstid")]
    numbers = np.concatenate(parts)
    if not len(numbers) or numbers.min() < 1 or numbers.max() > len(labels):
        raise damaged(
            "Flowers102",
            f"setid.mat speaks of pictures that are not among imagelabels.mat's {len(labels):,}",
            f"put the original files into {place}",
        )
    paths = [place / "jpg" / f"image_{number:05}.jpg" for number in numbers]
    pictures = [read_picture(read_bytes(path), str(path), "RGB", (64, 64)) for path in paths]
    pixels = np.stack([picture.transpose(2, 0, 1) for picture in pictures])
    return Album(pixels, labels[numbers - 1], notes=("squeezed to 64 x 64 pixels",))


def _stacked(pictures: Sequence[tuple[ByteArray, str]]) -> ByteArray:
    """Return pictures, with their names, as one array; they must be of one size."""
    first, _ = pictures[0]
    for pixels, name in pictures:
        if pixels.shape != first.shape:
            raise UserError(
                f"{name} has {pixels.shape[-2]} x {pixels.shape[-1]} pixels, not "
                f"{first.shape[-2]} x {first.shape[-1]} as others. Get the file again."
            )
    return np.stack([pixels for pixels, _ in pictures])
