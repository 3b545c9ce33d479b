"""The picture of what policies that take any preference miss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tests.tiny  # noqa: F401  (which registers its problems)
from histories import entry, rewrite

from comity.problems import find
from comity.report.figures import draw_run, served
from comity.runs.directory import Run
from comity.runs.span_results import span_result
from comity.runs.spans import Spans

Make = Callable[..., Run]
ASKED = {
    2: np.array([[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]]),
    3: np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.5, 0.5]]),
}


@pytest.fixture
def serving(made: Make) -> Make:
    """A finished run of two clients whose returns at three preferences are known."""

    def make(problem: str, vectors: Any) -> Run:
        reached = np.array(vectors, dtype=float)
        objectives = reached.shape[2]
        kept = reached[:, 1]
        lines = [entry(n, kept, validation_steps=[0, 0]) for n in (1, 2)]
        own = [[1.0 / objectives] * objectives] * 2
        about = {"problem": problem, "algorithm": "conditioned-dqn", "preferences": own}
        run = made(kept, lines, **about)
        spans = Spans(ASKED[objectives], reached)
        run.save_spans(spans)

        def tell(results: dict[str, Any]) -> None:
            results["spanned"] = span_result(spans, find(problem))

        return rewrite(run, tell)

    return make


def lines_of(axes: Any) -> dict[str, list[float]]:
    return {line.get_gid(): [float(y) for y in line.get_ydata()] for line in axes.lines}


def test_regret_is_drawn_over_the_weight_of_the_first_of_two_objectives(serving: Make) -> None:
    """The front has (0.7, -1), (8.2, -3) and (23.7, -19): the best are -1, 2.9 and 23.7."""
    one = [[0.7, -1.0], [8.2, -3.0], [23.7, -19.0]]
    two = [[0.0, -4.0], [8.2, -5.0], [8.2, -3.0]]
    run = serving("tiny-treasure", (one, two))
    figure = served(run)
    assert figure is not None
    (axes,) = figure.axes
    best = (ASKED[2] @ find("tiny-treasure").front().T).max(axis=1)
    missed = [best - (ASKED[2] * np.array(rows)).sum(axis=1) for rows in (one, two)]
    assert missed[1][0] == 3.0
    assert missed[1][2] == pytest.approx(15.5)
    drawn = lines_of(axes)
    assert drawn["client-0"] == pytest.approx(missed[0].tolist(), abs=1e-5)
    assert drawn["client-1"] == pytest.approx(missed[1].tolist(), abs=1e-5)
    assert drawn["mean"] == pytest.approx(np.mean(missed, axis=0).tolist(), abs=1e-5)
    assert "treasure" in axes.get_xlabel()
    assert "served" in draw_run(run)


def test_with_three_objectives_each_has_a_panel(serving: Make) -> None:
    run = serving("minecart-deterministic", np.zeros((2, 3, 3)))
    figure = served(run)
    assert figure is not None
    assert [axes.get_xlabel() for axes in figure.axes] == [
        f"importance of {name}" for name in ("ore-1", "ore-2", "fuel")
    ]
    assert figure.axes[1].lines[0].get_xdata().tolist() == [0.0, 0.5, 1.0]  # sorted by weight
