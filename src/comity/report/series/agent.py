"""Decisions and rewards of pFedRLLA's agent in a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from comity.algorithms.pfedrlla.allocation import embedded
from comity.core.typing import FloatArray
from comity.report.series.partition import class_counts
from comity.runs.directory import Run

TERMS = ("score", "gain", "likeness")
_LAST = 0.25  # of the rounds, over which weights are averaged


@dataclass(frozen=True)
class AgentDiagnostics:
    """Decisions of an agent, and their outcome."""

    rounds: FloatArray
    """The rounds with a reward."""
    rewards: FloatArray
    """(rounds x terms)."""
    weights: FloatArray
    """(receivers x givers): mean over the last quarter of the rounds."""
    overlap: FloatArray | None
    """(clients x clients): the share of classes in common, Σ_c min(p_c, q_c)."""
    embeddings: FloatArray | None
    tokens: FloatArray | None
    """The input of the embeddings: the principal components of the heads."""
    kinds: Sequence[str]
    """The classes of each client, as text."""


def agent_diagnostics(run: Run) -> AgentDiagnostics | None:
    """Return the diagnostics of a run's agent; None where there was none, or too many clients."""
    accounts = [(e["round"], e["server"]) for e in run.history if "server" in e]
    accounts = [
        (number, server) for number, server in accounts if server.get("weights") is not None
    ]
    if not accounts:
        return None
    rewarded = [(n, server) for n, server in accounts if server["rewards"]["score"] is not None]
    last = accounts[-max(1, round(_LAST * len(accounts))) :]
    counts = class_counts(run)
    shares = None if counts is None else counts / counts.sum(axis=1, keepdims=True)
    overlap = None
    if shares is not None:
        overlap = np.minimum(shares[:, None], shares[None]).sum(axis=2)
    embeddings, tokens = _embedded(run)
    return AgentDiagnostics(
        rounds=np.array([number for number, _ in rewarded], dtype=float),
        rewards=np.array([[server["rewards"][t] for t in TERMS] for _, server in rewarded]),
        weights=np.mean([server["weights"] for _, server in last], axis=0),
        overlap=overlap,
        embeddings=embeddings,
        tokens=tokens,
        kinds=[] if shares is None else [_classes(row) for row in shares],
    )


def _classes(shares: FloatArray) -> str:
    """Return the classes that a client has more than a little of."""
    return ", ".join(str(number) for number in np.flatnonzero(shares > 0.02))


def _embedded(run: Run) -> tuple[FloatArray | None, FloatArray | None]:
    """Return embeddings and tokens, one row per client, if the run has them."""
    rows = embedded(run.server_arrays)
    return (None, None) if rows is None else (rows.embeddings, rows.tokens)
