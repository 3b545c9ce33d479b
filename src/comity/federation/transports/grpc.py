"""Transport over gRPC: certificates on both sides, sites only dial out.

Two calls, with bytes and no code generation. ``Fetch``: a site asks for its message; the call is
held until there is one, some 20 seconds at most. ``Bring``: a site brings the answer to a message,
which is named by its SHA-256, so that an answer made before the server was restarted still fits. A
site is known by its certificate alone: it must be one of the roster, byte for byte.

TLS 1.3 only. grpcio has no setting for that, so the cipher suites of TLS 1.2 are reduced to one
that needs an RSA certificate, while all certificates here have EC keys (`comity.federation.keys`):
a handshake below 1.3 finds no shared suite, at either end. gRPC reads that choice when it is
imported. If another library in this process has imported it before, the server refuses calls over
TLS 1.2 instead, and a site takes TLS 1.2 if its server offers nothing better.
"""

from __future__ import annotations

import datetime
import logging
import os
import secrets
import socket
import ssl
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

from comity.errors import RefusedError, UserError
from comity.federation.keys import COMMON_NAME, Certificate, Keys, fingerprint
from comity.federation.transports.base import Arrived
from comity.federation.transports.boxes import DIGEST_BYTES, Boxes, SupersededError

_READ_ON_IMPORT = {
    "GRPC_SSL_CIPHER_SUITES": "ECDHE-RSA-AES256-GCM-SHA384",
    "GRPC_VERBOSITY": "NONE",  # otherwise each stranger's handshake is a line on the terminal
}
_before = dict(os.environ)
os.environ.update(_READ_ON_IMPORT)
try:
    import grpc
except ModuleNotFoundError:
    raise UserError(
        'transport = "grpc" needs two packages more: pip install "comity[grpc]".'
    ) from None
finally:
    for _name in _READ_ON_IMPORT:
        os.environ.pop(_name)
        os.environ.update({_name: _before[_name]} if _name in _before else {})

LIMIT = 2**30
"""Bytes of the largest message or answer."""
_MOST = 2**31 - 2**10  # gRPC counts bytes in 31 bits
_SERVICE = "comity.transport.1"
_SESSION = 16  # bytes
_NOTHING, _TAKEN, _NOT_TAKEN = b"", b"\x01", b"\x00"
_ASK = 0.2  # seconds between two looks at ``ended``
_PAUSES = (0.1, 5.0)  # seconds before the next attempt: first, longest
_HANG_UPS = 3
_ALIVE = [
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 30_000),
    ("grpc.http2.ping_timeout_ms", 30_000),  # the one that grpcio 1.85 obeys
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
]
_SERVER = [
    ("grpc.so_reuseport", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_concurrent_streams", 4),
]
_SITE = [
    ("grpc.ssl_target_name_override", COMMON_NAME),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 5_000),
]


class _DeniedError(Exception):
    """A call that is refused, with the status that tells the site why."""

    def __init__(self, status: grpc.StatusCode) -> None:
        self.status = status


class GrpcServerTransport:
    """The server's end.

    Args:
        address: Where to listen, e.g. "0.0.0.0:8443"; port 0 takes a free one.
        keys: The server's key and certificate.
        roster: Certificates of all sites, by the site's name.
        limit: Bytes of the largest message or answer.
    """

    def __init__(
        self, address: str, keys: Keys, roster: Mapping[str, Certificate], limit: int = LIMIT
    ) -> None:
        for name, certificate in roster.items():
            if certificate.name != name:
                raise UserError(
                    f"roster: the certificate of '{name}' is that of '{certificate.name}' "
                    f"({certificate.fingerprint}); a site has the name that its certificate has."
                )
        _, port = _split(address)
        self._limit = limit
        self._boxes = Boxes(roster)
        self._names = {certificate.fingerprint: name for name, certificate in roster.items()}
        threads = ThreadPoolExecutor(2 * len(roster) + 4, "grpc")
        self._server = grpc.server(threads, options=_ALIVE + _SERVER + _sizes(limit))
        self._server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(
                    _SERVICE,
                    {
                        "Fetch": grpc.unary_unary_rpc_method_handler(self._call(self._fetch)),
                        "Bring": grpc.unary_unary_rpc_method_handler(self._call(self._bring)),
                    },
                ),
            )
        )
        trusted = b"".join(certificate.pem for certificate in roster.values())
        credentials = grpc.ssl_server_credentials(
            [(keys.pem, keys.certificate.pem)], trusted, require_client_auth=True
        )
        try:
            self.port = self._server.add_secure_port(address, credentials)
        except RuntimeError:
            raise UserError(
                f"address '{address}': cannot listen there. Does the host belong to this machine, "
                f"and is port {port} free?"
            ) from None
        self._server.start()

    def online(self) -> frozenset[str]:
        return self._boxes.online()

    def exchange(
        self, messages: Mapping[str, bytes], patience: float, arrived: Arrived
    ) -> frozenset[str]:
        for site, message in messages.items():
            if len(message) > self._limit:
                raise UserError(
                    f"the message to '{site}' has {len(message):,} bytes, {self._limit:,} at most."
                )
        return self._boxes.exchange(messages, patience, arrived)

    def close(self) -> None:
        self._boxes.close()
        self._server.stop(grace=1).wait()

    def _call(
        self, handle: Callable[[str, bytes], bytes]
    ) -> Callable[[bytes, grpc.ServicerContext], bytes]:
        """Return the handler of a call; the site gets a status, never the text of an exception."""

        def handler(request: bytes, context: grpc.ServicerContext) -> bytes:
            try:
                return handle(self._peer(context), request)
            except _DeniedError as denied:
                status = denied.status
            except SupersededError:
                status = grpc.StatusCode.ABORTED
            except Exception:
                logging.getLogger(__name__).exception("a site's call failed")  # stays here
                status = grpc.StatusCode.INTERNAL
            context.set_code(status)
            return _NOTHING

        return handler

    def _peer(self, context: grpc.ServicerContext) -> str:
        """Return the name of the site whose certificate the caller has shown."""
        facts: Mapping[str, Any] = context.auth_context()
        versions = facts.get("ssl_tls_version", [b"TLSv1.3"])  # old versions of grpcio do not tell
        certificates = facts.get("x509_pem_cert", [])
        if len(certificates) != 1 or list(versions) != [b"TLSv1.3"]:
            raise _DeniedError(grpc.StatusCode.UNAUTHENTICATED)
        try:
            return self._names[fingerprint(certificates[0].decode())]
        except KeyError:  # e.g. signed with the key of a certificate of the roster
            raise _DeniedError(grpc.StatusCode.UNAUTHENTICATED) from None

    def _fetch(self, site: str, request: bytes) -> bytes:
        if len(request) != _SESSION:
            raise _DeniedError(grpc.StatusCode.INVALID_ARGUMENT)
        return self._boxes.fetch(site, request)

    def _bring(self, site: str, request: bytes) -> bytes:
        head = _SESSION + DIGEST_BYTES
        if len(request) < head:
            raise _DeniedError(grpc.StatusCode.INVALID_ARGUMENT)
        session, digest, answer = request[:_SESSION], request[_SESSION:head], request[head:]
        taken = self._boxes.bring(site, session, digest, answer)
        return _TAKEN if taken else _NOT_TAKEN


class GrpcSiteTransport:
    """A site's end.

    Args:
        address: The server's address, e.g. "federation.example.org:8443".
        keys: The site's key and certificate.
        server: The server's certificate; no other server is trusted.
        limit: Bytes of the largest message or answer.
    """

    def __init__(self, address: str, keys: Keys, server: Certificate, limit: int = LIMIT) -> None:
        self._place = _split(address)
        self._address = address
        self._keys = keys
        self._trusted = server
        self._limit = limit
        self._session = secrets.token_bytes(_SESSION)
        self._closed = Event()
        self._accepted = False
        self._hang_ups = 0
        credentials = grpc.ssl_channel_credentials(server.pem, keys.pem, keys.certificate.pem)
        options = _ALIVE + _SITE + _sizes(limit)
        self._channel = grpc.secure_channel(address, credentials, options)
        self._fetch = self._channel.unary_unary(f"/{_SERVICE}/Fetch")
        self._bring = self._channel.unary_unary(f"/{_SERVICE}/Bring")

    def serve(self, answer: Callable[[bytes], bytes], ended: Callable[[], bool]) -> None:
        pause, longest = _PAUSES
        while not ended() and not self._closed.is_set():
            message = self._ask(self._fetch, self._session, ended, patient=False)
            if not message:
                continue
            reply = answer(message[DIGEST_BYTES:])
            if len(reply) > self._limit:
                raise UserError(f"the answer has {len(reply):,} bytes, {self._limit:,} at most.")
            request = self._session + message[:DIGEST_BYTES] + reply
            if self._ask(self._bring, request, ended, patient=True) == _TAKEN:
                pause, _ = _PAUSES
            else:  # withdrawn, or refused: then the same message comes again
                self._closed.wait(pause)
                pause = min(2 * pause, longest)

    def close(self) -> None:
        self._closed.set()
        self._channel.close()

    def _ask(self, method: Any, request: bytes, ended: Callable[[], bool], patient: bool) -> bytes:
        """Call until the server answers; return nothing if ``ended`` returns true before that.

        Args:
            method: The call.
            request: What is sent.
            ended: Asked after each attempt that failed.
            patient: Do not ask ``ended`` while a call is under way.
        """
        pause, longest = _PAUSES
        while not self._closed.is_set():
            try:
                reply = _wait(method.future(request), (lambda: False) if patient else ended)
            except grpc.RpcError as error:
                self._judge(error.code())
            except (grpc.FutureCancelledError, ValueError):  # closed by another thread
                return _NOTHING
            else:
                self._accepted = True
                return reply
            if ended():
                return _NOTHING
            self._closed.wait(pause)
            pause = min(2 * pause, longest)
        return _NOTHING

    def _judge(self, status: grpc.StatusCode) -> None:
        """Raise the refusal behind a failed call, unless the server is merely out of reach."""
        codes = grpc.StatusCode
        if status is codes.UNAUTHENTICATED:
            raise self._unknown()
        if status is codes.ABORTED:
            raise RefusedError(
                f"a later session of '{self._keys.certificate.name}' is connected to the server at "
                f"{self._address}; this one has ended."
            )
        if status in (codes.UNIMPLEMENTED, codes.INVALID_ARGUMENT):
            raise RefusedError(
                f"the server at {self._address} speaks another version of the gRPC transport; "
                "install the organiser's version of Comity."
            )
        if status is codes.RESOURCE_EXHAUSTED:
            raise RefusedError(
                f"a message or an answer is too large for the server at {self._address} or for "
                f"this site, which takes {self._limit:,} bytes."
            )
        if not self._accepted:
            self._knock()

    def _knock(self) -> None:
        """Find out why the first call fails: gRPC itself reports no reasons that can be told apart.

        A server that does not know the site's certificate hangs up after the handshake, in which it
        has proved itself; any other server first sends its settings. Once calls have succeeded,
        nobody on the network can end this site by hanging up.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.set_alpn_protocols(["h2"])
        context.load_verify_locations(cadata=self._trusted.pem.decode())
        try:
            context.load_cert_chain(self._keys.certificate_file, self._keys.key_file)
            with (
                socket.create_connection(self._place, timeout=5) as plain,
                context.wrap_socket(plain, server_hostname=COMMON_NAME) as secure,
            ):
                try:
                    hung_up = not secure.recv(1)
                except ConnectionError:
                    hung_up = True
        except ssl.SSLCertVerificationError as error:
            raise RefusedError(
                f"the server at {self._address} does not show the certificate that this site "
                f"trusts ('{self._trusted.name}', {self._trusted.fingerprint}): "
                f"{error.verify_message}."
            ) from None
        except OSError:
            return
        self._hang_ups = self._hang_ups + 1 if hung_up else 0
        if self._hang_ups == _HANG_UPS:
            raise self._unknown()

    def _unknown(self) -> RefusedError:
        certificate = self._keys.certificate
        if certificate.expires < datetime.datetime.now(datetime.UTC):
            fault = f"it expired on {certificate.expires:%Y-%m-%d}; make a new one: `comity keys`"
        else:
            fault = "is it in the organiser's roster?"
        return RefusedError(
            f"the server at {self._address} refuses this site's certificate ('{certificate.name}', "
            f"{certificate.fingerprint}): {fault}"
        )


def _wait(call: Any, ended: Callable[[], bool]) -> bytes:
    """Return the reply to a call; cancel it and return nothing once ``ended`` returns true."""
    while True:
        try:
            return bytes(call.result(timeout=_ASK))
        except grpc.FutureTimeoutError:
            if ended():
                call.cancel()
                return _NOTHING


def _split(address: str) -> tuple[str, int]:
    """Return host and port."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise UserError(f"address '{address}' must be HOST:PORT, e.g. federation.example.org:8443.")
    return host.strip("[]"), int(port)


def _sizes(limit: int) -> list[tuple[str, int]]:
    """Return gRPC's options for messages of this size."""
    if not 0 < limit <= _MOST:
        raise UserError(f"limit = {limit}: a message has from 1 to {_MOST} bytes.")
    most = limit + _SESSION + DIGEST_BYTES
    return [("grpc.max_receive_message_length", most), ("grpc.max_send_message_length", most)]
