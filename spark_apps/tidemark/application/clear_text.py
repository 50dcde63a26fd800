"""Warnings about passwords that are sent to other machines without encryption."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import ip_address
from urllib.parse import urlsplit

from pydantic import SecretStr

from tidemark.settings import Settings


def unencrypted_passwords(settings: Settings) -> list[str]:
    """Return a line for each connection to another machine with a password and without TLS."""
    return [
        f"the connection to {server} has a password and is not encrypted ({', '.join(hosts)});"
        f" set {remedy}, see docs/cluster.md"
        for server, is_encrypted, password, all_hosts, remedy in _connections(settings)
        if not is_encrypted and password.get_secret_value() and (hosts := _remote(all_hosts))
    ]


def _connections(
    settings: Settings,
) -> Iterator[tuple[str, bool, SecretStr, Iterable[str], str]]:
    yield (
        "Cassandra",
        settings.is_cassandra_encrypted or not settings.cassandra_username,
        settings.cassandra_password,
        (host for host, _ in settings.contact_points),
        "TIDEMARK_CASSANDRA_SECURITY_PROTOCOL=SSL",
    )
    yield (
        "Kafka",
        settings.kafka_security_protocol.endswith("SSL"),
        settings.kafka_password,
        (
            server.strip().rpartition("//")[2].rpartition(":")[0]
            for server in settings.kafka_bootstrap_servers.split(",")
        ),
        "TIDEMARK_KAFKA_SECURITY_PROTOCOL=SASL_SSL",
    )
    address = urlsplit(settings.airflow_url)
    yield (
        "Airflow",
        address.scheme != "http",
        settings.airflow_password,
        (address.hostname or "",),
        "TIDEMARK_AIRFLOW_URL to an address with https",
    )


def _remote(hosts: Iterable[str]) -> list[str]:
    return [host for host in hosts if not _is_loopback(host.strip("[]").lower())]


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
