"""What pFedRLLA's agent did in a run, for pictures of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from comity.algorithms.pfedrlla.allocation import embedded
from comity.core.storage import strip_prefix
from comity.core.typing import FloatArray
from comity.report.series.partition import class_counts
from comity.runs.directory import Run

TERMS = ("score", "gain", "likeness")
_LAST = 0.25  # of the rounds, over which weights are averaged


@dataclass(frozen=True)
class AgentDiagnostics:
    """What an agent decided, and what came of it."""

    rounds: FloatArray
    rewards: FloatArray
    """Rounds x terms."""
    weights: FloatArray
    """Receivers x givers: mean over the last quarter of the rounds."""
    overlap: FloatArray | None
    """How much of the classes two clients have in common: Σ_c min(p_c, q_c)."""
    embeddings: FloatArray | None
    tokens: FloatArray | None
    """What the embeddings are made of: the principal components of the heads."""
    kinds: Sequence[str]
    """Which classes each client has."""


def deeds(run: Run) -> AgentDiagnostics | None:
    """None where no agent was at work, or where there are too many clients to show it."""
    told = [e for e in run.history if e.get("server", {}).get("weights") is not None]
    if not told:
        return None
    rewarded = [e for e in told if e["server"]["rewards"]["score"] is not None]
    last = told[-max(1, round(_LAST * len(told))) :]
    counts = class_counts(run)
    shares = None if counts is None else counts / counts.sum(axis=1, keepdims=True)
    overlap = None
    if shares is not None:
        overlap = np.minimum(shares[:, None], shares[None]).sum(axis=2)
    embeddings, tokens = _embedded(run)
    return AgentDiagnostics(
        rounds=np.array([e["round"] for e in rewarded], dtype=float),
        rewards=np.array([[e["server"]["rewards"][t] for t in TERMS] for e in rewarded]),
        weights=np.mean([e["server"]["weights"] for e in last], axis=0),
        overlap=overlap,
        embeddings=embeddings,
        tokens=tokens,
        kinds=[] if shares is None else [_kind(row) for row in shares],
    )


def _kind(shares: FloatArray) -> str:
    """The classes that a client has more than a little of."""
    return ", ".join(str(place) for place in np.flatnonzero(shares > 0.02))


def _embedded(run: Run) -> tuple[FloatArray | None, FloatArray | None]:
    found = run.load_checkpoint()
    rows = None if found is None else embedded(strip_prefix(found[0], "0/algorithm/"))
    return (None, None) if rows is None else (rows.embeddings, rows.tokens)
