"""Public functions of torch give what the private ones give."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import comity
from comity.core import internals
from comity.core.internals import compiled, fused_adam
from comity.learners.supervised.compiling import compiler

SOURCE = Path(comity.__file__).parent


def stepped():
    draw = torch.Generator().manual_seed(1)
    lists = [[torch.rand(3, 4, generator=draw) for _ in range(2)] for _ in range(4)]
    steps = [torch.tensor(3.0)] * 2
    fused_adam(*lists, steps, rate=0.1, weight_decay=0.01)
    return lists


def test_adam_has_a_public_twin_with_the_same_bits(monkeypatch):
    private = stepped()
    monkeypatch.setattr(internals, "_FUSED_ADAM", None)
    public = stepped()
    for one, other in zip(private, public, strict=True):
        for first, second in zip(one, other, strict=True):
            assert torch.equal(first, second)


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler")
@pytest.mark.parametrize("private", [True, False])
def test_programs_do_what_was_traced(private, monkeypatch):
    import torch._inductor

    if not private:
        monkeypatch.delattr(torch._inductor, "compile")

    def halve(tensor, other):
        tensor.mul_(0.5).add_(other)
        return ()

    tensor, other = torch.ones(3), torch.arange(3.0)
    program = compiled(make_fx(halve)(tensor.clone(), other), [tensor, other])
    program(tensor, other)
    assert tensor.tolist() == [0.5, 1.5, 2.5]


def test_nobody_else_uses_what_is_private():
    private = re.compile(
        r"\btorch(?:\.\w+)*\._[a-z]|from torch(?:\.\w+)*\._|from torch\b.* import _"
    )
    users = [path.name for path in SOURCE.rglob("*.py") if private.search(path.read_text())]
    assert users == ["internals.py"]
