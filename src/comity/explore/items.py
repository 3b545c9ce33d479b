"""What a page shows: runs, comparisons and searches in the directories that were named."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from comity.configuration.files import read_document
from comity.core.locks import holder_of
from comity.errors import UserError
from comity.runs.base import CONFIG, MODELS
from comity.runs.base import RESULTS as RUN_RESULTS
from comity.runs.compare import PLAN
from comity.runs.compare import RESULTS as TABLE
from comity.searches.comparison import PLAN as SEARCH_PLAN
from comity.searches.comparison import RESULTS as SEARCH_TABLE

Kind = Literal["run", "comparison", "search", "searches"]
State = Literal["running", "interrupted", "finished", "damaged"]

_DEEPEST = 4
"""Levels of directories below a named one in which items are looked for."""
_ENDS: dict[Kind, str] = {
    "run": RUN_RESULTS,
    "search": RUN_RESULTS,
    "comparison": TABLE,
    "searches": SEARCH_TABLE,
}
"""The file whose presence marks the end of each kind of work."""


@dataclass(frozen=True)
class Item:
    """One run, comparison or search."""

    id: str
    """Identifies it in addresses."""
    path: Path
    kind: Kind
    parent: str | None = None
    """Identifier of the comparison that it is part of."""

    @property
    def finished(self) -> bool:
        """Whether its results are written."""
        return (self.path / _ENDS[self.kind]).is_file()

    @property
    def holder(self) -> str | None:
        """The process that works on it, in words."""
        return holder_of(self.path)

    def state(self) -> State:
        """Return the state that files and locks prove."""
        if self.finished:
            return "finished"
        return "running" if self.holder is not None else "interrupted"

    def about(self) -> dict[str, Any]:
        """Return its line of the index; faults are part of it."""
        line: dict[str, Any] = {
            "id": self.id, "kind": self.kind, "title": self.path.name, "path": str(self.path),
            "state": self.state(), "problem": None, "algorithm": None, "seed": None,
            "parent": self.parent, "error": None,
        }  # fmt: skip
        try:
            self.check_links()
            file = {"comparison": PLAN, "searches": SEARCH_PLAN}.get(self.kind, CONFIG)
            _, values = read_document(self.path / file)
            problem = values.get("problem")
            line["problem"] = problem.get("name") if isinstance(problem, dict) else problem
            named = values.get("algorithms") or values.get("generators")
            line["algorithm"] = ", ".join(map(str, named)) if named else values.get("algorithm")
            line["seed"] = values.get("seed")
        except UserError as error:
            line |= {"state": "damaged", "error": str(error)}
        return line

    def check_links(self) -> None:
        """Refuse an item whose files are links to somewhere else."""
        for place in (self.path, self.path / MODELS):
            for each in place.iterdir() if place.is_dir() else ():
                if each.is_symlink():
                    raise UserError(
                        f"{each} is a symbolic link, which comity explore does not follow; put the "
                        "file itself there."
                    )


def kind_of(path: Path) -> Kind | None:
    """Return what a directory holds; None if it is no work of Comity's."""
    if (path / PLAN).is_file():
        return "comparison"
    if (path / SEARCH_PLAN).is_file():
        return "searches"
    if not (path / CONFIG).is_file():
        return None
    try:
        return "search" if "search" in read_document(path / CONFIG)[1] else "run"
    except UserError:
        return "run"  # a damaged one


class Shelf:
    """All items in some directories; links are not followed.

    Args:
        paths: Runs, comparisons, searches, or directories of such.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = list(paths)
        self._ids: dict[Path, str] = {}
        self._known: dict[str, Item] = {}
        for path in self.paths:
            if not path.is_dir():
                raise UserError(f"{path}: there is no such directory; name a run, or several.")
            if kind_of(path) is None and not any(self._inside(path, path, None, 1)):
                raise UserError(
                    f"{path} is no run, comparison or search, and holds none; name a directory "
                    "that comity run, compare or search wrote."
                )

    def items(self) -> list[Item]:
        """Return the items that are there now, those of a comparison after it."""
        every: dict[Path, Item] = {}
        for path in self.paths:
            for item in self._at(path, _whole(path).parent):
                every.setdefault(item.path, item)
        return list(every.values())

    def named(self) -> list[Item]:
        """Return the items that were named themselves."""
        return [item for item in self.items() if item.path in self.paths]

    def find(self, id: str) -> Item:
        """Return the item with an identifier.

        Args:
            id: The identifier.
        """
        if id not in self._known or not self._known[id].path.is_dir():
            self._known = {item.id: item for item in self.items()}
        if id not in self._known:
            raise UserError(f"id = {id}: there is no such item.")
        return self._known[id]

    def _at(self, path: Path, root: Path) -> Iterator[Item]:
        kind = kind_of(path)
        if kind is None:
            yield from self._inside(path, _whole(path), None, 1)
            return
        item = Item(self._id(path, root), path, kind)
        yield item
        if kind in ("comparison", "searches"):
            yield from self._inside(path, root, item.id, 1)

    def _inside(self, path: Path, root: Path, parent: str | None, depth: int) -> Iterator[Item]:
        """Yield the items below a directory."""
        for each in sorted(path.iterdir()):
            if each.is_symlink() or not each.is_dir() or each.name.startswith("."):
                continue
            kind = kind_of(each)
            if kind is None:
                if depth < _DEEPEST:
                    yield from self._inside(each, root, parent, depth + 1)
                continue
            item = Item(self._id(each, root), each, kind, parent)
            yield item
            if kind in ("comparison", "searches"):
                yield from self._inside(each, root, item.id, depth + 1)

    def _id(self, path: Path, root: Path) -> str:
        """Return an identifier made of a path; it stays the same while the page is served."""
        whole = _whole(path)
        if whole not in self._ids:
            parts = whole.relative_to(_whole(root)).parts
            plain = "~".join(re.sub(r"[^\w.+=-]", "_", part, flags=re.ASCII) for part in parts)
            name, number = plain, 2
            while name in self._ids.values():
                name, number = f"{plain}-{number}", number + 1
            self._ids[whole] = name
        return self._ids[whole]


def _whole(path: Path) -> Path:
    """Return an absolute path without dots; links are left as they are."""
    return Path(os.path.abspath(path))


def index(shelf: Shelf, version: str) -> dict[str, Any]:
    """Return the list of all items, and the one to show first.

    Args:
        shelf: The items.
        version: Version of Comity.
    """
    items = [item.about() for item in shelf.items()]
    named = shelf.named()
    return {"version": version, "items": items, "start": named[0].id if len(named) == 1 else None}
