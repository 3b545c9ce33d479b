from __future__ import annotations

import torch

from comity.learners.adam import Adam, adam_step


def test_compiled_steps_decay_as_well():
    """The function that is compiled; compiling it here would take seconds and show no more."""
    g = torch.Generator().manual_seed(1)
    found = [torch.randn(2, 3, generator=g)]
    expected = [found[0][row].clone().requires_grad_() for row in range(2)]
    optimisers = [torch.optim.Adam([w], 1e-2, weight_decay=0.5) for w in expected]
    first, second = [torch.zeros(2, 3)], [torch.zeros(2, 3)]
    for step in range(3):
        gradient = torch.randn(2, 3, generator=g)
        adam_step(found, [gradient], first, second, torch.tensor(float(step)), 1e-2, 0.5)
        for row, optimiser in enumerate(optimisers):
            expected[row].grad = gradient[row].clone()
            optimiser.step()
    torch.testing.assert_close(found[0], torch.stack(expected).detach())


def test_moments_without_gradients_become_zero_before_they_are_denormal():
    """Weights are those of torch: 0.1 * 0.9 ** 699 is 1e-33, and moves none."""
    weights, first, second = (torch.zeros(2, 3) for _ in range(3))
    expected = torch.zeros(3, requires_grad=True)
    optimiser, adam = torch.optim.Adam([expected], 1e-2), Adam([weights], [first], [second])
    for step in range(1000):
        gradient = torch.tensor([1.0, 1.0 if step == 0 else 0.0, -1.0])
        adam.step([gradient.repeat(2, 1)], torch.full((2,), float(step)), 1e-2)
        expected.grad = gradient
        optimiser.step()
        if step == 598:
            assert (first[:, 1] > 0).all()
        if step == 699:
            assert first[:, 1].tolist() == [0.0, 0.0]
    assert (first[:, 0] > 0.99).all()
    for row in weights:
        torch.testing.assert_close(row, expected.detach(), rtol=1e-4, atol=0)


def test_moments_of_clients_become_zero_at_their_own_counts():
    first = torch.full((2, 3), 1e-31)
    adam = Adam([torch.zeros(2, 3)], [first], [torch.ones(2, 3)])
    adam.step([torch.zeros(2, 3)], torch.tensor([98.0, 99.0]), 1e-2)
    assert (first[0] > 0).all()
    assert first[1].tolist() == [0.0, 0.0, 0.0]
