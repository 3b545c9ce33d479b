"""Supervised learning on several objectives for all clients of a fleet at once.

Any network, any vector of differentiable losses. Clients whose batches have the same size are a
*crew*: one stack of tensors, one gradient, one step. Clients with fewer samples than a batch use
all they have, and so form crews of their own: nothing is padded while training, because a loss may
speak of a batch as a whole. The optimiser starts afresh in every round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import grad, vmap

from comity.errors import UserError
from comity.fleet import Fleet, Tree
from comity.learners.adam import Adam, adam_step
from comity.learners.compiling import compiler
from comity.learners.crew import Crew
from comity.learners.holdings import Holdings
from comity.learners.learner import LearnerSettings, Rows, Task, Values
from comity.learners.scalarisation import direction_of, smooth_tchebycheff
from comity.learners.sgd import sgd_step
from comity.learners.stacked import Draw, Stacked
from comity.local import Batch, Phase, Setup, Update, View
from comity.problems.problem import Problem
from comity.problems.samples import DataProblem
from comity.settings import setting
from comity.streams import stream

_LEAST_LOSS = 1e-3  # an untrained network may be fair by accident: no loss is divided by less
_PAYS = 200_000  # client steps from which the seconds that compiling takes are earned back


class SupervisedSettings(LearnerSettings):
    """Settings of supervised learning; each problem brings its own defaults."""

    learning_rate: float = setting(1e-3, "step size", above=0)
    batch_size: int = setting(256, "samples in one step; all where a client has less", at_least=1)
    optimiser: Literal["adam", "sgd"] = setting("adam", "adam or sgd; starts afresh every round")
    momentum: float = setting(0.0, "momentum of sgd", at_least=0, below=1)
    weight_decay: float = setting(0.0, "pull of all trained weights to zero", at_least=0)
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
    local_epochs: int = setting(
        0,
        "times that a client goes through its data in a round; 0: it takes local_steps",
        at_least=0,
    )
    local_steps: int = setting(25, "steps a client takes in a round", at_least=1)
    total_steps: int = setting(1500, "steps a client takes in all", at_least=1)

    def decided(self, stack: int) -> Self:
        """With what depends on the length of the run written down: compiled bits are others."""
        if self.compile != "auto":
            return self
        known = self.local_epochs == 0  # who goes through its data takes steps of its own number
        pays = known and stack * self.total_steps >= _PAYS and compiler() is not None
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
        setup: Setup,
    ) -> None:
        self.settings, self._problem, self._clients, self._seed = settings, problem, clients, seed
        self._pooled = setup.pooled
        self._holdings = Holdings(problem, clients, seed, settings.batch_size, setup.pooled)
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
        if setup.pooled:
            self._remarks.append(
                "not federated: the data of all clients are pooled; their bytes are not counted"
            )
        self._fused: Any = None
        if settings.compile == "yes":
            if compiler() is None:
                raise UserError(
                    "supervised.compile = yes needs a C++ compiler (g++ or clang++), and there is "
                    "none. Install one, or use --set supervised.compile=no."
                )
            if self._stacked.mapped and settings.optimiser == "adam":
                self._fused = torch.compile(self._fused_step)
                self._remarks.append("steps are compiled; their bits differ from uncompiled ones")
            else:
                self._remarks.append("not compiled: only Adam's steps of mapped networks are")
        if settings.normalise:
            first = self._stacked.whole_losses(fleet.tensors, np.arange(len(clients)))
            self._stacked.scale = first.clamp(min=_LEAST_LOSS)

    @classmethod
    def check(cls, problem: Problem) -> None:
        if not isinstance(problem, DataProblem):
            raise UserError(
                f"problem {problem.name}: its clients have environments, not data, so supervised "
                'learning cannot learn it; give the problem learner="dqn" or "ddpg".'
            )

    @property
    def steps(self) -> Rows:
        return self._steps

    @property
    def sizes(self) -> NDArray[np.float64]:
        return self._holdings.sizes

    @property
    def round_steps(self) -> Rows:
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
    def skipped(self) -> Rows:
        return self._skipped

    # -- around training -------------------------------------------------------------------

    def receive(self, rows: Rows, received: Fleet) -> None:
        """Nothing is kept beside the model."""

    def restart(self, rows: Rows, models: Fleet) -> None:
        """Nothing is kept beside the model."""

    def companions(self) -> Fleet | None:
        return None

    def judge(
        self, fleet: Fleet, rows: Rows, purpose: str, episodes: int
    ) -> tuple[NDArray[np.float64], Rows]:
        """Scores on each client's validation or test samples, or on the test of everyone."""
        scores = self._stacked.judge(fleet.select(rows).tensors, rows, purpose)
        return scores, np.zeros(len(rows), dtype=np.int64)

    def span(
        self, fleet: Fleet, rows: Rows, purpose: str, preferences: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        return self._stacked.span(fleet.select(rows).tensors, rows, purpose, preferences)

    def survey(
        self, fleet: Fleet, rows: Rows, asked: Sequence[str], round: int, answer: Update
    ) -> tuple[Values, Fleet | None]:
        """Losses over all training samples; gradients, each objective's on a batch of its own."""
        stacked, values = self._stacked, Values()
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
            with torch.no_grad():
                crew = self._crew(models, rows, models.group(*stacked.trained).tensors, {})
                said = self._changed(answer, crew, self._everything(rows))
            values |= {name: value.double().numpy() for name, value in said.items()}
        return values, self._gradients

    # -- training --------------------------------------------------------------------------

    def train(self, fleet: Fleet, rows: Rows, task: Task) -> None:
        left = np.maximum(task.goal - self._steps[rows], 0)
        ends = np.cumsum([0.0, *(phase.share for phase in task.phases)])
        bounds = np.rint(np.outer(ends / ends[-1], left)).astype(np.int64)
        for number, phase in enumerate(task.phases):
            weights = None
            steps = bounds[number + 1] - bounds[number]
            for places in self._crews(rows, steps):
                owners = rows[places]
                models = fleet.select(owners)
                if phase.weights is not None:
                    views = self._views(task, owners, places)
                    weigh = phase.weights
                    weights = self._stacked.each(lambda r, b, w=weigh: w(View(r, b)), *views)
                self._descend(models, owners, places, task, number, steps[places], weights)
                fleet.put(owners, models)
        self._steps[rows] = np.maximum(self._steps[rows], task.goal)

    def train_apart(self, fleet: Fleet, rows: Rows, task: Task) -> Fleet:
        count = len(self._problem.objectives)
        copies = fleet.select(np.repeat(rows, count)).clone()
        steps = np.maximum(task.goal - self._steps[rows], 0)
        for places in self._crews(rows, steps):
            inside = (places[:, None] * count + np.arange(count)).ravel()
            models = copies.select(inside)
            each = torch.eye(count).repeat(len(places), 1)
            owners, lines = np.repeat(rows[places], count), np.repeat(places, count)
            self._descend(models, owners, lines, task, 0, steps[lines], each)
            copies.put(inside, models)
        self._steps[rows] = np.maximum(self._steps[rows], task.goal)
        return copies

    def _crews(self, rows: Rows, steps: Rows) -> Iterator[Rows]:
        """Clients (as places in ``rows``) with equal batches and some steps to take."""
        sizes = self._holdings.batch_sizes[rows]
        for batch in sorted(set(sizes[steps > 0].tolist())):
            yield np.flatnonzero((sizes == batch) & (steps > 0))

    def _descend(
        self,
        models: Fleet,
        owners: Rows,
        places: Rows,
        task: Task,
        number: int,
        steps: Rows,
        weights: Tensor | None,
    ) -> None:
        """Take a phase's steps with a crew's models, in place."""
        phase = task.phases[number]
        crew = self._crew(models, owners, *self._views(task, owners, places))
        crew.aims = self._aims(owners) if weights is None else weights
        crew.given = weights is not None
        names = [n for n in self._stacked.trained if any(fnmatchcase(n, p) for p in phase.train)]
        crew.first = {name: torch.zeros_like(crew.tensors[name]) for name in names}
        crew.second = {name: torch.zeros_like(crew.tensors[name]) for name in names}
        purpose = f" {number}" if number else ""
        crew.batches = self._holdings.batches(
            owners, int(steps.max()), f"batches{purpose}", task.round
        )
        crew.drawn = self._drawn(phase, owners, steps, f"draws{purpose}", task.round)
        self._count_skipped(owners, crew.batches, steps)
        if phase.surveyed:
            crew.stored = self._stored(names, places, crew.aims)
        everything = self._everything(owners) if phase.before or phase.after_pass else {}
        self._stacked.module.train()
        if phase.before is not None:
            crew.change(self._changed(phase.before, crew, everything))
        for begin, lengths in self._stretches(phase, owners, steps):
            done = 0
            for upto in sorted(set(lengths[lengths > 0].tolist())):
                busy = np.flatnonzero(lengths >= upto)
                part = crew.part(busy)
                self._walk(part, phase, (begin + done)[busy], upto - done, task.round)
                crew.take_back(busy, part)
                done = upto
            if phase.after_pass is not None:
                crew.passes = crew.passes + torch.from_numpy(lengths > 0)
                changed = self._changed(phase.after_pass, crew, everything)
                crew.change(changed, torch.from_numpy(lengths > 0))

    def _stretches(self, phase: Phase, owners: Rows, steps: Rows) -> Iterator[tuple[Rows, Rows]]:
        """Where each client begins, and how far it goes, until all meet again.

        All go through their data side by side where something happens after each pass.
        """
        if phase.after_pass is None:
            yield np.zeros_like(steps), steps
            return
        length = self._holdings.passes[owners]
        for number in range(int((-(-steps // length)).max())):
            begin = np.minimum(number * length, steps)
            yield begin, np.minimum(length, steps - begin)

    def _walk(self, crew: Crew, phase: Phase, begin: Rows, count: int, round: int) -> None:
        """So many steps of all clients of a crew, each from the step where it is."""
        s, owners = self.settings, crew.owners
        names = list(crew.first)
        trained = [crew.tensors[name] for name in names]
        first, second = list(crew.first.values()), list(crew.second.values())
        adam = Adam(trained, first, second, s.weight_decay) if s.optimiser == "adam" else None
        together = bool((begin == begin[0]).all())
        everybody = torch.arange(len(owners))
        for step in range(count):
            at = torch.from_numpy(begin + step)
            batch = self._holdings.gather(crew.batches[everybody, at])
            drawn = {name: values[everybody, at] for name, values in crew.drawn.items()}
            stored = phase.surveyed and together and int(at[0]) == 0
            if self._fused is not None and together and not stored:
                self._fused(
                    phase, crew.given, names, crew.tensors, first, second, at[0].float(), batch,
                    crew.received, crew.brief, drawn, crew.passes, crew.aims, crew.scale,
                )  # fmt: skip
                continue
            if stored:
                grads: Sequence[Tensor] = crew.stored
            else:
                leaves = [tensor.requires_grad_() for tensor in trained]
                total = self._total(phase, crew, batch, drawn, (round, begin + step))
                grads = torch.autograd.grad(total, leaves, materialize_grads=True)
                for leaf in leaves:
                    leaf.requires_grad_(False)
            if adam is not None:
                adam.step(grads, at.float(), s.learning_rate)
            else:
                sgd_step(trained, grads, first, s.learning_rate, s.momentum, s.weight_decay)

    def _total(
        self, phase: Phase, crew: Crew, batch: dict[str, Tensor], drawn: Tree, draw: Draw
    ) -> Tensor:
        """What the steps of all models of a crew make smaller, summed."""
        if phase.loss is None:
            losses = self._stacked.losses(crew.tensors, batch, crew.owners, draw)
            total = self._scalarised(losses, crew.aims, crew.given).sum()
        else:
            lose = phase.loss

            def of_one(tensors: Tree, batch: Batch, *seen: Any) -> Tensor:
                return lose(tensors, batch, self._stacked.view(*seen))

            seen = (crew.received, crew.brief, drawn, crew.passes, crew.scale)
            each = self._stacked.each
            total = each(of_one, crew.tensors, batch, *seen, owners=crew.owners, draw=draw).sum()
        penalty = phase.penalty
        if penalty is None:
            return total
        mine = {name: crew.tensors[name] for name in self._stacked.trained}
        pulls: Tensor = vmap(lambda t, r, b: penalty(t, View(r, b)))(
            mine, crew.received, crew.brief
        )
        return total + pulls.sum()

    def _fused_step(
        self,
        phase: Phase,
        given: bool,
        names: list[str],
        tensors: Tree,
        first: list[Tensor],
        second: list[Tensor],
        count: Tensor,
        batch: Batch,
        received: Tree,
        brief: Tree,
        drawn: Tree,
        passes: Tensor,
        aims: Tensor,
        scale: Tensor,
    ) -> None:
        """One step as one program, written for one client and mapped: what is compiled."""

        def of_one(trained: Tree, tensors: Tree, batch: Batch, aim: Tensor, *seen: Any) -> Tensor:
            parameters, view = {**tensors, **trained}, self._stacked.view(*seen)
            if phase.loss is None:
                losses = view.losses(view.forward(parameters, batch["inputs"]), batch)
                total = self._scalarised(losses, aim, given)
            else:
                total = phase.loss(parameters, batch, view)
            if phase.penalty is not None:
                total = total + phase.penalty(parameters, view)
            return total

        trained = {name: tensors[name] for name in names}
        seen = (received, brief, drawn, passes, scale)
        grads = vmap(grad(of_one))(trained, tensors, batch, aims, *seen)
        s, ordered = self.settings, [grads[name] for name in names]
        adam_step(
            list(trained.values()), ordered, first, second, count, s.learning_rate, s.weight_decay
        )

    def _aims(self, owners: Rows) -> Tensor:
        """What each model's losses are weighed by: importance, or the direction it stands for."""
        importance = self._stacked.preferences[owners]
        if self.settings.scalarisation == "linear":
            return importance
        return direction_of(importance, self.settings.least_weight)

    def _scalarised(self, losses: Tensor, aims: Tensor, given: bool) -> Tensor:
        if given or self.settings.scalarisation == "linear":
            return (aims * losses).sum(dim=-1)
        return smooth_tchebycheff(losses, aims, self.settings.smoothing)

    def _jacobians(self, models: Fleet, rows: Rows, round: int) -> Fleet:
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

    def _stored(self, names: Sequence[str], places: Rows, weights: Tensor) -> list[Tensor]:
        """Σ_k w_k ∇f_k with the gradients that the survey took."""
        assert self._gradients is not None, "an algorithm reuses gradients that it did not ask for"
        count = weights.shape[1]
        summed = []
        for name in names:
            stacked = self._gradients[name]
            each = stacked.reshape(-1, count, *stacked.shape[1:])[places]
            summed.append(torch.einsum("nk,nk...->n...", weights.to(each.dtype), each))
        return summed

    # -- what goes with a crew -------------------------------------------------------------

    def _crew(self, models: Fleet, owners: Rows, received: Tree, brief: Tree) -> Crew:
        tensors = {name: tensor.detach() for name, tensor in models.tensors.items()}
        passes = torch.zeros(len(owners))
        return Crew(owners, tensors, received, brief, self._stacked.scale[owners], passes)

    def _views(self, task: Task, owners: Rows, places: Rows) -> tuple[Tree, Tree]:
        """What some clients received and were told; ``places`` are theirs in the round's order."""
        received = task.start.group(*self._stacked.trained).select(owners).tensors
        brief = {k: torch.from_numpy(v[places]).float() for k, v in task.brief.items()}
        return received, brief

    def _everything(self, owners: Rows) -> dict[str, Tensor]:
        """All training samples of some clients; what only fills up has no weight."""
        return self._holdings.gather(*self._holdings.part("train", owners))

    @torch.no_grad()
    def _changed(self, update: Update, crew: Crew, everything: dict[str, Tensor]) -> Tree:
        """What an update says of all training samples of each client of a crew."""

        def of_one(tensors: Tree, batch: Batch, *seen: Any) -> Tree:
            return update(tensors, batch, self._stacked.view(*seen))

        nothing: Tree = {}
        seen = (crew.received, crew.brief, nothing, crew.passes, crew.scale)
        changed: Tree = self._stacked.each(of_one, crew.tensors, everything, *seen)
        return changed

    def _drawn(self, phase: Phase, owners: Rows, steps: Rows, purpose: str, round: int) -> Tree:
        """The random numbers of all steps, each client's from a stream of its own."""
        if phase.draw is None:
            return {}
        most, drawn = int(steps.max()), []
        for owner, count in zip(owners.tolist(), steps.tolist(), strict=True):
            generator = stream(self._seed, purpose, round, self._clients[owner])
            values = phase.draw(generator, count)
            drawn.append({name: np.resize(v, (most, *v.shape[1:])) for name, v in values.items()})
        return {n: torch.from_numpy(np.stack([d[n] for d in drawn])).float() for n in drawn[0]}

    def _count_skipped(self, owners: Rows, batches: Tensor, steps: Rows) -> None:
        undefined = self._problem.undefined
        if undefined is not None:
            terms: Callable[..., Tensor] = vmap(vmap(undefined))
            found = terms(self._holdings.gather(batches, inputs=False)).sum(dim=2).numpy()
            taken = np.arange(batches.shape[1]) < steps[:, None]
            np.add.at(self._skipped, owners, (found * taken).sum(axis=1))

    # -- persistence -----------------------------------------------------------------------

    def state(self) -> Values:
        return {"steps": self._steps, "skipped": self._skipped}

    def load(self, state: Values) -> None:
        self._steps, self._skipped = state["steps"].copy(), state["skipped"].copy()
