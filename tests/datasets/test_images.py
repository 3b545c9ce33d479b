from __future__ import annotations

import gzip
import hashlib
import zipfile

import numpy as np
import pytest
from scipy.io import savemat

from comity.datasets import images
from comity.datasets.images import restored
from comity.errors import UserError
from comity.problems import find
from tests.datasets.formats import encoded, idx

# -- shipped -------------------------------------------------------------------------------


def test_usps_is_whole():
    album = images.usps()
    assert (album.pixels.shape, album.pixels.dtype) == ((9298, 1, 16, 16), np.uint8)
    counts = [1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644]
    assert np.bincount(album.labels[:7291]).tolist() == counts
    assert (album.pixels.min(), album.pixels.max(), album.labels.dtype) == (0, 255, np.int64)


def test_the_small_cifar10_is_whole():
    album = images.cifar10_small()
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


@pytest.mark.parametrize("source", [images.usps, images.cifar10_small])
def test_a_damaged_copy_is_refused(monkeypatch, source):
    monkeypatch.setattr(images, "_SHA256", dict.fromkeys(images._SHA256, "0" * 64))
    with pytest.raises(UserError, match=r"npz\.xz is absent or not the file.*install comity again"):
        source()


def test_parts_of_mnist_are_together():
    album = images.mnist()
    assert album.pixels.shape == (70000, 1, 28, 28)
    assert np.bincount(album.labels)[:2].tolist() == [6903, 7877]


@pytest.mark.parametrize(("part", "count", "ones"), [("train", 60000, 6742), ("test", 10000, 1135)])
def test_mnist_is_whole(part, count, ones):
    album = images.mnist(part)
    assert (album.pixels.shape, album.pixels.dtype) == ((count, 1, 28, 28), np.uint8)
    assert (album.labels == 1).sum() == ones
    assert album.pixels.max() == 255


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("MNIST", "nowhere.xz", r"nowhere\.xz is absent"),
        ("_SHA256", {"mnist.npz.xz": "0" * 64}, r"mnist\.npz\.xz is absent or not the file"),
        (
            "_MNIST",
            {"test": (980, 1135)},
            r"arrays of shape \(10000, 28, 28\) and \(10000,\) instead of 2,1",
        ),
        ("_MNIST", {"test": (1000,) * 10}, r"\[980, 1135, .*\] images a class"),
    ],
)
def test_a_damaged_copy_of_mnist_is_refused(monkeypatch, name, value, message):
    monkeypatch.setitem(images._SHA256, "nowhere.xz", images._SHA256["mnist.npz.xz"])
    monkeypatch.setattr(images, name, value)
    with pytest.raises(UserError, match=rf"MNIST: its copy is damaged \({message}.*again\."):
        images.mnist("test")


# -- Fashion-MNIST -------------------------------------------------------------------------

NAMES = [name for pair in images._FILES.values() for name in pair]


@pytest.fixture
def places(tmp_path, monkeypatch):
    """The three directories in which Fashion-MNIST is looked for, all empty."""
    own, home, debian = tmp_path / "own", tmp_path / "home", tmp_path / "debian"
    found = [own, home / ".cache" / "comity" / "fashion-mnist", debian]
    for place in found:
        place.mkdir(parents=True)
    monkeypatch.setenv("COMITY_DATA", str(own))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(images, "_DEBIAN", debian)
    monkeypatch.setattr(images, "_FASHION_ADDRESSES", ())
    monkeypatch.setattr(images, "_CLOTHES", {"train": (2,) * 10, "test": (1,) * 10})
    return found


def put(place, brightness, suffix=""):
    pack = gzip.compress if suffix else bytes
    for name in NAMES:
        count = 20 if name.startswith("train") else 10
        pixels, classes = np.full((count, 28, 28), brightness), np.arange(count) % 10
        content = idx(pixels if "images" in name else classes)
        (place / f"{name}{suffix}").write_bytes(pack(content))


def test_fashion_mnist_is_found_where_it_is(places, monkeypatch):
    for brightness, place in reversed(list(enumerate(places))):
        put(place, brightness, ".gz" if brightness else "")
        album = images.fashion_mnist("train")
        assert (album.pixels.shape, album.labels.shape) == ((20, 1, 28, 28), (20,))
        assert (album.pixels == brightness).all()
        assert len(images.fashion_mnist("test").labels) == 10
        assert len(images.fashion_mnist().labels) == 30
    (places[0] / NAMES[-1]).unlink()  # what is not complete is passed over
    assert (images.fashion_mnist("train").pixels == 1).all()
    put(places[0], 0)
    monkeypatch.delenv("COMITY_DATA")
    assert (images.fashion_mnist("train").pixels == 1).all()


def test_without_fashion_mnist_it_is_said_where_to_put_it(places):
    with pytest.raises(UserError, match=r"package dataset-fashion-mnist, .*COMITY_DATA") as told:
        find("multi-fashion").model()
    assert all(str(place) in str(told.value) for place in places)
    assert all(name in str(told.value) for name in NAMES)


def test_files_with_other_counts_are_not_fashion_mnist(places):
    put(places[0], 0)
    (places[0] / NAMES[1]).write_bytes(idx(np.zeros(20)))
    with pytest.raises(UserError, match=r"Fashion-MNIST: its copy is damaged \(\[20\] images"):
        images.fashion_mnist()


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
    album = images.omniglot()
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
        images.omniglot()
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
            images.omniglot()


def test_an_archive_that_is_none_is_named(data):
    (data / "images_background.zip").write_bytes(b"PK nothing")
    with pytest.raises(
        UserError, match=r"images_background\.zip cannot be read: File is not a zip"
    ):
        images.omniglot()
    (data / "images_background.zip").unlink()
    (data / "images_background").mkdir()
    with pytest.raises(UserError, match=r"has no Alphabet/characterNN/xxxx_yy\.png"):
        images.omniglot()


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
    album = images.flowers102()
    assert (album.pixels.shape, album.pixels.dtype) == ((6, 3, 64, 64), np.uint8)
    assert album.labels.tolist() == [2, 0, 1, 2, 0, 1]
    brightness = album.pixels.reshape(6, -1).mean(axis=1).round()
    assert np.abs(brightness - 40 * np.array([6, 1, 2, 3, 4, 5])).max() <= 1


def test_what_is_not_flowers_is_refused(data):
    with pytest.raises(
        UserError, match=r"no directory with imagelabels\.mat, setid\.mat, jpg among"
    ):
        images.flowers102()
    place = data / "flowers-102"
    put_flowers(place)
    photo = place / "jpg" / "image_00004.jpg"
    whole = photo.read_bytes()
    photo.write_bytes(whole[:-200])
    with pytest.raises(UserError, match=r"image_00004\.jpg is not a whole picture: .*truncated"):
        images.flowers102()
    photo.unlink()
    with pytest.raises(UserError, match=r"image_00004\.jpg cannot be read: No such file"):
        images.flowers102()
    photo.write_bytes(whole)
    savemat(place / "imagelabels.mat", {"labels": np.ones((1, 5))})
    with pytest.raises(UserError, match=r"that are not among imagelabels\.mat's 5"):
        images.flowers102()
    labels = (place / "imagelabels.mat").read_bytes()
    for content in (b"", b"no matrix", labels[:140], labels[:200]):
        (place / "imagelabels.mat").write_bytes(content)
        with pytest.raises(UserError, match=r"imagelabels\.mat is no MATLAB file with numbers"):
            images.flowers102()
    savemat(place / "imagelabels.mat", {"other": np.ones((1, 5))})
    with pytest.raises(UserError, match=r"imagelabels\.mat is no MATLAB file .* called labels"):
        images.flowers102()
