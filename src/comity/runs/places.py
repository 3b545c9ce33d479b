"""Directories of runs, searches and comparisons: their names, and how they are made."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

from comity.configuration import difference, read_toml
from comity.core.locks import LOCK, held
from comity.core.storage import is_leftover, write_whole
from comity.errors import UserError

_LONGEST = 150  # characters of a name, of the 255 bytes that file systems allow


def free_path(*parts: str) -> Path:
    """Return a directory under ``runs/`` that does not exist yet.

    Its name is made of the given parts: ``runs/deep-sea-treasure-fedavg-seed1``, and if that
    exists, ``runs/deep-sea-treasure-fedavg-seed1-2`` and so on.
    """
    name = _plain("-".join(parts).replace(":", "-"))
    path, number = Path("runs") / name, 2
    while path.exists():
        path, number = Path("runs") / f"{name}-{number}", number + 1
    return path


def entry_names(entries: Iterable[str]) -> dict[str, str]:
    """Return one directory name per entry of a comparison; different entries have different ones.

    Args:
        entries: Texts such as ``fedpref[threshold=2.5%]/dirichlet``.
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for entry in entries:
        name = plain = _plain(entry)
        number = 2
        while name.casefold() in taken:  # file systems may not tell a from A
            name, number = f"{plain}-{number}", number + 1
        taken.add(name.casefold())
        names[entry] = name
    return names


def _plain(text: str) -> str:
    """Return a text as the name of one directory: no separators, and not too long."""
    name = re.sub(r"[^\w.+=-]+", "_", text).rstrip("_").lstrip("._") or "_"
    if len(name.encode()) > _LONGEST:
        digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:8]
        name = name.encode()[:_LONGEST].decode(errors="ignore") + f"-{digest}"
    return name


def make_directory(path: Path, file: str, content: bytes, kind: str) -> None:
    """Create a directory with its first file; one that holds anything is refused.

    An empty directory is taken, as is one whose maker was killed before the file was written.

    Args:
        path: The directory.
        file: Name of the file that makes it what it is.
        content: Content of that file.
        kind: What it is, for messages: ``"run"``, ``"search"``, ``"comparison"``.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        with held(path):
            if any(each.name != LOCK and not is_leftover(each) for each in path.iterdir()):
                raise FileExistsError
            write_whole(path / file, content)
    except FileExistsError:
        raise UserError(
            f"out: {path} exists already. Choose another directory, or go on with an "
            f"interrupted {kind}: comity resume {path}"
        ) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UserError(f"out: cannot create {path}: {why}.") from None


def check_same(file: Path, planned: str) -> None:
    """Refuse to use a run or search whose configuration is not the one of the comparison's plan.

    Values that only one of the two has are those of another version of Comity, and no fault.

    Args:
        file: The configuration file in the directory.
        planned: What it should hold.
    """
    if edited := difference(tomllib.loads(planned), read_toml(file), common=True):
        raise UserError(
            f"{file} is not what the comparison asks for: {edited} in its plan. Put that back, or "
            "start another comparison."
        )
