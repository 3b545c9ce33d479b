"""NNEF: every network of ours as its independent readers understand it."""

from __future__ import annotations

import hashlib
import io
from dataclasses import replace
from functools import cache

import nnef
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import tests.tiny  # noqa: F401  (which makes its problems known)
from comity.algorithms.registry import algorithms
from comity.configuration import configure
from comity.core.nnef import structure_hash, structure_of, tensor_bytes
from comity.datasets.album import Album
from comity.errors import UserError
from comity.problems import (
    DataProblem,
    fairness,
    images,
    landsat,
    morl,
    multitask,
    praffl,
)
from comity.problems.images import ImageProblem
from comity.problems.multitask import TwoTasksProblem
from comity.problems.registry import problems
from tests.nnef_referees import assert_same_everywhere


def written(directory, model, example):
    """The directory that a device gets."""
    structure = structure_of(model, example)
    directory.mkdir(exist_ok=True)
    (directory / "graph.nnef").write_text(structure.text)
    for label, array in structure.tensors.items():
        (directory / f"{label}.dat").write_bytes(tensor_bytes(array))
    return directory


def moved(model):
    """The model with every parameter away from its special first value, such as zero."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.rand(parameter.shape, generator=generator)
    return model.eval()


def sample(shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(4)
    if dtype == torch.uint8:
        return torch.randint(0, 256, (1, *shape), generator=generator, dtype=dtype)
    return torch.randn((1, *shape), generator=generator)


# -- networks of problems ------------------------------------------------------------------

PICTURES = {
    "usps": (1, 16, 10), "cifar100": (3, 32, 100), "cifar10": (3, 32, 10), "omniglot": (1, 28, 50),
    "flowers102": (3, 32, 102), "digits-domains": (3, 28, 10), "mnist": (1, 28, 10),
    "fashion-mnist": (1, 28, 10), "multi-mnist": (1, 28, 10), "multi-fashion": (1, 28, 10),
}  # fmt: skip
"""Channels, side and classes, for networks without anybody's pictures."""


@cache
def album(name):
    channels, side, classes = PICTURES[name]
    labels = np.arange(2 * classes) % classes
    return Album(np.zeros((len(labels), channels, side, side), dtype=np.uint8), labels)


def without_download(problem):
    """The problem with pictures of the right shape, all black."""
    name = next((n for n in PICTURES if problem.name.startswith(n)), None)
    if isinstance(problem, TwoTasksProblem):
        return replace(problem, source=lambda: album(name), count=2)
    if isinstance(problem, ImageProblem):
        return replace(problem, source=lambda: album(name), each=None)
    return problem


def shape_of(problem):
    if isinstance(problem, DataProblem):
        inputs = problem.columns()["inputs"]
        return tuple(inputs.shape[1:]), inputs.dtype
    size = int(np.prod(problem.environment().observation_space.shape))
    return (size,), torch.float32


@pytest.mark.parametrize("sizes", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_network_of_every_problem_is_what_torch_computes(sizes, tmp_path):
    """Every sequence of layers; in the slow tier, with each of its sizes."""
    done = set()
    families = (fairness, images, landsat, morl, multitask, praffl)
    shipped = [problem for family in families for problem in family.PROBLEMS]
    assert len(shipped) > 40
    for registered in shipped:  # not what other tests have registered
        problem = without_download(registered)
        model, (shape, dtype) = problem.model(), shape_of(problem)
        layers = tuple(type(layer).__name__ for layer in model.modules())
        kind = (str(model), shape, dtype) if sizes else (layers, len(shape), dtype)
        if kind in done:  # many problems differ in their objectives only
            continue
        done.add(kind)
        inputs = sample(shape, dtype)
        directory = written(tmp_path / problem.name, moved(model), inputs)
        assert_same_everywhere(directory, model, inputs)
    assert len(done) > (20 if sizes else 5)


# -- models of algorithms ------------------------------------------------------------------


@pytest.mark.parametrize("problem", ["tiny-people", "tiny-answers"])
def test_every_algorithm_s_model_is_what_torch_computes(problem, tmp_path):
    kinds = set()
    for name in algorithms():
        try:
            run = configure({"problem": problem, "algorithm": name, "clients": 3, "rounds": 1})
        except UserError:  # it needs another kind of problem
            continue
        preference = run.get_preferences()[0]
        model = run.get_algorithm().predictor(moved(run.get_module()), preference).eval()
        if str(model) in kinds:
            continue
        kinds.add(str(model))
        inputs = sample(*shape_of(run.get_problem()))
        directory = written(tmp_path / name, model, inputs)
        assert_same_everywhere(directory, model, inputs)
    assert len(kinds) > 6


def test_the_personal_mixture_of_convolutions(tmp_path):
    problem = without_download(problems()["usps"])
    model = moved(algorithms()["apfl"]().build(problem.model(), problem))
    inputs = sample((1, 16, 16), torch.uint8)
    assert_same_everywhere(written(tmp_path / "apfl", model, inputs), model, inputs)


def test_the_body_that_praffl_sends(tmp_path):
    run = configure({"problem": "tiny-people", "algorithm": "praffl", "clients": 3})
    body = moved(run.get_module()).body
    inputs = sample(*shape_of(run.get_problem()))
    directory = written(tmp_path / "body", body, inputs)
    assert_same_everywhere(directory, body, inputs)
    assert {path.stem for path in directory.glob("*.dat")} == set(body.state_dict())


# -- layers that users bring ---------------------------------------------------------------


class Attention(nn.Module):
    """Vectors, several axes, reductions and a tensor that is no parameter."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(6, 4, bias=False)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.shift = torch.linspace(0, 1, 4)

    def forward(self, inputs):
        steps = self.inner(inputs.unflatten(1, (3, 6))) * self.scale + self.shift
        weights = torch.softmax(steps @ steps.transpose(1, 2), dim=-1)
        pooled = (weights @ steps).sum(dim=1) - steps.mean(dim=(1, 2)).unsqueeze(1)
        return torch.cat([pooled.clamp(-0.5, 0.5), torch.stack([-pooled, pooled], 1).mean(1)], 1)


OTHERS = {
    "batch norm": ([nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.SiLU()], (3, 9, 9)),
    "groups": ([nn.Conv2d(4, 6, 3, groups=2, dilation=2, bias=False), nn.Sigmoid()], (4, 12, 11)),
    "pool": ([nn.MaxPool2d((3, 2), 2, 1)], (2, 7, 8)),
    "one axis": ([nn.Conv1d(2, 3, 4, padding=2), nn.Tanh(), nn.Flatten()], (2, 7)),
    "dropout": ([nn.Linear(5, 5), nn.Dropout(0.9), nn.LayerNorm(5)], (5,)),
    "axes": ([Attention()], (18,)),
    "nothing": ([nn.Identity()], (3,)),
}


@pytest.mark.parametrize(("layers", "shape"), OTHERS.values(), ids=OTHERS)
def test_other_layers_are_what_torch_computes(layers, shape, tmp_path):
    model, inputs = nn.Sequential(*layers), sample(shape)
    with torch.no_grad():
        model.train()(torch.randn(8, *shape))  # running statistics that matter
    directory = written(tmp_path / "model", moved(model), inputs)
    assert_same_everywhere(directory, model, inputs)


# -- what the text says --------------------------------------------------------------------


def test_a_small_network_by_hand():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1, bias=False))
    structure = structure_of(model, torch.zeros(5, 2))
    assert structure.text == (
        "version 1.0;\n\n"
        "graph network(inputs) -> (outputs)\n"
        "{\n"
        "    inputs = external<scalar>(shape = [1, 2]);\n"
        "    t_0_weight = variable<scalar>(shape = [3, 2], label = '0.weight');\n"
        "    t_0_bias = variable<scalar>(shape = [1, 3], label = '0.bias');\n"
        "    t_2_weight = variable<scalar>(shape = [1, 3], label = '2.weight');\n"
        "    v1 = linear(inputs, t_0_weight, t_0_bias);\n"
        "    v2 = relu(v1);\n"
        "    outputs = matmul(v2, t_2_weight, transposeB = true);\n"
        "}\n"
    )
    assert list(structure.tensors) == ["0.weight", "0.bias", "2.weight"]
    np.testing.assert_array_equal(structure.tensors["0.bias"], model[0].bias.detach()[None])


def test_the_hash_is_of_the_structure_alone():
    first, second = (nn.Sequential(nn.Linear(2, 3), nn.ReLU()) for _ in range(2))
    example = torch.zeros(1, 2)
    assert structure_hash(first, example) == structure_hash(second, torch.ones(4, 2))
    text = structure_of(first, example).text
    assert structure_hash(first, example) == hashlib.sha256(text.encode()).hexdigest()
    wider = nn.Sequential(nn.Linear(2, 4), nn.ReLU())
    assert structure_hash(first, example) != structure_hash(wider, example)
    other = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    assert structure_hash(first, example) != structure_hash(other, example)


def test_bytes_lose_their_cast_and_keep_their_scaling():
    model = problems()["usps-mlp"].architecture(1, 16, 16, 10)
    text = structure_of(model, torch.zeros(1, 1, 16, 16, dtype=torch.uint8)).text
    assert "div(inputs, 127.5)" in text
    assert "cast" not in text


def test_the_model_stays_as_it_is():
    model = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 1)).train()
    model[3].requires_grad_(False)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    random = torch.get_rng_state()
    structure = structure_of(model, torch.zeros(2, 2))
    assert model.training
    assert torch.equal(random, torch.get_rng_state())
    assert [p.requires_grad for p in model.parameters()] == [True] * 4 + [False] * 2
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    structure.tensors["0.weight"][:] = 7.0
    assert torch.equal(model[0].weight, before["0.weight"])


# -- refusals ------------------------------------------------------------------------------


class Calls(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, inputs):
        return self.function(inputs)


REFUSED = {
    "cumsum": (lambda x: torch.cumsum(x, 1), r"operator cumsum, .*\.onnx"),
    "rounding": (lambda x: torch.div(x, 2, rounding_mode="floor"), r"operator div with rounding"),
    "alpha": (lambda x: torch.add(x, x, alpha=2), r"operator add with alpha"),
    "whole": (lambda x: (x > 0).long() + 1, r"operator to with torch.int64"),
    "double": (lambda x: x.double() * 2, r"operator to with torch.float64"),
    "vector": (lambda x: x @ x.mean(0), r"matmul with a vector"),
    "ceil": (
        lambda x: nn.functional.max_pool2d(x[:, None, :, None], (2, 1), ceil_mode=True),
        r"operator",
    ),
    "no weights": (nn.BatchNorm1d(3, affine=False), r"batch_norm without weights"),
    "two": (lambda x: (x, x + 1), r"2 outputs"),
    "data": (lambda x: x if x.sum() > 0 else -x, r"torch\.export"),
}


@pytest.mark.parametrize(("function", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_written_is_named(function, words):
    with pytest.raises(UserError, match=words):
        structure_of(Calls(function), torch.zeros(1, 3))


def test_bytes_are_not_added_like_numbers():
    with pytest.raises(UserError, match=r"operator add of torch\.uint8"):
        structure_of(Calls(lambda x: (x + x).float()), torch.zeros(1, 3, dtype=torch.uint8))


# -- tensor files --------------------------------------------------------------------------


@given(st.lists(st.integers(1, 4), min_size=1, max_size=8), st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_tensor_files_are_those_of_khronos(shape, seed):
    array = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    theirs = io.BytesIO()
    theirs.seekable = lambda: False
    nnef.write_tensor(theirs, array)
    assert tensor_bytes(array) == theirs.getvalue()


def test_a_tensor_file_by_hand():
    content = tensor_bytes(np.array([[1.0, -2.0]], dtype=np.float32))
    assert content[:4] == b"\x4e\xef\x01\x00"
    assert len(content) == 128 + 8
    assert list(np.frombuffer(content[4:12], "<u4")) == [8, 2]  # bytes, axes
    assert list(np.frombuffer(content[12:44], "<u4")) == [1, 2, 0, 0, 0, 0, 0, 0]
    assert list(np.frombuffer(content[44:52], "<u4")) == [32, 0]  # bits, float
    assert not any(content[52:128])
    assert list(np.frombuffer(content[128:], "<f4")) == [1.0, -2.0]
