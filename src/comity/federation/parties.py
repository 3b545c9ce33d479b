"""The parties of a deployed federation with their keys: terms, memberships, transports."""

from __future__ import annotations

import os
from pathlib import Path

from comity.configuration.federation_file import FederationFile, SiteFile
from comity.errors import UserError
from comity.federation.engines.deployed import Terms
from comity.federation.keys import Certificate, Keys, parse_certificate, read_keys, verify
from comity.federation.site import Membership
from comity.federation.transports.base import ServerTransport, SiteTransport
from comity.federation.transports.files import FilesServerTransport, FilesSiteTransport
from comity.federation.transports.flower import FlowerServerTransport, ServerSecurity
from comity.federation.transports.flower_programs import HOST
from comity.federation.transports.flower_site import FlowerSiteTransport, SiteSecurity
from comity.federation.wire import SERVER


def server_certificate(file: FederationFile) -> Certificate:
    """Return the server's certificate in a federation file."""
    return _certificate(file, file.server.certificate, "server", "server")


def roster(file: FederationFile) -> dict[str, Certificate]:
    """Return the sites' certificates in a federation file, by name."""
    return {name: site_certificate(file, name) for name in file.sites}


def site_certificate(file: FederationFile, name: str) -> Certificate:
    """Return a site's certificate in a federation file.

    Args:
        file: The file.
        name: Name of the site.
    """
    certificate = _certificate(file, file.sites[name].certificate, f"sites.{name}", name)
    if certificate.name != name:
        raise UserError(f"{file.path}: sites.{name}.certificate is that of '{certificate.name}'.")
    return certificate


def _certificate(file: FederationFile, text: str, where: str, name: str) -> Certificate:
    if not text:
        raise UserError(
            f"{file.path}: {where}.certificate is missing. Make one with: comity keys {name}"
        )
    return parse_certificate(text.encode(), f"{file.path}: {where}.certificate")


def keys_of(path: Path, certificate: Certificate) -> Keys:
    """Return a party's keys: ``NAME.key``, with ``NAME.crt`` beside it.

    Args:
        path: The private key.
        certificate: The party's certificate in the federation file, which must be the same.
    """
    keys = read_keys(path, path.with_suffix(".crt"))
    if keys.certificate.fingerprint != certificate.fingerprint:
        raise UserError(
            f"{path}: the federation file has another certificate of '{certificate.name}' "
            f"({certificate.fingerprint}) than this key's ({keys.certificate.fingerprint})."
        )
    return keys


def server_terms(file: FederationFile, keys: Keys, wait: float = 0.0) -> Terms:
    """Return how the server deals with its sites.

    Args:
        file: The federation file.
        keys: The server's keys.
        wait: Seconds more that absent sites have for the last delivery.
    """
    certificates = list(roster(file).values())
    return Terms(
        sites=file.names,
        federation=file.identity,
        patience=file.server.patience,
        quorum=file.server.quorum,
        wait=wait,
        sign=keys.sign,
        verify=lambda sender, data, signature: verify(certificates[sender], data, signature),
    )


def site_membership(file: SiteFile, keys: Keys) -> Membership:
    """Return a site's place in its federation.

    Args:
        file: The site file.
        keys: The site's keys.
    """
    server = server_certificate(file.federation)
    return Membership(
        client=file.client,
        federation=file.federation.identity,
        sign=keys.sign,
        verify=lambda sender, data, signature: sender == SERVER and verify(server, data, signature),
        shares_results=file.share.results,
    )


def server_transport(file: FederationFile, keys: Keys, directory: Path) -> ServerTransport:
    """Return the server's end of the transport that a federation file names.

    Args:
        file: The federation file.
        keys: The server's keys.
        directory: Directory for the transport's own files.
    """
    if file.server.transport == "files":
        return FilesServerTransport(file.path.parent / file.server.address, file.names)
    _, _, port = file.server.address.rpartition(":")
    if file.server.transport == "grpc":
        from comity.federation.transports.grpc import GrpcServerTransport

        return GrpcServerTransport(f"0.0.0.0:{port}", keys, roster(file))
    directory = directory / "flower"
    security = _server_security(file, keys, directory)
    return FlowerServerTransport(file.names, directory, int(port), security)


def _server_security(file: FederationFile, keys: Keys, directory: Path) -> ServerSecurity:
    """Return the SuperLink's certificate, and the keys of the nodes that it lets in."""
    _check_host(file, HOST)
    sites = {
        name: _own_file(directory / f"{name}.pub", certificate.openssh())
        for name, certificate in roster(file).items()
    }
    certificate = keys.certificate_file.absolute()
    return ServerSecurity(certificate, keys.key_file.absolute(), certificate, sites)


def site_transport(file: SiteFile, keys: Keys) -> SiteTransport:
    """Return a site's end of the transport that its federation file names.

    Args:
        file: The site file.
        keys: The site's keys.
    """
    server = file.federation.server
    if server.transport == "files":
        return FilesSiteTransport(file.federation.path.parent / server.address, file.name)
    if server.transport == "grpc":
        from comity.federation.transports.grpc import GrpcSiteTransport

        return GrpcSiteTransport(server.address, keys, server_certificate(file.federation))
    directory = file.directory / "flower"
    security = _site_security(file, keys, directory)
    return FlowerSiteTransport(file.name, server.address, directory, security)


def _site_security(file: SiteFile, keys: Keys, directory: Path) -> SiteSecurity:
    """Return what the SuperNode checks its server against, and the key that it is known by."""
    if file.authority is None:
        _check_host(file.federation, file.federation.server.address.rpartition(":")[0])
        pem = server_certificate(file.federation).pem
        authority = _own_file(directory / "server.crt", pem)
    elif file.authority.is_file():
        authority = file.authority
    else:
        raise UserError(f"{file.path}: authority: there is no file {file.authority}.")
    return SiteSecurity(authority, _own_file(directory / "node", keys.openssh()))


def _check_host(file: FederationFile, host: str) -> None:
    """Raise an error if the server's certificate is not for the host that a program dials."""
    hosts = server_certificate(file).hosts
    if host not in hosts:
        raise UserError(
            f"{file.path}: server.certificate is not for the host '{host}', which Flower checks; "
            f"it is for {', '.join(hosts) or 'none'}. Make one with: "
            f"comity keys server --host {host}"
        )


def _own_file(path: Path, content: bytes) -> Path:
    """Write a file that only its owner may read; return its absolute path."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    return path.absolute()
