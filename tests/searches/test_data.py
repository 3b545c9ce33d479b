"""Searches on problems with data: who holds which rows, and what the results say."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from comity.core.fleet import Fleet
from comity.core.pareto import hypervolume
from comity.problems import find
from comity.searches import Search
from comity.searches.evaluation import SampleEvaluation, evaluation_of
from comity.searches.execution import execute_search
from comity.searches.mofld import MOFLD
from tests.events import stopping
from tests.searches.small import configuration, contents, made
from tests.tiny import PEOPLE

DATA = {"problem": PEOPLE.name, "rounds": 3}
FITTING = ["fedprox", "fedpref", "cfl", "matfl", "fedcmoo", "fedcmoo-pref", "no-communication"]


def weights(*first: float) -> np.ndarray:
    return np.array([(w, 1 - w) for w in first])


def test_the_server_holds_rows_that_no_client_has_and_test_rows_stay():
    search = configuration(**DATA, server_share=0.25)
    run = search.federation.get_problem()
    problem = search.problem
    server = set(problem.server_rows().tolist())
    trained = sum(len(rows.train) for rows in run.client_rows())
    assert abs(len(server) - 0.25 * trained) <= len(np.unique(run.samples().strata))
    for with_server, without in zip(problem.client_rows(), run.client_rows(), strict=True):
        assert set(without.train) - set(with_server.train) == server & set(without.train)
        assert not server & (set(with_server.train) | set(with_server.validation))
        np.testing.assert_array_equal(with_server.test, without.test)
        np.testing.assert_array_equal(with_server.validation, without.validation)
    assert server <= {row for rows in run.client_rows() for row in rows.train}


@pytest.mark.parametrize("spread", [False, True])
def test_every_candidate_is_trained_by_the_same_clients(spread, tmp_path):
    search = configuration(**DATA, spread=spread, clients=2, candidates=4)
    mofld = MOFLD(Search.create(tmp_path / "s", search), 1, lambda event: None)
    one, other = (mofld._configuration(n, weights(0.1, 0.5, 0.6, 0.9)) for n in (0, 1))
    assert one.seed != other.seed
    rows, again = one.get_problem().client_rows(), other.get_problem().client_rows()
    assert len(rows) == len(again) == (4 if spread else 8)
    expected = search.problem.client_rows()
    for place, (first, second) in enumerate(zip(rows, again, strict=True)):
        for part in ("train", "validation", "test"):
            wanted = getattr(expected[place % 2], part)
            np.testing.assert_array_equal(getattr(first, part), wanted)
            np.testing.assert_array_equal(getattr(second, part), wanted)
    # scales are those of the training rows of one federation, however many there are
    columns = one.get_problem().columns(), search.problem.columns()
    assert torch.equal(columns[0]["inputs"], columns[1]["inputs"])


def test_models_are_evaluated_on_the_servers_rows_and_tested_on_all_test_rows():
    search = configuration(**DATA)
    problem, evaluation = search.problem, evaluation_of(search)
    models = Fleet.cat([Fleet.of(problem.model(), 1) for _ in range(3)])
    test = np.concatenate([rows.test for rows in problem.client_rows()])
    for purpose, rows in (("server", problem.server_rows()), ("test", test)):
        columns = {name: column[rows] for name, column in problem.columns().items()}
        vectors = evaluation.evaluate(models, purpose)
        for place, vector in enumerate(vectors):
            logits = models.module(place, problem.model())(columns["inputs"])
            yes = logits.squeeze(-1) > 0
            accuracy = (yes == (columns["label"] > 0.5)).double().mean()
            assert vector[0] == pytest.approx(float(accuracy), abs=1e-6)
            value = columns[problem.aims[0].column]
            rates = [float(yes[value == group].double().mean()) for group in (0, 1)]
            assert vector[1] == pytest.approx(1 - abs(rates[0] - rates[1]), abs=1e-6)
    ((accuracy, fairness),) = evaluation.trivial()
    share = problem.columns()["label"][test].mean().item()
    assert accuracy == pytest.approx(max(share, 1 - share), abs=1e-6)
    assert fairness == 1.0
    train = sum(len(rows.train) for rows in problem.client_rows())
    sizes = {"training": train, "evaluation": len(problem.server_rows()), "test": len(test)}
    assert evaluation.sizes() == sizes


def test_results_say_what_was_measured_on_what(tmp_path):
    found = made(tmp_path, **DATA, control=True, iterations=2)
    results = found.results
    assert "environment_steps" not in results
    assert (
        results["training_steps"]
        == 2 * 2 * 2 * 3 * found.configuration.federation.learner_settings["local_steps"]
    )
    assert results["training_steps_per_client"] == results["training_steps"] // 2
    assert results["control"]["training_steps"] == results["training_steps"]
    assert results["samples"]["evaluation"] == len(found.configuration.problem.server_rows())
    vectors = np.array([list(point["objectives"].values()) for point in results["front"]])
    if found.configuration.problem.counts(vectors).all():
        assert results["metrics"]["hypervolume"] == hypervolume(vectors, [0.0, 0.0])
    assert results["trivial"]["cardinality"] == 1
    assert "strict_hypervolume" in results["metrics"]
    model = found.front.best([0.5, 0.5])
    assert model(
        torch.zeros(2, found.configuration.problem.columns()["inputs"].shape[1])
    ).shape == (2, 1)


def test_models_that_are_trivially_fair_count_for_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(
        SampleEvaluation,
        "evaluate",
        lambda self, models, purpose: np.array([(0.7, 1.0)] * len(models)),
    )
    found = made(tmp_path, **DATA)
    assert found.results["metrics"]["hypervolume"] == 0.0
    assert found.results["metrics"]["cardinality"] == 0
    assert found.results["dropped"] == len(found.front) == 1
    assert all(entry["hypervolume"] == 0.0 for entry in found.history)


@pytest.mark.parametrize("name", FITTING)
def test_any_algorithm_with_whole_models_can_train_the_candidates(name, tmp_path):
    found = made(tmp_path, **DATA, algorithm=name, iterations=2)
    assert found.results["candidates"] == 4
    assert len(found.front) >= 1


def test_whatever_the_number_of_workers(tmp_path):
    one = made(tmp_path, "1", **DATA, chunk=2, iterations=2)
    assert contents(made(tmp_path, "2", workers=2, **DATA, chunk=2, iterations=2)) == contents(one)


@pytest.mark.parametrize("more", [{}, {"warm_start": True, "spread": True, "clients": 2}])
def test_stopped_anywhere_it_ends_as_if_never_stopped(more, tmp_path, monkeypatch):
    monkeypatch.setattr("comity.searches.mofld._CHECKPOINT_SECONDS", 0.0)
    whole = contents(made(tmp_path, "whole", **DATA, **more))

    broken = Search.create(tmp_path / "broken", configuration(**DATA, **more))
    with pytest.raises(KeyboardInterrupt):
        execute_search(broken, notify=stopping(5))  # inside the second iteration
    assert contents(execute_search(Search.open(broken.path))) == whole


def test_problems_with_a_partition_of_their_own_and_silos_are_searched_too():
    for settings in (
        {"problem": "praffl-compas"},
        {"problem": "heart-disease-gender-dp", "clients": 4, "partition": "natural"},
    ):
        problem = configuration(**{"clients": None, **settings}).problem
        server = set(problem.server_rows().tolist())
        assert server
        for rows in problem.client_rows():
            assert not server & {
                *rows.train.tolist(),
                *rows.validation.tolist(),
                *rows.test.tolist(),
            }
    assert find("praffl-compas").run_defaults["clients"] == len(
        configuration(problem="praffl-compas", clients=None).problem.client_rows()
    )
