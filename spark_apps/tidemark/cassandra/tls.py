"""TLS of the Python driver, with the same stores and host names as the connector.

Source of the rules for names: `DefaultSslEngineFactory` of the Java driver 4.18, which the
connector uses, verifies `InetSocketAddress.getHostName()`.
"""

from __future__ import annotations

import secrets
import socket
import ssl
from contextlib import suppress
from datetime import UTC
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from cassandra import UnresolvableContactPoints
from cassandra.connection import DefaultEndPoint, DefaultEndPointFactory
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12KeyAndCertificates,
    load_pkcs12,
)
from pydantic import SecretStr

from tidemark import clock
from tidemark.errors import InvalidInput
from tidemark.settings import Settings
from tidemark.window import iso

_TRUSTSTORE = "TIDEMARK_CASSANDRA_SSL_TRUSTSTORE"
_KEYSTORE = "TIDEMARK_CASSANDRA_SSL_KEYSTORE"
_JKS = b"\xfe\xed\xfe\xed"
_PROBE_S = 5.0


def context(settings: Settings) -> ssl.SSLContext:
    """Return a context that verifies certificate and host name, with the stores of the settings.

    Raises:
        InvalidInput: a store cannot be read or lacks what is needed, or the client certificate has
            expired.
    """
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.minimum_version = ssl.TLSVersion.TLSv1_2
    # As in the JVM, certificates in the store are trusted, whoever has signed them.
    tls.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if settings.cassandra_ssl_truststore is None:
        tls.load_default_certs()
    else:
        _load_authorities(
            tls, settings.cassandra_ssl_truststore, settings.cassandra_ssl_truststore_password
        )
    if settings.cassandra_ssl_keystore is not None:
        _load_own_certificate(
            tls, settings.cassandra_ssl_keystore, settings.cassandra_ssl_keystore_password
        )
    return tls


def _load_authorities(tls: ssl.SSLContext, file: Path, password: SecretStr) -> None:
    certificates = _read(file, password, _TRUSTSTORE).additional_certs
    if not certificates:
        raise InvalidInput(
            "the store holds no certificate of an authority",
            where=f"{_TRUSTSTORE}, {file}",
            do="import it with `keytool -importcert`",
        )
    tls.load_verify_locations(
        cadata=b"".join(entry.certificate.public_bytes(Encoding.DER) for entry in certificates)
    )


def _load_own_certificate(tls: ssl.SSLContext, file: Path, password: SecretStr) -> None:
    store = _read(file, password, _KEYSTORE)
    where = f"{_KEYSTORE}, {file}"
    if store.key is None or store.cert is None:
        raise InvalidInput(
            "the store holds no certificate with its key",
            where=where,
            do="make it of both, such as with `openssl pkcs12 -export`",
        )
    until = store.cert.certificate.not_valid_after_utc
    if until < clock.now():
        raise InvalidInput(
            f"the client certificate has expired at {iso(until.astimezone(UTC))}",
            where=where,
            do="renew it",
        )
    chain = [store.cert, *store.additional_certs]
    # Python's ssl reads keys only from files, so the key in the temporary file is encrypted.
    password_of_file = secrets.token_urlsafe(32)
    with NamedTemporaryFile(prefix="tidemark-") as pem:
        pem.write(
            store.key.private_bytes(
                Encoding.PEM,
                PrivateFormat.PKCS8,
                BestAvailableEncryption(password_of_file.encode()),
            )
        )
        pem.write(b"".join(entry.certificate.public_bytes(Encoding.PEM) for entry in chain))
        pem.flush()
        tls.load_cert_chain(pem.name, password=password_of_file)


def _read(file: Path, password: SecretStr, variable: str) -> PKCS12KeyAndCertificates:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise InvalidInput(
            f"the store cannot be read: {error.strerror}", where=f"{variable}, {file}"
        ) from None
    if content.startswith(_JKS):
        raise InvalidInput(
            "the store is of the type JKS",
            where=f"{variable}, {file}",
            do="convert it with `keytool -importkeystore -deststoretype PKCS12`",
        )
    try:
        return load_pkcs12(content, password.get_secret_value().encode() or None)
    except ValueError:
        raise InvalidInput(
            f"the store is no PKCS12, or {variable}_PASSWORD is not its password",
            where=f"{variable}, {file}",
        ) from None


class _NamedEndPoint(DefaultEndPoint):  # type: ignore[misc]
    """A node with the name that its certificate must have."""

    def __init__(self, address: str, port: int, name: str) -> None:
        super().__init__(address, port)
        self._name = name

    @property
    def ssl_options(self) -> dict[str, str]:
        return {"server_hostname": self._name}


class NamedEndPoints(DefaultEndPointFactory):  # type: ignore[misc]
    """The nodes, each with the name that its certificate must have.

    For a host name in the settings, that is this name. For an address in the settings and for a
    node that another node reports, it is the name in the name service, or else the address.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings.contact_points[0][1])
        self.contact_points = [
            _NamedEndPoint(address, port, host if address != host else _name_of(address))
            for host, port in settings.contact_points
            for address in _addresses(host)
        ]
        if not self.contact_points:
            raise UnresolvableContactPoints(settings.cassandra_hosts)

    def create(self, row: dict[str, Any]) -> _NamedEndPoint:
        """Return a node that another node reports."""
        node = super().create(row)
        return _NamedEndPoint(node.address, node.port, _name_of(node.address))


def _addresses(host: str) -> list[str]:
    try:
        infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return list(dict.fromkeys(str(address[0]) for *_, address in infos))


@cache
def _name_of(address: str) -> str:
    """Return the name of an address if it resolves to the address, as the JVM does."""
    try:
        name, _ = socket.getnameinfo((address, 0), socket.NI_NAMEREQD)
    except OSError:
        return address
    return name if address in _addresses(name) else address


def refusal(cause: str, where: str, settings: Settings) -> InvalidInput | None:
    """Return for users why a TLS connection failed; None if TLS is not the cause.

    `cause` is the text of the driver's error, with OpenSSL's name of it.
    """
    if "CERTIFICATE_VERIFY_FAILED" in cause:
        return _not_trusted(cause, where)
    if "ALERT" in cause:
        return _of_alert(cause, where, settings)
    if "WRONG_VERSION_NUMBER" in cause or "UNEXPECTED_MESSAGE" in cause:
        return InvalidInput(
            "Cassandra does not speak TLS there",
            where=where,
            do="check its client_encryption_options and its port, or set"
            " TIDEMARK_CASSANDRA_SECURITY_PROTOCOL=PLAINTEXT",
        )
    return None


def _not_trusted(cause: str, where: str) -> InvalidInput:
    _, _, detail = cause.partition("certificate verify failed: ")
    why = detail.partition(" (_ssl")[0].rstrip(".")
    if "mismatch" in why:
        do = (
            "give TIDEMARK_CASSANDRA_HOSTS the name that the certificate has, or the node a"
            " certificate for this one"
        )
    elif "expired" in why:
        do = "renew it"
    else:
        do = f"put the certificate of its authority into {_TRUSTSTORE}"
    return InvalidInput(f"the certificate of Cassandra is refused: {why}", where=where, do=do)


def _of_alert(cause: str, where: str, settings: Settings) -> InvalidInput:
    _, _, alert = cause.lower().partition("alert ")
    alert = alert.partition(" (_ssl")[0]
    is_of_certificate = "certificate" in alert or "unknown ca" in alert
    if is_of_certificate and settings.cassandra_ssl_keystore is None:
        return InvalidInput(
            "Cassandra demands a client certificate", where=where, do=f"set {_KEYSTORE}"
        )
    # A JVM whose trust manager rejects the client certificate may report only an internal error.
    if settings.cassandra_ssl_keystore is not None and (
        is_of_certificate or "internal error" in alert
    ):
        return InvalidInput(
            f"Cassandra refuses the client certificate: {alert}",
            where=where,
            do=f"check that its authority is in the node's truststore, and {_KEYSTORE}",
        )
    return InvalidInput(
        f"Cassandra refuses TLS: {alert}",
        where=where,
        do="check accepted_protocols and cipher_suites of its client_encryption_options: TLS 1.2 is"
        " the least",
    )


def probe(settings: Settings) -> InvalidInput | None:
    """Try a TLS handshake with each contact point; return why one fails, None if none does.

    The driver sends data at once, and then often meets a closed connection instead of the alert
    with the reason. Here only a greeting is sent.
    """
    for host, port in settings.contact_points:
        where = f"{host}:{port}"
        if settings.is_cassandra_encrypted:
            cause = _handshake((host, port), context(settings), listen=True)
            if error := refusal(cause, where, settings):
                return error
            continue
        cause = _handshake((host, port), _context_without_checks(), listen=False)
        if not cause or "ALERT" in cause:
            return InvalidInput(
                "Cassandra speaks only TLS there",
                where=where,
                do="set TIDEMARK_CASSANDRA_SECURITY_PROTOCOL=SSL, see docs/cluster.md",
            )
    return None


def _context_without_checks() -> ssl.SSLContext:
    """Return a context that verifies nothing, for a greeting after which nothing may be sent."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname = False
    tls.verify_mode = ssl.CERT_NONE
    return tls


def _handshake(point: tuple[str, int], greeting: ssl.SSLContext, *, listen: bool) -> str:
    """Return the error of a handshake, and with `listen` of the first read; empty for none."""
    host, _ = point
    name = _name_of(host) if _addresses(host) == [host] else host
    try:
        with (
            socket.create_connection(point, timeout=_PROBE_S) as plain,
            greeting.wrap_socket(plain, server_hostname=name) as encrypted,
        ):
            if listen:
                with suppress(TimeoutError):
                    encrypted.recv(1)
    except OSError as error:
        return str(error)
    return ""
