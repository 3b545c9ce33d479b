"""The worked examples of docs/own-algorithm.md as a module, ``classics``."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

HOME = Path(__file__).parents[1] / "examples" / "own_algorithms"
if str(HOME) not in sys.path:
    sys.path.insert(0, str(HOME))
classics = import_module("classics")

NAMES = ["classics:BySteps", "classics:FedDyn", "classics:Tilted"]
