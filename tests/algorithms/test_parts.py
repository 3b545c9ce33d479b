"""What personalised algorithms share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import comity.report
from comity.algorithms import make
from comity.algorithms.parts import Split, frozen, mmd, split
from comity.configuration import configure
from comity.core.storage import add_prefix, strip_prefix
from comity.datasets.partition import ClientRows
from comity.errors import UserError
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import RoundLoop
from comity.federation.server import Server
from comity.problems import register
from comity.runs.directory import Run
from comity.runs.execute import execute
from tests.tiny import ANSWERS, tiny

PERSONAL = ["apfl", "ditto", "fedala", "fedamp", "fedfomo"]
HEADED = ["fedbabu", "fedcp", "fedpac", "fedphp", "fedrep", "fedrod"]
SENTENCE = r"problem tiny-answers: its network has no head of its own\. It must have parts named"


class Named(nn.Module):
    """A network with parts of these names, which its forward does not use one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 2)
        self.body = nn.Linear(4, 3)

    def forward(self, inputs):
        return self.head(self.body(inputs))


class Longer(Named):
    """One that does more than its parts."""

    def forward(self, inputs):
        return super().forward(inputs).softmax(dim=-1)


class Nameless(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))

    def forward(self, inputs):
        return self.layers(inputs)


def _with_statistics(samples):
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 2))


# -- body and head -------------------------------------------------------------------------


def test_a_chain_is_cut_before_its_last_layer():
    chain = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    body, head = split(chain, ANSWERS)
    assert head is chain[2]
    assert [type(layer) for layer in body] == [nn.Linear, nn.ReLU]
    whole, inputs = Split(body, head), torch.randn(5, 4)
    torch.testing.assert_close(whole(inputs), chain(inputs))
    torch.testing.assert_close(whole.features(inputs), chain[:2](inputs))
    names = {name.partition(".")[0] for name, _ in whole.named_parameters()}
    assert names == {"body", "head"}


def test_parts_of_these_names_are_taken_as_they_are():
    network = Named()
    assert split(network, ANSWERS) == (network.body, network.head)


@pytest.mark.parametrize("algorithm", HEADED)
@pytest.mark.parametrize(
    "network",
    [
        lambda samples: nn.Linear(4, 2),
        lambda samples: nn.Sequential(nn.Linear(4, 2)),
        lambda samples: nn.Sequential(nn.Linear(4, 2), nn.Softmax(dim=-1)),
        lambda samples: Nameless(),
    ],
    ids=["one-layer", "chain-of-one", "no-linear-end", "nameless"],
)
def test_a_network_without_a_head_of_its_own_is_refused(algorithm, network):
    problem = replace(ANSWERS, network=network)
    with pytest.raises(UserError, match=SENTENCE):
        make(algorithm, {}).build(problem.model(), problem)


@pytest.mark.parametrize("algorithm", ["apfl", "ditto", "fedala", "fedamp", "fedfomo"])
def test_others_take_any_network(algorithm):
    problem = replace(ANSWERS, network=lambda samples: Nameless()).partitioned(
        3, 1, "stratified", "equal"
    )
    module = make(algorithm, {}).build(problem.model(), problem).eval()
    assert module(torch.randn(5, 4)).shape == (5, 2)


@pytest.mark.parametrize("algorithm", HEADED)
def test_a_network_with_named_parts_serves_everybody_who_needs_a_head(algorithm):
    problem = replace(ANSWERS, network=lambda samples: Named())
    module = make(algorithm, {}).build(problem.model(), problem).eval()
    assert module(torch.randn(5, 4)).shape == (5, 2)


@pytest.mark.parametrize("algorithm", HEADED)
def test_a_network_that_does_more_than_its_parts_is_refused(algorithm):
    problem = replace(ANSWERS, network=lambda samples: Longer()).partitioned(
        3, 1, "stratified", "equal"
    )
    with pytest.raises(UserError, match=r"its network is not head\(body\(inputs\)\)\. Put every"):
        make(algorithm, {}).build(problem.model(), problem)


@pytest.mark.parametrize("algorithm", HEADED + PERSONAL)
def test_statistics_of_batches_are_no_obstacle(algorithm):
    """They travel with the tensors beside them, so clients that share these share them, too."""
    problem = register(replace(ANSWERS, name="tiny-statistics", network=_with_statistics))
    settings = {"problem": problem.name, "algorithm": algorithm, "clients": 3, "rounds": 2}
    configuration = configure(settings)
    loop = RoundLoop(EmbeddedEngine(configuration), Server(configuration))
    list(loop.rounds())
    loop.finish()
    models = loop.engine.models(kept=False)
    assert models.finite().all()
    own = algorithm in ("fedala", "fedamp", "fedfomo", "fedbabu")  # the last one tunes in the end
    name = next(name for name in models if name.endswith("running_mean"))
    assert bool((models[name] == models[name][0]).all()) != own


@pytest.mark.parametrize("algorithm", ["fedrod", "fedpac"])
def test_labels_must_be_classes_for_those_who_count_them(algorithm):
    with pytest.raises(UserError, match=rf"{algorithm} needs labels that are classes.*tiny-people"):
        tiny(problem="tiny-people", algorithm=algorithm)
    assert tiny(problem="tiny-answers", algorithm=algorithm).algorithm == algorithm


# -- copies and names ----------------------------------------------------------------------


def test_a_frozen_copy_is_equal_apart_and_never_trained():
    module = nn.Linear(2, 2)
    copy = frozen(module)
    assert not any(p.requires_grad for p in copy.parameters())
    assert all(p.requires_grad for p in module.parameters())
    with torch.no_grad():
        module.weight += 1
    torch.testing.assert_close(copy.weight, module.weight - 1)


def test_names_under_a_prefix_and_back():
    a, b = torch.zeros(1), torch.ones(1)
    held = {"body.a": a, "head.body.a": b}
    assert strip_prefix(held, "body.") == {"a": a}
    assert add_prefix({"a": a}, "history.") == {"history.a": a}


# -- maximum mean discrepancy --------------------------------------------------------------


def test_the_discrepancy_of_two_small_batches():
    x, y = torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([[0.0, 0.0], [0.0, 2.0]])
    torch.testing.assert_close(mmd(x, y), torch.tensor(0.270496), rtol=0, atol=1e-5)


def test_the_discrepancy_is_zero_for_equal_batches_and_does_not_know_their_order():
    g = torch.Generator().manual_seed(1)
    x, y = torch.randn(2, 6, 3, generator=g)
    torch.testing.assert_close(mmd(x, x), torch.tensor(0.0), rtol=0, atol=1e-6)
    torch.testing.assert_close(mmd(x, y), mmd(y.flip(0), x))
    assert mmd(x, y) > 1e-3


# -- clients with little -------------------------------------------------------------------


def _odd(samples, spec) -> list[ClientRows]:
    """Only noes, only yeses, five samples for training, and all that is left."""
    label = samples.columns["label"].numpy()
    no, yes = np.flatnonzero(label == 0), np.flatnonzero(label == 1)
    mixed = np.sort(np.concatenate([no[40:], yes[40:]]))
    mine = [no[:40], yes[:40], mixed[:15], mixed[15:]]
    return [
        ClientRows(rows[: (cut := len(rows) - 10)], rows[cut : cut + 5], rows[cut + 5 :])
        for rows in mine
    ]


ODD = register(replace(ANSWERS, name="tiny-odd", partition=_odd))


WRAPPERS = ["none", "confree"]


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize(
    "algorithm", [*HEADED, "apfl", "ditto", "fedala", "fedamp", "fedfomo", "fedavg"]
)
def test_clients_without_a_class_or_a_whole_batch_take_part(
    algorithm, wrapper, monkeypatch, tmp_path
):
    """Who has only one class is served by what is its own; what is not finite would be told."""
    if wrapper == "confree" and algorithm in ("fedamp", "fedfomo"):
        return
    monkeypatch.setattr(comity.report, "write_report", lambda run, kind: None)
    configuration = tiny(
        problem="tiny-odd",
        size_cap=0,
        algorithm=algorithm,
        wrapper=wrapper,
        preferences="same:1,0",
        supervised={"learning_rate": 0.05, "local_steps": 6},
        rounds=4,
    )
    problem = configuration.get_problem()
    shares, labels = problem.client_rows(), problem.columns()["label"]
    assert not labels[shares[0].train].any()
    assert labels[shares[1].train].all()
    assert len(shares[2].train) < configuration.learner_settings["batch_size"]
    run = execute(Run.create(tmp_path / "run", configuration))
    assert not [event for entry in run.history for event in entry["events"]]
    assert np.isfinite(run.vectors).all()
    assert (run.vectors[:2, 0] == 1.0).all()
    for client in range(4):
        assert all(torch.isfinite(t).all() for t in run.model(client).state_dict().values())
