"""The control for ConFREE: a mean as long as its step."""

from __future__ import annotations

import numpy as np
import pytest

from comity.algorithms import find
from comity.algorithms.wrappers import fits
from comity.algorithms.wrappers.confree import ConFREE
from comity.algorithms.wrappers.scaled_mean import ScaledMean
from comity.core.mixing import Mixing
from comity.errors import UserError
from comity.runs.entries import entry_values, with_wrapper
from tests.algorithms.wrappers.test_confree import host, moved, two_tensors
from tests.tiny import tiny
from tests.vectors import fleet, round_of

APART = np.array([[3.0, 0.0], [0.0, 1.0]])
"""No conflict, so ḡ = (1.5, 0.5). The second client gains least: d = ḡ + (0, c ‖ḡ‖)."""


def stepped(updates, wrapper) -> np.ndarray:
    """The step of a model of one tensor, which is not at zero."""
    updates = np.asarray(updates, dtype=float)
    round = round_of(fleet(updates + 10.0), fleet([[10.0] * updates.shape[1]]), sizes=[1, 5])
    mean = {"*": Mixing.shared(round.sizes, receivers=round.clients)}
    mixings, _ = wrapper.adjust(mean, round, ["*"])
    return moved(mixings["0"], round)["0"]


@pytest.mark.parametrize(("rescale", "divisor"), [(False, 1.0), (True, 1.16)])
def test_the_mean_gets_the_length_of_confrees_step_by_hand(rescale, divisor):
    """‖(1.5, 0.5)‖ = 1.581139, ‖(1.5, 0.5 + 0.4 · 1.581139)‖ = 1.879483: a factor of 1.188691."""
    step = stepped(APART, ConFREE(c=0.4, rescale=rescale))
    np.testing.assert_allclose(step, np.array([1.5, 1.132456]) / divisor, atol=1e-4)
    control = stepped(APART, ScaledMean(c=0.4, rescale=rescale))
    np.testing.assert_allclose(control, np.array([1.783036, 0.594345]) / divisor, atol=1e-4)
    assert np.linalg.norm(control) == pytest.approx(np.linalg.norm(step), rel=1e-4)


def test_updates_that_cancel_make_no_step():
    np.testing.assert_allclose(stepped([[1.0, 2.0], [-1.0, -2.0]], ScaledMean()), [0, 0], atol=1e-6)
    np.testing.assert_array_equal(stepped(np.zeros((2, 2)), ScaledMean()), [0.0, 0.0])


@pytest.mark.parametrize("scope", ["tensor", "model"])
@pytest.mark.parametrize("projection", ["poster", "public"])
def test_every_shared_tensor_has_the_length_of_confrees(scope, projection):
    round = two_tensors()
    values = {"scope": scope, "projection": projection}
    steps, _ = ConFREE(**values).adjust(host(round), round, ["body.*"])
    controls, conflict = ScaledMean(**values).adjust(host(round), round, ["body.*"])
    assert list(controls) == list(steps)
    for name in ("body.a", "body.b"):
        weights = controls[name].weights[0]
        np.testing.assert_allclose(weights, weights[0], err_msg="all clients count alike")
        lengths = [np.linalg.norm(moved(part[name], round)[name]) for part in (steps, controls)]
        assert lengths[1] == pytest.approx(lengths[0], rel=1e-4)
    assert conflict["guided"] == conflict["mean"] == 0.0


def test_it_is_asked_for_by_name():
    values = {"problem": "tiny-people", "wrapper": "scaled-mean", "scaled-mean": {"c": 0.2}}
    configuration = tiny(**values, algorithm="fedavg")
    assert configuration.label == "fedavg+scaled-mean"
    assert configuration.get_wrappers() == [ScaledMean(c=0.2)]
    assert entry_values("fedavg+scaled-mean[scaled-mean.c=0.2]")["scaled-mean"] == {"c": 0.2}
    assert with_wrapper(["fedrep"], "scaled-mean") == ["fedrep", "fedrep+scaled-mean"]
    assert not fits(ScaledMean, find("fedamp"))
    with pytest.raises(UserError, match="scaled-mean takes the place"):
        tiny(**values, algorithm="fedamp")
