"""Pictures of a run show its history and results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import matplotlib
import numpy as np
import pytest
from histories import entry, rewrite
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.image import imread

from comity.report import FigureKind
from comity.report.figures import clusters, draw_run, front, mixing, rewards, similarity
from comity.report.figures.style import DPI
from comity.report.html.charts import rewards_chart
from comity.report.html.run_page import run_page
from comity.report.series.clusters import agreement, cluster_tree
from comity.runs.directory import Run

SPREAD = [[0.9, 0.1], [0.1, 0.9], [0.5, 0.5]]


def dots(axes: Axes) -> dict[str, Any]:
    return {
        str(line.get_gid()): line
        for line in axes.lines
        if str(line.get_gid()).startswith("client-")
    }


def words(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def drawn_line(axes: Axes, label: str) -> Any:
    return next(line for line in axes.lines if line.get_label() == label)


# -- front ---------------------------------------------------------------------------------


def test_front_shows_each_client_at_its_objectives(made: Callable[..., Run]) -> None:
    vectors = [[8.2, -3.0], [0.7, -1.0], [14.0, -7.0]]
    axes = front(made(vectors, preferences=SPREAD)).axes[0]
    shown = dots(axes)
    assert len(shown) == 3
    for client, vector in enumerate(vectors):
        np.testing.assert_allclose(np.ravel(shown[f"client-{client}"].get_data()), vector)
    colours = {tuple(line.get_markerfacecolor()) for line in shown.values()}
    assert len(colours) == 3
    assert axes.get_xlabel() == "treasure (value)"


def test_front_lies_beneath_the_clients(made: Callable[..., Run]) -> None:
    run = made([[8.2, -3.0]] * 3, preferences=SPREAD)
    axes = front(run).axes[0]
    known = run.configuration.get_problem().front()
    assert known is not None
    np.testing.assert_allclose(axes.collections[0].get_offsets(), known)
    assert axes.collections[0].get_zorder() < dots(axes)["client-0"].get_zorder()


def test_clients_that_share_a_point_stand_apart_and_are_counted(made: Callable[..., Run]) -> None:
    run = made([[8.2, -3.0], [8.2, -3.0], [14.0, -7.0]], preferences=SPREAD)
    figure = front(run)
    axes = figure.axes[0]
    pixels = {
        name: tuple(line.get_transform().transform(line.get_xydata()[0]))
        for name, line in dots(axes).items()
    }
    assert len({(round(x), round(y)) for x, y in pixels.values()}) == 3
    assert words(axes) == ["×2"]


def test_a_client_far_from_the_front_does_not_squeeze_it(made: Callable[..., Run]) -> None:
    run = made([[8.2, -3.0], [14.0, -7.0], [0.0, -100.0]], preferences=SPREAD)
    axes = front(run).axes[0]
    assert axes.get_ylim()[0] > -45
    assert words(axes) == ["off the axes, at (0, −100)"]


def test_three_objectives_are_drawn_in_pairs(made: Callable[..., Run]) -> None:
    run = made(
        [[1.0, 0.2, -1.0], [0.3, 0.9, -0.8], [0.0, 0.0, -0.7]],
        problem="minecart-deterministic",
        preferences=[[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.2, 0.7]],
    )
    figure = front(run)
    panels = [axes for axes in figure.axes if dots(axes)]
    assert len(panels) == 3
    points = [tuple(np.ravel(dots(axes)["client-1"].get_data()).tolist()) for axes in panels]
    assert points == [(0.3, 0.9), (0.3, -0.8), (0.9, -0.8)]
    (legend,) = [axes.get_legend() for axes in figure.axes if axes.get_legend() is not None]
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels == ["mostly ore-1 (1)", "mostly ore-2 (1)", "mostly fuel (1)", "known front"]


# -- mixing --------------------------------------------------------------------------------


def mixed(rounds: int, matrix: list[list[float | None]]) -> list[dict[str, Any]]:
    kept = [[8.2, -3.0], [0.7, -1.0], [14.0, -7.0]]
    lines = [entry(number + 1, kept, mixing=matrix) for number in range(rounds)]
    return [*lines, entry(rounds + 1, kept)]


MATRIX: list[list[float | None]] = [[0.5, 0.3, 0.2], [0.1, 0.9, 0.0], [0.0, 0.4, 0.6]]


def test_mixing_shows_four_rounds_with_clients_in_order_of_preference(
    made: Callable[..., Run],
) -> None:
    """The last panel is the round from which on nothing changes any more."""
    lines = mixed(16, MATRIX)
    for line in lines[9:16]:
        line["mixing"] = np.eye(3).tolist()
    run = made([[1.0, -1.0]] * 3, lines, rounds=16, preferences=SPREAD)
    figure = mixing(run)
    assert figure is not None
    panels = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in panels] == ["round 1", "round 4", "round 7", "round 10"]
    np.testing.assert_array_equal(panels.pop().images[0].get_array(), np.eye(3))
    # weights on the first objective are 0.9, 0.1, 0.5: the order is 1, 2, 0
    expected = np.array(MATRIX, dtype=float)[np.ix_([1, 2, 0], [1, 2, 0])]
    np.testing.assert_allclose(panels[0].images[0].get_array(), expected)
    assert [label.get_text() for label in panels[0].get_yticklabels()] == ["1", "2", "0"]
    assert len({axes.images[0].norm.vmax for axes in panels}) == 1


def test_absent_receivers_are_hatched(made: Callable[..., Run]) -> None:
    matrix: list[list[float | None]] = [[0.5, 0.5, 0.0], [None, None, None], [0.5, 0.5, 0.0]]
    figure = mixing(made([[1.0, -1.0]] * 3, mixed(1, matrix), rounds=1, preferences=SPREAD))
    assert figure is not None
    (patch,) = figure.axes[0].patches
    assert patch.get_hatch()
    assert patch.get_y() == -0.5  # client 1 has the least weight, so it comes first
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["absent"]


def test_what_clients_heard_is_marked(made: Callable[..., Run]) -> None:
    """Without a server; also where it has no weight, and beside rows of absent clients."""
    matrix: list[list[float | None]] = [[0.5, 0.5, 0.0], [None, None, None], [0.0, 0.0, 1.0]]
    lines = mixed(1, matrix)
    lines[0]["heard"] = {"0": [1, 2], "2": [0]}
    settings: dict[str, Any] = {"rounds": 1, "preferences": SPREAD, "topology": "neighbours"}
    run = made([[1.0, -1.0]] * 3, lines, **settings)
    figure = mixing(run)
    assert figure is not None
    (marks,) = figure.axes[0].lines
    # clients in the order 1, 2, 0; x is the giver, y the receiver
    assert sorted(zip(marks.get_xdata(), marks.get_ydata(), strict=True)) == [
        (0, 2),
        (1, 2),
        (2, 1),
    ]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["absent", "heard"]
    assert run.results["neighbours"] == {"heard": 1.5, "pairs": 2, "possible_pairs": 3}
    page = run_page(run, draw_run(run), "plotly.js")
    assert "A client heard 1.5 others on average; 2 of 3 pairs have met" in page
    assert "from clients to clients" in page


def test_similarity_shows_where_clients_were_compared(made: Callable[..., Run]) -> None:
    """The last panel is the round from which on the same clients are compared."""
    together = [[1.0, 0.2, -0.4], [0.2, 1.0, 0.1], [-0.4, 0.1, 1.0]]
    apart = [[1.0, 0.2, None], [0.2, 1.0, None], [None, None, 1.0]]
    kept = [[8.2, -3.0]] * 3
    matrices = [together, together, apart, apart]
    lines = [
        entry(n, kept, server={"similarity": matrix}) for n, matrix in enumerate(matrices, start=1)
    ]
    run = made(kept, [*lines, entry(5, kept)], rounds=4, preferences=SPREAD)
    figure = similarity(run)
    assert figure is not None
    panels = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in panels] == ["round 1", "round 2", "round 3"]
    expected = np.array(together)[np.ix_([1, 2, 0], [1, 2, 0])]
    np.testing.assert_allclose(panels[0].images[0].get_array(), expected)
    assert panels[2].images[0].get_array().mask.sum() == 4  # client 2 is alone
    norm = panels[0].images[0].norm
    assert (norm.vmin, norm.vmax) == (-0.4, 0.4)  # the diagonal does not count
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["not compared"]
    chosen = similarity(run, rounds=[2, 4, 9])  # round 9 was not run
    assert chosen is not None
    assert [a.get_title() for a in chosen.axes if a.get_title()] == ["round 2", "round 4"]


def test_no_picture_of_what_did_not_happen(made: Callable[..., Run]) -> None:
    run = made([[1.0, -1.0]] * 3, preferences=SPREAD)
    assert mixing(run) is None
    assert similarity(run) is None
    assert clusters(run) is None
    assert set(draw_run(run)) == {"front", "rewards"}
    assert not (run.path / "mixing.png").exists()


# -- clusters ------------------------------------------------------------------------------


def clustered() -> list[dict[str, Any]]:
    kept = [[8.2, -3.0]] * 5
    told = [
        [[0, 1, 2, 3, 4]],
        [[0, 2, 4], [1, 3]],
        [[0, 2, 4], [1, 3]],
        [[0], [2, 4], [1, 3]],
    ]
    lines = [entry(number + 1, kept, clusters=found) for number, found in enumerate(told)]
    return [*lines, entry(5, kept, clusters=told[-1])]


WEIGHTS = np.array([0.1, 0.4, 0.5, 0.7, 0.8])


def test_clusters_stay_contiguous_so_that_no_lines_cross() -> None:
    tree = cluster_tree(clustered(), WEIGHTS)
    assert tree is not None
    assert tree.order.tolist() == [0, 2, 4, 1, 3]
    assert tree.counts == [1, 2, 2, 3]
    for heights in tree.heights:
        assert (np.diff(heights[tree.order]) > 0).all()


def test_lines_run_together_until_their_cluster_splits() -> None:
    tree = cluster_tree(clustered(), WEIGHTS)
    assert tree is not None
    gap = np.abs(tree.heights[:, 0] - tree.heights[:, 4])  # clients 0 and 4 part in round 4
    assert gap[0] == pytest.approx(gap[2])
    assert gap[3] > 1.5 * gap[2]


def test_clusters_show_when_each_split_happened(made: Callable[..., Run]) -> None:
    preferences = np.column_stack([WEIGHTS, 1 - WEIGHTS]).tolist()
    run = made([[8.2, -3.0]] * 5, clustered(), rounds=4, preferences=preferences)
    figure = clusters(run)
    assert figure is not None
    axes = figure.axes[0]
    splits = [float(line.get_xdata()[0]) for line in axes.lines if line.get_gid() == "split"]
    assert [int(np.ceil(x)) for x in splits] == [2, 4]
    lines = next(c for c in axes.collections if isinstance(c, LineCollection))
    assert len(lines.get_segments()) == 5
    top = axes.child_axes[0]
    assert [label.get_text() for label in top.get_xticklabels()] == ["1", "2", "3"]
    assert sorted(label.get_text() for label in axes.get_yticklabels()) == ["0", "1, 3", "2, 4"]


def test_clusters_are_compared_with_groups_of_equal_preferences(made: Callable[..., Run]) -> None:
    """Of ten pairs four are alike in preferences, and four in the clusters of rounds 2 and 3.

    Groups are 0, 2, 4 and 1, 3, like the clusters; in round 4 one of three leaves: of the pairs
    alike two remain, so (2 - 4 * 2 / 10) / ((4 + 2) / 2 - 4 * 2 / 10) = 6 / 11.
    """
    shared = [[0.3, 0.7] if client % 2 else [0.6, 0.4] for client in range(5)]
    run = made([[8.2, -3.0]] * 5, clustered(), rounds=4, preferences=shared)
    assert agreement(run) == {1: 0.0, 2: 1.0, 4: pytest.approx(6 / 11)}
    assert run.results["clusters"] == {"count": 3, "adjusted_rand": pytest.approx(6 / 11)}
    page = run_page(run, draw_run(run), None)
    assert "equal preferences: 0.00 (round 1), 1.00 (round 2), 0.55 (round 4)." in page


def test_a_round_in_which_one_cluster_splits_and_two_join_counts(made: Callable[..., Run]) -> None:
    """The number of clusters stays the same: three in rounds 4 and 5."""
    kept, joined = [[8.2, -3.0]] * 5, [[0, 2, 4], [1], [3]]
    history = [*clustered()[:4], entry(5, kept, clusters=joined), entry(6, kept, clusters=joined)]
    shared = [[0.3, 0.7] if client % 2 else [0.6, 0.4] for client in range(5)]
    run = made(kept, history, rounds=5, preferences=shared)
    # in round 5 three of the four pairs are together: (3 - 4 * 3 / 10) / (3.5 - 4 * 3 / 10)
    found = agreement(run)
    assert found == {1: 0.0, 2: 1.0, 4: pytest.approx(6 / 11), 5: pytest.approx(1.8 / 2.3)}
    figure = clusters(run)
    assert figure is not None
    numbers = [label.get_text() for label in figure.axes[0].child_axes[0].get_xticklabels()]
    assert numbers == ["1", "2", "3", "3"]


def test_without_shared_preferences_clusters_are_only_counted(made: Callable[..., Run]) -> None:
    preferences = np.column_stack([WEIGHTS, 1 - WEIGHTS]).tolist()
    run = made([[8.2, -3.0]] * 5, clustered(), rounds=4, preferences=preferences)
    assert agreement(run) == {}
    assert run.results["clusters"] == {"count": 3}
    same = made([[8.2, -3.0]] * 5, clustered(), name="same", rounds=4, preferences="same:0.5,0.5")
    assert same.results["clusters"] == {"count": 3}
    assert "clusters" not in made([[8.2, -3.0]], name="none", preferences=[[0.5, 0.5]]).results


# -- rewards -------------------------------------------------------------------------------


def test_rewards_show_all_kinds_of_models_and_the_baselines(made: Callable[..., Run]) -> None:
    kept, worse = [[8.2, -3.0], [14.0, -7.0]], [[0.7, -1.0], [0.7, -1.0]]
    history = [
        entry(1, worse, trained=worse),
        entry(2, kept, trained=kept, received=worse),
        entry(3, kept, received=kept),
    ]
    run = made(kept, history, preferences=[[0.9, 0.1], [0.1, 0.9]])
    left, right = rewards(run).axes[:2]
    trained, received = drawn_line(left, "after local training"), drawn_line(left, "as received")
    np.testing.assert_allclose(trained.get_xdata(), [110.0, 220.0])
    np.testing.assert_allclose(received.get_ydata(), [-0.15, (7.08 - 4.9) / 2])
    optimum = run.results["optimum"]["mean_scalarised"]
    assert drawn_line(left, "optimum").get_ydata()[0] == pytest.approx(optimum)
    regret = drawn_line(right, "kept (best validated)").get_ydata()
    assert regret[-1] == pytest.approx(optimum - (7.08 - 4.9) / 2, abs=1e-5)
    assert right.get_yscale() == "log"


def test_regret_that_reaches_zero_can_still_be_drawn(made: Callable[..., Run]) -> None:
    best = [[23.700001, -19.0]]
    history = [entry(1, [[8.2, -3.0]]), entry(2, best), entry(3, best)]
    right = rewards(made(best, history, preferences=[[1.0, 0.0]])).axes[1]
    assert right.get_yscale() == "symlog"
    assert right.get_ylim()[0] == 0


def test_bad_models_do_not_hide_the_good_ones_and_are_mentioned(made: Callable[..., Run]) -> None:
    good, bad = [[8.2, -3.0]], [[0.0, -100.0]]
    history = [entry(n, good, trained=bad) for n in (1, 2)] + [entry(3, good)]
    left = rewards(made(good, history, preferences=[[0.5, 0.5]])).axes[0]
    assert left.get_ylim()[0] > 0
    assert "trained\u00a0−50" in left.get_xlabel()
    assert "kept" not in left.get_xlabel()


def test_without_a_known_optimum_there_is_no_regret(made: Callable[..., Run]) -> None:
    def forget(results: dict[str, Any]) -> None:
        del results["optimum"]
        for client in results["per_client"]:
            del client["optimum"]

    run = rewrite(made([[8.2, -3.0]], preferences=[[0.5, 0.5]]), forget)
    (axes,) = rewards(run).axes
    assert "optimum" not in [line.get_label() for line in axes.lines]


# -- all of them ---------------------------------------------------------------------------


def test_a_real_run_has_all_its_pictures_in_print_quality(real: Run) -> None:
    before = matplotlib.rcParams["font.size"]
    pictures = draw_run(real)
    assert set(pictures) == {"front", "rewards", "mixing", "similarity", "clusters"}
    assert imread(pictures["front"]).shape[1] == pytest.approx(4.4 * DPI, abs=1)
    assert matplotlib.rcParams["font.size"] == before


def test_a_run_without_a_single_judged_model_still_has_its_pictures(
    made: Callable[..., Run],
) -> None:
    history = [entry(n, [[np.nan, np.nan]]) for n in (1, 2, 3)]
    for line in history:
        line["kept"] = [[None, None]]
    run = made([[0.0, -100.0]], history, preferences=[[0.5, 0.5]])
    left = rewards(run).axes[0]
    assert "kept (best validated)" not in [line.get_label() for line in left.lines]
    assert "trivial\u00a0−50" in left.get_xlabel()


@pytest.mark.parametrize("clients", [2, 3, 20])
def test_the_label_beside_clusters_is_whole(made: Callable[..., Run], clients: int) -> None:
    kept = [[8.2, -3.0]] * clients
    told = [list(range(clients))]
    run = made(kept, [entry(number, kept, clusters=told) for number in (1, 2, 3)])
    figure = clusters(run)
    assert figure is not None
    figure.canvas.draw()
    label = figure.axes[-1].yaxis.label
    assert " ".join(label.get_text().split()) == "mean weight on treasure in the final cluster"
    box, edge = label.get_window_extent(), figure.bbox
    assert box.y0 >= edge.y0
    assert box.y1 <= edge.y1
    assert box.x1 <= edge.x1


def test_the_legend_of_the_front_hides_no_point(made: Callable[..., Run]) -> None:
    figure = front(made([[0.0, -100.0]] * 3, preferences=SPREAD))
    (legend,) = figure.legends
    figure.canvas.draw()
    assert legend.get_window_extent().y0 >= figure.axes[0].get_window_extent().y1


def test_names_of_rounds_stand_apart(made: Callable[..., Run]) -> None:
    kept = [[8.2, -3.0]] * 3
    lines = [entry(1, kept), entry(2, kept), entry(3, kept, steps=[201] * 3)]
    lines[2]["validation_steps"] = [20] * 3
    figure = rewards(made(kept, lines, preferences=SPREAD))
    figure.canvas.draw()
    top = next(iter(figure.axes[0].child_axes))
    assert [tick.get_text() for tick in top.get_xticklabels()] == ["1", "end"]


def test_a_line_below_the_axis_of_the_chart_says_so(made: Callable[..., Run]) -> None:
    far, near = [[0.0, -100.0]] * 3, [[8.2, -3.0]] * 3
    lines = [entry(1, near, trained=far), entry(2, near, trained=near), entry(3, near)]
    run = made(near, lines, preferences=[[0.5, 0.5]] * 3)
    chart = rewards_chart(run)
    floor = chart["layout"]["yaxis"]["range"][0]
    names = [trace["name"] for trace in chart["data"] if min(trace["y"]) < floor]
    assert names == [
        "after local training (below the axis: −50)",
        "trivial (below the axis: −50)",
    ]
    above = [trace["name"] for trace in chart["data"] if min(trace["y"]) >= floor]
    assert above == ["kept (best validated)", "optimum"]


@pytest.mark.parametrize("kind", ["pdf", "svg"])
def test_pictures_are_written_in_another_format_beside_png(
    made: Callable[..., Run], kind: FigureKind
) -> None:
    run = made([[8.2, -3.0]] * 3, preferences=SPREAD)
    pictures = draw_run(run, kind)
    assert {path.suffix for path in pictures.values()} == {".png"}, "pages show these"
    first = {path: path.read_bytes() for path in run.path.glob(f"*.{kind}")}
    assert {path.stem for path in first} == set(pictures)
    starts = {"pdf": b"%PDF-", "svg": b"<?xml "}
    assert all(content.startswith(starts[kind]) for content in first.values())
    draw_run(run, kind)
    assert {path: path.read_bytes() for path in first} == first, "equal figures, equal bytes"
