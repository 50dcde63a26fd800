"""Replaces the content of held records, so that `replay` can replicate what was unreadable.

Kafka keeps the original. The new content is stored in quarantine, and everything that reads the
topic takes it from there.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Base64Bytes, BaseModel, ConfigDict, ValidationError

from tidemark.application.guarded_change import EnsureLocked, Plan, guarded_change
from tidemark.cassandra.schema import create_own_tables, table
from tidemark.context import Outcome, RunContext, RunState
from tidemark.errors import InvalidInput
from tidemark.journals.kafka import tables
from tidemark.journals.kafka.wire.decode import row
from tidemark.journals.kafka.wire.record import Record
from tidemark.ledger.locks import Locks
from tidemark.replicate.kafka.topics import TopicPartition, Topics
from tidemark.replicate.quarantined import TABLE, Quarantined
from tidemark.settings import Settings

_NAMED = 20
_LONGEST = 16 * 1024
"""Most characters of a shown record: a report is one value in Cassandra and in Airflow."""
_OF_PARTITION = "journal_keyspace = ? AND topic = ? AND partition = ? AND state = ?"


class _Value(BaseModel):
    """Bytes, as text or in base64; neither if there are none."""

    model_config = ConfigDict(extra="forbid")
    value: str | None = None
    value_base64: Base64Bytes | None = None

    @property
    def octets(self) -> bytes | None:
        return self.value_base64 if self.value is None else self.value.encode()


class _Header(_Value):
    key: str


class HeldRecord(_Value):
    """A record as `held` prints it, one JSON object a line, and `mend` reads it."""

    topic: str
    partition: int
    offset: int
    id: str
    cause: str | None = None
    headers: list[_Header]

    @property
    def topic_partition(self) -> TopicPartition:
        """Return its topic partition."""
        return TopicPartition(self.topic, self.partition)

    def stored_headers(self) -> str:
        """Return the headers as quarantine stores them."""
        return json.dumps(
            [
                {"key": h.key}
                | ({} if h.octets is None else {"value": base64.b64encode(h.octets).decode()})
                for h in self.headers
            ]
        )


def run_held(
    run: RunContext, topics: Sequence[str], ids: Sequence[str], save: Path | None
) -> Outcome:
    """Show the unreadable held records of topics and keys, with their present content.

    All topics with the prefix, and all keys, if empty. All of the records are also written to the
    file `save`, one JSON object a line.

    Raises:
        InvalidInput: a topic does not exist, or the file cannot be written.
    """
    create_own_tables(run.control, run.settings)
    records, lines = _held_records(run, Topics(run.settings).partitions(topics), ids), []
    number = 0
    try:
        with save.open("x") if save else nullcontext() as file:
            for number, record in enumerate(records, 1):
                text = json.dumps(record.model_dump(mode="json", exclude_none=True))
                if number <= _NAMED:
                    is_short = len(text) <= _LONGEST
                    lines.append(text if is_short else _too_long(record, len(text)))
                if file:
                    file.write(f"{text}\n")
    except OSError as error:
        message = f"the records cannot be saved: {error.strerror}"
        raise InvalidInput(message, where=str(save), do="name another file") from None
    if number > _NAMED:
        lines.append(f"and {number - _NAMED:,} more; name keys, or save all to a file")
    return Outcome(RunState.PLANNED, counts={"records_held": number}, lines=lines)


def _too_long(record: HeldRecord, length: int) -> str:
    at = f"{record.topic_partition} offset {record.offset} of {record.id}"
    return f"{at}: {record.cause}; {length:,} characters, save it to a file to see and mend it"


def _held_records(
    run: RunContext, partitions: Iterable[TopicPartition], ids: Sequence[str]
) -> Iterator[HeldRecord]:
    for partition in partitions:
        stored = run.control.stream(
            "SELECT id, offset, cause, value, headers, mended_value, mended_headers"
            f" FROM {table(run.settings.keyspace, TABLE)} WHERE {_OF_PARTITION}",
            _partition_key(run.settings, partition),
        )
        for record in stored:
            if record["cause"] is not None and (not ids or record["id"] in ids):
                yield _shown(partition, record)


def _shown(partition: TopicPartition, stored: dict[str, Any]) -> HeldRecord:
    is_mended = stored["mended_headers"] is not None
    value, headers = (
        stored[f"mended_{name}" if is_mended else name] for name in ("value", "headers")
    )
    texts = [
        {"key": h["key"], **_as_text(base64.b64decode(h["value"]) if "value" in h else None)}
        for h in json.loads(headers)
    ]
    position = {"topic": partition.topic, "partition": partition.partition}
    fields = {name: stored[name] for name in ("offset", "id", "cause")}
    return HeldRecord.model_validate({**position, **fields, "headers": texts, **_as_text(value)})


def _as_text(octets: bytes | None) -> dict[str, str]:
    if octets is None:
        return {}
    try:
        return {"value": octets.decode()}
    except UnicodeDecodeError:
        return {"value_base64": base64.b64encode(octets).decode()}


def parse(file: Path) -> list[HeldRecord]:
    """Read records, one JSON object a line.

    Raises:
        InvalidInput: the file cannot be read, or a line is not a record.
    """
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"cannot be read: {error}",
            where=str(file),
            do="name a file that `held --save` has written",
        ) from None
    records = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            records.append(HeldRecord.model_validate_json(line))
        except ValidationError as error:
            first = error.errors()[0]
            at = ".".join(map(str, first["loc"])) or "the line"
            raise InvalidInput(
                f"{at}: {first['msg']}",
                where=f"{file}:{number}",
                do="write one record a line, as held does",
            ) from None
    return records


@dataclass(frozen=True)
class _Mended:
    """A record with its new content, and a description of its action."""

    record: HeldRecord
    action: str


def run_mend(run: RunContext, records: Sequence[HeldRecord], *, do: bool) -> Outcome:
    """Show which records would get a new content, or write it.

    Raises:
        InvalidInput: a record is not held, or its new content is unreadable, too.
        LockHeld: another run works on a topic partition.
    """
    settings = run.settings
    create_own_tables(run.control, settings)
    resource = tables.lock_of(settings)
    partitions = sorted({record.topic_partition for record in records})
    return guarded_change(
        run,
        "mend",
        settings.kafka_journal_keyspace,
        lambda: _plan(run, records),
        lock=lambda: Locks.of(run, [f"{resource}/{partition}" for partition in partitions]),
        apply=do,
    )


def _plan(run: RunContext, records: Sequence[HeldRecord]) -> Plan:
    changed = [m for record in records if (m := _with_new_content(run, record))]
    counts = {"records_mended": len(changed), "records_unchanged": len(records) - len(changed)}
    lines = [
        f"{m.record.topic_partition} offset {m.record.offset} of {m.record.id}: {m.action}"
        for m in changed[:_NAMED]
    ]
    if len(changed) > _NAMED:
        lines.append(f"and {len(changed) - _NAMED} more")
    if not changed:
        return Plan(counts, ["no record has another content than before"], None)

    def apply(ensure_locked: EnsureLocked) -> dict[str, int]:
        ensure_locked()
        _write(run, [m.record for m in changed])
        return counts

    return Plan(counts, lines, apply)


def _with_new_content(run: RunContext, record: HeldRecord) -> _Mended | None:
    """Return a record if its content is new; None if it is not."""
    settings = run.settings
    where = f"{record.topic_partition} offset {record.offset} of {record.id}"
    rows = run.control.execute(
        "SELECT id, offset, cause, key, timestamp, value, headers, mended_value, mended_headers"
        f" FROM {table(settings.keyspace, TABLE)} WHERE {_OF_PARTITION} AND id = ? AND offset = ?",
        (*_partition_key(settings, record.topic_partition), record.id, record.offset),
    )
    if not rows:
        raise InvalidInput("no such record is held", where=where, do="see replicate.py held")
    [stored] = rows
    if _shown(record.topic_partition, stored).model_copy(update={"cause": record.cause}) == record:
        return None
    headers = [(header.key, header.octets) for header in record.headers]
    decoded = row(Record(stored["key"], stored["timestamp"], headers, record.octets))
    if "cause" in decoded:
        raise InvalidInput(
            f"the new content cannot be read: {decoded['cause']}", where=where, do="mend it"
        )
    if not decoded:
        raise InvalidInput(
            "kafka-journal passes over a record like this",
            where=where,
            do="replay with --skip, or give it a header journal.action",
        )
    numbers = [event["seq_nr"] for event in decoded.get("events", ())]
    of = f" of seq_nr {', '.join(map(str, numbers))}" if numbers else ""
    to = f" to {decoded['to']}" if decoded.get("to") is not None else ""
    return _Mended(record, f"{decoded['action']}{of}{to}")


def _write(run: RunContext, records: Iterable[HeldRecord]) -> None:
    settings = run.settings
    run.control.execute_many(
        f"UPDATE {table(settings.keyspace, TABLE)} SET mended_value = ?, mended_headers = ?"
        f" WHERE {_OF_PARTITION} AND id = ? AND offset = ?",
        [
            (
                record.octets,
                record.stored_headers(),
                *_partition_key(settings, record.topic_partition),
                record.id,
                record.offset,
            )
            for record in records
        ],
    )


def _partition_key(settings: Settings, partition: TopicPartition) -> tuple[object, ...]:
    state = Quarantined.HELD.value
    return settings.kafka_journal_keyspace, partition.topic, partition.partition, state
