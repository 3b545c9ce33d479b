from __future__ import annotations

import moocore
import numpy as np
import pytest
import torch

from comity.core.contributions import contributions
from tests.vectors import HETPFL


def test_contributions_of_the_specification():
    losses, reference = torch.tensor(HETPFL["losses"]), torch.tensor(HETPFL["reference"])
    np.testing.assert_allclose(contributions(losses, reference), HETPFL["contribution"], atol=1e-6)


@pytest.mark.parametrize("objectives", [2, 3, 4])
def test_contributions_are_differences_of_moocores_hypervolumes(objectives):
    rng = np.random.default_rng(objectives)
    for _ in range(10):
        points = rng.uniform(0.0, 1.0, (6, objectives))
        points[5] = points[0]  # neither of two equal points adds anything
        points[4, 0] = 1.0  # on the edge
        reference = np.ones(objectives)
        whole = moocore.hypervolume(points, ref=reference)
        wanted = [
            whole - moocore.hypervolume(np.delete(points, i, axis=0), ref=reference)
            for i in range(6)
        ]
        found = contributions(torch.from_numpy(points), torch.from_numpy(reference))
        np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_contributions_of_several_sets_at_once():
    sets = torch.rand(5, 4, 2, generator=torch.Generator().manual_seed(3))
    together = torch.vmap(lambda losses: contributions(losses, torch.ones(2)))(sets)
    for one, wanted in zip(sets, together, strict=True):
        torch.testing.assert_close(contributions(one, torch.ones(2)), wanted)
