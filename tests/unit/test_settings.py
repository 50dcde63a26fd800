"""Settings: documented, typed, and refused all at once without repeating a secret."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pydantic import SecretStr

from tests.repository import REPOSITORY
from tidemark.application.environment import unknown_variables
from tidemark.errors import InvalidInput
from tidemark.partitioning.keys import BucketSize
from tidemark.setting_groups.kafka import KafkaSettings
from tidemark.settings import Settings

DOCS = Path(__file__).resolve().parents[2] / "docs" / "settings.md"


def as_markdown() -> str:
    """Return the settings as the table of docs/settings.md, a row for each."""
    rows = [
        f"| `TIDEMARK_{name.upper()}` | `{_default_text(field.default)}` | {field.description} |"
        for name, field in sorted(
            Settings.model_fields.items(), key=lambda one: one[0] in KafkaSettings.model_fields
        )
    ]
    return "\n".join(["| variable | default | meaning |", "|---|---|---|", *rows]) + "\n"


def _default_text(default: object) -> str:
    if isinstance(default, Path):
        return str(default.relative_to(REPOSITORY))
    if isinstance(default, dict):
        return json.dumps(default)
    return default.get_secret_value() if isinstance(default, SecretStr) else str(default)


def test_docs_list_every_setting_with_its_default() -> None:
    """If this test fails, put the output of `as_markdown()` into docs/settings.md."""
    assert as_markdown() in DOCS.read_text()


def test_environment_is_read_and_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_CASSANDRA_HOSTS", "one, two:19042")
    monkeypatch.setenv("TIDEMARK_BUCKET_SIZE", "day")
    monkeypatch.setenv("TIDEMARK_REPLICATION", '{"class": "NetworkTopologyStrategy", "dc1": 3}')
    settings = Settings.load()
    assert settings.contact_points == [("one", 9042), ("two", 19042)]
    assert settings.bucket_size is BucketSize.DAY
    assert settings.replication == {"class": "NetworkTopologyStrategy", "dc1": "3"}


def test_all_problems_are_named_at_once_and_no_value_is_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIDEMARK_CASSANDRA_PASSWORD", "hunter2")
    monkeypatch.setenv("TIDEMARK_LOCK_TTL", "soon")
    monkeypatch.setenv("TIDEMARK_KEYSPACE", "no spaces")
    with pytest.raises(InvalidInput) as refused:
        Settings.load()
    message = str(refused.value)
    assert "TIDEMARK_LOCK_TTL" in message
    assert "TIDEMARK_KEYSPACE: not a name Cassandra accepts" in message
    assert "hunter2" not in message
    assert "\n" not in message


def test_password_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_CASSANDRA_PASSWORD", "hunter2")
    assert "hunter2" not in repr(Settings.load())


@pytest.mark.parametrize("level", ["ANY", "ONE", "local_one", "TWO", "THREE", "SERIAL", "MOST"])
def test_consistency_level_below_a_quorum_is_refused(
    monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    monkeypatch.setenv("TIDEMARK_CASSANDRA_CONSISTENCY", level)
    with pytest.raises(InvalidInput, match="TIDEMARK_CASSANDRA_CONSISTENCY: choose one of QUORUM"):
        Settings.load()


def test_consistency_level_is_written_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_CASSANDRA_CONSISTENCY", "local_quorum")
    assert Settings.load().cassandra_consistency == "LOCAL_QUORUM"


def test_variables_that_nobody_reads_are_named_with_the_nearest_that_somebody_does() -> None:
    read = [f"TIDEMARK_{name.upper()}" for name in Settings.model_fields]
    others = ["TIDEMARK_HOME", "TIDEMARK_CADENCE", "TIDEMARK_SCHEDULED_PURGE", "PATH", "TIDE"]
    assert unknown_variables([*read, *others]) == []
    assert unknown_variables(["TIDEMARK_KEYSPCE", "TIDEMARK_QZX"]) == [
        "TIDEMARK_KEYSPCE is no setting and does nothing; did you mean TIDEMARK_KEYSPACE?",
        "TIDEMARK_QZX is no setting and does nothing; see docs/settings.md",
    ]


def test_every_variable_that_the_plugin_and_the_embedded_servers_read_is_known() -> None:
    root = DOCS.parents[1]
    files = [*root.glob("plugins/**/*.py"), *root.glob("embedded/**/*.py")]
    read = {
        name for file in files for name in re.findall(r"\"(TIDEMARK_[A-Z_]+)\"", file.read_text())
    }
    assert len(read) > 10
    assert unknown_variables(read) == []


def test_secrets_come_from_files_unless_a_variable_is_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TIDEMARK_SECRETS_DIR", str(tmp_path))
    (tmp_path / "TIDEMARK_CASSANDRA_PASSWORD").write_text("of the file\n")
    (tmp_path / "tidemark_kafka_password").write_text("of the file")
    (tmp_path / "another").write_text("of another")
    monkeypatch.setenv("TIDEMARK_KAFKA_PASSWORD", "of the variable")
    settings = Settings.load()
    assert settings.cassandra_password.get_secret_value() == "of the file"
    assert settings.kafka_password.get_secret_value() == "of the variable"


def test_secrets_that_cannot_be_read_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TIDEMARK_SECRETS_DIR", str(tmp_path / "none"))
    with pytest.raises(InvalidInput, match=r"there is no directory .*none \(TIDEMARK_SECRETS_DIR"):
        Settings.load()
    monkeypatch.setenv("TIDEMARK_SECRETS_DIR", str(tmp_path))
    (tmp_path / "TIDEMARK_CASSANDRA_PASSWORD").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match="TIDEMARK_CASSANDRA_PASSWORD"):
        Settings.load()


@pytest.mark.parametrize("level", ["QUORUM", "LOCAL_QUORUM", "ANY"])
def test_serial_consistency_has_two_levels(monkeypatch: pytest.MonkeyPatch, level: str) -> None:
    monkeypatch.setenv("TIDEMARK_CASSANDRA_SERIAL_CONSISTENCY", level)
    with pytest.raises(InvalidInput, match="SERIAL_CONSISTENCY: choose one of SERIAL, LOCAL_SERIA"):
        Settings.load()


def test_stores_that_would_not_be_used_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who sets them believes that nobody listens."""
    monkeypatch.setenv("TIDEMARK_CASSANDRA_SSL_TRUSTSTORE", "/authority.p12")
    with pytest.raises(InvalidInput, match="TRUSTSTORE: is not used without TIDEMARK_CASSA"):
        Settings.load()
    monkeypatch.setenv("TIDEMARK_CASSANDRA_SECURITY_PROTOCOL", "SSL")
    assert Settings.load().cassandra_ssl_truststore == Path("/authority.p12")


def test_promises_are_durations_and_off_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings.load().fresh_within == {}
    monkeypatch.setenv("TIDEMARK_FRESH_TAG_WRITE", "90 m")
    monkeypatch.setenv("TIDEMARK_FRESH_REPLICATE", "1d")
    assert Settings.load().fresh_within == {"tag-write": 5400, "replicate": 86_400}
    for value in ("soon", "2", "h", "-2 h", "2 h\n", "2 weeks"):
        monkeypatch.setenv("TIDEMARK_FRESH_VALIDATE", value)
        with pytest.raises(InvalidInput, match="TIDEMARK_FRESH_VALIDATE: not a duration such as"):
            Settings.load()


HASH = f"--hash=sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("LIBRARIES", "a, b>=1", "entry 2 is not `name`, `name==version`"),
        ("LIBRARIES", "a==1.*", "entry 1 is not `name`"),
        ("LIBRARIES", "a===1", "entry 1 is not `name`"),
        ("LIBRARIES", f"a@https://example.com/a.whl {HASH}", "entry 1 is not `name`"),
        ("LIBRARIES", "a==1 --hash=sha256:abc", "entry 1 is not `name`"),
        ("LIBRARIES", "a==1 --hash=md5:" + "0" * 32, "entry 1 is not `name`"),
        ("LIBRARIES", f"{HASH} a==1", "entry 1 is not `name`"),
        ("LIBRARIES", "a==1 --index-url=https://example.com", "entry 1 is not `name`"),
        ("LIBRARIES", "a==1 -r file", "entry 1 is not `name`"),
        ("LIBRARIES", f"a {HASH}", "entry 1 needs a version for each of its libraries"),
        ("LIBRARIES", "a b", "entry 1 needs a version for each of its libraries"),
        (
            "LIBRARIES",
            f"a==1 {HASH} b==1",
            "entry 1 needs a hash for each of its libraries, or none",
        ),
        ("JARS", "a", "entry 1 is not `group:artifact`"),
        ("JARS", "a:b:c:d", "entry 1 is not `group:artifact`"),
        ("JARS", "a:b:+", "entry 1 is not `group:artifact`"),
        ("JARS", "a:b:latest.release", "entry 1 is not `group:artifact`"),
        ("JARS", "a:b:1 sha256:0", "entry 1 is not `group:artifact`"),
        ("JARS", f"a:b {HASH}", "entry 1 needs a version with its hash"),
    ],
)
def test_an_entry_of_what_may_be_loaded_has_a_known_form(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str
) -> None:
    monkeypatch.setenv(f"TIDEMARK_EVENT_GROUP_{name}", value)
    with pytest.raises(InvalidInput) as rejected:
        Settings.load()
    assert f"TIDEMARK_EVENT_GROUP_{name}: {says}" in str(rejected.value)


def test_what_may_be_loaded_has_its_versions_and_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = f"Shop_Rules==1.2.0\n {HASH} shop-base==3 {HASH}"
    monkeypatch.setenv("TIDEMARK_EVENT_GROUP_LIBRARIES", f"plain, pinned==1, {entry}")
    monkeypatch.setenv("TIDEMARK_EVENT_GROUP_JARS", f"a:b, a:b:1.0-rc1 {HASH}")
    settings = Settings.load()
    plain, pinned, hashed = settings.event_group_allowed_libraries
    assert (plain.name, plain.version, plain.requirements) == ("plain", "", ())
    assert (pinned.version, pinned.requirements) == ("1", ("pinned==1",))
    assert (hashed.name, hashed.version) == ("shop-rules", "1.2.0")
    assert hashed.hashes == {"0" * 64}
    assert hashed.requirements == (f"Shop_Rules==1.2.0 {HASH}", f"shop-base==3 {HASH}")
    jars = [(jar.name, jar.version, len(jar.hashes)) for jar in settings.event_group_allowed_jars]
    assert jars == [("a:b", "", 0), ("a:b", "1.0-rc1", 1)]
