from __future__ import annotations

import numpy as np
import pytest
import torch

from comity.algorithms import Round, Survey, make
from comity.algorithms.fairbatch import cross_entropy
from comity.core.phases import Phase
from comity.learners import Task
from comity.problems.data import batch_of
from tests.laws.test_rules import restored, saved
from tests.tiny import ANSWERS, PEOPLE, batches_of, fleet_of
from tests.vectors import fleet

CELLS = np.array([[400.0, 100.0], [200.0, 300.0]])
LOSSES = np.array([[240.0, 30.0], [100.0, 180.0]])
MEMBERS, TOTAL = CELLS.sum(axis=0), CELLS.sum()


def survey(cells=CELLS, losses=LOSSES, clients=1) -> Survey:
    """The vector's counts and losses, as the sum over so many equal clients."""
    values = {"cells": np.stack([cells] * clients), "cell_losses": np.stack([losses] * clients)}
    return Survey(tuple(range(clients)), {k: v / clients for k, v in values.items()})


def balance(broadcast) -> np.ndarray:
    """λ, from what clients are told: n λ(y, z) / m_z."""
    return broadcast["weights"] * MEMBERS / TOTAL


def test_the_first_weights_are_the_shares_of_the_groups():
    found = balance(make("fedfb", {}).broadcast(survey()))
    np.testing.assert_allclose(found, [[0.6, 0.4], [0.6, 0.4]])


@pytest.mark.parametrize("clients", [1, 4])
def test_the_first_move_of_the_specification(clients):
    """F_1 = -.6083333333, f_1 = -.1916666667, whatever the number of clients; α = .3."""
    algorithm = make("fedfb", {"alpha": 0.3})
    algorithm.broadcast(survey(clients=clients))
    found = balance(algorithm.broadcast(survey(clients=clients)))
    np.testing.assert_allclose(found, [[0.6575, 0.3425], [0.5425, 0.4575]], atol=1e-9)
    f = (found[0, 1] - 0.4) / 0.3
    assert f == pytest.approx(-0.1916666667, abs=1e-9)
    assert f - (400 / 600 - 100 / 400) == pytest.approx(-0.6083333333, abs=1e-9)


def test_moves_become_shorter():
    algorithm = make("fedfb", {"alpha": 0.3})
    found = [balance(algorithm.broadcast(survey()))[0, 1] for _ in range(4)]
    wanted = -0.3 * 0.1916666667 / np.sqrt([1, 2, 3])
    np.testing.assert_allclose(np.diff(found), wanted, atol=1e-9)


def test_weights_stay_within_twice_the_share_of_their_group():
    algorithm = make("fedfb", {"alpha": 50.0})
    algorithm.broadcast(survey())
    found = balance(algorithm.broadcast(survey()))
    np.testing.assert_allclose(found, [[1.2, 0.0], [0.0, 0.8]], atol=1e-12)
    other = make("fedfb", {"alpha": 50.0})
    reverse = survey(losses=LOSSES[::-1])
    other.broadcast(reverse)
    np.testing.assert_allclose(
        balance(other.broadcast(reverse)), [[0.0, 0.8], [1.2, 0.0]], atol=1e-12
    )


def test_three_groups_move_by_their_own_distance():
    cells = np.array([[10.0, 30.0, 20.0], [10.0, 10.0, 20.0]])
    losses = np.array([[8.0, 8.0, 4.0], [2.0, 4.0, 6.0]])  # (l_0 - l_1) / m = .3, .1, -.05
    algorithm = make("fedfb", {"alpha": 0.1})
    start = algorithm.broadcast(survey(cells, losses))["weights"] * cells.sum(0) / 100
    np.testing.assert_allclose(start, [[0.2, 0.4, 0.4]] * 2)
    found = algorithm.broadcast(survey(cells, losses))["weights"] * cells.sum(0) / 100
    f = np.array([0.1 - 0.3 + 0.5 - 0.75, -0.05 - 0.3 + 0.5 - 0.5])
    first = np.array([0.2 - 0.1 * f.sum(), *(np.array([0.4, 0.4]) + 0.1 * f)])
    np.testing.assert_allclose(found, [first, [0.4, 0.8, 0.8] - first], atol=1e-12)


def test_clients_count_by_the_sum_of_their_sample_weights():
    """nc_k = Σ_i λ(y_i, z_i) / m_{z_i}."""
    algorithm = make("fedfb", {"alpha": 0.3})
    own = np.array([[[300.0, 40.0], [50.0, 200.0]], [[100.0, 60.0], [150.0, 100.0]]])
    values = {"cells": own, "cell_losses": np.stack([LOSSES] * 2) / 2}
    for _ in range(2):
        algorithm.broadcast(Survey((0, 1), values))
    each = np.array([[0.6575, 0.3425], [0.5425, 0.4575]]) / MEMBERS
    wanted = (own * each).sum(axis=(1, 2))
    sent = fleet([[1.0], [2.0]])
    mixing = algorithm.mix(Round(2, (0, 1), (0, 1, 2), sent, sent, np.array([1.0, 9.0])))["*"]
    np.testing.assert_allclose(mixing.weights, [wanted / wanted.sum()])
    assert set(mixing.route) == {0, 1, 2}
    # sums over 30 passes in the public code, which does not weigh the first client
    public = make("fedfb", {"alpha": 0.3, "average": "public"})
    for _ in range(2):
        public.broadcast(Survey((0, 1), values))
    mixing = public.mix(Round(2, (0, 1), (0, 1, 2), sent, sent))["*"]
    first, second = 1 / (30 * wanted.sum()), wanted[1] / wanted.sum()
    np.testing.assert_allclose(mixing.weights, [[first, second]])


def test_its_state_survives_a_file():
    algorithm, other = make("fedfb", {}), make("fedfb", {})
    for _ in range(3):
        algorithm.broadcast(survey())
    other.load(restored(saved(algorithm.state())))
    wanted, found = algorithm.broadcast(survey()), other.broadcast(survey())
    np.testing.assert_array_equal(wanted["weights"], found["weights"])


@pytest.mark.parametrize("problem", [PEOPLE, ANSWERS], ids=["one-logit", "two-logits"])
def test_clients_sum_losses_by_label_and_group(problem):
    """Also where clients have unequal numbers of samples: padding is not counted."""
    learner, models, module, problem = fleet_of("fedfb", problem, sizes="4,2,1")
    algorithm = make("fedfb", {})
    said, _ = learner.survey(
        models, np.arange(3), algorithm.surveys, 1, algorithm.survey_client(problem)
    )
    assert set(said) == {"cells", "cell_losses"}
    ((column, groups),) = problem.attributes.items()
    for client, share in enumerate(problem.client_rows()):
        data = batch_of(problem.columns(), share.train)
        losses = cross_entropy(module(data["inputs"]), data["label"]).detach()
        for y in range(2):
            for z in range(groups):
                own = (data["label"] == y) & (data[column] == z)
                assert said["cells"][client, y, z] == own.sum()
                assert said["cell_losses"][client, y, z] == pytest.approx(
                    float(losses[own].sum()), rel=1e-5
                )


def test_clients_train_like_plain_pytorch():
    """On the mean of what the server told them times the cross entropy."""
    learner, models, _, problem = fleet_of("fedfb", optimiser="sgd")
    phases = make("fedfb", {}).phases(problem)
    start = models.clone()
    told = np.array([[0.5, 2.0], [1.5, 0.8]])
    broadcast = {"weights": np.stack([told] * 3)}
    learner.train(models, np.arange(3), Task(1, phases, start, np.full(3, 4), broadcast))
    for client in range(3):
        model = start.module(client, problem.model())
        optimiser = torch.optim.SGD(model.parameters(), learner.settings.learning_rate)
        for batch in batches_of(problem, client, 4, 64):
            each = cross_entropy(model(batch["inputs"]), batch["label"])
            cells = batch["label"].long(), batch["group:gender"]
            loss = (torch.from_numpy(told).float()[cells] * each).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        for name, tensor in model.named_parameters():
            torch.testing.assert_close(models[name][client], tensor.detach(), rtol=1e-5, atol=1e-6)


def test_without_a_server_clients_train_on_their_own_objective():
    assert make("fedfb", {}).local_phases(PEOPLE.partitioned(3, 1, "stratified", "equal")) == [
        Phase()
    ]
