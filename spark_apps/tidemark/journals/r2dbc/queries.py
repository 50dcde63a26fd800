"""The SELECTs on the tables of akka-persistence-r2dbc, as text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from psycopg import sql

from tidemark.journals.r2dbc.tables import JournalTable
from tidemark.partitioning.keys import SliceRange
from tidemark.postgres.identifiers import TableName
from tidemark.window import from_millis

PAYLOAD = {
    "ser_id": ("event_ser_id", "int"),
    "ser_manifest": ("event_ser_manifest", "string"),
    "event": ("event_payload", "binary"),
    # Without an event adapter the plugin writes an empty text, other writers may write null.
    "event_manifest": ("coalesce(adapter_manifest, '')", "string"),
    "meta_ser_id": ("meta_ser_id", "int"),
    "meta_ser_manifest": ("meta_ser_manifest", "string"),
    "meta": ("meta_payload", "binary"),
    "writer_uuid": ("writer", "string"),
}
"""The column or expression, and Spark's type, of each payload column in Pekko's names."""
_KEY = {
    "persistence_id": ("persistence_id", "string"),
    "sequence_nr": ("seq_nr", "bigint"),
    "micros": ("(extract(epoch FROM db_timestamp) * 1000000)::bigint", "bigint"),
    "tags": ("tags", "array<string>"),
    "slice": ("slice", "int"),
    "entity_type": ("entity_type", "string"),
    "deleted": ("deleted", "boolean"),
}
_SAMPLED = 16
_LEAST_MS = 3_600_000
"""A shorter time range is divided by slices only."""
KEYS_OF_A_STATEMENT = 5000
"""Ranges of sequence nrs that one statement reads."""
BY_INDEX = "-c enable_seqscan=off"
"""Options of sessions that read by an index, whatever the planner thinks of the statistics."""
BY_KEY = f"{BY_INDEX} -c enable_hashjoin=off -c enable_mergejoin=off"


def columns(payload: Sequence[str]) -> dict[str, str]:
    """Return Spark's types of the rows, by column; the time is in `micros`."""
    return {name: kind for name, (_, kind) in _expressions(payload).items()}


def between(
    tables: Sequence[JournalTable],
    first_ms: int,
    end_ms: int,
    slices: SliceRange,
    entity_types: Sequence[str],
    payload: Sequence[str],
    *,
    with_markers: bool,
    parts: int,
) -> list[str]:
    """Return the queries that together read the rows of a time range once, by the slice index.

    The time range is [first_ms, end_ms) in epoch ms. It is divided into about `parts` queries: by
    time, since rows of one time are near each other in the table; a short one by slices.
    """
    types = sql.SQL(", ").join(map(sql.Literal, entity_types)).as_string(None)
    events = "" if with_markers else " AND NOT deleted"
    ours = [(table, _common(table.slices, slices)) for table in tables]
    tasks = max(parts // sum(common is not None for _, common in ours), 1)
    times = _divided(first_ms, end_ms, min(tasks, max((end_ms - first_ms) // _LEAST_MS, 1)))
    return [
        f"SELECT {_select(payload)} FROM {table.name.quoted}"
        f" WHERE slice IN ({', '.join(map(str, range(first, end)))}) AND entity_type IN ({types})"
        f" AND db_timestamp >= {_moment(first_of_part)} AND db_timestamp < {_moment(end_of_part)}"
        f"{events}"
        for table, common in ours
        if common is not None
        for first_of_part, end_of_part in times
        for first, end in _divided(common.first, common.last + 1, max(tasks // len(times), 1))
    ]


def payload_size(table: TableName) -> str:
    """Return the query of the average size of some payloads, in bytes; null without events."""
    return (
        "SELECT avg(octet_length(event_payload))::float8 FROM"
        f" (SELECT event_payload FROM {table.quoted} WHERE NOT deleted LIMIT {_SAMPLED}) AS s"
    )


def by_key(table: TableName, payload: Sequence[str]) -> str:
    """Return the statement that reads the rows of ranges of sequence nrs by the primary key.

    It has three parameters: the persistence ids, the first and the last sequence nrs, as arrays.
    """
    return (
        f"SELECT {_select(payload)} FROM"
        " unnest(%s::text[], %s::bigint[], %s::bigint[]) AS k(id, first_nr, last_nr)"
        f" JOIN {table.quoted} ON persistence_id = k.id"
        " AND seq_nr BETWEEN k.first_nr AND k.last_nr"
    )


def lowest(table: TableName) -> str:
    """Return the statement that reads the first row of persistence ids, a parameter (an array)."""
    return (
        "SELECT k.id, r.seq_nr, r.deleted FROM unnest(%s::text[]) AS k(id) CROSS JOIN LATERAL"
        f" (SELECT seq_nr, deleted FROM {table.quoted} WHERE persistence_id = k.id"
        " ORDER BY seq_nr LIMIT 1) AS r"
    )


def predecessors(table: TableName) -> str:
    """Return the statement that reads the row before each of some sequence nrs.

    It has two parameters: the persistence ids and the sequence nrs, as arrays.
    """
    return (
        f"SELECT k.id, k.nr, r.seq_nr, {_KEY['micros'][0].replace('db_', 'r.db_')}, r.deleted"
        " FROM unnest(%s::text[], %s::bigint[]) AS k(id, nr) CROSS JOIN LATERAL"
        f" (SELECT seq_nr, db_timestamp, deleted FROM {table.quoted}"
        " WHERE persistence_id = k.id AND seq_nr < k.nr ORDER BY seq_nr DESC LIMIT 1) AS r"
    )


def outside(table: JournalTable) -> list[str]:
    """Return the queries of the rows whose slice is none of their table, by the slice index."""
    select = f"SELECT {_select(())} FROM {table.name.quoted} WHERE slice"
    return [f"{select} < {table.slices.first}", f"{select} > {table.slices.last}"]


def clock() -> str:
    """Return the query of the server's time in epoch ms."""
    return f"SELECT {_epoch_ms('clock_timestamp()')}"


def snapshots(table: TableName, slices: SliceRange) -> str:
    """Return the query of the numbers and times of all snapshots, by a scan."""
    return (
        f"SELECT persistence_id, seq_nr AS snapshot_nr, write_timestamp AS epoch_ms"
        f" FROM {table.quoted} WHERE slice BETWEEN {slices.first} AND {slices.last}"
    )


def snapshots_by_id(table: TableName, *, with_payload: bool) -> str:
    """Return the statement that reads the snapshots of persistence ids, a parameter (an array)."""
    payload = ", ser_id, ser_manifest, snapshot" if with_payload else ""
    return (
        f"SELECT persistence_id, seq_nr, write_timestamp{payload}"
        f" FROM unnest(%s::text[]) AS k(id) JOIN {table.quoted} ON persistence_id = k.id"
    )


def entity_types(table: TableName) -> str:
    """Return the query of the entity types of a table, which visits each of them in each slice."""
    name, order = table.quoted, "ORDER BY slice, entity_type LIMIT 1"
    return (
        "WITH RECURSIVE pairs AS ("
        f"(SELECT slice, entity_type FROM {name} {order}) UNION ALL"
        " SELECT n.slice, n.entity_type FROM pairs p CROSS JOIN LATERAL"
        f" (SELECT slice, entity_type FROM {name}"
        f" WHERE (slice, entity_type) > (p.slice, p.entity_type) {order}) AS n)"
        " SELECT DISTINCT entity_type FROM pairs"
    )


def times(table: TableName) -> str:
    """Return the query of the first and the last row's time (epoch ms), by the slice index."""
    name = table.quoted
    pairs = entity_types(table).replace("SELECT DISTINCT entity_type FROM pairs", "")
    of_pair = f"FROM {name} WHERE slice = p.slice AND entity_type = p.entity_type"
    return (
        f"{pairs}SELECT {_epoch_ms('min(l.first)')}, {_epoch_ms('max(l.last)')} FROM pairs p"
        f" CROSS JOIN LATERAL (SELECT (SELECT db_timestamp {of_pair} ORDER BY db_timestamp LIMIT 1)"
        f" AS first, (SELECT db_timestamp {of_pair} ORDER BY db_timestamp DESC LIMIT 1) AS last)"
        " AS l"
    )


def _expressions(payload: Sequence[str]) -> dict[str, tuple[str, str]]:
    return {**_KEY, **{name: PAYLOAD[name] for name in payload}}


def _select(payload: Sequence[str]) -> str:
    return ", ".join(
        expression if expression == name else f"{expression} AS {name}"
        for name, (expression, _) in _expressions(payload).items()
    )


def _epoch_ms(moment: str) -> str:
    return f"floor(extract(epoch FROM {moment}) * 1000)::bigint"


def _moment(epoch_ms: int) -> str:
    return f"TIMESTAMPTZ '{from_millis(epoch_ms).isoformat(timespec='milliseconds')}'"


def _common(table: SliceRange, slices: SliceRange) -> SliceRange | None:
    first, last = max(slices.first, table.first), min(slices.last, table.last)
    return SliceRange(first, last) if first <= last else None


def _divided(first: int, end: int, parts: int) -> list[tuple[int, int]]:
    """Divide a range of whole numbers into at most that many parts, none of which is empty."""
    bounds = [first + (end - first) * part // parts for part in range(parts + 1)]
    return [(low, high) for low, high in pairwise(bounds) if low < high]
