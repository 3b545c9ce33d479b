"""Every model for every client: by hand, and the diagonal beside the run's own results."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import comity
import tests.tiny  # noqa: F401  (which makes its problems known)
from comity.core.storage import load_values, save_values
from comity.problems import DataProblem, Objective, Samples, register
from comity.runs.cross import cross_models

SHORT = {"rounds": 2, "clients": 3, "supervised": {"local_steps": 5}}


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("comity.report.write_report", lambda run, kind: None)
        yield tmp_path_factory.mktemp("cross")


# -- two clients by hand -------------------------------------------------------------------


def _samples():
    """Client 0 has the input 1, client 1 the input 2; labels are no."""
    silos = np.repeat([0, 1], 6)
    inputs = torch.from_numpy(silos + 1).float()[:, None]
    return Samples({"inputs": inputs}, silos, {}, silos, ("one", "two"))


HAND = register(
    DataProblem(
        name="tiny-hand",
        title="Two clients whose scores are their outputs, and minus half of them",
        objectives=(Objective("up", "", "output"), Objective("down", "", "minus half of it")),
        reference_point=(0.0, 0.0),
        samples=_samples,
        network=lambda samples: nn.Sequential(nn.Linear(1, 1, bias=False)),
        losses=lambda outputs, batch: torch.stack([outputs.mean() * 0, outputs.mean() * 0]),
        scores=lambda outputs, batch: _scores(outputs, batch),
        constant=lambda batch: torch.zeros(1),
    )
)


def _scores(outputs, batch):
    mean = (outputs[:, 0] * batch["weight"]).sum() / batch["weight"].sum()
    return torch.stack([mean, -mean / 2])


def test_two_clients_by_hand(home):
    run = comity.run(
        "tiny-hand",
        algorithm="no-communication",
        partition="natural",
        clients=2,
        rounds=1,
        preferences=[[1.0, 0.0], [0.25, 0.75]],
        out=home / "hand",
    )
    for client, weight in enumerate((3.0, 5.0)):  # models that multiply by 3 and by 5
        path = run.path / "models" / f"client-{client}.safetensors"
        tensors, header = load_values(path)
        save_values(path, {name: np.float32([[weight]]) for name in tensors}, header)
    table = cross_models(run)
    assert table["clients"] == table["models"] == ["one", "two"]
    assert table["objectives"] == ["up", "down"]
    # model 3 on input 1 gives 3 and -1.5, on input 2 gives 6 and -3; model 5 gives 5 and 10
    assert table["vectors"] == [[[3.0, -1.5], [6.0, -3.0]], [[5.0, -2.5], [10.0, -5.0]]]
    # client one weighs (1, 0), client two (1/4, 3/4)
    assert table["scalarised_by_client"] == [[3.0, -0.75], [5.0, -1.25]]
    assert table["scalarised_by_model"] == [[3.0, 6.0], [-0.625, -1.25]]
    assert table["trivial"] == [0.0, 0.0]


# -- the run's own results -----------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["fedavg", "praffl", "fedrep", "lft-ensemble"])
def test_the_diagonal_is_the_runs_result_bit_for_bit(algorithm, home):
    settings = {**SHORT, "chunk": 2, "sizes": "3,2,1"}
    run = comity.run("tiny-people", algorithm=algorithm, out=home / algorithm, **settings)
    table = cross_models(run)
    for client, row in enumerate(run.results["per_client"]):
        assert table["vectors"][client][client] == list(row["objectives"].values())
        assert table["scalarised_by_client"][client][client] == row["scalarised"]
        assert table["scalarised_by_model"][client][client] == row["scalarised"]


@pytest.mark.parametrize("algorithm", ["no-communication", "praffl"])
def test_the_rest_is_each_model_on_the_others_rows(algorithm, home):
    run = comity.run("tiny-people", algorithm=algorithm, out=home / f"o-{algorithm}", **SHORT)
    problem, table = run.configuration.get_problem(), cross_models(run)
    for model in range(3):
        for client in range(3):
            rows = problem.client_rows()[client].test
            columns = {name: column[rows] for name, column in problem.columns().items()}
            with torch.inference_mode():
                outputs = run.model(model)(columns["inputs"])  # at the owner's preference
            scores = problem.scores(outputs, {**columns, "weight": torch.ones(len(rows))})
            np.testing.assert_allclose(table["vectors"][model][client], scores, atol=2e-6)


def test_environments_are_weighed_anew(home):
    run = comity.run("tiny-treasure", algorithm="fedavg", clients=3, rounds=1, out=home / "boat")
    table, weights = cross_models(run), run.configuration.get_preferences()
    np.testing.assert_allclose(table["scalarised_by_client"], run.vectors @ weights.T)
    with pytest.raises(comity.UserError, match="environments"):
        cross_models(run, "model.safetensors")


# -- an exported model ---------------------------------------------------------------------


def test_an_exported_model_is_tried_on_every_client(home):
    run = comity.run("tiny-people", algorithm="no-communication", out=home / "source", **SHORT)
    path = comity.export(run, home / "model.safetensors", 1)
    table, whole = cross_models(run, path), cross_models(run)
    assert table["models"] == ["model.safetensors"]
    np.testing.assert_allclose(table["vectors"][0], whole["vectors"][1], atol=2e-6)
    assert table["scalarised_by_model"][0] == pytest.approx(whole["scalarised_by_model"][1])
    other = comity.run("tiny-crowd", algorithm="fedavg", out=home / "other", **SHORT)
    with pytest.raises(comity.UserError, match=r"model: .* has other objectives than tiny-crowd"):
        cross_models(other, path)


def test_cross_keeps_the_table_in_the_run(home):
    run = comity.run("tiny-people", algorithm="fedavg", out=home / "kept", **SHORT)
    assert run.cross is None
    table = comity.cross(run.path)
    assert run.cross == table
