"""Problems of given datasets: shapes, parts, fairness, and runs that find their data again."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import comity
from comity.errors import UserError
from comity.problems import find
from comity.problems import registry as registry_module
from tests.datasets.test_own_items import Rows


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    """Problems of one test are not known to the next; pictures have tests of their own."""
    monkeypatch.setattr("comity.report.write_report", lambda run, kind: None)
    monkeypatch.setattr("comity.report.write_comparison_report", lambda *about: None)
    known = dict(registry_module._REGISTRY)
    monkeypatch.setattr(registry_module, "_REGISTRY", known)
    return known


def points(seed: int, count: int = 40) -> TensorDataset:
    """Points of the plane; the label is on which side of a line they lie."""
    inputs = torch.randn(count, 2, generator=torch.Generator().manual_seed(seed))
    return TensorDataset(inputs, (inputs.sum(1) > 0).long())


def pictures(count: int, side: int, dtype: torch.dtype) -> list[tuple[torch.Tensor, int]]:
    return [(torch.full((1, side, side), n % 3).to(dtype), n % 3) for n in range(count)]


SHORT = {"rounds": 2, "algorithm": "fedavg", "supervised": {"local_epochs": 3}}


def test_a_run_learns_and_names_its_clients(tmp_path):
    problem = comity.from_datasets({"north": points(1), "south": points(2)}, name="plane")
    assert problem.name.startswith("plane@")
    more = {"local_epochs": 40, "learning_rate": 0.01}
    run = comity.run(problem, out=tmp_path / "run", algorithm="fedavg", rounds=3, supervised=more)
    assert [row["name"] for row in run.results["per_client"]] == ["north", "south"]
    assert run.results["metrics"]["accuracy"] > 0.8 > run.results["trivial"]["accuracy"]
    assert run.model("south")(torch.tensor([[2.0, 2.0], [-2.0, -2.0]])).argmax(1).tolist() == [1, 0]
    comity.export(run, tmp_path / "model.safetensors", client="north")
    comparison = comity.compare(
        problem, algorithms=["no-communication", "ditto"], seeds=1, out=tmp_path / "two", rounds=1
    )
    assert {row["algorithm"] for row in comparison.results["rows"]} == {"no-communication", "ditto"}


def test_parts_of_one_dataset_are_drawn_for_each_client():
    problem = comity.from_datasets([points(1, 50), points(2, 30)])
    dealt = problem.partitioned(2, 1, "natural", "equal")
    shares = dealt.client_rows()
    sizes = [(len(s.train), len(s.validation), len(s.test)) for s in shares]
    assert sizes == [(35, 5, 10), (21, 3, 6)]
    assert max(shares[0].test.max(), shares[0].train.max()) < 50 <= shares[1].train.min()
    assert dealt.client_names() == ()
    mixed = problem.partitioned(4, 1, "dirichlet:1", "equal").client_rows()
    assert sum(len(s.train) + len(s.validation) + len(s.test) for s in mixed) == 80


def test_given_parts_stay_what_they_are():
    whole = {"train": points(1, 20), "validation": points(2, 5), "test": points(3, 6)}
    (share,) = comity.from_datasets([whole]).partitioned(1, 7, "natural", "equal").client_rows()
    assert share.train.tolist() == list(range(20))
    assert share.validation.tolist() == list(range(20, 25))
    assert share.test.tolist() == list(range(25, 31))
    problem = comity.from_datasets([(points(1, 40), points(3, 6))])
    (share,) = problem.partitioned(1, 7, "natural", "equal", "75:25:10").client_rows()
    assert (len(share.train), len(share.validation)) == (30, 10)
    assert sorted([*share.train, *share.validation]) == list(range(40))
    assert share.test.tolist() == list(range(40, 46))
    with pytest.raises(UserError, match=r"come in parts.*partition = natural and clients = 1"):
        problem.partitioned(2, 7, "stratified", "equal").client_rows()
    few = comity.from_datasets(
        {"a": (points(1, 40), points(2, 9)), "b": ([([0.0, 0.0], 1)], [([1.0, 1.0], 0)])}
    )
    with pytest.raises(UserError, match="b has too few training items"):
        few.partitioned(2, 1, "natural", "equal").client_rows()


@pytest.mark.parametrize(
    ("side", "dtype", "kinds"),
    [
        (16, torch.uint8, ["Pixels", "Conv2d"]),
        (16, torch.float32, ["Conv2d"]),
        (4, torch.uint8, ["Pixels", "Flatten"]),
        (4, torch.float32, ["Flatten"]),
    ],
)
def test_networks_fit_the_shape(side, dtype, kinds):
    model = comity.from_datasets([pictures(6, side, dtype)]).model()
    layers = [type(layer).__name__ for layer in model.body]
    assert layers[: len(kinds)] == kinds
    assert model.head.out_features == 3


def test_own_networks_are_tried_before_a_run():
    def network():
        return nn.Linear(2, 2, bias=False)

    problem = comity.from_datasets([points(1)], network=network)
    assert [tuple(p.shape) for p in problem.model().parameters()] == [(2, 2)]
    with pytest.raises(UserError, match=r"outputs of shape \[2, 3\]; it must be \[2, 2\]"):
        comity.from_datasets([points(1)], network=lambda: nn.Linear(2, 3))
    with pytest.raises(UserError, match=r"cannot read inputs of \[2\] float32"):
        comity.from_datasets([points(1)], network=lambda: nn.Linear(5, 2))
    with pytest.raises(UserError, match="network returned a int"):
        comity.from_datasets([points(1)], network=lambda: 5)


def people(seed: int, count: int = 60) -> Rows:
    draw = np.random.default_rng(seed)
    sex = draw.choice(["f", "m"], count)
    pay = draw.normal(size=count) + (sex == "m")
    return Rows(
        pay=pay.tolist(),
        age=draw.integers(20, 60, count).tolist(),
        sex=sex.tolist(),
        hired=(pay > 0.5).astype(int).tolist(),
    )


def test_an_attribute_makes_fairness_an_objective(tmp_path):
    problem = comity.from_datasets(
        [people(1), people(2)],
        inputs=["pay", "age"],
        label="hired",
        attribute="sex",
        metrics=["dp", "eo"],
    )
    assert [o.name for o in problem.objectives] == ["accuracy", "fairness-dp", "fairness-eo"]
    batch = {
        "label": torch.tensor([1, 0, 1, 0]),
        "group:sex": torch.tensor([0, 0, 1, 1]),
        "weight": torch.ones(4),
    }
    outputs = torch.tensor([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    # yes to both women and one of two men; among those hired, to all
    assert problem.scores(outputs, batch).tolist() == [0.75, 0.5, 1.0]
    even = torch.zeros(4, 2)
    assert problem.losses(even, batch).tolist() == pytest.approx(
        [math.log(2), 0.1 * math.log(2), 0.1 * math.log(2)]
    )
    run = comity.run(problem, out=tmp_path / "run", **SHORT)
    assert run.groups["clients"][0]["attributes"]["sex"]["values"].keys() == {"f", "m"}
    new = {"pay": [-3.0, 3.0], "age": [30, 30]}
    assert len(comity.predict(run, new, client=0)) == 2
    with pytest.raises(UserError, match="row 3, column 'pay' must be a number, got 'much'"):
        comity.predict(run, {"pay": [1, "much"], "age": [30, 30]}, client=0)


def test_a_run_is_gone_on_with_only_on_the_same_data(tmp_path, registry):
    def stop(event):
        raise KeyboardInterrupt

    def given(seed):
        return comity.from_datasets([points(1), points(seed)], name="plane")

    problem = given(2)
    whole = comity.run(problem, out=tmp_path / "whole", **SHORT)
    with pytest.raises(KeyboardInterrupt):
        comity.run(problem, out=tmp_path / "run", on_round=stop, **SHORT)
    del registry[problem.name]
    given(3)  # other data have another fingerprint
    with pytest.raises(UserError, match=r"plane@\w+' is of datasets that have not been given"):
        comity.resume(tmp_path / "run")
    given(2)
    resumed = comity.resume(tmp_path / "run")
    assert resumed.results == whole.results
    assert comity.open(tmp_path / "run").model(0)(torch.zeros(1, 2)).shape == (1, 2)


def test_what_cannot_work_is_refused():
    with pytest.raises(UserError, match="one dataset per client"):
        comity.from_datasets([])
    with pytest.raises(UserError, match="all labels are 0"):
        comity.from_datasets([[([1.0], 0)]])
    with pytest.raises(UserError, match="no item has the label 1, but one of client 0 has 2"):
        comity.from_datasets([[([1.0], 0), ([1.0], 2)]])
    with pytest.raises(UserError, match="needs labels of 0 and 1"):
        comity.from_datasets([[([1.0], n, n % 2) for n in range(3)]], attribute="sex")
    with pytest.raises(UserError, match="unknown metric 'dq'"):
        comity.from_datasets([[([1.0], n, n) for n in range(2)]], attribute="sex", metrics=["dq"])
    with pytest.raises(UserError, match="must be of letters, digits"):
        comity.from_datasets([points(1)], name="a/b")
    with pytest.raises(UserError, match="unknown problem"):
        find("plane")
