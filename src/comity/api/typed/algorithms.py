"""Settings of each algorithm but for personalised ones."""

from __future__ import annotations

from typing import Literal, TypedDict


class AgnosticFairPooledSettings(TypedDict, total=False):
    """Settings of agnostic-fair-pooled."""

    strength: float
    """Weight of the fairness term (default: 2.0; at least 0)."""


class ConditionedDQNSettings(TypedDict, total=False):
    """Settings of conditioned-dqn."""

    conditioning: Literal["film", "concat"]
    """Where the preference enters: scales of the first features, or inputs (default: 'film')."""
    head: Literal["vector", "scalar"]
    """One value per action and objective, or one per action (default: 'vector')."""
    own_share: float
    """Share of episodes, and of drawn preferences, at the own one (default: 0.0; at least 0,
    at most 1)."""
    drawn: int
    """Preferences at which every batch is judged (default: 4; at most 1024, above 0)."""
    targets: Literal["scalarised", "envelope"]
    """Best next action at w, or of all drawn preferences (Yang et al., 2019) (default:
    'scalarised')."""
    ranking: float
    """h at the end of training: weight of w·Q in the loss (default: 1.0; at least 0, at most
    1)."""


class FairFedSettings(TypedDict, total=False):
    """Settings of fairfed."""

    alpha: float
    """Step size of the weights λ (default: 0.1; at least 0)."""
    balancing: Literal["levelling", "public"]
    """λ levels the values' rates; public: the public code's step, for two values (default:
    'levelling')."""
    beta: float
    """How much disparity moves the weights (default: 0.3; at least 0)."""
    rule: Literal["exp", "additive"]
    """Weights anew each round, or carried on (default: 'exp')."""
    average: Literal["weighted", "public"]
    """Weighted mean of models; public: the public code's, first client unweighted (default:
    'weighted')."""


class FedAdagradSettings(TypedDict, total=False):
    """Settings of fedadagrad."""

    weighting: Literal["sizes", "uniform"]
    """Clients count by their data, or all alike, as in the paper (default: 'sizes')."""
    server_rate: float
    """η: about as far as an entry moves in a round (default: 0.03; above 0)."""
    beta1: float
    """β₁: share of the mean update that is kept (default: 0.0; at least 0, below 1)."""
    tau: float
    """τ: updates smaller than this take shorter steps (default: 0.001; above 0)."""


class FedAdamSettings(TypedDict, total=False):
    """Settings of fedadam."""

    weighting: Literal["sizes", "uniform"]
    """Clients count by their data, or all alike, as in the paper (default: 'sizes')."""
    server_rate: float
    """η: about as far as an entry moves in a round (default: 0.03; above 0)."""
    beta1: float
    """β₁: share of the mean update that is kept (default: 0.9; at least 0, below 1)."""
    tau: float
    """τ: updates smaller than this take shorter steps (default: 0.001; above 0)."""
    beta2: float
    """β₂: share of the mean square that is kept (default: 0.99; at least 0, below 1)."""


class FedAvgMSettings(TypedDict, total=False):
    """Settings of fedavgm."""

    weighting: Literal["sizes", "uniform"]
    """Clients count by their data, or all alike, as in the paper (default: 'sizes')."""
    server_rate: float
    """η: length of the server's step (default: 1.0; above 0)."""
    beta: float
    """β: share of the momentum that is kept (default: 0.9; at least 0, below 1)."""


class FedCMOOSettings(TypedDict, total=False):
    """Settings of fedcmoo."""

    server_rate: float
    """Length of the server's step along the mean update (default: 1.0; above 0)."""
    beta: float
    """Step size of FindWeights (default: 0.001; above 0)."""
    iterations: int
    """Steps of FindWeights in a round (default: 1000; at least 1)."""
    exact: bool
    """Solve for w outright (not the paper's: w then forgets) (default: False)."""


class FedCMOOPrefSettings(TypedDict, total=False):
    """Settings of fedcmoo-pref."""

    server_rate: float
    """Length of the server's step along the mean update (default: 1.0; above 0)."""
    kappa: float
    """Share of the weights that is spread evenly over the objectives (default: 0.2; at least
    0, at most 1)."""
    epsilon: float
    """Imbalance μ up to which all losses descend alike (default: 0.01; at least 0)."""


class FedFBSettings(TypedDict, total=False):
    """Settings of fedfb."""

    alpha: float
    """Step size of the weights λ (default: 0.3; at least 0)."""
    average: Literal["weighted", "public"]
    """Weighted mean of models; public: the public code's, first client unweighted (default:
    'weighted')."""


class FedFewSettings(TypedDict, total=False):
    """Settings of fedfew."""

    models: int
    """K: models of the server, which start different (default: 3; at least 1, at most 1000)."""
    mu: float
    """μ: smaller, and the clients that are served worst count more (default: 0.1; above 0)."""
    columns: Literal["raw", "normalised"]
    """Length of a model's step: raw: Σ_i a_i w_ik, a K-th of FedAvg's on average; normalised:
    1 (default: 'raw')."""
    losses: Literal["plain", "shares"]
    """Losses as they are, or times the client's share of all data (the public code) (default:
    'plain')."""


class FedMGDAPlusSettings(TypedDict, total=False):
    """Settings of fedmgda-plus."""

    epsilon: float
    """How far a client's weight may be from its prior (default: 0.1; at least 0, at most 1)."""
    server_rate: float
    """Length of the server's first step (default: 1.0; above 0)."""
    decay: float
    """Factor on the server's step from round to round (default: 0.98; above 0, at most 1)."""
    prior: Literal["sizes", "uniform"]
    """Prior weights: by the clients' data, or all alike (default: 'sizes')."""


class FedPrefSettings(TypedDict, total=False):
    """Settings of fedpref."""

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
    top_r: float
    """Share of each tensor's largest changes that count (default: 0.8; above 0, at most 1)."""
    similarity: Literal["tensor", "layer"]
    """Mean of the cosines of tensors, or of layers (weight and bias as one vector) (default:
    'tensor')."""
    minimum_similarity: float
    """Similarity at or below which a client has no weight (default: -1.0; at least -1, below
    1)."""
    threshold: float | str
    """Change of a cluster's mean model that counts as stalled; '2.5%': of its norm (default:
    5.0)."""
    patience: int
    """Rounds in a row that a cluster must have stalled (default: 2; at least 1)."""
    clustering: bool
    """Split stalled clusters (off: weighted aggregation only) (default: True)."""
    weighting: bool
    """Weigh by similarity (off: plain means, clustering only) (default: True)."""


class FedProxSettings(TypedDict, total=False):
    """Settings of fedprox."""

    mu: float
    """Strength of the pull to the received model (default: 1.0; at least 0)."""


class FedYogiSettings(TypedDict, total=False):
    """Settings of fedyogi."""

    weighting: Literal["sizes", "uniform"]
    """Clients count by their data, or all alike, as in the paper (default: 'sizes')."""
    server_rate: float
    """η: about as far as an entry moves in a round (default: 0.03; above 0)."""
    beta1: float
    """β₁: share of the mean update that is kept (default: 0.9; at least 0, below 1)."""
    tau: float
    """τ: updates smaller than this take shorter steps (default: 0.001; above 0)."""
    beta2: float
    """β₂: share of the mean square that is kept (default: 0.99; at least 0, below 1)."""


class FSMGDASettings(TypedDict, total=False):
    """Settings of fsmgda."""

    server_rate: float
    """Length of the server's step along the updates (default: 1.0; above 0)."""


class HetPFLSettings(TypedDict, total=False):
    """Settings of hetpfl."""

    sampled: int
    """N: preferences drawn for every batch (default: 8; above 0)."""
    split: float
    """Share of local training that ψ gets, first (default: 0.53; above 0, below 1)."""
    smoothing: float
    """γ of the smooth Tchebycheff function (default: 1.0; above 0)."""
    lambda_min: float
    """No entry of a preference counts as less (default: 0.01; above 0, below 0.5)."""
    width: int
    """Features that ψ hands to the head (default: 4; at most 1024, above 0)."""
    arch: Literal["code", "relu"]
    """Head: two linear layers and one common bias, or relu between them (default: 'code')."""
    hyper: Literal["mlp", "linear"]
    """Hypernetwork: a hidden layer, or none (default: 'mlp')."""
    hyper_width: int
    """Width of the hypernetwork's hidden layers (default: 4; at most 1024, above 0)."""
    weighting: Literal["mean", "sizes", "public"]
    """How the server averages ψ; public: by sizes, but the first client's not weighted
    (default: 'mean')."""
    hand_over: Literal["trained", "averaged"]
    """ψ that clients end with: as trained, which β fits, or the mean (the paper) (default:
    'trained')."""
    tested: int
    """Preferences at which each client is judged in the end (default: 1000; above 0)."""
    alpha: float
    """α of all clients at first (default: 1.05; at least 1)."""
    alpha_most: float
    """No entry of α gets larger (default: 5.0; at least 1)."""
    alpha_rate: float
    """Step size of α; 0: it stays (default: 0.05; at least 0)."""
    alpha_decay: float
    """Pull of α to zero; the public code's 1e-4 is about as strong as what α learns (default:
    0.0; at least 0)."""
    baseline: Literal["mean", "none"]
    """What contributions are measured from: their mean, or none (the public code) (default:
    'mean')."""
    front: Literal["local", "global"]
    """Models that clients end with: of their own front, or one for that of all data (default:
    'local')."""
    fusion: Literal["mean", "tuned", "weights"]
    """Global: the mean of all hypernetworks; trained on by all from there; or a mean with
    weights that depend on the preference, for which everybody gets all hypernetworks
    (default: 'tuned')."""
    fusion_share: float
    """Tuned, weights: share of the rounds, the last ones, that train on (default: 0.25; at
    least 0, below 1)."""


class LFTEnsembleSettings(TypedDict, total=False):
    """Settings of lft-ensemble."""

    alpha: float
    """Step size of the weights λ (default: 0.1; at least 0)."""
    balancing: Literal["levelling", "public"]
    """λ levels the values' rates; public: the public code's step, for two values (default:
    'levelling')."""


class LFTFedAvgSettings(TypedDict, total=False):
    """Settings of lft-fedavg."""

    alpha: float
    """Step size of the weights λ (default: 0.3; at least 0)."""
    balancing: Literal["levelling", "public"]
    """λ levels the values' rates; public: the public code's step, for two values (default:
    'levelling')."""
    average: Literal["weighted", "public"]
    """Weighted mean of models; public: the public code's, first client unweighted (default:
    'weighted')."""


class MaTFLSettings(TypedDict, total=False):
    """Settings of matfl."""

    voters: int
    """Clients that each one averages with, itself included (default: 10; at least 1)."""
    scope: Literal["layer", "model"]
    """Compare tensor by tensor, or whole models (default: 'layer')."""
    weights: Literal["similarity", "uniform", "votes"]
    """By similarity, equal among voters, or by the number of tensors voted for (default:
    'similarity')."""
    shift: float
    """Added to each cosine before the cut at zero (default: 0.0; at least 0)."""


class PraFFLSettings(TypedDict, total=False):
    """Settings of praffl."""

    sampled: int
    """Preferences drawn for every batch (n_λ) (default: 64; above 0)."""
    split: float
    """Share of local training that ψ gets, first (default: 0.5; above 0, below 1)."""
    smoothing: float
    """γ of the smooth Tchebycheff function (default: 1.0; above 0)."""
    lambda_min: float
    """No entry of a preference counts as less (default: 0.01; above 0, below 0.5)."""
    width: int
    """Features that ψ hands to the head (default: 4; at most 1024, above 0)."""
    arch: Literal["code", "relu"]
    """Head: two linear layers and one common bias, or relu between them (default: 'code')."""
    hyper: Literal["mlp", "linear"]
    """Hypernetwork: a hidden layer, or none (default: 'mlp')."""
    hyper_width: int
    """Width of the hypernetwork's hidden layers (default: 4; at most 1024, above 0)."""
    weighting: Literal["mean", "sizes", "public"]
    """How the server averages ψ; public: by sizes, but the first client's not weighted
    (default: 'mean')."""
    hand_over: Literal["trained", "averaged"]
    """ψ that clients end with: as trained, which β fits, or the mean (the paper) (default:
    'trained')."""
    tested: int
    """Preferences at which each client is judged in the end (default: 1000; above 0)."""


class QFedAvgSettings(TypedDict, total=False):
    """Settings of q-fedavg."""

    q: float
    """How much more clients with a larger loss count (default: 1.0; at least 0)."""
    lipschitz: float
    """L; 0: 1 / (K η), for K local steps of size η (default: 0.0; at least 0)."""
    weighting: Literal["uniform", "sizes"]
    """Clients count alike but for their losses, or by their data, too (default: 'uniform')."""


class ScaffoldSettings(TypedDict, total=False):
    """Settings of scaffold."""

    server_rate: float
    """η_g: length of the server's step (default: 1.0; above 0)."""
