"""Pictures of a search show its history and results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from histories import search_row, searches
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from comity.report.colours import TIMES
from comity.report.figures import draw_search, draw_searches, growth, search_front, weights
from comity.report.series.growth import growth_of, growths_of, milestones
from comity.searches import Search
from comity.searches.comparison import SearchComparison

MakeSearch = Callable[..., Search]
EARLY, LATE = [[8.2, -3.0], [14.0, -8.0]], [[8.2, -3.0], [14.0, -7.0], [19.6, -13.0]]
OPTIMUM = {"hypervolume": 994.3}
THREE = [[[1.0, 0.2, -1.0], [0.3, 0.9, -0.8]], [[1.0, 0.2, -1.0], [0.3, 1.0, -0.8]]]


def legend(holder: Axes | Figure) -> list[str]:
    found = holder.legends[0] if isinstance(holder, Figure) else holder.get_legend()
    assert found is not None
    return [text.get_text() for text in found.get_texts()]


def dots(axes: Axes, colour: Any, hollow: bool = False) -> list[list[float]]:
    """Where dots with an edge of this colour stand."""
    shown = []
    for collection in axes.collections:
        edges, faces = collection.get_edgecolor(), collection.get_facecolor()
        wanted = len(edges) and to_hex(edges[0]) == to_hex(colour)
        if wanted and (to_hex(faces[0]) == "#ffffff") == hollow:
            shown += np.asarray(collection.get_offsets()).tolist()
    return shown


def with_control(make: MakeSearch, **results: Any) -> Search:
    search = make([EARLY, LATE], [500.0, 700.0], **results)
    make([EARLY, EARLY], [400.0, 450.0], name="search/control")
    return search


# -- growth --------------------------------------------------------------------------------


def test_growth_stands_beside_the_control_and_the_optimum(made_search: MakeSearch) -> None:
    figure = growth(growth_of(with_control(made_search, optimum=OPTIMUM)))
    left, right = figure.axes
    assert legend(figure) == ["gap", "random weights (control)", "known front"]
    own, control, optimum = left.lines
    np.testing.assert_allclose(own.get_xydata(), [[2, 500], [4, 700]])
    np.testing.assert_allclose(control.get_xydata(), [[2, 400], [4, 450]])
    assert own.get_drawstyle() == "steps-post"
    assert optimum.get_ydata()[0] == 994.3
    np.testing.assert_allclose(right.lines[0].get_ydata(), [494.3, 294.3])
    assert right.get_yscale() == "log"
    assert left.get_title() == "reference point (0, −50)"


def test_growth_alone_where_nothing_else_is_known(made_search: MakeSearch) -> None:
    figure = growth(growth_of(made_search([EARLY, LATE], [500.0, 700.0])))
    (axes,) = figure.axes
    assert legend(figure) == ["gap"]
    assert len(axes.lines) == 1


def test_lines_that_lie_on_each_other_are_both_seen(made_search: MakeSearch) -> None:
    search = with_control(made_search)
    own, control = growth(growth_of(search)).axes[0].lines
    assert own.get_linestyle() == "-"
    assert control.get_linestyle() == "--"


def compared(make: MakeSearch, path: Path, **baselines: Any) -> SearchComparison:
    rows = [
        search_row("gap", [900.0, 990.0, 994.3 - 1e-10]),
        search_row("random", [800.0, 950.0, 980.0]),
    ]
    search = make([EARLY], [500.0])
    results = searches(*rows, trivial={"hypervolume": 0.0}, **baselines)
    return SearchComparison(path, results, {"gap": [search], "random": [search]})


def test_searches_are_compared_by_their_steps(made_search: MakeSearch, tmp_path: Path) -> None:
    comparison = compared(made_search, tmp_path, optimum=OPTIMUM)
    figure = growth(growths_of(comparison))
    left, right = figure.axes
    assert legend(figure) == ["gap", "random", "known front"]
    np.testing.assert_allclose(left.lines[1].get_xydata(), [[600, 800], [1200, 950], [1800, 980]])
    band = left.collections[1].get_paths()[0].get_extents()
    assert (band.y0, band.y1) == (799.75, 980.25)
    # the first search has reached the optimum: nothing is missing, and that can be drawn
    np.testing.assert_allclose(right.lines[0].get_ydata(), [94.3, 4.3, 0.0])
    assert right.get_yscale() == "symlog"
    assert right.get_yaxis().get_transform().linthresh == 1.0
    assert set(draw_searches(comparison)) == {"growth", "solutions"}
    assert (tmp_path / "growth.png").is_file()
    assert (tmp_path / "solutions.png").is_file()


def test_searches_without_a_known_optimum(made_search: MakeSearch, tmp_path: Path) -> None:
    figure = growth(growths_of(compared(made_search, tmp_path)))
    assert len(figure.axes) == 1
    assert legend(figure) == ["gap", "random"]


# -- front ---------------------------------------------------------------------------------


def test_milestones_are_spread_over_the_search(made_search: MakeSearch) -> None:
    fronts = [[[float(number), -float(number)]] for number in range(1, 11)]
    times = milestones(made_search(fronts, [1.0] * 10).history)
    assert [time.evaluations for time in times] == [2, 8, 14, 20]
    np.testing.assert_allclose([time.lateness for time in times], [0, 1 / 3, 2 / 3, 1])
    np.testing.assert_allclose(times[1].front, [[4.0, -4.0]])


def test_a_short_search_has_fewer_milestones(made_search: MakeSearch) -> None:
    (only,) = milestones(made_search([EARLY], [1.0]).history)
    assert (only.evaluations, only.lateness) == (2, 1.0)


def test_points_have_the_colour_of_the_time_when_they_were_found(made_search: MakeSearch) -> None:
    (axes,) = search_front(made_search([EARLY, LATE], [500.0, 700.0])).axes
    assert dots(axes, TIMES(0.0)) == [[8.2, -3.0]]
    assert dots(axes, TIMES(0.0), hollow=True) == [[14.0, -8.0]]  # (14, -7) dominates it
    assert dots(axes, TIMES(1.0)) == [[14.0, -7.0], [19.6, -13.0]]
    labels = ["after 2 candidates", "after 4 candidates", "dominated later", "known front"]
    assert legend(axes) == labels


def test_the_rim_of_what_is_dominated_is_drawn(made_search: MakeSearch) -> None:
    (axes,) = search_front(made_search([EARLY], [500.0])).axes
    (rim,) = axes.lines
    assert rim.get_drawstyle() == "steps-pre"
    np.testing.assert_allclose(rim.get_xydata()[1:-1], EARLY)
    assert legend(axes) == ["after 2 candidates", "known front"]


def test_points_far_from_the_front_are_counted_and_do_not_squeeze_it(
    made_search: MakeSearch,
) -> None:
    (axes,) = search_front(made_search([[[0.0, -100.0]], LATE], [0.0, 700.0])).axes
    assert axes.get_ylim()[0] > -45
    assert axes.get_title() == "1 point off the axes, drawn at the rim"


def test_what_the_reference_point_cuts_is_shown(made_search: MakeSearch) -> None:
    reference = {"reference_point": [9.0, -20.0], "cut_by_reference_point": 1}
    (axes,) = search_front(made_search([LATE], [500.0], **reference)).axes
    assert legend(axes)[-1] == "reference point"
    assert [line.get_xdata()[0] for line in axes.lines][1] == 9.0
    assert [line.get_ydata()[0] for line in axes.lines][2] == -20.0


def test_the_front_of_three_objectives_is_drawn_in_pairs(made_search: MakeSearch) -> None:
    figure = search_front(made_search(THREE, [1.0, 2.0], problem="minecart-deterministic"))
    panels = [axes for axes in figure.axes if axes.get_xlabel() or axes.get_ylabel()]
    assert len(panels) == 3
    assert [dots(axes, TIMES(1.0)) for axes in panels] == [
        [[0.3, 1.0]],
        [[0.3, -0.8]],
        [[1.0, -0.8]],
    ]
    assert not any(axes.lines for axes in panels)
    (corner,) = [axes for axes in figure.axes if axes.get_legend() is not None]
    assert "known front" in legend(corner)


# -- weights -------------------------------------------------------------------------------


def test_weights_stand_in_the_order_of_trying(made_search: MakeSearch) -> None:
    axes = weights(made_search([EARLY, LATE], [500.0, 700.0])).axes[0]
    tried, ringed = axes.collections
    np.testing.assert_allclose(tried.get_offsets(), [[1, 1], [2, 0], [3, 1], [4, 0]])
    colours = [to_hex(colour) for colour in tried.get_facecolor()]
    first, last = to_hex(TIMES(0.0)), to_hex(TIMES(1.0))
    assert colours == [first, first, last, last]
    np.testing.assert_allclose(ringed.get_offsets(), [[2, 0]])  # all points come from there
    assert axes.get_ylabel() == "weight on treasure"


def test_of_three_weights_two_are_drawn(made_search: MakeSearch) -> None:
    figure = weights(made_search(THREE, [1.0, 2.0], problem="minecart-deterministic"))
    axes = figure.axes[0]
    np.testing.assert_allclose(axes.collections[0].get_offsets(), [[1, 0], [0, 1]] * 2)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("weight on ore-1", "weight on ore-2")
    assert [text.get_text() for text in axes.texts] == ["the rest is the weight on fuel"]


@pytest.mark.parametrize(
    ("problem", "fronts"),
    [("deep-sea-treasure", [EARLY]), ("minecart-deterministic", THREE[:1])],
)
def test_even_one_iteration_has_all_pictures(
    made_search: MakeSearch, problem: str, fronts: list[list[list[float]]]
) -> None:
    search = made_search(fronts, [500.0], problem=problem)
    assert set(draw_search(search)) == {"front", "growth", "weights"}
    assert all((search.path / f"{name}.png").is_file() for name in ("front", "growth", "weights"))
