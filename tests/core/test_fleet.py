from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from comity.core import fleet as fleets
from comity.core.fleet import Fleet
from comity.core.running import forward, one_by_one


def random_fleet(n: int, seed: int = 0) -> Fleet:
    g = torch.Generator().manual_seed(seed)
    return Fleet({"a": torch.randn(n, 7, 3, generator=g), "b": torch.randn(n, 5, generator=g)})


def test_rows_are_copies_of_the_module_and_go_back_into_one():
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    fleet = Fleet.of(module, 3)
    fleet["2.bias"][1] += 1.0
    other = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    x = torch.randn(6, 3)
    torch.testing.assert_close(fleet.module(1, other)(x), module(x) + 1.0)


class Gated(nn.Module):
    """Not a plain chain, so it has to be mapped."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(3, 2), nn.Linear(3, 2)

    def forward(self, x):
        return self.left(x) * torch.sigmoid(self.right(x))


@pytest.mark.parametrize(
    "module",
    [nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)), Gated()],
    ids=["stacked", "mapped"],
)
def test_all_models_at_once_give_what_each_gives_alone(module):
    fleet = Fleet.of(module, 4)
    for tensor in fleet.tensors.values():
        tensor += 0.1 * torch.randn_like(tensor)
    x = torch.randn(4, 5, 3)
    tensors = {k: t.requires_grad_() for k, t in fleet.tensors.items()}
    together = forward(module)(tensors, x)
    grads = torch.autograd.grad(together.square().sum(), list(tensors.values()))
    for i in range(4):
        single = Fleet({k: t[i : i + 1].detach() for k, t in tensors.items()}).module(0, module)
        alone = single(x[i])
        torch.testing.assert_close(together[i], alone)
        own = torch.autograd.grad(alone.square().sum(), list(single.parameters()))
        for stacked, one in zip(grads, own, strict=True):
            torch.testing.assert_close(stacked[i], one)


@given(st.integers(0, 1000))
def test_mixing_is_a_matrix_product(seed):
    fleet = random_fleet(4, seed)
    weights = np.random.default_rng(seed).dirichlet(np.ones(4), size=3)
    mixed = fleet.mix(weights)
    for name in fleet:
        expected = np.tensordot(weights, fleet[name].double().numpy(), axes=1)
        np.testing.assert_allclose(mixed[name], expected, atol=1e-5)


def test_blocks_do_not_change_products(monkeypatch):
    fleet, start = random_fleet(9), random_fleet(9, seed=1)
    whole = fleet.similarity(start, 0.6), fleet.gram(start)["a"], fleet.distance(start)
    monkeypatch.setattr(fleets, "_BLOCK", 4)
    parts = fleet.similarity(start, 0.6), fleet.gram(start)["a"], fleet.distance(start)
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_gram_subtracts_before_it_multiplies():
    """Updates a million times smaller than the weights still have the right inner products."""
    start = Fleet({"a": torch.full((1, 1000), 1000.0)})
    step = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).repeat(1, 500) * 2.0**-10
    gram = Fleet({"a": start["a"] + step}).gram(start)["a"]
    np.testing.assert_allclose(gram, np.eye(2) * 500 * 2.0**-20, rtol=1e-6)


def test_similarity_leaves_out_tensors_in_which_nobody_moved():
    start = Fleet({"a": torch.zeros(1, 2), "b": torch.ones(1, 3)})
    moved = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    sent = Fleet({"a": moved, "b": torch.ones(2, 3)})
    assert sent.similarity(start)[0, 1] == pytest.approx(np.sqrt(0.5))


def test_a_client_that_did_not_move_is_similar_to_nobody():
    sent = Fleet({"a": torch.tensor([[0.0, 0.0], [1.0, 2.0], [1.0, 2.0]])})
    np.testing.assert_allclose(sent.similarity(), [[1, 0, 0], [0, 1, 1], [0, 1, 1]], atol=1e-6)


def test_top_r_keeps_the_ceiling_of_the_share():
    sent = Fleet({"a": torch.tensor([[5.0, -4.0, 3.0, 2.0, 1.0], [5.0, 4.0, 3.0, 2.0, -1.0]])})
    # 0.5 of 5 entries is 3: (5,-4,3) and (5,4,3)
    assert sent.similarity(top_r=0.5)[0, 1] == pytest.approx((25 - 16 + 9) / 50)
    assert sent.similarity(top_r=0.2)[0, 1] == pytest.approx(1.0)


def test_finite_finds_the_rows_that_are_not():
    fleet = random_fleet(4)
    fleet["a"][1, 0, 0] = float("nan")
    fleet["b"][3, 0] = float("inf")
    assert fleet.finite().tolist() == [True, False, True, False]


def test_put_select_and_group():
    fleet, other = random_fleet(4), random_fleet(2, seed=5)
    before = fleet.clone()
    fleet.put([3, 1], other)
    assert (fleet["a"][3] == other["a"][0]).all()
    assert (fleet["a"][0] == before["a"][0]).all()
    assert list(fleet.group("b*")) == ["b"]
    back = pickle.loads(pickle.dumps(fleet.select([3])))
    assert (back["a"][0] == other["a"][0]).all()


def test_distinct_models_are_found_by_their_bits():
    fleet = Fleet({"a": torch.tensor([[1.0], [2.0], [1.0], [1.0], [2.0]]), "b": torch.zeros(5, 2)})
    fleet["b"][3, 1] = -0.0
    first, place = fleet.distinct()
    assert first.tolist() == [0, 1, 3]
    assert place.tolist() == [0, 1, 0, 2, 1]


@pytest.mark.parametrize(
    ("rows", "shared"), [([1, 2], True), ([3], True), ([2, 2, 2], True), ([0, 2], False)]
)
def test_a_view_has_the_selected_rows_and_shares_memory_where_it_can(rows, shared):
    fleet = random_fleet(4)
    view, selected = fleet.view(rows), fleet.select(rows).clone()
    assert all(torch.equal(view[name], selected[name]) for name in fleet)
    fleet["b"][rows[0]] += 1.0
    assert torch.equal(view["b"][0], fleet["b"][rows[0]]) == shared


@pytest.mark.parametrize("rows", [[1, 2], [0, 3]])
def test_changes_to_borrowed_rows_are_changes_to_the_fleet(rows):
    fleet = random_fleet(4)
    expected = fleet["a"].clone()
    expected[rows] *= 2.0
    with fleet.borrowed(np.array(rows)) as part:
        part["a"].mul_(2.0)
    assert torch.equal(fleet["a"], expected)


def test_a_sum_that_overflows_is_no_fault_of_its_finite_terms():
    fleet = Fleet({"a": torch.tensor([[3e38, 3e38], [1.0, torch.inf], [1.0, torch.nan]])})
    assert fleet.finite().tolist() == [True, False, False]


def test_layers_that_share_a_tensor_are_refused_client_by_client():
    first, second = nn.Linear(3, 3), nn.Linear(3, 3)
    second.weight = first.weight
    module = nn.Sequential(first, second)
    with pytest.raises(ValueError, match="tied"):
        one_by_one(module)(Fleet.of(module, 1).tensors, torch.randn(1, 2, 3))


def test_the_module_has_its_own_tensors_back_after_it_ran_with_others():
    module = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    before, fleet = {k: t.clone() for k, t in module.state_dict().items()}, Fleet.of(module, 2)
    fleet["0.bias"].add_(1.0)
    inputs = torch.randn(2, 5, 3)
    outputs = one_by_one(module)(fleet.tensors, inputs)
    del before["1.num_batches_tracked"]  # a counter, which the module itself keeps
    assert all(torch.equal(module.state_dict()[name], tensor) for name, tensor in before.items())
    assert not torch.equal(fleet["1.running_mean"][0], before["1.running_mean"])
    single = fleet.module(1, nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)))
    torch.testing.assert_close(outputs[1], single(inputs[1]))


@pytest.mark.parametrize("inputs", [2, 3, 4])
def test_gradients_of_all_models_are_those_of_each_alone(inputs):
    module = nn.Sequential(nn.Linear(inputs, 4), nn.ReLU(), nn.Linear(4, 2))
    fleet, x = Fleet.of(module, 2), torch.randn(2, 6, inputs)
    leaves = {name: tensor.requires_grad_() for name, tensor in fleet.tensors.items()}
    grads = torch.autograd.grad(forward(module)(leaves, x).square().sum(), [*leaves.values()])
    for row in range(2):
        single = torch.autograd.grad(module(x[row]).square().sum(), [*module.parameters()])
        for gradient, expected in zip(grads, single, strict=True):
            torch.testing.assert_close(gradient[row], expected)
            assert gradient.is_contiguous()
