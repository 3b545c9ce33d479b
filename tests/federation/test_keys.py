"""Keys, certificates and signatures of the parties of a deployed federation."""

from __future__ import annotations

import datetime
import hashlib
import os
import re
import ssl
import stat
import subprocess
import sys

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

from comity.errors import UserError
from comity.federation.keys import make_keys, read_certificate, read_keys, verify


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return make_keys("bank-a", tmp_path_factory.mktemp("keys") / "new")


def test_written_keys_are_read_again(keys):
    again = read_keys(keys.key_file, keys.certificate_file)
    assert again == keys
    assert again.certificate.name == "bank-a"
    assert (keys.key_file.name, keys.certificate_file.name) == ("bank-a.key", "bank-a.crt")


def test_the_certificate_says_what_the_other_side_checks(keys):
    certificate = x509.load_pem_x509_certificate(keys.certificate_file.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["bank-a", "comity", "localhost"]
    assert list(map(str, names.get_values_for_type(x509.IPAddress))) == ["127.0.0.1"]
    assert keys.certificate.hosts == ("bank-a", "comity", "localhost", "127.0.0.1")
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert certificate.public_key().curve.name == "secp256r1"
    certificate.verify_directly_issued_by(certificate)
    years = (keys.certificate.expires - datetime.datetime.now(datetime.UTC)).days / 365.25
    assert 9.9 < years < 10.1


def test_a_certificate_is_for_the_hosts_that_it_is_told(tmp_path):
    made = make_keys("server", tmp_path, hosts=["federation.example.org", "10.0.0.7", "fd00::7"])
    names = ("server", "comity", "localhost", "federation.example.org")
    assert made.certificate.hosts == (*names, "127.0.0.1", "10.0.0.7", "fd00::7")
    for host in ("federation.example.org:8443", "https://example.org", "", "a..b", "*"):
        with pytest.raises(UserError, match=re.escape(f"host '{host}': give a name")):
            make_keys("other", tmp_path, hosts=[host])
    assert not (tmp_path / "other.key").exists()


def test_keys_have_openssh_forms(keys):
    private = serialization.load_ssh_private_key(keys.openssh(), password=None)
    public = serialization.load_ssh_public_key(keys.certificate.openssh())
    certified = x509.load_pem_x509_certificate(keys.certificate.pem).public_key()
    assert private.public_key() == public == certified


def test_the_fingerprint_is_the_hash_of_the_certificate(keys):
    der = ssl.PEM_cert_to_DER_cert(keys.certificate_file.read_text())
    assert keys.certificate.fingerprint == f"sha256:{hashlib.sha256(der).hexdigest()}"


def test_only_the_owner_reads_the_key_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        keys = make_keys("bank-b", tmp_path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(keys.key_file.stat().st_mode) == 0o600


@pytest.mark.parametrize("kept", ["key", "crt"])
def test_nothing_is_overwritten(tmp_path, kept):
    path = tmp_path / f"bank-a.{kept}"
    path.write_bytes(b"precious")
    with pytest.raises(UserError, match=f"{re.escape(str(path))} exists already"):
        make_keys("bank-a", tmp_path)
    assert path.read_bytes() == b"precious"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["", "../bank", "bank a", "-bank", "bänk", "a" * 64, "a.b"])
def test_names_that_are_no_names_are_refused(tmp_path, name):
    with pytest.raises(UserError, match="a party's name has"):
        make_keys(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_signature_fits_its_data_and_its_key_only(keys, tmp_path):
    signature = keys.sign(b"update")
    assert len(signature) == 64
    assert verify(keys.certificate, b"update", signature)
    assert keys.sign(b"update") == signature, "answers made again have the same bytes"
    assert not verify(keys.certificate, b"updatf", signature)
    assert not verify(keys.certificate, b"", signature)
    assert not verify(make_keys("bank-b", tmp_path).certificate, b"update", signature)


def test_no_changed_signature_fits(keys):
    signature = keys.sign(b"update")
    for place in range(64):
        changed = bytearray(signature)
        changed[place] ^= 1
        assert not verify(keys.certificate, b"update", bytes(changed))
    for bad in (b"", signature[:-1], signature + b"\0", bytes(64), b"\xff" * 64):
        assert not verify(keys.certificate, b"update", bad)


def test_the_signature_is_plain_ecdsa(keys):
    signature = keys.sign(b"update")
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    public = x509.load_pem_x509_certificate(keys.certificate.pem).public_key()
    public.verify(utils.encode_dss_signature(r, s), b"update", ec.ECDSA(hashes.SHA256()))


def test_what_cannot_be_read_is_named(keys, tmp_path):
    missing, garbage = tmp_path / "no.crt", tmp_path / "garbage.crt"
    garbage.write_bytes(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    with pytest.raises(UserError, match=r"no\.crt: No such file"):
        read_certificate(missing)
    with pytest.raises(UserError, match=r"garbage\.crt is not one certificate"):
        read_certificate(garbage)
    with pytest.raises(UserError, match=r"bank-a\.crt is not a private key"):
        read_keys(keys.certificate_file, keys.certificate_file)
    other = make_keys("bank-b", tmp_path)
    with pytest.raises(UserError, match=r"bank-b\.key is not the key of the certificate .*bank-a"):
        read_keys(other.key_file, keys.certificate_file)
    both = tmp_path / "both.crt"
    both.write_bytes(keys.certificate.pem + other.certificate.pem)
    with pytest.raises(UserError, match="not one certificate"):
        read_certificate(both)


def test_keys_on_other_curves_and_keys_with_passwords_are_refused(keys, tmp_path):
    private = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "bank-a")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(private, hashes.SHA256())
    )
    path = tmp_path / "other.crt"
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    with pytest.raises(UserError, match="not on curve P-256"):
        read_certificate(path)
    locked = tmp_path / "locked.key"
    locked.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(UserError, match="without a password"):
        read_keys(locked, keys.certificate_file)


@pytest.mark.parametrize(
    ("hidden", "statement"),
    [
        ("cryptography", "from comity.federation.keys import make_keys; make_keys('a', '.')"),
        ("grpc", "import comity.federation.transports.grpc"),
    ],
)
def test_a_missing_package_is_named(tmp_path, hidden, statement):
    code = (
        "import importlib.util, sys\n"
        f"class Hide:\n"
        f"    def find_spec(self, name, *rest):\n"
        f"        if name == {hidden!r}: raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Hide())\n"
        "find = importlib.util.find_spec\n"
        f"importlib.util.find_spec = lambda name: None if name == {hidden!r} else find(name)\n"
        "from comity.errors import UserError\n"
        f"try:\n    {statement}\nexcept UserError as error:\n    print(error)\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path
    )
    assert done.stdout.strip().endswith('pip install "comity[grpc]".')
