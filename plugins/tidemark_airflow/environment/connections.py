"""Connections of Airflow, as the environment of the applications."""

from __future__ import annotations

from collections.abc import Sequence

from airflow.sdk import Connection

_OF_CASSANDRA = (
    "security_protocol",
    "ssl_truststore",
    "ssl_truststore_password",
    "ssl_keystore",
    "ssl_keystore_password",
    "local_dc",
    "consistency",
    "serial_consistency",
)
_OF_KAFKA = ("security_protocol", "sasl_mechanism")
"""The extra fields of a connection; Airflow masks those whose names end with `password` in logs."""


def cassandra_environment(connection: Connection) -> dict[str, str]:
    """Return the applications' environment for a Cassandra connection (host may be `h1,h2`).

    Extra fields are settings of `TIDEMARK_CASSANDRA_`.
    """
    port = connection.port or 9042
    hosts = (connection.host or "").split(",")
    return {
        "TIDEMARK_CASSANDRA_HOSTS": ",".join(f"{host.strip()}:{port}" for host in hosts),
        "TIDEMARK_CASSANDRA_USERNAME": connection.login or "",
        **_password(connection, "CASSANDRA"),
        **_extras(connection, "CASSANDRA", _OF_CASSANDRA),
    }


def kafka_environment(connection: Connection) -> dict[str, str]:
    """Return the applications' environment for a connection of Kafka (host may be `h1,h2`).

    With a login it is one of SASL; the extra fields `security_protocol` and `sasl_mechanism` say
    which.
    """
    port = connection.port or 9092
    hosts = (connection.host or "").split(",")
    return {
        "TIDEMARK_KAFKA_BOOTSTRAP_SERVERS": ",".join(f"{host.strip()}:{port}" for host in hosts),
        "TIDEMARK_KAFKA_USERNAME": connection.login or "",
        **_password(connection, "KAFKA"),
        **_extras(connection, "KAFKA", _OF_KAFKA),
    }


def _password(connection: Connection, of: str) -> dict[str, str]:
    """Return the password; without one it may be in the environment or in TIDEMARK_SECRETS_DIR."""
    return {f"TIDEMARK_{of}_PASSWORD": connection.password} if connection.password else {}


def _extras(connection: Connection, of: str, names: Sequence[str]) -> dict[str, str]:
    extra = connection.extra_dejson
    return {f"TIDEMARK_{of}_{name.upper()}": str(extra[name]) for name in names if name in extra}


def airflow_environment(connection: Connection) -> dict[str, str]:
    """Return the applications' environment for a connection to Airflow's own REST API."""
    scheme = connection.schema or "https"
    port = f":{connection.port}" if connection.port else ""
    return {
        "TIDEMARK_AIRFLOW_URL": f"{scheme}://{connection.host}{port}",
        "TIDEMARK_AIRFLOW_USERNAME": connection.login or "",
        **_password(connection, "AIRFLOW"),
    }
