"""Creates kafka-journal's tables, and migrates those of older releases, as kafka-journal does.

The version of the tables is a row of `setting`. Tables are only changed under the lock of
kafka-journal's own table `locks`, since its replicators and clients do the same when they start.

Source: com.evolution.kafka.journal.eventual.cassandra.{SetupSchema, CreateSchema} (11.0.0) and
cassandra-sync.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tidemark import clock
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import (
    SCHEMA_DIR,
    create_keyspace,
    create_tables,
    identifier,
    table,
)
from tidemark.errors import LockHeld, SchemaMismatch
from tidemark.journals.kafka.tables import JOURNAL_WRITES, METAJOURNAL_WRITES, require_kafka_journal
from tidemark.settings import Settings

VERSION = 8
"""The index of the last migration."""
_COLUMNS = {
    0: ("journal", "headers", "map<text, text>"),
    1: ("journal", "version", "text"),
    4: ("journal", "meta_record_id", "uuid"),
    5: ("metajournal", "record_id", "uuid"),
}
"""The columns that migrations add. Migration 3 creates `pointer2`; the others drop old tables."""
_OLD_TABLES = ("metadata", "pointer")
_KEY = "schema-version"
_LOCK = "kafka-journal"
_LOCK_S = 60
_RETRY_S = 0.1
_MADE = {"kafka_journal_table": "journal", "kafka_metajournal_table": "metajournal"}


def prepare(control: Control, settings: Settings, *, origin: str, dry_run: bool = False) -> None:
    """Create the keyspace and its tables if they are missing; add what older releases lack.

    `origin` is recorded as the author of the change. A dry run changes nothing.

    Raises:
        SchemaMismatch: the tables are newer than this release, of a release that is too old, or not
            kafka-journal's.
        LockHeld: another process has been changing the tables for a minute.
    """
    version = None if dry_run else _version(control, settings)
    if not dry_run and version != VERSION:
        create_keyspace(control, settings.kafka_journal_keyspace, settings.replication)
        create_tables(
            control, SCHEMA_DIR / "kafka_journal_locks.cql", settings.kafka_journal_keyspace
        )
        with _locked(control, settings, origin):
            _migrate(control, settings, origin)
    require_kafka_journal(control, settings, JOURNAL_WRITES, METAJOURNAL_WRITES)


def _version(control: Control, settings: Settings) -> int | None:
    """Read the version of the tables; None if there is none.

    Raises:
        SchemaMismatch: the version is unknown here.
    """
    keyspace = settings.kafka_journal_keyspace
    if control.table_columns(keyspace, "setting") is None:
        return None
    rows = control.execute(f"SELECT value FROM {table(keyspace, 'setting')} WHERE key = ?", (_KEY,))
    if not rows:
        return None
    text = rows[0]["value"] or ""
    if not text.isdecimal() or int(text) > VERSION:
        raise SchemaMismatch(
            f"the schema version is {text!r}, and this release knows versions up to {VERSION}",
            where=f"{keyspace}.setting",
            do="use a release of Tidemark that knows it",
        )
    return int(text)


def _migrate(control: Control, settings: Settings, origin: str) -> None:
    # Another process may have migrated while this run waited for the lock.
    version = _version(control, settings)
    if version == VERSION:
        return
    keyspace = settings.kafka_journal_keyspace
    columns = {name: control.table_columns(keyspace, name) for name in _MADE.values()}
    _refuse_old_data(control, keyspace)
    for name, column, kind in _COLUMNS.values():
        existing = columns[name]
        if existing is not None and column not in existing:
            control.execute_ddl(
                f"ALTER TABLE {table(keyspace, name)} ADD {identifier(column)} {kind}"
            )
    if all(getattr(settings, setting) == name for setting, name in _MADE.items()):
        create_tables(control, SCHEMA_DIR / "kafka_journal.cql", keyspace)
    require_kafka_journal(control, settings, JOURNAL_WRITES, METAJOURNAL_WRITES)
    for name in _old_tables(control, keyspace):
        control.execute_ddl(f"DROP TABLE IF EXISTS {table(keyspace, name)}")
    control.execute(
        f"INSERT INTO {table(keyspace, 'setting')} (key, value, timestamp, origin)"
        " VALUES (?, ?, ?, ?)",
        (_KEY, str(VERSION), clock.now(), origin),
    )


def _old_tables(control: Control, keyspace: str) -> list[str]:
    """Return the tables that migrations drop, without another owner's: Pekko's `metadata`."""
    return [
        name
        for name in _OLD_TABLES
        if {"topic", "partition", "offset"} <= (control.table_columns(keyspace, name) or {}).keys()
    ]


def _refuse_old_data(control: Control, keyspace: str) -> None:
    """Refuse to drop rows that only releases before 4.0 can move.

    Raises:
        SchemaMismatch: a table that a migration drops has rows.
    """
    for name in _old_tables(control, keyspace):
        if control.execute(f"SELECT topic FROM {table(keyspace, name)} LIMIT 1"):
            raise SchemaMismatch(
                f"{name} has rows, and the next version of the tables is one without it",
                where=keyspace,
                do="let kafka-journal's own replicator of that time move them, or drop the table",
            )


@contextmanager
def _locked(control: Control, settings: Settings, origin: str) -> Iterator[None]:
    """Hold kafka-journal's lock, which expires by itself.

    Raises:
        LockHeld: another process still has it after a minute.
    """
    locks = table(settings.kafka_journal_keyspace, "locks")
    until = time.monotonic() + _LOCK_S
    while True:
        values = (_LOCK, _LOCK_S * 1000, clock.now(), origin, _LOCK_S)
        [(is_taken, holder)] = control.applied_everywhere(
            f"INSERT INTO {locks} (id, expiry_ms, timestamp, metadata) VALUES (?, ?, ?, ?)"
            " IF NOT EXISTS USING TTL ?",
            [values],
        )
        # A transaction that was sent twice finds its own row.
        if is_taken or holder.get("metadata") == origin:
            break
        if time.monotonic() > until:
            raise LockHeld(
                f"{_LOCK} is held by {holder.get('metadata')} since {holder.get('timestamp')}",
                where=f"{settings.kafka_journal_keyspace}.locks",
                do="wait for it to end; a lock of a process that died expires within a minute",
            )
        time.sleep(_RETRY_S)
    try:
        yield
    finally:
        control.applied_everywhere(f"DELETE FROM {locks} WHERE id = ? IF EXISTS", [(_LOCK,)])
