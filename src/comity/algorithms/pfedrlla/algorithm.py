"""pFedRLLA (Huang and Freris, 2024): an agent on the server decides who learns from whom.

Bodies are averaged by data size, heads by weights that an agent computes from embeddings of heads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator, PrivateAttr
from torch import Tensor, nn

from comity.algorithms.base import Algorithm, Need, Round, Survey
from comity.algorithms.pfedrlla import agent_file
from comity.algorithms.pfedrlla.agent import Kind
from comity.algorithms.pfedrlla.allocation import Allocator, clients_of, participants_of
from comity.algorithms.pfedrlla.model import (
    MODEL,
    UNKNOWN,
    ScoredModel,
    evaluated,
    followed,
    head_of,
    shapes_of,
)
from comity.algorithms.registry import algorithm
from comity.core.fleet import Fleet
from comity.core.mixing import Mixing
from comity.core.phases import Batch, Phase, Update, View
from comity.core.rng import stream
from comity.core.storage import strip_prefix
from comity.core.typing import FloatArray, NamedArrays, Tree
from comity.errors import UserError
from comity.problems import DataProblem, Problem
from comity.settings import setting

Rule = Literal["weighted", "agent", "mean", "local"]
_MOST = 100  # clients of whom a history keeps who took how much of whom


@algorithm(
    "pfedrlla",
    title="pFedRLLA: layer-wise aggregation by a reinforcement-learning agent",
    paper="Huang and Freris, 2024",
    place="personalised models",
    method="reinforcement-learning agent that weights heads",
    communication="the model, both ways, and its scores before and after each delivery",
)
class PFedRLLA(Algorithm):
    """Ψ_k ← Σ_j ρ_j Ψ_j, ρ by data size; Φ_k ← Σ_j A_j Φ_j, A = actor(embeddings).

    Givers are the participants of the last round, in the order of their ids, and the client itself.
    A is rewarded with β₁ r₁ + β₂ r₂ + β₃ r₃ (`reward`) by the client's score on validation samples
    before it trains; with several objectives, by the mean of its scores.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"losses"})
    sends: ClassVar[tuple[str, ...]] = (f"{MODEL}*",)
    surveys: ClassVar[tuple[str, ...]] = ("before", "after")
    outlasts: ClassVar[bool] = True

    body: Rule = setting("weighted", "bodies: by data size, agent, plain mean, or left local")
    head: Rule = setting("agent", "heads: by the agent, data size, plain mean, or left local")
    cut: str = setting("auto", "the head: auto, or patterns of its tensors, e.g. body.8.*,head.*")
    agent: Annotated[str, AfterValidator(agent_file.with_fingerprint)] = setting(
        "", "file of an agent that pretrain made; without one, it learns from nothing"
    )
    network: Kind = setting(
        "pairwise", "of a new agent: pairwise, for any number of givers, or flat, as published"
    )
    reference: bool = setting(
        False, "as in the public code: tanh before softmax, tokens without singular values"
    )
    score_reward: float = setting(1.0, "β₁: for a good model", at_least=0)
    gain_reward: float = setting(1.0, "β₂: for one better than before", at_least=0)
    likeness_reward: float = setting(2.0, "β₃: for weights by likeness of embeddings", at_least=0)
    target: float = setting(1.0, "acc_tar: the accuracy that is aimed at")
    warmup: int = setting(50, "rounds of random weights before an agent from nothing", at_least=0)
    every: int = setting(10, "rounds between trainings of agent and encoder", at_least=1)
    agent_steps: int = setting(5, "steps of the agent in a training", at_least=0)
    encoder_steps: int = setting(5, "steps of the encoder in a training", at_least=0)
    batch_size: int = setting(32, "episodes in a step of the agent", at_least=1)
    memory: int = setting(100_000, "episodes that the agent remembers", at_least=1)
    noise: float = setting(0.03, "spread of the noise on the agent's weights", at_least=0)

    _allocator: Allocator | None = PrivateAttr(None)
    _updated: bool = PrivateAttr(False)
    _rewards: list[tuple[float, float, float]] = PrivateAttr(default_factory=list)

    def check(self, problem: Problem, participants: int) -> None:
        shapes = shapes_of(problem.model().state_dict())
        heads = head_of(shapes, self.cut)
        if not any(len(shapes[name]) == 2 for name in heads) or len(heads) == len(shapes):
            raise UserError(
                f"pfedrlla.cut = {self.cut!r}: a head is some of a network's tensors, a weight "
                f"matrix among them; {problem.name} has {', '.join(shapes)}."
            )
        if self.agent:
            agent_file.check_fit(self.agent, participants)

    # -- on a client -----------------------------------------------------------------------

    def build(self, model: nn.Module, problem: Problem) -> nn.Module:
        shapes = shapes_of(model.state_dict())
        apart = self._has_agent and not self.agent and self.body != "local"
        body = set(shapes) - set(head_of(shapes, self.cut)) if apart else ()
        return ScoredModel(model, [name for name in shapes if name in body])

    def predictor(self, module: nn.Module, preference: FloatArray) -> nn.Module:
        assert isinstance(module, ScoredModel)
        return module.model

    def phases(self, problem: Problem) -> list[Phase]:
        def follow(parameters: Tree, everything: Batch, view: View) -> Tree:
            return followed(parameters, view.broadcast["updated"])

        def judge(parameters: Tree, everything: Batch, view: View) -> Tree:
            return {"score": self._score(parameters, view, problem)}

        return [Phase(train=(f"{MODEL}*",), before=follow, after=judge)]

    def local_phases(self, problem: Problem) -> list[Phase]:
        return [Phase(train=(f"{MODEL}*",))]

    def survey_client(self, problem: Problem) -> Update:
        def scores(parameters: Tree, everything: Batch, view: View) -> Tree:
            after = self._score(parameters, view, problem)
            return {"before": parameters["score"].clone(), "after": after}

        return scores

    def _score(self, parameters: Tree, view: View, problem: Problem) -> Tensor:
        """Return the score on validation samples; with the still body, if there is one."""
        assert isinstance(problem, DataProblem)
        outputs = view.forward(evaluated(parameters), view.validation["inputs"])
        return problem.scores(outputs, view.validation).mean()

    # -- on the server ---------------------------------------------------------------------

    @property
    def _has_agent(self) -> bool:
        """Whether there is anything for the agent to decide."""
        return "agent" in (self.body, self.head)

    def broadcast(self, survey: Survey) -> dict[str, FloatArray]:
        """Reward what clients were offered; broadcast whether the agent has learned since."""
        self._rewards = []
        betas = (self.score_reward, self.gain_reward, self.likeness_reward)
        scores = zip(
            survey.participants, survey.values["before"], survey.values["after"], strict=True
        )
        for client, before, after in scores:
            # no reward before the first offer, nor for a client that has not trained
            if self._allocator is not None and self._has_agent and before != UNKNOWN:
                terms = self._allocator.rewarded(
                    client, float(after), float(before), self.target, betas
                )
                self._rewards.append(terms)
        return {"updated": np.array(float(self._updated))}

    def mix(self, round: Round) -> Mapping[str, Mixing]:
        heads = head_of(shapes_of(round.sent.tensors, stacked=True), self.cut)
        if self._allocator is None:
            initial = round.start.select([0])
            self._allocator = self._new_allocator(round.clients, round.asked, initial, round.seed)
        allocator = self._allocator
        allocator.take(round.participants, round.sent, round.sizes)
        rules: dict[Rule, FloatArray] = {"local": np.eye(len(round.clients))}
        rules |= {"weighted": allocator.by_size(), "mean": allocator.mean()}
        if self._has_agent:
            self._learn(allocator, round)
            rules["agent"] = allocator.offer(self._weights(allocator, round))
        route = {client: place for place, client in enumerate(round.clients)}
        mixings = {
            rule: Mixing(weights, route, stored=allocator.stored) for rule, weights in rules.items()
        }
        return {**dict.fromkeys(heads, mixings[self.head]), "*": mixings[self.body]}

    def _new_allocator(
        self, clients: Sequence[int], participants: int, initial: Fleet, seed: int
    ) -> Allocator:
        """Return an allocator before its first round; its agent is the file's, or a new one."""
        heads = head_of(shapes_of(initial.tensors, stacked=True), self.cut)
        return Allocator(clients, participants, initial, heads, self._bundle(participants, seed))

    def _bundle(self, participants: int, seed: int) -> agent_file.AgentBundle:
        new = agent_file.AgentSpec(self.network, self.reference)
        return agent_file.bundle(self.agent, new, participants, self.memory, seed)

    def _learn(self, allocator: Allocator, round: Round) -> None:
        """Train agent and encoder every few rounds; during the warm-up only the encoder, always."""
        warming, due = self._warming(round), round.number % self.every == 0
        if warming or due:
            allocator.encoder.learn(allocator.tokens, self.encoder_steps)
        self._updated = due and not warming and allocator.agent.episodes >= self.batch_size
        if self._updated:
            draws = stream(round.seed, "agent learns", round.number)
            allocator.agent.learn(draws, self.agent_steps, self.batch_size)

    def _weights(self, allocator: Allocator, round: Round) -> FloatArray:
        """Return weights over slots, one row per client: random, later the agent's with noise."""
        states, slots = allocator.observe(), allocator.participants + 1
        draws = [stream(round.seed, "agent acts", round.number, c) for c in round.clients]
        if self._warming(round):
            return np.stack([generator.random(slots) for generator in draws])
        noise = np.stack([generator.normal(0.0, self.noise, slots) for generator in draws])
        return allocator.agent.act(states) + noise

    def _warming(self, round: Round) -> bool:
        """Return whether a new agent does not decide yet."""
        return not self.agent and round.number <= self.warmup

    def agent_of(self, arrays: NamedArrays) -> tuple[NamedArrays, dict[str, Any]]:
        """Return the arrays and the header of an agent file, from the arrays of a saved `state`."""
        spec = agent_file.spec_of(self.agent, agent_file.AgentSpec(self.network, self.reference))
        header = {"participants": participants_of(arrays), **spec._asdict()}
        return agent_file.networks(arrays), header

    def diagnostics(self) -> dict[str, Any]:
        """Return mean rewards, the number of episodes, and who takes how much of whose head."""
        if self._allocator is None or not self._has_agent:
            return {}
        names = ("score", "gain", "likeness")
        means = np.mean(self._rewards, axis=0).tolist() if self._rewards else [None] * len(names)
        weights = self._allocator.spread().round(5)
        return {
            "rewards": dict(zip(names, means, strict=True)),
            "episodes": self._allocator.agent.episodes,
            "self_weight": float(weights.diagonal().mean()),
            "weights": weights.tolist() if len(weights) <= _MOST else None,
        }

    def state(self) -> dict[str, Any]:
        if self._allocator is None:
            return {}
        return {"updated": self._updated, **self._allocator.state()}

    def load(self, state: dict[str, Any]) -> None:
        if not state:
            return
        arrays = dict(state)
        self._updated = arrays.pop("updated")
        stored = Fleet.from_arrays(strip_prefix(arrays, "stored."))
        assert stored is not None
        self._allocator = self._new_allocator(
            clients_of(arrays), participants_of(arrays), stored.select([0]), seed=0
        )
        self._allocator.load(arrays)
