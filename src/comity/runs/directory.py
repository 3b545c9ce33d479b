"""The run directory: configuration, history, checkpoint, models and results of one run.

config.toml              complete: running it again gives the same bits
history.jsonl            one line per round, appended and flushed
checkpoint.safetensors   everything needed to resume, whole or absent; removed at the end
server.safetensors       arrays of the server that are of use afterwards, if the algorithm has such
models/client-*.safetensors
schema.json              of the user's own rows: columns, categories, scales of the models
spans.safetensors        what clients reach at many preferences, if their models take any
groups.json              measures per client and attribute value, where labels are yes and no
cross.json               every model on every client's data, once `comity cross` has been called
results.json             no times and no paths: equal runs have equal bytes
timing.json              seconds: in all, at the clients, on the server
report.html, *.png       the pictures
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
from torch import nn

from comity.algorithms import Algorithm
from comity.configuration import Configuration, configure, read_toml
from comity.core.fleet import Fleet
from comity.core.preferences import checked
from comity.core.storage import load_values, save_values, strip_prefix, write_whole
from comity.core.typing import FloatArray, NamedArrays
from comity.errors import UserError
from comity.problems import without_rows
from comity.runs.group_schema import Cross, Groups
from comity.runs.model_files import about, load_model, save_model
from comity.runs.notebook import history_rows, run_html
from comity.runs.schema import HistoryEntry, Results
from comity.runs.spans import Spans, load_spans, save_spans

CONFIG, HISTORY, CHECKPOINT = "config.toml", "history.jsonl", "checkpoint.safetensors"
RESULTS, TIMING, MODELS = "results.json", "timing.json", "models"
SPANS, GROUPS, CROSS = "spans.safetensors", "groups.json", "cross.json"
SCHEMA, SERVER = "schema.json", "server.safetensors"
_WRITING = ("append_", "create", "cut_", "drop_", "make", "rewrite_", "save_")


class Directory:
    """A run or a search on disk: configuration, history, checkpoint, results, times."""

    kind: ClassVar[str]
    """``"run"`` or ``"search"``, for messages."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"<comity {self.kind} {self.path}>"

    def __dir__(self) -> list[str]:
        """Return what users read; what writes is for execution, and completed nowhere."""
        return [name for name in super().__dir__() if not name.startswith(_WRITING)]

    @classmethod
    def make(cls, path: Path, configuration: str) -> Self:
        """Create a directory with a configuration as TOML; an existing one is refused."""
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            raise UserError(
                f"out: {path} exists already. Choose another directory, or go on with an "
                f"interrupted {cls.kind}: comity resume {path}"
            ) from None
        except OSError as error:
            raise UserError(f"out: cannot create {path}: {error.strerror}.") from None
        write_whole(path / CONFIG, configuration.encode())
        return cls(path)

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
        if not self.finished:
            raise UserError(f"{self.path} is not finished. Go on with: comity resume {self.path}")
        return dict(_read_json(self.path / RESULTS))

    @property
    def _values(self) -> dict[str, Any]:
        """The content of ``config.toml``; finished work on the user's rows has their schema."""
        values = read_toml(self.path / CONFIG)
        if self.finished and (self.path / SCHEMA).is_file():
            values["problem"] = _read_json(self.path / SCHEMA)
        return values

    def save_schema(self, configuration: Configuration) -> None:
        """Write what models need of the rows, which are not needed from then on.

        Args:
            configuration: Configuration of the run, or of a search's federations.
        """
        schema = without_rows(configuration.problem, configuration.get_problem())
        if schema is not None:
            write_whole(self.path / SCHEMA, _json(schema))

    @property
    def seconds(self) -> float:
        """Time that it took, over all interruptions."""
        return float(_read_json(self.path / TIMING)["seconds"])

    @property
    def spent(self) -> dict[str, float]:
        """Seconds of the rounds in which clients and in which the server worked."""
        return {k: v for k, v in _read_json(self.path / TIMING).items() if k != "seconds"}

    @property
    def _history(self) -> list[Any]:
        """The entries of ``history.jsonl``."""
        path = self.path / HISTORY
        if not path.is_file():
            return []
        return [json.loads(line) for line in path.read_text().splitlines()]

    def save_checkpoint(self, tensors: NamedArrays, values: Mapping[str, Any]) -> None:
        """Replace the checkpoint."""
        save_values(self.path / CHECKPOINT, tensors, values)

    def load_checkpoint(self) -> tuple[NamedArrays, dict[str, Any]] | None:
        """Return the last checkpoint (tensors, values); None if there is none yet."""
        path = self.path / CHECKPOINT
        return load_values(path) if path.is_file() else None

    def drop_checkpoint(self) -> None:
        """Remove the checkpoint, which nothing needs after the end."""
        (self.path / CHECKPOINT).unlink(missing_ok=True)

    def append_history(self, entry: Mapping[str, Any]) -> None:
        """Add a line to the history."""
        with (self.path / HISTORY).open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def rewrite_history(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Replace the history by the entries of a checkpoint."""
        lines = "".join(json.dumps(entry) + "\n" for entry in entries)
        write_whole(self.path / HISTORY, lines.encode())

    def save_results(
        self, results: Mapping[str, Any], seconds: float, spent: Mapping[str, float] | None = None
    ) -> None:
        """Write times, then results: the presence of the latter marks the end.

        Args:
            results: The content of ``results.json``.
            seconds: Time in all.
            spent: Seconds by side, clients and server.
        """
        write_whole(self.path / TIMING, _json({"seconds": seconds, **(spent or {})}))
        write_whole(self.path / RESULTS, _json(results))


class Run(Directory):
    """One run on disk, finished or not."""

    kind = "run"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._modules: dict[int, nn.Module] = {}

    @classmethod
    def create(cls, path: Path, configuration: Configuration) -> Run:
        """Create a run's directory."""
        return cls.make(path, configuration.to_toml())

    @cached_property
    def configuration(self) -> Configuration:
        """Configuration; that of a finished run on the user's rows has their schema in place."""
        return configure(self._values)

    @cached_property
    def training_configuration(self) -> Configuration:
        """Configuration with the rows, which must still be where they were."""
        return configure(read_toml(self.path / CONFIG))

    @property
    def described_problem(self) -> str | dict[str, Any]:
        """The problem as the user named or described it, with all defaults."""
        problem: str | dict[str, Any] = read_toml(self.path / CONFIG)["problem"]
        return problem

    @property
    def results(self) -> Results:
        """Results of the run, as in ``results.json``."""
        return cast(Results, self._results)

    @property
    def history(self) -> list[HistoryEntry]:
        """One entry per round, and one for the last delivery."""
        return self._history

    def history_table(self) -> list[dict[str, Any]]:
        """Return the history as one flat row per round and client, for ``pandas.DataFrame``."""
        return history_rows(self.history, self._objectives)

    def _repr_html_(self) -> str | None:
        """Return the measures as a table; None, as long as there are none."""
        return run_html(self._results, self.path) if self.finished else None

    @property
    def front(self) -> FloatArray:
        """The non-dominated objective vectors of the clients' models."""
        vectors = np.array(self.results["front"], dtype=np.float64)
        return vectors.reshape(-1, len(self._objectives))

    @property
    def vectors(self) -> FloatArray:
        """The objective vectors of the clients' models, one row per client."""
        return self._vectors(last=False)

    @property
    def vectors_last(self) -> FloatArray:
        """The objective vectors of the models of the last round, one row per client."""
        return self._vectors(last=True)

    def _vectors(self, *, last: bool) -> FloatArray:
        rows = [
            row.get("objectives_last", row["objectives"]) if last else row["objectives"]
            for row in self.results["per_client"]
        ]
        # None, where a score is undefined, becomes nan
        return np.array([list(row.values()) for row in rows], dtype=np.float64)

    @property
    def spans(self) -> Spans | None:
        """Test vectors at many preferences; None if models take no preference."""
        path = self.path / SPANS
        return load_spans(path) if path.is_file() else None

    @property
    def groups(self) -> Groups | None:
        """Measures per client and attribute value; None where there are no groups."""
        return cast(Groups | None, self._read(GROUPS))

    @property
    def cross(self) -> Cross | None:
        """Every model on every client's data; None until it has been measured."""
        return cast(Cross | None, self._read(CROSS))

    def _read(self, name: str) -> dict[str, Any] | None:
        return _read_json(self.path / name) if (self.path / name).is_file() else None

    @property
    def server_arrays(self) -> NamedArrays:
        """Arrays that the algorithm has on the server at the end; none where none are kept."""
        if (self.path / SERVER).is_file():
            return load_values(self.path / SERVER)[0]
        checkpoint = self.load_checkpoint()  # where runs up to 0.6.0 have them
        return {} if checkpoint is None else strip_prefix(checkpoint[0], "0/algorithm/")

    @property
    def reached(self) -> FloatArray:
        """Test vectors (clients x preferences x objectives); one where models take none."""
        spans = self.spans
        return self.vectors[:, None] if spans is None else spans.vectors

    def model(self, client: int | str) -> nn.Module:
        """Return a client's model as a plain module.

        A model that takes any preference is returned at the client's own.

        Args:
            client: Number or name of the client.
        """
        number = self.client(client)
        preferences = self.configuration.get_preferences()
        return self._algorithm.predictor(self._module(number), preferences[number]).eval()

    def model_for(self, client: int | str, preference: Sequence[float]) -> nn.Module:
        """Return a client's model at a preference, as a plain module.

        Only for algorithms whose models take any preference, such as praffl.

        Args:
            client: Number or name of the client.
            preference: One weight per objective (a larger weight matters more); sums to one.
        """
        names = self._objectives
        if len(preference) != len(names):
            raise UserError(
                f"preference: {self.path} has {len(names)} objectives ({', '.join(names)}), got "
                f"{len(preference)} weights; give one each."
            )
        (weights,) = checked([list(preference)], 1, len(names), where="preference")
        if not self._takes_any:
            raise UserError(
                f"{self.path}: a model of {self.configuration.algorithm} takes no preference; use "
                "the model as it is (no preference given), or train with praffl."
            )
        return self._algorithm.predictor(self._module(self.client(client)), weights).eval()

    @property
    def clients(self) -> list[int]:
        """Clients whose models are here: all of a run, or the one of a site."""
        return [row["client"] for row in self.results["per_client"]]

    def client(self, client: int | str) -> int:
        """Return the number of a client whose model is here.

        Args:
            client: Number or name of the client.
        """
        number, known = self.configuration.client_number(client), self.clients
        if number not in known:
            listed = f"0 to {known[-1]}" if len(known) > 1 else str(known[0])
            names = self.configuration.names
            shown = f" ({', '.join(names[number] for number in known)})" if names else ""
            raise UserError(
                f"client = {client}: {self.path} has no such client; it has {listed}{shown}."
            )
        return number

    @cached_property
    def _algorithm(self) -> Algorithm:
        return self.configuration.get_algorithm()

    @cached_property
    def _objectives(self) -> list[str]:
        return [objective.name for objective in self.configuration.get_problem().objectives]

    @cached_property
    def _takes_any(self) -> bool:
        """Whether models take any preference."""
        return self._algorithm.evaluation_preferences(len(self._objectives), "test") is not None

    def _module(self, client: int) -> nn.Module:
        """Return everything that a client keeps, loaded once."""
        if client not in self._modules:
            path = self.path / MODELS / f"client-{client}.safetensors"
            self._modules[client] = load_model(path, self.configuration.get_module())
        return self._modules[client]

    # -- during execution ------------------------------------------------------------------

    def cut_history(self, rounds: int) -> None:
        """Drop the lines that were written after the checkpoint of ``rounds`` rounds."""
        path = self.path / HISTORY
        lines = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
        if len(lines) < rounds:
            raise UserError(
                f"{path} is damaged: {len(lines)} of {rounds} rounds are left. Start again with: "
                f"comity run --config {self.path / CONFIG}"
            )
        write_whole(path, b"".join(lines[:rounds]))

    def save_server(self, arrays: NamedArrays) -> None:
        """Write arrays of the server that are of use after the run."""
        save_values(self.path / SERVER, arrays, about(self.configuration))

    def save_spans(self, spans: Spans) -> None:
        """Write what clients reach at many preferences."""
        save_spans(self.path / SPANS, spans, about(self.configuration))

    def save_json(self, name: str, values: Mapping[str, Any]) -> None:
        """Write plain values beside the results, as ``groups.json`` or ``cross.json``."""
        write_whole(self.path / name, _json(values))

    def save_models(self, models: Fleet, clients: Sequence[int] | None = None) -> None:
        """Write one file per client, with what is needed to use it in its header.

        Args:
            models: One row per client.
            clients: The clients; None: all.
        """
        (self.path / MODELS).mkdir(exist_ok=True)
        for row, client in enumerate(range(len(models)) if clients is None else clients):
            path = self.path / MODELS / f"client-{client}.safetensors"
            save_model(path, models, row, {**about(self.configuration), "client": client})


def _json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is damaged: {error}.") from None
