"""Trained agents as files, which other runs take.

A setting names such a file with its fingerprint behind a ``#``, once it has been looked at: a run
that is repeated with another file under the same name is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from comity.algorithms.pfedrlla.agent import Agent, Kind
from comity.algorithms.pfedrlla.encoder import WIDTH, Encoder
from comity.core.rng import torch_seeded
from comity.core.storage import load_values, save_values, strip_prefix
from comity.core.typing import NamedArrays
from comity.errors import UserError

KIND = "pfedrlla agent"
_MAKE = "Make one with: comity pretrain pfedrlla PROBLEM --out agent.safetensors"


def add_prefix(text: str) -> str:
    """The setting with the file's whole path and fingerprint; nothing stays nothing."""
    if not text:
        return text
    name, _, wanted = text.partition("#")
    path = Path(name).absolute()
    if not path.is_file():
        raise UserError(f"pfedrlla.agent = {name!r}: there is no such file. {_MAKE}")
    found = _fingerprint(path, path.stat().st_mtime_ns)
    if wanted and wanted != found:
        raise UserError(
            f"pfedrlla.agent: {path} is not the file that it was ({found} instead of {wanted}). "
            f"Put the old one back, or name it without '#…'."
        )
    load(text)
    return f"{path}#{found}"


@lru_cache(maxsize=8)
def _fingerprint(path: Path, changed: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def load(text: str) -> tuple[NamedArrays, dict[str, Any]]:
    """The arrays of a named file, and what it says of itself."""
    path = Path(text.partition("#")[0])
    arrays, header = load_values(path)
    if header.get("kind") != KIND:
        raise UserError(f"pfedrlla.agent: {path} holds no agent. {_MAKE}")
    return arrays, header


def save(path: Path, arrays: NamedArrays, header: Mapping[str, Any]) -> None:
    """Write an agent for other runs."""
    save_values(path, arrays, {**header, "kind": KIND})


class AgentSpec(NamedTuple):
    """What agent and encoder are like."""

    network: Kind
    reference: bool
    """As in the public code: tanh before the softmax, tokens without singular values."""


class AgentBundle(NamedTuple):
    """An agent, its encoder, and whether this wants tokens with their singular values."""

    agent: Agent
    encoder: Encoder
    scaled: bool


def kinds(text: str, new: AgentSpec) -> AgentSpec:
    """Those of a named file; if none is named, what new ones are to be like."""
    header = load(text)[1] if text else new._asdict()
    return AgentSpec(header["network"], header["reference"])


def staff(text: str, new: AgentSpec, participants: int, memory: int, seed: int) -> AgentBundle:
    """Agent and encoder of a named file, or new ones; `KeyError`, `ValueError`: they do not fit."""
    found = kinds(text, new)
    with torch_seeded(seed, "agent"):
        encoder = Encoder()
        agent = Agent(
            participants + 1, WIDTH, kind=found.network, squashed=found.reference, memory=memory
        )
    if text:
        arrays, _ = load(text)
        agent.load(strip_prefix(arrays, "agent."))
        encoder.load(strip_prefix(arrays, "encoder."))
    return AgentBundle(agent, encoder, scaled=not found.reference)


def networks(state: NamedArrays) -> NamedArrays:
    """Of a server's state what a file holds: networks, but nothing that the agent remembers."""
    names = ("agent.networks.", "encoder.")
    return {name: array for name, array in state.items() if name.startswith(names)}
