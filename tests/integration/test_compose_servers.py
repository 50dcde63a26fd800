"""Kafka and Cassandra with the TLS that docker-compose.tls.yml gives their images, as processes.

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
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from embedded.cassandra import node
from embedded.machine import jars, ports, processes
from embedded.machine.java import java_home
from tests.compose.document import BASE, IMAGES, ROOT, TLS, load, tag
from tidemark.cassandra.control import Control
from tidemark.errors import TidemarkError
from tidemark.replication.kafka.records import records
from tidemark.replication.kafka.topics import TopicPartition, Topics, client_settings
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
        "TLS_CA": str(certificates / "ca.pem"),
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


def of_the_entrypoint(certificates: Path, directory: Path, port: int) -> dict[str, str]:
    """Return what the image's entrypoint makes for the applications."""
    secrets = directory / "secrets"
    secrets.mkdir()
    (secrets / "cassandra_password").write_text("cassandra")
    (secrets / "tls_ca").write_bytes((certificates / "ca.pem").read_bytes())
    address = {"HOST": HERE, "PORT": str(port), "USERNAME": "cassandra"}
    given = {f"CASSANDRA_{name}": value for name, value in address.items()}
    given |= {"SECRETS_DIR": str(secrets), "AIRFLOW_HOME": str(directory)}
    show = [sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"]
    answer = subprocess.run(
        [sys.executable, "-m", "embedded.container", *show],
        cwd=ROOT, env={**os.environ, **given}, check=True, capture_output=True, text=True,
    )  # fmt: skip
    made: dict[str, str] = json.loads(answer.stdout)
    return {name: one for name, one in made.items() if name.startswith("TIDEMARK_CASSANDRA_")}


def test_cassandra_speaks_tls_by_the_options_of_its_jvm(
    certificates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = ports.choose(tmp_path / "ports.json", ("native", "storage"), {})
    service = load(BASE, TLS)["services"]["cassandra"]
    options = with_certificates(service["environment"]["JVM_EXTRA_OPTS"], certificates).split()
    command = node.prepare(tmp_path, chosen, {}, options)
    processes.start(
        "cassandra", command, tmp_path / "run",
        log=tmp_path / "log", environment=dict(os.environ), cwd=tmp_path,
    )  # fmt: skip
    program, *asked = service["healthcheck"]["test"][1:]
    login = ["--username", "cassandra", "--password", "cassandra", HERE, str(chosen["native"])]
    trusted = {"SSL_CERTFILE": str(certificates / "ca.pem"), "SSL_VALIDATE": "true"}
    assert trusted.keys() < service["environment"].keys()
    try:
        until = time.monotonic() + PATIENCE_S
        while True:
            answer = subprocess.run(
                [str(Path(sys.executable).with_name(program)), *asked, *login],
                env={**os.environ, **trusted}, capture_output=True, text=True,
            )  # fmt: skip
            if not answer.returncode or time.monotonic() > until:
                break
            time.sleep(1)
        assert answer.returncode == 0, answer.stderr
        certificate = ssl.get_server_certificate(
            (HERE, chosen["native"]), ca_certs=str(certificates / "ca.pem")
        )
        assert certificate.strip() in (certificates / "cassandra.pem").read_text()
        plain = [str(Path(sys.executable).with_name(program)), *asked[1:], *login]
        assert subprocess.run(plain, capture_output=True).returncode == 1
        for name, value in of_the_entrypoint(certificates, tmp_path, chosen["native"]).items():
            monkeypatch.setenv(name, value)
        with Control(Settings.load()) as control:
            [row] = control.execute("SELECT release_version FROM system.local")
        assert row["release_version"].startswith(tag(service["image"]).partition(":")[2])
    finally:
        processes.stop(["cassandra"], tmp_path / "run")
