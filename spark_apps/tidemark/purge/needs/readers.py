"""External readers: their registrations, and how far their offsets can be trusted.

A row that cannot be used holds back everything that it may mean, and is reported.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from uuid import UUID

from tidemark import clock
from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import table
from tidemark.journals.pekko.series import epoch_ms
from tidemark.partitioning import keys
from tidemark.partitioning.keys import BucketSize
from tidemark.purge.needs.pekko_offsets import PekkoOffset, pekko_offsets
from tidemark.purge.plan import ReaderNeed
from tidemark.settings import Settings
from tidemark.window import iso

TABLE = "external_reader"
STALE = timedelta(days=1)
"""A reader whose row is older is reported: it may no longer exist."""
BEGINNING = -(2**63)


class ReaderSource(StrEnum):
    """The kind of data that a reader reads."""

    TAG = "tag"
    MESSAGES = "messages"
    TOPIC = "topic"
    NOTHING = "nothing"


@dataclass(frozen=True)
class Reader:
    """One row: what a reader reads, and how far it has come.

    Attributes:
        name: of the reader.
        source: what it reads; None if the row does not say.
        of: the tag or the topic.
        persistence_id: the only persistence id that the row is about; empty for all.
        offset: everything up to its time is consumed.
        sequence_nr: everything of the persistence id up to it is consumed.
        kafka_offsets: the records of each Kafka partition up to it are consumed.
        updated_at: when it last moved.
        problem: why its consumed events are unknown; empty if they are known.
        is_declared: whether it has a row of its own, and not only one in Pekko's offset store.
    """

    name: str
    source: ReaderSource | None
    of: str = ""
    persistence_id: str = ""
    offset: UUID | None = None
    sequence_nr: int | None = None
    kafka_offsets: Mapping[int, int] = field(default_factory=dict)
    updated_at: datetime | None = None
    problem: str = ""
    is_declared: bool = True

    @property
    def reads(self) -> str:
        """What it reads, for people."""
        what = "everything" if self.source is None else f"{self.source} {self.of}".strip()
        return f"{what} of {self.persistence_id}" if self.persistence_id else what

    def begin(self, size: BucketSize) -> int:
        """Return the first time bucket (epoch ms) that it may still read.

        Pekko's reader by tag looks back to the bucket before that of its offset
        (docs/real-systems.md, "How a reader reads"), so that bucket is needed, too.
        """
        if self.offset is None:
            return BEGINNING
        return keys.time_bucket(epoch_ms(self.offset), size) - size.milliseconds


def readers_of(
    control: Control, settings: Settings, given_up: Collection[str] = ()
) -> list[Reader]:
    """Read the readers of the journal and of kafka-journal's keyspace, without those given up.

    An undeclared Pekko projection reads the tag that its key names: this is the convention of its
    users, and its offset store has no more information.
    """
    stored = pekko_offsets(control, settings)
    rows = [
        row
        for keyspace in dict.fromkeys((settings.journal_keyspace, settings.kafka_journal_keyspace))
        for row in control.execute(
            "SELECT journal_keyspace, reader, source, name, persistence_id, offset, sequence_nr,"
            f" kafka_offsets, pekko_projection, updated_at FROM {table(settings.keyspace, TABLE)}"
            " WHERE journal_keyspace = ?",
            (keyspace,),
        )
        # A journal and kafka-journal may share a keyspace, or not.
        if (row["source"] == ReaderSource.TOPIC) == (keyspace == settings.kafka_journal_keyspace)
        or settings.journal_keyspace == settings.kafka_journal_keyspace
    ]
    readers = [reader_of(row, stored) for row in rows]
    declared = {(row["pekko_projection"], row["persistence_id"] or row["name"]) for row in rows}
    without_need = {reader.name for reader in readers if reader.source is ReaderSource.NOTHING}
    readers += [
        undeclared(offset) for offset in stored if (offset.projection, offset.key) not in declared
    ]
    ignored = without_need.union(given_up)
    return [reader for reader in readers if reader.name not in ignored]


def forget(control: Control, settings: Settings, readers: Sequence[Reader]) -> None:
    """Delete the rows of readers; record that a Pekko projection without a row needs nothing.

    Pekko's offset store is not changed.
    """
    name = table(settings.keyspace, TABLE)
    for reader in readers:
        keyspace = (
            settings.kafka_journal_keyspace
            if reader.source is ReaderSource.TOPIC
            else settings.journal_keyspace
        )
        if reader.is_declared:
            control.execute(
                f"DELETE FROM {name} WHERE journal_keyspace = ? AND reader = ?",
                (keyspace, reader.name),
            )
    for reader_name in sorted({reader.name for reader in readers if not reader.is_declared}):
        control.execute(
            f"INSERT INTO {name} (journal_keyspace, reader, source, name, persistence_id,"
            " updated_at) VALUES (?, ?, ?, '', '', ?)",
            (settings.journal_keyspace, reader_name, ReaderSource.NOTHING, clock.now()),
        )


def reader_of(row: Row, stored: Iterable[PekkoOffset]) -> Reader:
    """Read a row of the table, and check it; `stored` are the rows of Pekko's offset store."""
    updated_at = row["updated_at"]
    reader = Reader(
        row["reader"],
        ReaderSource(row["source"]) if row["source"] in list(ReaderSource) else None,
        row["name"],
        row["persistence_id"],
        row["offset"],
        row["sequence_nr"],
        dict(row["kafka_offsets"] or {}),
        updated_at.replace(tzinfo=UTC) if updated_at else None,
    )
    if reader.source is not None and row["pekko_projection"]:
        reader = _with_pekko_offset(reader, row["pekko_projection"], stored)
    return replace(reader, problem=reader.problem or _problem(reader))


def undeclared(offset: PekkoOffset) -> Reader:
    """Return the reader that a row of Pekko's offset store stands for."""
    return Reader(
        offset.projection,
        ReaderSource.TAG,
        offset.key,
        offset=offset.time,
        updated_at=offset.updated_at,
        problem="" if offset.time else f"its offset is no time ({offset.manifest})",
        is_declared=False,
    )


def tag_needs(readers: Iterable[Reader], size: BucketSize) -> list[ReaderNeed]:
    """Return the needs of readers of tag views: everything from a time bucket on."""
    return [
        ReaderNeed(
            reader.name,
            frozenset([reader.of]) if reader.source is ReaderSource.TAG and reader.of else None,
            frozenset(),
            begin=BEGINNING if reader.problem else reader.begin(size),
        )
        for reader in readers
        if reader.source in (ReaderSource.TAG, None)
    ]


def lines(readers: Sequence[Reader], known_tags: Collection[str] = ()) -> list[str]:
    """Return lines on readers that hold back everything, that are stale, or that mean nothing.

    `known_tags` are the tags that have rows.
    """
    reports, now = [], clock.now()
    for reader in readers:
        give_up = f"if it is gone for good, `purge.py --give-up {reader.name} --apply`"
        if not reader.is_declared and reader.of not in known_tags:
            reports.append(
                f"{reader.name} of Pekko's offset store holds nothing back: its key {reader.of!r}"
                " is no tag; if it reads this journal, declare what (docs/readers.md)"
            )
        elif reader.problem:
            reports.append(
                f"{reader.name} holds back all of {reader.reads}: {reader.problem}; {give_up}"
            )
        elif reader.updated_at is None or now - reader.updated_at > STALE:
            since = iso(reader.updated_at) if reader.updated_at else "an unknown time"
            reports.append(
                f"{reader.name} holds back {reader.reads} and has not moved since {since};"
                f" {give_up}"
            )
    return reports


def _with_pekko_offset(reader: Reader, projection: str, stored: Iterable[PekkoOffset]) -> Reader:
    key = reader.persistence_id or reader.of
    row = next((row for row in stored if (row.projection, row.key) == (projection, key)), None)
    if row is None:
        return replace(
            reader, problem=f"Pekko's offset store has no key {key!r} of projection {projection}"
        )
    return replace(reader, offset=row.time, sequence_nr=row.number, updated_at=row.updated_at)


def _problem(reader: Reader) -> str:
    """Return why a row does not show what is consumed; empty if it does."""
    if reader.source is None:
        return f"its source is none of {', '.join(ReaderSource)}"
    if reader.source is ReaderSource.NOTHING:
        return ""
    if reader.source in (ReaderSource.TAG, ReaderSource.TOPIC) and not reader.of:
        return f"it names no {reader.source}"
    if reader.source is ReaderSource.TAG:
        is_known = reader.offset is not None and not reader.persistence_id
    elif reader.persistence_id:
        is_known = reader.sequence_nr is not None
    elif reader.source is ReaderSource.TOPIC:
        is_known = bool(reader.kafka_offsets)
    else:
        is_known = reader.offset is not None
    return "" if is_known else "it has registered no offset of its kind"
