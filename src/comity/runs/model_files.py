"""Files of single models."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from comity.configuration import Configuration
from comity.core.fleet import Fleet
from comity.core.storage import content_of, load_values
from comity.version import __version__


def about(configuration: Configuration) -> dict[str, Any]:
    """Return the origin of a model for the header of its file."""
    return {
        "problem": configuration.problem_name,
        "algorithm": configuration.algorithm,
        "settings": configuration.algorithm_settings,
        "version": __version__,
    }


def model_content(models: Fleet, row: int, header: Mapping[str, Any]) -> bytes:
    """Return the content of the file of one model of a fleet.

    Args:
        models: The fleet.
        row: Index of the model in it.
        header: Plain values for the file's header.
    """
    values = {name: tensor[row].numpy(force=True) for name, tensor in models.tensors.items()}
    return content_of(values, header)


def load_model(path: Path, template: nn.Module) -> nn.Module:
    """Return the model of a `model_content`, in a copy of a module of its architecture."""
    tensors, _ = load_values(path)
    fleet = Fleet({k: torch.from_numpy(v[None]) for k, v in tensors.items()})
    return fleet.module(0, template)
