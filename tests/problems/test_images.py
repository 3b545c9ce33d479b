from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import vmap

from comity.core.fleet import Fleet
from comity.core.phases import ClientModel, Phase
from comity.core.running import forward
from comity.datasets import images
from comity.datasets.album import Album
from comity.errors import UserError
from comity.learners import LearnerContext, Task
from comity.learners.supervised.learner import Supervised
from comity.learners.supervised.settings import SupervisedSettings
from comity.problems import find, problems
from comity.problems.images import (
    DOMAINS,
    blended,
    classes,
    digits_domains,
    enlarged,
    image_problem,
)
from comity.problems.networks import BodyAndHead, Pixels, batch_norm_cnn, cnn, mlp

NAMES = [
    *("mnist", "usps", "fashion-mnist", "cifar10", "cifar10-small", "digits-domains"),
    *("cifar100", "omniglot", "flowers102"),
]


def few():
    """Sixty pictures of three classes from two places, of one brightness each."""
    values = np.arange(60, dtype=np.uint8)
    pixels = np.ascontiguousarray(np.broadcast_to(values[:, None, None, None], (60, 1, 16, 16)))
    labels = (values % 3).astype(np.int64)
    return Album(pixels, labels, (values % 2).astype(np.int64), ("left", "right"), ("few",))


FEW = image_problem("few", "few", few)


# -- samples -------------------------------------------------------------------------------


def test_pictures_stay_bytes():
    samples = FEW.samples()
    assert samples.columns["inputs"].dtype == torch.uint8
    assert samples.columns["label"].dtype == torch.int64
    assert samples.strata.tolist() == samples.columns["label"].tolist()
    assert (samples.needed, samples.silo_names, samples.notes) == ({}, ("left", "right"), ("few",))
    assert classes(samples) == 3


def test_some_pictures_of_each_class_are_always_the_same():
    more, less = (image_problem("few", "few", few, each=each).samples() for each in (7, 4))
    assert np.bincount(less.strata).tolist() == [4, 4, 4]
    rows = {
        each: set(samples.columns["inputs"][:, 0, 0, 0].tolist())
        for each, samples in ((7, more), (4, less))
    }
    assert rows[4] < rows[7]
    values = less.columns["inputs"][:, 0, 0, 0].long()
    assert (values % 3 == less.columns["label"]).all()
    assert (values % 2 == torch.from_numpy(less.silos)).all()
    assert less.notes == ("few", "4 pictures of each class, drawn at random")


@pytest.mark.parametrize("each", [0, 21])
def test_more_pictures_than_there_are_are_refused(each):
    with pytest.raises(UserError, match=f"each = {each}: must be from 1 to 20"):
        image_problem("few", "few", few, each=each).samples()


def test_nothing_is_read_before_it_is_needed():
    def source():
        raise AssertionError("read")

    problem = image_problem("lazy", "lazy", source).partitioned(2, 1, "stratified", "equal")
    with pytest.raises(AssertionError, match="read"):
        problem.client_rows()


def test_classes_are_dealt_out_as_in_the_literature():
    strata = FEW.samples().strata
    held = [
        set(strata[share.train].tolist())
        for share in FEW.partitioned(3, 1, "pathological:1", "equal").client_rows()
    ]
    assert held == [{0}, {1}, {2}]
    with pytest.raises(UserError, match=r"'dirichlet:0\.001': in 1,000 attempts"):
        FEW.partitioned(10, 1, "dirichlet:0.001", "equal").client_rows()
    assert len(FEW.partitioned(2, 1, "natural", "equal").client_rows()) == 2


# -- domains -------------------------------------------------------------------------------


def test_three_domains_of_digits():
    album = digits_domains()
    assert (album.pixels.shape, album.pixels.dtype) == ((23245, 3, 28, 28), np.uint8)
    assert np.bincount(album.silos).tolist() == [9298, 9298, 4649]
    assert album.silo_names == tuple(DOMAINS) == ("MNIST", "USPS", "blended")
    plain = album.pixels[album.silos < 2]
    assert (plain[:, 0] == plain[:, 2]).all()
    assert (album.labels[9298:18596] == images.usps().labels).all()
    coloured = album.pixels[album.silos == 2]
    assert (coloured[:, 0] != coloured[:, 2]).mean() > 0.5


def test_blending_is_the_absolute_difference():
    digits = np.zeros((2, 1, 3, 3), dtype=np.uint8)
    digits[:, :, 1] = 200
    photos = np.broadcast_to(np.array([10, 220, 90], dtype=np.uint8)[:, None, None], (4, 3, 5, 4))
    found = blended(digits, photos)
    assert found.shape == (2, 3, 3, 3)
    assert found[0, :, :, 0].tolist() == [[10, 190, 10], [220, 20, 220], [90, 110, 90]]
    # a piece is one of a photograph, in its place
    photos = np.arange(20, dtype=np.uint8).reshape(1, 1, 4, 5).repeat(3, axis=1)
    piece = blended(np.zeros((1, 1, 2, 2), dtype=np.uint8), photos)[0, 0]
    assert (piece - piece[0, 0]).tolist() == [[0, 1], [5, 6]]


def test_enlarging_is_bilinear():
    pixels = np.random.default_rng(1).integers(256, size=(3, 1, 16, 16), dtype=np.uint8)
    expected = torch.nn.functional.interpolate(
        torch.from_numpy(pixels).double(), size=(28, 28), mode="bilinear"
    )
    assert np.abs(enlarged(pixels) - expected.numpy()).max() <= 0.5 + 1e-9


@pytest.mark.parametrize(("clients", "expected"), [(20, [8, 8, 4]), (5, [2, 2, 1]), (3, [1, 1, 1])])
def test_domains_have_their_share_of_the_clients(clients, expected):
    problem = find("digits-domains").partitioned(clients, 1, "natural", "equal")
    silos = problem.samples().silos
    domains = [np.unique(silos[share.train]).tolist() for share in problem.client_rows()]
    assert domains == [[domain] for domain, count in enumerate(expected) for _ in range(count)]
    if clients == 20:
        sizes = [len(share.train) + len(share.validation) for share in problem.client_rows()]
        assert max(sizes) - min(sizes) <= 2
        strata = problem.samples().strata
        assert all(len(np.unique(strata[share.test])) == 10 for share in problem.client_rows())


def test_domains_that_cannot_be_met():
    problem = find("digits-domains")
    with pytest.raises(UserError, match=r"3 domains \(MNIST, USPS, blended\), so say clients = 3"):
        problem.partitioned(2, 1, "natural", "equal").client_rows()
    with pytest.raises(UserError, match="does not go with partition 'natural'"):
        problem.partitioned(3, 1, "natural", "3,2,1").client_rows()
    assert len(problem.partitioned(2, 1, "pathological:5", "equal").client_rows()) == 2


# -- networks ------------------------------------------------------------------------------


def parameters(module):
    return sum(tensor.numel() for tensor in module.parameters())


def test_the_network_of_the_papers():
    assert parameters(cnn(3, 32, 32, 10)) == 878538
    assert parameters(cnn(3, 32, 32, 100)) == 924708
    assert parameters(cnn(1, 28, 28, 10)) == 582026
    body = cnn(3, 32, 32, 10).body
    convolutions = [layer for layer in body if isinstance(layer, torch.nn.Conv2d)]
    assert sum(parameters(layer) for layer in convolutions) == 53696
    wide = {(1, 28): 1024, (3, 32): 1600, (3, 64): 10816, (1, 105): 33856}
    for (channels, side), features in wide.items():
        with torch.device("meta"):
            assert cnn(channels, side, side, 10).body[-2].in_features == features


@pytest.mark.parametrize("kind", [cnn, batch_norm_cnn, mlp])
def test_networks_have_a_body_and_a_head(kind):
    network = kind(3, 20, 16, 7).eval()
    assert isinstance(network, BodyAndHead)
    assert isinstance(network.body[0], Pixels)
    assert {name.partition(".")[0] for name in network.state_dict()} == {"body", "head"}
    inputs = torch.randint(256, (4, 3, 20, 16), dtype=torch.uint8)
    torch.testing.assert_close(network(inputs), network.head(network.body(inputs)))
    assert network(inputs).shape == (4, 7)
    two = torch.tensor([0, 255], dtype=torch.uint8).reshape(1, 1, 1, 2)
    assert network.body[0](two).flatten().tolist() == [-1, 1]


def test_batches_are_normalised_before_each_relu():
    body = batch_norm_cnn(3, 20, 16, 7).body
    kinds = [type(layer) for layer in body]
    assert kinds == [
        Pixels,
        *(nn.Conv2d, nn.BatchNorm2d, nn.ReLU, nn.MaxPool2d) * 2,
        *(nn.Flatten, nn.Linear, nn.BatchNorm1d, nn.ReLU),
    ]
    assert [body[2].num_features, body[6].num_features, body[-2].num_features] == [32, 64, 512]


def test_pictures_too_small_for_the_convolutions():
    with pytest.raises(UserError, match=r"15 x 20 pixels are too small .* 16 x 16; use .*-mlp"):
        cnn(1, 15, 20, 10)


@pytest.mark.parametrize("kind", [cnn, batch_norm_cnn, mlp])
def test_a_fleet_of_networks_answers_as_each_does(kind):
    modules = [kind(1, 16, 16, 3).eval(), kind(1, 16, 16, 3).eval()]
    fleet = Fleet.cat([Fleet.of(module, 1) for module in modules])
    inputs = torch.randint(256, (2, 4, 1, 16, 16), dtype=torch.uint8)
    outputs = forward(modules[0])(fleet.tensors, inputs)
    for row, module in enumerate(modules):
        torch.testing.assert_close(outputs[row], module(inputs[row]))
    batch = {"label": torch.tensor([[0, 1, 2, 0]] * 2), "weight": torch.ones(2, 4)}
    assert vmap(FEW.losses)(outputs, batch).shape == (2, 1)


# -- learning and judging ------------------------------------------------------------------


def test_loss_and_score_are_weighted_means():
    outputs = torch.zeros(3, 10)
    outputs[0, 4] = outputs[1, 4] = 2.0
    batch = {"label": torch.tensor([4, 5, 0]), "weight": torch.tensor([1.0, 1.0, 0.0])}
    expected = np.log(np.exp(2) + 9) - 1  # the mean of a hit and a miss
    assert FEW.losses(outputs, batch).tolist() == pytest.approx([expected], rel=1e-5)
    assert FEW.scores(outputs, batch).tolist() == [0.5]
    assert FEW.scores(outputs, {**batch, "weight": torch.ones(3)}).tolist() == pytest.approx(
        [2 / 3]
    )


def test_the_constant_answer_is_a_clients_commonest_class():
    problem = FEW.partitioned(3, 1, "pathological:1", "equal")
    assert problem.constant({"label": torch.tensor([2, 1, 2])}).tolist() == [0, 1, 2]
    assert problem.trivial([0, 1, 2], 1, 1).tolist() == [[1.0]] * 3


def test_clients_with_few_pictures_or_classes_learn():
    problem = image_problem("bright", "bright", few, network=mlp)
    problem = problem.partitioned(2, 1, "pathological:2", "8,1")
    assert len(problem.client_rows()[1].train) < problem.defaults["batch_size"]
    fleet = Fleet.of(problem.model(), 2)
    settings = SupervisedSettings(**problem.defaults, compile="no")
    model, ones = ClientModel(problem.model()), np.ones((2, 1))
    learner = Supervised(LearnerContext(problem, settings, (0, 1), ones, 1, fleet, model))
    rows = np.arange(2)
    before = learner.survey(fleet, rows, ["losses"], 1, None)[0]["losses"]
    learner.train(fleet, rows, Task(1, [Phase()], fleet.clone(), learner.round_steps * 5, {}))
    after = learner.survey(fleet, rows, ["losses"], 1, None)[0]["losses"]
    assert (after < before).all()
    assert learner.evaluate(fleet, rows, "test", 1)[0].shape == (2, 1)


@pytest.mark.parametrize(("kind", "remarks"), [(cnn, 1), (mlp, 0)])
def test_networks_that_convolve_are_trained_one_by_one_and_it_is_said(kind, remarks):
    problem = image_problem("bright", "bright", few, network=kind).partitioned(
        2, 1, "stratified", "equal"
    )
    settings = SupervisedSettings(**problem.defaults, compile="no")
    fleet, ones = Fleet.of(problem.model(), 2), np.ones((2, 1))
    model = ClientModel(problem.model())
    learner = Supervised(LearnerContext(problem, settings, (0, 1), ones, 1, fleet, model))
    said = [remark for remark in learner.remarks if "convolves; clients are trained" in remark]
    assert len(said) == remarks
    cohorts = list(learner._cohorts(np.arange(2), np.array([3, 3])))
    assert len(cohorts) == 1 + remarks


def test_every_problem_is_registered_three_times():
    known = problems()
    for name in NAMES:
        for problem in (known[name], known[f"{name}-bn"], known[f"{name}-mlp"]):
            assert [objective.name for objective in problem.objectives] == ["accuracy"]
            assert problem.reference_point == (0.0,)
            assert problem.defaults["optimiser"] == "sgd"
            assert problem.run_defaults["clients"] == 20
    assert known["omniglot"].run_defaults["partition"] == "natural"
    assert known["cifar10"].run_defaults["partition"] == "stratified"


def test_usps_has_a_network_for_its_size():
    assert isinstance(find("usps").model(), BodyAndHead)
    assert find("usps-mlp").model().body[2].in_features == 256
