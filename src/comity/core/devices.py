"""Devices: where the tensors of a run are, and which devices this machine has.

Inside `placed` every tensor that torch makes is on the device of the run, ``torch.as_tensor`` of an
array included; ``tensor.numpy(force=True)`` brings one back. Random numbers, environments and
everything that travels or is saved are arrays of the host. On the CPU all of this does nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from comity.core.typing import FloatArray
from comity.errors import UserError

CPU, AUTO = "cpu", "auto"
_NAMES = re.compile(r"cpu|auto|mps|cuda(:\d{1,3})?")


def available() -> list[str]:
    """Return the names of the devices that PyTorch can use on this machine."""
    cuda = torch.cuda.device_count() if torch.cuda.is_available() else 0
    names = [CPU, *(["cuda"] if cuda else []), *(f"cuda:{number}" for number in range(cuda))]
    return [*names, "mps"] if torch.backends.mps.is_available() else names


def resolve(name: str) -> str:
    """Return the device that a setting means; ``auto`` is cuda, else mps, else cpu.

    Args:
        name: ``cpu``, ``cuda``, ``cuda:1``, ``mps`` or ``auto``.
    """
    if not isinstance(name, str) or not _NAMES.fullmatch(name):
        raise UserError(f"device = {name}: there is no such device. Say cpu, cuda, cuda:1 or mps.")
    if name != AUTO:
        return name
    return next((best for best in ("cuda", "mps") if best in available()), CPU)


def check_device(name: str) -> None:
    """Refuse a device that this machine lacks.

    Args:
        name: A device, as `resolve` returns it.
    """
    if name not in (names := available()):
        raise UserError(
            f"device = {name}: PyTorch finds no such device on this machine; it finds "
            f"{', '.join(names)}. Say device = cpu, or install a PyTorch that knows your GPU."
        )


def in_double(tensor: Tensor) -> FloatArray:
    """Return a tensor of any device as a float64 array; not every device has such tensors."""
    return tensor.numpy(force=True).astype(np.float64)


def moved(module: nn.Module) -> nn.Module:
    """Return a module whose parameters and buffers are on the device of the run, in place."""
    return module.to(torch.get_default_device())


@contextmanager
def placed(name: str) -> Iterator[None]:
    """Make all new tensors on a device inside the block.

    On other devices than the CPU torch is also asked for operations that are repeatable, as far as
    it has them.

    Args:
        name: A device that this machine has.
    """
    if name == CPU == torch.get_default_device().type:  # torch's block would cost time
        yield
        return
    if name == CPU:
        with torch.device(CPU):
            yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read at the first use of CUDA
    repeatable = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with torch.device(name):
            yield
    finally:
        torch.use_deterministic_algorithms(repeatable, warn_only=warn_only)
