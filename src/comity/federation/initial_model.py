"""The initial model of a federation, and checksums of its structure and of its weights.

A charter holds both checksums. Each party builds the model by itself; one whose software builds
another is told so before anything is sent.
"""

from __future__ import annotations

import hashlib
import json

from comity.configuration import Configuration
from comity.configuration.federation_file import FederationFile
from comity.core.fleet import Fleet
from comity.core.rng import torch_seeded
from comity.errors import RefusedError


def initial_fleet(configuration: Configuration, clients: int) -> Fleet:
    """Return the common initial model, one row per client.

    All clients start from the same: averaging differently initialised networks is meaningless.
    """
    with torch_seeded(configuration.seed, "initial model"):
        module = configuration.get_module()
    return Fleet.of(module, clients)


def initial_model(configuration: Configuration) -> dict[str, str]:
    """Return the checksums of what travels of the initial model: ``structure`` and ``weights``.

    Args:
        configuration: The session's configuration, as any party has it.
    """
    fleet = initial_fleet(configuration, 1)
    algorithm, module = configuration.get_algorithm(), configuration.get_module()
    names = sorted(fleet.group(*algorithm.travelling(module)))
    arrays = {name: fleet.tensors[name][0].numpy(force=True) for name in names}
    shapes = [[name, str(array.dtype), list(array.shape)] for name, array in arrays.items()]
    weights = hashlib.sha256()
    for array in arrays.values():
        weights.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
    structure = hashlib.sha256(json.dumps(shapes).encode())
    return {"structure": structure.hexdigest(), "weights": weights.hexdigest()}


def check_initial_model(file: FederationFile) -> None:
    """Refuse a session whose initial model is not the one that is built here.

    Args:
        file: The federation file; one without checksums is not checked.

    Raises:
        RefusedError: names the checksum that differs.
    """
    declared = {"structure": file.session.structure, "weights": file.session.weights}
    if not any(declared.values()):
        return
    built = initial_model(file.configuration())
    for name, checksum in declared.items():
        if checksum and checksum != built[name]:
            raise RefusedError(
                f"{file.path}: session.{name} is {checksum[:12]}, but the model that is built here "
                f"has {built[name][:12]}. Use the versions of Comity and torch that the charter "
                "was made with."
            )
