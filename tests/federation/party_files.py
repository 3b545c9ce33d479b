"""Federation files and site files for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import tomli_w

from comity.configuration.federation_file import (
    FederationFile,
    SiteFile,
    read_federation,
    read_site,
)
from comity.federation.keys import Keys


def write_federation(
    directory: Path, keys: Mapping[str, Keys], address: str, transport: str = "flower"
) -> FederationFile:
    """Write ``federation.toml`` with the certificates of a server and its sites.

    Args:
        directory: Where the file goes.
        keys: The keys of all parties by name, with ``server`` among them.
        address: Address of the server.
        transport: Name of the transport.
    """
    entries = {name: {"certificate": own.certificate.pem.decode()} for name, own in keys.items()}
    server = {**entries.pop("server"), "address": address, "transport": transport}
    path = directory / "federation.toml"
    path.write_text(
        tomli_w.dumps({"problem": "deep-sea-treasure", "sites": entries, "server": server})
    )
    return read_federation(path)


def write_site(home: Path, name: str, **others: str) -> SiteFile:
    """Write ``NAME.toml`` beside the federation file.

    Args:
        home: The directory of the federation file.
        name: Name of the site.
        others: Further values.
    """
    values = {"name": name, "federation": "federation.toml", "preference": [0.5, 0.5]}
    path = home / f"{name}.toml"
    path.write_text(tomli_w.dumps({**values, **others}))
    return read_site(path)
