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

from comity.federation.transports.flower import FlowerServerTransport, ServerSecurity
from comity.federation.transports.flower_programs import free_port
from comity.federation.transports.flower_site import FlowerSiteTransport, SiteSecurity
from comity.federation.transports.processes import Group
from tests.federation.certificates import Certificate, certificate, node_key
from tests.federation.flower import LONG, PROGRAMS_AT, Echo, flower
from tests.federation.processes import until, with_path

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower-nginx"
NGINX = os.environ.get("COMITY_NGINX") or shutil.which("nginx") or shutil.which("/usr/sbin/nginx")

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
    """A federation of one site, with the organiser's nginx and the site's nginx between."""

    def __init__(self, directory: Path) -> None:
        made = {
            name: certificate(directory, name)
            for name in ("superlink", "server", "local", "bank", "stranger")
        }
        self.certificates = made
        link = made["superlink"]
        key = node_key(directory / "node")
        self.public, local = (f"localhost:{free_port()}" for _ in range(2))
        self.server = FlowerServerTransport(
            ["bank"],
            directory / "server",
            security=ServerSecurity(
                link.file, link.key, link.file, {"bank": key.with_suffix(".pub")}
            ),
            programs=PROGRAMS_AT,
        )
        values = {
            "PUBLIC_ADDRESS": self.public,
            "SERVER_NAME": "localhost",
            "SERVER_CERTIFICATE": made["server"].file,
            "SERVER_KEY": made["server"].key,
            "ROSTER": made["bank"].file,
            "SUPERLINK_ADDRESS": self.server.address,
            "SUPERLINK_CERTIFICATE": link.file,
            "LOCAL_ADDRESS": local,
            "LOCAL_CERTIFICATE": made["local"].file,
            "LOCAL_KEY": made["local"].key,
            "SITE_CERTIFICATE": made["bank"].file,
            "SITE_KEY": made["bank"].key,
        }
        blocks = filled("server.conf", values) + filled("site.conf", values)
        user, group = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(os.getgid()).gr_name
        (directory / "nginx.conf").write_text(
            MAIN.format(directory=directory, blocks=blocks, user=user, group=group)
        )
        command = [str(NGINX), "-c", str(directory / "nginx.conf"), "-p", str(directory)]
        self.nginx = Group([command], directory / "nginx.log", dict(os.environ))
        security = SiteSecurity(made["local"].file, key)
        transport = FlowerSiteTransport("bank", local, directory / "bank", security, PROGRAMS_AT)
        self.site = Echo("bank", transport)

    def status(self, path: str, shown: Certificate | None) -> int:
        """Return the status of a request at the organiser's door, with a client certificate."""
        context = ssl.create_default_context(cafile=str(self.certificates["server"].file))
        if shown is not None:
            context.load_cert_chain(shown.file, shown.key)
        host, port = self.public.split(":")
        connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=30)
        try:
            connection.request("POST", path, b"")
            return connection.getresponse().status
        finally:
            connection.close()

    def end(self) -> None:
        self.site.end()
        self.nginx.end()
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
    assert doors.status(path, doors.certificates["stranger"]) == 400
    assert doors.status(path, doors.certificates["bank"]) not in (400, 403, 502)


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
    assert doors.status(path, doors.certificates["bank"]) == 403
