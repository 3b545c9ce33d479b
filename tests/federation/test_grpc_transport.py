"""The gRPC transport on loopback: real TLS, sites that crash, strangers at the port."""

from __future__ import annotations

import datetime
import os
import random
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from comity.errors import RefusedError, UserError
from comity.federation.keys import Keys, make_keys, read_keys
from comity.federation.transports.grpc import GrpcServerTransport, GrpcSiteTransport, grpc

PATIENCE = 20.0
"""Seconds until a test gives up on an answer that must come."""
SITES = ("bank-a", "bank-b", "bank-c")


class House:
    """The keys of all parties; ``old`` has expired, ``stranger`` is in no roster."""

    def __init__(self, directory: Path) -> None:
        self.server = make_keys("server", directory)
        self.impostor = make_keys("server", directory / "impostor")
        self.stranger = make_keys("bank-a", directory / "stranger")
        self.old = make_keys("old", directory, years=-1 / 365.25 / 2)
        self.sites = {name: make_keys(name, directory) for name in SITES}
        self.roster = {k.certificate.name: k.certificate for k in [*self.sites.values(), self.old]}

    @contextmanager
    def open(self, port: int = 0, **options) -> Iterator[GrpcServerTransport]:
        transport = GrpcServerTransport(f"127.0.0.1:{port}", self.server, self.roster, **options)
        try:
            yield transport
        finally:
            transport.close()


@pytest.fixture(scope="module")
def house(tmp_path_factory) -> House:
    return House(tmp_path_factory.mktemp("house"))


class Site:
    """A site in a thread."""

    def __init__(self, transport: GrpcSiteTransport, answer: Callable[[bytes], bytes]) -> None:
        self.messages: list[bytes] = []
        self.error: BaseException | None = None
        self._transport = transport
        self._answer = answer
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        def answer(message: bytes) -> bytes:
            self.messages.append(message)
            return self._answer(message)

        try:
            self._transport.serve(answer, self._ended.is_set)
        except BaseException as error:
            self.error = error

    def join(self, seconds: float = PATIENCE) -> None:
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "the site has not ended"

    def end(self) -> None:
        self._ended.set()
        try:
            self.join()
        finally:
            self._transport.close()


@pytest.fixture
def dial(house) -> Iterator[Callable[..., Site]]:
    """Return a function that starts a site, which echoes unless told otherwise."""
    with ExitStack() as stack:

        def start(port: int, keys: Keys, answer=lambda message: b"echo " + message, **options):
            address = f"127.0.0.1:{port}"
            site = Site(
                GrpcSiteTransport(address, keys, house.server.certificate, **options), answer
            )
            stack.callback(site.end)
            return site

        yield start


class Taken(dict):
    """Answers by site; refuses the first answers of the sites in ``refuse``."""

    def __init__(self, refuse: tuple[str, ...] = ()) -> None:
        self.refused: list[str] = []
        self.threads: set[int] = set()
        self._refuse = list(refuse)

    def __call__(self, site: str, answer: bytes) -> bool:
        self.threads.add(threading.get_ident())
        if site in self._refuse:
            self._refuse.remove(site)
            self.refused.append(site)
            return False
        self[site] = answer
        return True


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it does not come true"
        time.sleep(0.01)


# -- exchanges ---------------------------------------------------------------------------------


def test_each_site_gets_its_message_and_a_silent_one_is_waited_for(house, dial):
    with house.open() as server:
        assert server.online() == frozenset()
        for name in ("bank-a", "bank-b"):
            dial(server.port, house.sites[name])
        until(lambda: server.online() == {"bank-a", "bank-b"})
        messages = {name: f"to {name}".encode() for name in SITES}
        taken, start = Taken(), time.monotonic()
        assert server.exchange(messages, 1.5, taken) == {"bank-a", "bank-b"}
        assert time.monotonic() - start >= 1.5
        assert taken == {"bank-a": b"echo to bank-a", "bank-b": b"echo to bank-b"}
        assert taken.threads == {threading.get_ident()}, "called in the calling thread"

        late = dial(server.port, house.sites["bank-c"])
        until(lambda: "bank-c" in server.online())
        time.sleep(0.2)
        assert late.messages == [], "the message was withdrawn"
        assert server.exchange(messages, 60.0, Taken()) == set(SITES), "returns before its patience"
        assert late.messages == [b"to bank-c"]


def test_an_empty_message_and_an_empty_exchange(house, dial):
    with house.open() as server:
        dial(server.port, house.sites["bank-a"], lambda message: b"")
        taken = Taken()
        assert server.exchange({"bank-a": b""}, PATIENCE, taken) == {"bank-a"}
        assert taken == {"bank-a": b""}
        assert server.exchange({}, PATIENCE, taken) == frozenset()


def test_a_refused_answer_is_made_again(house, dial):
    with house.open() as server:
        numbers = iter(range(9))
        site = dial(server.port, house.sites["bank-a"], lambda m: m + b"%d" % next(numbers))
        dial(server.port, house.sites["bank-b"])
        taken = Taken(refuse=("bank-a", "bank-a"))
        messages = {"bank-a": b"one", "bank-b": b"two"}
        assert server.exchange(messages, PATIENCE, taken) == {"bank-a", "bank-b"}
        assert taken.refused == ["bank-a", "bank-a"]
        assert taken["bank-a"] == b"one2"
        assert site.messages == [b"one"] * 3


def test_an_answer_that_comes_too_late_is_not_taken(house, dial):
    with house.open() as server:
        late = threading.Event()

        def answer(message: bytes) -> bytes:
            if message == b"first":
                late.wait(PATIENCE)
            return b"echo " + message

        site = dial(server.port, house.sites["bank-a"], answer)
        until(server.online)
        assert server.exchange({"bank-a": b"first"}, 1.0, Taken()) == frozenset()
        until(lambda: site.messages == [b"first"])
        late.set()
        taken = Taken()
        assert server.exchange({"bank-a": b"second"}, PATIENCE, taken) == {"bank-a"}
        assert taken == {"bank-a": b"echo second"}


def test_a_fault_of_the_receiver_withdraws_the_messages(house, dial):
    def arrived(site: str, answer: bytes) -> bool:
        raise ZeroDivisionError

    with house.open() as server:
        site = dial(server.port, house.sites["bank-a"])
        with pytest.raises(ZeroDivisionError):
            server.exchange({"bank-a": b"one"}, PATIENCE, arrived)
        time.sleep(0.5)
        assert site.messages == [b"one"]
        taken = Taken()
        assert server.exchange({"bank-a": b"two"}, PATIENCE, taken) == {"bank-a"}
        assert taken == {"bank-a": b"echo two"}


def test_ten_megabytes_travel_both_ways(house, dial):
    content = random.Random(1).randbytes(10_000_000)
    with house.open() as server:
        dial(server.port, house.sites["bank-a"], lambda message: message[::-1])
        taken = Taken()
        assert server.exchange({"bank-a": content}, PATIENCE, taken) == {"bank-a"}
        assert taken["bank-a"] == content[::-1]


def test_a_message_that_is_too_large_is_not_sent(house):
    with (
        house.open(limit=1000) as server,
        pytest.raises(UserError, match="'bank-a' has 1,001 bytes, 1,000 at most"),
    ):
        server.exchange({"bank-a": bytes(1001)}, PATIENCE, Taken())


@pytest.mark.parametrize(
    ("limit", "error", "words"),
    [
        (1000, UserError, "the answer has 1,001 bytes, 1,000 at most"),
        (2**30, RefusedError, "too large for the server"),
    ],
)
def test_a_site_is_told_that_its_answer_is_too_large(house, dial, limit, error, words):
    with house.open(limit=1000) as server, ThreadPoolExecutor(1) as pool:
        site = dial(server.port, house.sites["bank-a"], lambda message: bytes(1001), limit=limit)
        exchanged = pool.submit(server.exchange, {"bank-a": bytes(1000)}, PATIENCE, Taken())
        site.join()
        server.close()
        assert exchanged.result(PATIENCE) == frozenset()
    assert isinstance(site.error, error)
    assert words in str(site.error)


# -- crashes -----------------------------------------------------------------------------------

PROCESS = """
import sys
from comity.federation.keys import read_certificate, read_keys
from comity.federation.transports.grpc import GrpcSiteTransport
address, key, certificate, server = sys.argv[1:]
def answer(message):
    print("fetched", flush=True)
    sys.stdin.read()  # until it is killed
transport = GrpcSiteTransport(address, read_keys(key, certificate), read_certificate(server))
transport.serve(answer, lambda: False)
"""


def test_a_site_killed_between_fetch_and_bring_gets_the_message_again(house, dial):
    keys = house.sites["bank-a"]
    with house.open() as server, ThreadPoolExecutor(1) as pool:
        taken = Taken()
        exchanged = pool.submit(server.exchange, {"bank-a": b"one"}, 2 * PATIENCE, taken)
        files = (keys.key_file, keys.certificate_file, house.server.certificate_file)
        process = subprocess.Popen(
            [sys.executable, "-c", PROCESS, f"127.0.0.1:{server.port}", *map(str, files)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        with process:
            timer = threading.Timer(PATIENCE, process.kill)
            timer.start()
            assert process.stdout.readline() == b"fetched\n"
            timer.cancel()
            process.kill()
        assert not exchanged.done()
        site = dial(server.port, keys)
        assert exchanged.result(PATIENCE) == {"bank-a"}
        assert site.messages == [b"one"]
        assert taken == {"bank-a": b"echo one"}


def test_sites_wait_for_a_server_that_is_restarted(house, dial):
    with house.open() as server:
        port = server.port
        sites = [dial(port, house.sites[name]) for name in SITES]
        until(lambda: server.online() == set(SITES))
        messages = dict.fromkeys(SITES, b"one")
        assert server.exchange(messages, PATIENCE, Taken()) == set(SITES)
    time.sleep(0.5)  # some attempts fail
    with house.open(port) as server:
        assert server.exchange(messages, PATIENCE, Taken()) == set(SITES)
    assert [site.error for site in sites] == [None] * 3
    assert [site.messages for site in sites] == [[b"one", b"one"]] * 3


def test_an_answer_made_before_a_restart_fits_the_same_message_after_it(house, dial):
    gone = threading.Event()

    def answer(message: bytes) -> bytes:
        assert gone.wait(PATIENCE)
        return b"echo " + message

    with house.open() as server, ThreadPoolExecutor(1) as pool:
        port = server.port
        site = dial(port, house.sites["bank-a"], answer)
        exchanged = pool.submit(server.exchange, {"bank-a": b"one"}, PATIENCE, Taken())
        until(lambda: site.messages)
        server.close()
        assert exchanged.result(PATIENCE) == frozenset()
    with house.open(port) as server, ThreadPoolExecutor(1) as pool:
        taken = Taken()
        exchanged = pool.submit(server.exchange, {"bank-a": b"one"}, PATIENCE, taken)
        time.sleep(0.2)
        gone.set()
        assert exchanged.result(PATIENCE) == {"bank-a"}
    assert taken == {"bank-a": b"echo one"}
    assert site.messages == [b"one"], "nothing was computed twice"


def test_the_later_of_two_sessions_wins(house, dial):
    with house.open() as server:
        first = dial(server.port, house.sites["bank-a"])
        assert server.exchange({"bank-a": b"one"}, PATIENCE, Taken()) == {"bank-a"}
        second = dial(server.port, house.sites["bank-a"])
        first.join()
        assert isinstance(first.error, RefusedError)
        assert "a later session of 'bank-a'" in str(first.error)
        assert server.exchange({"bank-a": b"two"}, PATIENCE, Taken()) == {"bank-a"}
        assert (first.messages, second.messages) == ([b"one"], [b"two"])


def test_an_earlier_session_cannot_bring_what_it_fetched(house, dial):
    fetched, goes_on = threading.Event(), threading.Event()

    def slow(message: bytes) -> bytes:
        fetched.set()
        goes_on.wait(PATIENCE)
        return b"slow"

    with house.open() as server, ThreadPoolExecutor(1) as pool:
        first = dial(server.port, house.sites["bank-a"], slow)
        taken = Taken(refuse=("bank-a",))
        exchanged = pool.submit(server.exchange, {"bank-a": b"one"}, PATIENCE, taken)
        assert fetched.wait(PATIENCE)
        dial(server.port, house.sites["bank-a"])
        until(lambda: taken.refused)
        goes_on.set()
        assert exchanged.result(PATIENCE) == {"bank-a"}
        assert taken == {"bank-a": b"echo one"}
        first.join()
        assert isinstance(first.error, RefusedError)


def test_ended_and_close_do_not_wait_for_a_message(house, dial):
    with house.open() as server:
        ended, closed = (dial(server.port, house.sites[name]) for name in SITES[:2])
        until(lambda: len(server.online()) == 2)
        start = time.monotonic()
        ended.end()
        closed._transport.close()
        closed.join()
        assert (ended.error, closed.error) == (None, None)
        assert time.monotonic() - start < 5, "a call is held for 20 s"


def test_the_answer_under_way_is_brought_before_a_site_ends(house, monkeypatch):
    monkeypatch.setattr("comity.federation.transports.grpc._ASK", 1e-4)  # shorter than the way
    with house.open() as server:
        ended = threading.Event()
        address = f"127.0.0.1:{server.port}"
        transport = GrpcSiteTransport(address, house.sites["bank-a"], house.server.certificate)

        def answer(message: bytes) -> bytes:
            ended.set()
            return bytes(10_000_000)

        thread = threading.Thread(target=transport.serve, args=(answer, ended.is_set), daemon=True)
        thread.start()
        assert server.exchange({"bank-a": b"end"}, PATIENCE, Taken()) == {"bank-a"}
        thread.join(PATIENCE)
        assert not thread.is_alive()
        transport.close()


def test_closing_ends_an_exchange(house):
    with house.open() as server, ThreadPoolExecutor(1) as pool:
        exchanged = pool.submit(server.exchange, {"bank-a": b"one"}, 600.0, Taken())
        time.sleep(0.1)
        server.close()
        assert exchanged.result(PATIENCE) == frozenset()


# -- strangers ---------------------------------------------------------------------------------


def bare(house: House, port: int, keys: Keys | None, method: str, request: bytes) -> str:
    """Call the server without the site's end; return the status and its text."""
    pair = (keys.pem, keys.certificate.pem) if keys else (None, None)
    credentials = grpc.ssl_channel_credentials(house.server.certificate.pem, *pair)
    options = [("grpc.ssl_target_name_override", "comity")]
    with grpc.secure_channel(f"127.0.0.1:{port}", credentials, options) as channel:
        try:
            return repr(channel.unary_unary(method)(request, timeout=5))
        except grpc.RpcError as error:
            return f"{error.code().name} {error.details()}"


FETCH, BRING = "/comity.transport.1/Fetch", "/comity.transport.1/Bring"


@pytest.mark.parametrize("who", [None, "stranger", "old"])
def test_without_a_valid_certificate_of_the_roster_there_is_no_call(house, who):
    with house.open() as server:
        keys = getattr(house, who) if who else None
        assert bare(house, server.port, keys, FETCH, bytes(16)).startswith("UNAVAILABLE")
        assert server.online() == frozenset()


@pytest.mark.parametrize(
    ("who", "words"),
    [("stranger", "is it in the organiser's roster?"), ("old", "it expired on")],
)
def test_a_site_is_told_that_its_certificate_is_refused(house, dial, who, words):
    with house.open() as server:
        site = dial(server.port, getattr(house, who))
        site.join()
        assert isinstance(site.error, RefusedError)
        assert words in str(site.error)
        assert getattr(house, who).certificate.fingerprint in str(site.error)


def test_a_site_trusts_its_server_only(house):
    with house.open() as server:
        address, keys = f"127.0.0.1:{server.port}", house.sites["bank-a"]
        site = Site(GrpcSiteTransport(address, keys, house.impostor.certificate), bytes)
        site.join()
        site.end()
        assert isinstance(site.error, RefusedError)
        assert house.impostor.certificate.fingerprint in str(site.error)
        assert server.online() == frozenset()


def test_a_site_goes_on_trying_where_nobody_listens(house, dial):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    site = dial(port, house.sites["bank-a"])
    time.sleep(1)
    with house.open(port) as server:
        assert server.exchange({"bank-a": b"one"}, PATIENCE, Taken()) == {"bank-a"}
    assert site.error is None


def test_a_site_that_was_accepted_is_not_ended_by_whoever_takes_the_port(house, dial):
    with house.open() as server:
        port = server.port
        site = dial(port, house.sites["bank-a"])
        assert server.exchange({"bank-a": b"one"}, PATIENCE, Taken()) == {"bank-a"}
    other = GrpcServerTransport(f"127.0.0.1:{port}", house.impostor, house.roster)
    time.sleep(1)
    other.close()
    with house.open(port) as server:
        assert server.exchange({"bank-a": b"two"}, PATIENCE, Taken()) == {"bank-a"}
    assert site.error is None


def test_a_site_gets_the_messages_of_its_own_certificate_only(house, dial):
    with house.open() as server:
        site = dial(server.port, house.sites["bank-b"])
        until(server.online)
        messages = {"bank-a": b"secret", "bank-b": b"other"}
        assert server.exchange(messages, 1.5, Taken()) == {"bank-b"}
        assert site.messages == [b"other"]


def test_a_roster_with_another_name_is_refused(house):
    roster = {"bank-a": house.sites["bank-b"].certificate}
    with pytest.raises(UserError, match="the certificate of 'bank-a' is that of 'bank-b'"):
        GrpcServerTransport("127.0.0.1:0", house.server, roster)


def test_a_site_cannot_certify_another(house, tmp_path):
    """A certificate of the roster that may sign others, as openssl makes it by default."""
    now = datetime.datetime.now(datetime.UTC)

    def certify(name: str, issuer: str, signer: ec.EllipticCurvePrivateKey | None, ca: bool):
        private = ec.generate_private_key(ec.SECP256R1())
        subject, above = (
            x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, n)]) for n in (name, issuer)
        )
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(above)
            .public_key(private.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .sign(signer or private, hashes.SHA256())
        )
        files = tmp_path / f"{name}.key", tmp_path / f"{name}.crt"
        files[0].write_bytes(
            private.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        files[1].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return read_keys(*files), private

    mallory, private = certify("mallory", "mallory", None, True)
    forged, _ = certify("bank-a", "mallory", private, False)
    roster = {**house.roster, "mallory": mallory.certificate}
    server = GrpcServerTransport("127.0.0.1:0", house.server, roster)
    try:
        assert bare(house, server.port, forged, FETCH, bytes(16)) == "UNAUTHENTICATED "
        address = f"127.0.0.1:{server.port}"
        site = Site(GrpcSiteTransport(address, forged, house.server.certificate), bytes)
        site.join()
        site.end()
        assert isinstance(site.error, RefusedError)
        assert server.online() == frozenset()
    finally:
        server.close()


@pytest.mark.parametrize(
    ("method", "request_", "status"),
    [
        (FETCH, b"", "INVALID_ARGUMENT "),
        (FETCH, bytes(17), "INVALID_ARGUMENT "),
        (BRING, bytes(47), "INVALID_ARGUMENT "),
        (BRING, bytes(48), repr(b"\x00")),
        pytest.param(BRING, random.Random(5).randbytes(5000), repr(b"\x00"), id="noise"),
        ("/comity.transport.1/Other", b"", "UNIMPLEMENTED Method not found!"),
    ],
)
def test_odd_requests_of_a_site_get_a_status_and_no_text(house, method, request_, status):
    with house.open() as server:
        assert bare(house, server.port, house.sites["bank-a"], method, request_) == status


def test_no_text_of_an_exception_travels(house, monkeypatch):
    with house.open() as server:
        monkeypatch.setattr(server, "_names", None)  # whatever comes is a fault inside
        reply = bare(house, server.port, house.sites["bank-a"], FETCH, bytes(16))
        assert reply == "INTERNAL "


def secure(house: House, port: int, version: ssl.TLSVersion) -> bytes:
    """Shake hands as a site of the roster with one version of TLS; return the first bytes."""
    keys = house.sites["bank-a"]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = context.maximum_version = version
    context.load_verify_locations(cadata=house.server.certificate.pem.decode())
    context.load_cert_chain(keys.certificate_file, keys.key_file)
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection(("127.0.0.1", port), timeout=5) as plain,
        context.wrap_socket(plain, server_hostname="comity") as connection,
    ):
        return connection.recv(9)


def test_the_server_speaks_tls_1_3_only(house):
    with house.open() as server:
        assert len(secure(house, server.port, ssl.TLSVersion.TLSv1_3)) == 9
        with pytest.raises(ssl.SSLError):
            secure(house, server.port, ssl.TLSVersion.TLSv1_2)
    assert "GRPC_SSL_CIPHER_SUITES" not in os.environ, "programs started from here are not affected"


def test_the_server_takes_no_call_over_tls_1_2_even_if_a_handshake_succeeds(house):
    """As happens in a process that imported gRPC before the transport."""

    class Context:
        def __init__(self, version: bytes) -> None:
            pem = house.sites["bank-a"].certificate.pem
            self.facts = {"ssl_tls_version": [version], "x509_pem_cert": [pem]}
            self.codes = []

        def auth_context(self):
            return self.facts

        def set_code(self, code):
            self.codes.append(code.name)

    with house.open() as server:
        for version, codes in ((b"TLSv1.3", []), (b"TLSv1.2", ["UNAUTHENTICATED"])):
            context = Context(version)
            reply = server._call(lambda site, request: site.encode())(b"", context)
            assert (reply, context.codes) == (b"" if codes else b"bank-a", codes)


def test_a_site_speaks_tls_1_3_only(house, dial):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(house.server.certificate_file, house.server.key_file)
    context.set_alpn_protocols(["h2"])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE)
        dial(listener.getsockname()[1], house.sites["bank-a"])
        plain, _ = listener.accept()
        plain.settimeout(PATIENCE)
        with plain, pytest.raises(ssl.SSLError, match="NO_SHARED_CIPHER"):
            context.wrap_socket(plain, server_side=True)


def test_garbage_at_the_port_harms_nobody(house, dial):
    chance = random.Random(7)
    beginnings = [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01",
    ]
    with house.open() as server:
        site = dial(server.port, house.sites["bank-a"])
        until(server.online)
        with ExitStack() as stack:
            for number in range(200):
                connection = socket.create_connection(("127.0.0.1", server.port), timeout=5)
                if number % 4 == 0:
                    stack.enter_context(connection)  # stays open, says no more
                garbage = chance.choice(beginnings) + chance.randbytes(chance.randrange(3000))
                try:
                    connection.sendall(garbage)
                    if number % 4:
                        connection.close()
                except ConnectionError:
                    pass
            taken = Taken()
            assert server.exchange({"bank-a": b"one"}, PATIENCE, taken) == {"bank-a"}
        assert taken == {"bank-a": b"echo one"}
        assert server.online() == {"bank-a"}
        assert site.error is None


def test_a_port_in_use_and_bad_addresses_are_named(house):
    with house.open() as server, pytest.raises(UserError, match=f"is port {server.port} free"):
        GrpcServerTransport(f"127.0.0.1:{server.port}", house.server, house.roster)
    for address in ("example.org", ":1", "example.org:x", "example.org:70000"):
        with pytest.raises(UserError, match="must be HOST:PORT"):
            GrpcSiteTransport(address, house.sites["bank-a"], house.server.certificate)
