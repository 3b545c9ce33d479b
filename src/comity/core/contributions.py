"""Hypervolume contributions of points whose losses are minimised, inside mapped programs."""

from __future__ import annotations

import torch
from torch import Tensor


def contributions(losses: Tensor, reference: Tensor) -> Tensor:
    """Return H(all) − H(all without i) of each point i: the volume that it alone dominates.

    The points' coordinates cut the box below the reference point into cells.

    Args:
        losses: Points x objectives, smaller is better, none above the reference point.
        reference: Reference point of the hypervolume H.
    """
    edges = losses.sort(dim=0).values
    widths = torch.cat([edges[1:], reference.unsqueeze(0)]) - edges
    covers, volumes = torch.ones_like(losses[:, :1]), torch.ones_like(losses[:1, 0])
    for k in range(losses.shape[1]):
        below = (losses[:, k, None] <= edges[:, k]).to(losses.dtype)
        covers = (covers.unsqueeze(2) * below.unsqueeze(1)).flatten(1)
        volumes = (volumes.unsqueeze(1) * widths[:, k]).flatten()
    alone = covers.sum(dim=0) == 1
    return (covers * alone * volumes).sum(dim=1)
