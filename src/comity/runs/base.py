"""What directories of runs and of searches have in common: the files, and how they are read."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from comity.algorithms.faults import check_code
from comity.configuration import Configuration, difference, read_toml
from comity.configuration.files import read_document
from comity.core.rows import restore_rows, share_rows
from comity.core.storage import append, load_values, save_values, sync, write_whole
from comity.core.typing import NamedArrays
from comity.errors import UserError
from comity.problems import without_rows
from comity.runs.checksums import read_json, read_results, save_sealed, to_json
from comity.runs.contacts import CONTACTS
from comity.runs.notebook import results_html, summary
from comity.runs.places import check_same, make_directory

CONFIG, HISTORY, CHECKPOINT = "config.toml", "history.jsonl", "checkpoint.safetensors"
RESULTS, TIMING, MODELS = "results.json", "timing.json", "models"
SPANS, GROUPS, CROSS = "spans.safetensors", "groups.json", "cross.json"
SCHEMA, SERVER = "schema.json", "server.safetensors"
_SEALED = (CONFIG, CONTACTS, HISTORY, GROUPS, SCHEMA)
_NEEDED = ("problem", "algorithm")  # of results
_WRITING = ("append_", "create", "cut_", "drop_", "make", "rewrite_", "save_")


class Directory:
    """A run or a search on disk: configuration, history, checkpoint, results, times."""

    kind: ClassVar[str]
    """``"run"`` or ``"search"``, for messages."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._digest = hashlib.sha256()
        """Of the history, as far as this object has written it."""
        self._recorded: str | None = None
        """Digest of the history at the time of the checkpoint that was loaded."""
        self._parsed: tuple[tuple[int, int, int], list[Any]] | None = None
        """The history as last read, and the file's identity, size and time of change then."""

    def __repr__(self) -> str:
        try:
            state = summary(self._results) if self.finished else "not finished"
        except (UserError, KeyError):
            state = "damaged"
        return f"<comity {self.kind} {self.path}: {state}>"

    def _repr_html_(self) -> str | None:
        """Return the verdict and the measures as a table; None, as long as there are none."""
        return results_html(self._results, self.path) if self.finished else None

    def __dir__(self) -> list[str]:
        """Return the names that users need, without those of methods that write."""
        return [name for name in super().__dir__() if not name.startswith(_WRITING)]

    @classmethod
    def make(cls, path: Path, configuration: str) -> Self:
        """Create a directory with a configuration as TOML; one that holds files is refused."""
        make_directory(path, CONFIG, configuration.encode(), cls.kind)
        return cls(path)

    @classmethod
    def create(cls, path: Path, configuration: Any) -> Self:
        """Create a directory with a configuration; one that holds files is refused."""
        raise NotImplementedError

    @classmethod
    def create_or_open(cls, path: Path, configuration: Any) -> Self:
        """Create a directory, or open the one that is there; another configuration is refused.

        Args:
            path: The directory.
            configuration: The planned configuration, as for `create`.
        """
        if not (path / CONFIG).is_file():
            return cls.create(path, configuration)
        check_same(path / CONFIG, configuration.to_toml())
        return cls.open(path)

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Return the run or search in an existing directory."""
        path = Path(path)
        if not (path / CONFIG).is_file():
            raise UserError(f"{path} is not a {cls.kind} directory: it has no {CONFIG}.")
        return cls(path)

    @property
    def finished(self) -> bool:
        """Whether results are written."""
        return (self.path / RESULTS).is_file()

    @cached_property
    def _results(self) -> dict[str, Any]:
        """The content of ``results.json``."""
        return read_results(self.path / RESULTS, _NEEDED)

    @property
    def _values(self) -> dict[str, Any]:
        """The content of ``config.toml``; finished work on the user's rows has their schema."""
        values = read_toml(self.path / CONFIG)
        if self.finished and (self.path / SCHEMA).is_file():
            values["problem"] = read_json(self.path / SCHEMA)
        return values

    def save_schema(self, configuration: Configuration) -> None:
        """Write what models need of the rows, which are not needed from then on.

        Args:
            configuration: Configuration of the run, or of a search's federations.
        """
        schema = without_rows(configuration.problem, configuration.get_problem())
        if schema is not None:
            write_whole(self.path / SCHEMA, to_json(schema, self.path / SCHEMA))

    @property
    def seconds(self) -> float:
        """Time that it took, over all interruptions."""
        try:
            return float(read_json(self.path / TIMING, ["seconds"])["seconds"])
        except (TypeError, ValueError):
            raise UserError(f"{self.path / TIMING} is damaged: seconds is no number.") from None

    @property
    def spent(self) -> dict[str, float]:
        """Seconds of the rounds in which clients and in which the server worked."""
        return {k: v for k, v in read_json(self.path / TIMING).items() if k != "seconds"}

    @property
    def _history(self) -> list[Any]:
        """The entries of ``history.jsonl``, read again where the file has changed."""
        path = self.path / HISTORY
        if not path.is_file():
            return []
        state = path.stat()
        mark = state.st_ino, state.st_size, state.st_mtime_ns
        if self._parsed is None or self._parsed[0] != mark:
            lines = path.read_bytes().splitlines()
            entries = [_entry(path, number, line) for number, line in enumerate(lines, start=1)]
            self._parsed = mark, entries
        return list(self._parsed[1])

    def save_checkpoint(self, tensors: NamedArrays, values: Mapping[str, Any]) -> None:
        """Replace the checkpoint, once the history up to it is on the disk.

        It also holds the configuration and the checksum of the history, to be compared by
        `load_checkpoint` and `cut_history`. Equal rows of arrays are written once.
        """
        sync(self.path / HISTORY)
        config = (self.path / CONFIG).read_text()
        marks = {"config": config, "history_sha256": self._digest.hexdigest(), "code": self._code}
        save_values(self.path / CHECKPOINT, share_rows(tensors), {**values, "directory": marks})

    @property
    def _code(self) -> dict[str, str]:
        """SHA-256 of the files of algorithms of the user's own, by name."""
        return {}

    def load_checkpoint(self) -> tuple[NamedArrays, dict[str, Any]] | None:
        """Return the last checkpoint (tensors, values); None if there is none yet.

        Raises:
            UserError: It is damaged, or the configuration or an own algorithm was edited since.
        """
        path = self.path / CHECKPOINT
        if not path.is_file():
            return None
        tensors, values = load_values(path)
        marks = values.pop("directory", None)  # absent up to 0.6.0
        if marks is not None:
            self._recorded = marks["history_sha256"]
            check_code(marks.get("code", {}), self.path)
            edited = difference(
                tomllib.loads(marks["config"]), read_document(self.path / CONFIG)[1]
            )
            if edited:
                raise UserError(
                    f"{self.path / CONFIG} was edited after the {self.kind} had begun: {edited}. "
                    f"Put that back, or start another {self.kind} with --config and --out."
                )
        return restore_rows(tensors), values

    def drop_checkpoint(self) -> None:
        """Remove the checkpoint, which nothing needs after the end."""
        (self.path / CHECKPOINT).unlink(missing_ok=True)

    def append_history(self, entry: Mapping[str, Any]) -> None:
        """Add a line to the history."""
        line = (json.dumps(entry) + "\n").encode()
        append(self.path / HISTORY, line)
        self._digest.update(line)

    def rewrite_history(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Replace the history by the entries of a checkpoint."""
        self._write_history("".join(json.dumps(entry) + "\n" for entry in entries).encode())

    def cut_history(self, rounds: int) -> None:
        """Drop the lines that were written after the checkpoint of ``rounds`` rounds."""
        path = self.path / HISTORY
        lines = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
        again = f"Start again with: comity run --config {self.path / CONFIG}"
        if len(lines) < rounds:
            raise UserError(f"{path} is damaged: {len(lines)} of {rounds} rounds are left. {again}")
        kept = b"".join(lines[:rounds])
        if self._recorded not in (None, hashlib.sha256(kept).hexdigest()):
            raise UserError(
                f"{path} is damaged: its {rounds} rounds are not those of the checkpoint. {again}"
            )
        self._write_history(kept)

    def _write_history(self, content: bytes) -> None:
        write_whole(self.path / HISTORY, content)
        self._digest = hashlib.sha256(content)

    def save_results(
        self, results: Mapping[str, Any], seconds: float, spent: Mapping[str, float] | None = None
    ) -> None:
        """Write times, then results: the presence of the latter marks the end.

        Args:
            results: The content of ``results.json``.
            seconds: Time in all.
            spent: Seconds by side, clients and server.
        """
        times = {"seconds": seconds, **(spent or {})}
        write_whole(self.path / TIMING, to_json(times, self.path / TIMING))
        save_sealed(self.path / RESULTS, results, _SEALED)


def _entry(path: Path, number: int, line: bytes) -> dict[str, Any]:
    """Return a line of the history."""
    try:
        entry = json.loads(line)
        if not isinstance(entry, dict):
            raise ValueError("no object")
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged: line {number}: {error}.") from None
    return entry
