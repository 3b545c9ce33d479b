"""Files of trained agents, for use in other runs.

A setting names such a file with its fingerprint behind a ``#``, once it has been read: repeating a
run with another file under the same name is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, get_args

from comity.algorithms.pfedrlla.agent import Agent, Kind
from comity.algorithms.pfedrlla.encoder import WIDTH, Encoder
from comity.core.rng import torch_seeded
from comity.core.storage import load_values, save_values, strip_prefix
from comity.core.typing import NamedArrays
from comity.errors import UserError

KIND = "pfedrlla agent"
_MAKE = "Make one with: comity pretrain pfedrlla PROBLEM --out agent.safetensors"


def with_fingerprint(text: str) -> str:
    """Return the setting with the file's whole path and fingerprint; empty stays empty."""
    if not text:
        return text
    name, _, expected = text.partition("#")
    path = Path(name).absolute()
    if not path.is_file():
        raise UserError(f"pfedrlla.agent = {name!r}: there is no such file. {_MAKE}")
    fingerprint = _fingerprint(path, path.stat().st_mtime_ns)
    if expected and expected != fingerprint:
        raise UserError(
            f"pfedrlla.agent: {path} is not the file that it was ({fingerprint} instead of "
            f"{expected}). Put the old one back, or name it without '#…'."
        )
    load(text)
    return f"{path}#{fingerprint}"


@lru_cache(maxsize=8)
def _fingerprint(path: Path, changed: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def load(text: str) -> tuple[NamedArrays, dict[str, Any]]:
    """Return the arrays and the header of the file that a setting names."""
    path = Path(text.partition("#")[0])
    arrays, header = load_values(path)
    if header.get("kind") != KIND:
        raise UserError(f"pfedrlla.agent: {path} holds no agent. {_MAKE}")
    kinds = {"network": str, "reference": bool, "participants": int}
    wrong = [name for name, kind in kinds.items() if not isinstance(header.get(name), kind)]
    if wrong or header["network"] not in get_args(Kind):
        name = wrong[0] if wrong else "network"
        raise UserError(f"pfedrlla.agent: the header of {path} has no valid {name}. {_MAKE}")
    return arrays, header


def save(path: Path, arrays: NamedArrays, header: Mapping[str, Any]) -> None:
    """Write the arrays and the header of an agent for other runs."""
    save_values(path, arrays, {**header, "kind": KIND})


class AgentSpec(NamedTuple):
    """Kind of agent and encoder."""

    network: Kind
    reference: bool
    """As in the public code: tanh before the softmax, tokens without singular values."""


class AgentBundle(NamedTuple):
    """An agent, its encoder, and whether tokens are scaled by their singular values."""

    agent: Agent
    encoder: Encoder
    scaled: bool


def spec_of(text: str, new: AgentSpec) -> AgentSpec:
    """Return the kind of the agent in a named file; without a file, that of a new one."""
    header = load(text)[1] if text else new._asdict()
    return AgentSpec(header["network"], header["reference"])


def bundle(text: str, new: AgentSpec, participants: int, memory: int, seed: int) -> AgentBundle:
    """Return agent and encoder of a named file, or new ones.

    Args:
        text: the setting that names the file; empty for new ones.
        new: the kind of new ones.
        participants: the number of clients that are asked in a round.
        memory: the number of episodes that the agent remembers.
        seed: the run's, for new ones.

    Raises:
        KeyError, ValueError: the networks in the file are not those of this version.
    """
    spec = spec_of(text, new)
    with torch_seeded(seed, "agent"):
        encoder = Encoder()
        agent = Agent(
            participants + 1, WIDTH, kind=spec.network, squashed=spec.reference, memory=memory
        )
    if text:
        arrays, _ = load(text)
        agent.load(strip_prefix(arrays, "agent."))
        encoder.load(strip_prefix(arrays, "encoder."))
    return AgentBundle(agent, encoder, scaled=not spec.reference)


def check_fit(text: str, participants: int) -> None:
    """Refuse (`UserError`) a named file whose agent cannot serve this number of participants."""
    _, header = load(text)
    if header["network"] == "flat" and header["participants"] != participants:
        raise UserError(
            f"pfedrlla.agent: this agent weighs {header['participants']} participants of a "
            f"round, and here are {participants}. Change clients or participation, or pretrain "
            "one with --set pfedrlla.network=pairwise, which weighs any number."
        )
    try:
        bundle(text, spec_of(text, AgentSpec("pairwise", False)), participants, memory=1, seed=0)
    except (KeyError, ValueError, TypeError, RuntimeError) as error:
        raise UserError(
            f"pfedrlla.agent: the networks in {text} are not those of this version "
            f"({error}). Pretrain the agent again."
        ) from None


def networks(state: NamedArrays) -> NamedArrays:
    """Return the arrays of a server's state that a file holds: networks, but no episodes."""
    names = ("agent.networks.", "encoder.")
    return {name: array for name, array in state.items() if name.startswith(names)}
