"""Settings of each personalised algorithm."""

from __future__ import annotations

from typing import Literal, TypedDict


class APFLSettings(TypedDict, total=False):
    """Settings of apfl."""

    alpha: float
    """How much of the private model counts at first (default: 1.0; at least 0, at most 1)."""
    rule: Literal["paper", "library"]
    """The paper's updates, or PFLlib's (default: 'library')."""


class CFLSettings(TypedDict, total=False):
    """Settings of cfl."""

    norm: Literal["l2", "squared", "sum", "mean", "rms"]
    """Size of a change, for the threshold: l2 over all entries, squared (l2), sum or mean of
    the tensors' l2 norms, rms over all entries (default: 'l2')."""
    warm_up: int
    """First rounds that never count as stalled (too few updates to judge) (default: 0; at
    least 0)."""
    split: Literal["threshold", "earned"]
    """Threshold: split every stalled cluster; earned: only if its two sides are unlike beyond
    chance (default: 'threshold')."""
    significance: float
    """Earned: largest probability of so clear a split among clients without groups (default:
    0.05; at least 0.005, below 1)."""
    merge: Literal["never", "earned"]
    """Earned: join two clusters whose clients gain by it for `patience` rounds in a row, and
    split none whose sides gain by staying together (default: 'never')."""
    rule: Literal["patience", "two-threshold"]
    """When to split: stalled for `patience` rounds, or Sattler's two thresholds (default:
    'patience')."""
    threshold: float | str
    """Mean update at or below which a cluster has stalled (default: 5.0)."""
    patience: int
    """Rounds in a row that a cluster must have stalled (default: 2; at least 1)."""
    largest_update: float
    """Two-threshold: some client's update must exceed this (default: 1.6; at least 0)."""
    first_round: int
    """Two-threshold: no split up to this round (default: 20; at least 0)."""
    linkage: Literal["single", "complete"]
    """Single: Sattler's optimal bipartition; complete: the official notebook (default:
    'single')."""


class DittoSettings(TypedDict, total=False):
    """Settings of ditto."""

    pull: float
    """λ: how strongly v is pulled to the received model (default: 0.5; at least 0)."""
    personal_share: float
    """Steps for v, as a multiple of those for w (default: 1.0; above 0)."""


class FedALASettings(TypedDict, total=False):
    """Settings of fedala."""

    top: int
    """How many of the last tensors have weights of their own (default: 2; at least 1)."""
    rate: float
    """η: step size of W (default: 1.0; above 0)."""
    share: float
    """Share of the data in a pass for W (default: 0.8; above 0)."""
    start_passes: int
    """Passes for W when a client mixes for the first time (default: 11; at least 1)."""


class FedAMPSettings(TypedDict, total=False):
    """Settings of fedamp."""

    pull: float
    """λ: strength of the pull to the cloud model (default: 1.0; at least 0)."""
    step: float
    """α: how much others count in the cloud model (default: 0.5; above 0)."""
    sigma: float
    """σ: how far similarity reaches (default: 1.0; above 0)."""
    relative: bool
    """σ in median squared distances between clients (default: True)."""


class FedBNSettings(TypedDict, total=False):
    """Settings of fedbn."""

    weighting: Literal["sizes", "uniform"]
    """p: shares of the data, or all clients alike as in the authors' code (default: 'sizes')."""


class FedCPSettings(TypedDict, total=False):
    """Settings of fedcp."""

    strength: float
    """λ: how much features stay like the global body's (default: 0.0; at least 0)."""


class FedFomoSettings(TypedDict, total=False):
    """Settings of fedfomo."""

    offers: int
    """M: models that a client is sent (default: 5; at least 1)."""


class FedPACSettings(TypedDict, total=False):
    """Settings of fedpac."""

    strength: float
    """λ: pull of features to their class' centroid (default: 1.0; at least 0)."""
    head_passes: float
    """Passes over the data for the head in a round (default: 1.0; above 0)."""


class FedPHPSettings(TypedDict, total=False):
    """Settings of fedphp."""

    strength: float
    """λ: how much the historical model teaches (default: 0.1; at least 0, at most 1)."""
    momentum: float
    """μ: how slowly the historical model follows, in the end (default: 0.9; at least 0, at
    most 1)."""


class FedRepSettings(TypedDict, total=False):
    """Settings of fedrep."""

    head_share: float
    """Steps for the head, as a multiple of the body's (default: 1.0; above 0)."""


class LGFedAvgSettings(TypedDict, total=False):
    """Settings of lg-fedavg."""

    weighting: Literal["sizes", "uniform"]
    """p: shares of the data, or all clients alike as in the authors' code (default: 'sizes')."""


class PerFedAvgSettings(TypedDict, total=False):
    """Settings of per-fedavg."""

    adaptation: float
    """α: step size of the adaptation (default: 0.01; at least 0)."""
    variant: Literal["fo", "hf", "exact"]
    """Second derivatives: left out, by differences of gradients, or exact (default: 'fo')."""
    delta: float
    """Length of the step whose gradients hf compares (default: 0.001; above 0)."""


class PFedMeSettings(TypedDict, total=False):
    """Settings of pfedme."""

    pull: float
    """λ: how strongly θ is pulled to w (default: 15.0; above 0)."""
    inner_steps: int
    """K: steps of θ on each batch (default: 5; at least 1)."""
    personal_rate: float
    """η_p: step size of θ (default: 0.05; above 0)."""
    server_rate: float
    """β: length of the server's step (default: 1.0; above 0)."""


class PFedRLLASettings(TypedDict, total=False):
    """Settings of pfedrlla."""

    body: Literal["weighted", "agent", "mean", "local"]
    """Bodies: by data size, agent, plain mean, or left local (default: 'weighted')."""
    head: Literal["weighted", "agent", "mean", "local"]
    """Heads: by the agent, data size, plain mean, or left local (default: 'agent')."""
    cut: str
    """The head: auto, or patterns of its tensors, e.g. body.8.*,head.* (default: 'auto')."""
    agent: str
    """File of an agent that pretrain made; without one, it learns from nothing (default: '')."""
    network: Literal["flat", "pairwise"]
    """Of a new agent: pairwise, for any number of givers, or flat, as published (default:
    'pairwise')."""
    reference: bool
    """As in the public code: tanh before softmax, tokens without singular values (default:
    False)."""
    score_reward: float
    """β₁: for a good model (default: 1.0; at least 0)."""
    gain_reward: float
    """β₂: for one better than before (default: 1.0; at least 0)."""
    likeness_reward: float
    """β₃: for weights by likeness of embeddings (default: 2.0; at least 0)."""
    target: float
    """Acc_tar: the accuracy that is aimed at (default: 1.0)."""
    warmup: int
    """Rounds of random weights before an agent from nothing (default: 50; at least 0)."""
    every: int
    """Rounds between trainings of agent and encoder (default: 10; at least 1)."""
    agent_steps: int
    """Steps of the agent in a training (default: 5; at least 0)."""
    encoder_steps: int
    """Steps of the encoder in a training (default: 5; at least 0)."""
    batch_size: int
    """Episodes in a step of the agent (default: 32; at least 1)."""
    memory: int
    """Episodes that the agent remembers (default: 100000; at least 1)."""
    noise: float
    """Spread of the noise on the agent's weights (default: 0.03; at least 0)."""
