"""Plotly's script, written once for all pages of a directory."""

from __future__ import annotations

import base64
import gzip
import os
from functools import cache
from pathlib import Path

from comity.core.storage import write_whole
from comity.runs import compare
from comity.searches import comparison
from comity.searches.directory import CONTROL

_PLANS = (compare.PLAN, comparison.PLAN)
"""Files that only the directories of comparisons have."""
_LEVELS = 3


def write_script(page: Path) -> str:
    """Write plotly's script unless it is there, and return its path relative to a page.

    Args:
        page: The page that refers to the script, which is in `shared_directory` of the page's.
    """
    path = shared_directory(page.parent) / _name()
    if not path.is_file():
        write_whole(path, f'window.packedPlotly = "{_packed()}";\n'.encode())
    return Path(os.path.relpath(path, page.parent)).as_posix()


def shared_directory(path: Path) -> Path:
    """Return the directory that shares its script with a run's or a search's directory.

    It is that of the outermost comparison, at most three levels up, that of the search which a
    control belongs to, or else the directory itself.
    """
    path = path.absolute()
    parents = list(path.parents)[:_LEVELS]
    comparisons = [p for p in parents if any((p / plan).is_file() for plan in _PLANS)]
    if comparisons:
        return comparisons[-1]
    return path.parent if path.name == CONTROL else path


def _name() -> str:
    from plotly.offline import get_plotlyjs_version

    return f"plotly-{get_plotlyjs_version()}.min.js"


@cache
def _packed() -> str:
    """Return plotly.js, packed: 1.9 MB instead of 4.8, and unpacked by the browser itself."""
    from plotly.offline import get_plotlyjs

    packed = gzip.compress(get_plotlyjs().encode(), compresslevel=9, mtime=0)
    return base64.b64encode(packed).decode()
