"""The history of a run, read as it grows: columns for curves, matrices of chosen rounds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from comity.core.typing import FloatArray
from comity.errors import UserError
from comity.explore.arrays import packed, rounded
from comity.links.settings import HOUR, SECOND
from comity.report.series.clusters import cluster_tree
from comity.report.series.curves import KINDS
from comity.runs.schema import HistoryEntry

MOST_CELLS = 150_000
"""Numbers per kind of curve that are sent; of longer histories some rounds are left out."""
MOST_MATRIX_CELLS = 400_000
"""Numbers of all matrices between clients that are sent."""
MOST_EVENTS = 1_000
"""Events that are sent: the latest."""


@dataclass
class _Round:
    """What is kept of a line of the history."""

    number: int
    place: int
    """Offset of the line in the file."""
    values: FloatArray
    """Scalarised values so far (kinds x clients); NaN while unknown."""
    means: FloatArray
    """Mean objectives of this round's clients (kinds x objectives)."""
    counts: tuple[int, int]
    """Participants, and those that declined."""
    sent: tuple[int, int]
    """Bytes up and down."""
    clusters: list[list[int]] | None
    hypervolume: float | None
    hours: float | None
    ages: list[int]
    heard: dict[str, list[int]] | None
    matrices: frozenset[str]
    """Matrices that the line has: mixing, similarity."""
    events: list[str]


@dataclass
class Rounds:
    """Rounds of a run so far; `update` reads what has been appended since.

    Args:
        path: The file of the history.
        numbers: Number of each client whose values are recorded.
        preferences: Preference of each (clients x objectives).
    """

    path: Path
    numbers: Sequence[int]
    preferences: FloatArray
    rounds: list[_Round] = field(default_factory=list)
    _end: int = 0
    _identity: int = 0
    _current: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.rounds, self._end = [], 0
        self._current = np.full((len(KINDS), len(self.numbers)), np.nan)

    def update(self) -> None:
        """Read the lines that are new; a file that was replaced is read again."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return
        if status.st_ino != self._identity or status.st_size < self._end:
            self._identity = status.st_ino
            self._clear()
        if status.st_size == self._end:
            return
        places = {number: place for place, number in enumerate(self.numbers)}
        with self.path.open("rb") as file:
            file.seek(self._end)
            for line in file:
                if not line.endswith(b"\n"):  # still being written
                    break
                self.rounds.append(self._read(line, places))
                self._end += len(line)

    def _read(self, line: bytes, places: dict[int, int]) -> _Round:
        entry = self._parsed(line)
        clients = [places[number] for number in entry["clients"] if number in places]
        objectives = self.preferences.shape[1]
        means = np.full((len(KINDS), objectives), np.nan)
        values = self._current.copy()
        for row, kind in enumerate(KINDS):
            vectors = entry.get(kind)
            if vectors is None:
                values[row] = np.nan
                continue
            array = np.array(vectors, dtype=float).reshape(-1, objectives)
            fresh = (array * self.preferences[clients]).sum(axis=1)
            defined = np.isfinite(fresh)
            self._current[row, clients] = np.where(defined, fresh, self._current[row, clients])
            values[row] = self._current[row]
            means[row] = _mean(array)
        server = entry.get("server", {})
        matrices = {"mixing"} if entry.get("mixing") is not None else set()
        time = entry.get("time")
        return _Round(
            number=entry["round"],
            place=self._end,
            values=values,
            means=means,
            counts=(len(clients), sum(entry.get("declined", ()))),
            sent=(entry["bytes_up"], entry["bytes_down"]),
            clusters=entry.get("clusters"),
            hypervolume=entry.get("validation_hypervolume"),
            hours=None if time is None else time * SECOND / HOUR,
            ages=entry.get("age", []),
            heard=entry.get("heard"),
            matrices=frozenset(matrices | ({"similarity"} if "similarity" in server else set())),
            events=entry.get("events", []),
        )

    def _parsed(self, line: bytes) -> HistoryEntry:
        try:
            entry: HistoryEntry = json.loads(line)
            if not {"round", "clients", "bytes_up", "bytes_down"} <= entry.keys():
                raise ValueError("no round")
        except (ValueError, RecursionError, AttributeError) as error:
            number = len(self.rounds) + 1
            raise UserError(f"{self.path} is damaged: line {number}: {error}.") from None
        return entry

    # -- documents -------------------------------------------------------------------------

    def columns(self, since: int | None = None) -> dict[str, Any]:
        """Return the history as columns, one entry per round.

        Args:
            since: Only rounds after this one; None: all.
        """
        rounds = [each for each in self.rounds if since is None or each.number > since]
        shown = self._shown(rounds) if since is None else rounds
        values = [each.values for each in rounds]
        kinds = {kind: [value[row] for value in values] for row, kind in enumerate(KINDS)}
        return {
            "rounds": [each.number for each in rounds],
            "mean": {kind: _over(rows, np.mean) for kind, rows in kinds.items()},
            "low": {kind: _over(rows, _lower) for kind, rows in kinds.items()},
            "high": {kind: _over(rows, _upper) for kind, rows in kinds.items()},
            "objectives": {
                kind: packed([each.means[row] for each in rounds]) for row, kind in enumerate(KINDS)
            },
            "participants": [each.counts[0] for each in rounds],
            "declined": [each.counts[1] for each in rounds],
            "clusters": _column([e.clusters and len(e.clusters) for e in rounds]),
            "hypervolume": _column([each.hypervolume for each in rounds]),
            "hours": _column([each.hours for each in rounds]),
            "bytes_up": [each.sent[0] for each in rounds],
            "bytes_down": [each.sent[1] for each in rounds],
            "events": list(_events(rounds))[-MOST_EVENTS:],
            "clients": {
                "rounds": [each.number for each in shown],
                **{
                    kind: packed(np.array([each.values[row] for each in shown]))
                    for row, kind in enumerate(KINDS)
                },
            },
        }

    def _shown(self, rounds: Sequence[_Round]) -> list[_Round]:
        """Return the rounds whose values are sent client by client."""
        return _spread(rounds, MOST_CELLS // max(1, len(self.numbers)))

    def left_out(self) -> list[str]:
        """Return what `columns` and the matrices leave out, in sentences."""
        sentences = []
        shown, every = len(self._shown(self.rounds)), len(self.rounds)
        if shown < every:
            sentences.append(
                f"Curves of single clients have {shown:,} of {every:,} rounds; means and quartiles "
                "have all."
            )
        for kind in ("mixing", "similarity"):
            recorded = [each for each in self.rounds if kind in each.matrices]
            drawn = len(self._chosen(kind))
            if recorded and drawn < len(recorded):
                sentences.append(
                    f"Matrices ({kind}) of {drawn:,} of {len(recorded):,} rounds are here; others "
                    "are read from the run when they are chosen."
                )
        events = sum(len(each.events) for each in self.rounds)
        if events > MOST_EVENTS:
            sentences.append(f"The latest {MOST_EVENTS:,} of {events:,} events are shown.")
        return sentences

    def matrices(self, kind: Literal["mixing", "similarity"]) -> dict[str, Any] | None:
        """Return matrices between clients (rounds x clients x clients); None without any.

        Args:
            kind: Mixing: receivers x givers, a row is missing where the receiver was absent. Or
                similarity of updates.
        """
        chosen = self._chosen(kind)
        if not chosen:
            return None
        return {
            "rounds": [each.number for each in chosen],
            "recorded": [each.number for each in self.rounds if kind in each.matrices],
            "matrices": packed(np.stack([self._matrix(each, kind) for each in chosen])),
        }

    def _chosen(self, kind: str) -> list[_Round]:
        recorded = [each for each in self.rounds if kind in each.matrices]
        clients = len(self.numbers)
        return _spread(recorded, MOST_MATRIX_CELLS // max(1, clients * clients))

    def at(self, number: int) -> dict[str, Any]:
        """Return the matrices of a round, however many there are.

        Args:
            number: The round.
        """
        chosen = next((each for each in self.rounds if each.number == number), None)
        if chosen is None:
            raise UserError(f"round = {number}: there is no such round in {self.path}.")
        kinds: tuple[Literal["mixing", "similarity"], ...] = ("mixing", "similarity")
        return {
            "round": number,
            **{k: packed(self._matrix(chosen, k)) if k in chosen.matrices else None for k in kinds},
        }

    def _matrix(self, chosen: _Round, kind: str) -> FloatArray:
        with self.path.open("rb") as file:
            file.seek(chosen.place)
            entry = self._parsed(file.readline())
        rows = entry["mixing"] if kind == "mixing" else entry["server"]["similarity"]
        return np.array(rows, dtype=float)

    def clusters(self) -> dict[str, Any] | None:
        """Return the clusters at the rounds in which they change; None without any."""
        history: Any = [{"round": e.number, "clusters": e.clusters} for e in self.rounds]
        tree = cluster_tree(history, self.preferences[:, 0]) if history else None
        if tree is None:
            return None
        new = np.any(np.diff(tree.labels, axis=0), axis=1)
        kept = sorted({0, *(np.flatnonzero(new) + 1).tolist(), len(tree.rounds) - 1})
        return {
            "rounds": tree.rounds[kept].tolist(),
            "labels": packed(tree.labels[kept]),
            "order": tree.order.tolist(),
        }

    def heard(self) -> dict[str, Any] | None:
        """Return who heard whom, where there is no server; None with one."""
        rounds = [(each.number, each.heard) for each in self.rounds if each.heard is not None]
        if not rounds:
            return None
        pairs = [
            [[int(receiver), giver] for receiver, givers in heard.items() for giver in givers]
            for _, heard in rounds
        ]
        return {"rounds": [number for number, _ in rounds], "pairs": pairs}

    def ages(self) -> dict[str, Any]:
        """Return how late updates were, with links: mixings, by round."""
        rounds = [each for each in self.rounds if each.ages]
        return {
            "rounds": [each.number for each in rounds],
            "mean": rounded([float(np.mean(each.ages)) for each in rounds]),
            "most": [max(each.ages) for each in rounds],
        }

    def last_received(self) -> FloatArray | None:
        """Return the vectors that models had as received in the last round that has them."""
        row = KINDS.index("received")
        known = [each for each in self.rounds if np.isfinite(each.values[row]).any()]
        if not known:
            return None
        with self.path.open("rb") as file:
            file.seek(known[-1].place)
            entry = self._parsed(file.readline())
        places = {number: place for place, number in enumerate(self.numbers)}
        vectors = np.full(self.preferences.shape, np.nan)
        for number, vector in zip(entry["clients"], entry["received"] or (), strict=True):
            vectors[places[number]] = np.array(vector, dtype=float)
        return vectors


def _spread(rounds: Sequence[_Round], most: int) -> list[_Round]:
    """Return at most this many rounds, evenly spread, the first and the last among them."""
    if len(rounds) <= most:
        return list(rounds)
    places = np.unique(np.linspace(0, len(rounds) - 1, most).round().astype(int))
    return [rounds[place] for place in places.tolist()]


def _events(rounds: Sequence[_Round]) -> Iterator[list[Any]]:
    for each in rounds:
        yield from ([each.number, event] for event in each.events)


def _column(values: list[Any]) -> list[Any] | None:
    return None if all(value is None for value in values) else values


def _mean(array: FloatArray) -> FloatArray:
    """Return means of columns over what is defined; NaN without any."""
    known = np.isfinite(array)
    count = known.sum(axis=0)
    total = np.where(known, array, 0.0).sum(axis=0)
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan))


def _over(rows: Sequence[FloatArray], measure: Any) -> list[float | None]:
    known = [row[np.isfinite(row)] for row in rows]
    return [round(float(measure(row)), 6) if len(row) else None for row in known]


def _lower(row: FloatArray) -> float:
    return float(np.quantile(row, 0.25))


def _upper(row: FloatArray) -> float:
    return float(np.quantile(row, 0.75))
