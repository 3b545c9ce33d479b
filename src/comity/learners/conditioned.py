"""Deep Q-learning with networks that take a preference, for all clients of a fleet at once.

A network maps observations and preferences w to one value per action and objective, Q(s, a; w); the
action taken at w is that of the largest w·Q. Each episode has one preference, which the algorithm
draws. Buffers keep reward vectors and no preference, so the algorithm's loss may judge a transition
at any preference. Rollouts, target copies, clipping and steps are those of `DQN`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, vmap

from comity.core.fleet import Fleet
from comity.core.phases import Phase, View
from comity.core.rng import stream
from comity.core.typing import AnyArray, FloatArray, IntArray, NamedArrays, Tree
from comity.learners.base import LearnerContext
from comity.learners.dqn import DQN
from comity.learners.off_policy import Generators, ReplayCohort
from comity.problems.simulators import Policy, Step


class Conditioned(DQN):
    """Deep Q-learning at any preference, described in the module's docstring.

    The loss is `Phase.loss`, written for one client. Its batch has the columns ``reward``
    (batch, objectives), ``action``, ``discount``, which is gamma or 0 after an end, and the
    observations ``before`` and ``after`` (rows, features), of which ``before_row`` and
    ``after_row`` (batch) tell that of each transition: tabulated states are listed once.
    """

    def __init__(self, context: LearnerContext) -> None:
        super().__init__(context)
        acting = context.client_model.acting
        assert acting is not None
        self._draw_acting, self._module = acting, context.client_model.module
        self._episodes = np.zeros(len(context.clients), dtype=np.int64)
        self._acting = np.zeros_like(context.preferences)
        self._draw_episodes(np.arange(len(context.clients)))

    # -- acting ----------------------------------------------------------------------------

    def _stored(self, reward: FloatArray, rows: IntArray) -> FloatArray:
        """Return the reward vectors themselves."""
        return reward

    def _step(self, rows: IntArray, actions: AnyArray) -> Step:
        """Take one step, and draw the preferences of episodes that begin after it."""
        step = super()._step(rows, actions)
        ended = rows[step.terminated | step.truncated]
        self._episodes[ended] += 1
        self._draw_episodes(ended)
        return step

    def _draw_episodes(self, rows: IntArray) -> None:
        for row in rows.tolist():
            keys = (self._clients[row], int(self._episodes[row]))
            generator = stream(self._seed, "acting", *keys)
            self._acting[row] = self._draw_acting(generator, self._preferences[row])

    def _best(self, cohort: ReplayCohort) -> Callable[[AnyArray], AnyArray]:
        """Return a function from what each client sees to its best action at its preference.

        Where states are tabulated, a client's table lasts until its episode ends.
        """
        rows = cohort.rows
        if self._features is None:
            return lambda before: self._choice(
                cohort.online, torch.tensor(before[:, None]), self._acting[rows]
            )[:, 0]
        table = np.zeros((len(rows), len(self._features)), dtype=np.int16)
        tabulated = np.full(len(rows), -1)

        def best(before: AnyArray) -> AnyArray:
            old = np.flatnonzero(tabulated != self._episodes[rows])
            if len(old):
                index = torch.as_tensor(old)
                models = {name: tensor.detach()[index] for name, tensor in cohort.online.items()}
                states = self._observations(len(old))
                table[old] = self._choice(models, states, self._acting[rows[old]])
                tabulated[old] = self._episodes[rows[old]]
            return table[np.arange(len(rows)), before]

        return best

    def _seen(self, observations: AnyArray) -> Tensor:
        """Return observations (clients, batch, features), also where states are tabulated."""
        seen = torch.tensor(observations)
        return seen if self._features is None else self._features[seen.long()]

    @torch.no_grad()
    def _choice(self, tensors: Tree, observations: Tensor, preferences: FloatArray) -> IntArray:
        """Return the actions of largest w·Q (clients, batch), w one row of preferences each."""
        weights = torch.as_tensor(preferences, dtype=torch.float32)
        values = vmap(self._forward_one)(tensors, observations, weights)
        worth = torch.einsum("nbam,nm->nba", values, weights)
        return np.asarray(worth.argmax(dim=2).numpy(force=True))

    def _forward_one(self, tensors: Tree, observations: Tensor, preferences: Tensor) -> Tensor:
        """Return one client's Q (…, batch, actions, objectives) at preferences (…, objectives)."""
        values: Tensor = functional_call(self._module, tensors, (observations, preferences))
        return values

    # -- learning --------------------------------------------------------------------------

    def _learn(self, cohort: ReplayCohort, phase: Phase, generators: Generators) -> None:
        """Take the updates that follow one rollout; each client draws from its own stream."""
        s = self.settings
        count = s.train_freq if s.gradient_steps == -1 else s.gradient_steps
        if not count:
            return
        draws = np.stack([generator.random(count * s.batch_size) for generator in generators])
        sampled = self._replay.sample(cohort.rows, draws)
        drawn = self._drawn(phase, generators, cohort.online, count)
        for number in range(count):
            part = slice(number * s.batch_size, (number + 1) * s.batch_size)
            batch = {name: tensor[:, part] for name, tensor in sampled.items()}
            batch |= {f"drawn.{name}": tensor[:, number] for name, tensor in drawn.items()}
            self._update(cohort, phase, batch)
            self._updates[cohort.rows] += 1
            self._optimiser_steps[cohort.rows] += 1

    def _drawn(
        self, phase: Phase, generators: Generators, tensors: Tree, count: int
    ) -> dict[str, Tensor]:
        """Return the random numbers of the loss (clients, updates, …), by name."""
        if phase.draw is None:
            return {}
        parts: list[Mapping[str, FloatArray]] = []
        for row, generator in enumerate(generators):
            model = {name: tensor[row].detach() for name, tensor in tensors.items()}
            parts.append(phase.draw(generator, count, self.settings.batch_size, model))
        return {
            name: torch.as_tensor(np.stack([part[name] for part in parts]), dtype=torch.float32)
            for name in parts[0]
        }

    def _update(self, cohort: ReplayCohort, phase: Phase, batch: dict[str, Tensor]) -> None:
        """Take one step on the algorithm's loss, with each client's gradient clipped."""
        loss, settings, rows = phase.loss, self.settings, cohort.rows
        assert loss is not None
        common, columns = self._columns(batch)
        drawn = {k.removeprefix("drawn."): t for k, t in batch.items() if k.startswith("drawn.")}
        own = torch.as_tensor(self._preferences[rows], dtype=torch.float32)
        done = torch.as_tensor(self._steps[rows] / settings.total_steps, dtype=torch.float32)

        def client_loss(
            tensors: Tree, others: tuple[Tree, Tree, Tree, Tree], own: Tensor, done: Tensor
        ) -> Tensor:
            received, target, columns, drawn = others
            view = View(
                received=received,
                drawn=drawn,
                rate=settings.learning_rate,
                preference=own,
                target=target,
                progress=done,
                forward=self._forward_one,
            )
            return loss(tensors, {**common, **columns}, view)

        others = (cohort.start.tensors, cohort.target.tensors, columns, drawn)
        total = vmap(client_loss)(cohort.online, others, own, done.clamp(max=1.0)).sum()
        self._descend(cohort, phase, total, limit=settings.max_grad_norm)

    def _columns(self, batch: dict[str, Tensor]) -> tuple[Tree, Tree]:
        """Return the batch as losses take it: what all clients share, and what each has."""
        columns = {
            "reward": batch["reward"],
            "action": batch["action"].long(),
            "discount": self.settings.gamma * (~batch["terminated"]).float(),
        }
        if self._features is not None:
            places = {f"{name}_row": batch[name].long() for name in ("before", "after")}
            return {"before": self._features, "after": self._features}, columns | places
        every = torch.arange(batch["action"].shape[1])
        seen = {name: batch[name] for name in ("before", "after")}
        return {"before_row": every, "after_row": every}, columns | seen

    # -- evaluation ------------------------------------------------------------------------

    def evaluate(
        self, fleet: Fleet, rows: IntArray, purpose: str, episodes: int
    ) -> tuple[FloatArray, IntArray]:
        """Return mean returns of the policies at the clients' own preferences, and steps."""
        return self._evaluate_at(fleet, rows, purpose, self._preferences[rows], episodes)

    def evaluate_preferences(
        self,
        fleet: Fleet,
        rows: IntArray,
        purpose: str,
        preferences: FloatArray,
        episodes: int,
    ) -> tuple[FloatArray, FloatArray | None]:
        """Return mean returns at each preference, all on the same episodes; there are no losses."""
        vectors = [
            self._evaluate_at(fleet, rows, purpose, np.tile(row, (len(rows), 1)), episodes)[0]
            for row in preferences
        ]
        return np.stack(vectors, axis=1), None

    def _evaluate_at(
        self, fleet: Fleet, rows: IntArray, purpose: str, preferences: FloatArray, episodes: int
    ) -> tuple[FloatArray, IntArray]:
        """Evaluate the models of some clients, each at one row of ``preferences``."""
        tensors = fleet.select(rows).tensors

        def policy(observations: AnyArray) -> AnyArray:
            return self._choice(tensors, self._seen(observations), preferences)

        return self._environments.evaluate(rows, policy, episodes, purpose)

    def _policy(self, tensors: Tree) -> Policy:
        """Raise `NotImplementedError`: a policy takes a preference here."""
        raise NotImplementedError("evaluate at preferences")

    # -- persistence -----------------------------------------------------------------------

    def state(self) -> NamedArrays:
        """Return what `DQN` keeps, and the preferences of the running episodes."""
        return {**super().state(), "acting": self._acting.copy(), "episodes": self._episodes.copy()}

    def load(self, state: NamedArrays) -> None:
        """Take back what `state` returned."""
        super().load(state)
        self._acting, self._episodes = state["acting"].copy(), state["episodes"].copy()
