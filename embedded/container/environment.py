"""The variables that need a secret, each written in its reader's own way.

A container has those whose secrets it has been given.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkstemp
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
_SPARK = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    # Version 1 is weaker, and the default. SASL, to which Spark would fall back, encrypts nothing.
    "spark.network.crypto.authEngineVersion": "2",
    "spark.network.crypto.saslFallback": "false",
    # The web pages of master and workers have no login.
    "spark.ui.killEnabled": "false",
}
"""What master, workers and drivers have in common, beside their secret."""


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
        **_spark(secrets, given),
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
        server = f"://:{_quoted(password)}@redis:6379"
        checked = f"?ssl_cert_reqs=required&ssl_ca_certs={certificates}&ssl_check_hostname=true"
        scheme, options = ("rediss", checked) if certificates else ("redis", "")
        variables["AIRFLOW__CELERY__BROKER_URL"] = f"{scheme}{server}/0{options}"
        # By default results are in Airflow's database, whose password would make a worker admin.
        variables["AIRFLOW__CELERY__RESULT_BACKEND"] = f"{scheme}{server}/1{options}"
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
    _write_private(file, json.dumps({ADMIN: password}).encode())
    return {"AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(file)}


def _cassandra(secrets: Secrets, given: Mapping[str, str]) -> dict[str, str]:
    """Return Cassandra's address and login, as a connection and for applications by hand."""
    password = secrets.text("cassandra_password")
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


def _spark(secrets: Secrets, given: Mapping[str, str]) -> dict[str, str]:
    """Return where Spark finds its defaults, once its secret is among them.

    Spark takes a secret from its configuration only, and spark-submit's options are on the command
    line. An executor gets it from its worker, in its environment.
    """
    secret = secrets.text("spark_secret")
    if secret is None:
        return {}
    # Each character as \uNNNN, so that none ends or continues a line.
    units = secret.encode("utf-16-be").hex()
    escaped = "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
    lines = [f"{name} {value}" for name, value in _SPARK.items()]
    directory = Path(given["AIRFLOW_HOME"]) / "spark"
    directory.mkdir(exist_ok=True)
    text = "\n".join([*lines, f"spark.authenticate.secret {escaped}", ""])
    _write_private(directory / "spark-defaults.conf", text.encode())
    return {"SPARK_CONF_DIR": str(directory)}


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
    _write_private(store, pkcs12.serialize_java_truststore(named, encryption))
    return {
        "TIDEMARK_CASSANDRA_SECURITY_PROTOCOL": "SSL",
        "TIDEMARK_CASSANDRA_SSL_TRUSTSTORE": str(store),
        "TIDEMARK_CASSANDRA_SSL_TRUSTSTORE_PASSWORD": _OF_STORE,
    }


def _write_private(file: Path, content: bytes) -> None:
    """Write a file of mode 600 in one step: health checks write it anew while others read it."""
    descriptor, unfinished = mkstemp(dir=file.parent)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(content)
    os.replace(unfinished, file)


def _quoted(password: str) -> str:
    # Everything but letters, digits, `_`, `.`, `-` and `~`; Airflow expands `~` at the very
    # beginning of a value only.
    return quote(password, safe="")
