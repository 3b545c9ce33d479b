"""The interface of an algorithm, and the records that a server reads.

An algorithm is its settings, a few hooks and a declaration. Client hooks are written for one
client; the server's one step is `mix`, which chooses who learns from whom. Lists, docs, validation
and error messages read everything about an algorithm from here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
from torch import nn

from comity.core.fleet import Fleet
from comity.core.mixing import Mixing, Pick
from comity.core.packing import packed, unpacked
from comity.core.phases import Phase, Update
from comity.core.typing import FloatArray, Tree
from comity.problems import Problem
from comity.settings import Settings

Need = Literal["attribute", "classes", "losses", "rewards"]
STEPS = "steps"
"""Statistic that learners count: optimiser steps of a client in the round."""


@dataclass(frozen=True)
class Declaration:
    """An algorithm's name and place on the map of the field."""

    name: str
    """As users write it: ``fedavg``."""
    title: str
    paper: str
    """Authors and year."""
    place: str
    """Label of its cell in the taxonomy (`comity.algorithms.taxonomy`): ``single solution`` ..."""
    method: str
    """Its treatment of several objectives, or else its rule, in a few words."""
    communication: str
    """Tensors and statistics that travel, in words."""


@dataclass(frozen=True)
class Round:
    """Input of a server rule: one entry per client that sent, in the order of ids."""

    number: int
    """From 1 on."""
    participants: tuple[int, ...]
    """The clients that sent a usable model."""
    clients: tuple[int, ...]
    """All clients of the federation."""
    sent: Fleet
    """One row per participant; where objectives are trained apart, one per objective of each."""
    start: Fleet
    """The model from which each row of ``sent`` started this round."""
    sizes: FloatArray = field(default_factory=lambda: np.zeros(0))
    """Amount of data of each participant; equal for environments."""
    statistics: Mapping[str, FloatArray] = field(default_factory=dict)
    """Declared statistics (`Algorithm.statistics`), one row per participant."""
    survey: Survey | None = None
    """Answers of participants to the survey of this round; None if there was none."""
    learner: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the learner by name, the same at all clients: ``learning_rate`` ..."""
    asked: int = 0
    """Number of clients that were asked; those with broken models are no participants."""
    seed: int = 0
    """The run's, for rules that draw; see `comity.core.rng`."""
    buffers: tuple[str, ...] = ()
    """Tensors of ``sent`` that are no parameters, such as statistics of batch normalisation. They
    are to be averaged: a step longer than the mean update can make a variance negative."""

    @property
    def steps(self) -> FloatArray:
        """Number of optimiser steps that each participant took, if ``statistics`` declares it."""
        if STEPS not in self.statistics:
            raise TypeError(f"round.steps: the algorithm's statistics must contain '{STEPS}'")
        return self.statistics[STEPS]

    def only(self, clients: Collection[int]) -> Round:
        """Return the round of a client that heard only those participants among ``clients``."""
        places = [i for i, client in enumerate(self.participants) if client in clients]
        each = len(self.sent) // len(self.participants)
        rows = [place * each + k for place in places for k in range(each)]
        return replace(
            self,
            participants=tuple(self.participants[place] for place in places),
            sent=self.sent.select(rows),
            start=self.start.select(rows),
            sizes=self.sizes[places],
            statistics={name: values[places] for name, values in self.statistics.items()},
            survey=None if self.survey is None else self.survey.only(clients),
            asked=len(places),
        )


@dataclass(frozen=True)
class Survey:
    """Answers to a survey: values of the received models, before training."""

    participants: tuple[int, ...]
    """The clients whose values are finite, in the order of their ids; there may be none."""
    values: Mapping[str, FloatArray]
    """The values of `Algorithm.surveys` by name, one row per participant."""
    gradients: Fleet | None = None
    """One row per objective of each participant, client by client."""

    def only(self, clients: Collection[int]) -> Survey:
        """Return the answers of those participants that are among ``clients``."""
        places = [i for i, client in enumerate(self.participants) if client in clients]
        gradients = self.gradients
        if gradients is not None and len(places) < len(self.participants):
            each = len(gradients) // len(self.participants)
            gradients = gradients.select(
                [place * each + k for place in places for k in range(each)]
            )
        return Survey(
            tuple(self.participants[place] for place in places),
            {name: values[places] for name, values in self.values.items()},
            gradients,
        )


class Algorithm(Settings):
    """Base class: settings as fields, server state as private attributes (pydantic's)."""

    # -- declared --------------------------------------------------------------------------

    declaration: ClassVar[Declaration]
    """Set by the decorator `algorithm`."""
    needs: ClassVar[frozenset[Need]] = frozenset()
    """Requirements on the problem; one that lacks them is refused.

    ``attribute``: labels, and one attribute of people with a value per sample. ``classes``: labels
    that are classes, with one output of the network per class. ``losses``: objectives that are
    differentiable losses, which environments do not have; every algorithm needs them that has
    another need, wraps the network (`build`), changes something `on_receipt`, surveys clients, or
    trains objectives apart. ``rewards``: environments with discrete actions, and nothing else; a
    network may then be wrapped so that it takes a preference.
    """
    run_defaults: ClassVar[Mapping[str, Any]] = {}
    """Defaults of run-level settings under this algorithm."""
    learner_defaults: ClassVar[Mapping[str, Any]] = {}
    """Defaults of the learner's settings under this algorithm; they win over the problem's."""
    personal: ClassVar[bool] = True
    """Each client trains on from a model of its own, so a client may decline what it is sent."""
    communicates: ClassVar[bool] = True
    """Models travel. If not, every client trains alone and `mix` is not called."""
    sends: ClassVar[tuple[str, ...]] = ("*",)
    """Tensors that travel, as patterns of names; all others never leave their client. Where the
    names depend on the network, override `travelling`."""
    receive_as: ClassVar[Mapping[str, str]] = {}
    """New prefixes of received tensors, by old prefix; other tensors keep their names."""
    statistics: ClassVar[tuple[str, ...]] = ()
    """Values that a client sends beside its model for the server to read; they are not mixed.

    Learners count ``steps`` (`Round.steps`); all others are tensors of the client's module.
    """
    surveys: ClassVar[tuple[str, ...]] = ()
    """Values that clients send in a first exchange, before they train.

    Learners compute ``gradients``, ``losses`` and ``preferences``; `survey_client` all others.
    """
    amounts: ClassVar[tuple[str, ...]] = ()
    """Statistics or surveyed values that are sums over a client's rows, of which the first decides
    how much the client counts. The server caps it as it caps data sizes (``size_cap``), and the
    others by the same factor.
    """
    offers_several: ClassVar[bool] = False
    """Clients get several models, of which each makes its own, as the server does not know."""
    shared_update: ClassVar[tuple[str, ...]] = ()
    """Tensors, as patterns, of which all clients get the mean update; a wrapper may replace it."""
    reads_start: ClassVar[bool] = True
    """`mix` reads `Round.start`. If not, clients without a server send each other no starts."""
    ensembles: ClassVar[bool] = False
    """After the last round every client gets what `ensemble` makes of all clients' models."""
    select_by: ClassVar[Literal["hypervolume", "utility"]] = "hypervolume"
    """Value by which models that take any preference, or one round for all, are kept.

    ``hypervolume`` of what a client's model reaches on its validation data; ``utility``: its
    scalarised value at the client's own preference.
    """
    outlasts: ClassVar[bool] = False
    """Arrays of `state` are of use after the run, which keeps them as ``server.safetensors``."""
    centralised: ClassVar[bool] = False
    """No federation: the first client trains one model for all, on the data of all."""

    @property
    def needs_server(self) -> str:
        """Reason why clients cannot each run `mix` on the models that they heard; empty: they can.

        It goes on from the algorithm's name: ``"asks all clients before they train"``.
        """
        if self.centralised:
            return "pools the data of all clients"
        if self.ensembles:
            return "hands the models of all clients to everybody"
        if self.has_server_step:
            return "steps from one model that the server holds"
        return "asks all clients before they train" if self.surveys else ""

    def needs_exact(self, problem: Problem) -> str:
        """Return why noise on updates would not make an algorithm private; empty: it does.

        Differential privacy covers one update per round and nothing else that leaves a client. The
        reason goes on from the algorithm's name: ``"asks clients for their losses"``.

        Args:
            problem: what is learned.
        """
        if self.centralised:
            return "pools the data of all clients"
        if self.ensembles:
            return "hands the models of all clients to everybody"
        if self.surveys:
            return f"asks clients for {', '.join(self.surveys)} before they train"
        if self.statistics:
            return f"needs {', '.join(self.statistics)} of clients beside their models"
        several = any(phase.per_objective for phase in self.phases(problem))
        return "sends one model per objective, not one update" if several else ""

    def check(self, problem: Problem, participants: int) -> None:
        """Refuse a run that these settings do not fit, before anything is written.

        Args:
            problem: what is learned, with data dealt out.
            participants: the number of clients that take part in a round.

        Raises:
            UserError: names the setting, the fault and the remedy.
        """

    # -- on a client (stateless) -----------------------------------------------------------

    def build(self, model: nn.Module, problem: Problem) -> nn.Module:
        """Return the module that holds everything a client keeps; its forward predicts.

        Args:
            model: the problem's network.
            problem: what is learned.

        Parameters that no gradient shall train have ``requires_grad = False``.
        """
        return model

    def travelling(self, module: nn.Module) -> Sequence[str]:
        """Return the tensors that travel, as patterns of names; all parties compute them alike.

        Args:
            module: what `build` returned. Its structure counts, not its values.
        """
        return self.sends

    def predictor(self, module: nn.Module, preference: FloatArray) -> nn.Module:
        """Return a plain module that predicts at a client's preference.

        Args:
            module: what `build` returned, with a client's parameters.
            preference: weights of the objectives, on the simplex.
        """
        return module

    def evaluation_preferences(self, objectives: int, purpose: str) -> FloatArray | None:
        """Return the preferences (count, objectives) at which a client's model is evaluated.

        None where a model takes no preference. Otherwise the forward of what `build` returns takes
        preferences after the inputs.

        Args:
            objectives: their number.
            purpose: ``"validation"`` or ``"test"``.
        """
        return None

    def acting_preference(self, generator: np.random.Generator, own: FloatArray) -> FloatArray:
        """Return the preference at which a client acts in its next episode. Default: its own.

        Only where networks take a preference, in environments.

        Args:
            generator: the client's stream for this episode.
            own: the client's preference.
        """
        return own

    @property
    def select_after_training(self) -> bool:
        """Whether the round that all keep is chosen by trained models instead of received ones."""
        return False

    def phases(self, problem: Problem) -> Sequence[Phase]:
        """Return how a client trains in a round on this problem. Default: one plain phase."""
        return [Phase()]

    def local_phases(self, problem: Problem) -> Sequence[Phase]:
        """Return how a client trains when the server neither broadcasts nor mixes afterwards."""
        return [
            replace(phase, weights=None, surveyed=False, per_objective=False)
            for phase in self.phases(problem)
        ]

    def on_receipt(self, problem: Problem) -> Update | None:
        """Return an update of what a client keeps to itself whenever models reach it; None: none.

        It runs after every delivery, the last one included, before the delivered models are
        validated. It may change tensors that do not travel, from the parameters, all training
        samples and the view (with ``validation``). A client that declines a delivery undoes it.
        """
        return None

    def survey_client(self, problem: Problem) -> Update:
        """Return a function that computes the surveyed values learners do not know.

        It maps ``(parameters, everything, view)`` of one client to tensors by name, where
        ``everything`` are all its training samples.
        """
        return lambda parameters, everything, view: {}

    # -- on the server (stateful) ----------------------------------------------------------

    _transient: ClassVar[tuple[str, ...]] = ()
    """Private attributes that live from a survey to the mixing after it: `state` omits them."""

    def broadcast(self, survey: Survey) -> dict[str, FloatArray]:
        """Return what all clients get after a survey, by name (`View.broadcast`)."""
        return {}

    def mix(self, round: Round) -> Mapping[str, Mixing | Pick]:
        """Return who learns from whom, by tensor name or pattern.

        The first pattern that matches a tensor counts; ``"*"``, last, is all other tensors.
        """
        raise NotImplementedError

    def server_step(self, held: Fleet, mixed: Fleet) -> Fleet:
        """Return the server's new parameters, from those before and those that were mixed.

        Wrappers have changed the mixing by then, so ``mixed - held`` is the update that the server
        believes in. It is called after `mix`, once per round in which something was mixed. Buffers
        and target networks are not among the tensors: they stay as they were mixed.

        Args:
            held: the parameters before this round, one row per row of ``mixed``.
            mixed: the parameters that the mixings made.
        """
        return mixed

    @property
    def has_server_step(self) -> bool:
        """Whether the server does more than mix."""
        return type(self).server_step is not Algorithm.server_step

    def ensemble(self, models: Fleet, sizes: FloatArray) -> Tree:
        """Return the tensors that every client gets after the last round, by name.

        Args:
            models: the travelling tensors of all clients, one row each.
            sizes: amount of data of each client; 0 where its model is broken.
        """
        raise NotImplementedError

    def diagnostics(self) -> dict[str, Any]:
        """Return what the history keeps of the server's work in this round, as plain values.

        The key ``clusters`` is a partition of the clients, which has its own place and pictures.
        """
        return {}

    def state(self) -> dict[str, Any]:
        """Return what the server must remember, by name: plain values and arrays.

        Default: all private attributes that are not None. Override it, with `load`, where one of
        them is neither a number, a string, a list, an array, a dict of arrays nor a `Fleet`.
        """
        private = self.__pydantic_private__ or {}
        kept = {k: v for k, v in private.items() if v is not None and k not in self._transient}
        try:
            return packed({name.removeprefix("_"): value for name, value in kept.items()})
        except TypeError as error:
            raise TypeError(
                f"{type(self).__name__}._{error}: override state() and load()"
            ) from None

    def load(self, state: dict[str, Any]) -> None:
        """Take back what `state` returned, which may be nothing."""
        for name, value in unpacked(state).items():
            setattr(self, f"_{name}", value)
