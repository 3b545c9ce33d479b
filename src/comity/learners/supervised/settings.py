"""Settings of supervised learning."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import field_validator

from comity.core.devices import CPU
from comity.core.scalarisations import Kind, Scalarisation, Sharpness
from comity.errors import UserError
from comity.learners.base import LearnerSettings
from comity.learners.supervised.compiling import compiler
from comity.settings import setting

Normalise = Literal["none", "initial", "units", "ends"]
"""Divisors of losses; see `comity.learners.supervised.normalisation`."""
_WORTHWHILE = 200_000  # client steps of a run from which compiling saves more time than it takes


class SupervisedSettings(LearnerSettings):
    """Settings of supervised learning; each problem has its own defaults."""

    learning_rate: float = setting(1e-3, "step size", above=0)
    batch_size: int = setting(256, "samples in one step; all where a client has less", at_least=1)
    optimiser: Literal["adam", "sgd"] = setting("adam", "adam or sgd; starts afresh every round")
    momentum: float = setting(0.0, "momentum of sgd", at_least=0, below=1)
    weight_decay: float = setting(0.0, "pull of all trained weights to zero", at_least=0)
    scalarisation: Kind = setting("linear", "how a preference makes one loss of several")
    smoothing: float = setting(1.0, "smooth-tchebycheff: larger is closer to the maximum", above=0)
    sharpness: Sharpness = setting(
        "absolute",
        "smooth-tchebycheff: absolute: smoothing acts on losses over the direction, so more at "
        "uneven preferences; relative: on losses times weights, alike at all preferences",
    )
    augment: float = setting(
        0.05, "tchebycheff: share of the weighted sum that is added to the maximum", at_least=0
    )
    pbi_penalty: float = setting(
        5.0, "pbi: weight of the distance from the direction that a preference names", at_least=0
    )
    least_weight: float = setting(
        0.01, "all but linear: a preference is raised to this", above=0, at_most=0.5
    )
    ideal: Literal["auto", "zero", "seen"] = setting(
        "auto",
        "all but linear: losses count from: zero; seen: the client's smallest so far, looked up "
        "once per round; auto: zero, or with normalise = ends the smallest there",
    )
    normalise: Normalise = setting(
        "initial",
        "divide each loss by: none: nothing; initial: its value for the initial model; units: what "
        "brings it to the unit of its score; ends: its spread between runs on one objective alone",
    )
    warm_up: float = setting(
        0.0, "share of the rounds in which the first objective alone counts", at_least=0, below=1
    )
    compile: Literal["auto", "yes", "no"] = setting(
        "auto", "compile the steps; auto: where the run is long enough to pay"
    )
    local_epochs: int = setting(
        0,
        "times that a client goes through its data in a round; 0: it takes local_steps",
        at_least=0,
    )
    local_steps: int = setting(25, "steps a client takes in a round", at_least=1)
    total_steps: int = setting(1500, "steps a client takes in all", at_least=1)

    @field_validator("normalise", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        """Accept true and false, as files of earlier versions have them."""
        return {True: "initial", False: "none"}[value] if isinstance(value, bool) else value

    def scalarised(self) -> Scalarisation:
        """Return the scalarisation of these settings."""
        return Scalarisation(
            self.scalarisation,
            self.smoothing,
            self.sharpness,
            self.augment,
            self.pbi_penalty,
            self.least_weight,
        )

    def decided(self, stack: int, device: str) -> Self:
        """Return the settings with ``compile`` decided by the length of the run, and the device.

        Compiled steps give other bits, so the choice is written into the configuration.
        """
        if self.compile == "yes" and device != CPU:
            raise UserError(
                f"supervised.compile = yes and device = {device} exclude each other: steps are "
                "compiled for the CPU only. Say supervised.compile = no, or device = cpu."
            )
        if self.compile != "auto":
            return self
        known = self.local_epochs == 0  # with epochs, the steps depend on each client's data
        long = known and stack * self.total_steps >= _WORTHWHILE
        worthwhile = long and device == CPU and compiler() is not None
        return self.model_copy(update={"compile": "yes" if worthwhile else "no"})
