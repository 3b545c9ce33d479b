"""The parties' ends of the transport on Flower: TLS and keys of the federation file."""

from __future__ import annotations

import re
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from comity.configuration.federation_file import FederationFile, SiteFile, read_site
from comity.errors import UserError
from comity.federation import parties
from comity.federation.keys import Keys, make_keys
from comity.federation.parties import (
    keys_of,
    roster,
    server_transport,
    site_membership,
    site_transport,
)
from tests.federation.party_files import write_federation, write_site

HOST = "federation.example.org"


@dataclass
class Parties:
    """The files of a server and two sites."""

    directory: Path
    keys: dict[str, Keys]

    def federation(
        self, address: str = f"{HOST}:9443", transport: str = "flower"
    ) -> FederationFile:
        return write_federation(self.directory, self.keys, address, transport)

    def site(self, name: str, **others: str) -> SiteFile:
        return write_site(self.directory, name, **others)


@pytest.fixture
def federation(tmp_path) -> Parties:
    keys = {name: make_keys(name, tmp_path) for name in ("bank-a", "bank-b")}
    return Parties(tmp_path, {**keys, "server": make_keys("server", tmp_path, hosts=[HOST])})


@pytest.fixture
def started(monkeypatch) -> list[tuple[object, ...]]:
    """Arguments of Flower's ends, which are not started."""
    calls: list[tuple[object, ...]] = []
    for name in ("FlowerServerTransport", "FlowerSiteTransport"):
        monkeypatch.setattr(parties, name, lambda *arguments: calls.append(arguments))
    return calls


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def public_key_of(path: Path) -> list[str]:
    """Return type and public key of a private key, as OpenSSH reads it."""
    command = ["ssh-keygen", "-y", "-f", str(path)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[:2]


def test_a_superlink_has_the_servers_certificate_and_lets_in_the_sites_keys(federation, started):
    own = federation.keys["server"]
    for _ in range(2):  # a second start writes the same
        server_transport(federation.federation(), own, federation.directory / "run")
        names, directory, port, security = started.pop()
        assert (names, port) == (("bank-a", "bank-b"), 9443)
        assert directory == federation.directory / "run" / "flower"
        assert (security.certificate, security.key) == (own.certificate_file, own.key_file)
        assert security.authority == own.certificate_file
        assert sorted(security.sites) == ["bank-a", "bank-b"]
        for name, path in security.sites.items():
            assert path.is_absolute()
            assert mode(path) == 0o600
            private = federation.directory / f"{name}.node"
            private.touch(0o600)
            private.write_bytes(federation.keys[name].openssh())
            assert path.read_text().split() == public_key_of(private)


def test_a_supernode_checks_the_server_and_has_the_sites_key(federation, started):
    file = federation.federation()
    for _ in range(2):
        site_transport(federation.site("bank-a"), federation.keys["bank-a"])
        name, address, directory, security = started.pop()
        assert (name, address) == ("bank-a", f"{HOST}:9443")
        assert directory == federation.directory / "bank-a" / "flower"
        assert security.authority.read_bytes() == federation.keys["server"].certificate.pem
        assert (mode(directory), mode(security.key)) == (0o700, 0o600)
        assert public_key_of(security.key) == roster(file)["bank-a"].openssh().decode().split()


def test_a_site_may_check_a_proxy_in_the_servers_place(federation, started):
    federation.federation("proxy.example.org:9443")
    site_transport(federation.site("bank-a", authority="bank-a.crt"), federation.keys["bank-a"])
    assert started[0][3].authority == federation.directory / "bank-a.crt"
    with pytest.raises(UserError, match=r"authority: there is no file .*proxy\.crt"):
        site_transport(federation.site("bank-a", authority="proxy.crt"), federation.keys["bank-a"])
    federation.federation(transport="grpc")
    with pytest.raises(UserError, match="authority means nothing with transport = 'grpc'"):
        federation.site("bank-a", authority="bank-a.crt")


def test_a_certificate_for_another_host_is_refused_before_flower_starts(federation, started):
    federation.federation("other.example.org:9443")
    remedy = re.escape("comity keys server --host other.example.org")
    with pytest.raises(UserError, match=f"not for the host 'other.example.org'.*{remedy}"):
        site_transport(federation.site("bank-a"), federation.keys["bank-a"])
    assert not started
    assert not (federation.directory / "bank-a" / "flower").exists()


def test_a_foreign_key_is_refused_before_flower_starts(federation):
    foreign = make_keys("bank-a", federation.directory / "foreign")
    with pytest.raises(UserError, match="another certificate of 'bank-a'"):
        keys_of(foreign.key_file, roster(federation.federation())["bank-a"])


@pytest.mark.parametrize("shares", [True, False])
def test_a_site_tells_its_results_only_if_its_file_says_so(federation, shares):
    federation.federation()
    path = federation.directory / "bank-a.toml"
    federation.site("bank-a")
    path.write_text(f"{path.read_text()}\n[share]\nresults = {str(shares).lower()}\n")
    membership = site_membership(read_site(path), federation.keys["bank-a"])
    assert membership.shares_results == shares
