"""Pictures of pFedRLLA's agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from histories import entry
from pages import Page

import comity
from comity.report import write_report
from comity.report.figures import agent_rewards, agent_weights, draw_run, embeddings
from comity.report.series.agent import agent_diagnostics
from comity.runs.directory import Run

NAMES = {"allotted", "agent_rewards", "embeddings"}
KEPT = [[0.9], [0.8], [0.7]]
FIRST, SECOND = np.full((3, 3), 1 / 3), np.eye(3)


def told(weights: Any, score: float | None) -> dict[str, Any]:
    rewards = {"score": score, "gain": score, "likeness": score}
    return {"server": {"rewards": rewards, "episodes": 3, "weights": np.asarray(weights).tolist()}}


@pytest.fixture
def decided(made: Callable[..., Run]) -> Run:
    """Eight rounds by hand: the last quarter takes only its own."""
    history = [entry(1, KEPT, **told(FIRST, None))]
    history += [entry(n, KEPT, **told(FIRST if n < 7 else SECOND, -0.1 * n)) for n in range(2, 9)]
    settings = {"problem": "usps-mlp", "algorithm": "pfedrlla", "partition": "pathological:4"}
    return made(KEPT, history, **settings)


def test_weights_are_those_of_the_last_quarter_and_rewards_of_every_round(decided):
    found = agent_diagnostics(decided)
    assert found is not None
    np.testing.assert_array_equal(found.weights, SECOND)
    np.testing.assert_array_equal(found.rounds, range(2, 9))
    np.testing.assert_allclose(found.rewards[:, 0], -0.1 * np.arange(2, 9))
    assert found.embeddings is None, "there is no checkpoint"


def test_what_clients_have_in_common_is_counted_in_classes(decided):
    found = agent_diagnostics(decided)
    assert found is not None
    assert found.overlap is not None
    np.testing.assert_allclose(found.overlap.diagonal(), 1.0)
    classes = [set(kind.split(", ")) for kind in found.kinds]
    for one in range(3):
        for other in range(3):
            assert (found.overlap[one, other] > 0) == bool(classes[one] & classes[other])


def test_a_figure_shows_weights_overlap_and_one_against_the_other(decided):
    figure = agent_weights(decided)
    assert figure is not None
    images = [axes.images[0].get_array() for axes in figure.axes if axes.images]
    np.testing.assert_array_equal(np.asarray(images[0]), SECOND)
    assert len(images) == 2
    (scattered,) = [axes for axes in figure.axes if axes.get_title() == "who has more in common"]
    assert len(np.asarray(scattered.collections[0].get_offsets())) == 6, "ordered pairs"


def test_rewards_are_lines(decided):
    figure = agent_rewards(decided)
    assert figure is not None
    assert (
        len([line for line in figure.axes[0].lines if len(np.asarray(line.get_xdata())) == 7]) == 3
    )


def test_without_an_agent_there_is_nothing_to_draw(made):
    run = made(KEPT, [entry(1, KEPT)], problem="usps-mlp", algorithm="fedavg")
    assert agent_diagnostics(run) is None
    assert not NAMES & set(draw_run(run))


def test_a_real_run_has_all_three_pictures_and_says_what_the_server_cost(tmp_path):
    run = comity.run(
        "usps-mlp",
        algorithm="pfedrlla",
        clients=4,
        rounds=3,
        partition="pathological:3",
        out=tmp_path / "run",
        pfedrlla={"warmup": 1, "every": 1, "batch_size": 4},
        supervised={"local_steps": 2},
    )
    assert all((run.path / f"{name}.png").is_file() for name in NAMES)
    figure = embeddings(run)
    assert figure is not None
    drawn = [np.concatenate([c.get_offsets() for c in axes.collections]) for axes in figure.axes]
    assert [len(points) for points in drawn] == [4, 4]
    found = agent_diagnostics(run)
    assert found is not None
    assert found.embeddings is not None
    assert found.embeddings.shape == (4, 128)
    assert set(run.spent) == {"clients", "server"}
    path = write_report(run)
    assert "Decisions of the agent" in path.read_text()
    cells = [row[0] for table in Page(path).tables for row in table]
    assert "the server's time, of the clients'" in cells
