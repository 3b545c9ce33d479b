from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from comity.core.fleet import Fleet
from comity.core.packing import packed, unpacked
from comity.core.storage import load_values, save_values


def test_attributes_survive_a_file(tmp_path: Path):
    attributes = {
        "count": 3,
        "names": ["a"],
        "weights": np.array([0.5, 2.0]),
        "by_name": {"0.weight": np.arange(3), "x/y": np.zeros((0, 2)), "": np.ones(1)},
        "momentum": Fleet({"0.weight": torch.tensor([[1.0, -2.0]]), "w/b": torch.ones(1, 2, 2)}),
        "nothing_yet": dict[str, np.ndarray](),
    }
    values = packed(attributes)
    arrays = {k: v for k, v in values.items() if isinstance(v, np.ndarray)}
    save_values(tmp_path / "file", arrays, {k: v for k, v in values.items() if k not in arrays})
    tensors, plain = load_values(tmp_path / "file")
    json.dumps(plain)
    again = unpacked({**plain, **tensors})
    assert again.keys() == attributes.keys() - {"nothing_yet"}
    assert (again["count"], again["names"]) == (3, ["a"])
    np.testing.assert_array_equal(again["weights"], [0.5, 2.0])
    assert again["by_name"].keys() == {"0.weight", "x/y", ""}
    assert again["by_name"]["x/y"].shape == (0, 2)
    assert isinstance(again["momentum"], Fleet)
    assert again["momentum"]["0.weight"].tolist() == [[1.0, -2.0]]
    assert again["momentum"]["w/b"].shape == (1, 2, 2)


def test_other_things_are_refused_by_name():
    for value in ({1: 2.0}, {"a": 1.0}, object()):
        with pytest.raises(TypeError, match="memory"):
            packed({"memory": value})
