"""Files of single models."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from comity.configuration import Configuration
from comity.core.fleet import Fleet
from comity.core.storage import load_values, save_values
from comity.version import __version__


def about(configuration: Configuration) -> dict[str, Any]:
    """Return the origin of a model for the header of its file."""
    return {
        "problem": configuration.problem_name,
        "algorithm": configuration.algorithm,
        "settings": configuration.algorithm_settings,
        "version": __version__,
    }


def save_model(path: Path, models: Fleet, row: int, header: Mapping[str, Any]) -> None:
    """Write one model of a fleet to a file.

    Args:
        path: The file.
        models: The fleet.
        row: Index of the model in it.
        header: Plain values for the file's header.
    """
    values = {name: tensor[row].numpy(force=True) for name, tensor in models.tensors.items()}
    save_values(path, values, header)


def load_model(path: Path, template: nn.Module) -> nn.Module:
    """Return what `save_model` wrote, in a copy of a module of the same architecture."""
    tensors, _ = load_values(path)
    fleet = Fleet({k: torch.from_numpy(v[None]) for k, v in tensors.items()})
    return fleet.module(0, template)
