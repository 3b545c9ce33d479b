"""Problems that declare everything but the rows: each client's rows are in a file of its own.

A party holds the files of some clients: a site its own, a server none, a simulation all. What a
client trains, validates and tests on depends on the seed, the client and its own file alone, so it
is the same wherever the file is held.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from comity.core.rng import stream
from comity.core.typing import BoolArray
from comity.datasets.apportionment import PARTS
from comity.datasets.partition import ClientRows, PartitionSpec
from comity.datasets.schema import Finding
from comity.errors import UserError
from comity.problems.data import DataProblem, Samples
from comity.settings import Settings, setting


class OwnRows(Settings):
    """The part of a ``[problem]`` table that says where the rows of each client are."""

    rows: list[str] = setting([], 'one path per client, "" where this party does not hold it')
    sha256: list[str] = setting([], "checksum per path, so that no run mixes two versions")


@dataclass(frozen=True)
class RowsFile:
    """The file or directory with the rows of one client."""

    path: str
    """Absolute path; empty if the rows are not held here."""
    sha256: str
    """Checksum of the content; empty if it is not known."""

    def verified(self) -> Path:
        """Return the path, after checking that the content is still what was configured."""
        path = Path(self.path)
        if self.sha256 and checksum(path) != self.sha256:
            raise UserError(
                f"problem.rows: {path} has changed since this run was configured; put the old file "
                "back, or start a new run."
            )
        return path


def rows_files(description: OwnRows) -> tuple[RowsFile, ...]:
    """Return one file per client, in the order of the clients."""
    rows, sha256 = description.rows, description.sha256
    if sha256 and len(sha256) != len(rows):
        raise UserError(
            f"problem.sha256 has {len(sha256)} entries, but problem.rows {len(rows)}: give one "
            "each per client."
        )
    pairs = zip(rows, sha256 or [""] * len(rows), strict=True)
    return tuple(RowsFile(path, digest) for path, digest in pairs)


def located(description: OwnRows) -> dict[str, list[str]]:
    """Return ``rows`` as absolute paths, and the checksum of each that is held here."""
    files = [
        RowsFile(str(Path(file.path).resolve()), file.sha256) if file.path else file
        for file in rows_files(description)
    ]
    sha256 = [file.sha256 or (checksum(Path(file.path)) if file.path else "") for file in files]
    return {"rows": [file.path for file in files], "sha256": sha256}


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file, or of the names and contents of all files in a directory."""
    digest = hashlib.sha256()
    try:
        if not path.is_dir():
            return hashlib.sha256(path.read_bytes()).hexdigest()
        for file in sorted(file for file in path.rglob("*") if file.is_file()):
            name = file.relative_to(path).as_posix().encode()
            digest.update(len(name).to_bytes(8, "little") + name)
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    except OSError as error:
        raise UserError(
            f"problem.rows: cannot read {path}: {error.strerror}. Training needs the rows; "
            "predict, export and report of a finished run do not."
        ) from None
    return digest.hexdigest()


@dataclass(frozen=True)
class RowsReport:
    """Fit of a file of rows to a public schema, for the eyes of the rows' owner."""

    rows: int
    findings: tuple[Finding, ...]
    """Faults; rows without any can be learned from."""
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Rows per label, by attribute value or class; empty if cells have faults."""
    unused: tuple[str, ...] = ()
    """Columns of the file that the schema does not name."""
    notes: tuple[str, ...] = ()
    """Remarks, e.g. on cells that count as other."""


@dataclass(frozen=True, kw_only=True)
class OwnRowsProblem(DataProblem):
    """A problem of which a party holds the rows of some clients."""

    files: tuple[RowsFile, ...]
    """File of each client; empty at a party that holds no rows."""

    def client_samples(self, client: int) -> Samples:
        """Return the samples of one client, whose file is held here, in the order of the file."""
        raise NotImplementedError

    def needs(self, client: int) -> Iterator[tuple[str, BoolArray]]:
        """Yield what a client, whose file is held here, needs rows of: its name, and which are."""
        yield "any kind", np.ones(len(self.client_samples(client).strata), dtype=bool)

    def shortages(self, client: int) -> Iterator[str]:
        """Yield a remark on each need that a client has too few rows for."""
        for name, rows in self.needs(client):
            if (count := int(rows.sum())) < PARTS:
                yield (
                    f"has {count} rows of {name}, but needs {PARTS} (to train, validate and test); "
                    "get more rows, or agree on larger groups."
                )

    def shortage_findings(self, client: int) -> tuple[Finding, ...]:
        """Return the same as faults of the client's file."""
        return tuple(Finding("", None, f"the file {text}") for text in self.shortages(client))

    def holds(self, client: int) -> bool:
        """Return whether the rows of a client are held here."""
        return client < len(self.files) and bool(self.files[client].path)

    def client_names(self) -> tuple[str, ...]:
        """Return the names of the clients' files without their ends, if they tell them apart."""
        names = tuple(Path(file.path).stem for file in self.files)
        plain = all(name.isprintable() and not name.strip().isdecimal() for name in names)
        return names if self.complete and plain and len(set(names)) == len(names) else ()

    @property
    def complete(self) -> bool:
        """Whether the rows of all clients are held here."""
        return bool(self.files) and all(file.path for file in self.files)

    def partition(self, samples: Samples, spec: PartitionSpec) -> list[ClientRows]:
        """Split each client's own rows by seed, client and these rows; others have none."""
        if spec.partition != "natural" or spec.sizes != "equal":
            name = "sizes" if spec.partition == "natural" else "partition"
            raise UserError(
                f"{name} = {getattr(spec, name)} does not go with problem {self.name}, in which "
                "every client has rows of its own: leave it out."
            )
        if self.files and len(self.files) != spec.clients:
            raise UserError(
                f"clients = {spec.clients}, but problem.rows has {len(self.files)} paths: give one "
                'per client, "" where the rows are not held here.'
            )
        shares, start = [], 0
        for client in range(spec.clients):
            nothing = np.zeros(0, dtype=np.int64)
            share = ClientRows(nothing, nothing, nothing)
            if self.holds(client):
                share, count = self._share(client, spec)
                share = ClientRows(
                    share.train + start, share.validation + start, share.test + start
                )
                start += count
            shares.append(share)
        return shares

    def _share(self, client: int, spec: PartitionSpec) -> tuple[ClientRows, int]:
        """Return the rows of one client by their use, numbered in its file, and their number."""
        for fault in self.shortages(client):
            raise UserError(f"{self.files[client].path}: client {client} {fault}")
        seed = int(stream(spec.seed, "own rows", client).integers(2**32))
        samples = self.client_samples(client)
        (share,) = samples.partition(PartitionSpec(1, seed, "natural", split=spec.split))
        return share, len(samples.strata)
