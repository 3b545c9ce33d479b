"""The run directory: configuration, history, checkpoint, models and results of one run.

config.toml              complete: running it again gives the same bits
contacts.csv             the contact plan, with links
history.jsonl            one line per round, appended and flushed
checkpoint.safetensors   everything needed to resume, whole or absent; removed at the end
server.safetensors       arrays of the server that are of use afterwards, if the algorithm has such
models/client-*.safetensors
schema.json              of the user's own rows: columns, categories, scales of the models
spans.safetensors        what clients reach at many preferences, if their models take any
groups.json              measures per client and attribute value, where labels are yes and no
cross.json               every model on every client's data, once `comity cross` has been called
checksums.json           SHA-256 of configuration, history and JSON files, written before results
results.json             no times and no paths: equal runs have equal bytes
timing.json              seconds: in all, at the clients, on the server
report.html, *.png       the pictures
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self, cast

import numpy as np
from torch import nn

from comity.algorithms import Algorithm
from comity.algorithms.faults import code_of
from comity.configuration import Configuration, configure, read_toml
from comity.core.fleet import Fleet
from comity.core.preferences import checked
from comity.core.storage import (
    load_values,
    own_directory,
    save_values,
    strip_prefix,
    write_together,
    write_whole,
)
from comity.core.typing import FloatArray, NamedArrays
from comity.errors import UserError
from comity.runs.base import CONFIG, CROSS, GROUPS, MODELS, SERVER, SPANS, Directory
from comity.runs.checksums import read_json, to_json
from comity.runs.contacts import save_contacts, with_own_contacts
from comity.runs.group_schema import Cross, Groups
from comity.runs.model_files import about, load_model, model_content
from comity.runs.notebook import Rows, Tabular, client_rows, history_rows
from comity.runs.schema import HistoryEntry, Results
from comity.runs.spans import Spans, load_spans, save_spans


class Run(Directory, Tabular[Literal["clients", "rounds"]]):
    """One run on disk, finished or not."""

    kind = "run"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._modules: dict[int, nn.Module] = {}

    @classmethod
    def create(cls, path: Path, configuration: Configuration) -> Self:
        """Create a run's directory; with links, it keeps its own contact plan."""
        run = cls.make(path, with_own_contacts(configuration).to_toml())
        save_contacts(path, configuration)
        return run

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

    def _tables(self) -> dict[Literal["clients", "rounds"], Callable[[], Rows]]:
        return {
            "clients": lambda: client_rows(self.results["per_client"], self._objectives),
            "rounds": lambda: history_rows(self.history, self._objectives),
        }

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
        return read_json(self.path / name) if (self.path / name).is_file() else None

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

    @property
    def _code(self) -> dict[str, str]:
        return code_of([self.configuration.algorithm])

    # -- during execution ------------------------------------------------------------------

    def save_server(self, arrays: NamedArrays) -> None:
        """Write arrays of the server that are of use after the run."""
        save_values(self.path / SERVER, arrays, about(self.configuration))

    def save_spans(self, spans: Spans) -> None:
        """Write what clients reach at many preferences."""
        save_spans(self.path / SPANS, spans, about(self.configuration))

    def save_json(self, name: str, values: Mapping[str, Any]) -> None:
        """Write plain values beside the results, as ``groups.json`` or ``cross.json``."""
        write_whole(self.path / name, to_json(values, self.path / name))

    def save_models(self, models: Fleet, clients: Sequence[int] | None = None) -> None:
        """Write one file per client, with what is needed to use it in its header.

        Args:
            models: One row per client.
            clients: The clients; None: all.
        """
        directory, header = own_directory(self.path / MODELS), about(self.configuration)
        write_together(
            (
                directory / f"client-{client}.safetensors",
                model_content(models, row, {**header, "client": client}),
            )
            for row, client in enumerate(range(len(models)) if clients is None else clients)
        )
