"""The settings of a run.

A configuration is written to ``config.toml`` after all defaults are filled in, so running that file
again gives the same bits.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import BeforeValidator, NonNegativeInt, StringConstraints
from torch import nn

from comity.algorithms import Algorithm, make
from comity.algorithms import find as find_algorithm
from comity.algorithms.wrappers import NONE, Wrapper, find_wrappers
from comity.configuration.attack import NONE as NO_ATTACK
from comity.configuration.attack import Attack, parse_attack
from comity.configuration.privacy import Privacy
from comity.core.devices import CPU, placed
from comity.core.graphs import COMPLETE, Graph
from comity.core.preferences import follows_from_rows, preferences
from comity.core.typing import FloatArray
from comity.errors import unknown
from comity.links.settings import Links
from comity.problems import Problem
from comity.problems import find as find_problem
from comity.problems.base import EVEN
from comity.problems.disparity import largest_gap
from comity.settings import Settings, setting

EXCHANGES = ("survey", "round", "finish")
"""Exchanges of messages in which a client may be absent."""
Absence = tuple[int, int, Literal["survey", "round", "finish"]]
"""Round, client and exchange that the client misses."""
DEFAULT_PRESET = "default"
"""The preset of a run without a named one."""
FineTune = Annotated[str, StringConstraints(pattern=r"^(none|replace-last|extra:[1-9]\d{0,3})$")]


Names = Annotated[
    list[str],
    BeforeValidator(lambda names: names.split(",") if isinstance(names, str) else names),
]
"""A list of names, or one text with commas between them."""


Listed = Annotated[
    str,
    BeforeValidator(
        lambda text: text.replace(" ", "").replace(";", ",") if isinstance(text, str) else text
    ),
]
"""Words with commas between them, without blanks; in entries of a comparison with semicolons."""


class Configuration(Settings):
    """All settings of one run; three tables hold those of algorithm, learner and wrappers."""

    problem: str | dict[str, Any] = setting(
        ..., "what is learned: a name, module:attribute, or a table that describes your own data"
    )
    algorithm: str = setting(
        "fedpref", "what is federated about it: a name, or module:class of your own"
    )
    wrapper: Listed = setting(
        NONE, "rules on top of the algorithm's server step, in their order: clip,confree"
    )
    preset: str = setting(
        DEFAULT_PRESET, "source of the papers' settings: default, or a name; see: list presets"
    )
    clients: int = setting(20, "number of clients", at_least=1, at_most=1_000_000)
    names: Names = setting(
        [], "names of the clients, in their order; default: those of the data's silos, if any"
    )
    rounds: int = setting(1, "how often clients train and the server mixes", at_least=1)
    seed: int = setting(1, "where all random numbers come from", at_least=0)
    preferences: str | list[list[float]] = setting(
        "dirichlet",
        "dirichlet[:ALPHA], interior[:SHARE], equidistant, gaussian, same:W,W, shared:N,N, "
        "largest-gap[:W] or a CSV file",
    )
    partition: str = setting(
        EVEN["partition"],
        "how data are dealt out: stratified, naive, dirichlet:ALPHA, pathological:S, shards:S or "
        "natural",
    )
    sizes: str = setting(
        EVEN["sizes"], "how much data clients have: equal, dirichlet:BETA or N,N,…"
    )
    split_ratio: str = setting(
        EVEN["split_ratio"], "parts of a client's data for training, validation and test"
    )
    participation: float = setting(
        1.0, "share p of the clients that take part in a round: ⌈p N⌉", above=0, at_most=1
    )
    topology: Literal["star", "neighbours"] = setting(
        "star", "star: a server mixes; neighbours: each client mixes what it heard, without one"
    )
    graph: Graph = setting(
        COMPLETE,
        "neighbours: who hears whom: complete, ring, ring:K (K on either side) or random:P (each "
        "pair, anew in each round)",
    )
    absences: list[Absence] = setting(
        [], "simulated absences: [round, client, exchange], exchange one of survey, round, finish"
    )
    attack: Listed = setting(
        NO_ATTACK,
        "a scenario of the simulation: NAME:COUNT[,factor=NUMBER], e.g. sign-flip:3, of clients "
        "drawn at random; results are over the others",
    )
    size_cap: float = setting(
        3.0,
        "a client's data size, and counts that weigh like it, are at most this many medians of the "
        "round's; 0: as they are sent",
        at_least=0,
    )
    keep: Literal["best", "last"] = setting(
        "best", "hand over each client's best validated model, or its last one"
    )
    keep_scope: Literal["client", "federation"] = setting(
        "client", "best model of each client, or one best round for all clients together"
    )
    guard: bool = setting(
        False, "a client declines a mixed model that does worse on its validation than its own"
    )
    alone_share: float = setting(
        0.0,
        "share of a client's steps for a lone companion, which is never mixed nor sent; the client "
        "keeps the better of both by validation",
        at_least=0,
        below=1,
    )
    fine_tune: FineTune = setting(
        "none", "none; replace-last: no mixing in the last round; extra:K: K rounds' work more"
    )
    encoding: Literal["none", "exact", "float16", "int8", "int4"] = setting(
        "none",
        "how models travel: whole (none), or what changed: exact, float16, int8 or int4",
    )
    validation_episodes: int = setting(1, "episodes that judge a model in a round", at_least=1)
    test_episodes: int = setting(1, "episodes that judge a model at the end", at_least=1)
    evaluate_every: int = setting(
        0,
        "data: rounds between evaluations of all clients, absent ones too, on validation data; "
        "0: never",
        at_least=0,
    )
    global_test: NonNegativeInt | Literal["all"] = setting(
        "all",
        "data: test samples of all clients on which every model is judged, too: all, a number that "
        "is drawn among them, or 0: none",
    )
    keep_checkpoint: bool = setting(
        False, "leave the checkpoint, which only an unfinished run needs, in the directory"
    )
    chunk: int = setting(10, "clients trained as one stack by one process", at_least=1)
    threads: int = setting(
        1, "threads of one process; more may change bits", at_least=1, at_most=1024
    )
    device: str = setting(
        CPU, "where models train and are mixed: cpu, cuda, cuda:1, mps, or auto, the best there is"
    )
    links: Links | None = setting(
        None, "links that exist at times only: a table with a contact plan and its rules"
    )
    privacy: Privacy | None = setting(
        None, "differential privacy of what clients send: a table with epsilon or noise, and clip"
    )
    algorithm_settings: dict[str, Any] = setting({}, "settings of the algorithm")
    learner_settings: dict[str, Any] = setting({}, "settings of the learner")
    wrapper_settings: dict[str, Any] = setting({}, "settings of each wrapper, by its name")

    @property
    def problem_name(self) -> str:
        """Name of the problem in results and directories."""
        return self.problem if isinstance(self.problem, str) else find_problem(self.problem).name

    @property
    def label(self) -> str:
        """Name of the run as a row of a comparison: ``fedavg+ft`` when fine-tuned."""
        wrapped = "+".join([self.algorithm, *self.wrapper_settings])
        return wrapped if self.fine_tune == "none" else f"{wrapped}+ft"

    @property
    def algorithm_name(self) -> str:
        """Declared name of the algorithm, under which its settings stand."""
        return find_algorithm(self.algorithm).declaration.name

    def get_problem(self) -> Problem:
        """Return the problem with its data dealt out to the clients of this run."""
        problem = find_problem(self.problem)
        return problem.partitioned(
            self.clients, self.seed, self.partition, self.sizes, self.split_ratio
        )

    def get_algorithm(self) -> Algorithm:
        """Return a fresh algorithm with the settings of this run."""
        return make(self.algorithm, self.algorithm_settings)

    def get_wrappers(self) -> list[Wrapper]:
        """Return fresh wrappers with the settings of this run, in their order."""
        return [
            wrapper(**self.wrapper_settings[wrapper.declaration.name])
            for wrapper in find_wrappers(self.wrapper)
        ]

    def get_attack(self) -> Attack:
        """Return the attack of this run, which may be none."""
        return parse_attack(self.attack)

    @property
    def attackers(self) -> tuple[int, ...]:
        """Clients that attack, or could, in order; results are over the others."""
        return self.get_attack().attackers(self.clients, self.seed)

    def get_module(self) -> nn.Module:
        """Return a fresh module as every client of this run holds one, on the CPU."""
        problem = self.get_problem()
        with placed(CPU):  # random weights have the same bits whatever the device
            return self.get_algorithm().build(problem.model(), problem)

    def participants(self, clients: int) -> int:
        """Return the number of participants of a round among this many clients: ⌈p N⌉."""
        # 0.07 * 100 is a little more than 7 in floating point, and must not become 8
        return max(1, math.ceil(round(self.participation * clients, 9)))

    @property
    def extra_rounds(self) -> int:
        """Rounds of fine-tuning after the last delivery."""
        return int(self.fine_tune.partition(":")[2] or 0)

    @property
    def keeps_together(self) -> bool:
        """Whether the server chooses the round whose models are kept."""
        return self.keep == "best" and self.keep_scope == "federation"

    def get_names(self) -> tuple[str, ...]:
        """Return one name per client; clients without a name have their number."""
        return tuple(self.names) or tuple(str(client) for client in range(self.clients))

    def named(self, client: int) -> str:
        """Return a client for messages: ``client 2 (BancoSur)``, or ``client 2`` without a name."""
        return f"client {client} ({self.names[client]})" if self.names else f"client {client}"

    def client_number(self, client: int | str) -> int:
        """Return the number of a client that is given by its number or its name.

        Args:
            client: A number, which may be that of no client, or a name, which must be known.
        """
        if not isinstance(client, str):
            return client
        if client in self.names:
            return self.names.index(client)
        try:
            return int(client)
        except ValueError:
            raise unknown("client", client, self.get_names()) from None

    def get_preferences(self) -> FloatArray:
        """Return one preference per client (clients, objectives)."""
        problem, spec = self.get_problem(), self.preferences
        if isinstance(spec, str) and follows_from_rows(spec):
            return largest_gap(problem, spec)
        return preferences(spec, self.clients, len(problem.objectives), self.seed)

    def to_toml(self) -> str:
        """Return the file: run-level settings, then one table each for the three parts."""
        return tomli_w.dumps(self.plain())

    def plain(self) -> dict[str, Any]:
        """Return run-level settings, then one table each for the three parts, as plain values."""
        values = self.model_dump(exclude=set(TABLES))
        values.pop("links" if self.links is None else "rounds")  # a contact plan decides them
        if self.privacy is None:
            values.pop("privacy")
        values |= self.wrapper_settings
        values[self.algorithm_name] = self.algorithm_settings
        values[self.get_problem().learner] = self.learner_settings
        return values


TABLES = ("algorithm_settings", "learner_settings", "wrapper_settings")
"""Fields that hold the settings of the parts."""
RUN_SETTINGS = tuple(name for name in Configuration.model_fields if name not in TABLES)
"""Names of the run-level settings."""
EPISODES = ("validation_episodes", "test_episodes")
"""Settings that only problems with environments have."""
