from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest
import torch
from torch.func import vmap

from comity.core.fleet import Fleet, forward
from comity.errors import UserError
from comity.problems import find, multitask
from comity.problems.multitask import (
    LeNet,
    commonest,
    fashion_mnist,
    losses,
    mnist,
    multi_task,
    overlaid,
    read_idx,
    scores,
)

NAMES = [name for pair in multitask._FILES.values() for name in pair]


def few():
    """Forty images of one brightness each, which says what their class is."""
    values = np.arange(40, dtype=np.uint8)
    return np.broadcast_to(values[:, None, None] + 1, (40, 28, 28)), values % 10


def idx(array):
    head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype(np.uint8).tobytes()


# -- images --------------------------------------------------------------------------------


@pytest.mark.parametrize(("part", "count", "ones"), [("train", 60000, 6742), ("test", 10000, 1135)])
def test_mnist_is_whole(part, count, ones):
    images, labels = mnist(part)
    assert (images.shape, images.dtype) == ((count, 28, 28), np.uint8)
    assert (labels == 1).sum() == ones
    assert images.max() == 255


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("MNIST", "nowhere.xz", r"nowhere\.xz is absent"),
        ("_SHA256", "0" * 64, r"mnist\.npz\.xz is absent or not the file"),
        (
            "_DIGITS",
            {"test": (980, 1135)},
            r"arrays of shape \(10000, 28, 28\) and \(10000,\) instead of 2,1",
        ),
        ("_DIGITS", {"test": (1000,) * 10}, r"\[980, 1135, .*\] images a class"),
    ],
)
def test_a_damaged_copy_is_refused(monkeypatch, name, value, message):
    monkeypatch.setattr(multitask, name, value)
    with pytest.raises(UserError, match=rf"MNIST: its copy is damaged \({message}.*again\."):
        mnist("test")


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_idx_files_are_read(tmp_path, pack):
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    (tmp_path / "file").write_bytes(pack(idx(array)))
    assert (read_idx(tmp_path / "file") == array).all()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a whole IDX file"),
        (b"\0\0\x08", "not a whole IDX file"),
        (b"\0\0\x08\0", "not a whole IDX file"),
        (b"\0\0\x08\x03\0\0", "not a whole IDX file"),
        (idx(np.zeros((2, 3)))[:-1], r"not a whole IDX file of bytes \(17 bytes"),
        (idx(np.zeros((2, 3))) + b"\0", "not a whole IDX file"),
        (b"\0\0\x0d" + idx(np.zeros(4))[3:], "not a whole IDX file"),
        (gzip.compress(idx(np.zeros((2, 3))), mtime=0)[:-9], "cannot be read"),
        (None, "cannot be read"),
    ],
)
def test_what_is_no_idx_file_is_refused(tmp_path, content, message):
    if content is not None:
        (tmp_path / "file").write_bytes(content)
    with pytest.raises(UserError, match=rf"file.* {message}.*Get the file again"):
        read_idx(tmp_path / "file")


@pytest.fixture
def places(tmp_path, monkeypatch):
    """The three directories in which Fashion-MNIST is looked for, all empty."""
    own, home, debian = tmp_path / "own", tmp_path / "home", tmp_path / "debian"
    found = [own, home / ".cache" / "comity" / "fashion-mnist", debian]
    for place in found:
        place.mkdir(parents=True)
    monkeypatch.setenv("COMITY_DATA", str(own))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(multitask, "_DEBIAN", debian)
    monkeypatch.setattr(multitask, "_CLOTHES", {"train": (2,) * 10, "test": (1,) * 10})
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
        images, labels = fashion_mnist()
        assert (images.shape, labels.shape) == ((20, 28, 28), (20,))
        assert (images == brightness).all()
        assert len(fashion_mnist("test")[1]) == 10
    (places[0] / NAMES[-1]).unlink()  # what is not complete is passed over
    assert (fashion_mnist()[0] == 1).all()
    put(places[0], 0)
    monkeypatch.delenv("COMITY_DATA")
    assert (fashion_mnist()[0] == 1).all()


def test_without_fashion_mnist_it_is_said_where_to_put_it(places):
    with pytest.raises(UserError, match=r"package dataset-fashion-mnist, or .*COMITY_DATA") as told:
        find("multi-fashion").model()
    assert all(str(place) in str(told.value) for place in places)
    assert all(name in str(told.value) for name in NAMES)


def test_files_with_other_counts_are_not_fashion_mnist(places):
    put(places[0], 0)
    (places[0] / NAMES[1]).write_bytes(idx(np.zeros(20)))
    with pytest.raises(UserError, match=r"Fashion-MNIST: its copy is damaged \(\[20\] images"):
        fashion_mnist()


# -- pictures ------------------------------------------------------------------------------


def test_pictures_are_two_images_that_overlap():
    left, right = np.zeros((2, 1, 28, 28), dtype=np.uint8)
    # rows and columns 0, 1, 3, 4, 5, 7, 8, … of the canvas are kept, 2 and 6 are not
    left[0, 0, 1], left[0, 2, 2], left[0, 7, 7], left[0, 8, 8] = 10, 99, 50, 90
    right[0, 1, 1], right[0, 2, 2], right[0, 0, 5], right[0, 26, 3] = 200, 30, 99, 7
    expected = np.zeros((28, 28), dtype=np.uint8)
    expected[0, 1] = 10
    expected[5, 5] = 200  # both at 7, 7: the right one is brighter
    expected[6, 6] = 90  # both at 8, 8: the left one is
    expected[25, 7] = 7  # at 32, 9
    assert (overlaid(left, right)[0] == expected).all()


def test_an_image_is_in_one_picture_only():
    samples = multi_task("few", few, samples=20).samples()
    inputs, labels = samples.columns["inputs"], samples.columns["labels"]
    assert (inputs.shape, inputs.dtype) == ((20, 1, 28, 28), torch.float32)
    corners = (255 * torch.stack([inputs[:, 0, 0, 0], inputs[:, 0, 25, 25]], 1)).round().long() - 1
    assert sorted(corners.flatten().tolist()) == list(range(40))
    assert (labels == corners % 10).all()
    assert (samples.cells == (labels[:, 0] * 10 + labels[:, 1]).numpy()).all()


def test_pictures_are_always_the_same_and_fewer_are_the_first_of_many():
    many, fewer = (multi_task("few", few, samples=n).samples().columns for n in (20, 5))
    assert (many["inputs"][:5] == fewer["inputs"]).all()


@pytest.mark.parametrize("count", [0, 21])
def test_more_pictures_than_pairs_are_refused(count):
    with pytest.raises(UserError, match=rf"samples = {count}: must be from 1 to 20, .* 40 images"):
        multi_task("few", few, samples=count).samples()


def test_nothing_is_read_before_it_is_needed():
    def source():
        raise AssertionError("read")

    problem = multi_task("lazy", source).partitioned(2, 1, "iid", "equal")
    assert [objective.name for objective in problem.objectives] == [
        "left-accuracy",
        "right-accuracy",
    ]
    with pytest.raises(AssertionError, match="read"):
        problem.shares()


# -- learning and judging ------------------------------------------------------------------


def batch(labels, weight):
    return {"labels": torch.tensor(labels), "weight": torch.tensor(weight)}


def test_losses_and_scores_of_each_head():
    outputs = torch.zeros(3, 2, 10)
    outputs[0, 0, 4] = outputs[1, 0, 4] = outputs[1, 1, 9] = 2.0
    seen = batch([[4, 1], [5, 9], [0, 0]], [1.0, 1.0, 0.0])  # the last one is padding
    # -log softmax of 2 and of 0 beside one 2, and of 0 among zeros
    hit, miss, even = np.log(np.exp(2) + 9) - 2, np.log(np.exp(2) + 9), np.log(10)
    expected = [(hit + miss) / 2, (even + hit) / 2]
    assert losses(outputs, seen).tolist() == pytest.approx(expected, rel=1e-5)
    assert scores(outputs, seen).tolist() == [0.5, 0.5]
    assert scores(outputs, {**seen, "weight": torch.ones(3)}).tolist() == pytest.approx(
        [2 / 3, 2 / 3]  # of a tie the first class is the answer
    )


def test_the_constant_answer_is_the_commonest():
    seen = batch([[4, 1], [4, 9], [0, 9]], [1.0, 1.0, 1.0])
    assert commonest(seen).argmax(dim=1).tolist() == [4, 9]
    problem = multi_task("few", few, samples=20).partitioned(1, 1, "iid", "equal")
    assert problem.trivial([0], 1, 1).shape == (1, 2)


def test_a_fleet_of_networks_answers_as_each_does():
    modules = [LeNet(), LeNet()]
    fleet = Fleet.cat([Fleet.of(module, 1) for module in modules])
    inputs, labels = torch.rand(2, 4, 1, 28, 28), torch.randint(10, (2, 4, 2))
    outputs = forward(modules[0])(fleet.tensors, inputs)
    assert outputs.shape == (2, 4, 2, 10)
    found = vmap(losses)(outputs, {"labels": labels, "weight": torch.ones(2, 4)})
    for row, module in enumerate(modules):
        torch.testing.assert_close(outputs[row], module(inputs[row]))
        alone = losses(outputs[row], {"labels": labels[row], "weight": torch.ones(4)})
        torch.testing.assert_close(found[row], alone)


def test_a_round_is_about_one_pass_for_two_clients():
    problem = find("multi-mnist")
    shares = problem.partitioned(2, 1, "iid", "equal").shares()
    assert [len(share.train) for share in shares] == [7000, 7000]
    assert problem.defaults["local_steps"] == 27
    assert problem.defaults["total_steps"] == 30 * 27
