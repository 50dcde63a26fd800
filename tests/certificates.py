"""Certificates of the tests, as PKCS12 stores that the JVM and Python both read."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

PASSWORD = "of the stores"
VALID = timedelta(days=2)


@dataclass(frozen=True)
class Certificate:
    """A certificate with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def keystore(self, file: Path, password: str = PASSWORD) -> Path:
        """Write the store of who shows this certificate."""
        encryption = serialization.BestAvailableEncryption(password.encode())
        file.write_bytes(
            pkcs12.serialize_key_and_certificates(
                b"own", self.key, self.certificate, None, encryption
            )
        )
        return file

    def truststore(self, file: Path, password: str = PASSWORD) -> Path:
        """Write the store of who trusts this authority."""
        encryption = serialization.BestAvailableEncryption(password.encode())
        entry = pkcs12.PKCS12Certificate(self.certificate, b"authority")
        file.write_bytes(pkcs12.serialize_java_truststore([entry], encryption))
        return file

    def pem(self, file: Path) -> Path:
        """Write certificate and key for a server in Python."""
        file.write_bytes(
            self.key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + self.certificate.public_bytes(serialization.Encoding.PEM)
        )
        return file


def authority(name: str) -> Certificate:
    """Make an authority that certifies itself."""
    return _make(name, (), None, VALID, is_authority=True)


def certificate(
    name: str, issuer: Certificate, names: Sequence[str] = (), *, valid: timedelta = VALID
) -> Certificate:
    """Make a certificate for host names and addresses; a negative validity has ended."""
    return _make(name, names, issuer, valid, is_authority=False)


def _make(
    name: str,
    names: Sequence[str],
    issuer: Certificate | None,
    valid: timedelta,
    *,
    is_authority: bool,
) -> Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 2 * VALID)
        .not_valid_after(now + valid)
        .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
    )
    if names:
        alternatives = x509.SubjectAlternativeName([_alternative(one) for one in names])
        built = built.add_extension(alternatives, critical=False)
    return Certificate(built.sign(issuer.key if issuer else key, hashes.SHA256()), key)


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
