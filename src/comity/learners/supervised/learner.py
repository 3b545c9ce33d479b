"""Supervised learning on several objectives for all clients of a fleet at once.

Any network, any vector of differentiable losses. Clients whose batches have the same size are a
*crew*: one stack of tensors, one gradient, one step. Clients with fewer samples than a batch use
all they have, and so form crews of their own: nothing is padded while training, because a loss may
speak of a batch as a whole. The optimiser starts afresh in every round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap

from comity.core.fleet import Fleet
from comity.core.phases import ClientModel, Update
from comity.core.typing import FloatArray, IntArray, NamedArrays
from comity.errors import UserError
from comity.learners.base import Task
from comity.learners.supervised.client_data import ClientData
from comity.learners.supervised.descent import Descent
from comity.learners.supervised.settings import SupervisedSettings
from comity.learners.supervised.stack import Stacked
from comity.problems.base import Problem
from comity.problems.data import DataProblem

_LEAST_LOSS = 1e-3  # an untrained network may be fair by accident: no loss is divided by less


class Supervised:
    """See the module's docstring."""

    differentiable: ClassVar[bool] = True

    def __init__(
        self,
        problem: DataProblem,
        settings: SupervisedSettings,
        clients: tuple[int, ...],
        preferences: FloatArray,
        seed: int,
        fleet: Fleet,
        setup: ClientModel,
    ) -> None:
        self.settings, self._problem, self._clients, self._seed = settings, problem, clients, seed
        self._pooled = setup.pooled
        self._holdings = ClientData(problem, clients, seed, settings.batch_size, setup.pooled)
        self._stacked = Stacked(problem, setup, self._holdings, clients, preferences, seed)
        self._steps = np.zeros(len(clients), dtype=np.int64)
        self._skipped = np.zeros(len(clients), dtype=np.int64)
        self._gradients: Fleet | None = None
        self._remarks: list[str] = []
        if obstacle := self._stacked.settle(fleet):
            self._remarks.append(
                f"the network cannot be run for all clients at once ({obstacle}); clients are "
                "trained one by one, which is slower"
            )
        elif not self._stacked.mapped:
            self._remarks.append("the network convolves; clients are trained one by one")
        if setup.pooled:
            self._remarks.append(
                "not federated: the data of all clients are pooled; their bytes are not counted"
            )
        self._descent = Descent(self._stacked, settings, clients, seed)
        self._remarks += self._descent.remarks
        if settings.normalise:
            first = self._stacked.initial_losses(fleet.tensors)
            self._stacked.scale = first.clamp(min=_LEAST_LOSS)

    @classmethod
    def check(cls, problem: Problem) -> None:
        if not isinstance(problem, DataProblem):
            raise UserError(
                f"problem {problem.name}: its clients have environments, not data, so supervised "
                'learning cannot learn it; give the problem learner="dqn" or "ddpg".'
            )

    @property
    def steps(self) -> IntArray:
        return self._steps

    @property
    def sizes(self) -> FloatArray:
        return self._holdings.sizes

    @property
    def round_steps(self) -> IntArray:
        steps = np.full(len(self._clients), self.settings.local_steps)
        if epochs := self.settings.local_epochs:
            steps = -(-epochs * self.sizes // self._holdings.batch_sizes).astype(np.int64)
        if self._pooled:
            steps[np.array(self._clients) != 0] = 0
        return steps

    @property
    def remarks(self) -> tuple[str, ...]:
        return tuple(self._remarks)

    @property
    def skipped(self) -> IntArray:
        return self._skipped

    # -- around training -------------------------------------------------------------------

    def receive(self, rows: IntArray, received: Fleet) -> None:
        """Nothing is kept beside the model."""

    def restart(self, rows: IntArray, models: Fleet) -> None:
        """Nothing is kept beside the model."""

    def companions(self) -> Fleet | None:
        return None

    def evaluate(
        self, fleet: Fleet, rows: IntArray, purpose: str, episodes: int
    ) -> tuple[FloatArray, IntArray]:
        """Scores on each client's validation or test samples, or on the test of everyone."""
        scores = self._stacked.evaluate(fleet.select(rows).tensors, rows, purpose)
        return scores, np.zeros(len(rows), dtype=np.int64)

    def evaluate_preferences(
        self, fleet: Fleet, rows: IntArray, purpose: str, preferences: FloatArray
    ) -> FloatArray:
        return self._stacked.evaluate_preferences(
            fleet.select(rows).tensors, rows, purpose, preferences
        )

    def survey(
        self, fleet: Fleet, rows: IntArray, asked: Sequence[str], round: int, survey_client: Update
    ) -> tuple[NamedArrays, Fleet | None]:
        """Losses over all training samples; gradients, each objective's on a batch of its own."""
        stacked, values = self._stacked, NamedArrays()
        models = fleet.select(rows)
        if "losses" in asked:
            losses = stacked.whole_losses(models.tensors, rows) / stacked.scale[rows]
            values["losses"] = losses.double().numpy()
        if "preferences" in asked:
            values["preferences"] = stacked.preferences[rows].double().numpy()
        self._gradients = None
        if "gradients" in asked:
            self._gradients = self._jacobians(models, rows, round)
        if set(asked) - {"losses", "preferences", "gradients"}:
            said = self._descent.said(survey_client, models, rows)
            values |= {name: value.double().numpy() for name, value in said.items()}
        return values, self._gradients

    # -- training --------------------------------------------------------------------------

    def train(self, fleet: Fleet, rows: IntArray, task: Task) -> None:
        left = np.maximum(task.goal - self._steps[rows], 0)
        ends = np.cumsum([0.0, *(phase.share for phase in task.phases)])
        bounds = np.rint(np.outer(ends, left)).astype(np.int64)
        for number in range(len(task.phases)):
            steps = bounds[number + 1] - bounds[number]
            if (most := task.phases[number].steps) is not None:
                steps = np.minimum(steps, most)
            for places in self._crews(rows, steps):
                models = fleet.select(rows[places])
                self._walk(models, rows[places], places, task, number, steps[places], None)
                fleet.put(rows[places], models)
        self._steps[rows] = np.maximum(self._steps[rows], task.goal)

    def train_per_objective(self, fleet: Fleet, rows: IntArray, task: Task) -> Fleet:
        count = len(self._problem.objectives)
        copies = fleet.select(np.repeat(rows, count)).clone()
        steps = np.maximum(task.goal - self._steps[rows], 0)
        for places in self._crews(rows, steps):
            inside = (places[:, None] * count + np.arange(count)).ravel()
            models = copies.select(inside)
            each = torch.eye(count).repeat(len(places), 1)
            owners, lines = np.repeat(rows[places], count), np.repeat(places, count)
            self._walk(models, owners, lines, task, 0, steps[lines], each)
            copies.put(inside, models)
        self._steps[rows] = np.maximum(self._steps[rows], task.goal)
        return copies

    def _crews(self, rows: IntArray, steps: IntArray) -> Iterator[IntArray]:
        """Clients (as places in ``rows``) with equal batches and some steps to take.

        Where nothing is gained by a stack, a client goes all its way before the next one starts,
        because one network fits into the processor's caches.
        """
        if not self._stacked.mapped:
            yield from (np.array([place]) for place in np.flatnonzero(steps > 0))
            return
        sizes = self._holdings.batch_sizes[rows]
        for batch in sorted(set(sizes[steps > 0].tolist())):
            yield np.flatnonzero((sizes == batch) & (steps > 0))

    def _walk(
        self,
        models: Fleet,
        owners: IntArray,
        places: IntArray,
        task: Task,
        number: int,
        steps: IntArray,
        weights: Tensor | None,
    ) -> None:
        purpose = f"batches {number}" if number else "batches"
        batches = self._holdings.batches(owners, int(steps.max()), purpose, task.round)
        self._count_skipped(owners, batches, steps)
        self._descent.walk(
            models, owners, places, task, number, steps,
            batches=batches, weights=weights, gradients=self._gradients,
        )  # fmt: skip

    def _jacobians(self, models: Fleet, rows: IntArray, round: int) -> Fleet:
        """∇f_k of each client, one row an objective, each on a batch of its own."""
        trained, count = self._stacked.trained, len(self._problem.objectives)
        found = {n: torch.zeros(len(rows), count, *models[n].shape[1:]) for n in trained}
        sizes = self._holdings.batch_sizes[rows]
        self._stacked.module.train()
        for size in sorted(set(sizes)):
            places = np.flatnonzero(sizes == size)
            batches = self._holdings.batches(rows[places], count, "survey", round)
            for k in range(count):
                tensors = {n: t.detach().clone() for n, t in models.select(places).tensors.items()}
                leaves = [tensors[name].requires_grad_() for name in trained]
                batch = self._holdings.gather(batches[:, k])
                draw = (round, np.full(len(places), -1 - k))
                losses = self._stacked.losses(tensors, batch, rows[places], draw)
                grads = torch.autograd.grad(losses[:, k].sum(), leaves, materialize_grads=True)
                for name, value in zip(trained, grads, strict=True):
                    found[name][places, k] = value
        return Fleet({name: tensor.flatten(0, 1) for name, tensor in found.items()})

    # -- what goes with a crew -------------------------------------------------------------

    def _count_skipped(self, owners: IntArray, batches: Tensor, steps: IntArray) -> None:
        if self._problem.defines("undefined"):
            terms: Callable[..., Tensor] = vmap(vmap(self._problem.undefined))
            found = terms(self._holdings.gather(batches, inputs=False)).sum(dim=2).numpy()
            taken = np.arange(batches.shape[1]) < steps[:, None]
            np.add.at(self._skipped, owners, (found * taken).sum(axis=1))

    # -- persistence -----------------------------------------------------------------------

    def state(self) -> NamedArrays:
        return {"steps": self._steps, "skipped": self._skipped}

    def load(self, state: NamedArrays) -> None:
        self._steps, self._skipped = state["steps"].copy(), state["skipped"].copy()
