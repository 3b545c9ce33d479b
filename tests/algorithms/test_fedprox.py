from __future__ import annotations

import torch

from comity.algorithms import make
from comity.core.phases import View
from tests.tiny import TINY


def test_the_pull_gives_the_printed_trajectory():
    """f = (θ-4)²/2, θ_received = 1, μ = 1, η = 0.1: 1, 1.3, 1.54; objective 3.1716."""
    pull = make("fedprox", {"mu": 1.0}).phases(TINY)[0].penalty
    assert pull is not None
    received = {"theta": torch.tensor([1.0])}
    theta, path = torch.tensor([1.0], requires_grad=True), [1.0]
    for _ in range(2):
        loss = 0.5 * (theta - 4).square().sum() + pull({"theta": theta}, View(received))
        (grad,) = torch.autograd.grad(loss, theta)
        theta = (theta - 0.1 * grad).detach().requires_grad_()
        path.append(float(theta.detach()))
    torch.testing.assert_close(torch.tensor(path), torch.tensor([1.0, 1.3, 1.54]))
    end = 0.5 * (theta - 4).square().sum() + pull({"theta": theta}, View(received))
    torch.testing.assert_close(end.detach(), torch.tensor(3.1716))


def test_without_strength_there_is_no_pull():
    pull = make("fedprox", {"mu": 0.0}).phases(TINY)[0].penalty
    assert pull is not None
    here, there = {"a": torch.ones(3)}, {"a": torch.zeros(3)}
    assert pull(here, View(there)).item() == 0.0
