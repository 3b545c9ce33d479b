"""The problem of four hospitals: who has which rows, and how they are scaled."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from comity.configuration import configure
from comity.datasets.hospitals import COUNTS, FEATURES, patients
from comity.errors import UserError
from comity.problems import DataProblem, find


def dealt(seed: int = 1, **values) -> DataProblem:
    problem = configure({"problem": "heart-disease", "seed": seed, **values}).get_problem()
    assert isinstance(problem, DataProblem)
    return problem


def test_clients_are_the_hospitals_with_the_published_numbers():
    configuration = configure({"problem": "heart-disease"})
    assert configuration.names == ["Cleveland", "Hungary", "Switzerland", "Long Beach"]
    assert (configuration.clients, configuration.rounds) == (4, 15)
    people = patients()
    for number, (rows, (train, test)) in enumerate(zip(dealt().client_rows(), COUNTS, strict=True)):
        everything = np.concatenate([rows.train, rows.validation, rows.test])
        assert sorted(everything) == np.flatnonzero(people.hospital == number).tolist()
        assert (len(rows.train) + len(rows.validation), len(rows.test)) == (train, test)
        assert people.test[rows.test].all()
        assert abs(len(rows.validation) - train * 16 / 66) < 1
    assert [len(rows.validation) for rows in dealt().client_rows()] == [48, 42, 7, 21]


def test_seeds_change_validation_rows_and_no_test_row():
    one, other = dealt(1).client_rows(), dealt(2).client_rows()
    for here, there in zip(one, other, strict=True):
        assert here.test.tolist() == there.test.tolist()
        assert here.validation.tolist() != there.validation.tolist()


def test_validation_rows_have_the_mixture_of_the_training_rows():
    ill = patients().ill
    for rows in dealt().client_rows():
        assert ill[rows.validation].mean() == pytest.approx(ill[rows.train].mean(), abs=0.03)


def test_every_hospital_is_scaled_by_its_own_training_rows():
    problem = dealt()
    inputs, raw = problem.columns()["inputs"], patients().inputs
    for number, rows in enumerate(problem.client_rows()):
        learned = inputs[rows.train]
        np.testing.assert_allclose(learned.mean(0), 0, atol=1e-5)
        spread = raw[rows.train].std(axis=0)
        for feature in np.flatnonzero(spread > 0):
            assert learned[:, feature].std(unbiased=False) == pytest.approx(1, abs=1e-4)
        constant = np.flatnonzero(spread == 0)
        chol = FEATURES.index("chol")
        assert (chol in constant) == (number == 2)  # nobody measured it in Switzerland
        expected = raw[rows.test][:, constant] - raw[rows.train][0, constant]
        np.testing.assert_allclose(inputs[rows.test][:, constant], expected, atol=1e-5)


def test_losses_and_scores_of_a_hand_made_batch():
    problem = find("heart-disease")
    assert isinstance(problem, DataProblem)
    outputs = torch.tensor([[0.0], [math.log(3)], [-1.0]])
    batch = {"label": torch.tensor([1.0, 1.0, 1.0]), "weight": torch.tensor([1.0, 1.0, 0.0])}
    expected = (math.log(2) + math.log(4 / 3)) / 2
    assert problem.losses(outputs, batch).tolist() == pytest.approx([expected])
    assert problem.scores(outputs, batch).tolist() == [0.5]  # a logit of 0 says well
    assert problem.constant({"label": torch.tensor([1.0, 1.0, 0.0])}).item() == 1.0
    assert problem.constant({"label": torch.tensor([1.0, 0.0])}).item() == -1.0


def test_other_partitions_deal_all_patients_anew():
    rows = dealt(clients=5, partition="stratified").client_rows()
    assert len(rows) == 5
    assert sum(len(r.train) + len(r.validation) + len(r.test) for r in rows) == 740
    with pytest.raises(UserError, match="the data has 4 silos"):
        dealt(clients=3)


def test_new_patients_are_refused():
    with pytest.raises(UserError, match="lack the scales of their hospital"):
        dealt().prepared(torch.zeros(1, 13))


def test_the_published_protocol_sets_no_rows_aside():
    configuration = configure({"problem": "heart-disease-flamby", "algorithm": "fedavg"})
    problem = configuration.get_problem()
    assert isinstance(problem, DataProblem)
    shares = problem.client_rows()
    assert [(len(rows.train), len(rows.test)) for rows in shares] == list(COUNTS)
    assert all(rows.validation.tolist() == rows.train.tolist() for rows in shares)
    assert (configuration.keep, configuration.rounds) == ("last", 15)
    assert configuration.learner_settings["optimiser"] == "sgd"
    assert any("validation rows are the training rows" in note for note in problem.samples().notes)
    assert not any("validation" in note for note in dealt().samples().notes)


def test_published_rates_are_the_defaults_of_that_protocol():
    """(486 // 4 // 4) * 50 // 100 = 15 rounds; alone 50 epochs of Adam."""

    def settings(algorithm):
        chosen = configure({"problem": "heart-disease-flamby", "algorithm": algorithm})
        return chosen.learner_settings, chosen.algorithm_settings, chosen.rounds

    adam, server, rounds = settings("fedadam")
    assert (adam["learning_rate"], adam["local_steps"], adam["batch_size"]) == (0.01, 100, 4)
    assert (server["server_rate"], server["beta2"], server["tau"], rounds) == (
        0.01,
        0.999,
        1e-8,
        15,
    )
    alone, _, rounds = settings("no-communication")
    assert (alone["optimiser"], alone["learning_rate"]) == ("adam", 1e-3)
    assert (alone["local_epochs"], rounds) == (50, 1)
