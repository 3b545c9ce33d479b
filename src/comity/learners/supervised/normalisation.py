"""Divisors of a client's losses, by which these can be weighed against each other.

Every rule uses a client's own rows and models at most, so nothing is communicated and a client
alone has the divisors that it has among others. Rules, by the setting ``normalise``:

- ``none``: 1.
- ``initial``: the loss of the initial model over the client's training rows (the thesis' rule).
- ``units``: the problem's `loss_units`, which bring a loss to the unit of its score: a preference's
  weights then mean in training about what they mean in evaluation.
- ``ends``: the spread of the loss between the ends of the front, approximated by one short run on
  each objective alone: max - min over these runs. The smallest losses are the ideal point from
  which all scalarisations but the linear one measure, unless ``ideal`` says otherwise.
"""

from __future__ import annotations

from torch import Tensor

END_STEPS = 100
"""Steps of a run on one objective that looks for an end of the front."""
BELOW_SEEN = 1e-3
"""Distance of the ideal point below the smallest scaled losses seen: it stays out of reach."""
_LEAST_LOSS = 1e-3  # an untrained network may be fair by accident
_LEAST_SPREAD = 1e-2  # a loss on which the ends agree must not drown the others


def initial_scale(losses: Tensor) -> Tensor:
    """Return the divisors by the rule ``initial``.

    Args:
        losses: Losses of the initial models (clients x objectives).
    """
    return losses.clamp(min=_LEAST_LOSS)


def spread(losses: Tensor) -> tuple[Tensor, Tensor]:
    """Return divisors (clients x objectives) by the rule ``ends``, and the scaled ideal points.

    Args:
        losses: Losses of the models at the ends of the front (clients x ends x objectives).
    """
    least, most = losses.amin(dim=1), losses.amax(dim=1)
    scale = (most - least).clamp(min=_LEAST_SPREAD)
    return scale, least / scale
