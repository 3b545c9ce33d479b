from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import digamma

from comity.core.dirichlet import draw_dirichlet, log_density
from tests.vectors import HETPFL


def test_densities_and_scores_are_scipys():
    preferences = torch.tensor(HETPFL["preferences"], dtype=torch.float64)
    alpha = torch.tensor(HETPFL["alpha"], dtype=torch.float64, requires_grad=True)
    found = log_density(preferences, alpha)
    np.testing.assert_allclose(found.detach(), HETPFL["log_density"], atol=1e-6)
    for one, value in zip(preferences, found, strict=True):
        wanted = stats.dirichlet.logpdf(one.numpy(), alpha.detach().numpy())
        assert value.item() == pytest.approx(wanted, abs=1e-9)
    scores = torch.stack([torch.autograd.grad(v, alpha, retain_graph=True)[0] for v in found])
    np.testing.assert_allclose(scores, HETPFL["score"], atol=1e-6)
    wanted = digamma(3.0) - digamma(np.array([2.0, 1.0])) + np.log(preferences.numpy())
    np.testing.assert_allclose(scores, wanted, atol=1e-9)


@pytest.mark.parametrize("alpha", [[1.0, 1.0], [4.0, 1.5], [1.2, 3.0, 2.0]])
def test_draws_are_distributed_as_they_should_be(alpha):
    alpha = np.array(alpha)
    drawn = draw_dirichlet(np.random.default_rng(1), alpha, (200, 20))
    assert drawn.shape == (200, 20, len(alpha))
    np.testing.assert_allclose(drawn.sum(axis=-1), 1.0)
    for k in range(len(alpha)):  # a Dirichlet distribution has beta distributed entries
        beta = stats.beta(alpha[k], alpha.sum() - alpha[k])
        assert stats.kstest(drawn[..., k].ravel(), beta.cdf).pvalue > 0.01


def test_draws_move_smoothly_with_alpha():
    one, other = (
        draw_dirichlet(np.random.default_rng(2), np.array([a, 1.3]), (500,))
        for a in (2.0, 2.0 + 1e-7)
    )
    assert 0 < np.abs(one - other).max() < 1e-6
