"""All that the page may ask for: documents, judgements, models, tables of some items."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from comity.errors import UserError
from comity.explore.comparison_document import compared, comparison_document, table_text
from comity.explore.items import Item, Shelf, index
from comity.explore.judging import Judge
from comity.explore.run_document import RunView
from comity.explore.search_document import SearchView, searches_document
from comity.explore.taking import taken
from comity.version import __version__


@contextmanager
def _readable(item: Item) -> Iterator[None]:
    """Name the item whose files have another form than those that Comity writes."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"{item.path} is damaged, or of another version: {type(error).__name__}: {error}."
        ) from error


class Explorer:
    """Answers about items, one at a time; what is finished is read once.

    Args:
        paths: Runs, comparisons, searches, or directories of such.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self.shelf = Shelf(paths)
        self._views: dict[str, tuple[bool, RunView | SearchView]] = {}
        self._documents: dict[str, tuple[int, dict[str, Any]]] = {}
        self._judges: dict[str, Judge] = {}
        self._lock = threading.RLock()

    def index(self) -> dict[str, Any]:
        """Return the list of items."""
        return index(self.shelf, __version__)

    def document(self, id: str) -> dict[str, Any]:
        """Return the document of an item.

        Args:
            id: Its identifier.
        """
        with self._lock:
            item = self.shelf.find(id)
            changed = item.path.stat().st_mtime_ns
            known = self._documents.get(id)
            if known is not None and known[0] == changed:
                return known[1]
            with _readable(item):
                document = self._document(item)
            if document["state"]["state"] == "finished":
                self._documents[id] = changed, document
            return document

    def _document(self, item: Item) -> dict[str, Any]:
        if item.kind in ("run", "search"):
            return self._view(item).document()
        children = [each for each in self.shelf.items() if each.parent == item.id]
        if item.kind == "comparison":
            return comparison_document(item, children)
        places = {str(each.path.relative_to(item.path)): each.id for each in children}
        return searches_document(item, places)

    def since(self, id: str, round: int) -> dict[str, Any]:
        """Return what has happened to a run or search after a round.

        Args:
            id: Its identifier.
            round: The last round that is known.
        """
        with self._lock:
            item = self._of_kind(id, "run", "search")
            with _readable(item):
                return self._view(item).since(round)

    def matrices(self, id: str, round: int) -> dict[str, Any]:
        """Return the matrices between clients in a round.

        Args:
            id: Identifier of a run.
            round: Number of the round.
        """
        with self._lock:
            view = self._run(id)
            view.rounds.update()
            return view.rounds.at(round)

    def judge(
        self,
        id: str,
        client: int | None,
        preference: Sequence[float] | None,
        threshold: float = 0.5,
        aspiration: Sequence[float | None] | None = None,
    ) -> dict[str, Any]:
        """Return what a client of a run, or the user of a search, gets at a preference.

        Args:
            id: Identifier of a finished run or search.
            client: Number of the client; None for a search.
            preference: One weight per objective; None: the client's own.
            threshold: Probability above which an answer is yes.
            aspiration: Level that each objective should reach; None where any will do.
        """
        with self._lock:
            item = self._finished(id, "run", "search")
            if item.kind == "search":
                view = self._view(item)
                assert isinstance(view, SearchView)
                if preference is None:
                    raise UserError("preference is missing: give one weight per objective.")
                return {"id": id, **view.judge(preference, aspiration)}
            if client is None:
                raise UserError("client is missing: give the number of a client.")
            judgement = self._judge(item).judge(client, preference, threshold, aspiration)
            return {"id": id, **judgement}

    def grid(
        self, id: str, client: int, thresholds: int | None = None, most: int | None = None
    ) -> dict[str, Any]:
        """Return what a client gets at preferences all over the simplex.

        Args:
            id: Identifier of a finished run.
            client: Number of the client.
            thresholds: Number of thresholds; None: all.
            most: Largest number of preferences; None: any.
        """
        with self._lock:
            judge = self._judge(self._finished(id, "run"))
            sizes = {} if thresholds is None else {"thresholds": thresholds}
            return {"id": id, **judge.grid(client, most=most, **sizes)}

    def export(
        self, id: str, client: int, format: str, preference: Sequence[float] | None
    ) -> tuple[str, bytes]:
        """Return a client's model as `comity export` writes it: a file's name and bytes.

        Args:
            id: Identifier of a finished run.
            client: Number of the client.
            format: safetensors, onnx, nnef or card.
            preference: One weight per objective; None: the client's own.
        """
        with self._lock:
            view = self._view(self._finished(id, "run"))
            assert isinstance(view, RunView)
            return taken(view.run, client, format, preference)

    def table(self, id: str, format: str) -> str:
        """Return the tables of a finished comparison as text.

        Args:
            id: Its identifier.
            format: csv or latex.
        """
        return table_text(self._finished(id, "comparison"), format)

    def compare(self, ids: Sequence[str]) -> dict[str, Any]:
        """Return a comparison of finished runs.

        Args:
            ids: Their identifiers.
        """
        with self._lock:
            return compared([self._run(id) for id in dict.fromkeys(ids)])

    # -- parts -----------------------------------------------------------------------------

    def _of_kind(self, id: str, *kinds: str) -> Item:
        item = self.shelf.find(id)
        if item.kind not in kinds:
            raise UserError(f"id = {id}: this is a {item.kind}, not a {' or '.join(kinds)}.")
        return item

    def _finished(self, id: str, *kinds: str) -> Item:
        item = self._of_kind(id, *kinds)
        if not item.finished:
            raise UserError(f"{item.path} is not finished. Go on with: comity resume {item.path}")
        return item

    def _run(self, id: str) -> RunView:
        view = self._view(self._of_kind(id, "run"))
        assert isinstance(view, RunView)
        return view

    def _view(self, item: Item) -> RunView | SearchView:
        """Return what is known of a run or search; it is opened again once it is finished."""
        known = self._views.get(item.id)
        if known is None or known[0] != item.finished:
            made = RunView(item) if item.kind == "run" else SearchView(item)
            self._views[item.id] = item.finished, made
        return self._views[item.id][1]

    def _judge(self, item: Item) -> Judge:
        if item.id not in self._judges:
            view = self._view(item)
            assert isinstance(view, RunView)
            if view.served:
                raise UserError(f"{item.path}: models are at the sites; name a site's directory.")
            self._judges[item.id] = Judge(view.run)
        return self._judges[item.id]
