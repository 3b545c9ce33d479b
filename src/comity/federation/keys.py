"""Keys and certificates of the parties of a deployed federation: make, read, sign, verify.

Each party makes its own key (EC, curve P-256) and a certificate that it signs itself. Nobody runs a
certificate authority: a party trusts exactly the certificates that it was given.
"""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import os
import re
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from comity.errors import UserError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

COMMON_NAME = "comity"
"""Second name in every certificate: what a site checks beside the certificate itself, so that the
server's address may change."""
LOCAL = ("localhost", "127.0.0.1")
"""Hosts that every certificate is for: programs of one machine check each other by them."""
SIGNATURE_BYTES = 64
YEARS = 10
_HALF = SIGNATURE_BYTES // 2
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?")
_HOST = re.compile(rf"{_NAME.pattern}(\.{_NAME.pattern})*")


@dataclass(frozen=True)
class Certificate:
    """A party's certificate, as `read_certificate` returns it."""

    name: str
    """The party's name."""
    pem: bytes
    expires: datetime.datetime
    fingerprint: str
    """``sha256:`` and the SHA-256 of the certificate in hexadecimal digits."""
    hosts: tuple[str, ...]
    """Names and addresses of the hosts that the certificate is for."""
    _public: ec.EllipticCurvePublicKey = field(repr=False, compare=False)

    def openssh(self) -> bytes:
        """Return the public key in OpenSSH's format, one line."""
        from cryptography.hazmat.primitives import serialization

        return self._public.public_bytes(
            serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        )


@dataclass(frozen=True)
class Keys:
    """A party's private key and its certificate, as `make_keys` and `read_keys` return them."""

    certificate: Certificate
    key_file: Path
    certificate_file: Path
    pem: bytes = field(repr=False)
    """The private key."""
    _private: ec.EllipticCurvePrivateKey = field(repr=False, compare=False)

    def sign(self, data: bytes) -> bytes:
        """Return the signature of the data, 64 bytes: r and s of ECDSA with SHA-256.

        The same data gives the same signature (RFC 6979), where the library's OpenSSL can do that
        (3.2 and later, as in its wheels).
        """
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, utils

        try:
            scheme = ec.ECDSA(hashes.SHA256(), deterministic_signing=True)
        except UnsupportedAlgorithm:
            scheme = ec.ECDSA(hashes.SHA256())
        r, s = utils.decode_dss_signature(self._private.sign(data, scheme))
        return r.to_bytes(_HALF, "big") + s.to_bytes(_HALF, "big")

    def openssh(self) -> bytes:
        """Return the private key in OpenSSH's format, without a passphrase."""
        from cryptography.hazmat.primitives import serialization

        return self._private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        )


def verify(certificate: Certificate, data: bytes, signature: bytes) -> bool:
    """Return whether the signature of the data was made with the certificate's key.

    Args:
        certificate: Certificate of the party that is said to have signed.
        data: What was signed.
        signature: What `Keys.sign` returned.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, utils

    if len(signature) != SIGNATURE_BYTES:
        return False
    r, s = (int.from_bytes(half, "big") for half in (signature[:_HALF], signature[_HALF:]))
    try:
        certificate._public.verify(
            utils.encode_dss_signature(r, s), data, ec.ECDSA(hashes.SHA256())
        )
    except InvalidSignature:
        return False
    return True


def fingerprint(pem: str) -> str:
    """Return ``sha256:`` and the SHA-256 of a certificate in hexadecimal digits."""
    return f"sha256:{hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()}"


def make_keys(
    name: str, directory: str | Path, years: float = YEARS, hosts: Sequence[str] = ()
) -> Keys:
    """Write a new key, NAME.key, and its certificate, NAME.crt, and return them.

    Files that exist are never overwritten. Only the owner may read the key.

    Args:
        name: The party's name: letters, digits, "-" and "_".
        directory: Where the files go; made if it is missing.
        years: How long the certificate holds.
        hosts: Names or addresses of the party's machine, beside this machine's own.
    """
    _need_cryptography()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    if not _NAME.fullmatch(name):
        raise UserError(
            f"name '{name}': a party's name has 1 to 63 letters, digits, '-' or '_', and begins "
            "and ends with a letter or digit."
        )
    for host in hosts:
        if not _HOST.fullmatch(host) and not _is_address(host):
            raise UserError(f"host '{host}': give a name or an address, without a port.")
    key_file, certificate_file = (Path(directory) / f"{name}.{kind}" for kind in ("key", "crt"))
    for path in (key_file, certificate_file):
        if path.exists():
            raise UserError(f"{path} exists already and is not overwritten; move it away first.")
    private = ec.generate_private_key(ec.SECP256R1())
    key = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    certificate = _certify(name, hosts, private, datetime.timedelta(days=365.25 * years))
    with _files(key_file):
        key_file.parent.mkdir(parents=True, exist_ok=True)
        _write_new(key_file, key, 0o600)
        _write_new(certificate_file, certificate, 0o644)
    return read_keys(key_file, certificate_file)


def _write_new(path: Path, content: bytes, mode: int) -> None:
    """Write a file that must not exist; `comity.core.storage` replaces files, and needs torch."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _certify(
    name: str,
    hosts: Sequence[str],
    private: ec.EllipticCurvePrivateKey,
    validity: datetime.timedelta,
) -> bytes:
    """Return a self-signed certificate, valid from yesterday on: clocks may differ."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization

    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    names = [
        x509.IPAddress(ipaddress.ip_address(value)) if _is_address(value) else x509.DNSName(value)
        for value in dict.fromkeys((name, COMMON_NAME, *LOCAL, *hosts))
    ]
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + validity)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    )
    return builder.sign(private, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def read_certificate(path: str | Path) -> Certificate:
    """Return the certificate in a file.

    Args:
        path: A file with one certificate of a key on curve P-256, as `make_keys` writes it.
    """
    with _files(Path(path)):
        content = Path(path).read_bytes()
    return parse_certificate(content, str(path))


def parse_certificate(content: bytes, where: str) -> Certificate:
    """Return the certificate in some text.

    Args:
        content: One certificate (PEM) of a key on curve P-256.
        where: Name of its place, for messages.
    """
    _need_cryptography()
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        (certificate,) = x509.load_pem_x509_certificates(content)
        (name,) = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        public = certificate.public_key()
        expires, hosts = certificate.not_valid_after_utc, _hosts(certificate)
    except Exception:  # the library has an error of its own for each kind of damage
        raise UserError(
            f"{where} is not one certificate with one name; `comity keys NAME` makes it."
        ) from None
    if not isinstance(public, ec.EllipticCurvePublicKey) or not _on_the_curve(public):
        raise UserError(
            f"{where}: the certificate's key is not on curve P-256; `comity keys NAME` makes one."
        )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    return Certificate(
        str(name.value),
        pem,
        expires,
        fingerprint(pem.decode()),
        hosts,
        public,
    )


def _hosts(certificate: x509.Certificate) -> tuple[str, ...]:
    """Return the names and addresses that a certificate is for."""
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    addresses = map(str, names.get_values_for_type(x509.IPAddress))
    return (*names.get_values_for_type(x509.DNSName), *addresses)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def read_keys(key_file: str | Path, certificate_file: str | Path) -> Keys:
    """Return a party's key and certificate from their files.

    Args:
        key_file: The private key, as `make_keys` writes it.
        certificate_file: The certificate of that key.
    """
    certificate = read_certificate(certificate_file)
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    with _files(Path(key_file)):
        content = Path(key_file).read_bytes()
    try:
        private = serialization.load_pem_private_key(content, password=None)
    except (ValueError, TypeError):  # TypeError: the key has a password
        raise UserError(
            f"{key_file} is not a private key without a password; `comity keys NAME` makes one."
        ) from None
    if not isinstance(private, ec.EllipticCurvePrivateKey) or (
        private.public_key() != certificate._public
    ):
        raise UserError(
            f"{key_file} is not the key of the certificate {certificate_file} "
            f"('{certificate.name}', {certificate.fingerprint})."
        )
    return Keys(certificate, Path(key_file), Path(certificate_file), content, private)


def _on_the_curve(public: ec.EllipticCurvePublicKey) -> bool:
    return public.curve.name == "secp256r1"


@contextmanager
def _files(path: Path) -> Iterator[None]:
    """Turn errors of the file system into an error that names the file."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{error.filename or path}: {error.strerror}.") from None


def _need_cryptography() -> None:
    if find_spec("cryptography") is None:
        raise UserError('keys and certificates need one package more: pip install "comity[grpc]".')
