"""Connections of Airflow, as the environment of the applications."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowFailException

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
_OF_JOURNAL = ("journal_keyspace", "topic_prefix")
"""The extra fields of further connections; settings have these values for kafka_default."""
KAFKA = "kafka_default"
MORE_KAFKA = "TIDEMARK_KAFKA_CONNECTIONS"
_ID = re.compile(r"[A-Za-z0-9_.-]+")


def kafka_connections() -> dict[str, str]:
    """Return the ids of Kafka's connections, each by the end of its DAGs' names.

    Raises:
        ValueError: TIDEMARK_KAFKA_CONNECTIONS has what is no id; Airflow shows it as an import
            error.
    """
    more = [name.strip() for name in os.environ.get(MORE_KAFKA, "").split(",") if name.strip()]
    if wrong := [name for name in more if not _ID.fullmatch(name) or name == KAFKA]:
        raise ValueError(
            f"{MORE_KAFKA} names {wrong[0]!r}; write ids of connections, not {KAFKA}, of letters,"
            " digits, '_', '.' and '-', separated by commas"
        )
    return {"": KAFKA, **{f"_{name}": name for name in more}}


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
    which. Of those in TIDEMARK_KAFKA_CONNECTIONS `topic_prefix` and `journal_keyspace` say which
    topics are replicated, and into what.

    Raises:
        AirflowFailException: the connection must say it and does not.
    """
    is_further = connection.conn_id in [*kafka_connections().values()][1:]
    if is_further and (missing := set(_OF_JOURNAL) - connection.extra_dejson.keys()):
        raise AirflowFailException(
            f"the connection {connection.conn_id} lacks the extra field {min(missing)}; add it, or"
            " its topics would go into the keyspace of the settings"
        )
    port = connection.port or 9092
    hosts = (connection.host or "").split(",")
    return {
        "TIDEMARK_KAFKA_BOOTSTRAP_SERVERS": ",".join(f"{host.strip()}:{port}" for host in hosts),
        "TIDEMARK_KAFKA_USERNAME": connection.login or "",
        **_password(connection, "KAFKA"),
        **_extras(connection, "KAFKA", (*_OF_KAFKA, *(_OF_JOURNAL if is_further else ()))),
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
