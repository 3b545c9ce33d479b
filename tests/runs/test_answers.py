"""Constant answers are known from the answers themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from comity.configuration import configure
from comity.core.fleet import Fleet
from comity.problems import DataProblem, Objective, Samples, find, register
from comity.runs.answers import constant_models
from tests.tiny import tiny


def fleet(problem: str, biases: list[Any], **settings: Any) -> tuple[Any, Fleet]:
    """Models that differ from a fresh one in the bias of the last layer alone."""
    values = {"problem": problem, "clients": len(biases), "algorithm": "fedavg", **settings}
    configuration = configure(values)
    models = []
    for bias in biases:
        torch.manual_seed(0)
        module = configuration.get_module()
        last = [layer for layer in module.modules() if isinstance(layer, nn.Linear)][-1]
        with torch.no_grad():
            last.bias.copy_(torch.as_tensor(bias, dtype=torch.float32))
        models.append({name: value.clone() for name, value in module.state_dict().items()})
    names = models[0]
    return configuration, Fleet({name: torch.stack([m[name] for m in models]) for name in names})


def median_logit(configuration: Any, models: Fleet, client: int) -> float:
    problem = configuration.get_problem()
    rows = problem.client_rows()[client].test
    network = models.module(client, configuration.get_module()).eval()
    with torch.inference_mode():
        return float(network(problem.columns()["inputs"][rows]).median())


def test_one_logit_that_is_always_of_one_sign_is_a_constant_answer() -> None:
    problem = "german-credit-gender-dp"
    configuration, plain = fleet(problem, [[0.0]] * 3)
    middle = -median_logit(configuration, plain, 2)
    configuration, models = fleet(problem, [[100.0], [-100.0], [middle]])
    assert constant_models(configuration, models) == [True, True, False]
    assert constant_models(configuration, models.select([1]), (1,)) == [True]


def test_the_largest_of_several_outputs_is_the_answer() -> None:
    biases = [[0.0] * 10, [0.0, 99.0, *[0.0] * 8]]
    configuration, models = fleet("usps-mlp", biases, partition="stratified")
    assert constant_models(configuration, models) == [False, True]


def test_environments_have_no_answers() -> None:
    configuration = tiny(clients=2, algorithm="fedavg")
    module = configuration.get_module()
    models = Fleet({k: torch.stack([v, v]) for k, v in module.state_dict().items()})
    assert constant_models(configuration, models) == [None, None]


def _problem(name: str, scores: Any, head: nn.Module) -> DataProblem:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(60, 2, generator=generator)
    columns = {"inputs": inputs, "label": (inputs[:, 0] > 0).float()}
    samples = Samples(columns, columns["label"].long().numpy(), {})

    def losses(outputs: Tensor, batch: Any) -> Tensor:
        return ((outputs.squeeze(-1) - batch["label"]) ** 2).mean().reshape(1)

    return register(
        DataProblem(
            name=name,
            title=name,
            objectives=(Objective("score", "share", "a score"),),
            reference_point=(0.0,),
            samples=lambda: samples,
            network=lambda _: nn.Sequential(nn.Linear(2, 1), head),
            losses=losses,
            scores=scores,
            constant=lambda batch: batch["label"].mean().reshape(1),
        )
    )


def test_numbers_that_are_no_answers_are_not_called_constant() -> None:
    """All outputs are positive, but the score depends on how large they are."""

    def error(outputs: Tensor, batch: Any) -> Tensor:
        return -((outputs.squeeze(-1) - batch["label"]) ** 2).mean().reshape(1)

    _problem("tiny-numbers", error, nn.Softplus())
    configuration, models = fleet("tiny-numbers", [[1.0]])
    assert constant_models(configuration, models) == [None]


def test_chances_above_one_half_are_no_logits() -> None:
    """Outputs between 0 and 1 are all positive, though the answers differ."""

    def accuracy(outputs: Tensor, batch: Any) -> Tensor:
        yes = (outputs.squeeze(-1) > 0.5).float()
        return (yes == batch["label"]).float().mean().reshape(1)

    _problem("tiny-chances", accuracy, nn.Sigmoid())
    configuration, models = fleet("tiny-chances", [[0.0]])
    assert constant_models(configuration, models) == [None]


def test_a_single_test_sample_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    configuration, models = fleet("german-credit-gender-dp", [[100.0]])
    problem = configuration.get_problem()
    (rows,) = problem.client_rows()
    monkeypatch.setattr(
        type(problem), "client_rows", lambda self: [replace(rows, test=rows.test[:1])]
    )
    assert constant_models(configuration, models) == [None]
    assert find("german-credit-gender-dp").name == problem.name
