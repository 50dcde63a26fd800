"""Connections of Airflow as environment variables of the applications."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from urllib.parse import quote, urlencode

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowFailException

from tidemark_airflow.journals.journal import DEFAULT, KAFKA, OF_ENVIRONMENT, AirflowJournal

_CASSANDRA_FIELDS = (
    "security_protocol",
    "ssl_truststore",
    "ssl_truststore_password",
    "ssl_keystore",
    "ssl_keystore_password",
    "local_dc",
    "consistency",
    "serial_consistency",
)
_KAFKA_FIELDS = ("security_protocol", "sasl_mechanism")
"""The extra fields of a connection; Airflow masks those whose names end with `password` in logs."""
_JOURNAL_FIELDS = ("journal_keyspace", "topic_prefix")
"""The extra fields of further connections; for kafka_default the settings have these values."""
MORE_KAFKA = "TIDEMARK_KAFKA_CONNECTIONS"
POSTGRES_CONNECTIONS = "TIDEMARK_POSTGRES_CONNECTIONS"
_POSTGRES_ID = re.compile(r"[a-z][a-z0-9_]{0,47}")
_POSTGRES_OPTIONS = ("sslmode", "sslrootcert", "sslcert", "sslkey", "target_session_attrs")
_ID = re.compile(r"[A-Za-z0-9_.-]+")


def kafka_connections(journal: AirflowJournal = OF_ENVIRONMENT) -> dict[str, str]:
    """Return the ids of Kafka's connections by the suffix of their DAGs' names.

    A journal of the file has one if it has a keyspace for kafka-journal, else none.

    Raises:
        ValueError: TIDEMARK_KAFKA_CONNECTIONS has an invalid id; Airflow shows it as an import
            error.
    """
    if journal.name != DEFAULT:
        return {"": journal.kafka_connection} if journal.replicates else {}
    ids = [name.strip() for name in os.environ.get(MORE_KAFKA, "").split(",") if name.strip()]
    if invalid := [name for name in ids if not _ID.fullmatch(name) or name == KAFKA]:
        raise ValueError(
            f"{MORE_KAFKA} names {invalid[0]!r}; write ids of connections, not {KAFKA}, of letters,"
            " digits, '_', '.' and '-', separated by commas"
        )
    return {"": KAFKA, **{f"_{name}": name for name in ids}}


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
        **_extras(connection, "CASSANDRA", _CASSANDRA_FIELDS),
    }


def kafka_environment(connection: Connection) -> dict[str, str]:
    """Return the applications' environment for a connection of Kafka (host may be `h1,h2`).

    The extra fields `security_protocol` and `sasl_mechanism` determine how to connect; with a login
    that is SASL. In connections of TIDEMARK_KAFKA_CONNECTIONS, `topic_prefix` chooses the topics to
    replicate and `journal_keyspace` the target.

    Raises:
        AirflowFailException: such a connection lacks one of these fields.
    """
    is_further = connection.conn_id in [*kafka_connections().values()][1:]
    if is_further and (missing := set(_JOURNAL_FIELDS) - connection.extra_dejson.keys()):
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
        **_extras(connection, "KAFKA", (*_KAFKA_FIELDS, *(_JOURNAL_FIELDS if is_further else ()))),
    }


def postgres_connections() -> list[str]:
    """Return the ids of the connections to PostgreSQL, by which definitions and journals name them.

    Raises:
        ValueError: TIDEMARK_POSTGRES_CONNECTIONS has an invalid id.
    """
    named = os.environ.get(POSTGRES_CONNECTIONS, "").split(",")
    ids = [name.strip() for name in named if name.strip()]
    if invalid := [name for name in ids if not _POSTGRES_ID.fullmatch(name)]:
        raise ValueError(
            f"{POSTGRES_CONNECTIONS} names {invalid[0]!r}; write ids of connections of lower-case"
            " letters, digits and '_', separated by commas"
        )
    return ids


def postgres_environment(connection: Connection) -> dict[str, str]:
    """Return the applications' environment for a connection to PostgreSQL.

    Raises:
        ValueError: the connection is of another type, or lacks a host, a login or a database.
    """
    if connection.conn_type != "postgres":
        raise ValueError(f"{connection.conn_id} is of type {connection.conn_type}, not postgres")
    parts = {"host": connection.host, "login": connection.login, "database": connection.schema}
    if missing := [part for part, text in parts.items() if not text]:
        raise ValueError(f"{connection.conn_id} has no {missing[0]}")
    name = f"TIDEMARK_POSTGRES_{(connection.conn_id or '').upper()}"
    extra = connection.extra_dejson
    options = {option: str(extra[option]) for option in _POSTGRES_OPTIONS if option in extra}
    query = f"?{urlencode(options)}" if options else ""
    user, database = (quote(text or "", safe="") for text in (connection.login, connection.schema))
    host = f"[{connection.host}]" if ":" in str(connection.host) else connection.host
    url = f"postgresql://{user}@{host}:{connection.port or 5432}/{database}{query}"
    password = {f"{name}_PASSWORD": connection.password} if connection.password else {}
    return {f"{name}_URL": url, **password}


def _password(connection: Connection, server: str) -> dict[str, str]:
    """Return the password, if it is not in the environment or TIDEMARK_SECRETS_DIR instead."""
    return {f"TIDEMARK_{server}_PASSWORD": connection.password} if connection.password else {}


def _extras(connection: Connection, server: str, names: Sequence[str]) -> dict[str, str]:
    extra = connection.extra_dejson
    return {
        f"TIDEMARK_{server}_{name.upper()}": str(extra[name]) for name in names if name in extra
    }


def airflow_environment(connection: Connection) -> dict[str, str]:
    """Return the applications' environment for a connection to Airflow's own REST API."""
    scheme = connection.schema or "https"
    port = f":{connection.port}" if connection.port else ""
    return {
        "TIDEMARK_AIRFLOW_URL": f"{scheme}://{connection.host}{port}",
        "TIDEMARK_AIRFLOW_USERNAME": connection.login or "",
        **_password(connection, "AIRFLOW"),
    }
