"""Pictures as objects: those that the report draws, and no file."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from tests.tiny import tiny

import comity
from comity.errors import UserError
from comity.report.figures import draw_run
from comity.runs.execute import execute


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("figures") / "r"
    return execute(comity.Run.create(path, tiny(clients=3, rounds=2, algorithm="fedavg")))


def pixels(figure: Figure) -> np.ndarray:
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())


def test_figures_are_those_of_the_report(run):
    before = {path.name for path in run.path.iterdir()}
    figures = comity.figures(run)
    one = comity.figure(run, "front")
    assert {path.name for path in run.path.iterdir()} == before
    assert isinstance(one, Figure)
    np.testing.assert_array_equal(pixels(one), pixels(figures["front"]))
    assert set(draw_run(run)) == set(figures)


def test_a_figure_that_there_is_not_is_one_clear_error(run):
    with pytest.raises(UserError, match=r"unknown figure 'fronts'.*front"):
        comity.figure(run, "fronts")
    with pytest.raises(UserError, match=r"figure 'cross': .* has nothing to show in it"):
        comity.figure(run, "cross")
