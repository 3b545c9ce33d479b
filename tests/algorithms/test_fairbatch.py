from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import comity
from comity.algorithms import Round, make
from comity.algorithms.fairbatch import (
    Cells,
    cross_entropy,
    predicts_yes,
    public_average,
    rebalanced,
    rebalanced_as_public,
    sample_weights,
)
from comity.core.mixing import mixed
from comity.core.phases import View
from comity.learners import Task
from comity.problems.data import batch_of
from tests.tiny import ANSWERS, PEOPLE, batches_of, fleet_of
from tests.vectors import fleet

pytestmark = pytest.mark.usefixtures("undrawn")

COUNTS = torch.tensor([[400.0, 100.0], [200.0, 300.0]])
"""m_yz: 400 noes and 200 yeses in the first group, 100 and 300 in the second."""
START = torch.tensor([[2 / 3, 1 / 4], [1 / 3, 3 / 4]])


def moved(losses, balance=START, counts=COUNTS, passes=1, alpha=0.1):
    given = torch.tensor(losses), torch.as_tensor(counts), torch.tensor(float(passes))
    return rebalanced(torch.as_tensor(balance), *given, alpha)


# -- cells ---------------------------------------------------------------------------------


def test_cells_count_and_sum_by_label_and_group_without_padding():
    batch = {
        "label": torch.tensor([0.0, 1, 1, 0, 1]),
        "group:gender": torch.tensor([0, 0, 1, 1, 1]),
        "weight": torch.tensor([1.0, 1, 1, 1, 0]),
    }
    cells = Cells(PEOPLE)
    assert cells.counts(batch).tolist() == [[1, 1], [1, 1]]
    values = torch.tensor([1.0, 2, 4, 8, 16])
    assert cells.sums(values, batch).tolist() == [[1, 8], [2, 4]]
    assert cells.members(batch).sum(dim=0).tolist() == [2, 2]
    table = torch.tensor([[10.0, 20], [30, 40]])
    assert cells.pick(table, batch).tolist() == [10, 30, 40, 20, 40]


def test_one_logit_or_two_mean_the_same():
    one = torch.tensor([[0.7], [-0.2], [0.0]])
    two = torch.cat([torch.zeros_like(one), one], dim=1)
    label = torch.tensor([1.0, 1.0, 0.0])
    wanted = [np.log1p(np.exp(-0.7)), np.log1p(np.exp(0.2)), np.log(2)]
    for outputs in (one, two, two + 5):
        np.testing.assert_allclose(cross_entropy(outputs, label), wanted, rtol=1e-5)
        assert predicts_yes(outputs).tolist() == [1, 0, 0]


def test_weights_of_samples_by_hand():
    """v = λ(y, z) / m_z; the weights of a group's samples sum to Σ_y λ m_yz / m_z."""
    found = sample_weights(START, COUNTS)
    wanted = [[2 / 3 / 600, 1 / 4 / 400], [1 / 3 / 600, 3 / 4 / 400]]
    torch.testing.assert_close(found, torch.tensor(wanted))
    empty = sample_weights(START, torch.tensor([[4.0, 0.0], [2.0, 0.0]]))
    assert torch.isfinite(empty).all()


# -- the step of λ -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("losses", "sign"),
    [
        ([[240.0, 30.0], [100.0, 180.0]], 1),  # u0 = .4 - .075 > u1 = .1667 - .45
        ([[100.0, 180.0], [240.0, 30.0]], -1),
        # normalised: u0 = .2 - .25 < u1 = .1 - .05, although 120 - 100 is no less than 60 - 20
        ([[120.0, 100.0], [60.0, 20.0]], -1),
    ],
)
def test_the_step_of_two_groups_follows_the_rule(losses, sign):
    """u_y = l_y0/m_0 - l_y1/m_1; λ(0,0) rises and λ(0,1) falls by α where u_0 > u_1.

    So the label weighs more in the group that has learned it worse (the opposite signs, as public
    code has them, drive groups apart: see the test on SYNTHETIC below).
    """
    m = COUNTS.sum(dim=0)
    apart = [row[0] / m[0] - row[1] / m[1] for row in losses]
    assert (apart[0] > apart[1]) == (sign > 0)
    first = torch.tensor([2 / 3 + sign * 0.1, 1 / 4 - sign * 0.1])
    torch.testing.assert_close(moved(losses), torch.stack([first, 1 - first]))


@pytest.mark.parametrize("passes", [1, 2, 5])
def test_steps_become_shorter_pass_by_pass(passes):
    found = moved([[240.0, 30.0], [100.0, 180.0]], passes=passes)
    torch.testing.assert_close(found[0, 1], torch.tensor(0.25 - 0.1 / passes))


def test_weights_stay_between_zero_and_one():
    found = moved([[240.0, 30.0], [100.0, 180.0]], alpha=0.9)
    assert found.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_more_than_two_groups_move_by_how_far_they_are_apart():
    """λ(0,z) += √α (g_z - g_0), λ(0,0) -= the sum, g_z = (l_0z - l_1z) / m_z."""
    counts = torch.tensor([[10.0, 30.0, 20.0], [10.0, 10.0, 20.0]])
    losses = [[8.0, 8.0, 4.0], [2.0, 4.0, 6.0]]  # g = .3, .1, -.05
    start = [[0.5, 0.75, 0.5], [0.5, 0.25, 0.5]]
    found = moved(losses, torch.tensor(start), counts, passes=3, alpha=0.04)
    first = torch.tensor([0.5 + 0.2 * (0.2 + 0.35), 0.75 - 0.2 * 0.2, 0.5 - 0.2 * 0.35])
    torch.testing.assert_close(found, torch.stack([first, 1 - first]))


def test_a_group_without_members_does_not_break_the_step():
    found = moved([[3.0, 0.0], [1.0, 0.0]], START, torch.tensor([[4.0, 0.0], [4.0, 0.0]]))
    torch.testing.assert_close(found[0], torch.tensor([2 / 3 + 0.1, 0.25 - 0.1]))


@pytest.mark.parametrize(
    ("losses", "steps", "wanted"),
    [
        # u0 = .4 - .075 > u1 = .1667 - .45
        ([[240.0, 30.0], [100.0, 180.0]], 1, [[2 / 3 - 0.1, 0.35], [1 / 3 + 0.1, 0.65]]),
        # u0 > u1 four times: .4 - 30 > 100 - 180, .325 > -80, .325 > -179.8, .325 > -.283
        ([[240.0, 30.0], [100.0, 180.0]], 4, [[2 / 3 - 0.4, 0.65], [1 / 3 + 0.4, 0.35]]),
        # u0 < u1: weights of the other group become those that the first group's leave
        (
            [[100.0, 180.0], [240.0, 30.0]],
            1,
            [[2 / 3 + 0.1, 1 / 3 - 0.1], [1 / 3 - 0.1, 2 / 3 + 0.1]],
        ),
        # u0 < u1 but in the third step, in which u1 = .4 - 30: twice up, once down, once up
        (
            [[100.0, 180.0], [240.0, 30.0]],
            4,
            [[2 / 3 + 0.2, 1 / 3 - 0.2], [1 / 3 - 0.2, 2 / 3 + 0.2]],
        ),
    ],
)
def test_the_public_codes_step_by_hand(losses, steps, wanted):
    values = torch.tensor(losses), COUNTS, torch.tensor(2.0)
    found = rebalanced_as_public(START, *values, 0.2, steps)
    torch.testing.assert_close(found, torch.tensor(wanted))
    clipped = rebalanced_as_public(START, *values, 20.0, steps)
    assert set(clipped.flatten().tolist()) == {0.0, 1.0}


def test_the_public_codes_average_by_hand():
    """Weights .4852, .2955, .1884: coefficients 1.0319, .3050, .1944, which sum to 1.53."""
    sent = fleet([[1.0, 0.0], [2.0, 1.0], [3.0, -1.0]])
    start = fleet([[10.0, -4.0]] * 3)
    round = Round(1, (0, 1, 2), (0, 1, 2, 3), sent, start)
    mixing = public_average(np.array([0.4852, 0.2955, 0.1884]), round)
    mixing.check(3)
    assert set(mixing.route) == {0, 1, 2, 3}
    np.testing.assert_allclose(mixing.weights, [[1.0319, 0.3050, 0.1944]], atol=1e-4)
    models, _ = mixed({"*": mixing}, sent, start)
    wanted = [1.0319 + 2 * 0.3050 + 3 * 0.1944, 0.3050 - 0.1944]
    np.testing.assert_allclose(models["0"][0], wanted, atol=1e-3)


def test_the_step_makes_a_federation_fairer(tmp_path):
    """On SYNTHETIC, whose two groups differ much in how often their label is yes."""
    fairness = [
        comity.run(
            "praffl-synthetic",
            algorithm="lft-fedavg",
            rounds=2,
            keep="last",
            supervised={"local_epochs": 15},
            out=tmp_path / f"{alpha}{balancing}",
            **{"lft-fedavg": {"alpha": alpha, "balancing": balancing}},
        ).results["metrics"]["fairness"]
        for alpha, balancing in ((0.0, "levelling"), (0.3, "levelling"), (0.3, "public"))
    ]
    assert fairness[1] > fairness[0] + 0.03
    assert fairness[2] < fairness[1] - 0.02, "the public code's step does not level"


# -- a client's training -------------------------------------------------------------------


def by_hand(problem, fleet, client, steps, alpha, rate, batch_size, round=1, move=rebalanced):
    """FairBatch of one client in plain PyTorch, from what the fleet holds."""
    ((column, groups),) = problem.attributes.items()
    model = problem.model()
    model.load_state_dict({n: fleet[f"model.{n}"][client].clone() for n in model.state_dict()})
    rows = problem.client_rows()[client].train
    data = batch_of(problem.columns(), rows)
    label, group = data["label"].long(), data[column]
    m = torch.zeros(2, groups)
    for y, z in zip(label, group, strict=True):
        m[y, z] += 1
    balance = fleet["balance"][client].clone()
    if not fleet["cells"][client].any():
        balance = m / m.sum(0)
    ends = {-(-k * len(rows) // batch_size): k for k in range(1, steps + 1)}
    optimiser = torch.optim.SGD(model.parameters(), rate)

    def entropies(batch):
        return cross_entropy(model(batch["inputs"]), batch["label"])

    for step, batch in enumerate(batches_of(problem, client, steps, batch_size, 0, round)):
        weights = (balance / m.sum(0))[batch["label"].long(), batch[column]]
        loss = len(rows) * (weights * entropies(batch)).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step + 1 in ends:
            losses = torch.zeros(2, groups)
            losses.index_put_((label, group), entropies(data).detach(), accumulate=True)
            passes = torch.tensor(float(ends[step + 1]))
            balance = move(balance, losses, m, passes, alpha)
    total = (balance / m.sum(0))[label, group].sum()
    return dict(model.named_parameters()), balance, m, total


@pytest.mark.parametrize(
    ("problem", "balancing", "move"),
    [
        (PEOPLE, "levelling", rebalanced),
        (PEOPLE, "public", rebalanced_as_public),
        (ANSWERS, "levelling", rebalanced),
        (ANSWERS, "public", rebalanced),
    ],
    ids=["two-groups", "two-groups-public", "three-groups", "three-groups-public"],
)
def test_clients_train_like_plain_pytorch(problem, balancing, move):
    """Two rounds of two passes: weights start at m_yz / m_z, move, and are carried on."""
    learner, fleet, _, problem = fleet_of("lft-fedavg", problem, optimiser="sgd", batch_size=32)
    alpha = 0.3
    phases = make("lft-fedavg", {"alpha": alpha, "balancing": balancing}).phases(problem)
    length = -(-int(learner.sizes[0]) // 32)
    assert (learner.sizes // 32 == learner.sizes[0] // 32).all()
    for round in (1, 2):
        before = fleet.clone()
        goal = np.full(3, 2 * length * round)
        learner.train(fleet, np.arange(3), Task(round, phases, before, goal))
        for client in range(3):
            rate = learner.settings.learning_rate
            wanted, balance, counts, total = by_hand(
                problem, before, client, 2 * length, alpha, rate, 32, round, move
            )
            torch.testing.assert_close(fleet["cells"][client], counts)
            torch.testing.assert_close(fleet["balance"][client], balance, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(fleet["total"][client], total, rtol=1e-4, atol=1e-5)
            for name, tensor in wanted.items():
                found = fleet[f"model.{name}"][client]
                torch.testing.assert_close(found, tensor.detach(), rtol=1e-4, atol=1e-5)


def test_the_first_weights_are_the_shares_of_labels_in_groups():
    learner, fleet, _, problem = fleet_of("lft-fedavg")
    phases = make("lft-fedavg", {"alpha": 0.0}).phases(problem)
    learner.train(fleet, np.arange(3), Task(1, phases, fleet.clone(), np.full(3, 1)))
    for client, share in enumerate(problem.client_rows()):
        data = batch_of(problem.columns(), share.train)
        for z in range(2):
            inside = data["label"][data["group:gender"] == z]
            yes = float(inside.mean())
            np.testing.assert_allclose(fleet["balance"][client, :, z], [1 - yes, yes], rtol=1e-6)
            assert fleet["cells"][client, :, z].sum() == len(inside)
    assert fleet["cells"].sum() == learner.sizes.sum()


def test_the_loss_is_the_weighted_sum_of_all_samples():
    """Over all samples at once it is n times their weighted mean: Σ_i v_i CE_i."""
    _, _, module, problem = fleet_of("lft-fedavg")
    data = batch_of(problem.columns(), problem.client_rows()[0].train)
    parameters = {n: p.detach() for n, p in module.named_parameters()}
    view = View({}, forward=lambda p, x: module(x))
    (phase,) = make("lft-fedavg", {}).phases(problem)
    assert phase.before is not None
    assert phase.loss is not None
    parameters |= phase.before(parameters, data, view)
    total = 0.0
    for z in range(2):
        own = data["group:gender"] == z
        label = data["label"][own]
        entropy = F.binary_cross_entropy_with_logits(
            module(data["inputs"][own])[:, 0], label, reduction="none"
        )
        share = torch.where(label > 0, label.mean(), 1 - label.mean())
        total = total + (share * entropy).sum() / len(label)
    torch.testing.assert_close(phase.loss(parameters, data, view), total)
