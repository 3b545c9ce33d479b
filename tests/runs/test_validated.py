"""Validation of the models that a run hands over, beside the models themselves."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tests.tiny  # noqa: F401  (which registers its problems)
from comity.problems import DataProblem
from comity.problems.data import batch_of
from comity.runs.execute import execute, start_run
from comity.runs.validated import validated_vectors

SHORT = {"problem": "tiny-answers", "clients": 4, "rounds": 4, "chunk": 4}


@pytest.mark.parametrize(
    "settings",
    [
        {"algorithm": "fedavg"},
        {"algorithm": "fedavg", "keep_scope": "federation"},
        {"algorithm": "fedavg", "keep": "last"},
        {"algorithm": "fedavg", "keep": "last", "guard": True},
        {"algorithm": "fedavg", "keep": "last", "fine_tune": "extra:1"},
        {"algorithm": "fedavg", "keep": "last", "fine_tune": "replace-last"},
        {"algorithm": "fedavg", "participation": 0.5},
        {"algorithm": "fedavg", "participation": 0.5, "keep": "last"},
        {"algorithm": "fedavg", "alone_share": 0.4},
        {"algorithm": "no-communication", "keep": "last"},
        {"algorithm": "ditto"},
        {"algorithm": "lft-ensemble"},
        {"algorithm": "lft-ensemble", "keep": "last"},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
def test_vectors_are_those_of_the_models_on_validation_samples(settings, tmp_path):
    run = execute(start_run({**SHORT, **settings}, tmp_path / "run"))
    problem = run.configuration.get_problem()
    assert isinstance(problem, DataProblem)
    vectors = validated_vectors(run.configuration, run.history)
    columns = problem.columns()
    for client, share in enumerate(problem.client_rows()):
        batch = batch_of(columns, share.validation)
        with torch.inference_mode():
            scores = problem.scores(run.model(client)(batch["inputs"]), batch)
        assert vectors[client] == pytest.approx(scores.numpy(), abs=1e-5), client


def test_a_model_that_was_never_validated_has_no_vector(tmp_path):
    values = {"algorithm": "fedavg", "supervised": {"learning_rate": 1e30, "optimiser": "sgd"}}
    run = execute(start_run({**SHORT, **values}, tmp_path / "run"))
    assert np.isnan(validated_vectors(run.configuration, run.history)).all()
