"""The file of journals: which settings a journal has, and which it can never have of another."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import hypothesis.strategies as st
import pytest
import yaml
from hypothesis import given, settings

from tests import schemas
from tidemark.command_line import program as command_line
from tidemark.errors import TidemarkError
from tidemark.installation import program
from tidemark.settings import Settings
from tidemark.status import overview, rules
from tidemark.user_files import journals
from tidemark.user_files.directory import require_directory
from tidemark.user_files.journals import JournalEntry, Journals

REQUIRED = {"journal-keyspace": "orders", "keyspace": "tidemark_orders", "bucket-size": "Day"}
VALUES: dict[str, tuple[str, object]] = {
    "cassandra-hosts": ("c1:9042,c2:9042", "c1:9042,c2:9042"),
    "cassandra-username": ("reader", "reader"),
    "cassandra-local-dc": ("dc1", "dc1"),
    "kafka-bootstrap-servers": ("k:9092", "k:9092"),
    "events-by-tag-first-time-bucket": ("20200101T00:00", "20200101T00:00"),
    "events-by-tag-eventual-consistency-delay": ("7.5", 7.5),
    "r2dbc-connection": ("orders_db", "orders_db"),
    "r2dbc-data-partitions": ("8", 8),
    "r2dbc-delay": ("2.5", 2.5),
    "kafka-topic-prefix": ("orders", "orders"),
    "kafka-journal-zone": ("Europe/Berlin", "Europe/Berlin"),
}
"""Values of the keys whose form is not that of a name, a number or a path: as text, and read."""
PATHS = ("retention-file", "tagging-dir", "checks-dir", "projections-dir")
SETTINGS = sorted(
    key for key, name in ((name.replace("_", "-"), name) for name in JournalEntry.model_fields)
    if name not in journals.OF_AIRFLOW
)  # fmt: skip


def file_of(directory: Path, **entries: object) -> Path:
    file = directory / "journals.yaml"
    file.write_text(yaml.safe_dump({"journals": entries}, sort_keys=False))
    return file


def loaded(file: Path, journal: str, **variables: str) -> Settings:
    """Return the settings of a journal in an environment that has no others of Tidemark."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("TIDEMARK_")}
    chosen = {"TIDEMARK_JOURNALS_FILE": str(file), "TIDEMARK_JOURNAL": journal}
    with patch.dict(os.environ, {**plain, **chosen, **variables}, clear=True):
        return Settings.load()


def written(key: str) -> tuple[object, object]:
    """Return a value for a key of an entry, and that value as a setting."""
    if key in VALUES:
        return VALUES[key]
    if key == "bucket-size":
        return "Minute", "MINUTE"
    default = Settings.model_fields[key.replace("-", "_")].default
    return (12345, 12345) if isinstance(default, int) else (f"my_{key.replace('-', '_')}"[:48],) * 2


@pytest.mark.parametrize("key", SETTINGS)
def test_each_key_of_an_entry_is_the_setting_of_its_name(tmp_path: Path, key: str) -> None:
    value, expected = written(key)
    file = file_of(tmp_path, orders={**REQUIRED, key: value})
    setting = getattr(loaded(file, "orders"), key.replace("-", "_"))
    if key in PATHS:
        assert setting == tmp_path / str(value)
    else:
        assert getattr(setting, "name", setting) == expected


def test_an_entry_has_its_own_files_and_keyspaces_by_default(tmp_path: Path) -> None:
    journal = loaded(file_of(tmp_path, orders=REQUIRED), "orders")
    directory = tmp_path / "journals" / "orders"
    assert journal.projections_dir == directory / "sql" / "projections"
    assert journal.tagging_dir == directory / "sql" / "tagging"
    assert journal.checks_dir == directory / "sql" / "checks"
    assert journal.retention_file == directory / "retention.yaml"
    assert journal.snapshot_keyspace == journal.kafka_journal_keyspace == "orders"


ENTRY = st.fixed_dictionaries(
    {},
    optional={
        key: st.just(written(key)[0])
        for key in SETTINGS
        if key not in REQUIRED and "keyspace" not in key
    },
)


@settings(max_examples=30, deadline=None)
@given(entries=st.tuples(ENTRY, ENTRY), variables=ENTRY)
def test_no_journal_has_a_setting_of_another(
    tmp_path_factory: pytest.TempPathFactory,
    entries: tuple[dict[str, Any], dict[str, Any]],
    variables: dict[str, Any],
) -> None:
    """A journal has the same settings whatever the other entries and the variables are."""
    directory = tmp_path_factory.mktemp("journals")
    alone = [
        {**entry, **{key: f"{value}_{number}" for key, value in REQUIRED.items()},
         "bucket-size": "Day", "projections-dir": f"projections-{number}"}
        for number, entry in enumerate(entries)
    ]  # fmt: skip
    environment = {
        f"TIDEMARK_{key.replace('-', '_').upper()}": str(value)
        for key, value in variables.items()
        if key.replace("-", "_") not in journals.CONNECTION
    }
    for number, entry in enumerate(alone):
        expected = loaded(file_of(directory, **{f"j{number}": entry}), f"j{number}")
        both = file_of(directory, j0=alone[0], j1=alone[1])
        assert loaded(both, f"j{number}", **environment) == expected
    assert loaded(both, "default", **environment) == loaded(
        directory / "none.yaml", "default", **environment
    ).model_copy(update={"journals_file": both})


def test_what_is_of_no_single_journal_stays_that_of_the_environment(tmp_path: Path) -> None:
    file = file_of(tmp_path, orders=REQUIRED)
    variables = {
        "TIDEMARK_LOCK_TTL": "90",
        "TIDEMARK_CASSANDRA_HOSTS": "c9:9042",
        "TIDEMARK_CASSANDRA_PASSWORD": "hidden",
    }
    journal = loaded(file, "orders", **variables)
    assert (journal.lock_ttl, journal.cassandra_hosts) == (90, "c9:9042")
    assert journal.cassandra_password.get_secret_value() == "hidden"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bucket-sizes": "Day"}, r"unknown key bucket-sizes \(.*:6:5\); write bucket-size"),
        ({"cassandra-password": "hunter2"}, r"unknown key cassandra-password \(.*:6:5\)"),
        ({"lock-ttl": 90}, r"unknown key lock-ttl \(.*:6:5\)"),
        ({"retention-days": 0}, r"retention-days cannot be '0' \(.*:6:21\); write at least 1"),
        ({"keyspace": "no spaces"}, r"keyspace cannot be 'no spaces' .*not a name"),
        ({"kafka-journal-zone": "Mars"}, "TIDEMARK_KAFKA_JOURNAL_ZONE: not a time zone .* the"
         " entry of the journal orders"),
        ({"keyspace": "tidemark"}, r"default has the keyspace tidemark, too \(.*:4:15\); give"),
        ({"keyspace": "pekko"}, "default has the keyspace pekko, too"),
    ],
)  # fmt: skip
def test_an_entry_that_cannot_be_used_is_one_line(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    file = file_of(tmp_path, orders={**REQUIRED, **change})
    with pytest.raises(TidemarkError, match=message) as refused:
        loaded(file, "orders")
    assert "\n" not in str(refused.value)
    assert "hunter2" not in str(refused.value)
    assert refused.value.exit_status == 2


def test_a_key_that_an_entry_needs_is_named(tmp_path: Path) -> None:
    for key in REQUIRED:
        entry = {name: value for name, value in REQUIRED.items() if name != key}
        with pytest.raises(TidemarkError, match=f"{key} is missing"):
            loaded(file_of(tmp_path, orders=entry), "orders")


OTHER = {"journal-keyspace": "carts", "keyspace": "tidemark_carts", "bucket-size": "Hour"}


@pytest.mark.parametrize(
    "shared",
    [
        {"keyspace": "tidemark_orders"},
        {"journal-keyspace": "orders"},
        {"snapshot-keyspace": "orders"},
        {"projections-dir": "journals/orders/sql/projections"},
    ],
)
def test_the_later_of_two_journals_that_share_something_is_refused(
    tmp_path: Path, shared: dict[str, str]
) -> None:
    """With one keyspace a run would take the locks or the findings of the other for its own."""
    file = file_of(tmp_path, orders=REQUIRED, carts={**OTHER, **shared})
    assert loaded(file, "orders").journal_keyspace == "orders"
    with pytest.raises(TidemarkError, match=r"the journal orders has the .*, too"):
        loaded(file, "carts")
    elsewhere = {**OTHER, **shared, "cassandra-connection": "cassandra_carts"}
    loaded(file_of(tmp_path, orders=REQUIRED, carts=elsewhere), "carts")


def test_a_wrong_entry_stops_only_its_own_journal(tmp_path: Path) -> None:
    file = file_of(tmp_path, wrong={"bucket": 1}, listed=[1], orders=REQUIRED)
    assert loaded(file, "orders").keyspace == "tidemark_orders"
    assert loaded(file, "default").keyspace == "tidemark"
    for name in ("wrong", "listed"):
        with pytest.raises(TidemarkError):
            loaded(file, name)


def test_a_journal_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(TidemarkError, match=r"there is no journal cart .* one of default, orders"):
        loaded(file_of(tmp_path, orders=REQUIRED), "cart")
    with pytest.raises(TidemarkError, match="no such file, so no journal orders"):
        loaded(tmp_path / "none.yaml", "orders")
    assert loaded(tmp_path / "none.yaml", "default").journal == "default"


def test_a_command_for_users_has_the_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert program("tag-write") == "spark_apps/tag_write.py"
    monkeypatch.setenv("TIDEMARK_JOURNAL", "orders")
    assert program("tag-write") == "TIDEMARK_JOURNAL=orders spark_apps/tag_write.py"


@pytest.mark.parametrize("option", [(), ("--journal", "carts")])
def test_the_command_chooses_the_journal_of_its_option(
    monkeypatch: pytest.MonkeyPatch, option: tuple[str, ...]
) -> None:
    chosen: list[str] = []
    application = SimpleNamespace(start=lambda: chosen.append(os.environ["TIDEMARK_JOURNAL"]))
    monkeypatch.setattr("importlib.import_module", lambda name: application)
    monkeypatch.setenv("TIDEMARK_JOURNAL", "orders")
    monkeypatch.setattr(sys, "argv", ["tidemark", *option, "tag-write", "--dry-run"])
    with pytest.raises(SystemExit):
        command_line.main()
    assert chosen == [*option[1:], "orders"][:1]


def test_status_knows_the_schedule_and_the_dags_of_the_journal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = file_of(tmp_path, orders={**REQUIRED, "cadence": "hourly", "chain": "one-dag"})
    monkeypatch.setenv("TIDEMARK_JOURNALS_FILE", str(file))
    monkeypatch.setenv("TIDEMARK_CADENCE", "off")
    assert journals.scheduled("cadence", "daily") == "off"
    assert journals.scheduled("chain", "three-dags") == "three-dags"
    assert overview.dag_ids(is_one_dag=False)[rules.TAG_VIEWS] == "tag_write"
    monkeypatch.setenv("TIDEMARK_JOURNAL", "orders")
    assert journals.scheduled("cadence", "daily") == "hourly"
    assert journals.scheduled("chain", "three-dags") == "one-dag"
    assert overview.dag_ids(is_one_dag=True)[rules.TAG_VIEWS] == "chain.orders"


def test_a_directory_that_is_missing_is_set_in_the_entry(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TIDEMARK_JOURNAL", "orders")
    with pytest.raises(TidemarkError, match="set tagging-dir of the journal orders to the dir"):
        require_directory(tmp_path / "none", "TIDEMARK_TAGGING_DIR", "the tag rules")


def test_every_setting_of_an_entry_is_one_and_the_dags_have_the_same_schema() -> None:
    assert journals.of_settings() | journals.CONNECTION <= set(Settings.model_fields)
    copy = (schemas.PLUGIN / "journals.schema.json").read_text()
    assert copy == schemas.text(Journals), "run `make schemas`"
