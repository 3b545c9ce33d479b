"""One network by itself: torch's own Adam, part by part."""

from __future__ import annotations

import torch
from torch import nn

from comity.algorithms.pfedrlla.trainer import AdamTrainer
from comity.core.running import forward


def test_its_steps_are_adams():
    torch.manual_seed(1)
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    pupil = AdamTrainer(module, 1e-2, 1e-3, parts=("0.", "2."))
    optimisers = {
        part: torch.optim.Adam(module[int(part[0])].parameters(), lr=1e-2, weight_decay=1e-3)
        for part in ("0.", "2.")
    }
    run = forward(module)
    inputs = torch.randn(8, 3)
    for part in ("0.", "2.", "2.", "0.", "2."):
        pupil.descend(run(pupil.tracked(part), inputs[None]).square().mean(), part)
        module.zero_grad()
        module(inputs).square().mean().backward()
        optimisers[part].step()
    for name, tensor in module.state_dict().items():
        torch.testing.assert_close(pupil.tensors[name][0], tensor)
        assert not pupil.tensors[name].requires_grad
