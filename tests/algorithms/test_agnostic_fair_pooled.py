from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from comity.algorithms import Round, find, make
from comity.algorithms.agnostic_fair_pooled import covariation
from comity.core.phases import View
from comity.errors import UserError
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import RoundLoop
from comity.federation.server import Server
from comity.learners import Task
from comity.problems.data import batch_of
from tests.tiny import ANSWERS, PEOPLE, draw_batches, fleet_of, tiny
from tests.vectors import fleet

NAME = "agnostic-fair-pooled"


@pytest.mark.parametrize(
    ("group", "outputs", "wanted"),
    [
        ([0, 0, 1, 1], [[1, -1], [0, 0], [-1, 1], [-2, 2]], 0.625),
        ([0, 0, 1, 1], [[1], [0], [-1], [-2]], 0.3125),
        ([0, 1, 0, 1], [[1], [1], [-1], [-1]], 0.25),
    ],
)
def test_the_fairness_term_of_the_specification(group, outputs, wanted):
    found = covariation(torch.tensor(outputs).float(), torch.tensor(group), 0.5)
    assert found.item() == pytest.approx(wanted)


def test_the_mean_of_the_group_is_not_that_of_the_batch():
    """a = (0, 1), ā = .2, logits ±1: .04 · 1 and .64 · 1, halved."""
    found = covariation(torch.tensor([[1.0], [-1.0]]), torch.tensor([0, 1]), 0.2)
    assert found.item() == pytest.approx(0.34)


@pytest.mark.parametrize("problem", [PEOPLE, ANSWERS], ids=["one-logit", "two-logits"])
def test_its_loss_is_the_sum_of_entropies_and_twice_the_fairness_term(problem):
    _, _, module, problem = fleet_of(NAME, problem)
    ((column, _),) = problem.attributes.items()
    everybody = np.concatenate([share.train for share in problem.client_rows()])
    batch = batch_of(problem.columns(), everybody[5:25])
    mean = problem.columns()[column][torch.from_numpy(everybody)].float().mean()
    outputs = module(batch["inputs"])
    if outputs.shape[1] == 1:
        error = F.binary_cross_entropy_with_logits(outputs[:, 0], batch["label"], reduction="sum")
    else:
        error = F.cross_entropy(outputs, batch["label"].long(), reduction="sum")
    unfair = torch.zeros(())
    for column_of_logits in outputs.T:
        apart = (batch[column] - mean) * (column_of_logits - column_of_logits.mean())
        unfair = unfair + apart.square().mean()
    for strength in (2.0, 0.0):
        (phase,) = make(NAME, {"strength": strength}).phases(problem)
        assert phase.loss is not None
        found = phase.loss({}, batch, View({}, forward=lambda p, x: module(x)))
        torch.testing.assert_close(found, error + strength * unfair)
    assert make(NAME, {}).model_dump() == {"strength": 2.0}


def test_the_first_client_trains_on_the_data_of_all_like_plain_pytorch():
    learner, models, _, problem = fleet_of(NAME, optimiser="sgd", sizes="4,2,1")
    phases, start = make(NAME, {}).phases(problem), models.clone()
    assert learner.round_steps.tolist() == [3, 0, 0]
    goal = learner.round_steps * 2
    learner.train(models, np.arange(3), Task(1, phases, start, goal))
    model = start.module(0, problem.model())
    optimiser = torch.optim.SGD(model.parameters(), learner.settings.learning_rate)
    rows = np.sort(np.concatenate([share.train for share in problem.client_rows()]))
    assert learner.sizes[0] == len(rows)
    mean = problem.columns()["group:gender"][torch.from_numpy(rows)].float().mean()
    for batch in draw_batches(problem, rows, 0, 6, 64):
        outputs = model(batch["inputs"])
        error = F.binary_cross_entropy_with_logits(outputs[:, 0], batch["label"], reduction="sum")
        apart = (batch["group:gender"] - mean) * (outputs[:, 0] - outputs[:, 0].mean())
        optimiser.zero_grad()
        (error + 2 * apart.square().mean()).backward()
        optimiser.step()
    for name, tensor in model.named_parameters():
        torch.testing.assert_close(models[name][0], tensor.detach(), rtol=1e-4, atol=1e-5)
        assert torch.equal(models[name][1:], start[name][1:]), "nobody else trains"


@pytest.mark.parametrize("chunk", [1, 4])
def test_everybody_gets_the_first_clients_model(chunk):
    configuration = tiny(problem="tiny-people", algorithm=NAME, chunk=chunk, rounds=2, keep="last")
    with EmbeddedEngine(configuration) as engine:
        loop = RoundLoop(engine, Server(configuration))
        for (record,) in loop.rounds():
            assert record.mixing is not None
            np.testing.assert_array_equal(record.mixing, np.tile([1.0, 0, 0, 0], (4, 1)))
            assert engine.metrics(record.clients).steps.tolist() == [3 * record.round, 0, 0, 0]
            trained = engine.models(kept=False).select([0])
        loop.finish()
        ends = engine.models(kept=False)
    assert ends.distance(trained).tolist() == [0.0] * 4


def test_it_says_that_it_is_centralised():
    algorithm = find(NAME)
    assert algorithm.centralised
    assert algorithm.declaration.place == "not federated"
    assert "raw data" in algorithm.declaration.communication
    learner, _, _, _ = fleet_of(NAME)
    assert any("not federated" in remark for remark in learner.remarks)
    others = [fleet_of(name)[0].remarks for name in ("fedfb", "lft-fedavg")]
    assert not any("federated" in remark for remarks in others for remark in remarks)


def test_nobody_can_be_absent():
    with pytest.raises(UserError, match="participation means nothing for agnostic-fair-pooled"):
        tiny(problem="tiny-people", algorithm=NAME, participation=0.5)


def test_where_the_first_client_is_left_out_nobody_breaks():
    """Its model was no longer finite: nothing is there to be mixed but what the others hold."""
    sent = fleet([[1.0], [1.0]])
    round = Round(1, (1, 2), (0, 1, 2), sent, sent, np.ones(2))
    make(NAME, {}).mix(round)["*"].check(2)
