"""Descent: the steps that a crew of clients takes in one phase of a round."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import grad, vmap

from comity.core.fleet import Fleet
from comity.core.phases import Batch, Phase, Update, View
from comity.core.rng import stream
from comity.core.typing import IntArray, Tree
from comity.errors import UserError
from comity.learners.adam import Adam, adam_step
from comity.learners.base import Task
from comity.learners.scalarisation import direction_of, smooth_tchebycheff
from comity.learners.sgd import sgd_step
from comity.learners.supervised.client_data import taken
from comity.learners.supervised.cohort import Cohort
from comity.learners.supervised.compiling import Programs, Trees, compiler
from comity.learners.supervised.settings import SupervisedSettings
from comity.learners.supervised.stack import Draw, Stacked


class Descent:
    """Takes steps with stacked models; a crew's clients all have batches of the same size."""

    def __init__(
        self, stacked: Stacked, settings: SupervisedSettings, clients: tuple[int, ...], seed: int
    ) -> None:
        self.settings, self._stacked, self._holdings = settings, stacked, stacked.holdings
        self._clients, self._seed = clients, seed
        self.remarks: list[str] = []
        self._programs: Programs | None = None
        if settings.compile == "yes":
            if compiler() is None:
                raise UserError(
                    "supervised.compile = yes needs a C++ compiler (g++ or clang++), and there is "
                    "none. Install one, or use --set supervised.compile=no."
                )
            if stacked.mapped and settings.optimiser == "adam":
                self._programs = Programs()
                self.remarks.append("steps are compiled; their bits differ from uncompiled ones")
            else:
                self.remarks.append("not compiled: only Adam's steps of mapped networks are")

    def walk(
        self,
        models: Fleet,
        owners: IntArray,
        places: IntArray,
        task: Task,
        number: int,
        steps: IntArray,
        *,
        batches: Tensor,
        weights: Tensor | None = None,
        gradients: Fleet | None = None,
    ) -> None:
        """Take a phase's steps with the models of a crew, in place.

        ``owners`` says whose data each model sees, ``places`` where these clients are in the
        round's order. Objectives count as in ``weights``, unless the phase or the client's own
        scalarisation has a say; ``gradients`` are those that a survey took.
        """
        phase = task.phases[number]
        crew = self._crew(models, owners, *self._views(task, owners, places))
        if phase.weights is not None and weights is None:
            weigh = phase.weights
            weights = self._stacked.each(
                lambda r, b: weigh(View(r, b)), crew.received, crew.broadcast
            )
        if weights is not None:
            crew.aims, crew.given = weights, True
        names = [n for n in self._stacked.trained if any(fnmatchcase(n, p) for p in phase.train)]
        crew.first = {name: torch.zeros_like(crew.tensors[name]) for name in names}
        crew.second = {name: torch.zeros_like(crew.tensors[name]) for name in names}
        crew.batches = batches
        crew.drawn = self._drawn(phase, owners, steps, f"draws {number}", task.round)
        if phase.surveyed:
            crew.stored = _stored(gradients, names, places, crew.aims)
        whole = phase.before or phase.after_pass or phase.after
        everything = self._everything(owners) if whole else ({}, {})
        if phase.before is not None:
            crew.change(self._changed(phase.before, crew, everything))
        for begin, lengths, through in self._stretches(phase, owners, steps):
            done = 0
            for upto in sorted(set(lengths[lengths > 0].tolist())):
                busy = np.flatnonzero(lengths >= upto)
                part = crew.part(busy)
                self._steps(part, phase, (begin + done)[busy], upto - done, task.round)
                crew.take_back(busy, part)
                done = upto
            if phase.after_pass is not None:
                crew.passes = crew.passes + through
                crew.change(self._changed(phase.after_pass, crew, everything), through)
        if phase.after is not None:
            crew.change(self._changed(phase.after, crew, everything))

    def _stretches(
        self, phase: Phase, owners: IntArray, steps: IntArray
    ) -> Iterator[tuple[IntArray, IntArray, Tensor]]:
        """Where each client begins, how far it goes until all meet, and who is through its data.

        All go through their data side by side where something happens after each pass.
        """
        if phase.after_pass is None:
            yield np.zeros_like(steps), steps, torch.zeros(len(steps), dtype=torch.bool)
            return
        sizes, batch = self._holdings.sizes[owners], self._holdings.batch_sizes[owners]
        begin = np.zeros_like(steps)
        for number in range(1, int(np.ceil(steps * batch / sizes).max()) + 1):
            through = np.ceil(number * sizes / batch).astype(np.int64)
            end = np.minimum(through, steps)
            yield begin, end - begin, torch.from_numpy(through <= steps)
            begin = end

    def _steps(self, crew: Cohort, phase: Phase, begin: IntArray, count: int, round: int) -> None:
        """So many steps of all clients of a crew, each from the step where it is."""
        s, owners = self.settings, crew.owners
        names = list(crew.first)
        trained = [crew.tensors[name] for name in names]
        first, second = list(crew.first.values()), list(crew.second.values())
        adam = Adam(trained, first, second, s.weight_decay) if s.optimiser == "adam" else None
        rate = s.learning_rate if phase.rate is None else phase.rate
        self._stacked.module.train()
        program: Callable[[Trees], None] | None = None
        together = bool((begin == begin[0]).all())
        everybody = torch.arange(len(owners))
        for step in range(count):
            at = torch.from_numpy(begin + step)
            where = (slice(None), int(at[0])) if together else (everybody, at)
            index = crew.batches[where].contiguous()
            drawn = {name: values[where].contiguous() for name, values in crew.drawn.items()}
            stored = phase.surveyed and together and int(at[0]) == 0
            if self._fuses(crew, phase) and together and not stored:
                changing = (index, drawn, at[0].float())
                program = program or self._program(phase, crew, changing)
                program(changing)
                continue
            batch = self._holdings.gather(index)
            if stored:
                grads: Sequence[Tensor] = crew.stored
            else:
                leaves = [tensor.requires_grad_() for tensor in trained]
                total = self._total(phase, crew, batch, drawn, (round, begin + step))
                grads = torch.autograd.grad(total, leaves, materialize_grads=True)
                for leaf in leaves:
                    leaf.requires_grad_(False)
            if adam is not None:
                adam.step(grads, at.float(), rate)
            else:
                sgd_step(trained, grads, first, rate, s.momentum, s.weight_decay)
            if phase.after_step is not None:
                given = dict(zip(names, grads, strict=True))
                crew.change(self._corrected(phase.after_step, crew, given, drawn))

    def _total(
        self, phase: Phase, crew: Cohort, batch: dict[str, Tensor], drawn: Tree, draw: Draw
    ) -> Tensor:
        """What the steps of all models of a crew make smaller, summed."""
        if phase.loss is None:
            losses = self._stacked.losses(crew.tensors, batch, crew.owners, draw)
            total = self._scalarised(losses, crew.aims, crew.given).sum()
        else:
            lose = phase.loss

            def of_one(tensors: Tree, batch: Batch, *seen: Any) -> Tensor:
                return lose(tensors, batch, self._view(crew.given, *seen))

            seen = (crew.received, crew.broadcast, drawn, crew.passes, crew.scale, crew.aims)
            each = self._stacked.each
            total = each(of_one, crew.tensors, batch, *seen, owners=crew.owners, draw=draw).sum()
        penalty = phase.penalty
        if penalty is None:
            return total
        pulls: Tensor = vmap(lambda t, r, b: penalty(t, View(r, b)))(
            crew.tensors, crew.received, crew.broadcast
        )
        return total + pulls.sum()

    def _fuses(self, crew: Cohort, phase: Phase) -> bool:
        """Whether steps are compiled.

        Batches smaller than asked for come in many sizes, and each would need its program.
        """
        full = crew.batches.shape[-1] == self.settings.batch_size
        return self._programs is not None and full and phase.after_step is None

    def _program(self, phase: Phase, crew: Cohort, changing: Trees) -> Callable[[Trees], None]:
        """The steps of a crew, compiled."""
        assert self._programs is not None
        fixed = (
            self._holdings.columns, crew.tensors, crew.first, crew.second,
            crew.received, crew.broadcast, crew.passes, crew.scale, crew.aims,
        )  # fmt: skip
        name = (phase, crew.given, tuple(crew.broadcast))
        step = partial(self._fused_step, phase, crew.given)
        return self._programs.bound(name, step, fixed, changing)

    def _fused_step(
        self,
        phase: Phase,
        given: bool,
        columns: Tree,
        tensors: Tree,
        first: Tree,
        second: Tree,
        received: Tree,
        broadcast: Tree,
        passes: Tensor,
        scale: Tensor,
        aims: Tensor,
        index: Tensor,
        drawn: Tree,
        count: Tensor,
    ) -> None:
        """One step as one program, written for one client and mapped: what is compiled."""

        def of_one(trained: Tree, tensors: Tree, batch: Batch, aim: Tensor, *seen: Any) -> Tensor:
            parameters, view = {**tensors, **trained}, self._view(given, *seen, aim)
            if phase.loss is None:
                total = view.objective(view.forward(parameters, batch["inputs"]), batch)
            else:
                total = phase.loss(parameters, batch, view)
            if phase.penalty is not None:
                total = total + phase.penalty(parameters, view)
            return total

        trained = {name: tensors[name] for name in first}
        seen = (received, broadcast, drawn, passes, scale)
        grads = vmap(grad(of_one))(trained, tensors, taken(columns, index), aims, *seen)
        rate = self.settings.learning_rate if phase.rate is None else phase.rate
        adam_step(
            list(trained.values()),
            [grads[name] for name in first],
            list(first.values()),
            list(second.values()),
            count,
            rate,
            self.settings.weight_decay,
        )

    def _aims(self, owners: IntArray) -> Tensor:
        """What each model's losses are weighed by: importance, or the direction it stands for."""
        importance = self._stacked.preferences[owners]
        if self.settings.scalarisation == "linear":
            return importance
        return direction_of(importance, self.settings.least_weight)

    def _scalarised(self, losses: Tensor, aims: Tensor, given: bool) -> Tensor:
        if given or self.settings.scalarisation == "linear":
            return (aims * losses).sum(dim=-1)
        return smooth_tchebycheff(losses, aims, self.settings.smoothing)

    @torch.no_grad()
    def _corrected(
        self, correct: Callable[[Tree, Tree, View], Tree], crew: Cohort, grads: Tree, drawn: Tree
    ) -> Tree:
        """What changes after a step beside what the optimiser did."""

        def of_one(tensors: Tree, grads: Tree, *seen: Any) -> Tree:
            return correct(tensors, grads, self._view(crew.given, *seen))

        seen = (crew.received, crew.broadcast, drawn, crew.passes, crew.scale, crew.aims)
        changed: Tree = self._stacked.each(of_one, crew.tensors, grads, *seen)
        return changed

    def _drawn(
        self, phase: Phase, owners: IntArray, steps: IntArray, purpose: str, round: int
    ) -> Tree:
        """The random numbers of all steps, each client's from a stream of its own."""
        if phase.draw is None:
            return {}
        most, drawn = int(steps.max()), []
        for owner, count in zip(owners.tolist(), steps.tolist(), strict=True):
            generator = stream(self._seed, purpose, round, self._clients[owner])
            values = phase.draw(generator, count, int(self._holdings.batch_sizes[owner]))
            drawn.append({name: np.resize(v, (most, *v.shape[1:])) for name, v in values.items()})
        return {n: torch.from_numpy(np.stack([d[n] for d in drawn])).float() for n in drawn[0]}

    @torch.no_grad()
    def said(self, update: Update, models: Fleet, rows: IntArray) -> Tree:
        """What an update says of models that some clients hold and of all their samples."""
        received = models.group(*self._stacked.trained).tensors
        crew = self._crew(models, rows, received, {})
        return self._changed(update, crew, self._everything(rows))

    def _view(self, given: bool, *seen: Any) -> View:
        """What one client may look at; made inside a mapped hook."""
        *shown, aim = seen
        view = self._stacked.view(*shown)

        def objective(outputs: Tensor, batch: Batch) -> Tensor:
            return self._scalarised(view.losses(outputs, batch), aim, given)

        return replace(view, rate=self.settings.learning_rate, objective=objective)

    def _crew(self, models: Fleet, owners: IntArray, received: Tree, broadcast: Tree) -> Cohort:
        tensors = {name: tensor.detach() for name, tensor in models.tensors.items()}
        passes = torch.zeros(len(owners))
        scale, aims = self._stacked.scale[owners], self._aims(owners)
        return Cohort(owners, tensors, received, broadcast, scale, passes, aims)

    def _views(self, task: Task, owners: IntArray, places: IntArray) -> tuple[Tree, Tree]:
        """What some clients received and were told; ``places`` are theirs in the round's order."""
        received = task.start.group(*self._stacked.trained).select(owners).tensors
        broadcast = {k: torch.from_numpy(v[places]).float() for k, v in task.broadcast.items()}
        return received, broadcast

    def _everything(self, owners: IntArray) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """All training and validation samples; what only fills up has no weight."""
        parts = [self._holdings.part(purpose, owners) for purpose in ("train", "validation")]
        return self._holdings.gather(*parts[0]), self._holdings.gather(*parts[1])

    @torch.no_grad()
    def _changed(
        self, update: Update, crew: Cohort, everything: tuple[dict[str, Tensor], dict[str, Tensor]]
    ) -> Tree:
        """What an update says of all samples of each client of a crew."""

        def of_one(tensors: Tree, batch: Batch, validation: Batch, *seen: Any) -> Tree:
            view = replace(self._view(crew.given, *seen), validation=validation)
            return update(tensors, batch, view)

        self._stacked.module.eval()
        nothing: Tree = {}
        seen = (crew.received, crew.broadcast, nothing, crew.passes, crew.scale, crew.aims)
        changed: Tree = self._stacked.each(of_one, crew.tensors, *everything, *seen)
        return changed


def _stored(
    gradients: Fleet | None, names: Sequence[str], places: IntArray, weights: Tensor
) -> list[Tensor]:
    """Σ_k w_k ∇f_k with the gradients that the survey took."""
    assert gradients is not None, "an algorithm reuses gradients that it did not ask for"
    count = weights.shape[1]
    summed = []
    for name in names:
        stacked = gradients[name]
        each = stacked.reshape(-1, count, *stacked.shape[1:])[places]
        summed.append(torch.einsum("nk,nk...->n...", weights.to(each.dtype), each))
    return summed
