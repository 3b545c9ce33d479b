"""Settings of learners, wrappers, generators and privacy."""

from __future__ import annotations

from typing import Literal, TypedDict


class AnnealingSettings(TypedDict, total=False):
    """Settings of annealing."""

    alpha: float
    """Factor by which a weight is pushed (default: 1.1; above 1)."""
    temperature: float
    """At the start (default: 1.0; above 0)."""
    cooling: float
    """Factor on the temperature per iteration (default: 0.9; above 0, at most 1)."""
    jitter: float
    """Share of a random weight mixed in at the start; falls with the temperature (default:
    0.3; at least 0, at most 1)."""
    acceptance: Literal["linear", "chebyshev", "weak"]
    """Scalar linear, strong (Chebyshev) or weak acceptance rule (default: 'linear')."""
    init: Literal["random", "equidistant"]
    """The weights of the first iteration (default: 'random')."""


class CenteredClippingSettings(TypedDict, total=False):
    """Settings of centered-clipping."""

    radius: float
    """τ, in medians of the distances from the centre (default: 1.0; above 0)."""
    iterations: int
    """Steps of the centre of a row for several clients (default: 3; at least 1)."""


class ClipSettings(TypedDict, total=False):
    """Settings of clip."""

    factor: float
    """Largest length, in medians of this round's lengths (default: 1.0; above 0)."""


class ConFREESettings(TypedDict, total=False):
    """Settings of confree."""

    c: float
    """How far the step may leave the guidance vector (default: 0.4; above 0, below 1)."""
    scope: Literal["tensor", "model"]
    """One problem a tensor, or one in all (default: 'tensor')."""
    guidance: Literal["simultaneous", "sequential"]
    """Projections of the original updates, or one after the other (default: 'simultaneous')."""
    projection: Literal["poster", "public"]
    """Divided by ‖Δ_j‖²; public: not, as in the public code: milder for short updates
    (default: 'poster')."""
    rescale: bool
    """Divide the step by 1 + c², as the public code does (default: True)."""


class DDPGSettings(TypedDict, total=False):
    """Settings of ddpg."""

    learning_rate: float
    """Adam's step size (default: 0.001; above 0)."""
    local_steps: int
    """Environment steps a client takes in a round (default: 500; at least 1)."""
    total_steps: int
    """Environment steps a client takes in all (default: 10000; at least 1)."""
    batch_size: int
    """Transitions in one update (default: 100; at least 1)."""
    buffer_size: int
    """Transitions kept per client (default: 200000; at least 1)."""
    learning_starts: int
    """Random steps before the first update (default: 100; at least 0)."""
    gamma: float
    """Discount factor (default: 0.98; at least 0, at most 1)."""
    train_freq: int
    """Environment steps between trainings (default: 1; at least 1)."""
    gradient_steps: int
    """Updates per training; -1: one per step (default: 1; at least -1)."""
    average_targets: bool
    """Target networks travel and are mixed like the model (default: False)."""
    tau: float
    """How far targets follow in one update (default: 0.005; above 0, at most 1)."""
    noise: float
    """Spread of the exploration noise on actions between -1 and 1 (default: 0.1; at least 0)."""


class DQNSettings(TypedDict, total=False):
    """Settings of dqn."""

    learning_rate: float
    """Adam's step size (default: 0.001; above 0)."""
    local_steps: int
    """Environment steps a client takes in a round (default: 500; at least 1)."""
    total_steps: int
    """Environment steps a client takes in all (default: 10000; at least 1)."""
    batch_size: int
    """Transitions in one update (default: 64; at least 1)."""
    buffer_size: int
    """Transitions kept per client (default: 50000; at least 1)."""
    learning_starts: int
    """Random steps before the first update (default: 1000; at least 0)."""
    gamma: float
    """Discount factor (default: 0.99; at least 0, at most 1)."""
    train_freq: int
    """Environment steps between trainings (default: 4; at least 1)."""
    gradient_steps: int
    """Updates per training; -1: one per step (default: -1; at least -1)."""
    average_targets: bool
    """Target networks travel and are mixed like the model (default: False)."""
    target_update_interval: int
    """Steps between target copies (default: 500; at least 1)."""
    exploration_fraction: float
    """Share of all steps to lower epsilon (default: 0.1; above 0)."""
    exploration_final: float
    """Epsilon after that (default: 0.05; at least 0, at most 1)."""
    max_grad_norm: float
    """Norm to which a client's gradient is clipped (default: 10.0; above 0)."""


class GapSettings(TypedDict, total=False):
    """Settings of gap."""

    tolerance: float
    """Possible gain, as share of the largest value known, below which none is seen (default:
    0.001; at least 0)."""


class GeometricMedianSettings(TypedDict, total=False):
    """Settings of geometric-median."""

    iterations: int
    """Largest number of steps (default: 100; at least 1)."""
    smoothing: float
    """ν, in root mean square distances from the mean (default: 1e-06; above 0)."""


class MultiKrumSettings(TypedDict, total=False):
    """Settings of multi-krum."""

    share: float
    """Share of bad members to withstand (default: 0.3; above 0, below 0.5)."""


class NearestNeighbourMixingSettings(TypedDict, total=False):
    """Settings of nearest-neighbour-mixing."""

    share: float
    """Share of bad members to withstand (default: 0.3; above 0, below 0.5)."""


class PrivacySettings(TypedDict, total=False):
    """Settings of privacy."""

    epsilon: float
    """Largest epsilon of a client over the whole run; 0: noise decides (default: 0.0; at least
    0, at most 1000000.0)."""
    noise: float
    """Noise multiplier: standard deviation of each coordinate's noise in units of clip; filled
    in from epsilon (default: 0.0; at least 0, at most 1000000.0)."""
    delta: float
    """Probability with which epsilon may be exceeded (default: 1e-05; at least 1e-15, below
    1)."""
    clip: float
    """Largest length of an update; longer ones are scaled down to it (default: 1.0; above 0,
    at most 1000000.0)."""


class ScaledMeanSettings(TypedDict, total=False):
    """Settings of scaled-mean."""

    c: float
    """How far the step may leave the guidance vector (default: 0.4; above 0, below 1)."""
    scope: Literal["tensor", "model"]
    """One problem a tensor, or one in all (default: 'tensor')."""
    guidance: Literal["simultaneous", "sequential"]
    """Projections of the original updates, or one after the other (default: 'simultaneous')."""
    projection: Literal["poster", "public"]
    """Divided by ‖Δ_j‖²; public: not, as in the public code: milder for short updates
    (default: 'poster')."""
    rescale: bool
    """Divide the step by 1 + c², as the public code does (default: True)."""


class SupervisedSettings(TypedDict, total=False):
    """Settings of supervised."""

    learning_rate: float
    """Step size (default: 0.001; above 0)."""
    local_steps: int
    """Steps a client takes in a round (default: 25; at least 1)."""
    total_steps: int
    """Steps a client takes in all (default: 1500; at least 1)."""
    batch_size: int
    """Samples in one step; all where a client has less (default: 256; at least 1)."""
    optimiser: Literal["adam", "sgd"]
    """Adam or sgd; starts afresh every round (default: 'adam')."""
    momentum: float
    """Momentum of sgd (default: 0.0; at least 0, below 1)."""
    weight_decay: float
    """Pull of all trained weights to zero (default: 0.0; at least 0)."""
    scalarisation: Literal["linear", "tchebycheff", "smooth-tchebycheff", "pbi"]
    """How a preference makes one loss of several (default: 'linear')."""
    smoothing: float
    """Smooth-tchebycheff: larger is closer to the maximum (default: 1.0; above 0)."""
    sharpness: Literal["absolute", "relative"]
    """Smooth-tchebycheff: absolute: smoothing acts on losses over the direction, so more at
    uneven preferences; relative: on losses times weights, alike at all preferences
    (default: 'absolute')."""
    augment: float
    """Tchebycheff: share of the weighted sum that is added to the maximum (default: 0.05; at
    least 0)."""
    pbi_penalty: float
    """Pbi: weight of the distance from the direction that a preference names (default: 5.0; at
    least 0)."""
    least_weight: float
    """All but linear: a preference is raised to this (default: 0.01; above 0, at most 0.5)."""
    ideal: Literal["auto", "zero", "seen"]
    """All but linear: losses count from: zero; seen: the client's smallest so far, looked up
    once per round; auto: zero, or with normalise = ends the smallest there (default:
    'auto')."""
    normalise: Literal["none", "initial", "units", "ends"]
    """Divide each loss by: none: nothing; initial: its value for the initial model; units:
    what brings it to the unit of its score; ends: its spread between runs on one objective
    alone (default: 'initial')."""
    warm_up: float
    """Share of the rounds in which the first objective alone counts (default: 0.0; at least 0,
    below 1)."""
    compile: Literal["auto", "yes", "no"]
    """Compile the steps; auto: where the run is long enough to pay (default: 'auto')."""
    local_epochs: int
    """Times that a client goes through its data in a round; 0: it takes local_steps (default:
    0; at least 0)."""
