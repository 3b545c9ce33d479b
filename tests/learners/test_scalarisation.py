from __future__ import annotations

import numpy as np
import pytest
import torch

from comity.learners.scalarisation import direction_of, smooth_tchebycheff


@pytest.mark.parametrize(
    ("direction", "value", "slope"),
    [
        ((0.5, 0.5), 1.7132616875, (1.4621171573, 0.5378828427)),
        ((0.9, 0.1), 2.2581823233, (0.2528284635, 7.7245438281)),
        ((0.1, 0.9), 7.0011381548, (9.9886249264, 0.0012638971)),
    ],
)
def test_smooth_tchebycheff(direction, value, slope):
    losses = torch.tensor([0.7, 0.2], dtype=torch.float64, requires_grad=True)
    found = smooth_tchebycheff(losses, torch.tensor(direction, dtype=torch.float64))
    (grad,) = torch.autograd.grad(found, losses)
    assert found.item() == pytest.approx(value, abs=1e-8)
    np.testing.assert_allclose(grad, slope, atol=1e-8)
    sharp = smooth_tchebycheff(losses.detach(), torch.tensor([0.5, 0.5]).double(), 10.0)
    assert sharp.item() == pytest.approx(1.4000045399, abs=1e-8)


def test_the_direction_of_an_importance():
    found = direction_of(torch.tensor([[0.3, 0.7], [1.0, 0.0]]), 0.01)
    torch.testing.assert_close(found, torch.tensor([[0.7, 0.3], [0.01 / 1.01, 1 / 1.01]]))
