"""Settings of runs, comparisons and searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from comity.algorithms import Algorithm
from comity.api.typed.algorithms import (
    FairFedSettings,
    FedAdagradSettings,
    FedAdamSettings,
    FedAvgMSettings,
    FedCMOOSettings,
    FedFBSettings,
    FedFewSettings,
    FedPrefSettings,
    FedProxSettings,
    FedYogiSettings,
    FSMGDASettings,
    HetPFLSettings,
    MaTFLSettings,
    PraFFLSettings,
    ScaffoldSettings,
)
from comity.api.typed.parts import (
    AnnealingSettings,
    ClipSettings,
    ConFREESettings,
    DDPGSettings,
    DQNSettings,
    GapSettings,
    PrivacySettings,
    SupervisedSettings,
)
from comity.api.typed.personalised import (
    APFLSettings,
    CFLSettings,
    DittoSettings,
    FedALASettings,
    FedAMPSettings,
    FedBNSettings,
    FedCPSettings,
    FedFomoSettings,
    FedPACSettings,
    FedPHPSettings,
    FedRepSettings,
    PFedMeSettings,
    PFedRLLASettings,
)


class SharedSettings(TypedDict, total=False):
    """Settings of runs and searches."""

    wrapper: str
    """Rules on top of the algorithm's server step, in their order: clip,confree (default:
    'none')."""
    preset: str
    """Source of the papers' settings: default, or a name; see: list presets (default:
    'default')."""
    clients: int
    """Number of clients (default: 20; at least 1, at most 1000000)."""
    names: str | Sequence[str]
    """Names of the clients, in their order; default: those of the data's silos, if any
    (default: [])."""
    rounds: int
    """How often clients train and the server mixes (default: 1; at least 1)."""
    partition: str
    """How data are dealt out: stratified, naive, dirichlet:ALPHA, pathological:S, shards:S or
    natural (default: 'stratified')."""
    sizes: str
    """How much data clients have: equal, dirichlet:BETA or N,N,… (default: 'equal')."""
    split_ratio: str
    """Parts of a client's data for training, validation and test (default: '70:10:20')."""
    participation: float
    """Share p of the clients that take part in a round: ⌈p N⌉ (default: 1.0; above 0, at most
    1)."""
    topology: Literal["star", "neighbours"]
    """Star: a server mixes; neighbours: each client mixes what it heard, without one (default:
    'star')."""
    graph: str
    """Neighbours: who hears whom: complete, ring, ring:K (K on either side) or random:P (each
    pair, anew in each round) (default: 'complete')."""
    absences: Sequence[tuple[int, int, str]]
    """Simulated absences: [round, client, exchange], exchange one of survey, round, finish
    (default: [])."""
    attack: str
    """a scenario of the simulation: NAME:COUNT[,factor=NUMBER], e.g. sign-flip:3, of clients
    drawn at random; results are over the others (default: 'none')."""
    size_cap: float
    """a client's data size, and counts that weigh like it, are at most this many medians of
    the round's; 0: as they are sent (default: 3.0; at least 0)."""
    keep: Literal["best", "last"]
    """Hand over each client's best validated model, or its last one (default: 'best')."""
    keep_scope: Literal["client", "federation"]
    """Best model of each client, or one best round for all clients together (default:
    'client')."""
    guard: bool
    """a client declines a mixed model that does worse on its validation than its own (default:
    False)."""
    alone_share: float
    """Share of a client's steps for a lone companion, which is never mixed nor sent; the
    client keeps the better of both by validation (default: 0.0; at least 0, below 1)."""
    fine_tune: str
    """None; replace-last: no mixing in the last round; extra:K: K rounds' work more (default:
    'none')."""
    encoding: Literal["none", "exact", "float16", "int8", "int4"]
    """How models travel: whole (none), or what changed: exact, float16, int8 or int4 (default:
    'none')."""
    validation_episodes: int
    """Episodes that judge a model in a round (default: 1; at least 1)."""
    test_episodes: int
    """Episodes that judge a model at the end (default: 1; at least 1)."""
    evaluate_every: int
    """Data: rounds between evaluations of all clients, absent ones too, on validation data; 0:
    never (default: 0; at least 0)."""
    global_test: int | Literal["all"]
    """Data: test samples of all clients on which every model is judged, too: all, a number
    that is drawn among them, or 0: none (default: 'all')."""
    keep_checkpoint: bool
    """Leave the checkpoint, which only an unfinished run needs, in the directory (default:
    False)."""
    chunk: int
    """Clients trained as one stack by one process (default: 10; at least 1)."""
    threads: int
    """Threads of one process; more may change bits (default: 1; at least 1, at most 1024)."""
    device: str
    """Where models train and are mixed: cpu, cuda, cuda:1, mps, or auto, the best there is
    (default: 'cpu')."""
    privacy: PrivacySettings
    """Differential privacy of what clients send: a table with epsilon or noise, and clip
    (default: None)."""
    apfl: APFLSettings
    """Settings of apfl."""
    cfl: CFLSettings
    """Settings of cfl."""
    clip: ClipSettings
    """Settings of clip."""
    confree: ConFREESettings
    """Settings of confree."""
    ddpg: DDPGSettings
    """Settings of ddpg."""
    ditto: DittoSettings
    """Settings of ditto."""
    dqn: DQNSettings
    """Settings of dqn."""
    fairfed: FairFedSettings
    """Settings of fairfed."""
    fedadagrad: FedAdagradSettings
    """Settings of fedadagrad."""
    fedadam: FedAdamSettings
    """Settings of fedadam."""
    fedala: FedALASettings
    """Settings of fedala."""
    fedamp: FedAMPSettings
    """Settings of fedamp."""
    fedavgm: FedAvgMSettings
    """Settings of fedavgm."""
    fedbn: FedBNSettings
    """Settings of fedbn."""
    fedcmoo: FedCMOOSettings
    """Settings of fedcmoo."""
    fedcp: FedCPSettings
    """Settings of fedcp."""
    fedfb: FedFBSettings
    """Settings of fedfb."""
    fedfew: FedFewSettings
    """Settings of fedfew."""
    fedfomo: FedFomoSettings
    """Settings of fedfomo."""
    fedpac: FedPACSettings
    """Settings of fedpac."""
    fedphp: FedPHPSettings
    """Settings of fedphp."""
    fedpref: FedPrefSettings
    """Settings of fedpref."""
    fedprox: FedProxSettings
    """Settings of fedprox."""
    fedrep: FedRepSettings
    """Settings of fedrep."""
    fedyogi: FedYogiSettings
    """Settings of fedyogi."""
    fsmgda: FSMGDASettings
    """Settings of fsmgda."""
    hetpfl: HetPFLSettings
    """Settings of hetpfl."""
    matfl: MaTFLSettings
    """Settings of matfl."""
    pfedme: PFedMeSettings
    """Settings of pfedme."""
    pfedrlla: PFedRLLASettings
    """Settings of pfedrlla."""
    praffl: PraFFLSettings
    """Settings of praffl."""
    scaffold: ScaffoldSettings
    """Settings of scaffold."""
    supervised: SupervisedSettings
    """Settings of supervised."""


class RunSettings(SharedSettings, total=False):
    """Settings of a run by name, and tables of its parts."""

    algorithm: str | type[Algorithm]
    """What is federated about it: a name, or module:class of your own (default: 'fedpref')."""
    seed: int
    """Where all random numbers come from (default: 1; at least 0)."""
    preferences: str | Sequence[Sequence[float]]
    """Dirichlet[:ALPHA], interior[:SHARE], equidistant, gaussian, same:W,W, shared:N,N,
    largest-gap[:W] or a CSV file (default: 'dirichlet')."""
    links: Mapping[str, Any]
    """Links that exist at times only: a table with a contact plan and its rules (default:
    None)."""


class CompareSettings(SharedSettings, total=False):
    """Settings of a comparison by name, and tables of its parts."""

    preferences: str | Sequence[str]
    """One distribution of preferences, or several."""
    links: Mapping[str, Any]
    """Links that exist at times only: a table with a contact plan and its rules."""
    encodings: Sequence[str]
    """Ways in which models travel: each entry under each."""
    attacks: Sequence[str]
    """Attacks: each entry under each."""
    target: float
    """Validation accuracy of one objective; the table has when entries reach it."""


class SearchSettings(SharedSettings, total=False):
    """Settings of a search by name, those of its federations, and tables of its parts."""

    algorithm: str | type[Algorithm]
    """What is federated about it: a name, or module:class of your own (default: 'fedpref')."""
    seed: int
    """Where all random numbers come from (default: 1; at least 0)."""
    generator: str
    """Where to look next: annealing, gap, grid or random (default: 'annealing')."""
    iterations: int
    """How often candidates are proposed (default: 20; at least 1)."""
    candidates: int
    """Weights tried in one iteration (default: 5; at least 1)."""
    evaluations: int
    """Stop once this many candidates were tried; 0: no limit (default: 0; at least 0)."""
    stall: int
    """Stop after this many iterations without a larger hypervolume; 0: never (default: 0; at
    least 0)."""
    warm_start: bool
    """Start from the model of the nearest weight solved before (default: False)."""
    spread: bool
    """Each client carries a candidate of its own (off: all clients of one share it) (default:
    False)."""
    harvest: bool
    """Also evaluate the server's models of every round, not only the last ones (default:
    True)."""
    evaluation_episodes: int
    """Environments: episodes in which the server evaluates a model (default: 1; at least 1)."""
    server_share: float
    """Data: share of the clients' training rows that the server holds instead, to evaluate
    models on (default: 0.2; above 0, below 1)."""
    reference_point: list[float]
    """Where hypervolume is measured from (default: None)."""
    control: bool
    """Run the same search with random weights beside it (default: True)."""
    annealing: AnnealingSettings
    """Settings of annealing."""
    gap: GapSettings
    """Settings of gap."""


class TuneSettings(SharedSettings, total=False):
    """Settings of a tuning by name, those of its runs, and tables of their parts."""

    algorithm: str | type[Algorithm]
    """What is federated about it: a name, or module:class of your own (default: 'fedpref')."""
    preferences: str | Sequence[Sequence[float]]
    """Dirichlet[:ALPHA], interior[:SHARE], equidistant, gaussian, same:W,W, shared:N,N,
    largest-gap[:W] or a CSV file (default: 'dirichlet')."""
    links: Mapping[str, Any]
    """Links that exist at times only: a table with a contact plan and its rules (default:
    None)."""
    trials: int | None
    """Number of trials, the settings as they are (trial 0) included; default: 20, of a grid
    all (default: None; at least 1, at most 10000)."""
    seeds: int | Sequence[int]
    """Runs per trial: a number of seeds, counted from 1001, or the seeds (default: 3)."""
    objectives: Sequence[str]
    """What is good, on validation data: mean_scalarised (default), worst_scalarised,
    hypervolume, an objective of the problem, megabytes (default: [])."""
    sampler: Literal["tpe", "random", "grid"] | None
    """Where proposals come from: tpe (default: by the trials before), random, or grid: all
    combinations (default for a printed grid) (default: None)."""
    batch: int
    """Tpe: trials that are proposed together, from those before; results depend on it, and not
    on the number of workers (default: 4; at least 1)."""
    seed: int
    """Where the proposals' random numbers come from (default: 1; at least 0)."""
