"""The front of models in the directory of a search."""

from __future__ import annotations

import pytest

import comity
from comity.errors import UserError
from comity.searches import Search
from tests.searches.small import made


def test_the_model_for_a_preference(tmp_path):
    found = comity.open(made(tmp_path, algorithm="no-communication", rounds=6).path)
    assert isinstance(found, Search)
    vectors = found.front.vectors
    for preference in ([1.0, 0.0], [0.0, 1.0], [0.4, 0.6]):
        best = found.front.choose(preference)
        assert vectors[best] @ preference == (vectors @ preference).max()
        model = found.front.best(preference)
        for name, tensor in found.front.model(best).state_dict().items():
            assert (model.state_dict()[name] == tensor).all()
    with pytest.raises(UserError, match="off the simplex"):
        found.front.best([0.4, 0.4])
    rows = (found.path / "front.csv").read_text().splitlines()
    assert rows[0].startswith("point,treasure,time,weight of treasure,weight of time,iteration")
    assert len(rows) == len(found.front) + 1
