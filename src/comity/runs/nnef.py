"""Models in NNEF for devices that do not run PyTorch: a directory, whole or absent.

``graph.nnef`` is the network as text, ``NAME.dat`` each of its tensors, and ``comity.json`` what is
needed to use it, as in the headers of other files.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from comity.core.nnef import structure_of, tensor_bytes
from comity.core.storage import write_whole
from comity.errors import UserError

GRAPH, HEADER, TENSOR = "graph.nnef", "comity.json", ".dat"
"""Names of the files, and how the name of a tensor's file ends."""


def write_nnef(target: Path, module: nn.Module, example: Tensor, header: Mapping[str, Any]) -> None:
    """Write a network as a directory; one that we wrote before is replaced.

    Args:
        target: The directory.
        module: The network.
        example: Inputs of one sample or more.
        header: Plain values about the model.
    """
    structure = structure_of(module, example)
    if target.exists() and not _is_ours(target):
        raise UserError(
            f"{target} is no model in NNEF, so it is not replaced; choose another name."
        )
    part, old = (target.with_suffix(f"{target.suffix}.{end}") for end in ("part", "old"))
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    for label, array in structure.tensors.items():
        write_whole(part / f"{label}{TENSOR}", tensor_bytes(array))
    write_whole(part / HEADER, json.dumps(dict(header), indent=1).encode())
    write_whole(part / GRAPH, structure.text.encode())
    if target.exists():  # a directory that is not empty cannot be replaced in one step
        shutil.rmtree(old, ignore_errors=True)
        target.rename(old)
    part.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _is_ours(target: Path) -> bool:
    """Return whether a directory holds a model in NNEF and nothing else."""
    if not target.is_dir():
        return False
    names = {path.name for path in target.iterdir()}
    others = {name for name in names - {GRAPH, HEADER} if not name.endswith(TENSOR)}
    return GRAPH in names and not others
