"""Divisors of losses, the ideal point, and rounds in which accuracy counts alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torchjd import scalarization as torchjd

from comity.configuration import configure
from comity.core.fleet import Fleet
from comity.core.phases import Phase
from comity.errors import UserError
from comity.learners import Task
from comity.learners.supervised.normalisation import END_STEPS, initial_scale, spread
from comity.learners.supervised.settings import SupervisedSettings
from comity.problems import register
from comity.problems.own_table import table_problem
from comity.runs.execute import execute, start_run
from tests.learners.supervised.helpers import (
    ADAM,
    DEAL,
    PEOPLE,
    UNEVEN,
    assert_row,
    by_hand,
    learner_of,
    trained,
)
from tests.tiny import fleet_of

ROWS = np.arange(3)


def scales(learner):
    return learner._stack.scale


def test_an_initial_loss_is_a_divisor_of_at_least_a_thousandth():
    losses = torch.tensor([[0.7, 0.07], [0.6, 0.0]])
    torch.testing.assert_close(initial_scale(losses), torch.tensor([[0.7, 0.07], [0.6, 0.001]]))


def test_the_spread_of_a_loss_is_that_between_the_ends():
    """Two clients; the second's runs end with nearly the same fairness."""
    losses = torch.tensor(
        [
            [[0.3, 0.20], [0.5, 0.04]],
            [[0.4, 0.050], [0.6, 0.049]],
        ]
    )
    scale, ideal = spread(losses)
    torch.testing.assert_close(scale, torch.tensor([[0.2, 0.16], [0.2, 0.01]]))
    torch.testing.assert_close(ideal, torch.tensor([[1.5, 0.25], [2.0, 4.9]]))


def test_units_are_those_of_scores():
    learner, fleet, weights = learner_of(normalise="units")
    units = torch.tensor([math.log(2), 0.5])
    torch.testing.assert_close(scales(learner), units.repeat(3, 1))
    start = fleet.clone()
    trained(learner, fleet)
    expected = by_hand(PEOPLE.partitioned(*DEAL), start, weights, 0, 3, ADAM, scale=units)
    assert_row(fleet, 0, expected)


def test_ends_are_short_runs_on_each_objective_alone_that_leave_no_trace():
    learner, fleet, _ = learner_of(normalise="ends")
    assert learner.steps.tolist() == learner.skipped.tolist() == [0, 0, 0]
    plain, untouched, _ = learner_of()
    assert fleet.distance(untouched).max() == 0
    task = Task(0, [Phase()], untouched, np.full(3, END_STEPS))
    ends = plain.train_per_objective(untouched, ROWS, task)
    problem = PEOPLE.partitioned(*DEAL)
    for client in ROWS:
        rows = torch.from_numpy(problem.client_rows()[client].train)
        batch = {k: v[rows] for k, v in problem.columns().items()}
        batch["weight"] = torch.ones(len(rows))
        models = [ends.module(2 * client + k, problem.model()) for k in (0, 1)]
        losses = torch.stack([problem.losses(m(batch["inputs"]), batch) for m in models]).detach()
        assert losses[0, 0] < losses[1, 0], "the first run is about accuracy"
        width = (losses[0] - losses[1]).abs().clamp(min=0.01)
        torch.testing.assert_close(scales(learner)[client], width, rtol=1e-4, atol=1e-6)
        ideal = losses.amin(dim=0) / width
        torch.testing.assert_close(learner._stack.ideal[client], ideal, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("rule", ["initial", "units", "ends"])
def test_a_client_alone_has_the_divisors_that_it_has_among_others(rule):
    together = scales(learner_of(deal=UNEVEN, normalise=rule)[0])
    for client in (0, 1, 2):
        alone = scales(learner_of(deal=UNEVEN, normalise=rule, clients=(client,))[0])
        torch.testing.assert_close(alone[0], together[client], rtol=1e-3, atol=1e-5)


def test_smooth_tchebycheff_measures_from_the_ideal_point():
    """One plain step of gradient descent, by hand."""
    values = {"normalise": "ends", "scalarisation": "smooth-tchebycheff", "smoothing": 2.0}
    learner, fleet, weights = learner_of(optimiser="sgd", learning_rate=0.1, **values)
    scale, ideal = scales(learner)[1], learner._stack.ideal[1]
    start, problem = fleet.clone(), PEOPLE.partitioned(*DEAL)
    trained(learner, fleet, steps=1)
    direction = torch.tensor(weights[1][::-1].copy()).float()  # of two objectives

    model = start.clone().module(1, problem.model())
    rows = learner._data.batches(np.array([1]), 1, "batches", 1)[0, 0]
    batch = {k: v[rows] for k, v in problem.columns().items()} | {"weight": torch.ones(len(rows))}
    losses = problem.losses(model(batch["inputs"]), batch) / scale - ideal
    (torch.logsumexp(2.0 * losses / direction, dim=0) / 2.0).backward()
    moved = {k: v.detach() - 0.1 * v.grad for k, v in model.named_parameters()}
    assert_row(fleet, 1, moved)


REFEREES = {
    "tchebycheff": lambda w, f: (w * f).max() + 0.05 * (w * f).sum(),
    "pbi": lambda w, f: torchjd.PBI(3.0, 1 / w)(f),
}


@pytest.mark.parametrize("kind", REFEREES)
def test_a_step_follows_the_scalarisation_of_the_settings(kind):
    """One plain step of gradient descent from the ideal point, by other code."""
    values = {"normalise": "ends", "scalarisation": kind, "pbi_penalty": 3.0}
    learner, fleet, weights = learner_of(optimiser="sgd", learning_rate=0.1, **values)
    scale, ideal = scales(learner)[1], learner._stack.ideal[1]
    start, problem = fleet.clone(), PEOPLE.partitioned(*DEAL)
    trained(learner, fleet, steps=1)

    model = start.clone().module(1, problem.model())
    rows = learner._data.batches(np.array([1]), 1, "batches", 1)[0, 0]
    batch = {k: v[rows] for k, v in problem.columns().items()} | {"weight": torch.ones(len(rows))}
    losses = problem.losses(model(batch["inputs"]), batch) / scale - ideal
    REFEREES[kind](torch.tensor(weights[1]).float(), losses).backward()
    moved = {k: v.detach() - 0.1 * v.grad for k, v in model.named_parameters()}
    assert_row(fleet, 1, moved)


def test_the_ideal_point_is_zero_where_it_is_asked_to_be():
    values = {"normalise": "ends", "scalarisation": "tchebycheff"}
    assert learner_of(**values)[0]._stack.ideal.min() > 0
    assert learner_of(**values, ideal="zero")[0]._stack.ideal.max() == 0


def test_the_ideal_point_is_the_best_that_a_client_has_seen_and_never_rises():
    """Looked up when a round begins, at the model that a client begins with, for those present."""
    learner, fleet, _ = learner_of(scalarisation="pbi", ideal="seen", learning_rate=0.05)
    start = fleet.clone()

    def losses(models: Fleet) -> np.ndarray:
        return learner.survey(models, ROWS, ("losses",), 1, None)[0]["losses"]

    first = losses(fleet)
    task = Task(1, [Phase()], fleet.clone(), np.full(2, 30))
    learner.train(fleet, np.array([0, 2]), task)
    second, seen = losses(fleet), learner.state()["least_seen"]
    np.testing.assert_allclose(seen[[0, 2]], first[[0, 2]], rtol=1e-6)
    assert np.isinf(seen[1]).all(), "it was not there"
    assert not learner._stack.ideal[1].any()
    np.testing.assert_allclose(learner._stack.ideal[0], first[0] - 1e-3, rtol=1e-4)

    best = np.minimum(first, second)
    assert (best[0] < first[0]).any()
    learner.train(fleet, ROWS, Task(2, [Phase()], fleet.clone(), np.full(3, 60)))
    learner.train(start, ROWS, Task(3, [Phase()], start.clone(), np.full(3, 90)))
    found = learner.state()["least_seen"]
    np.testing.assert_allclose(found, best, rtol=1e-6, err_msg="a worse model does not raise it")

    other = learner_of(scalarisation="pbi", ideal="seen", learning_rate=0.05)[0]
    other.load(learner.state())
    np.testing.assert_array_equal(other.state()["least_seen"], found)
    assert "least_seen" not in learner_of()[0].state()


def test_accuracy_counts_alone_while_it_warms_up():
    """Half of four rounds: round 2 follows the first loss only, round 3 the preference."""
    learner, fleet, _, _ = fleet_of("fedavg", rounds=4, warm_up=0.5)
    only, same, _, _ = fleet_of("fedavg", rounds=4)
    only._stack.preferences = torch.tensor([[1.0, 0.0]] * 3)
    plain, other, _, _ = fleet_of("fedavg", rounds=4)
    assert trained(learner, fleet, round=2).distance(trained(only, same, round=2)).max() == 0
    assert fleet.distance(trained(plain, other, round=2)).max() > 1e-3

    start = Fleet({name: tensor.clone() for name, tensor in same.tensors.items()})
    after = trained(learner, fleet, round=3)
    assert after.distance(trained(plain, start, round=3)).max() == 0


def test_files_of_earlier_versions_say_true_or_false():
    assert SupervisedSettings(normalise=True).normalise == "initial"
    assert SupervisedSettings(normalise=False).normalise == "none"
    values = {"problem": "german-credit-gender-dp", "clients": 3}
    with pytest.raises(UserError, match=r"supervised\.normalise = 'gap'.*units"):
        configure({**values, "supervised": {"normalise": "gap"}})


def hiring():
    """Return people of whom one man in three and one woman in 14 is hired: a gap to be closed."""
    draw, count = np.random.default_rng(5), 1500
    man = draw.integers(0, 2, count)
    skill, luck = draw.normal(size=count) + 1.5 * man, draw.normal(size=count)
    hired = skill + 0.6 * luck + 0.5 * draw.normal(size=count) > 2.0
    columns = {
        "sex": ["man" if m else "woman" for m in man],
        "skill": skill.tolist(),
        "luck": luck.tolist(),
        "hired": ["yes" if h else "no" for h in hired],
    }
    words = {"label": "hired", "positive": "yes", "sensitive": ["sex"], "hidden": [8]}
    words["sensitive_inputs"] = True
    return register(table_problem(columns, name="hiring", **words))


def test_models_go_on_answering_where_the_thesis_rule_makes_them_constant(tmp_path):
    """Two clients with weight 0.6 on fairness, last models; the default rule is that of units."""
    values = {
        "problem": hiring().name,
        "algorithm": "fedavg",
        "clients": 2,
        "rounds": 40,
        "preferences": "same:0.4,0.6",
    }
    learner = {"learning_rate": 1e-2, "local_steps": 20}
    runs = {}
    for name, rule in {"thesis": {"normalise": "initial"}, "default": {}}.items():
        run = start_run({**values, "supervised": {**learner, **rule}}, tmp_path / name)
        runs[name] = execute(run)
    assert runs["default"].configuration.learner_settings["normalise"] == "units"
    constant = runs["default"].results["trivial"]["accuracy"]
    accuracy = {name: run.vectors_last[:, 0].mean() for name, run in runs.items()}
    assert accuracy["thesis"] == pytest.approx(constant, abs=0.02)
    assert accuracy["default"] > constant + 0.05
    assert (runs["default"].vectors_last[:, 1] < 0.99).all()
