"""Whether steps can be compiled here."""

from __future__ import annotations

import os
import shutil


def compiler() -> str | None:
    """The C++ compiler that torch.compile would use here."""
    names = (os.environ.get("CXX", "g++"), "clang++", "c++")
    return next((found for name in names if (found := shutil.which(name))), None)
