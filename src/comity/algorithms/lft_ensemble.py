"""LFT+Ensemble (Zeng et al., 2021): clients train fairly alone; in the end all models vote."""

from __future__ import annotations

from copy import deepcopy
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from comity.algorithms.fairbatch import Balanced, Cells, FairBatch
from comity.algorithms.registry import algorithm
from comity.core.fleet import Fleet
from comity.core.phases import Batch, View
from comity.core.typing import FloatArray, Tree
from comity.problems import DataProblem, Problem
from comity.settings import setting


class Ensemble(Balanced):
    """A client's own network, which it trains, and those of all clients, which predict."""

    def __init__(self, model: nn.Module, groups: int, members: int) -> None:
        super().__init__(model, groups)
        self.members = deepcopy(model)
        for part in self.members.modules():
            for name, tensor in list(part.named_parameters(recurse=False)):
                stacked = tensor.detach().expand(members, *tensor.shape).clone()
                part.register_parameter(name, nn.Parameter(stacked, requires_grad=False))
            for name, buffer in list(part.named_buffers(recurse=False)):
                part.register_buffer(name, buffer.expand(members, *buffer.shape).clone())
        self.shares = nn.Parameter(torch.zeros(members), requires_grad=False)
        """Weight of each member; all zero before they are received."""

    def forward(self, inputs: Tensor, alone: bool = False) -> Tensor:
        """Return the logits of the members' mean probabilities; at first, the client's own."""
        own: Tensor = self.model(inputs)
        if alone:
            return own
        members = {**dict(self.members.named_parameters()), **dict(self.members.named_buffers())}
        outputs = vmap(lambda one: functional_call(self.model, one, (inputs,)))(members)
        single = outputs.shape[-1] == 1
        scores = torch.sigmoid(outputs) if single else torch.softmax(outputs, dim=-1)
        voted = torch.einsum("m,m...->...", self.shares, scores)
        logits = torch.logit(voted, eps=1e-7) if single else torch.log(voted.clamp(min=1e-7))
        return torch.where(self.shares.sum() > 0, logits, own)


@algorithm(
    "lft-ensemble",
    title="Local fair training + ensemble",
    paper="Zeng et al., 2021",
    place="global model",
    method="local fair training; vote of all models",
    communication="every client's model, once, to every client",
)
class LFTEnsemble(FairBatch):
    """p(y | x) = Σ_k n_k p_k(y | x) / Σ_j n_j, each p_k trained with FairBatch on its own data."""

    personal: ClassVar[bool] = True
    communicates: ClassVar[bool] = False
    ensembles: ClassVar[bool] = True
    public_steps: ClassVar[int] = 1

    alpha: float = setting(0.1, "step size of the weights λ", at_least=0)

    def build(self, model: nn.Module, problem: Problem) -> Ensemble:
        assert isinstance(problem, DataProblem)
        return Ensemble(model, Cells(problem).groups, len(problem.client_rows()))

    def predictor(self, module: nn.Module, preference: FloatArray) -> nn.Module:
        return module

    def _outputs(self, parameters: Tree, batch: Batch, view: View) -> Tensor:
        return view.forward(parameters, batch["inputs"], True)

    def ensemble(self, models: Fleet, sizes: FloatArray) -> Tree:
        members = {k.replace("model.", "members.", 1): t for k, t in models.tensors.items()}
        shares = torch.as_tensor(sizes / max(sizes.sum(), 1.0), dtype=torch.float32)
        return {**members, "shares": shares}
