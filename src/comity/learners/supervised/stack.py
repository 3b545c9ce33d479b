"""The networks of some clients as one stack: what they answer, what they lose, what a hook says."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, vmap

from comity.core.fleet import Fleet, convolves, forward, one_by_one, unbound
from comity.core.phases import Batch, ClientModel, View
from comity.core.rng import torch_seeded
from comity.core.typing import FloatArray, IntArray, Tree
from comity.learners.supervised.client_data import ClientData
from comity.problems.data import DataProblem

_PIECE, _PICTURES = 1024, 128  # samples of a client that are judged at once; in convolutions
_NUMBERS = 2**23  # outputs of a client that are judged at once, where there are many preferences

Draw = tuple[int, IntArray]
"""Round, and each client's step: where a network that draws is in its client's stream."""


class Stacked:
    """Runs stacked networks; ``rows`` and ``owners`` say whose data and preferences they see."""

    def __init__(
        self,
        problem: DataProblem,
        setup: ClientModel,
        holdings: ClientData,
        clients: tuple[int, ...],
        preferences: FloatArray,
        seed: int,
    ) -> None:
        self.module, self.holdings = setup.module, holdings
        self.trained = [name for name, p in self.module.named_parameters() if p.requires_grad]
        self.preferences = torch.from_numpy(preferences).float()
        self.scale = torch.ones(len(clients), len(problem.objectives))
        """What each loss of each client is divided by."""
        self.mapped = not convolves(self.module)
        self._odd = False  # it may draw random numbers, each client its own
        self._problem, self._clients, self._seed = problem, clients, seed
        self._conditional, self._rounds = setup.conditional, setup.rounds
        self._forward = forward(self.module)

    def settle(self, fleet: Fleet) -> str | None:
        """Find out why the network cannot be run for all clients at once, tried on two samples."""
        if obstacle := self._obstacle(fleet):
            self.mapped, self._odd, self._forward = False, True, one_by_one(self.module)
        return obstacle

    def _obstacle(self, fleet: Fleet) -> str | None:
        if set(fleet) - {name for name, _ in self.module.named_parameters()}:
            return "it keeps statistics of its batches"
        everybody = np.arange(len(self._clients))
        two = self.holdings.gather(self.holdings.part("train", everybody)[0][:, :2])
        tensors = {k: t.detach().requires_grad_() for k, t in fleet.tensors.items()}
        try:
            losses = self.losses(tensors, two, everybody)
            torch.autograd.grad(losses.sum(), list(tensors.values()), materialize_grads=True)
        except (RuntimeError, ValueError, TypeError) as error:
            return str(error).strip().splitlines()[0]
        return None

    def losses(
        self, tensors: Tree, batch: dict[str, Tensor], owners: IntArray, draw: Draw | None = None
    ) -> Tensor:
        """Losses in their scale (models x objectives) on a batch of each model's owner."""
        outputs = self._run(tensors, batch["inputs"], owners, draw)
        losses: Tensor = self.each(self._problem.losses, outputs, batch)
        return losses / self.scale[owners]

    @torch.no_grad()
    def whole_losses(self, tensors: Tree, rows: IntArray) -> Tensor:
        """Losses, not scaled, of some models over all training samples of their clients."""
        index, weight = self.holdings.part("train", rows)
        batch = self.holdings.gather(index, weight, inputs=False)
        losses: Tensor = vmap(self._problem.losses)(self._answers(tensors, index, rows), batch)
        return losses

    def initial_losses(self, tensors: Tree) -> Tensor:
        """What all clients lose before they train, for the scale of their losses.

        At the even preference: what is divided by it must not tell of anybody's.
        """
        own, self.preferences = self.preferences, torch.full_like(self.preferences, 1.0)
        self.preferences /= own.shape[1]
        losses = self.whole_losses(tensors, np.arange(len(self._clients)))
        self.preferences = own
        return losses

    @torch.no_grad()
    def evaluate(self, tensors: Tree, rows: IntArray, purpose: str) -> FloatArray:
        """Scores of some models on all their clients' samples for a purpose."""
        index, weight = self.holdings.part(purpose, rows)
        batch = self.holdings.gather(index, weight, inputs=False)
        return self._problem.evaluate_outputs(self._answers(tensors, index, rows), batch)

    @torch.no_grad()
    def evaluate_preferences(
        self, tensors: Tree, rows: IntArray, purpose: str, preferences: FloatArray
    ) -> FloatArray:
        """Scores of some models at several preferences (models x preferences x objectives)."""
        self.module.eval()
        asked = torch.from_numpy(preferences).float()
        scores: Callable[..., Tensor] = vmap(self._problem.scores, in_dims=(0, None))
        found = []
        for place, row in enumerate(rows):
            index, weight = self.holdings.part(purpose, np.array([row]))
            real = index[0, : int(weight.sum())]
            batch = self.holdings.gather(real)
            own = {name: tensor[place] for name, tensor in tensors.items()}
            pieces = [
                scores(functional_call(self.module, own, (batch["inputs"], some)), batch)
                for some in torch.split(asked, max(1, _NUMBERS // (8 * len(real))))
            ]
            found.append(torch.cat(pieces))
        return np.asarray(torch.stack(found).double().numpy())

    def each(
        self,
        hook: Callable[..., Any],
        *arguments: Tree | Tensor,
        owners: IntArray | None = None,
        draw: Draw | None = None,
    ) -> Any:
        """What a hook, written for one client, gives for every client of the stack."""
        if self.mapped:
            return vmap(hook)(*arguments)
        parts: list[Any] = [unbound(a) if isinstance(a, dict) and a else a for a in arguments]
        count = next(len(part) for part in parts if len(part))
        answers = []
        for place in range(count):
            own = [part[place] if len(part) else part for part in parts]
            with self._seeded(place, owners, draw):
                answers.append(hook(*own))
        if isinstance(answers[0], dict):
            return {name: torch.stack([a[name] for a in answers]) for name in answers[0]}
        return torch.stack(answers)

    def view(
        self, received: Tree, broadcast: Tree, drawn: Tree, passes: Tensor, scale: Tensor
    ) -> View:
        """What one client may look at; made inside a mapped hook."""

        def losses(outputs: Tensor, batch: Batch) -> Tensor:
            return self._problem.losses(outputs, batch) / scale

        return View(
            received,
            broadcast,
            drawn,
            rounds=self._rounds,
            passes=passes,
            forward=self._of_one,
            losses=losses,
        )

    def _of_one(self, parameters: Tree, *inputs: Tensor) -> Tensor:
        outputs: Tensor = functional_call(self.module, parameters, inputs)
        return outputs

    def _answers(self, tensors: Tree, index: Tensor, rows: IntArray) -> Tensor:
        """What models answer to many samples, a piece at a time."""
        self.module.eval()
        size = _PICTURES if convolves(self.module) else _PIECE
        pieces = [
            self._run(tensors, self.holdings.gather(piece)["inputs"], rows)
            for piece in torch.split(index, size, dim=1)
        ]
        return torch.cat(pieces, dim=1)

    def _run(
        self, tensors: Tree, inputs: Tensor, owners: IntArray, draw: Draw | None = None
    ) -> Tensor:
        """The networks' outputs; one that draws random numbers draws from its client's stream."""
        if self._conditional:
            preferences = self.preferences[owners]
            outputs: Tensor = self.each(
                self._of_one, tensors, inputs, preferences, owners=owners, draw=draw
            )
            return outputs
        if not (self._odd and self.module.training):
            return self._forward(tensors, inputs)
        parts = []
        for place in range(len(owners)):
            own = {name: tensor[place : place + 1] for name, tensor in tensors.items()}
            with self._seeded(place, owners, draw):
                parts.append(self._forward(own, inputs[place : place + 1]))
        return torch.cat(parts)

    def _seeded(self, place: int, owners: IntArray | None, draw: Draw | None) -> Any:
        if not self._odd:
            return nullcontext()
        client = 0 if owners is None else self._clients[owners[place]]
        round, number = (0, 0) if draw is None else (draw[0], int(draw[1][place]))
        # surveys count backwards
        return torch_seeded(self._seed, "network", round, client, number % 2**31)
