"""Supervised learning on several objectives for all clients of a fleet at once.

Any network, any vector of differentiable losses. Clients whose batches have the same size are a
*crew*: one stack of tensors, one gradient, one step. Clients with fewer samples than a batch use
all they have, and so form crews of their own: nothing is padded while training, because a loss may
speak of a batch as a whole. The optimiser starts afresh in every round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import grad, vmap

from comity.errors import UserError
from comity.fleet import Fleet, Tree, forward, one_by_one
from comity.learners.adam import Adam, adam_step
from comity.learners.compiling import compiler
from comity.learners.holdings import Holdings
from comity.learners.learner import LearnerSettings, Rows, Task, Values
from comity.learners.scalarisation import direction_of, smooth_tchebycheff
from comity.learners.sgd import sgd_step
from comity.local import Batch, Phase, View
from comity.problems.problem import Problem
from comity.problems.samples import DataProblem
from comity.settings import setting
from comity.streams import torch_seeded

_LEAST_LOSS = 1e-3  # an untrained network may be fair by accident: no loss is divided by less
_PIECE = 1024  # samples of a client that are judged at once
_PAYS = 200_000  # client steps from which the seconds that compiling takes are earned back


class SupervisedSettings(LearnerSettings):
    """Settings of supervised learning; each problem brings its own defaults."""

    learning_rate: float = setting(1e-3, "step size", above=0)
    batch_size: int = setting(256, "samples in one step; all where a client has less", at_least=1)
    optimiser: Literal["adam", "sgd"] = setting("adam", "adam or sgd; starts afresh every round")
    momentum: float = setting(0.0, "momentum of sgd", at_least=0, below=1)
    scalarisation: Literal["linear", "smooth-tchebycheff"] = setting(
        "linear", "how a preference makes one loss of several"
    )
    smoothing: float = setting(1.0, "smooth-tchebycheff: larger is closer to the maximum", above=0)
    least_weight: float = setting(
        0.01, "smooth-tchebycheff: a preference is raised to this", above=0, at_most=0.5
    )
    normalise: bool = setting(True, "divide each loss by what it is for the initial model")
    compile: Literal["auto", "yes", "no"] = setting(
        "auto", "fuse the steps with torch.compile; auto: where the run is long enough to pay"
    )
    local_steps: int = setting(25, "steps a client takes in a round", at_least=1)
    total_steps: int = setting(1500, "steps a client takes in all", at_least=1)

    def decided(self, stack: int) -> Self:
        """With what depends on the length of the run written down: compiled bits are others."""
        if self.compile != "auto":
            return self
        pays = stack * self.total_steps >= _PAYS and compiler() is not None
        return self.model_copy(update={"compile": "yes" if pays else "no"})


class Supervised:
    """See the module's docstring."""

    differentiable: ClassVar[bool] = True

    def __init__(
        self,
        problem: DataProblem,
        settings: SupervisedSettings,
        clients: tuple[int, ...],
        preferences: NDArray[np.float64],
        seed: int,
        fleet: Fleet,
    ) -> None:
        self.settings, self._problem, self._clients, self._seed = settings, problem, clients, seed
        self._module = problem.model()
        self._trained = [name for name, _ in self._module.named_parameters()]
        self._holdings = Holdings(problem, clients, seed, settings.batch_size)
        self._preferences = torch.from_numpy(preferences).float()
        self._steps = np.zeros(len(clients), dtype=np.int64)
        self._skipped = np.zeros(len(clients), dtype=np.int64)
        self._gradients: Fleet | None = None
        self._scale = torch.ones(len(clients), len(problem.objectives))
        self._remarks: list[str] = []
        self._forward = forward(self._module)
        self._mapped = True
        if obstacle := self._obstacle(fleet):
            self._mapped, self._forward = False, one_by_one(self._module)
            self._remarks.append(
                f"the network cannot be run for all clients at once ({obstacle}); clients are "
                "trained one by one, which is slower"
            )
        self._fused: Any = None
        if settings.compile == "yes":
            if compiler() is None:
                raise UserError(
                    "supervised.compile = yes needs a C++ compiler (g++ or clang++), and there is "
                    "none. Install one, or use --set supervised.compile=no."
                )
            if self._mapped and settings.optimiser == "adam":
                self._fused = torch.compile(self._fused_step)
                self._remarks.append("steps are compiled; their bits differ from uncompiled ones")
            else:
                self._remarks.append("not compiled: only Adam's steps of mapped networks are")
        if settings.normalise:
            first = self._whole_losses(fleet.tensors, np.arange(len(clients)))
            self._scale = first.clamp(min=_LEAST_LOSS)

    @classmethod
    def check(cls, problem: Problem) -> None:
        if not isinstance(problem, DataProblem):
            raise UserError(
                f"problem {problem.name}: its clients have environments, not data, so supervised "
                'learning cannot learn it; give the problem learner="dqn" or "ddpg".'
            )

    def _obstacle(self, fleet: Fleet) -> str | None:
        """Why the network cannot be run for all clients at once, tried on two samples."""
        if set(fleet) - set(self._trained):
            return "it keeps statistics of its batches"
        everybody = np.arange(len(self._clients))
        two = self._holdings.gather(self._holdings.part("train", everybody)[0][:, :2])
        tensors = {k: t.detach().requires_grad_() for k, t in fleet.tensors.items()}
        try:
            losses = self._losses(tensors, two, everybody)
            torch.autograd.grad(losses.sum(), list(tensors.values()), materialize_grads=True)
        except (RuntimeError, ValueError, TypeError) as error:
            return str(error).strip().splitlines()[0]
        return None

    @property
    def steps(self) -> Rows:
        return self._steps

    @property
    def sizes(self) -> NDArray[np.float64]:
        return self._holdings.sizes

    @property
    def remarks(self) -> tuple[str, ...]:
        return tuple(self._remarks)

    @property
    def skipped(self) -> Rows:
        return self._skipped

    # -- around training -------------------------------------------------------------------

    def receive(self, rows: Rows, received: Fleet) -> None:
        """Nothing is kept beside the model."""

    def restart(self, rows: Rows, models: Fleet) -> None:
        """Nothing is kept beside the model."""

    def companions(self) -> Fleet | None:
        return None

    @torch.no_grad()
    def judge(
        self, fleet: Fleet, rows: Rows, purpose: str, episodes: int
    ) -> tuple[NDArray[np.float64], Rows]:
        """Scores on each client's validation or test samples, or on the test of everyone."""
        index, weight = self._holdings.part(purpose, rows)
        outputs = self._outputs(fleet.select(rows).tensors, index, rows)
        batch = self._holdings.gather(index, weight, inputs=False)
        return self._problem.judged(outputs, batch), np.zeros(len(rows), dtype=np.int64)

    def survey(
        self, fleet: Fleet, rows: Rows, asked: Sequence[str], round: int
    ) -> tuple[Values, Fleet | None]:
        """Losses over all training samples; gradients, each objective's on a batch of its own."""
        values: Values = {}
        if "losses" in asked:
            losses = self._whole_losses(fleet.select(rows).tensors, rows) / self._scale[rows]
            values["losses"] = losses.double().numpy()
        if "preferences" in asked:
            values["preferences"] = self._preferences[rows].double().numpy()
        self._gradients = None
        if "gradients" in asked:
            self._gradients = self._jacobians(fleet.select(rows), rows, round)
        return values, self._gradients

    # -- training --------------------------------------------------------------------------

    def train(self, fleet: Fleet, rows: Rows, task: Task) -> None:
        weights = None
        if task.phase.weights is not None:
            views = self._views(task, rows, np.arange(len(rows)))
            weights = vmap(lambda r, b: task.phase.weights(View(r, b)))(*views)  # type: ignore[misc]
        for places, steps in self._crews(rows, task):
            owners = rows[places]
            models = fleet.select(owners)
            chosen = None if weights is None else weights[places]
            self._descend(models, owners, places, task, steps, chosen)
            _give_back(fleet, owners, models)
        self._steps[rows] = np.maximum(self._steps[rows], task.goal)

    def train_apart(self, fleet: Fleet, rows: Rows, task: Task) -> Fleet:
        count = self._preferences.shape[1]
        copies = fleet.select(np.repeat(rows, count)).clone()
        for places, steps in self._crews(rows, task):
            inside = (places[:, None] * count + np.arange(count)).ravel()
            models = copies.select(inside)
            each = torch.eye(count).repeat(len(places), 1)
            owners, lines = np.repeat(rows[places], count), np.repeat(places, count)
            self._descend(models, owners, lines, task, steps, each)
            _give_back(copies, inside, models)
        self._steps[rows] = np.maximum(self._steps[rows], task.goal)
        return copies

    def _crews(self, rows: Rows, task: Task) -> Iterator[tuple[Rows, int]]:
        """Clients (as places in ``rows``) with equal batches and as many steps to take."""
        sizes = self._holdings.batch_sizes[rows]
        left = task.goal - self._steps[rows]
        for batch, steps in sorted({(b, s) for b, s in zip(sizes, left, strict=True) if s > 0}):
            yield np.flatnonzero((sizes == batch) & (left == steps)), int(steps)

    def _descend(
        self,
        models: Fleet,
        owners: Rows,
        places: Rows,
        task: Task,
        steps: int,
        weights: Tensor | None,
    ) -> None:
        """Take some steps with a crew's models, in place; ``owners`` says whose data they see."""
        tensors = {name: tensor.detach() for name, tensor in models.tensors.items()}
        trained = [tensors[name] for name in self._trained]
        first, second = ([torch.zeros_like(t) for t in trained] for _ in range(2))
        adam = Adam(trained, first, second) if self.settings.optimiser == "adam" else None
        aims, given = self._aims(owners) if weights is None else weights, weights is not None
        received, brief = self._views(task, owners, places)
        batches = self._holdings.batches(owners, steps, "batches", task.round)
        self._count_skipped(owners, batches)
        self._module.train()
        for number in range(steps):
            batch = self._holdings.gather(batches[:, number])
            count = torch.full((len(owners),), float(number))
            stored = number == 0 and task.phase.surveyed
            if self._fused is not None and not stored:
                self._fused(
                    task.phase, given, trained, first, second, count[0], batch, received, brief,
                    aims, self._scale[owners],
                )  # fmt: skip
                continue
            if stored:
                grads: Sequence[Tensor] = self._stored(places, aims)
            else:
                leaves = [tensor.requires_grad_() for tensor in trained]
                losses = self._losses(tensors, batch, owners, (task.round, number))
                total = self._scalarised(losses, aims, given).sum()
                total = total + self._penalty(task.phase, tensors, received, brief)
                grads = torch.autograd.grad(total, leaves, materialize_grads=True)
                for leaf in leaves:
                    leaf.requires_grad_(False)
            if adam is not None:
                adam.step(grads, count, self.settings.learning_rate)
            else:
                sgd_step(trained, grads, first, self.settings.learning_rate, self.settings.momentum)

    def _aims(self, owners: Rows) -> Tensor:
        """What each model's losses are weighed by: importance, or the direction it stands for."""
        importance = self._preferences[owners]
        if self.settings.scalarisation == "linear":
            return importance
        return direction_of(importance, self.settings.least_weight)

    def _scalarised(self, losses: Tensor, aims: Tensor, given: bool) -> Tensor:
        if given or self.settings.scalarisation == "linear":
            return (aims * losses).sum(dim=-1)
        return smooth_tchebycheff(losses, aims, self.settings.smoothing)

    def _penalty(self, phase: Phase, tensors: Tree, received: Tree, brief: Tree) -> Tensor:
        """The algorithm's own term, over the trained tensors of all models of the crew."""
        penalty = phase.penalty
        if penalty is None:
            return torch.zeros(())
        mine = {name: tensors[name] for name in self._trained}
        values: Tensor = vmap(lambda t, r, b: penalty(t, View(r, b)))(mine, received, brief)
        return values.sum()

    def _fused_step(
        self,
        phase: Phase,
        given: bool,
        trained: list[Tensor],
        first: list[Tensor],
        second: list[Tensor],
        count: Tensor,
        batch: Batch,
        received: Tree,
        brief: Tree,
        aims: Tensor,
        scale: Tensor,
    ) -> None:
        """One step as one program, written for one client and mapped: what is compiled."""

        def of_one(
            tensors: Tree, batch: Batch, received: Tree, brief: Tree, aim: Tensor, scale: Tensor
        ) -> Tensor:
            outputs = torch.func.functional_call(self._module, tensors, (batch["inputs"],))
            total = self._scalarised(self._problem.losses(outputs, batch) / scale, aim, given)
            if phase.penalty is not None:
                total = total + phase.penalty(tensors, View(received, brief))
            return total

        tensors = dict(zip(self._trained, trained, strict=True))
        grads = vmap(grad(of_one))(tensors, batch, received, brief, aims, scale)
        ordered = [grads[name] for name in self._trained]
        adam_step(trained, ordered, first, second, count, self.settings.learning_rate)

    def _jacobians(self, models: Fleet, rows: Rows, round: int) -> Fleet:
        """∇f_k of each client, one row an objective, each on a batch of its own."""
        count = self._preferences.shape[1]
        found = {n: torch.zeros(len(rows), count, *models[n].shape[1:]) for n in self._trained}
        sizes = self._holdings.batch_sizes[rows]
        self._module.train()
        for size in sorted(set(sizes)):
            places = np.flatnonzero(sizes == size)
            batches = self._holdings.batches(rows[places], count, "survey", round)
            for k in range(count):
                tensors = {n: t.detach().clone() for n, t in models.select(places).tensors.items()}
                leaves = [tensors[name].requires_grad_() for name in self._trained]
                batch = self._holdings.gather(batches[:, k])
                losses = self._losses(tensors, batch, rows[places], (round, -1 - k))
                grads = torch.autograd.grad(losses[:, k].sum(), leaves, materialize_grads=True)
                for name, value in zip(self._trained, grads, strict=True):
                    found[name][places, k] = value
        return Fleet({name: tensor.flatten(0, 1) for name, tensor in found.items()})

    def _stored(self, places: Rows, weights: Tensor) -> list[Tensor]:
        """Σ_k w_k ∇f_k with the gradients that the survey took."""
        assert self._gradients is not None, "an algorithm reuses gradients that it did not ask for"
        count = weights.shape[1]
        summed = []
        for name in self._trained:
            stacked = self._gradients[name]
            each = stacked.reshape(-1, count, *stacked.shape[1:])[places]
            summed.append(torch.einsum("nk,nk...->n...", weights.to(each.dtype), each))
        return summed

    # -- losses and batches ----------------------------------------------------------------

    def _losses(
        self, tensors: Tree, batch: dict[str, Tensor], owners: Rows, draw: tuple[int, int] = (0, 0)
    ) -> Tensor:
        """Normalised losses (models x objectives) on a batch of each model's owner."""
        outputs = self._run(tensors, batch["inputs"], owners, draw)
        losses: Tensor = vmap(self._problem.losses)(outputs, batch)
        return losses / self._scale[owners]

    def _run(self, tensors: Tree, inputs: Tensor, owners: Rows, draw: tuple[int, int]) -> Tensor:
        """The networks' outputs; one that draws random numbers draws from its client's stream."""
        if self._mapped or not self._module.training:
            return self._forward(tensors, inputs)
        outputs = []
        for place, owner in enumerate(owners):
            own = {name: tensor[place : place + 1] for name, tensor in tensors.items()}
            number = draw[1] % 2**31  # surveys count backwards
            with torch_seeded(self._seed, "network", draw[0], self._clients[owner], number):
                outputs.append(self._forward(own, inputs[place : place + 1]))
        return torch.cat(outputs)

    @torch.no_grad()
    def _whole_losses(self, tensors: Tree, rows: Rows) -> Tensor:
        """Losses of some models over all training samples of their clients."""
        index, weight = self._holdings.part("train", rows)
        batch = self._holdings.gather(index, weight, inputs=False)
        losses: Tensor = vmap(self._problem.losses)(self._outputs(tensors, index, rows), batch)
        return losses

    def _outputs(self, tensors: Tree, index: Tensor, rows: Rows) -> Tensor:
        """What models answer to many samples, a piece at a time."""
        self._module.eval()
        pieces = [
            self._run(tensors, self._holdings.gather(piece)["inputs"], rows, (0, 0))
            for piece in torch.split(index, _PIECE, dim=1)
        ]
        return torch.cat(pieces, dim=1)

    def _count_skipped(self, owners: Rows, batches: Tensor) -> None:
        undefined = self._problem.undefined
        if undefined is not None:
            batch = self._holdings.gather(batches, inputs=False)
            terms: Callable[..., Tensor] = vmap(vmap(undefined))
            np.add.at(self._skipped, owners, terms(batch).sum(dim=(1, 2)).numpy())

    def _views(self, task: Task, owners: Rows, places: Rows) -> tuple[Tree, Tree]:
        """What some clients received and were told; ``places`` are theirs in the round's order."""
        received = task.start.group(*self._trained).select(owners).tensors
        brief = {k: torch.from_numpy(v[places]).float() for k, v in task.brief.items()}
        return received, brief

    # -- persistence -----------------------------------------------------------------------

    def state(self) -> Values:
        return {"steps": self._steps, "skipped": self._skipped}

    def load(self, state: Values) -> None:
        self._steps, self._skipped = state["steps"].copy(), state["skipped"].copy()


def _give_back(fleet: Fleet, rows: Rows, models: Fleet) -> None:
    """Put trained models where they came from; a whole fleet was trained in place."""
    if len(rows) < len(fleet):
        fleet.put(rows, models)
