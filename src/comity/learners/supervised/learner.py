"""Supervised learning on several objectives for all clients of a fleet at once.

Any network, any vector of differentiable losses. Clients whose batches have the same size are a
*cohort*: one stack of tensors, one gradient, one step. Clients with fewer samples than a batch use
all of them, and so form cohorts of their own: nothing is padded while training, because a loss may
depend on the batch as a whole. The optimiser starts afresh in every round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap

from comity.core.devices import in_double
from comity.core.fleet import Fleet
from comity.core.phases import Phase, Update
from comity.core.running import BATCH_NORM
from comity.core.typing import AnyArray, FloatArray, IntArray, NamedArrays, Tree
from comity.errors import UserError
from comity.learners.base import LearnerContext, Task
from comity.learners.supervised.client_data import ClientData
from comity.learners.supervised.descent import Descent
from comity.learners.supervised.normalisation import (
    BELOW_SEEN,
    END_STEPS,
    initial_scale,
    spread,
)
from comity.learners.supervised.plan import PhasePlan
from comity.learners.supervised.settings import SupervisedSettings
from comity.learners.supervised.stack import DrawKey, NetworkStack
from comity.problems.base import Problem
from comity.problems.data import DataProblem


class Supervised:
    """Supervised learning, described in the module's docstring."""

    differentiable: ClassVar[bool] = True

    def __init__(self, context: LearnerContext) -> None:
        problem, settings, clients = context.problem, context.settings, context.clients
        assert isinstance(problem, DataProblem)
        assert isinstance(settings, SupervisedSettings)
        self.settings, self._problem, self._clients = settings, problem, clients
        self._pooled, self._rounds = context.client_model.pooled, context.client_model.rounds
        self._data = ClientData(
            problem, clients, context.seed, settings.batch_size, self._pooled, context.global_test
        )
        self._stack = NetworkStack(context, self._data)
        self._check_batches()
        self._steps = np.zeros(len(clients), dtype=np.int64)
        self._optimiser_steps = np.zeros(len(clients), dtype=np.int64)
        self._skipped = np.zeros(len(clients), dtype=np.int64)
        self._remarks: list[str] = []
        if obstacle := self._stack.find_obstacle(context.fleet):
            self._remarks.append(
                f"the network cannot be run for all clients at once ({obstacle}); clients are "
                "trained one by one, which is slower"
            )
        elif not self._stack.mapped:
            self._remarks.append("the network convolves; clients are trained one by one")
        if self._pooled:
            self._remarks.append(
                "not federated: the data of all clients are pooled; their bytes are not counted"
            )
        self._descent = Descent(self._stack, settings, clients, context.seed)
        self._remarks += self._descent.remarks
        self._normalise(context.fleet)
        self._least_seen = np.full(context.preferences.shape, np.inf)
        if settings.ideal == "zero":
            self._stack.ideal.zero_()

    def _check_batches(self) -> None:
        """Refuse batches of one sample where the network normalises batches."""
        single = np.flatnonzero(self._data.batch_sizes == 1)
        if len(single) and any(isinstance(m, BATCH_NORM) for m in self._stack.module.modules()):
            raise UserError(
                f"client {self._clients[single[0]]}: its batches have one sample, and the network "
                "of the problem normalises batches, which takes two. Give the client more samples "
                "or raise supervised.batch_size."
            )

    def _normalise(self, fleet: Fleet) -> None:
        """Set what losses are divided by, from the initial models and each client's own rows."""
        stack, rows = self._stack, np.arange(len(self._clients))
        match self.settings.normalise:
            case "initial":
                with stack.even_preferences():
                    stack.scale = initial_scale(stack.training_losses(fleet.tensors, rows))
            case "units":
                stack.scale = torch.tensor([self._problem.loss_units()] * len(rows))
            case "ends":
                with stack.even_preferences():
                    stack.scale, stack.ideal = spread(self._end_losses(fleet, rows))

    def _end_losses(self, fleet: Fleet, rows: IntArray) -> Tensor:
        """Return losses (clients x ends x objectives) after a short run on each objective alone.

        The runs are not counted as steps: they are a preparation, and their models are dropped.
        """
        count = len(self._problem.objectives)
        task = Task(0, [Phase()], fleet, np.full(len(rows), END_STEPS))
        ends = self.train_per_objective(fleet, rows, task)
        self._steps[:], self._skipped[:] = 0, 0
        losses = self._stack.training_losses(ends.tensors, np.repeat(rows, count))
        return losses.reshape(len(rows), count, count)

    @classmethod
    def check(cls, problem: Problem) -> None:
        """Raise a `UserError` if the problem's clients have no data."""
        if not isinstance(problem, DataProblem):
            raise UserError(
                f"problem {problem.name}: its clients have environments, not data, so supervised "
                'learning cannot learn it; give the problem learner="dqn" or "ddpg".'
            )

    @property
    def steps(self) -> IntArray:
        """Number of training steps that each client has taken."""
        return self._steps

    @property
    def optimiser_steps(self) -> IntArray:
        """Number of steps that each client took in its last task, over all phases."""
        return self._optimiser_steps

    @property
    def sizes(self) -> FloatArray:
        """Number of training samples of each client."""
        return self._data.sizes

    @property
    def round_steps(self) -> IntArray:
        """Number of steps per round: the setting, or enough for ``local_epochs`` passes."""
        steps = np.full(len(self._clients), self.settings.local_steps)
        if epochs := self.settings.local_epochs:
            steps = -(-epochs * self.sizes // self._data.batch_sizes).astype(np.int64)
        if self._pooled:
            steps[np.array(self._clients) != 0] = 0
        return steps

    @property
    def remarks(self) -> tuple[str, ...]:
        """Warnings about networks that are not mapped, pooled data and compiled steps."""
        return tuple(self._remarks)

    @property
    def skipped(self) -> IntArray:
        """Number of undefined loss terms of each client that were left out."""
        return self._skipped

    # -- around training -------------------------------------------------------------------

    def receive(self, rows: IntArray, received: Fleet) -> None:
        """Do nothing: nothing is kept beside the model."""

    def restart(self, rows: IntArray, models: Fleet) -> None:
        """Do nothing: nothing is kept beside the model."""

    def companions(self) -> Fleet | None:
        """Return None: nothing travels beside the model."""
        return None

    def evaluate(
        self, fleet: Fleet, rows: IntArray, purpose: str, episodes: int
    ) -> tuple[FloatArray, IntArray]:
        """Return the scores on all samples for a purpose; they cost no steps."""
        scores = self._stack.evaluate(fleet.select(rows).tensors, rows, purpose)
        return scores, np.zeros(len(rows), dtype=np.int64)

    def outputs(self, fleet: Fleet, rows: IntArray, purpose: str) -> list[AnyArray]:
        """Return the networks' outputs behind the scores of `evaluate`, client by client.

        Args:
            fleet: The models of all clients.
            rows: The clients whose models answer.
            purpose: ``train``, ``validation``, ``test`` or ``everyone``.
        """
        return self._stack.outputs(fleet.select(rows).tensors, rows, purpose)

    def evaluate_preferences(
        self,
        fleet: Fleet,
        rows: IntArray,
        purpose: str,
        preferences: FloatArray,
        episodes: int,
    ) -> tuple[FloatArray, FloatArray | None]:
        """Return scores and losses on all samples for a purpose, at each preference."""
        return self._stack.evaluate_preferences(
            fleet.select(rows).tensors, rows, purpose, preferences
        )

    def changes(self, models: Fleet, rows: IntArray, update: Update) -> Tree:
        """Return the tensors that an update computes from all samples of each client."""
        return self._descent.survey(update, models, rows)

    def survey(
        self,
        fleet: Fleet,
        rows: IntArray,
        statistics: Sequence[str],
        round: int,
        survey_client: Update,
    ) -> tuple[NamedArrays, Fleet | None]:
        """Return losses over all training samples, and each objective's gradient on one batch."""
        stack, values = self._stack, NamedArrays()
        models = fleet.select(rows)
        if "losses" in statistics:
            losses = stack.training_losses(models.tensors, rows) / stack.scale[rows]
            values["losses"] = in_double(losses)
        if "preferences" in statistics:
            values["preferences"] = in_double(stack.preferences[rows])
        gradients = self._jacobians(models, rows, round) if "gradients" in statistics else None
        if set(statistics) - {"losses", "preferences", "gradients"}:
            others = self._descent.survey(survey_client, models, rows)
            values |= {name: in_double(value) for name, value in others.items()}
        return values, gradients

    # -- training --------------------------------------------------------------------------

    def train(self, fleet: Fleet, rows: IntArray, task: Task) -> None:
        """Train clients in place, phase by phase, each phase cohort by cohort."""
        left = np.maximum(task.goal - self._steps[rows], 0)
        phases = [
            (number, phase) for number, phase in enumerate(task.phases) if self._now(phase, task)
        ]
        shares = [phase.share if phase.passes is None else 0.0 for _, phase in phases]
        bounds = np.rint(np.outer(np.cumsum([0.0, *shares]), left)).astype(np.int64)
        self._optimiser_steps[rows] = 0
        self._look_for_ideal(fleet, rows)
        for (number, phase), begin, end in zip(phases, bounds, bounds[1:], strict=False):
            steps = end - begin
            if phase.passes is not None:
                steps = np.where(left > 0, self._steps_of_passes(phase.passes, fleet, rows), 0)
            steps = steps * phase.repeat
            if phase.steps is not None:
                steps = np.minimum(steps, phase.steps)
            self._optimiser_steps[rows] += steps
            for places in self._cohorts(rows, steps):
                weights = self._warm_up(task.round, places)
                plan = PhasePlan(task, number, rows[places], places, steps[places], weights)
                with fleet.borrowed(rows[places]) as models:
                    self._run(models, plan)
        self._steps[rows] = np.maximum(self._steps[rows], task.goal)

    def _now(self, phase: Phase, task: Task) -> bool:
        """Return whether a phase takes place in the round of a task."""
        return phase.when is None or phase.when(task.round, self._rounds)

    def _look_for_ideal(self, fleet: Fleet, rows: IntArray) -> None:
        """Lower the ideal points of clients to the losses of their present models, if set so."""
        if self.settings.ideal == "seen" and self.settings.scalarisation != "linear":
            losses = self._stack.training_losses(fleet.select(rows).tensors, rows)
            seen = in_double(losses / self._stack.scale[rows])
            self._least_seen[rows] = np.fmin(self._least_seen[rows], seen)
            ideal = torch.as_tensor(self._least_seen[rows], dtype=torch.float32)
            self._stack.ideal[rows] = ideal - BELOW_SEEN

    def _warm_up(self, round: int, places: IntArray) -> Tensor | None:
        """Return weights that are all on the first objective, one row per client; else None."""
        if round > self.settings.warm_up * self._rounds:
            return None
        return torch.eye(len(self._problem.objectives))[:1].repeat(len(places), 1)

    def _steps_of_passes(
        self, passes: float | Callable[[Tree], Tensor], fleet: Fleet, rows: IntArray
    ) -> IntArray:
        """Return the number of steps that make these passes over each client's data."""
        count: FloatArray = np.full(len(rows), passes if isinstance(passes, float) else np.nan)
        if not isinstance(passes, float):
            count = in_double(self._stack.each(passes, fleet.select(rows).tensors))
        whole = np.ceil(self.sizes[rows] / self._data.batch_sizes[rows])
        return np.maximum(np.rint(count * whole), count > 0).astype(np.int64)

    def train_per_objective(self, fleet: Fleet, rows: IntArray, task: Task) -> Fleet:
        """Return copies of the models, each trained on one objective in the first phase."""
        count = len(self._problem.objectives)
        copies = fleet.select(np.repeat(rows, count)).clone()
        steps = np.maximum(task.goal - self._steps[rows], 0) * task.phases[0].repeat
        self._optimiser_steps[rows] = steps
        for places in self._cohorts(rows, steps):
            inside = (places[:, None] * count + np.arange(count)).ravel()
            weights = torch.eye(count).repeat(len(places), 1)
            owners, lines = np.repeat(rows[places], count), np.repeat(places, count)
            with copies.borrowed(inside) as models:
                self._run(models, PhasePlan(task, 0, owners, lines, steps[lines], weights))
        self._steps[rows] = np.maximum(self._steps[rows], task.goal)
        return copies

    def _cohorts(self, rows: IntArray, steps: IntArray) -> Iterator[IntArray]:
        """Yield clients (as places in ``rows``) with batches of equal size and steps to take.

        Networks that are not mapped train one client after the other: one network fits into the
        processor's caches.
        """
        if not self._stack.mapped:
            yield from (np.array([place]) for place in np.flatnonzero(steps > 0))
            return
        sizes = self._data.batch_sizes[rows]
        for size in sorted(set(sizes[steps > 0].tolist())):
            yield np.flatnonzero((sizes == size) & (steps > 0))

    def _run(self, models: Fleet, plan: PhasePlan) -> None:
        """Take the steps of a plan on fresh batches, in place."""
        purpose = f"batches {plan.number}" if plan.number else "batches"
        most, repeat = int(plan.steps.max()), plan.phase.repeat
        batches = self._data.batches(plan.owners, -(-most // repeat), purpose, plan.task.round)
        batches = batches.repeat_interleave(repeat, dim=1) if repeat > 1 else batches
        self._count_skipped(plan, batches)
        self._descent.run(models, plan, batches)

    def _jacobians(self, models: Fleet, rows: IntArray, round: int) -> Fleet:
        """Return ∇f_k of each client, one row per objective, each on a batch of its own."""
        trained, count = self._stack.trained, len(self._problem.objectives)
        gradients = {n: torch.zeros(len(rows), count, *models[n].shape[1:]) for n in trained}
        sizes = self._data.batch_sizes[rows]
        self._stack.module.train()
        for size in sorted(set(sizes)):
            places = np.flatnonzero(sizes == size)
            batches = self._data.batches(rows[places], count, "survey", round)
            for k in range(count):
                tensors = {n: t.detach().clone() for n, t in models.select(places).tensors.items()}
                leaves = [tensors[name].requires_grad_() for name in trained]
                batch = self._data.gather(batches[:, k])
                draw = DrawKey(round, np.full(len(places), -1 - k))
                losses = self._stack.losses(tensors, batch, rows[places], draw)
                grads = torch.autograd.grad(losses[:, k].sum(), leaves, materialize_grads=True)
                for name, gradient in zip(trained, grads, strict=True):
                    gradients[name][places, k] = gradient
        return Fleet({name: tensor.flatten(0, 1) for name, tensor in gradients.items()})

    def _count_skipped(self, plan: PhasePlan, batches: Tensor) -> None:
        """Count the loss terms that are undefined in the batches of the steps of a plan."""
        if self._problem.defines("undefined"):
            terms: Callable[..., Tensor] = vmap(vmap(self._problem.undefined))
            counts = terms(self._data.gather(batches, inputs=False)).sum(dim=2).numpy(force=True)
            taken = np.arange(batches.shape[1]) < plan.steps[:, None]
            np.add.at(self._skipped, plan.owners, (counts * taken).sum(axis=1))

    # -- persistence -----------------------------------------------------------------------

    def state(self) -> NamedArrays:
        """Return counts of steps and of skipped terms, and the smallest losses where they count."""
        seen = {"least_seen": self._least_seen} if self.settings.ideal == "seen" else {}
        return {"steps": self._steps, "skipped": self._skipped, **seen}

    def load(self, state: NamedArrays) -> None:
        """Take back what `state` returned."""
        self._steps, self._skipped = state["steps"].copy(), state["skipped"].copy()
        if "least_seen" in state:
            self._least_seen = state["least_seen"].copy()
