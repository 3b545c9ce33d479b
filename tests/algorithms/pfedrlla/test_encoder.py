"""Embeddings of heads: exact tokens, an auto-encoder that learns and is remembered."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from comity.algorithms.pfedrlla.encoder import ROWS, WIDTH, AutoEncoder, Encoder, token, tokens
from comity.core.fleet import Fleet
from comity.core.rng import torch_seeded
from tests.vectors import PFEDRLLA


def some(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_a_token_is_the_left_singular_vectors_of_the_centred_rows():
    matrix = some(64, 20)
    found = token(matrix).reshape(ROWS, ROWS)
    cut = matrix.double().numpy().reshape(ROWS, -1)
    left, sigma, _ = np.linalg.svd(cut - cut.mean(axis=0))
    np.testing.assert_allclose(np.abs(found), np.abs(left * sigma / sigma[0]), atol=1e-9)
    unscaled = token(matrix, scaled=False).reshape(ROWS, ROWS)
    np.testing.assert_allclose(np.abs(unscaled[:, :-1]), np.abs(left[:, :-1]), atol=1e-6)


def test_its_columns_have_one_sign_and_no_scale():
    matrix = some(32, 40)
    found = token(matrix).reshape(ROWS, ROWS)
    largest = found[np.abs(found).argmax(axis=0), np.arange(ROWS)]
    assert (largest >= 0).all()
    np.testing.assert_allclose(token(1024 * matrix), token(matrix), atol=1e-12)
    np.testing.assert_allclose(token(-matrix), token(matrix), atol=1e-9)


def test_directions_of_no_meaning_are_zero():
    """Rows sum to nothing after centring, and two columns span two directions."""
    found = token(some(64)).reshape(ROWS, ROWS)
    assert np.abs(found[:, :2]).max() > 0.1
    assert (found[:, 2:] == 0).all()
    assert (token(torch.ones(10, 32)) == 0).all(), "rows that are all alike"


@pytest.mark.parametrize("shape", [(3, 7), (10, 512), (512, 16)])
def test_matrices_of_any_size_have_tokens_of_one_width(shape):
    assert token(some(*shape)).shape == (ROWS**2,)


def test_biases_have_no_token():
    heads = Fleet({"a.weight": some(3, 8, 4), "a.bias": some(3, 8), "b.weight": some(3, 2, 8)})
    found = tokens(heads)
    assert found.shape == (3, 2, ROWS**2)
    np.testing.assert_array_equal(found[1, 1], token(heads["b.weight"][1]).astype(np.float32))


def test_the_encoder_is_as_large_as_published_and_the_decoder_light():
    parts = dict(AutoEncoder().named_children())
    count = {name: sum(p.numel() for p in part.parameters()) for name, part in parts.items()}
    assert count["encoder"] == PFEDRLLA["encoder_parameters"]
    assert count["decoder"] < PFEDRLLA["published_decoder_parameters"] / 50


def test_an_embedding_is_the_sum_of_what_the_encoder_says_of_each_token():
    module = AutoEncoder()
    seen = some(4, 2, ROWS**2)
    embedded, told = module(seen)
    torch.testing.assert_close(embedded, module.encoder(seen)[0].sum(dim=1))
    assert embedded.shape == (4, WIDTH)
    assert told.shape == seen.shape


def test_it_learns_to_tell_tokens_back_and_goes_on_where_it_was():
    with torch_seeded(1, "encoder"):
        encoder = Encoder()
        other = Encoder()
    seen = tokens(Fleet({"w": some(5, 32, 16), "v": some(5, 10, 32, seed=2)}))
    first = encoder.learn(seen, 1)
    assert encoder.learn(seen, 60) < 0.8 * first
    other.load({name: array.copy() for name, array in encoder.state().items()})
    for each in (encoder, other):
        each.learn(seen, 3)
    np.testing.assert_array_equal(encoder.embed(seen), other.embed(seen))
