"""replicate reads a topic by SASL and TLS: its own client and Spark's are asked to log in alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.serialization import Encoding

from embedded.kafka.server import Kafka
from embedded.machine import ports
from embedded.paths import CONF
from tests.certificates import PASSWORD as OF_STORES
from tests.certificates import authority, certificate
from tests.integration.kafka_topic import PATIENCE_S, Topic
from tests.integration.replicate.test_refusals import done
from tests.integration.replicate.test_replicate import events
from tests.integration.support import Journal

NAME = "kafka-server.properties"
PLAIN = "listeners=CLIENTS://127.0.0.1:${clients_port}"
LISTENERS = {"TLS": "SSL", "LOGIN": "SASL_PLAINTEXT", "BOTH": "SASL_SSL"}
"""Security protocols by the name of their listener."""
MODULE = "org.apache.kafka.common.security"
SECRET = 'correct "horse" \\ battery'


@dataclass(frozen=True)
class Guarded:
    """A broker that asks for logins.

    Attributes:
        plain: the address without any, by which topics are written.
        addresses: the addresses by the security protocol.
        ca: the certificate of who has certified it.
    """

    plain: str
    addresses: dict[str, str]
    ca: Path


@pytest.fixture
def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Guarded]:
    """Yield a broker with a listener for each security protocol, and the user `reader`."""
    root = authority("root")
    ca = tmp_path / "ca.pem"
    ca.write_bytes(root.certificate.public_bytes(Encoding.PEM))
    keystore = certificate("broker", root, ["127.0.0.1"]).keystore(tmp_path / "broker.p12")
    chosen = ports.choose(tmp_path / "more.json", tuple(LISTENERS), {})
    more = "".join(f",{name}://127.0.0.1:{port}" for name, port in chosen.items())
    text = (CONF / NAME).read_text("utf-8").replace(PLAIN, PLAIN + more)
    protocols = "".join(f",{name}:{protocol}" for name, protocol in LISTENERS.items())
    text = text.replace("CLIENTS:PLAINTEXT", f"CLIENTS:PLAINTEXT{protocols}")
    in_quotes = SECRET.replace("\\", "\\\\").replace('"', '\\"')
    # A file of properties takes each backslash for the start of an escape.
    login = f'{MODULE}.plain.PlainLoginModule required user_reader="{in_quotes}";'
    scram = f"{MODULE}.scram.ScramLoginModule required;"
    lines = [
        f"ssl.keystore.location={keystore}",
        "ssl.keystore.type=PKCS12",
        f"ssl.keystore.password={OF_STORES}",
        "listener.name.both.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
        "listener.name.login.sasl.enabled.mechanisms=SCRAM-SHA-512",
        "listener.name.both.plain.sasl.jaas.config=" + login.replace("\\", "\\\\"),
        f"listener.name.both.scram-sha-256.sasl.jaas.config={scram}",
        f"listener.name.login.scram-sha-512.sasl.jaas.config={scram}",
    ]
    (tmp_path / NAME).write_text("\n".join([text, *(one.replace("$", "$$") for one in lines)]))
    monkeypatch.setattr("embedded.kafka.broker.CONF", tmp_path)
    server = Kafka(tmp_path / "kafka")
    try:
        plain = server.start()
        _add_user(plain)
        by_protocol = {LISTENERS[name]: f"127.0.0.1:{port}" for name, port in chosen.items()}
        yield Guarded(plain, by_protocol, ca)
    finally:
        server.stop()


def _add_user(plain: str) -> None:
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        info = ScramCredentialInfo(mechanism, 4096)
        added = UserScramCredentialUpsertion("reader", info, SECRET.encode())
        admin = AdminClient({"bootstrap.servers": plain, "log_level": 0})
        admin.alter_user_scram_credentials([added])["reader"].result(PATIENCE_S)


def login(
    guarded: Guarded, protocol: str, mechanism: str = "", password: str = ""
) -> dict[str, str]:
    """Return the settings of a login."""
    settings = {
        "KAFKA_BOOTSTRAP_SERVERS": guarded.addresses[protocol],
        "KAFKA_SECURITY_PROTOCOL": protocol,
    }
    if protocol != "SASL_PLAINTEXT":
        settings["KAFKA_SSL_CA"] = str(guarded.ca)
    if mechanism:
        settings |= {"KAFKA_SASL_MECHANISM": mechanism, "KAFKA_USERNAME": "reader"}
        settings["KAFKA_PASSWORD"] = password or SECRET
    return settings


@pytest.mark.long
def test_each_login_replicates_what_was_appended(
    make_journal: Callable[..., Journal], guarded: Guarded
) -> None:
    journal, topic = make_journal(), Topic(guarded.plain)
    topic.feeds(journal)
    logins = [
        ("SSL", ""),
        ("SASL_PLAINTEXT", "SCRAM-SHA-512"),
        ("SASL_SSL", "SCRAM-SHA-256"),
        ("SASL_SSL", "PLAIN"),
    ]
    for number, (protocol, mechanism) in enumerate(logins, 1):
        topic.append("a", [number])
        done(journal.run("replicate", **login(guarded, protocol, mechanism)))
        assert [event[2] for event in events(journal)] == list(range(1, number + 1))


@pytest.mark.long
def test_a_wrong_password_and_a_foreign_authority_are_one_line_without_a_secret(
    make_journal: Callable[..., Journal], guarded: Guarded, tmp_path: Path
) -> None:
    journal, topic = make_journal(), Topic(guarded.plain)
    topic.feeds(journal)
    topic.append("a", [1])
    foreign = tmp_path / "foreign.pem"
    foreign.write_bytes(authority("foreign").certificate.public_bytes(Encoding.PEM))
    wrong = login(guarded, "SASL_SSL", "SCRAM-SHA-256", "wrong horse")
    untrusted = login(guarded, "SSL") | {"KAFKA_SSL_CA": str(foreign)}
    for settings in (wrong, untrusted):
        result = journal.run("replicate", **settings)
        assert result.status != 0
        [line] = result.error_lines
        assert settings["KAFKA_BOOTSTRAP_SERVERS"] in line
        assert "horse" not in result.stdout + result.stderr
