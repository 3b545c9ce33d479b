"""The federation file, which every party holds, and the site file, which never leaves its site.

The SHA-256 of the federation file's bytes is the identity of the federation: nobody writes the file
anew. A party's configuration is the federation file's, with what the party alone knows filled in:
nothing at the server, its own rows and preference at a site, everything in a simulation.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import StringConstraints

from comity.algorithms import find as find_algorithm
from comity.configuration.assemble import configure
from comity.configuration.files import MOST_BYTES, plan_beside, read_document, read_toml
from comity.configuration.run import Configuration
from comity.configuration.terms import Policy, read_terms
from comity.core.importing import is_reference
from comity.errors import RefusedError, UserError
from comity.settings import Settings, build, setting

Transport = Literal["grpc", "flower", "files"]
NEGOTIABLE = "negotiable"
"""Table that makes a federation file an offer."""
_TABLES = ("sites", "server", "session")
_OWN = {
    "clients": "it is the number of [sites]",
    "names": "they are those of [sites]",
    "preferences": "each site has its own, in its site file; drawn ones would be public, because "
    "the seed is",
    "absences": "real sites are absent by themselves",
    "attack": "attacks are simulated only",
    "partition": "each site has its own rows",
    "sizes": "each site has its own rows",
    "device": "each site says its own, in its site file",
}
"""Settings of a run that a federation file must not have, each with the reason."""
Digest = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{64})?$")]
"""A SHA-256 in hexadecimal digits, or nothing."""
_NAME = "abcdefghijklmnopqrstuvwxyz0123456789-"


class ServerEntry(Settings):
    """The ``[server]`` table of a federation file."""

    address: str = setting("localhost:8443", "host:port that sites dial; with files: a directory")
    transport: Transport = setting("grpc", "what carries messages: grpc, flower or files")
    patience: float = setting(900.0, "seconds until a site counts as absent", above=0)
    quorum: int = setting(1, "answers without which a round is repeated", at_least=1)
    certificate: str = setting("", "the server's certificate (PEM), as `comity keys` prints it")


class SiteEntry(Settings):
    """A ``[sites.NAME]`` table of a federation file."""

    certificate: str = setting("", "the site's certificate (PEM), as `comity keys` prints it")


class Session(Settings):
    """The ``[session]`` table of a federation file, which a negotiation writes; all is optional."""

    version: Literal[1] = setting(1, "version of this table; this Comity reads 1")
    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{0,64}$")] = setting(
        "", "name of the session: small letters, digits and hyphens"
    )
    offer: Digest = setting("", "SHA-256 of the offer that the file was agreed from")
    structure: Digest = setting("", "SHA-256 of names and shapes of the tensors that travel")
    weights: Digest = setting("", "SHA-256 of the initial values of these tensors")
    model_format: Literal["none", "nnef", "onnx"] = setting(
        "none", "format in which members without Comity are given the model's structure"
    )
    server_silent: float = setting(
        0.0, "seconds without a question after which a site ends and keeps its state; 0: never",
        at_least=0,
    )  # fmt: skip


class Share(Settings):
    """The ``[share]`` table of a site file."""

    results: bool = setting(False, "tell the organiser this site's test results at the end")


class SiteValues(Settings):
    """The values of a site file."""

    name: str = setting(..., "the site's name, as in [sites] of the federation file")
    federation: str = setting(..., "path of the federation file")
    preference: list[float] = setting(..., "weights of the objectives; they sum to one")
    data: str = setting("", "the site's own rows: a CSV file, or a file or directory of pictures")
    key: str = setting("", "path of the site's private key, as `comity keys` writes it")
    directory: str = setting("", "where the site keeps its state; default: its name")
    device: str = setting("cpu", "where the site trains: cpu, cuda, cuda:1, mps or auto")
    authority: str = setting(
        "", "certificate (PEM) of a proxy that answers in the server's place; Flower only"
    )
    terms: str = setting("", "path of the site's terms, in place of [policy]; see: comity charter")
    policy: dict[str, Any] = setting({}, "what this site agrees to")
    share: dict[str, Any] = setting({}, "what this site tells at the end")


@dataclass(frozen=True)
class FederationFile:
    """A federation file, read and checked."""

    path: Path
    identity: str
    """SHA-256 of the file's bytes, in hexadecimal."""
    values: Mapping[str, Any]
    """Settings of the run, as `configure` takes them."""
    sites: Mapping[str, SiteEntry]
    """Sites by name, in the order of client ids."""
    server: ServerEntry
    session: Session

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the sites, in the order of client ids."""
        return tuple(self.sites)

    @property
    def has_rows(self) -> bool:
        """Whether sites have rows of their own, rather than an environment."""
        return isinstance(self.values["problem"], Mapping)

    def check_deployable(self) -> None:
        """Refuse among real sites what is simulated only."""
        if "links" in self.values:
            raise UserError(
                f"{self.path}: [links]: real sites answer when they are in contact; a contact plan "
                f"is simulated: comity run --charter {self.path}. Leave [links] out."
            )

    def configuration(
        self,
        preferences: Mapping[str, Sequence[float]] | str | None = None,
        rows: Mapping[str, str] | None = None,
        scales: Mapping[str, Sequence[float]] | None = None,
        **others: Any,
    ) -> Configuration:
        """Return the configuration as a party has it.

        Args:
            preferences: The preferences that the party knows, by site; for a simulation also how
                all of them are drawn, as the setting of a run says it.
            rows: Files with the rows that the party holds, by site.
            scales: Mean and spread of columns that the sites have told together, once known.
            others: Settings of a simulation (``absences``) or of a site (``device``).
        """
        if not isinstance(preferences, str):
            known = preferences or {}
            others["preferences"] = [list(known.get(name, ())) for name in self.names]
        elif preferences:
            others["preferences"] = preferences
        problem = self.values["problem"]
        if self.has_rows:
            held = rows or {}
            problem = {**problem, "rows": [held.get(name, "") for name in self.names]}
            if scales:
                problem["scales"] = {name: list(scale) for name, scale in scales.items()}
        return configure(
            {
                **self.values,
                **others,
                "problem": problem,
                "clients": len(self.sites),
                "names": list(self.names),
                "chunk": 1,
            }
        )


def read_federation(path: str | Path, allowed: Collection[str] | None = None) -> FederationFile:
    """Return a federation file.

    Args:
        path: The file.
        allowed: Algorithms that a site's policy names. One that is code of its own
            (``module:class``) must be among them, or nothing of it is imported. None: any.

    Raises:
        UserError: names the fault.
        RefusedError: the algorithm is code that the policy does not name.
    """
    path = Path(path)
    content, values = read_document(path, MOST_BYTES)
    if NEGOTIABLE in values:
        raise UserError(
            f"{path} is an offer, not a federation file: comity charter agree makes one of it."
        )
    return parse_federation(values, path, content, allowed)


def parse_federation(
    values: Mapping[str, Any], path: Path, content: bytes, allowed: Collection[str] | None = None
) -> FederationFile:
    """Return the federation file that some values make.

    Args:
        values: The values.
        path: The file that messages name.
        content: Bytes whose SHA-256 is the identity.
        allowed: As for `read_federation`.
    """
    values = plan_beside(dict(values), path)
    sites, server, session = (values.pop(name, {}) for name in _TABLES)
    if not isinstance(sites, Mapping) or len(sites) < 1:
        raise UserError(f"{path}: [sites] is missing: name each site, e.g. [sites.bank-a].")
    for name in sites:
        check_site_name(name, f"{path}: site")
    for name, reason in _OWN.items():
        if name in values:
            raise UserError(f"{path}: {name} has no place in a federation file: {reason}.")
    if values.get("chunk", 1) != 1:
        raise UserError(f"{path}: chunk = {values['chunk']}: each site is a fleet of one.")
    if "problem" not in values:
        raise UserError(f"{path}: problem is missing: a name, or a [problem] table with columns.")
    algorithm = str(values.get("algorithm", "fedpref"))
    if allowed is not None and is_reference(algorithm) and algorithm not in allowed:
        raise RefusedError(
            f"policy.algorithms: this federation runs {algorithm}, code that is not Comity's; read "
            "it, and add its name to the policy."
        )
    if values.get("topology", "star") != "star":
        raise UserError(
            f"{path}: topology = {values['topology']}: federations without a server are simulated "
            "only; real sites have one. Leave topology out."
        )
    if find_algorithm(algorithm).centralised:
        raise UserError(
            f"{path}: {values['algorithm']} pools the rows of all clients, which real sites never "
            "do. Choose an algorithm that federates: comity list algorithms."
        )
    entries = {name: build(SiteEntry, entry, f"sites.{name}") for name, entry in sites.items()}
    entry = build(ServerEntry, server, "server")
    if entry.quorum > len(entries):
        raise UserError(
            f"{path}: server.quorum = {entry.quorum}: there are only {len(entries)} sites."
        )
    if entry.transport != "files" and not re.fullmatch(r"\S+:\d{1,5}", entry.address):
        raise UserError(
            f"{path}: server.address = '{entry.address}': must be host:port, e.g. "
            "federation.example.org:8443."
        )
    identity = hashlib.sha256(content).hexdigest()
    about = build(Session, session, "session")
    return FederationFile(path, identity, values, entries, entry, about)


def check_site_name(name: str, where: str) -> None:
    """Refuse a name that no site can have.

    Args:
        name: The name.
        where: What is named, for messages.
    """
    if not name or set(name) - set(_NAME):
        raise UserError(f"{where} '{name}': use small letters, digits and hyphens.")


@dataclass(frozen=True)
class SiteFile:
    """A site file, read and checked, with its federation file."""

    path: Path
    name: str
    federation: FederationFile
    preference: tuple[float, ...]
    data: str
    """Absolute path of the site's own rows; empty for an environment."""
    key: Path | None
    directory: Path
    device: str
    """Where the site trains."""
    authority: Path | None
    """Certificate of a proxy in the server's place, if there is one."""
    policy: Policy
    share: Share

    @property
    def client(self) -> int:
        """Number of the site's client."""
        return self.federation.names.index(self.name)

    def configuration(self, scales: Mapping[str, Sequence[float]] | None = None) -> Configuration:
        """Return the configuration with this site's rows and preference filled in.

        Args:
            scales: Mean and spread of columns that the sites have told together, once known.
        """
        rows = {self.name: self.data} if self.data else None
        own = {self.name: self.preference}
        return self.federation.configuration(own, rows, scales, device=self.device)


def read_site(path: str | Path) -> SiteFile:
    """Return a site file; paths in it are relative to the file.

    Args:
        path: The file.
    """
    path = Path(path)
    values = build(SiteValues, read_toml(path), where=path.name)
    here = path.resolve().parent
    if values.terms and values.policy:
        raise UserError(
            f"{path}: terms and [policy]: the file of terms has everything that [policy] has; "
            "leave one out."
        )
    policy = (
        read_terms(here / values.terms)
        if values.terms
        else build(Policy, values.policy, where="policy")
    )
    federation = read_federation(here / values.federation, policy.algorithms)
    if values.name not in federation.sites:
        raise UserError(
            f"{path}: name = '{values.name}': {federation.path.name} has no such site; it has "
            f"{', '.join(federation.names)}."
        )
    if federation.has_rows and not values.data:
        raise UserError(f"{path}: data is missing: the file with this site's own rows.")
    if values.data and not federation.has_rows:
        raise UserError(f"{path}: data means nothing for an environment; leave it out.")
    if values.authority and federation.server.transport != "flower":
        raise UserError(
            f"{path}: authority means nothing with transport = '{federation.server.transport}'; "
            "leave it out."
        )
    return SiteFile(
        path=path,
        name=values.name,
        federation=federation,
        preference=tuple(values.preference),
        data=str((here / values.data).resolve()) if values.data else "",
        key=here / values.key if values.key else None,
        directory=here / (values.directory or values.name),
        device=values.device,
        authority=here / values.authority if values.authority else None,
        policy=policy,
        share=build(Share, values.share, where="share"),
    )
