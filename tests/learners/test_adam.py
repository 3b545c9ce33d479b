from __future__ import annotations

import torch

from comity.learners.adam import adam_step


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
