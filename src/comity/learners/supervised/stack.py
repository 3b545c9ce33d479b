"""Forward passes, losses, scores and hooks for the stacked networks of some clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, vmap

from comity.core.devices import in_double
from comity.core.fleet import Fleet
from comity.core.phases import Batch, View
from comity.core.rng import torch_seeded
from comity.core.running import convolves, forward, one_by_one, stacked, unbound
from comity.core.typing import AnyArray, FloatArray, IntArray, Tree
from comity.learners.base import LearnerContext
from comity.learners.supervised.client_data import ClientData
from comity.learners.supervised.cohort import ViewTensors
from comity.problems.data import DataProblem

_SAMPLES = 1024  # samples of a client that are evaluated at once
_PICTURES = 128  # the same for networks with convolutions
_NUMBERS = 2**23  # outputs of a client that are evaluated at once, for many preferences


class DrawKey(NamedTuple):
    """Place in the clients' random streams of a network that draws (dropout)."""

    round: int
    """Number of the round."""
    steps: IntArray
    """Number of each client's step; negative in surveys."""


class NetworkStack:
    """The networks of some clients, run as one stack of tensors.

    In all methods ``rows`` and ``owners`` are the clients whose data and preferences the models
    see, as rows of the fleet, one per model.

    Args:
        context: What the learner is built from; its problem must be a `DataProblem`.
        data: The samples of the clients.
    """

    def __init__(self, context: LearnerContext, data: ClientData) -> None:
        problem, client_model = context.problem, context.client_model
        assert isinstance(problem, DataProblem)
        self.module, self.data = client_model.module, data
        self.trained = [name for name, p in self.module.named_parameters() if p.requires_grad]
        """Names of the tensors that are trained."""
        self.preferences = torch.as_tensor(context.preferences, dtype=torch.float32)
        """Preference of each client."""
        self.scale = torch.ones(len(context.clients), len(problem.objectives))
        """Divisor of each loss of each client."""
        self.ideal = torch.zeros_like(self.scale)
        """Scaled losses from which scalarisations measure, per client; linear ones do not."""
        self.mapped = not convolves(self.module)
        """Whether the networks of all clients run at once, mapped over the client axis."""
        self._may_draw = False  # whether networks may draw random numbers while they train
        self._problem, self._clients, self._seed = problem, context.clients, context.seed
        self._conditional, self._client_model = client_model.conditional, client_model
        self._forward = forward(self.module)
        buffers = self.module.named_buffers()
        self._counters = {n: tensor for n, tensor in buffers if not tensor.is_floating_point()}

    def find_obstacle(self, fleet: Fleet) -> str | None:
        """Return why the networks cannot be mapped, tried on two samples; then run one by one."""
        if obstacle := self._obstacle(fleet):
            self.mapped, self._may_draw, self._forward = False, True, one_by_one(self.module)
        return obstacle

    def _obstacle(self, fleet: Fleet) -> str | None:
        """Return the first error of losses and gradients of two samples per client, if any."""
        if set(fleet) - {name for name, _ in self.module.named_parameters()}:
            return "it keeps statistics of its batches"
        rows = np.arange(len(self._clients))
        batch = self.data.gather(self.data.part("train", rows)[0][:, :2])
        tensors = {k: t.detach().requires_grad_() for k, t in fleet.tensors.items()}
        try:
            losses = self.losses(tensors, batch, rows)
            torch.autograd.grad(losses.sum(), list(tensors.values()), materialize_grads=True)
        except (RuntimeError, ValueError, TypeError) as error:
            return str(error).strip().splitlines()[0]
        return None

    def losses(
        self,
        tensors: Tree,
        batch: dict[str, Tensor],
        owners: IntArray,
        draw: DrawKey | None = None,
    ) -> Tensor:
        """Return the scaled losses (models x objectives).

        Args:
            tensors: The models.
            batch: One batch per model.
            owners: Client of each model.
            draw: Place in the random streams, where networks may draw.
        """
        outputs = self._run(tensors, batch["inputs"], owners, draw)
        losses: Tensor = self.each(self._problem.losses, outputs, batch)
        return losses / self.scale[owners]

    @torch.no_grad()
    def training_losses(self, tensors: Tree, rows: IntArray) -> Tensor:
        """Return losses over all training samples (models x objectives), not scaled."""
        index, weight = self.data.part("train", rows)
        batch = self.data.gather(index, weight, inputs=False)
        losses: Tensor = vmap(self._problem.losses)(self._outputs(tensors, index, rows), batch)
        return losses

    @contextmanager
    def even_preferences(self) -> Iterator[None]:
        """Give networks the even preference: what is learned from them reveals no client's own."""
        preferences, self.preferences = self.preferences, torch.full_like(self.preferences, 1.0)
        self.preferences /= preferences.shape[1]
        yield
        self.preferences = preferences

    @torch.no_grad()
    def evaluate(self, tensors: Tree, rows: IntArray, purpose: str) -> FloatArray:
        """Return the scores (models x objectives) on all samples for a purpose."""
        index, weight = self.data.part(purpose, rows)
        batch = self.data.gather(index, weight, inputs=False)
        return self._problem.evaluate_outputs(self._outputs(tensors, index, rows), batch)

    @torch.no_grad()
    def outputs(self, tensors: Tree, rows: IntArray, purpose: str) -> list[AnyArray]:
        """Return the networks' outputs for all samples for a purpose, one array per model."""
        index, weight = self.data.part(purpose, rows)
        outputs = self._outputs(tensors, index, rows)
        return [
            output[: int(count)].numpy(force=True)
            for output, count in zip(outputs, weight.sum(dim=1), strict=True)
        ]

    @torch.no_grad()
    def evaluate_preferences(
        self, tensors: Tree, rows: IntArray, purpose: str, preferences: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return scores and unscaled losses at several preferences.

        Both have shape (models x preferences x objectives).
        """
        self.module.eval()
        all_preferences = torch.as_tensor(preferences, dtype=torch.float32)

        def measured(outputs: Tensor, batch: Batch) -> Tensor:
            return torch.stack(
                [self._problem.scores(outputs, batch), self._problem.losses(outputs, batch)]
            )

        measure: Callable[..., Tensor] = vmap(measured, in_dims=(0, None))
        results = []
        for place, row in enumerate(rows):
            index, weight = self.data.part(purpose, np.array([row]))
            real = index[0, : int(weight.sum())]
            batch = self.data.gather(real)
            model = {name: tensor[place] for name, tensor in tensors.items()}
            pieces = [
                measure(functional_call(self.module, model, (batch["inputs"], some)), batch)
                for some in torch.split(all_preferences, max(1, _NUMBERS // (8 * len(real))))
            ]
            results.append(torch.cat(pieces))
        scores, losses = np.moveaxis(in_double(torch.stack(results)), 2, 0)
        return scores, losses

    def each(
        self,
        hook: Callable[..., Any],
        *arguments: Tree | Tensor | ViewTensors,
        owners: IntArray | None = None,
        draw: DrawKey | None = None,
    ) -> Any:
        """Return the results of a hook, written for one client, for every model of the stack.

        Args:
            hook: A function of one client's arguments to a tensor or a dict of tensors.
            arguments: Stacked arguments of the hook; the first one is not empty.
            owners: Client of each model, where networks may draw.
            draw: Place in the random streams, where networks may draw.
        """
        if self.mapped:
            return vmap(hook)(*arguments)
        parts = [_unstacked(argument) for argument in arguments]
        results = []
        for place in range(len(parts[0])):
            client = [_at(part, place) for part in parts]
            with self._seeded(place, owners, draw):
                results.append(hook(*client))
        if isinstance(results[0], dict):
            return {name: stacked([r[name] for r in results]) for name in results[0]}
        return stacked(results)

    def view(self, tensors: ViewTensors) -> View:
        """Return the view of one client; made inside a mapped hook."""

        def losses(outputs: Tensor, batch: Batch) -> Tensor:
            return self._problem.losses(outputs, batch) / tensors.scale

        return View(
            tensors.received,
            tensors.broadcast,
            tensors.drawn,
            rounds=self._client_model.rounds,
            participation=self._client_model.participation,
            passes=tensors.passes,
            steps=tensors.steps,
            forward=self._call,
            losses=losses,
        )

    def _call(self, parameters: Tree, *inputs: Tensor) -> Tensor:
        """Return the outputs of one client's network; it may be called inside ``torch.func.grad``.

        Counters, which no client has, are copied: they may not change there.
        """
        counters = {name: counter.clone() for name, counter in self._counters.items()}
        outputs: Tensor = functional_call(self.module, {**counters, **parameters}, inputs)
        return outputs

    def _outputs(self, tensors: Tree, index: Tensor, rows: IntArray) -> Tensor:
        """Return the networks' predictions for many samples, a piece at a time."""
        self.module.eval()
        size = _PICTURES if convolves(self.module) else _SAMPLES
        pieces = [
            self._run(tensors, self.data.gather(piece)["inputs"], rows)
            for piece in torch.split(index, size, dim=1)
        ]
        return torch.cat(pieces, dim=1)

    def _run(
        self, tensors: Tree, inputs: Tensor, owners: IntArray, draw: DrawKey | None = None
    ) -> Tensor:
        """Return the networks' outputs; those that draw do so from their client's stream."""
        if self._conditional:
            preferences = self.preferences[owners]
            outputs: Tensor = self.each(
                self._call, tensors, inputs, preferences, owners=owners, draw=draw
            )
            return outputs
        if not (self._may_draw and self.module.training):
            return self._forward(tensors, inputs)
        parts = []
        for place in range(len(owners)):
            model = {name: tensor[place : place + 1] for name, tensor in tensors.items()}
            with self._seeded(place, owners, draw):
                parts.append(self._forward(model, inputs[place : place + 1]))
        return torch.cat(parts)

    def _seeded(
        self, place: int, owners: IntArray | None, draw: DrawKey | None
    ) -> AbstractContextManager[None]:
        """Return a context in which one client's network draws from the client's stream."""
        if not self._may_draw:
            return nullcontext()
        client = 0 if owners is None else self._clients[owners[place]]
        round, step = (0, 0) if draw is None else (draw.round, int(draw.steps[place]))
        # steps of surveys are negative
        return torch_seeded(self._seed, "network", round, client, step % 2**31)


def _unstacked(argument: Any) -> Any:
    """Return a stacked argument as something that `_at` takes one client's part of."""
    if isinstance(argument, ViewTensors):
        return ViewTensors(*map(_unstacked, argument))
    return unbound(argument) if isinstance(argument, dict) and argument else argument


def _at(part: Any, place: int) -> Any:
    """Return one client's part; an empty dict is empty for every client."""
    if isinstance(part, ViewTensors):
        return ViewTensors(*(_at(value, place) for value in part))
    return part[place] if len(part) else part
