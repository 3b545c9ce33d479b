"""The example with nginx in front of Flower, run as it is: only the names in @...@ are replaced."""

from __future__ import annotations

import grp
import http.client
import os
import pwd
import re
import shutil
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from comity.federation.keys import Keys, make_keys
from comity.federation.parties import server_transport, site_transport
from comity.federation.transports.flower import FlowerServerTransport
from comity.federation.transports.flower_programs import free_port
from comity.federation.transports.processes import Group
from tests.federation.flower import LONG, Echo, flower
from tests.federation.party_files import write_federation, write_site
from tests.federation.processes import until, with_path

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower-nginx"
NGINX = os.environ.get("COMITY_NGINX") or shutil.which("nginx") or shutil.which("/usr/sbin/nginx")

SITE_HOST = "127.0.0.2"

pytestmark = [
    *flower,
    pytest.mark.skipif(not NGINX, reason="nginx is not installed; or set COMITY_NGINX to it"),
]

MAIN = """
daemon off;
user {user} {group};
pid {directory}/nginx.pid;
error_log {directory}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
{blocks}
}}
"""


def filled(name: str, values: dict[str, object]) -> str:
    """Return a file of the example with its words replaced, all of them."""
    text = (EXAMPLE / name).read_text()
    lines = "\n".join(line.partition("#")[0] for line in text.splitlines())
    return re.sub("@([A-Z_]+)@", lambda word: str(values[word[1]]), lines)


class Doors:
    """A federation of one site, with the organiser's nginx and the site's nginx between.

    SuperLink and the site's nginx have one port, as on two machines, so the latter has another
    address of this machine.
    """

    def __init__(self, directory: Path) -> None:
        self.keys = {
            "server": make_keys("server", directory),
            "bank": make_keys("bank", directory, hosts=[SITE_HOST]),
            "stranger": make_keys("stranger", directory),
        }
        server, bank = self.keys["server"], self.keys["bank"]
        self.public, local = f"localhost:{free_port()}", f"{SITE_HOST}:{free_port()}"
        parties = {"server": server, "bank": bank}
        federation = write_federation(directory, parties, local)
        site = write_site(directory, "bank", authority="bank.crt")
        self.server = server_transport(federation, server, directory)
        assert isinstance(self.server, FlowerServerTransport)
        values = {
            "PUBLIC_ADDRESS": self.public,
            "SERVER_NAME": "localhost",
            "SERVER_CERTIFICATE": server.certificate_file,
            "SERVER_KEY": server.key_file,
            "ROSTER": bank.certificate_file,
            "SUPERLINK_ADDRESS": self.server.address,
            "LOCAL_ADDRESS": local,
            "SITE_CERTIFICATE": bank.certificate_file,
            "SITE_KEY": bank.key_file,
        }
        blocks = filled("server.conf", values) + filled("site.conf", values)
        user, group = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(os.getgid()).gr_name
        (directory / "nginx.conf").write_text(
            MAIN.format(directory=directory, blocks=blocks, user=user, group=group)
        )
        command = [str(NGINX), "-c", str(directory / "nginx.conf"), "-p", str(directory)]
        self.nginx = Group([command], directory / "nginx.log", dict(os.environ))
        self.site = Echo("bank", site_transport(site, bank))

    def status(self, path: str, shown: Keys | None) -> int:
        """Return the status of a request at the organiser's door, with a client certificate."""
        context = ssl.create_default_context(cafile=str(self.keys["server"].certificate_file))
        if shown is not None:
            context.load_cert_chain(shown.certificate_file, shown.key_file)
        host, port = self.public.split(":")
        connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=30)
        try:
            connection.request("POST", path, b"")
            return connection.getresponse().status
        finally:
            connection.close()

    def end(self) -> None:
        self.nginx.end()  # first: a site lingers while somebody listens at its server's address
        self.site.end()
        self.server.close()


@pytest.fixture(scope="module")
def doors(tmp_path_factory) -> Iterator[Doors]:
    directory = tmp_path_factory.mktemp("n")
    running = Doors(directory)
    yield running
    running.end()
    until(lambda: not with_path(directory))


def test_messages_pass_both_doors(doors):
    answers = {}
    message = bytes(range(256)) * 20_000
    taken = doors.server.exchange(
        {"bank": message}, LONG, lambda site, answer: answers.update({site: answer}) or True
    )
    assert taken == {"bank"}
    assert answers == {"bank": message[::-1] + b"bank"}


def test_nobody_without_a_certificate_of_the_roster_gets_in(doors):
    path = "/v1/fleet/pull-messages"
    assert doors.status(path, None) == 400
    assert doors.status(path, doors.keys["stranger"]) == 400
    assert doors.status(path, doors.keys["bank"]) not in (400, 403, 502)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1/control/start-run",
        "/v1/runtime/push-messages",
        "//v1/control/start-run",
        "/v1/fleet/../control/start-run",
        "/v1/fleet/%2e%2e/control/start-run",
        "/v1/fleet//..//control/start-run",
        "/v1/fleet/%2E%2E%2Fcontrol/start-run",
        "/V1/FLEET/x",
    ],
)
def test_sites_reach_the_fleet_interface_only(doors, path):
    assert doors.status(path, doors.keys["bank"]) == 403
