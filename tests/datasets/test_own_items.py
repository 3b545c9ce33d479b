"""Items of datasets: what becomes an input, and faults by client and item."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from comity.datasets.own_items import DRAWN, Fields, read_items
from comity.errors import UserError


class Rows:
    """A dataset with Hugging Face's interface: a length, and rows as mappings of columns."""

    def __init__(self, **columns):
        self.columns = columns

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def __getitem__(self, row):
        return {name: cells[row] for name, cells in self.columns.items()}


def test_pairs_become_arrays_client_by_client():
    north = TensorDataset(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([0, 1]))
    south = [([5, 6], 1)]
    items = read_items({"north": north, "south": south}, Fields())
    assert items.inputs.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert items.inputs.dtype == np.float32
    assert items.label.tolist() == [0, 1, 1]
    assert items.client.tolist() == [0, 0, 1]
    assert items.part.tolist() == [DRAWN] * 3
    assert items.values == ()


def test_pictures_have_their_channels_first():
    pixels = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)
    colour = Rows(image=[Image.fromarray(pixels)], label=[1])
    (picture,) = read_items({"a": colour}, Fields()).inputs
    assert picture.dtype == np.uint8
    assert picture.tolist() == pixels.transpose(2, 0, 1).tolist()
    grey = [(Image.fromarray(pixels[..., 0]), 0)]
    assert read_items({"a": grey}, Fields()).inputs.tolist() == [[pixels[..., 0].tolist()]]
    last = [(torch.zeros(28, 20, 3), 0)]
    assert read_items({"a": last}, Fields()).inputs.shape == (1, 3, 28, 20)
    first = [(torch.zeros(3, 28, 20), 0)]
    assert read_items({"a": first}, Fields()).inputs.shape == (1, 3, 28, 20)


def test_columns_are_found_or_named():
    rows = Rows(age=[30, 40.5], hours=[1, 2], y=[1, 0], sex=["f", "m"])
    items = read_items({"a": rows}, Fields(("age", "hours"), None, "sex"))
    assert items.inputs.tolist() == [[30, 1], [40.5, 2]]
    assert items.label.tolist() == [1, 0]
    assert (items.values, items.value.tolist()) == (("f", "m"), [0, 1])
    with pytest.raises(
        UserError, match=r"a, item 0 has the columns age, .*say which is the inputs"
    ):
        read_items({"a": rows}, Fields())
    with pytest.raises(UserError, match="unknown column of a, item 0 'wage'"):
        read_items({"a": rows}, Fields("wage"))
    with pytest.raises(UserError, match=r"a, item 0: inputs must be numbers, got .*sex = 'f'"):
        read_items({"a": rows}, Fields(("age", "sex")))


def test_attribute_values_of_triples_are_texts():
    triples = [([1.0], 0, torch.tensor(1)), ([2.0], 1, 0.0), ([3.0], 1, True)]
    items = read_items({"a": triples}, Fields(attribute="sex"))
    assert (items.values, items.value.tolist()) == (("0", "1"), [1, 0, 1])
    with pytest.raises(UserError, match="attribute 'sex' has 1 different values"):
        read_items({"a": triples[:1]}, Fields(attribute="sex"))
    with pytest.raises(UserError, match=r"item 0 is a tuple; it must be \(input, label, sex\)"):
        read_items({"a": [([1.0], 0)]}, Fields(attribute="sex"))


def test_parts_are_given_by_place_or_name():
    one, two, three = ([([float(n)], n % 2)] for n in range(3))
    assert read_items({"a": (one, two)}, Fields()).part.tolist() == [0, 2]
    assert read_items({"a": (one, two, three)}, Fields()).part.tolist() == [0, 1, 2]
    named = read_items({"a": {"test": two, "train": one, "val": three}}, Fields())
    assert (named.part.tolist(), named.inputs.ravel().tolist()) == ([0, 1, 2], [0, 2, 1])
    with pytest.raises(UserError, match="a gives one dataset, but b gives train and test"):
        read_items({"a": one, "b": (one, two)}, Fields())
    with pytest.raises(UserError, match="a gives train, but no test"):
        read_items({"a": {"train": one}}, Fields())
    with pytest.raises(UserError, match="unknown part of a 'extra'"):
        read_items({"a": {"train": one, "extra": two}}, Fields())


def test_the_fingerprint_follows_the_items():
    def fingerprint(number, label=0):
        return read_items({"a": [([number], label), ([2.0], 1)]}, Fields()).fingerprint

    assert fingerprint(1.0) == fingerprint(1.0)
    assert len({fingerprint(1.0), fingerprint(1.5), fingerprint(1.0, 1)}) == 3


class Broken(Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, row):
        if row == 1:
            raise OSError("the disk is gone")
        return torch.zeros(2), 0


class Stream(IterableDataset):
    def __iter__(self):
        yield torch.zeros(2), 0


@pytest.mark.parametrize(
    ("dataset", "fault"),
    [
        (Broken(), "b, item 1 cannot be read: OSError: the disk is gone"),
        (Stream(), "b: Stream has no length and items by number"),
        ([], "b has no items"),
        ([5], "b, item 0 is a int"),
        ([([1.0, 2.0], 0), ([1.0], 0)], r"b, item 1: the input is 1 \(numbers\), but the first of"),
        ([(np.zeros((1, 2, 2), np.uint8), 0)], r"b, item 0: the input is 1 x 2 x 2 \(bytes\)"),
        ([([1.0, float("nan")], 0)], "b, item 0: the input has a number that is not finite"),
        ([("word", 0)], "b, item 0: the input is a str"),
        ([([1.0, 2.0], "cat")], "b, item 0: the label is 'cat'"),
        ([([1.0, 2.0], 0.5)], "b, item 0: the label is 0.5"),
        ([([1.0, 2.0], -1)], "b, item 0: the label is -1"),
    ],
)
def test_faults_name_client_and_item(dataset, fault):
    with pytest.raises(UserError, match=fault):
        read_items({"a": [([0.0, 0.0], 1)], "b": dataset}, Fields())
