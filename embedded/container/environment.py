"""The variables that need a secret, each written in its reader's own way.

A container has those whose secrets it has been given: Spark's have none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from embedded.container.secrets import Secrets
from embedded.errors import EmbeddedError

ADMIN = "admin"
_OF_STORE = "certificates"
"""The password of a store that holds no secret: Java reads none without one."""
_AIRFLOW_READS = {
    "airflow_fernet_key": "AIRFLOW__CORE__FERNET_KEY_CMD",
    "airflow_jwt_secret": "AIRFLOW__API_AUTH__JWT_SECRET_CMD",
    "airflow_secret_key": "AIRFLOW__API__SECRET_KEY_CMD",
}
"""Secrets that Airflow reads itself. It replaces `$NAME` and `~` in values of variables, but not
in what a command prints."""


def build(secrets: Secrets, given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that this container's secrets make.

    Args:
        secrets: those of the container; with `tls_ca` among them Redis is spoken to by TLS, and its
            certificate is checked against it, and so is Cassandra's. Postgres' clients have
            variables of their own for it.
        given: the container's environment: where Cassandra is, and Airflow's home.

    Raises:
        EmbeddedError: a secret cannot be used.
    """
    return {
        **_airflow(secrets),
        **_logins(secrets, given),
        **_cassandra(secrets, given),
        **_authority(secrets, given),
    }


def _airflow(secrets: Secrets) -> dict[str, str]:
    certificates = secrets.path("tls_ca")
    variables = {}
    password = secrets.text("postgres_password")
    if password is not None:
        url = f"postgresql+psycopg2://airflow:{_quoted(password)}@postgres:5432/airflow"
        variables["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = url
    password = secrets.text("redis_password")
    if password is not None:
        address = f":{_quoted(password)}@redis:6379/0"
        checked = f"?ssl_cert_reqs=required&ssl_ca_certs={certificates}&ssl_check_hostname=true"
        variables["AIRFLOW__CELERY__BROKER_URL"] = (
            f"rediss://{address}{checked}" if certificates else f"redis://{address}"
        )
    for name, variable in _AIRFLOW_READS.items():
        if secrets.text(name) is not None:
            variables[variable] = f"cat {secrets.path(name)}"
    return variables


def _logins(secrets: Secrets, given: Mapping[str, str]) -> dict[str, str]:
    """Return the file of the passwords of Airflow's own users, of which there is one."""
    password = secrets.text("airflow_admin_password")
    if password is None:
        return {}
    file = Path(given["AIRFLOW_HOME"]) / "passwords.json"
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        json.dump({ADMIN: password}, opened)
    return {"AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(file)}


def _cassandra(secrets: Secrets, given: Mapping[str, str]) -> dict[str, str]:
    """Return Cassandra's address and login, as a connection and for applications by hand."""
    password = secrets.text("cassandra_password", may_be_empty=True)
    if password is None:
        return {}
    host, port, name = (given[f"CASSANDRA_{part}"] for part in ("HOST", "PORT", "USERNAME"))
    connection = {
        "conn_type": "cassandra",
        "host": host,
        "port": int(port),
        "login": name,
        "password": password,
    }
    return {
        "AIRFLOW_CONN_CASSANDRA_DEFAULT": json.dumps(connection),
        "TIDEMARK_CASSANDRA_HOSTS": ",".join(f"{one.strip()}:{port}" for one in host.split(",")),
        "TIDEMARK_CASSANDRA_USERNAME": name,
        "TIDEMARK_CASSANDRA_PASSWORD": password,
    }


def _authority(secrets: Secrets, given: Mapping[str, str]) -> dict[str, str]:
    """Return how Cassandra's certificate is checked, once the store for it is written.

    Spark's workers need the store at the same path, but none of the variables.
    """
    certificates = secrets.path("tls_ca")
    if certificates is None:
        return {}
    # Only here: most containers start without.
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    try:
        found = x509.load_pem_x509_certificates(certificates.read_bytes())
    except ValueError:
        raise EmbeddedError(
            "the secret holds no certificates in PEM", str(certificates), "see compose/certificates"
        ) from None
    named = [pkcs12.PKCS12Certificate(one, b"%d" % n) for n, one in enumerate(found)]
    store = Path(given["AIRFLOW_HOME"]) / "authority.p12"
    encryption = BestAvailableEncryption(_OF_STORE.encode())
    store.write_bytes(pkcs12.serialize_java_truststore(named, encryption))
    return {
        "TIDEMARK_CASSANDRA_SECURITY_PROTOCOL": "SSL",
        "TIDEMARK_CASSANDRA_SSL_TRUSTSTORE": str(store),
        "TIDEMARK_CASSANDRA_SSL_TRUSTSTORE_PASSWORD": _OF_STORE,
    }


def _quoted(password: str) -> str:
    # Everything but letters, digits, `_`, `.`, `-` and `~`; Airflow expands `~` at the very
    # beginning of a value only.
    return quote(password, safe="")
