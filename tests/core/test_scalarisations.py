"""Scalarisations, beside the specification's vectors, TorchJD and brute force."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torchjd import scalarization as torchjd

from comity.core.scalarisations import (
    Scalarisation,
    direction_of,
    linear,
    penalty_boundary_intersection,
    smooth_tchebycheff,
    tchebycheff,
)
from tests.vectors import SCALARISATION

POINTS = torch.tensor(SCALARISATION["points"], dtype=torch.float64)
EVEN = torch.tensor(SCALARISATION["importance"], dtype=torch.float64)


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


def test_values_of_the_specification():
    vector = SCALARISATION
    np.testing.assert_allclose(linear(POINTS, EVEN), vector["linear"], atol=1e-9)
    found = tchebycheff(POINTS, EVEN)
    np.testing.assert_allclose(found, vector["tchebycheff"], atol=1e-9)
    assert (int(linear(POINTS, EVEN).argmin()), int(found.argmin())) == (0, 1)
    augmented = tchebycheff(POINTS, EVEN, augment=0.05)
    np.testing.assert_allclose(augmented, vector["augmented_rho_0_05"], atol=1e-9)
    smooth = smooth_tchebycheff(POINTS, 1 / EVEN, 1 / 0.1)
    np.testing.assert_allclose(smooth, vector["smooth"], atol=1e-6)
    assert ((smooth >= found) & (smooth <= found + 0.069315)).all()
    pbi = penalty_boundary_intersection(POINTS, EVEN)
    np.testing.assert_allclose(pbi, vector["pbi"], atol=1e-6)


def test_a_dominated_point_on_the_ray_beats_one_beside_it():
    found = penalty_boundary_intersection(torch.tensor([[0.6, 0.6], [0.5, 0.6]]), torch.ones(2))
    np.testing.assert_allclose(found, [0.848528, 1.131371], atol=1e-6)


def test_the_ray_itself_has_a_finite_gradient():
    losses = torch.tensor([0.6, 0.6], requires_grad=True)
    penalty_boundary_intersection(losses, torch.tensor([0.5, 0.5])).backward()
    torch.testing.assert_close(losses.grad, torch.full((2,), 0.5**0.5))


def test_one_point_two_ways():
    """Over the direction, everything is S = Σ 1/w times what it is times the importance."""
    importance, losses = torch.tensor([0.7, 0.3]).double(), torch.tensor([0.3, 0.4]).double()
    direction = direction_of(importance, 0.01)
    np.testing.assert_allclose(direction, [0.3, 0.7], atol=1e-9)
    assert tchebycheff(losses, importance).item() == pytest.approx(0.21)
    assert (losses / direction).max().item() == pytest.approx(1.0)
    absolute = smooth_tchebycheff(losses, direction)
    assert absolute.item() == pytest.approx(1.501647, abs=1e-6)
    share = (1 / importance).sum()
    assert share.item() == pytest.approx(4.761905, abs=1e-6)
    relative = smooth_tchebycheff(losses, 1 / importance, float(share))
    assert (share * relative).item() == pytest.approx(absolute.item())


@pytest.mark.parametrize("kind", ["linear", "smooth-tchebycheff", "pbi"])
def test_values_and_gradients_are_those_of_torchjd(kind):
    """An independent library. It has no plain Tchebycheff function; see the test below."""
    rng = np.random.default_rng(4)
    rule = Scalarisation(kind, smoothing=3.0, sharpness="relative", penalty=2.0)
    for count in (2, 3, 5):
        importance = torch.from_numpy(rng.dirichlet(np.ones(count)).clip(0.02))
        losses = torch.from_numpy(rng.uniform(0.1, 2.0, count)).requires_grad_()
        ideal = torch.from_numpy(rng.uniform(0.0, 0.1, count))
        referee = {
            "linear": torchjd.Constant(importance),
            "smooth-tchebycheff": torchjd.STCH(1 / 3.0, importance, ideal),
            "pbi": torchjd.PBI(2.0, 1 / importance, ideal),
        }[kind]
        shift = torch.zeros(count) if kind == "linear" else ideal
        found, wanted = rule.value(losses - shift, rule.aims(importance)), referee(losses)
        np.testing.assert_allclose(found.detach(), wanted.detach(), rtol=1e-6)
        slopes = [torch.autograd.grad(value, losses)[0] for value in (found, wanted)]
        np.testing.assert_allclose(*slopes, rtol=1e-5)


def test_the_maximum_is_the_limit_of_torchjds_smooth_one():
    rule = Scalarisation("tchebycheff")
    rng = np.random.default_rng(5)
    for _ in range(20):
        importance = torch.from_numpy(rng.dirichlet(np.ones(3)).clip(0.02))
        losses = torch.from_numpy(rng.uniform(0.1, 2.0, 3))
        wanted = torchjd.STCH(1e-5, importance)(losses)
        assert rule.value(losses, rule.aims(importance)).item() == pytest.approx(
            wanted.item(), abs=2e-5
        )


@pytest.mark.parametrize("kind", ["tchebycheff", "smooth-tchebycheff", "pbi"])
def test_the_hollow_of_a_front_is_reached_by_all_but_the_linear_one(kind):
    """Brute force on a concave front: x² + y² = 1, both to be made small."""
    angle = torch.linspace(0, torch.pi / 2, 2001).double()
    front = torch.stack([angle.cos(), angle.sin()], dim=1)
    importance = torch.tensor([0.6, 0.4]).double()
    rule = Scalarisation(kind, smoothing=100.0)
    best = front[rule.value(front, rule.aims(importance).expand(2001, 2)).argmin()]
    wanted = torch.tensor([0.4, 0.6]).double()  # the more important loss is the smaller one
    np.testing.assert_allclose(best / best.sum(), wanted, atol=0.01)
    corner = front[linear(front, importance).argmin()]
    np.testing.assert_allclose(corner, [0.0, 1.0], atol=1e-6)


def test_an_importance_of_zero_is_raised_unless_the_scalarisation_is_linear():
    corner = torch.tensor([1.0, 0.0])
    assert Scalarisation("linear").aims(corner).tolist() == [1.0, 0.0]
    torch.testing.assert_close(
        Scalarisation("tchebycheff", least=0.1).aims(corner), torch.tensor([1.0, 0.1])
    )
    for kind in ("smooth-tchebycheff", "pbi"):
        found = Scalarisation(kind, least=0.1).aims(corner)
        torch.testing.assert_close(found, torch.tensor([0.1, 1.0]) / 1.1)
