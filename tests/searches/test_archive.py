from __future__ import annotations

import numpy as np
import torch

from comity.core.fleet import Fleet
from comity.searches.archive import Archive, Origin


def models(*marks: float) -> Fleet:
    return Fleet({"weight": torch.tensor(marks)[:, None]})


def origins(iteration: int, count: int) -> list[Origin]:
    return [Origin([0.5, 0.5], iteration, place, None) for place in range(count)]


def every(vectors: np.ndarray) -> np.ndarray:
    return np.ones(len(vectors), dtype=bool)


def test_it_keeps_what_nothing_dominates_and_the_models_behind_it():
    archive = Archive(2, every)
    archive.add(np.array([(1.0, 5), (3, 3), (2, 2)]), models(1, 2, 3), origins(0, 3))
    np.testing.assert_array_equal(archive.vectors, [(1, 5), (3, 3)])
    archive.add(np.array([(4.0, 4), (1, 5), (0, 9)]), models(4, 5, 6), origins(1, 3))
    np.testing.assert_array_equal(archive.vectors, [(1, 5), (4, 4), (0, 9)])
    assert archive.models is not None
    assert archive.models["weight"].flatten().tolist() == [1, 4, 6], "of equal ones the oldest"
    assert [origin.iteration for origin in archive.origins] == [0, 1, 1]
    archive.add(np.array([(0.0, 0)]), models(7), origins(2, 1))
    assert len(archive) == 3


def test_its_state_comes_back():
    archive, other = Archive(2, every), Archive(2, every)
    archive.add(np.array([(1.0, 5), (3, 3)]), models(1, 2), origins(0, 2))
    other.load(*archive.state())
    np.testing.assert_array_equal(other.vectors, archive.vectors)
    assert other.origins == archive.origins
    assert other.models is not None
    assert archive.models is not None
    assert torch.equal(other.models["weight"], archive.models["weight"])


def test_vectors_that_do_not_count_are_kept_only_while_nothing_counts():
    archive = Archive(2, lambda vectors: vectors[:, 1] < 1)
    archive.add(np.array([(0.7, 1.0), (0.6, 1.0)]), models(1, 2), origins(0, 2))
    np.testing.assert_array_equal(archive.vectors, [(0.7, 1.0)])
    archive.add(np.array([(0.6, 0.9), (0.8, 1.0)]), models(3, 4), origins(1, 2))
    np.testing.assert_array_equal(archive.vectors, [(0.6, 0.9)])
    archive.add(np.array([(0.9, 1.0)]), models(5), origins(2, 1))
    assert archive.models is not None
    assert archive.models["weight"].flatten().tolist() == [3]
