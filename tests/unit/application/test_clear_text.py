"""The warnings about passwords that somebody on the network could read."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from tidemark.application.clear_text import unencrypted_passwords
from tidemark.settings import Settings

CASSANDRA = Settings(cassandra_username="tidemark", cassandra_password=SecretStr("hunter2"))
KAFKA = Settings(
    kafka_username="tidemark",
    kafka_password=SecretStr("hunter2"),
    kafka_security_protocol="SASL_PLAINTEXT",
)
ELSEWHERE = [
    ("cassandra-1:9042", "cassandra-1"),
    ("cassandra-1:9042,cassandra-2:9042", "cassandra-1, cassandra-2"),
    ("127.0.0.1:9042, cassandra-2:9042", "cassandra-2"),
    ("192.0.2.1:9042", "192.0.2.1"),
    ("[2001:db8::1]:9042", "[2001:db8::1]"),
    ("localhost.example.com:9042", "localhost.example.com"),
    ("0.0.0.0:9042", "0.0.0.0"),
]
HERE = ["127.0.0.1:9042", "127.8.8.8:9042", "localhost:9042", "LocalHost:1", "[::1]:9042"]


def changed(settings: Settings, **values: object) -> list[str]:
    return unencrypted_passwords(settings.model_copy(update=values))


@pytest.mark.parametrize(("hosts", "named"), ELSEWHERE)
def test_password_to_another_machine_without_tls_is_warned_of(hosts: str, named: str) -> None:
    assert changed(CASSANDRA, cassandra_hosts=hosts) == [
        f"the connection to Cassandra has a password and is not encrypted ({named}); set"
        " TIDEMARK_CASSANDRA_SECURITY_PROTOCOL=SSL, see docs/cluster.md"
    ]
    [line] = changed(KAFKA, kafka_bootstrap_servers=hosts)
    assert line == (
        f"the connection to Kafka has a password and is not encrypted ({named}); set"
        " TIDEMARK_KAFKA_SECURITY_PROTOCOL=SASL_SSL, see docs/cluster.md"
    )
    assert changed(KAFKA, kafka_bootstrap_servers=hosts, kafka_security_protocol="PLAINTEXT") == [
        line
    ]


@pytest.mark.parametrize("hosts", [*HERE, ",".join(HERE)])
def test_password_that_stays_on_this_machine_is_not(hosts: str) -> None:
    assert changed(CASSANDRA, cassandra_hosts=hosts) == []
    assert changed(KAFKA, kafka_bootstrap_servers=hosts) == []


def test_neither_is_a_connection_with_tls_nor_one_without_a_password() -> None:
    here = {"cassandra_hosts": "cassandra-1:9042", "kafka_bootstrap_servers": "kafka-1:9092"}
    assert changed(CASSANDRA, **here, cassandra_security_protocol="SSL") == []
    assert changed(CASSANDRA, **here, cassandra_username="") == []
    assert changed(KAFKA, **here, kafka_security_protocol="SASL_SSL") == []
    assert changed(KAFKA, **here, kafka_password=SecretStr("")) == []
    assert changed(Settings(), **here) == []


@pytest.mark.parametrize(
    ("url", "is_warned_of"),
    [
        ("http://airflow.example.com:8080", True),
        ("https://airflow.example.com", False),
        ("http://localhost:8080", False),
        ("http://[::1]:8080", False),
        ("", False),
    ],
)
def test_password_of_airflow_is_warned_of(url: str, is_warned_of: bool) -> None:
    lines = unencrypted_passwords(Settings(airflow_url=url, airflow_password=SecretStr("hunter2")))
    assert bool(lines) is is_warned_of
    assert "hunter2" not in "".join(lines)
