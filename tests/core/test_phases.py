"""Views and phases are plain values with safe defaults."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields

import pytest
import torch

from comity.core.phases import Phase, View


@pytest.mark.parametrize("function", ["forward", "losses", "objective"])
def test_a_view_without_a_network_refuses_to_run_one(function):
    view = View({"weight": torch.zeros(2)})
    with pytest.raises(NotImplementedError, match="no network"):
        getattr(view, function)({}, {})


def test_views_share_no_mutable_defaults():
    one, other = View({}), View({})
    for name in ("broadcast", "drawn", "validation", "passes"):
        assert getattr(one, name) is not getattr(other, name)


def test_a_plain_phase_trains_everything_for_all_steps_and_has_no_hook():
    phase = Phase()
    assert (phase.train, phase.share, phase.steps) == (("*",), 1.0, None)
    hooks = {"penalty", "weights", "loss", "draw", "before", "after_pass", "after", "after_step"}
    assert hooks < {field.name for field in fields(Phase)}
    assert all(getattr(phase, hook) is None for hook in hooks)


def test_phases_are_values_and_can_be_keys():
    """Compiled programs are looked up by phase."""
    assert Phase(share=0.5) == Phase(share=0.5) != Phase()
    assert {Phase(share=0.5): 1}[Phase(share=0.5)] == 1
    with pytest.raises(FrozenInstanceError):
        Phase().share = 0.5
