"""Whole searches on a problem small enough to run many of them."""

from __future__ import annotations

import numpy as np
import pytest

from comity.algorithms import algorithms
from comity.core.fleet import Fleet
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import SimulatedLoop
from comity.federation.server import Server
from comity.runs.events import Event
from comity.searches import Search, generators
from comity.searches.execution import execute_search
from comity.searches.mofld import MOFLD
from tests.events import stopping
from tests.searches.small import configuration, contents, made
from tests.tiny import TINY

ACTING = sorted(name for name, cls in algorithms().items() if not cls.needs & {"losses", "rewards"})


@pytest.mark.parametrize("name", ACTING)
def test_any_algorithm_can_train_the_candidates(name, tmp_path):
    found = made(tmp_path, algorithm=name)
    assert found.results["candidates"] == 6
    assert found.results["metrics"]["cardinality"] == len(found.front) >= 1


def test_whatever_the_number_of_workers(tmp_path):
    one = made(tmp_path, "1", chunk=2)
    assert contents(made(tmp_path, "again", chunk=2)) == contents(one)
    assert contents(made(tmp_path, "2", workers=2, chunk=2)) == contents(one)


@pytest.mark.parametrize("generator", sorted(generators()))
@pytest.mark.parametrize("more", [{}, {"warm_start": True, "spread": True, "clients": 2}])
def test_stopped_anywhere_it_ends_as_if_never_stopped(generator, more, tmp_path, monkeypatch):
    monkeypatch.setattr("comity.searches.mofld._CHECKPOINT_SECONDS", 0.0)
    whole = contents(made(tmp_path, "whole", generator=generator, **more))

    broken = Search.create(tmp_path / "broken", configuration(generator=generator, **more))
    with pytest.raises(KeyboardInterrupt):
        execute_search(broken, notify=stopping(5))  # inside the second iteration
    assert len(broken.history) == 1
    broken.append_history({"iteration": 99})
    with pytest.raises(KeyboardInterrupt):
        execute_search(Search.open(broken.path), notify=stopping(7))
    (broken.path / "history.jsonl").write_text("")  # what the checkpoint has is not lost
    events: list[Event] = []
    assert contents(execute_search(Search.open(broken.path), notify=events.append)) == whole
    start, first, *_ = events
    assert (start.round, first.round) == (7, 8)


def test_candidates_trained_together_equal_candidates_trained_apart():
    """Two federations as one fleet end where each would end alone."""
    settings = {"algorithm": "fedavg", "clients": 4, "rounds": 2}
    together = configuration(**settings, candidates=2).federation
    weights = [[0.8, 0.2]] * 2 + [[0.3, 0.7]] * 2
    union = together.model_copy(update={"preferences": weights, "clients": 4})
    initial = [Fleet.of(TINY.model(), 1) for _ in range(2)]

    def trained(*parts):
        with EmbeddedEngine(union) as engine:
            federations = [Server(union, clients, initial[i]) for i, clients in parts]
            loop = SimulatedLoop(engine, *federations)
            loop.install()
            list(loop.rounds())
            loop.finish()
            return engine.models(kept=False)

    both = trained((0, (0, 1)), (1, (2, 3)))
    for part, rows in (((0, (0, 1)), [0, 1]), ((1, (2, 3)), [2, 3])):
        alone = trained(part).select(rows)
        for name in both:
            np.testing.assert_allclose(both[name][rows], alone[name], rtol=1e-3, atol=1e-4)
    assert both.distance(Fleet.cat([initial[0]] * 4)).min() > 0
    assert float(both.select([0]).distance(both.select([2]))[0]) > 0


def test_warm_starts_come_from_the_nearest_solved_weight(tmp_path):
    history = made(tmp_path, warm_start=True, generator="random").history
    assert [c["start"] for c in history[0]["candidates"]] == [None, None]
    solved = [c["weight"] for entry in history[:2] for c in entry["candidates"]]
    for candidate in history[2]["candidates"]:
        distances = np.linalg.norm(np.array(solved) - candidate["weight"], axis=1)
        assert candidate["start"] == distances.argmin()


def test_a_warm_start_starts_from_that_model(tmp_path):
    mofld = MOFLD(
        Search.create(tmp_path / "s", configuration(warm_start=True)), 1, lambda event: None
    )
    mofld._iterate(2)
    assert mofld.state.models is not None
    weights = np.array([[0.1, 0.9], [0.9, 0.1]])
    starts = mofld._starts(1, weights)
    federations = list(mofld._federations(1, mofld._configuration(1, weights), starts))
    for federation, start in zip(federations, starts, strict=True):
        assert start is not None
        expected = mofld.state.models.select([start])
        assert federation.initial.distance(expected).max() == 0


def test_scratch_candidates_start_from_models_of_their_own(tmp_path):
    mofld = MOFLD(Search.create(tmp_path / "s", configuration()), 1, lambda event: None)
    weights = np.array([[0.1, 0.9], [0.9, 0.1]])
    union = mofld._configuration(0, weights)
    one, other = mofld._federations(0, union, [None, None])
    assert one.initial.distance(other.initial).min() > 0
    assert one.initial.distance(one.initial.select([0])).max() == 0


def test_a_spread_search_tries_one_weight_per_client(tmp_path):
    found = made(tmp_path, spread=True, candidates=4, clients=4, iterations=2)
    assert found.results["algorithm"] == "fedpref"
    assert found.results["candidates"] == 8
    same = made(tmp_path, "same", candidates=1, clients=4, iterations=2)
    assert same.results["candidates"] == 2
    by_weight = [
        (candidate["weight"], entry["iteration"], number)
        for entry in found.history
        for number, candidate in enumerate(entry["candidates"])
    ]
    for point in found.results["front"]:
        assert (point["weight"], point["iteration"], point["candidate"]) in by_weight
    a, b = (r["environment_steps"]["training"] for r in (found.results, same.results))
    assert abs(a - b) < 0.2 * a, "four candidates at the cost of one"


def test_harvesting_can_only_add(tmp_path):
    with_it = made(tmp_path, "a", rounds=6)
    without = made(tmp_path, "b", rounds=6, harvest=False)
    last = lambda found: found.results["metrics_evaluation"]["hypervolume"]  # noqa: E731
    assert last(with_it) >= last(without)
    steps = [f.results["environment_steps"]["evaluation"] for f in (with_it, without)]
    assert steps[0] > steps[1]
    assert any(point["round"] is not None for point in with_it.results["front"])
    assert all(point["round"] is None for point in without.results["front"])
    first = [found.history[0]["candidates"][0]["weight"] for found in (with_it, without)]
    assert first[0] == first[1]


def test_it_stops_after_so_many_evaluations(tmp_path):
    found = made(tmp_path, evaluations=3)
    assert [len(entry["candidates"]) for entry in found.history] == [2, 1]


def test_it_stops_when_the_hypervolume_stalls(tmp_path):
    # a reference point that nothing reaches in three rounds: the hypervolume stays where it is
    found = made(tmp_path, iterations=6, stall=2, reference_point=[20.0, -50.0])
    assert len(found.history) == 3
    assert found.results["cut_by_reference_point"] == len(found.front)
    assert found.results["metrics"]["hypervolume"] == 0.0
