"""Settings: documented, typed, and refused all at once without repeating a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.errors import InvalidInput
from tidemark.partitioning.keys import BucketSize
from tidemark.settings import Settings, as_markdown

DOCS = Path(__file__).resolve().parents[2] / "docs" / "settings.md"


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
