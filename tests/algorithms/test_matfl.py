from __future__ import annotations

import numpy as np

from comity.algorithms import make
from comity.core.mixing import cosine
from tests.vectors import MATFL, fleet, round_of

SENT = fleet(MATFL["layer1"], MATFL["layer2"])


def mixings(**settings):
    return make("matfl", settings).mix(round_of(SENT, SENT))


def test_layer_by_layer():
    found = mixings(voters=2)
    np.testing.assert_allclose(found["0"].weights, MATFL["weights_layer1"], atol=1e-5)
    np.testing.assert_allclose(found["1"].weights, MATFL["weights_layer2"], atol=1e-5)
    np.testing.assert_allclose(SENT.mix(found["0"].weights)["0"], MATFL["new_layer1"], atol=1e-5)
    np.testing.assert_allclose(SENT.mix(found["1"].weights)["1"], MATFL["new_layer2"], atol=1e-5)


def test_cosines_are_centred():
    grams = SENT.gram(SENT.mean())
    np.testing.assert_allclose(cosine(grams["0"]), MATFL["cos_layer1"], atol=1e-5)
    np.testing.assert_allclose(cosine(grams["0"] + grams["1"]), MATFL["cos_flat"], atol=1e-5)


def test_the_reference_code_is_a_special_case():
    found = mixings(voters=4, scope="model")["*"]
    np.testing.assert_allclose(found.weights, MATFL["soft_grouping"], atol=1e-5)


def test_voting_by_layers():
    found = mixings(voters=2, weights="votes")["*"]
    np.testing.assert_allclose(found.weights, MATFL["vote_mode"], atol=1e-5)


def test_uniform_weights_among_voters():
    found = mixings(voters=2, weights="uniform")["0"]
    np.testing.assert_allclose(found.weights, np.array(MATFL["weights_layer1"]).round(1), atol=1e-9)


def test_identical_models_are_left_alone():
    same = fleet(np.ones((3, 4)).tolist())
    found = make("matfl", {}).mix(round_of(same, same))["0"]
    np.testing.assert_array_equal(found.weights, np.eye(3))
