from __future__ import annotations

import numpy as np
import pytest

from comity.core.preferences import equidistant, preferences
from comity.errors import UserError


@pytest.mark.parametrize(
    "spec", ["dirichlet", "dirichlet:0.2", "interior", "equidistant", "gaussian"]
)
@pytest.mark.parametrize("objectives", [2, 3, 4])
def test_every_distribution_lies_on_the_simplex(spec, objectives):
    weights = preferences(spec, 12, objectives, seed=3)
    assert weights.shape == (12, objectives)
    assert (weights >= 0).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)


@pytest.mark.parametrize("spec", ["dirichlet", "interior", "gaussian", "shared:2,2"])
def test_draws_follow_the_seed(spec):
    first, again, other = (preferences(spec, 4, 3, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_a_small_alpha_draws_to_the_corners():
    sharp, flat = (preferences(f"dirichlet:{a}", 200, 3, 1).max(axis=1).mean() for a in (0.1, 10))
    assert sharp > 0.85 > 0.6 > flat


@pytest.mark.parametrize(("spec", "share"), [("interior", 0.2), ("interior:0.5", 0.5)])
def test_interior_weights_are_a_draw_and_a_share_of_even_weights(spec, share):
    """With a draw of (0.7, 0.3) and a share of 0.2: 0.8 * 0.7 + 0.1 = 0.66 and 0.34."""
    drawn, weights = preferences("dirichlet", 50, 2, seed=4), preferences(spec, 50, 2, seed=4)
    np.testing.assert_allclose(weights, drawn * (1 - share) + share / 2)
    assert weights.min() >= share / 2 > drawn.min()
    assert preferences(spec, 500, 4, seed=4).min() >= share / 4


@pytest.mark.parametrize("spec", ["interior:0", "interior:1", "interior:half"])
def test_a_share_of_even_weights_is_a_share(spec):
    with pytest.raises(
        UserError, match=f"'{spec}' needs a positive number below 1 after the colon"
    ):
        preferences(spec, 4, 2, 1)


def test_gaussian_is_the_normalised_absolute_normal():
    """|N(0, I)| over its sum has its mean at the centre and leans to the middle."""
    weights = preferences("gaussian", 4000, 2, seed=1)
    assert weights.mean(axis=0) == pytest.approx([0.5, 0.5], abs=0.02)
    # the share of draws with w1 < x is (2/pi) atan(x / (1-x))
    assert (weights[:, 0] < 0.25).mean() == pytest.approx(2 / np.pi * np.arctan(1 / 3), abs=0.02)


def test_equidistant_in_two_dimensions_is_a_grid():
    np.testing.assert_allclose(equidistant(20, 2)[:, 0], np.arange(20) / 19)


def test_equidistant_spreads_better_than_chance():
    def nearest(points):
        gaps = np.linalg.norm(points[:, None] - points[None], axis=2)
        return (gaps + 9 * np.eye(len(points))).min()

    drawn = preferences("dirichlet", 20, 3, seed=1)
    assert nearest(equidistant(20, 3)) > 0.25 > 3 * nearest(drawn)
    assert {(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)} <= {
        tuple(row) for row in equidistant(20, 3)
    }


def test_shared_preferences_are_held_by_several_clients():
    weights = preferences("shared:2,3,5", 10, 2, seed=1)
    assert [len(np.unique(part, axis=0)) for part in np.split(weights, [2, 5])] == [1, 1, 1]
    assert len(np.unique(weights, axis=0)) == 3


def test_everybody_can_want_the_same():
    weights = preferences("same:0.3,0.2,0.5", 4, 3, seed=1)
    np.testing.assert_allclose(weights, [[0.3, 0.2, 0.5]] * 4)
    np.testing.assert_array_equal(weights, preferences("same:0.3,0.2,0.5", 4, 3, seed=2))
    np.testing.assert_array_equal(preferences("same:0,1", 2, 2, seed=1), [[0, 1], [0, 1]])


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("same:", ["same:", "2 weights"]),
        ("same", ["same", "2 weights"]),
        ("same:1", ["4 rows of 1 weights"]),
        ("same:0.2,0.3,0.5", ["4 rows of 3 weights"]),
        ("same:half,half", ["same:half,half", "2 weights"]),
        ("same:0.5,0.6", ["off the simplex", "sum to one"]),
        ("same:1.5,-0.5", ["off the simplex"]),
        ("same:nan,nan", ["off the simplex"]),
    ],
)
def test_what_everybody_wants_must_be_a_preference(spec, words):
    with pytest.raises(UserError, match="preferences: ") as error:
        preferences(spec, 4, 2, 1)
    for word in words:
        assert word in str(error.value)


def test_a_file_with_or_without_names(tmp_path):
    file = tmp_path / "p.csv"
    file.write_text("treasure,time\n0.25,0.75\n1,0\n")
    np.testing.assert_allclose(preferences(str(file), 2, 2, 1), [[0.25, 0.75], [1, 0]])
    file.write_text("0.25,0.75\n1,0\n")
    np.testing.assert_allclose(preferences(str(file), 2, 2, 1), [[0.25, 0.75], [1, 0]])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("0.25,0.75\n", ["expected 2 rows", "got 1 rows"]),
        ("0.2,0.3,0.5\n0.2,0.3,0.5\n", ["2 weights", "3 weights"]),
        ("0.25,0.75\n0.5,0.6\n", ["row 2", "off the simplex", "sum to one"]),
        ("0.25,0.75\n1.5,-0.5\n", ["row 2", "non-negative"]),
        ("0.25,0.75\nhalf,half\n", ["row 2", "not numbers"]),
        ("0.25,0.75\nnan,nan\n", ["row 2", "off the simplex"]),
        ("", ["expected 2 rows", "got 0 rows"]),
    ],
)
def test_a_wrong_file_is_named_with_row_and_reason(tmp_path, content, words):
    file = tmp_path / "p.csv"
    file.write_text(content)
    with pytest.raises(UserError) as error:
        preferences(str(file), 2, 2, 1)
    for word in ["p.csv", *words]:
        assert word in str(error.value)


@pytest.mark.parametrize(
    "spec",
    [
        *("nonsense", "dirichlet:-1", "dirichlet:x", "shared:1,2", "shared:", "missing.csv"),
        *("dirichlet:inf", "dirichlet:1e400", "dirichlet:1e308", "dirichlet:nan", "dirichlet:"),
    ],
)
def test_wrong_specifications_are_refused(spec):
    with pytest.raises(UserError, match=r"preferences: .*" + spec.split(":")[0]):
        preferences(spec, 4, 2, 1)


def test_a_cell_without_end_is_refused(tmp_path):
    file = tmp_path / "p.csv"
    file.write_text("0.5," + "5" * 200_000 + "\n")
    with pytest.raises(UserError, match=r"p\.csv"):
        preferences(str(file), 1, 2, 1)


def test_an_empty_row_is_a_preference_that_is_not_known_here():
    matrix = preferences([[0.25, 0.75], [], [1 / 3, 2 / 3]], 3, 2, seed=1)
    whole = preferences([[0.25, 0.75], [0.5, 0.5], [1 / 3, 2 / 3]], 3, 2, seed=1)
    assert np.isnan(matrix[1]).all()
    assert np.array_equal(matrix[[0, 2]], whole[[0, 2]])
    for spec in ([[0.25, 0.75], []], [[0.25, 0.75], [], [1.0]], [[np.nan, np.nan], [], []]):
        with pytest.raises(UserError, match="preferences: "):
            preferences(spec, 3, 2, seed=1)
    with pytest.raises(UserError, match="expected 1 rows"):
        preferences("same:x", 1, 2, seed=1)
