"""PraFFL; the smooth Tchebycheff function itself is tested with the learner."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call

import comity.report
from comity.algorithms import Round, make
from comity.algorithms.praffl import PraFFL, Spanning
from comity.core.phases import Phase, View
from comity.core.rng import stream, torch_seeded
from comity.errors import UserError
from comity.learners import Task
from comity.problems.data import batch_of
from comity.runs.directory import Run
from comity.runs.execute import execute
from tests.tiny import ANSWERS, CROWD, PEOPLE, batches_of, fleet_of, tiny
from tests.vectors import fleet


def spanning(problem=ANSWERS, **settings) -> Spanning:
    with torch_seeded(3, "spanning"):
        module = make("praffl", settings).build(problem.model(), problem)
    assert isinstance(module, Spanning)
    return module


def inputs(count: int = 6, width: int = 4) -> torch.Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(1))


def learn(learner, fleet, phases, steps=4) -> None:
    rows = np.arange(len(fleet))
    learner.train(fleet, rows, Task(1, phases, fleet.clone(), np.full(len(rows), steps)))


# -- the module ----------------------------------------------------------------------------


@pytest.mark.parametrize(("arch", "entries"), [("code", 29), ("relu", 30)])
def test_a_head_has_the_papers_number_of_weights(arch, entries):
    head = spanning(arch=arch).head(torch.tensor([0.3, 0.7]))
    assert sum(tensor.numel() for tensor in head) == entries
    assert [tuple(tensor.shape) for tensor in head[:3]] == [(4, 4), (4,), (2, 4)]


@pytest.mark.parametrize(
    ("settings", "entries"),
    [
        ({}, 177),
        ({"arch": "relu"}, 177 + 5),
        ({"hyper": "linear"}, 3 * 29),
        ({"hyper_width": 8}, 3 * 8 + 9 * 8 + 9 * 29),
    ],
)
def test_a_hypernetwork_has_the_papers_number_of_weights(settings, entries):
    hyper = spanning(**settings).hyper
    assert sum(tensor.numel() for tensor in hyper.parameters()) == entries


def test_the_communicated_network_ends_with_the_features():
    """The paper's: Linear(d, 4) ReLU Linear(4, 4) ReLU."""
    kinds = [type(layer) for layer in spanning().body]
    assert kinds == [nn.Linear, nn.ReLU, nn.Linear, nn.ReLU]
    assert spanning(width=7).body(inputs()).shape == (6, 7)


@pytest.mark.parametrize("arch", ["code", "relu"])
def test_outputs_are_those_of_the_head_by_hand(arch):
    module, preference = spanning(arch=arch), torch.tensor([0.3, 0.7])
    inside = module.hyper.trunk(torch.tensor([0.7, 0.3]))  # the direction λ
    made = [head(inside) for head in module.hyper.heads]
    features = module.body(inputs()).relu()
    inner = features @ made[0].reshape(4, 4).T + made[1]
    inner = inner.relu() if arch == "relu" else inner
    wanted = inner @ made[2].reshape(2, 4).T + made[3]
    torch.testing.assert_close(module(inputs(), preference), wanted)


@pytest.mark.parametrize("arch", ["code", "relu"])
def test_the_plain_network_at_a_preference_answers_the_same(arch):
    module, preference = spanning(arch=arch), torch.tensor([0.2, 0.8])
    plain = module.at(preference)
    assert [type(layer) for layer in plain][-3::2] == [nn.Linear, nn.Linear]
    torch.testing.assert_close(plain(inputs()), module(inputs(), preference))
    other = module(inputs(), torch.tensor([0.8, 0.2]))
    assert not torch.allclose(plain(inputs()), other)


def test_a_plain_network_costs_no_random_numbers():
    module = spanning()
    before = torch.random.get_rng_state()
    module.at(torch.tensor([0.2, 0.8]))
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("arch", ["code", "relu"])
def test_many_preferences_at_once_are_many_one_by_one(arch):
    module = spanning(arch=arch)
    asked = torch.from_numpy(np.random.default_rng(1).dirichlet([1, 1], (2, 5))).float()
    together = module(inputs(), asked)
    assert together.shape == (2, 5, 6, 2)
    for i in range(2):
        for j in range(5):
            torch.testing.assert_close(together[i, j], module(inputs(), asked[i, j]))


def test_an_importance_becomes_a_direction_once():
    """Importance (0.9, 0.1) is served by what the hypernetwork makes of (0.1, 0.9)."""
    module = spanning()
    found = module.head(torch.tensor([0.9, 0.1]))
    for tensor, wanted in zip(found, module.hyper(torch.tensor([0.1, 0.9])), strict=True):
        torch.testing.assert_close(tensor, wanted)
    for tensor, other in zip(found, module.hyper(torch.tensor([0.9, 0.1])), strict=True):
        assert not torch.allclose(tensor, other)


def test_preferences_beyond_the_edge_count_as_the_edge():
    module = spanning(lambda_min=0.05)
    at_edge = module.hyper(torch.tensor([0.05, 1.0]) / 1.05)
    for importance in ([1.0, 0.0], [1.0, 0.05]):
        head = module.head(torch.tensor(importance))
        for tensor, wanted in zip(head, at_edge, strict=True):
            torch.testing.assert_close(tensor, wanted)
    inside = module.head(torch.tensor([0.94, 0.06]))
    assert not torch.allclose(inside[0], at_edge[0], rtol=1e-6)


@pytest.mark.parametrize(
    "network",
    [
        lambda samples: nn.Linear(4, 2),
        lambda samples: nn.Sequential(nn.Linear(4, 2)),
        lambda samples: nn.Sequential(nn.Linear(4, 2), nn.Softmax(dim=-1)),
    ],
)
def test_a_network_that_is_no_chain_ending_in_a_linear_layer_is_refused(network):
    problem = replace(ANSWERS, network=network)
    with pytest.raises(UserError, match=r"praffl .* tiny-answers must be an nn.Sequential"):
        make("praffl", {}).build(problem.model(), problem)


# -- what travels and what is mixed --------------------------------------------------------


def test_only_the_communicated_network_travels():
    names = [name for name, _ in spanning().named_parameters()]
    sent = {n for n in names if any(fnmatchcase(n, p) for p in PraFFL.sends)}
    assert sent == {f"body.{layer}.{part}" for layer in "02" for part in ("weight", "bias")}
    assert {name.split(".")[0] for name in set(names) - sent} == {"hyper"}
    assert PraFFL.statistics == PraFFL.surveys == ()


@pytest.mark.parametrize(
    ("weighting", "wanted"),
    [("mean", [1 / 3] * 3), ("sizes", [0.5, 0.3, 0.2]), ("public", [0.002, 0.6, 0.4])],
)
def test_the_server_takes_the_mean_of_all_who_sent(weighting, wanted):
    """The public code does not weigh the first client: (θ_0 + 300 θ_1 + 200 θ_2) / 500."""
    sent = fleet([[1.0], [2.0], [3.0]])
    sizes = np.array([500.0, 300.0, 200.0])
    round = Round(1, (0, 1, 2), (0, 1, 2, 3), sent, sent, sizes)
    mixing = make("praffl", {"weighting": weighting}).mix(round)["*"]
    np.testing.assert_allclose(mixing.weights, [wanted])
    assert set(mixing.route) == {0, 1, 2, 3}, "also who was absent"


# -- training ------------------------------------------------------------------------------


def test_each_phase_changes_its_own_half_and_nothing_else():
    for number, half in enumerate(("body", "hyper")):
        algorithm = make("praffl", {"sampled": 3})
        learner, models, _, problem = fleet_of(algorithm, ANSWERS)
        start = models.clone()
        learn(learner, models, [replace(algorithm.phases(problem)[number], share=1.0)])
        for name in models:
            same = torch.equal(models[name], start[name])
            assert same != name.startswith(half), name


@pytest.mark.parametrize(("split", "wanted"), [(0.5, [4, 4]), (0.25, [2, 6])])
def test_a_round_is_split_between_the_phases(split, wanted):
    algorithm = make("praffl", {"sampled": 2, "split": split})
    learner, models, _, problem = fleet_of(algorithm, ANSWERS)
    counts = [0, 0]

    def counting(number, lose):
        def counted(parameters, batch, view):
            counts[number] += 1  # mapped over the clients, so once a step
            return lose(parameters, batch, view)

        return counted

    phases = [replace(p, loss=counting(i, p.loss)) for i, p in enumerate(algorithm.phases(problem))]
    learn(learner, models, phases, steps=8)
    assert counts == wanted


def by_hand(module, problem, start, row, steps, phase, algorithm, settings):
    """Training of one client in one phase, preference by preference, in plain PyTorch."""
    own = {name: tensor[row].clone() for name, tensor in start.tensors.items()}
    half = "hyper." if phase else "body."
    leaves = {n: t.requires_grad_() for n, t in own.items() if n.startswith(half)}
    batches = batches_of(problem, row, steps, settings.batch_size, phase)
    count = len(problem.objectives)
    drawn = stream(1, f"draws {phase}", 1, row).dirichlet(
        np.ones(count), (steps, algorithm.sampled)
    )
    optimiser = torch.optim.SGD(list(leaves.values()), settings.learning_rate)
    for step, batch in enumerate(batches):

        def losses(importance, batch=batch):
            answers = functional_call(module, own, (batch["inputs"], importance))
            return problem.losses(answers, batch)

        if phase == 0:
            total = losses(torch.full((count,), 1 / count))[0]
        else:
            terms = []
            for weights in torch.from_numpy(drawn[step]).float():
                inverse = 1 / weights.clamp(min=algorithm.lambda_min)
                direction = inverse / inverse.sum()
                terms.append(torch.log(torch.exp(losses(weights) / direction).sum()))
            total = sum(terms) / len(terms)
        optimiser.zero_grad()
        total.backward()
        optimiser.step()
    return {name: tensor.detach() for name, tensor in own.items()}


@pytest.mark.parametrize("phase", [0, 1])
@pytest.mark.parametrize("problem", [ANSWERS, CROWD], ids=lambda p: p.name)
@pytest.mark.parametrize("arch", ["code", "relu"])
def test_a_phase_trains_like_plain_pytorch(problem, phase, arch):
    """With two objectives and with three.

    Not by Adam, which makes steps of rounding errors where a gradient is zero: the common bias
    of all logits has none.
    """
    algorithm = make("praffl", {"sampled": 3, "arch": arch, "lambda_min": 0.05})
    assert isinstance(algorithm, PraFFL)
    learner, models, module, problem = fleet_of(algorithm, problem, optimiser="sgd")
    start = models.clone()
    chosen = replace(algorithm.phases(problem)[phase], share=1.0)
    # as the second phase of a round, it draws from streams of its own
    nothing = Phase(train=("no such tensor",), share=1e-9, loss=chosen.loss, draw=chosen.draw)
    learn(learner, models, [nothing, chosen] if phase else [chosen], steps=3)
    for row in range(3):
        wanted = by_hand(module, problem, start, row, 3, phase, algorithm, learner.settings)
        for name, tensor in wanted.items():
            torch.testing.assert_close(models[name][row], tensor, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("smoothing", [1.0, 3.0])
def test_the_second_loss_and_its_gradient_are_those_of_a_loop(smoothing):
    algorithm = make("praffl", {"smoothing": smoothing})
    _, _, module, problem = fleet_of(algorithm, ANSWERS)
    batch = batch_of(problem.columns(), problem.client_rows()[0].train[:16])
    parameters = {n: p.detach().clone() for n, p in module.named_parameters()}
    leaves = [p.requires_grad_() for n, p in parameters.items() if n.startswith("hyper")]
    asked = torch.from_numpy(np.random.default_rng(1).dirichlet([1, 1], 5)).float()

    def forward(parameters, *arguments):
        return functional_call(module, parameters, arguments)

    view = View({}, drawn={"importance": asked}, forward=forward, losses=problem.losses)
    loss = algorithm.phases(problem)[1].loss
    assert loss is not None
    found = loss(parameters, batch, view)
    total = torch.zeros(())
    for w1, w2 in asked.clamp(min=0.01):
        weights = torch.stack([w1, w2])
        first, second = problem.losses(forward(parameters, batch["inputs"], weights), batch)
        norm = w1 + w2
        scaled = torch.stack([first * norm / w2, second * norm / w1])  # λ = (w2, w1) / norm
        total = total + torch.log(torch.exp(smoothing * scaled).sum()) / smoothing / 5
    torch.testing.assert_close(found, total, rtol=1e-5, atol=1e-5)
    slopes = torch.autograd.grad(found, leaves), torch.autograd.grad(total, leaves)
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_each_client_draws_preferences_of_its_own_every_round():
    algorithm = make("praffl", {"sampled": 4})
    learner, models, _, problem = fleet_of(algorithm, ANSWERS)
    second = algorithm.phases(problem)[1]
    assert second.draw is not None
    draws = []

    def noted(generator, steps, samples, parameters):
        draws.append(second.draw(generator, steps, samples, parameters)["importance"])
        return {"importance": draws[-1]}

    learn(learner, models, [replace(second, draw=noted, share=1.0)], steps=3)
    assert [draw.shape for draw in draws] == [(3, 4, 2)] * 3
    np.testing.assert_allclose(np.stack(draws).sum(axis=-1), 1.0)
    assert len(np.unique(np.stack(draws)[..., 0].round(9))) == 36


# -- whole runs ----------------------------------------------------------------------------


def test_preferences_at_which_clients_are_judged():
    algorithm = make("praffl", {})
    two = algorithm.evaluation_preferences(2, "test")
    np.testing.assert_allclose(two[[0, 333, -1]], [[0, 1], [333 / 999, 666 / 999], [1, 0]])
    assert two.shape == (1000, 2)
    np.testing.assert_allclose(algorithm.evaluation_preferences(2, "validation")[50], [0.5, 0.5])
    three = make("praffl", {"tested": 40}).evaluation_preferences(3, "test")
    assert three.shape == (40, 3)
    np.testing.assert_array_equal(three[:3], np.eye(3))
    np.testing.assert_allclose(three.sum(axis=1), 1.0)


@pytest.mark.parametrize("problem", [PEOPLE, ANSWERS, CROWD], ids=lambda p: p.name)
def test_a_run_gives_models_for_any_preference(problem, monkeypatch, tmp_path):
    monkeypatch.setattr(comity.report, "write_report", lambda run, kind: None)
    configuration = tiny(
        problem=problem.name, algorithm="praffl", clients=2, rounds=2, praffl={"tested": 12}
    )
    run = execute(Run.create(tmp_path / "run", configuration))
    spans, partitioned = run.spans, configuration.get_problem()
    assert spans is not None
    assert spans.vectors.shape == (2, 12, len(problem.objectives))
    for client in range(2):
        batch = batch_of(partitioned.columns(), partitioned.client_rows()[client].test)
        for place in (0, 7):
            preference = spans.preferences[place]
            plain = run.model_for(client, preference.tolist())
            assert isinstance(plain, nn.Sequential)
            scores = problem.scores(plain(batch["inputs"]), batch).detach()
            np.testing.assert_allclose(scores, spans.vectors[client, place], atol=2e-6)
            losses = problem.losses(plain(batch["inputs"]), batch).detach()
            np.testing.assert_allclose(losses, spans.losses[client, place], rtol=1e-4, atol=2e-6)
            whole = run._module(client)
            answers = whole(batch["inputs"], torch.from_numpy(preference).float())
            torch.testing.assert_close(plain(batch["inputs"]), answers)
        own = configuration.get_preferences()[client].tolist()
        answers = run.model_for(client, own)(batch["inputs"])
        torch.testing.assert_close(run.model(client)(batch["inputs"]), answers)
    with pytest.raises(UserError, match="off the simplex"):
        run.model_for(0, [0.9] * len(problem.objectives))


def test_who_cares_for_accuracy_gets_more_of_it(monkeypatch, tmp_path):
    """And of fairness less; the other way round if preferences were taken for directions."""
    monkeypatch.setattr(comity.report, "write_report", lambda run, kind: None)
    configuration = tiny(
        problem="tiny-answers",
        algorithm="praffl",
        clients=2,
        rounds=4,
        praffl={"tested": 11, "sampled": 16, "hyper_width": 16},
        supervised={"local_steps": 60, "learning_rate": 0.02},
    )
    run, partitioned = (
        execute(Run.create(tmp_path / "run", configuration)),
        configuration.get_problem(),
    )
    means = []
    for importance in ([0.9, 0.1], [0.1, 0.9]):
        each = []
        for client in range(2):
            batch = batch_of(partitioned.columns(), partitioned.client_rows()[client].train)
            answers = run.model_for(client, importance)(batch["inputs"])
            each.append(partitioned.losses(answers, batch).detach().numpy())
        means.append(np.mean(each, axis=0))
    accurate, fair = means
    assert accurate[0] < 0.9 * fair[0]
    assert fair[1] < 0.9 * accurate[1]
