"""TLS to Cassandra, by the Python driver and by the connector: verified, or one clear line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from embedded.cassandra.server import Cassandra, Endpoint
from tests.certificates import PASSWORD, Certificate, authority, certificate
from tests.integration.proxies import tls_in_front_of
from tests.integration.support import Journal, Result
from tests.integration.tag_write.test_tag_write import (
    a_small_journal,
    comparable,
    expected_tag_views,
    window,
)
from tidemark.cassandra import connector
from tidemark.cassandra.control import Control
from tidemark.errors import outage_of
from tidemark.settings import Settings

pytestmark = pytest.mark.long

OWN_NAMES = ("localhost", "127.0.0.1")
DAY = timedelta(days=1)
SMALL_HEAP = ("-Xms512m", "-Xmx512m")
OF_TLS = "spark.cassandra.connection.ssl."


@dataclass(frozen=True)
class PostgresPlace:
    """A Cassandra that demands client certificates, and what is certified of it and of others."""

    node: Endpoint
    authority: Certificate
    directory: Path

    @property
    def address(self) -> tuple[str, int]:
        return self.node.host, self.node.port

    def variables(self, **more: str) -> dict[str, str]:
        """Return what is set of TLS; what is more comes before it."""
        return {
            "CASSANDRA_SECURITY_PROTOCOL": "SSL",
            "CASSANDRA_SSL_TRUSTSTORE": str(self.directory / "authority.p12"),
            "CASSANDRA_SSL_TRUSTSTORE_PASSWORD": PASSWORD,
            "CASSANDRA_SSL_KEYSTORE": str(self.directory / "client.p12"),
            "CASSANDRA_SSL_KEYSTORE_PASSWORD": PASSWORD,
            **more,
        }

    def settings(self, **more: str) -> Settings:
        """Return the settings of these variables."""
        own = {f"TIDEMARK_{name}": value for name, value in self.variables(**more).items()}
        values = {
            name.removeprefix("TIDEMARK_").lower(): value
            for name, value in (self.node.environment() | own).items()
        }
        return Settings(**values)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresPlace]:
    directory = tmp_path_factory.mktemp("tls")
    own = authority("authority")
    own.truststore(directory / "authority.p12")
    certificate("tidemark", own).keystore(directory / "client.p12")
    certificate("node", own, OWN_NAMES).keystore(directory / "node.p12")
    encryption = {
        "enabled": True,
        # Who starts the node makes its user without TLS.
        "optional": True,
        "require_client_auth": True,
        "store_type": "PKCS12",
        "keystore": str(directory / "node.p12"),
        "keystore_password": PASSWORD,
        "truststore": str(directory / "authority.p12"),
        "truststore_password": PASSWORD,
    }
    node = Cassandra(
        directory / "cassandra", options={"client_encryption_options": encryption}, flags=SMALL_HEAP
    )
    try:
        yield PostgresPlace(node.start(), own, directory)
    finally:
        node.stop()


@pytest.fixture(scope="module")
def control(place: PostgresPlace) -> Iterator[Control]:
    with Control(place.settings()) as session:
        yield session


@pytest.fixture(scope="module")
def journal(
    place: PostgresPlace, control: Control, spark: SparkSession, spark_environment: dict[str, str]
) -> Iterator[Journal]:
    """Yield a journal there; the session that all tests share then forgets of TLS."""
    environment = {**spark_environment, **place.node.environment()}
    variables = {"SPARK_MASTER": "local[2]", **place.variables()}
    yield Journal.create(control, environment, **variables)
    for name in ("enabled", "trustStore.path", "keyStore.path", "clientAuth.enabled"):
        spark.conf.unset(OF_TLS + name)


def refused(result: Result) -> str:
    """Return the only line of a run that is refused for good, without a secret."""
    assert result.status == 2, result.stderr
    [line] = result.error_lines
    assert "Traceback" not in result.stderr
    assert PASSWORD not in result.stdout + result.stderr
    return line


def test_application_over_tls_with_a_client_certificate(journal: Journal) -> None:
    journal.insert("messages", a_small_journal())
    result = journal.run("tag_write", *window(0, 6))
    assert result.status == 0, result.stderr
    assert comparable(journal.rows("tag_views")) == comparable(
        expected_tag_views(a_small_journal())
    )
    assert PASSWORD not in result.stdout + result.stderr
    clients = journal.control.execute(
        "SELECT driver_name, ssl_enabled, username FROM system_views.clients"
    )
    drivers = {client["driver_name"] for client in clients if client["username"] == "tidemark"}
    assert len(drivers) == 2
    assert all(client["ssl_enabled"] for client in clients if client["driver_name"] in drivers)


@dataclass(frozen=True)
class Refusal:
    """What is wrong with the files of TLS, and what is said of it."""

    variables: Callable[[PostgresPlace], Mapping[str, str]]
    expected: str


def other_authority(place: PostgresPlace) -> dict[str, str]:
    file = authority("another").truststore(place.directory / "other.p12")
    return {"CASSANDRA_SSL_TRUSTSTORE": str(file)}


def client_of(place: PostgresPlace, issuer: Certificate, valid: timedelta = DAY) -> dict[str, str]:
    made = certificate("tidemark", issuer, valid=valid)
    return {"CASSANDRA_SSL_KEYSTORE": str(made.keystore(place.directory / "other-client.p12"))}


def of_java(place: PostgresPlace) -> dict[str, str]:
    (place.directory / "store.jks").write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    return {"CASSANDRA_SSL_TRUSTSTORE": str(place.directory / "store.jks")}


REFUSALS = {
    "another authority": Refusal(
        other_authority,
        "the certificate of Cassandra is refused: unable to get local issuer certificate",
    ),
    "no client certificate": Refusal(
        lambda place: {"CASSANDRA_SSL_KEYSTORE": ""},
        "Cassandra demands a client certificate",
    ),
    "a client certificate of another authority": Refusal(
        lambda place: client_of(place, authority("another")),
        "Cassandra refuses the client certificate",
    ),
    "a client certificate that has expired": Refusal(
        lambda place: client_of(place, place.authority, -DAY),
        "the client certificate has expired at 20",
    ),
    "a wrong password": Refusal(
        lambda place: {"CASSANDRA_SSL_TRUSTSTORE_PASSWORD": "another"},
        "TIDEMARK_CASSANDRA_SSL_TRUSTSTORE_PASSWORD is not its password",
    ),
    "no file": Refusal(
        lambda place: {"CASSANDRA_SSL_KEYSTORE": "/no/such/client.p12"},
        "the store cannot be read: No such file or directory (TIDEMARK_CASSANDRA_SSL_KEYSTORE,"
        " /no/such/client.p12)",
    ),
    "a store of the old type": Refusal(of_java, "the store is of the type JKS"),
    "a truststore without an authority": Refusal(
        lambda place: {"CASSANDRA_SSL_TRUSTSTORE": str(place.directory / "client.p12")},
        "the store holds no certificate of an authority",
    ),
    "a keystore without a key": Refusal(
        lambda place: {"CASSANDRA_SSL_KEYSTORE": str(place.directory / "authority.p12")},
        "the store holds no certificate with its key",
    ),
    "stores without TLS": Refusal(
        lambda place: {"CASSANDRA_SECURITY_PROTOCOL": "PLAINTEXT"},
        "TIDEMARK_CASSANDRA_SSL_TRUSTSTORE: is not used without"
        " TIDEMARK_CASSANDRA_SECURITY_PROTOCOL=SSL",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_files_that_cannot_be_used(place: PostgresPlace, journal: Journal, case: str) -> None:
    refusal = REFUSALS[case]
    line = refused(journal.run("tag_write", *window(0, 1), **refusal.variables(place)))
    assert refusal.expected in line


SHOWN = {
    "of another name": (
        ("elsewhere.example",),
        DAY,
        ("mismatch", "certificate is not valid for 'localhost'"),
        "No subject alternative DNS name matching localhost found",
    ),
    "that has expired": (
        OWN_NAMES,
        -DAY,
        ("certificate has expired", "renew it"),
        "validity check failed",
    ),
}


@pytest.mark.parametrize("case", SHOWN)
def test_certificate_is_refused_by_the_driver_and_by_the_connector(
    place: PostgresPlace, journal: Journal, spark: SparkSession, case: str
) -> None:
    names, valid, of_driver, of_connector = SHOWN[case]
    shown = certificate("node", place.authority, names, valid=valid)
    with tls_in_front_of(place.address, shown, place.directory) as (host, port):
        hosts = {"CASSANDRA_HOSTS": f"{host}:{port}"}
        line = refused(journal.run("tag_write", *window(0, 1), **hosts))
        assert f"{host}:{port}" in line
        assert [part for part in of_driver if part not in line] == []
        assert of_connector in why_unreadable(spark, journal, place.settings(**hosts))


def test_connector_refuses_another_authority_and_shows_its_own_certificate(
    place: PostgresPlace, journal: Journal, spark: SparkSession
) -> None:
    other = place.settings(**other_authority(place))
    assert "certificate of Cassandra is refused by a Spark job: PKIX path building failed" in (
        why_unreadable(spark, journal, other)
    )
    anonymous = place.settings(CASSANDRA_SSL_KEYSTORE="")
    assert "Could not reach any contact point" in why_unreadable(spark, journal, anonymous)
    missing = place.settings(CASSANDRA_SSL_TRUSTSTORE="/no/such/store.p12")
    assert (
        "cannot use the stores of TLS: java.nio.file.NoSuchFileException: /no/such/store.p12"
        in (why_unreadable(spark, journal, missing))
    )
    assert why_unreadable(spark, journal, place.settings()) == ""


def test_connector_takes_a_certificate_for_the_name(
    place: PostgresPlace, journal: Journal, spark: SparkSession
) -> None:
    """What the proxy shows is all that differs from the certificates that are refused."""
    shown = certificate("node", place.authority, OWN_NAMES)
    with tls_in_front_of(place.address, shown, place.directory) as (host, port):
        settings = place.settings(CASSANDRA_HOSTS=f"{host}:{port}")
        assert why_unreadable(spark, journal, settings) == ""


def why_unreadable(spark: SparkSession, journal: Journal, settings: Settings) -> str:
    """Read a table by the connector alone; return why it could not, or nothing."""
    connector.connect(spark, settings)
    try:
        connector.read(spark, journal.keyspace, "messages", "persistence_id").collect()
    except (Py4JJavaError, PySparkException) as error:
        return f"{outage_of(error)}"
    return ""


def test_tls_where_cassandra_has_none(
    place: PostgresPlace, journal: Journal, cassandra: Endpoint
) -> None:
    hosts = f"{cassandra.host}:{cassandra.port}"
    line = refused(journal.run("tag_write", *window(0, 1), CASSANDRA_HOSTS=hosts))
    assert "Cassandra does not speak TLS there" in line
    assert hosts in line


def test_no_tls_where_cassandra_has_nothing_else(place: PostgresPlace, journal: Journal) -> None:
    shown = certificate("node", place.authority, OWN_NAMES)
    plain = dict.fromkeys(place.variables(), "") | {"CASSANDRA_SECURITY_PROTOCOL": "PLAINTEXT"}
    with tls_in_front_of(place.address, shown, place.directory) as (host, port):
        hosts = {"CASSANDRA_HOSTS": f"{host}:{port}"}
        line = refused(journal.run("tag_write", *window(0, 1), **plain, **hosts))
    assert "Cassandra speaks only TLS there" in line
