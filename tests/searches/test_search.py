"""Whole searches on a problem small enough to run many of them."""

from __future__ import annotations

import json

import numpy as np
import pytest

import comity
from comity.algorithms import algorithms
from comity.api import resume, search
from comity.core.fleet import Fleet
from comity.errors import UserError
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import RoundLoop
from comity.federation.server import Server
from comity.searches import Search, configure_search, generators
from comity.searches.configuration import split_search_settings
from comity.searches.execution import execute_search
from comity.searches.mofld import MOFLD
from tests.tiny import TINY

SMALL = {"iterations": 3, "candidates": 2, "clients": 2, "rounds": 3, "control": False}


def made(tmp_path, name="s", workers=1, **settings):
    return search(TINY, out=tmp_path / name, workers=workers, **{**SMALL, **settings})


def contents(found: Search) -> dict[str, bytes]:
    names = ["results.json", "history.jsonl", "front.csv"]
    files = {name: (found.path / name).read_bytes() for name in names}
    for model in sorted((found.path / "models").iterdir()):
        files[model.name] = model.read_bytes()
    return files


def configuration(**settings):
    return configure_search(split_search_settings({"problem": TINY.name, **SMALL, **settings}))


ACTING = sorted(name for name, found in algorithms().items() if not found.needs_losses())


@pytest.mark.parametrize("name", ACTING)
def test_any_algorithm_can_train_the_candidates(name, tmp_path):
    found = made(tmp_path, algorithm=name)
    assert found.results["candidates"] == 6
    assert found.results["metrics"]["cardinality"] == len(found.front) >= 1
    first = made(tmp_path, "again", algorithm=name)
    assert contents(first) == contents(found)


def test_whatever_the_number_of_workers(tmp_path):
    one = made(tmp_path, "1", chunk=2)
    assert contents(made(tmp_path, "2", workers=2, chunk=2)) == contents(one)


@pytest.mark.parametrize("generator", sorted(generators()))
@pytest.mark.parametrize("more", [{}, {"warm_start": True, "spread": True, "clients": 2}])
def test_stopped_anywhere_it_ends_as_if_never_stopped(generator, more, tmp_path, monkeypatch):
    monkeypatch.setattr("comity.searches.mofld._CHECKPOINT_SECONDS", 0.0)
    whole = contents(made(tmp_path, "whole", generator=generator, **more))

    def stop_at(number):
        def tell(done, total, text):
            if done == number:
                raise KeyboardInterrupt

        return tell

    broken = Search.create(tmp_path / "broken", configuration(generator=generator, **more))
    with pytest.raises(KeyboardInterrupt):
        execute_search(broken, on_round=stop_at(5))  # inside the second iteration
    assert len(broken.history) == 1
    broken.append_history({"iteration": 99})
    with pytest.raises(KeyboardInterrupt):
        resume(broken.path, on_round=stop_at(7))
    (broken.path / "history.jsonl").write_text("")  # what the checkpoint has is not lost
    assert contents(resume(broken.path)) == whole


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
            loop = RoundLoop(engine, *federations)
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


def test_the_model_for_a_preference(tmp_path):
    found = comity.open(made(tmp_path, algorithm="no-communication", rounds=6).path)
    assert isinstance(found, Search)
    vectors = found.front.vectors
    for preference in ([1.0, 0.0], [0.0, 1.0], [0.4, 0.6]):
        best = found.front.choose(preference)
        assert vectors[best] @ preference == (vectors @ preference).max()
        model = found.front.best(preference)
        for name, tensor in found.front.model(best).state_dict().items():
            assert (model.state_dict()[name] == tensor).all()
    with pytest.raises(UserError, match="off the simplex"):
        found.front.best([0.4, 0.4])
    rows = (found.path / "front.csv").read_text().splitlines()
    assert rows[0].startswith("point,treasure,time,weight of treasure,weight of time,iteration")
    assert len(rows) == len(found.front) + 1


def test_warm_starts_come_from_the_nearest_solved_weight(tmp_path):
    history = made(tmp_path, warm_start=True, generator="random").history
    assert [c["start"] for c in history[0]["candidates"]] == [None, None]
    solved = [c["weight"] for entry in history[:2] for c in entry["candidates"]]
    for candidate in history[2]["candidates"]:
        distances = np.linalg.norm(np.array(solved) - candidate["weight"], axis=1)
        assert candidate["start"] == distances.argmin()


def test_a_warm_start_starts_from_that_model(tmp_path):
    mofld = MOFLD(Search.create(tmp_path / "s", configuration(warm_start=True)), 1, None)
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
    mofld = MOFLD(Search.create(tmp_path / "s", configuration()), 1, None)
    weights = np.array([[0.1, 0.9], [0.9, 0.1]])
    union = mofld._configuration(0, weights)
    one, other = mofld._federations(0, union, [None, None])
    assert one.initial.distance(other.initial).min() > 0
    assert one.initial.distance(one.initial.select([0])).max() == 0


def test_a_spread_search_tries_one_weight_a_client(tmp_path):
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
    assert abs(a - b) < 0.2 * a, "four candidates for the price of one"


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


def test_the_control_stands_beside_the_search(tmp_path):
    found = made(tmp_path, control=True, iterations=2)
    assert found.control is not None
    assert found.control.results["generator"] == "random"
    assert found.results["control"]["metrics"] == found.control.results["metrics"]
    alone = made(tmp_path, "alone", generator="random", iterations=2, control=True)
    assert alone.control is None
    assert alone.results["front"] == found.control.results["front"]


def test_test_episodes_are_used_once_at_the_end(tmp_path, monkeypatch):
    purposes = []
    from comity.searches.evaluation import Evaluation

    original = Evaluation.evaluate

    def watching(self, models, purpose, episodes):
        purposes.append(purpose)
        return original(self, models, purpose, episodes)

    monkeypatch.setattr(Evaluation, "evaluate", watching)
    made(tmp_path)
    assert purposes.count("test") == 1
    assert purposes[-1] == "test"
    assert purposes.count("server") >= 6


def test_its_configuration_file_gives_the_same_search(tmp_path):
    found = made(tmp_path, generator="gap", spread=True, seed=5)
    again = Search.create(tmp_path / "again", found.configuration)
    assert contents(execute_search(again)) == contents(found)
    assert json.loads((found.path / "results.json").read_text()) == found.results


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"preferences": "dirichlet"}, "preferences mean nothing"),
        ({"generator": "magic"}, "annealing"),
        ({"iterations": 0}, "search.iterations"),
        ({"reference_point": [0.0]}, "treasure, time"),
        ({"reference_point": [100.0, 0.0]}, "known front"),
        ({"spread": True, "clients": 4, "candidates": 2}, "more than the 2 candidates"),
        ({"spread": True, "clients": 2, "candidates": 3}, "multiple of clients"),
        ({"annealing": {"alpha": 0.5}}, "annealing.alpha"),
        ({"annealing": 3}, "table of settings"),
        ({"gap": {"tolerance": 0.1}}, "table of settings"),
        ({"fedprox": {"mu": 1.0}}, "table of settings"),
        ({"algorithm": "fedx"}, "fedx"),
        ({"algorithm": "fedcmoo"}, "fedcmoo needs .* differentiable"),
        ({"problem": "german-credit-gender-dp"}, "a search needs environments, .* comity compare"),
        ({"search": 3}, "table of settings"),
        ({"client": 3}, "client"),
    ],
)
def test_wrong_settings_are_named(values, words):
    with pytest.raises(UserError, match=words):
        configuration(**values)
