"""What is told of a connection that has no TLS."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tidemark.cassandra import tls
from tidemark.settings import Settings

ANONYMOUS = Settings(cassandra_security_protocol="SSL")
CLIENT = Settings(cassandra_security_protocol="SSL", cassandra_ssl_keystore=Path("/client.p12"))
_VERIFY = (
    "Tried connecting to [('127.0.0.1', 9042)]. Last error: [SSL: CERTIFICATE_VERIFY_FAILED]"
    " certificate verify failed: {} (_ssl.c:1006)"
)


@pytest.mark.parametrize(
    ("cause", "settings", "expected"),
    [
        (
            _VERIFY.format("Hostname mismatch, certificate is not valid for 'cassandra-1'."),
            ANONYMOUS,
            "the certificate of Cassandra is refused: Hostname mismatch, certificate is not valid"
            " for 'cassandra-1' (node); give TIDEMARK_CASSANDRA_HOSTS the name",
        ),
        (
            _VERIFY.format("self-signed certificate in certificate chain"),
            ANONYMOUS,
            "refused: self-signed certificate in certificate chain (node); put the certificate of"
            " its authority into TIDEMARK_CASSANDRA_SSL_TRUSTSTORE",
        ),
        # TLS 1.3, and what Java says in TLS 1.2.
        (
            "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required (_ssl.c:1)",
            ANONYMOUS,
            "Cassandra demands a client certificate (node); set TIDEMARK_CASSANDRA_SSL_KEYSTORE",
        ),
        (
            "[SSL: SSLV3_ALERT_BAD_CERTIFICATE] sslv3 alert bad certificate (_ssl.c:1006)",
            ANONYMOUS,
            "Cassandra demands a client certificate (node)",
        ),
        (
            "[SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca (_ssl.c:2580)",
            CLIENT,
            "Cassandra refuses the client certificate: unknown ca (node)",
        ),
        (
            "[SSL: TLSV1_ALERT_PROTOCOL_VERSION] tlsv1 alert protocol version (_ssl.c:1006)",
            CLIENT,
            "Cassandra refuses TLS: protocol version (node); check accepted_protocols",
        ),
        (
            "[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)",
            ANONYMOUS,
            "Cassandra does not speak TLS there (node)",
        ),
    ],
)
def test_refusals(cause: str, settings: Settings, expected: str) -> None:
    assert expected in str(tls.refusal(cause, "node", settings))


def test_other_causes_are_not_of_tls() -> None:
    assert tls.refusal("[Errno 111] Connection refused", "node", CLIENT) is None


def test_names_that_certificates_must_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name is taken from an address only if it leads back to it, as in the JVM."""
    addresses = {"cassandra-1": ["10.0.0.1"], "cassandra-2": ["10.0.0.2"], "10.0.0.4": ["10.0.0.4"]}
    names = {"10.0.0.2": "cassandra-2", "10.0.0.3": "cassandra-2", "10.0.0.4": "other"}
    monkeypatch.setattr(tls, "_addresses", lambda host: addresses.get(host, []))

    def reverse(place: tuple[str, int], flags: int) -> tuple[str, str]:
        if place[0] not in names:
            raise OSError
        return names[place[0]], "0"

    monkeypatch.setattr(socket, "getnameinfo", reverse)
    nodes = tls.NamedEndPoints(Settings(cassandra_hosts="cassandra-1,10.0.0.4:9043"))
    nodes.cluster = type("Cluster", (), {"address_translator": type("", (), {"translate": str})})
    told_of = [
        nodes.create({"native_address": address, "native_port": 9042})
        for address in ("10.0.0.2", "10.0.0.3", "10.0.0.5")
    ]
    assert [
        (node.address, node.port, node.ssl_options["server_hostname"])
        for node in (*nodes.contact_points, *told_of)
    ] == [
        ("10.0.0.1", 9042, "cassandra-1"),
        ("10.0.0.4", 9043, "10.0.0.4"),
        ("10.0.0.2", 9042, "cassandra-2"),
        ("10.0.0.3", 9042, "10.0.0.3"),
        ("10.0.0.5", 9042, "10.0.0.5"),
    ]
