"""The environment of the embedded Airflow: its settings, connections and secrets."""

from __future__ import annotations

import base64
import json
import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path

from embedded.errors import EmbeddedError
from embedded.machine import secrets_file
from embedded.machine.ports import HOST
from embedded.paths import ROOT, STATE
from embedded.spark import environment as spark
from tidemark.setting_groups.cassandra import parse_hosts

PARALLELISM = 4
"""Tasks at a time; each is a process, and one of Spark fills two cores."""
DATABASE_PATIENCE_S = 30
"""How long a process waits for another that writes into SQLite. Airflow's scheduler ends when it
can't write, and at the default of 5 s a busy machine is enough for that."""
ADMIN = "admin"
"""The user of Airflow who may do everything, and the only one unless `applications` have others."""
CLIENT_PATIENCE_S = 4 * DATABASE_PATIENCE_S
"""How long a client waits for the API server: longer than the server waits for SQLite, so that a
writer that keeps the database ends in an answer, not in a client that has left."""


def build(home: Path, port: int, applications: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment of Airflow's processes.

    Args:
        home: Airflow's home; its secrets are kept there.
        port: The port of the API server.
        applications: Variables of the applications, `TIDEMARK_CASSANDRA_*` above all, and settings
            of Airflow that are to be others than the usual ones.

    Airflow settings of the caller's shell are left out, so that the same call always starts the
    same Airflow.
    """
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW_", "_AIRFLOW"))}
    tidemark = {"TIDEMARK_STATE": str(STATE), "TIDEMARK_DATA_DOCS_DIR": str(STATE / "data_docs")}
    search_path = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    return {
        **tidemark,
        **inherited,
        **spark.environment(),
        **settings(home, port),
        **applications,
        **_secrets(home),
        **_connections({**inherited, **applications}, port, password(home)),
        "AIRFLOW_HOME": str(home),
        "TIDEMARK_AIRFLOW_HOSTS": f"{HOST},localhost",
        "PATH": os.pathsep.join(search_path),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "spark_apps"), str(ROOT / "plugins")]),
    }


def base_url(port: int) -> str:
    """Return the URL of the API server on a port."""
    return f"http://{HOST}:{port}"


def passwords_file(home: Path) -> Path:
    """Return the file of the passwords of Airflow's users, in JSON by the name of the user."""
    return home / "secrets" / "passwords.json"


def password(home: Path) -> str:
    """Return the password of the user `ADMIN`; the first call makes it."""
    kept = secrets_file.keep(
        passwords_file(home), lambda: json.dumps({ADMIN: secrets.token_urlsafe(24)})
    )
    return str(json.loads(kept)[ADMIN])


def settings(home: Path, port: int) -> dict[str, str]:
    """Return the settings of Airflow that do not depend on the caller."""
    sections: dict[str, dict[str, object]] = {
        "core": {
            "executor": "LocalExecutor",
            "parallelism": PARALLELISM,
            "dags_folder": ROOT / "dags",
            "plugins_folder": ROOT / "plugins",
            "load_examples": False,
            # Other users of this machine reach the server, and so do pages in its browsers.
            "simple_auth_manager_users": f"{ADMIN}:admin",
            "simple_auth_manager_passwords_file": passwords_file(home),
            "execution_api_server_url": f"{base_url(port)}/execution/",
            # A busy machine is slow, not broken: the defaults fail DAGs and tasks there.
            "dagbag_import_timeout": 120,
        },
        "workers": {"execution_api_timeout": CLIENT_PATIENCE_S},
        "database": {
            "sql_alchemy_conn": f"sqlite:///{home / 'airflow.db'}?timeout={DATABASE_PATIENCE_S}",
        },
        "api": {
            "host": HOST,
            "port": port,
            "base_url": base_url(port),
            "workers": 1,
            # Else an answer 500 names only an id to look for in the log.
            "expose_stacktrace": True,
        },
        "dag_processor": {
            "refresh_interval": 10,
            "min_file_process_interval": 10,
            "dag_file_processor_timeout": 180,
        },
        "logging": {"base_log_folder": home / "logs" / "tasks"},
        "usage_data_collection": {"enabled": False},
    }
    return {
        f"AIRFLOW__{section.upper()}__{name.upper()}": str(value)
        for section, settings in sections.items()
        for name, value in settings.items()
    }


def _secrets(home: Path) -> dict[str, str]:
    directory = home / "secrets"
    return {
        "AIRFLOW__CORE__FERNET_KEY": secrets_file.keep(directory / "fernet_key", _fernet_key),
        "AIRFLOW__API__SECRET_KEY": secrets_file.keep(directory / "secret_key"),
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets_file.keep(directory / "jwt_secret", _long_secret),
    }


def _fernet_key() -> str:
    return base64.urlsafe_b64encode(os.urandom(32)).decode()


def _long_secret() -> str:
    """Return a secret of 64 bytes, as HS512 requires; Airflow warns of shorter ones."""
    return base64.urlsafe_b64encode(os.urandom(64)).decode()


def _connections(environment: Mapping[str, str], port: int, admin_password: str) -> dict[str, str]:
    """Return the connections of the DAGs, of Cassandra and Kafka if their addresses are known."""
    master = environment.get("TIDEMARK_SPARK_MASTER") or "local[*]"
    connections: dict[str, dict[str, object]] = {
        "SPARK_DEFAULT": {"conn_type": "spark", "host": master},
        "AIRFLOW_DEFAULT": {
            "conn_type": "http",
            "schema": "http",
            "host": HOST,
            "port": port,
            "login": ADMIN,
            "password": admin_password,
        },
    }
    if hosts := environment.get("TIDEMARK_CASSANDRA_HOSTS"):
        addresses = parse_hosts(hosts)
        if len({port for _, port in addresses}) > 1:
            raise EmbeddedError(
                "the hosts of Cassandra have different ports",
                "TIDEMARK_CASSANDRA_HOSTS",
                "give hosts with one port: a connection of Airflow has no more",
            )
        connections["CASSANDRA_DEFAULT"] = {
            "conn_type": "cassandra",
            "host": ",".join(host for host, _ in addresses),
            "port": addresses[0][1],
            "login": environment.get("TIDEMARK_CASSANDRA_USERNAME", ""),
            "password": environment.get("TIDEMARK_CASSANDRA_PASSWORD", ""),
        }
    if servers := environment.get("TIDEMARK_KAFKA_BOOTSTRAP_SERVERS"):
        host, _, its_port = servers.rpartition(":")
        connections["KAFKA_DEFAULT"] = {"conn_type": "generic", "host": host, "port": int(its_port)}
    return {f"AIRFLOW_CONN_{name}": json.dumps(value) for name, value in connections.items()}
