"""Descent: the steps that a cohort of clients takes in one phase of a round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.func import grad, vmap

from comity.core.fleet import Fleet
from comity.core.phases import Batch, Phase, Update, View, summed
from comity.core.rng import stream
from comity.core.scalarisations import linear
from comity.core.typing import IntArray, Tree
from comity.errors import UserError
from comity.learners.adam import Adam, adam_step
from comity.learners.sgd import sgd_step
from comity.learners.supervised.client_data import take_samples
from comity.learners.supervised.cohort import Cohort, ViewTensors
from comity.learners.supervised.compiling import Programs, compiler
from comity.learners.supervised.plan import PhasePlan, stretches
from comity.learners.supervised.settings import SupervisedSettings
from comity.learners.supervised.stack import DrawKey, NetworkStack

_Samples = tuple[dict[str, Tensor], dict[str, Tensor]]  # all for training, all for validation


class StepState(NamedTuple):
    """Tensors that all compiled steps of a cohort share."""

    columns: Tree
    """All samples of the problem."""
    tensors: Tree
    """The models."""
    first: Tree
    """First moments."""
    second: Tree
    """Second moments."""
    view: ViewTensors
    """Tensors that hooks may look at, without the random numbers of a step."""


class StepInputs(NamedTuple):
    """Tensors that are new in every compiled step of a cohort."""

    batch: Tensor
    """Index of the batch (models x batch)."""
    drawn: Tree
    """Random numbers of the step."""
    done: Tensor
    """Number of steps that were taken before."""


class Descent:
    """Steps of stacked models, cohort by cohort.

    Args:
        stack: The networks and samples of all clients.
        settings: Settings of the learner.
        clients: Number of each client in the federation, in the order of the fleet's rows.
        seed: Seed of the run.
    """

    def __init__(
        self, stack: NetworkStack, settings: SupervisedSettings, clients: tuple[int, ...], seed: int
    ) -> None:
        self.settings, self._stack, self._data = settings, stack, stack.data
        self._clients, self._seed = clients, seed
        self._scalarisation = settings.scalarised()
        self.remarks: list[str] = []
        """Warnings about how steps are taken, for `Learner.remarks`."""
        self._programs: Programs | None = None
        if settings.compile == "yes":
            if compiler() is None:
                raise UserError(
                    "supervised.compile = yes needs a C++ compiler (g++ or clang++), and there is "
                    "none. Install one, or use --set supervised.compile=no."
                )
            if stack.mapped and settings.optimiser == "adam":
                self._programs = Programs()
                self.remarks.append("steps are compiled; their bits differ from uncompiled ones")
            else:
                self.remarks.append("not compiled: only Adam's steps of mapped networks are")

    def run(self, models: Fleet, plan: PhasePlan, batches: Tensor) -> None:
        """Take a phase's steps with the models of a cohort, in place.

        Args:
            models: The models, one row per entry of the plan.
            plan: The work. Objectives count by ``plan.weights``, else by the weights of the
                phase, else by the client's preference and the scalarisation of the settings.
            batches: Index of the batches of all steps (models, steps, batch).
        """
        phase = plan.phase
        cohort = self._cohort(models, plan.owners, *self._received(plan))
        cohort.view = cohort.view._replace(steps=torch.as_tensor(plan.steps, dtype=torch.float32))
        weights = plan.weights
        if phase.weights is not None and weights is None:
            weigh, view = phase.weights, cohort.view
            weights = self._stack.each(
                lambda r, b: weigh(View(r, b)), view.received, view.broadcast
            )
        if weights is not None:
            cohort.view, cohort.linear = cohort.view._replace(aims=weights), True
        names = [n for n in self._stack.trained if any(fnmatchcase(n, p) for p in phase.train)]
        cohort.trained, adam = tuple(names), self.settings.optimiser == "adam"
        if adam or self.settings.momentum:
            cohort.first = {name: torch.zeros_like(cohort.tensors[name]) for name in names}
        if adam:
            cohort.second = {name: torch.zeros_like(cohort.tensors[name]) for name in names}
        cohort.batches = batches
        if phase.surveyed:
            cohort.survey_gradients = _weighted(
                plan.task.gradients, names, plan.places, cohort.view.aims
            )
        samples: _Samples = ({}, {})
        if phase.before or phase.after_pass or phase.after:
            samples = self._all_samples(plan.owners)
        if phase.before is not None:
            cohort.change(self._apply(phase.before, cohort, samples))
        cohort.drawn = self._draw(plan, cohort.tensors)
        for stretch in stretches(plan, self._data):
            done = 0
            for length in sorted(set(stretch.lengths[stretch.lengths > 0].tolist())):
                busy = np.flatnonzero(stretch.lengths >= length)
                part = cohort.part(busy)
                begin = (stretch.begin + done)[busy]
                self._steps(part, phase, begin, length - done, plan.task.round)
                cohort.put_back(busy, part)
                done = length
            if phase.after_pass is not None:
                passes = cohort.view.passes + stretch.complete
                cohort.view = cohort.view._replace(passes=passes)
                cohort.change(self._apply(phase.after_pass, cohort, samples), stretch.complete)
        if phase.after is not None:
            cohort.change(self._apply(phase.after, cohort, samples))

    def _steps(self, cohort: Cohort, phase: Phase, begin: IntArray, count: int, round: int) -> None:
        """Take ``count`` steps with all models of a cohort, each from its own step ``begin``."""
        s, owners = self.settings, cohort.owners
        names = cohort.trained
        trained = [cohort.tensors[name] for name in names]
        first, second = list(cohort.first.values()), list(cohort.second.values())
        adam = Adam(trained, first, second, s.weight_decay) if s.optimiser == "adam" else None
        rate = s.learning_rate if phase.rate is None else phase.rate
        self._stack.module.train()
        program: Callable[[StepInputs], None] | None = None
        together = bool((begin == begin[0]).all())
        models = torch.arange(len(owners))
        for step in range(count):
            at, first_at = torch.as_tensor(begin + step), int(begin[0]) + step
            where = (slice(None), first_at) if together else (models, at)
            index = cohort.batches[where].contiguous()
            drawn = {name: values[where].contiguous() for name, values in cohort.drawn.items()}
            surveyed = phase.surveyed and together and first_at == 0
            if self._fuses(cohort, phase) and together and not surveyed:
                inputs = StepInputs(index, drawn, at[0].float())
                program = program or self._program(phase, cohort, inputs)
                program(inputs)
                continue
            batch, view = self._data.gather(index), cohort.view._replace(drawn=drawn)
            if surveyed:
                grads: Sequence[Tensor] = cohort.survey_gradients
            else:
                leaves = [tensor.requires_grad_() for tensor in trained]
                total = self._total(phase, cohort, batch, view, DrawKey(round, begin + step))
                grads = torch.autograd.grad(total, leaves, materialize_grads=True)
                for leaf in leaves:
                    leaf.requires_grad_(False)
            if adam is not None:
                adam.step(grads, at.float(), rate)
            else:
                sgd_step(trained, grads, first, rate, s.momentum, s.weight_decay)
            if phase.after_step is not None:
                by_name = dict(zip(names, grads, strict=True))
                cohort.change(self._correct(phase.after_step, cohort, by_name, view))

    def _total(
        self,
        phase: Phase,
        cohort: Cohort,
        batch: dict[str, Tensor],
        view: ViewTensors,
        draw: DrawKey,
    ) -> Tensor:
        """Return the sum over a cohort of what its models minimise."""
        if phase.loss is None:
            losses = self._stack.losses(cohort.tensors, batch, cohort.owners, draw)
            total = self._scalarise(losses, view, cohort.linear).sum()
        else:
            loss = phase.loss

            def client_loss(tensors: Tree, batch: Batch, view: ViewTensors) -> Tensor:
                return loss(tensors, batch, self._view(view, cohort.linear))

            total = self._stack.each(
                client_loss, cohort.tensors, batch, view, owners=cohort.owners, draw=draw
            ).sum()
        penalty = phase.penalty
        if penalty is None:
            return total
        penalties: Tensor = vmap(lambda t, r, b: penalty(t, View(r, b)))(
            cohort.tensors, view.received, view.broadcast
        )
        return total + summed(penalties)

    def _fuses(self, cohort: Cohort, phase: Phase) -> bool:
        """Return whether steps are compiled.

        Batches smaller than the setting have many sizes, and each would need its own program.
        """
        full = cohort.batches.shape[-1] == self.settings.batch_size
        return self._programs is not None and full and phase.after_step is None

    def _program(
        self, phase: Phase, cohort: Cohort, inputs: StepInputs
    ) -> Callable[[StepInputs], None]:
        """Return the steps of a cohort as a compiled program."""
        assert self._programs is not None
        state = StepState(
            self._data.columns, cohort.tensors, cohort.first, cohort.second, cohort.view
        )
        name = (phase, cohort.linear, tuple(cohort.view.broadcast))
        step = partial(self._fused_step, phase, cohort.linear)
        return self._programs.bind(name, step, state, inputs)

    def _fused_step(self, phase: Phase, linear: bool, state: StepState, inputs: StepInputs) -> None:
        """Take one step, written for one client and mapped: the function that is compiled."""

        def client_loss(trained: Tree, tensors: Tree, batch: Batch, view: ViewTensors) -> Tensor:
            parameters, shown = {**tensors, **trained}, self._view(view, linear)
            if phase.loss is None:
                total = shown.objective(shown.forward(parameters, batch["inputs"]), batch)
            else:
                total = phase.loss(parameters, batch, shown)
            if phase.penalty is not None:
                total = total + phase.penalty(parameters, shown)
            return total

        trained = {name: state.tensors[name] for name in state.first}
        batch, view = take_samples(state.columns, inputs.batch), state.view
        grads = vmap(grad(client_loss))(
            trained, state.tensors, batch, view._replace(drawn=inputs.drawn)
        )
        rate = self.settings.learning_rate if phase.rate is None else phase.rate
        adam_step(
            list(trained.values()),
            [grads[name] for name in state.first],
            list(state.first.values()),
            list(state.second.values()),
            inputs.done,
            rate,
            self.settings.weight_decay,
        )

    def _scalarise(self, losses: Tensor, view: ViewTensors, weighted: bool) -> Tensor:
        """Return one loss per model; ``weighted``: by plain weights, whatever the settings say."""
        if weighted or self._scalarisation.kind == "linear":
            return linear(losses, view.aims)
        return self._scalarisation.value(losses - view.ideal, view.aims)

    @torch.no_grad()
    def _correct(
        self,
        after_step: Callable[[Tree, Tree, View], Tree],
        cohort: Cohort,
        grads: Tree,
        view: ViewTensors,
    ) -> Tree:
        """Return the tensors that a phase changes after the optimiser's step."""

        def client_correction(tensors: Tree, grads: Tree, view: ViewTensors) -> Tree:
            return after_step(tensors, grads, self._view(view, cohort.linear))

        changes: Tree = self._stack.each(client_correction, cohort.tensors, grads, view)
        return changes

    def _draw(self, plan: PhasePlan, tensors: Tree) -> Tree:
        """Return the random numbers of all steps, each client's from a stream of its own."""
        draw, steps = plan.phase.draw, plan.steps
        if draw is None:
            return {}
        most, purpose, clients = int(steps.max()), f"draws {plan.number}", []
        for place, (owner, count) in enumerate(zip(plan.owners, steps, strict=True)):
            generator = stream(self._seed, purpose, plan.task.round, self._clients[owner])
            parameters = {name: tensor[place] for name, tensor in tensors.items()}
            values = draw(generator, int(count), int(self._data.batch_sizes[owner]), parameters)
            clients.append({n: np.resize(v, (most, *v.shape[1:])) for n, v in values.items()})
        stacked = {n: np.stack([client[n] for client in clients]) for n in clients[0]}
        return {n: torch.as_tensor(values, dtype=torch.float32) for n, values in stacked.items()}

    @torch.no_grad()
    def survey(self, update: Update, models: Fleet, rows: IntArray) -> Tree:
        """Return what an update computes from clients' models and all their samples.

        Args:
            update: A function of one client's tensors, training samples and view.
            models: The models, one per client of ``rows``.
            rows: The clients, as rows of the fleet.
        """
        received = models.group(*self._stack.trained).tensors
        cohort = self._cohort(models, rows, received, {})
        return self._apply(update, cohort, self._all_samples(rows))

    def _view(self, tensors: ViewTensors, linear: bool) -> View:
        """Return the view of one client with its objective; made inside a mapped hook."""
        view = self._stack.view(tensors)

        def objective(outputs: Tensor, batch: Batch) -> Tensor:
            return self._scalarise(view.losses(outputs, batch), tensors, linear)

        return replace(view, rate=self.settings.learning_rate, objective=objective)

    def _cohort(self, models: Fleet, owners: IntArray, received: Tree, broadcast: Tree) -> Cohort:
        """Return models as a cohort, before its first step."""
        tensors = {name: tensor.detach() for name, tensor in models.tensors.items()}
        none = torch.zeros(len(owners))
        scale, ideal = self._stack.scale[owners], self._stack.ideal[owners]
        aims = self._scalarisation.aims(self._stack.preferences[owners])
        view = ViewTensors(received, broadcast, {}, none, none, scale, ideal, aims)
        return Cohort(owners, tensors, view)

    def _received(self, plan: PhasePlan) -> tuple[Tree, Tree]:
        """Return what each model's owner received, and what was broadcast to it."""
        task, places = plan.task, plan.places
        received = task.start.group(*self._stack.trained).view(plan.owners).tensors
        broadcast = {
            k: torch.as_tensor(v[places], dtype=torch.float32) for k, v in task.broadcast.items()
        }
        return received, broadcast

    def _all_samples(self, owners: IntArray) -> _Samples:
        """Return all training and validation samples; what fills up has no weight."""
        parts = [self._data.part(purpose, owners) for purpose in ("train", "validation")]
        return self._data.gather(*parts[0]), self._data.gather(*parts[1])

    @torch.no_grad()
    def _apply(self, update: Update, cohort: Cohort, samples: _Samples) -> Tree:
        """Return the tensors that an update gives for all samples of each client of a cohort."""

        def client_update(
            tensors: Tree, batch: Batch, validation: Batch, view: ViewTensors
        ) -> Tree:
            shown = replace(self._view(view, cohort.linear), validation=validation)
            return update(tensors, batch, shown)

        self._stack.module.eval()
        changes: Tree = self._stack.each(client_update, cohort.tensors, *samples, cohort.view)
        return changes


def _weighted(
    gradients: Fleet | None, names: Sequence[str], places: IntArray, weights: Tensor
) -> list[Tensor]:
    """Return Σ_k w_k ∇f_k with the gradients that the survey took, one tensor per name."""
    assert gradients is not None, "an algorithm reuses gradients that it did not ask for"
    count = weights.shape[1]
    sums = []
    for name in names:
        stacked = gradients[name]
        each = stacked.reshape(-1, count, *stacked.shape[1:])[places]
        sums.append(torch.einsum("nk,nk...->n...", weights.to(each.dtype), each))
    return sums
