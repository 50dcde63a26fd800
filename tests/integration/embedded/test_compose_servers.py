"""Kafka, Cassandra and Spark as processes, with what docker-compose.yml and its override give them.

The images' own ways of configuration are used: Kafka's docker wrapper, which makes its properties
out of the environment and formats its storage, and the system properties of Cassandra's JVM.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pyspark
import pytest
from confluent_kafka import Producer
from pydantic import SecretStr
from pyspark.sql import SparkSession

from embedded.cassandra import node
from embedded.machine import jars, ports, processes
from embedded.machine.java import java_home
from tests.compose.document import BASE, IMAGES, ROOT, TLS, load, tag
from tests.integration.support import wait_until
from tidemark.cassandra.control import Control
from tidemark.errors import InvalidInput, TidemarkError
from tidemark.replicate.kafka.records import records
from tidemark.replicate.kafka.topics import TopicPartition, Topics, client_settings
from tidemark.settings import Settings

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="it makes certificates"),
]
PATIENCE_S = 600
HERE = "localhost"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificates")
    script = str(ROOT / "compose" / "certificates")
    subprocess.run([script, str(directory)], check=True, capture_output=True)
    return directory


def with_certificates(text: str, certificates: Path) -> str:
    """Return a text with the certificates' own paths in place of the mounted ones."""
    secrets = load(BASE, TLS)["secrets"]

    def path(found: re.Match[str]) -> str:
        return str(certificates / Path(secrets[found[1]]["file"]).name)

    return re.sub(r"/run/secrets/(tls_\w+)", path, text)


@pytest.fixture
def kafka(certificates: Path, tmp_path: Path) -> Iterator[str]:
    """Yield the address of a broker that is configured as in docker-compose.tls.yml."""
    chosen = ports.choose(tmp_path / "ports.json", ("clients", "controller"), {})
    environment = {"CLUSTER_ID": IMAGES["apache/kafka:4.1.1"]["cluster_id"]}
    for name, value in load(BASE, TLS)["services"]["kafka"]["environment"].items():
        text = with_certificates(str(value), certificates)
        for role, port in IMAGES["apache/kafka:4.1.1"]["listens"].items():
            text = text.replace(f"kafka:{port}", f"{HERE}:{chosen[role]}")
            text = text.replace(f"//:{port}", f"//{HERE}:{chosen[role]}")
        environment[name] = text.replace("/var/lib/kafka/data", str(tmp_path / "data"))
    java = [str(java_home() / "bin" / "java"), "-Xmx512m", "-cp"]
    java.append(os.pathsep.join(map(str, jars.fetch("kafka"))))
    final = tmp_path / "final"
    final.mkdir()
    setup = [f"--{one}-configs-dir={ROOT}" for one in ("default", "mounted")]
    subprocess.run(
        [*java, "kafka.docker.KafkaDockerWrapper", "setup", *setup, f"--final-configs-dir={final}"],
        env={**os.environ, **environment}, check=True, capture_output=True,
    )  # fmt: skip
    processes.start(
        "kafka",
        [*java, "kafka.Kafka", str(final / "server.properties")],
        tmp_path / "run",
        log=tmp_path / "log",
        environment=dict(os.environ),
        cwd=tmp_path,
    )
    yield f"{HERE}:{chosen['clients']}"
    processes.stop(["kafka"], tmp_path / "run")


def test_tidemark_reads_kafka_by_tls_and_checks_its_certificate(
    kafka: str, certificates: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    for name, value in {
        "BOOTSTRAP_SERVERS": kafka,
        "SECURITY_PROTOCOL": "SSL",
        "SSL_CA": str(certificates / "ca.pem"),
    }.items():
        monkeypatch.setenv(f"TIDEMARK_KAFKA_{name}", value)
    settings = Settings.load()
    made(settings, "by-tls")
    producer = Producer(client_settings(settings))
    producer.produce("by-tls", key=b"key", value=b"value")
    assert producer.flush(PATIENCE_S) == 0
    # Spark's consumers are Java's.
    [row] = records(spark, settings, {TopicPartition("by-tls", 0): (0, 1)}).collect()
    assert bytes(row["value"]) == b"value"
    untrusted = settings.model_copy(update={"kafka_ssl_ca": "", "kafka_timeout": 5.0})
    with pytest.raises(TidemarkError, match="Kafka does not answer"):
        Topics(untrusted).partitions_of("by-tls")


def made(settings: Settings, topic: str) -> None:
    """Make a topic as soon as the broker answers."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return Topics(settings).create(topic, 1, {})
        except TidemarkError:
            if time.monotonic() > until:
                raise


ADMIN_PASSWORD = "a'dmin\\ %s ''; -- $$"
PASSWORD = "@/%:\"'$ ü €"


@pytest.fixture
def cassandra_of_compose(certificates: Path, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Yield what the entrypoint gives to clients of a Cassandra with the options of the override.

    By its own configuration that Cassandra would ask for nothing.
    """
    chosen = ports.choose(tmp_path / "ports.json", ("native", "storage"), {})
    service = load(BASE, TLS)["services"]["cassandra"]
    flags = with_certificates(service["environment"]["JVM_EXTRA_OPTS"], certificates).split()
    open_to_all = {"authenticator": "AllowAllAuthenticator", "authorizer": "AllowAllAuthorizer"}
    command = node.prepare(tmp_path, chosen, open_to_all, flags)
    processes.start(
        "cassandra", command, tmp_path / "run",
        log=tmp_path / "log", environment=dict(os.environ), cwd=tmp_path,
    )  # fmt: skip
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "cassandra_admin_password").write_text(ADMIN_PASSWORD)
    (secrets / "cassandra_password").write_text(PASSWORD)
    (secrets / "tls_ca").write_bytes((certificates / "ca.pem").read_bytes())
    yield {
        "CASSANDRA_HOST": HERE,
        "CASSANDRA_PORT": str(chosen["native"]),
        "CASSANDRA_USERNAME": "tidemark",
        "SECRETS_DIR": str(secrets),
        "AIRFLOW_HOME": str(tmp_path),
    }
    processes.stop(["cassandra"], tmp_path / "run")


def run_entrypoint(given: Mapping[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "embedded.container", *command],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/spark_apps", **given},
        capture_output=True, text=True,
    )  # fmt: skip


def health(service: dict[str, Any], port: str) -> int:
    """Return the status of the service's health check, asked at another port."""
    [*command] = service["healthcheck"]["test"][1:]
    command[-1] = command[-1].replace("9042", port)
    return subprocess.run(command, capture_output=True).returncode


def test_cassandra_lets_nobody_in_but_the_users_that_the_first_service_makes(
    cassandra_of_compose: dict[str, str], certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = load(BASE, TLS)["services"]
    port = cassandra_of_compose["CASSANDRA_PORT"]
    program, *arguments = services["cassandra-init"]["command"]
    assert program == "python"
    assert health(services["cassandra"], port) != 0
    wait_until(
        "Cassandra's port", lambda: health(services["cassandra"], port) == 0, deadline_s=PATIENCE_S
    )
    certificate = ssl.get_server_certificate(
        (HERE, int(port)), ca_certs=str(certificates / "ca.pem")
    )
    assert certificate.strip() in (certificates / "cassandra.pem").read_text()
    # The second time it finds all as it shall be.
    for _ in range(2):
        answer = run_entrypoint(cassandra_of_compose, sys.executable, *arguments)
        assert answer.returncode == 0, answer.stderr
        assert PASSWORD not in answer.stdout + answer.stderr
        assert ADMIN_PASSWORD not in answer.stdout + answer.stderr
    show = [sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"]
    made = json.loads(run_entrypoint(cassandra_of_compose, *show).stdout)
    for name, value in made.items():
        if name.startswith("TIDEMARK_CASSANDRA_"):
            monkeypatch.setenv(name, value)
    settings = Settings.load()
    with Control(settings) as tidemark:
        [row] = tidemark.execute("SELECT release_version FROM system.local")
        version = tag(services["cassandra"]["image"]).partition(":")[2]
        assert row["release_version"] == version
        create_keyspace(tidemark, "own")
        tidemark.execute_ddl("CREATE TABLE own.a (b int PRIMARY KEY)")
        tidemark.execute("INSERT INTO own.a (b) VALUES (?)", [1])
        # What the connector asks of every cluster.
        tidemark.execute("SELECT * FROM system.size_estimates")
        with pytest.raises(InvalidInput, match="does not permit"):
            tidemark.execute("SELECT salted_hash FROM system_auth.roles")
        with login(settings, "admin", ADMIN_PASSWORD) as admin:
            roles = admin.execute("SELECT role, can_login, is_superuser FROM system_auth.roles")
            create_keyspace(admin, "other")
            admin.execute_ddl("CREATE TABLE other.a (b int PRIMARY KEY)")
        assert {(row["role"], row["can_login"], row["is_superuser"]) for row in roles} == {
            ("admin", True, True),
            ("cassandra", False, False),
            ("tidemark", True, False),
        }
        with pytest.raises(InvalidInput, match="does not permit"):
            tidemark.execute("SELECT * FROM other.a")
    for user, password in (("cassandra", "cassandra"), ("tidemark", "another"), ("", "")):
        with pytest.raises(TidemarkError, match="refuses"):
            login(settings, user, password)


def create_keyspace(control: Control, name: str) -> None:
    control.execute_ddl(
        f"CREATE KEYSPACE {name} WITH replication ="
        " {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )


def login(settings: Settings, username: str, password: str) -> Control:
    chosen = {"cassandra_username": username, "cassandra_password": SecretStr(password)}
    return Control(settings.model_copy(update=chosen))


SECRET = 'key=\\ "quoted" #1 ü €'
APPLICATION = """
import json, os, sys
import psutil
from pyspark import SparkContext

def command_lines(_):
    yield [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]

context = SparkContext()
lines = context.parallelize([1], 1).mapPartitions(command_lines).first()
crypto = context.getConf().get("spark.network.crypto.enabled")
with open(sys.argv[1] + ".new", "w") as file:
    json.dump({"lines": lines, "crypto": crypto}, file)
os.replace(file.name, sys.argv[1])
context.stop()
"""


@dataclass(frozen=True)
class Spark:
    """A master and a worker, as docker-compose.yml starts them.

    Attributes:
        environment: for further processes of theirs, through the entrypoint.
        run: where the pids are.
        url: for `--master`.
        pages: the address of the master's web pages.
    """

    environment: dict[str, str]
    run: Path
    url: str
    pages: str

    def state(self) -> dict[str, Any]:
        """Return what the master knows; empty as long as it does not answer."""
        try:
            known: dict[str, Any] = httpx.get(f"{self.pages}/json/").json()
        except httpx.TransportError:
            return {}
        return known

    def submit(self, name: str, application: Path, output: Path, **variables: str) -> None:
        """Start an application, whose log is below the directory of the pids."""
        command = ["spark-submit", "--master", self.url, str(application), str(output)]
        start(name, command, self.run, {**self.environment, **variables})


def start(name: str, command: Sequence[str], run: Path, environment: Mapping[str, str]) -> None:
    processes.start(
        name, [sys.executable, "-m", "embedded.container", *command], run,
        log=run / f"{name}.log", environment=environment, cwd=run,
    )  # fmt: skip


@pytest.fixture
def spark_of_compose(tmp_path: Path) -> Iterator[Spark]:
    """Yield master and worker, with the commands and the secret of docker-compose.yml."""
    chosen = ports.choose(tmp_path / "ports.json", ("master", "pages"), {})
    run = tmp_path / "run"
    run.mkdir()
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "spark_secret").write_text(SECRET)
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
        "PYSPARK_PYTHON": sys.executable,
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_HOSTNAME": HERE,
        "AIRFLOW_HOME": str(tmp_path),
        "SECRETS_DIR": str(tmp_path / "secrets"),
    }
    services = load(BASE)["services"]
    here = {
        "spark://spark-master:7077": f"spark://{HERE}:{chosen['master']}",
        "spark-master": HERE,
        "7077": str(chosen["master"]),
        "8080": str(chosen["pages"]),
        "8081": "0",
        "/opt/spark-work": str(tmp_path / "work"),
    }
    for name in ("spark-master", "spark-worker-1"):
        command = [here.get(word, word) for word in services[name]["command"]]
        start(name, command, run, environment)
    pages = f"http://{HERE}:{chosen['pages']}"
    url = f"spark://{HERE}:{chosen['master']}"
    yield Spark(environment, run, url, pages)
    processes.stop(["with", "without", "another", "spark-worker-1", "spark-master"], run)


def is_refused(log: Path) -> bool:
    return "Failed to connect to master" in log.read_text()


def test_spark_takes_applications_with_its_secret_only(
    spark_of_compose: Spark, tmp_path: Path
) -> None:
    spark = spark_of_compose
    wait_until("a worker", lambda: spark.state().get("aliveworkers") == 1)
    # The address that docker-compose.yml gives to its containers on Spark's network.
    assert spark.state()["workers"][0]["host"] == HERE
    application = tmp_path / "application.py"
    application.write_text(APPLICATION)
    (tmp_path / "none").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "spark_secret").write_text("another")
    for name, secrets in {"without": "none", "another": "other"}.items():
        home = tmp_path / f"home-{name}"
        home.mkdir()
        given = {"SECRETS_DIR": str(tmp_path / secrets), "AIRFLOW_HOME": str(home)}
        spark.submit(name, application, tmp_path / "refused", **given)
        log = spark.run / f"{name}.log"
        wait_until("the refusal", partial(is_refused, log))
        processes.stop([name], spark.run)
    assert (spark.state()["activeapps"], spark.state()["completedapps"]) == ([], [])
    assert not (tmp_path / "refused").exists()
    spark.submit("with", application, tmp_path / "output")
    wait_until("the application", lambda: (tmp_path / "output").exists())
    output = json.loads((tmp_path / "output").read_text())
    assert output["crypto"] == "true"
    lines = output["lines"]
    assert [line for line in lines if "CoarseGrainedExecutorBackend" in line]
    assert [line for line in lines if SECRET in line or "spark.authenticate.secret" in line] == []
    logs = [*spark.run.glob("*.log"), *(tmp_path / "work").rglob("std*")]
    assert len(logs) > 4
    assert [log for log in logs if SECRET in log.read_text()] == []
