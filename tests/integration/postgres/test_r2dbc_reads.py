"""Bulk reads of a journal in PostgreSQL, in ranges of slices and by key, and its preflight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from embedded.postgres.server import PostgresEndpoint
from tests.integration.postgres.databases import Database
from tests.integration.postgres.r2dbc_journal import START, R2dbcEvent, R2dbcJournal, event, marker
from tidemark.errors import InvalidInput, SchemaMismatch, outage_of
from tidemark.journals.r2dbc import frames, queries, snapshots, tables
from tidemark.journals.r2dbc.shapes import RANGES
from tidemark.partitioning import keys
from tidemark.partitioning.keys import SliceRange
from tidemark.partitioning.slice_ranges import ALL
from tidemark.postgres import jdbc
from tidemark.postgres.session import session
from tidemark.settings import Settings
from tidemark.spark.shapes import ddl
from tidemark.window import to_millis

START_MS = to_millis(START)
HOUR_MS = 3_600_000
DAY = (START_MS, START_MS + 24 * HOUR_MS)


@pytest.fixture
def plugin(
    database: Database, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> R2dbcJournal:
    made = R2dbcJournal(database, getattr(request, "param", 1))
    made.create()
    for name, value in made.variables().items():
        monkeypatch.setenv(name, value)
    return made


def events_of(frame: DataFrame) -> list[tuple[str, int]]:
    return sorted((row.persistence_id, row.sequence_nr) for row in frame.collect())


@pytest.mark.parametrize("plugin", [1, 4], indirect=True)
@pytest.mark.parametrize("ranges", [1, 4, 8])
def test_disjoint_ranges_of_slices_read_each_event_once(
    spark: SparkSession, plugin: R2dbcJournal, ranges: int
) -> None:
    written = [event(f"Alpha|p-{nr}", number, nr + number) for nr in range(40) for number in (1, 2)]
    written += [event(f"o'B|\\{nr}", 1, 60 * nr) for nr in range(5)]
    plugin.insert(*written, event("Alpha|later", 1, 24 * 3600), marker("Alpha|gone", 3, 1))
    width = keys.NUMBER_OF_SLICES // ranges
    parts = [
        SliceRange(first, first + width - 1) for first in range(0, keys.NUMBER_OF_SLICES, width)
    ]
    found = []
    for part in parts:
        frame = frames.events_between(spark, Settings(), *DAY, "event", slices=part)
        found += events_of(frame)
    assert sorted(found) == sorted((row.persistence_id, row.sequence_nr) for row in written)


def test_rows_have_the_columns_of_pekko(spark: SparkSession, plugin: R2dbcJournal) -> None:
    plugin.insert(event("Alpha|a", 1, 3600.123456, "red", "blue", n=1), marker("Alpha|b", 7, 1))
    plugin.insert(R2dbcEvent("Alpha|c", 1, 1, tags=()))
    payload = [name for name in queries.PAYLOAD if name != "writer_uuid"]
    rows = frames.rows_between(spark, Settings(), *DAY, *payload).orderBy("persistence_id")
    first, second, third = rows.collect()
    ticks = keys.UUID_EPOCH_TICKS + (START_MS * 1000 + 3_600_123_456) * 10
    assert (first.ticks, first.time_bucket) == (ticks, START_MS + HOUR_MS)
    assert first.timestamp == keys.ticks_timeuuid(ticks, clock_sequence=0, node=0)
    assert first.tags == ["red", "blue"]
    assert (first.ser_id, first.ser_manifest, bytes(first.event)) == (31, "", b'{"n": 1}')
    assert (first.event_manifest, first.meta_ser_id, first.deleted) == ("", None, False)
    assert (second.sequence_nr, second.deleted, second.tags) == (7, True, None)
    assert third.tags is None
    assert [tuple(row) for row in frames.deletions(rows).collect()] == [("Alpha|b", 7)]
    assert events_of(frames.events(rows)) == [("Alpha|a", 1), ("Alpha|c", 1)]


def test_a_time_range_excludes_its_end(spark: SparkSession, plugin: R2dbcJournal) -> None:
    plugin.insert(event("A|1", 1, -0.000001), event("A|1", 2, 0), event("A|1", 3, 3599.999999))
    plugin.insert(event("A|1", 4, 3600))
    hour = frames.events_between(spark, Settings(), START_MS, START_MS + HOUR_MS)
    assert events_of(hour) == [("A|1", 2), ("A|1", 3)]
    assert frames.events_between(spark, Settings(), *DAY, entity_types=["B"]).isEmpty()
    assert frames.events_between(spark, Settings(), START_MS, START_MS).isEmpty()


ODD = [
    """a'; DROP TABLE event_journal; --""",
    """\\'?{fn now()}:x%s%(y)s$1$$""",
    'b"c`d',
    "\N{PILE OF POO}\N{COMBINING DIAERESIS}\u2028\ud7ff\U0010ffff",
    "\x01\t\r\n ",
]


@pytest.mark.parametrize("plugin", [1, 4], indirect=True)
def test_odd_characters_are_data(spark: SparkSession, plugin: R2dbcJournal) -> None:
    ids = [f"{kind}|{'x' * 100}{kind}" for kind in ODD] + ["A|" + "\U0001f600" * 253]
    plugin.insert(*(event(pid, 1, 1) for pid in ids))
    for kind in ODD:
        found = frames.events_between(spark, Settings(), *DAY, entity_types=[kind])
        assert [pid.partition("|")[0] for pid, _ in events_of(found)] == [kind]
    assert events_of(frames.all_events(spark, Settings())) == sorted((pid, 1) for pid in ids)
    wanted = spark.createDataFrame([(pid, 1, 9) for pid in ids], ddl(RANGES))
    assert events_of(frames.rows_of(wanted, Settings())) == sorted((pid, 1) for pid in ids)


def test_times_far_away_and_at_microseconds(spark: SparkSession, plugin: R2dbcJournal) -> None:
    second = {
        "A|1": -60 * 365 * 86400 - 0.000001,
        "A|2": 20 * 365 * 86400 + 0.999999,
        "A|3": -START_MS / 1000,
        "A|4": -START_MS / 1000 - 0.000001,
    }
    plugin.insert(*(event(pid, 1, at) for pid, at in second.items()))
    plugin.database.execute("ALTER ROLE CURRENT_USER SET timezone = 'Asia/Kathmandu'")
    try:
        rows = frames.all_events(spark, Settings()).collect()
    finally:
        plugin.database.execute("ALTER ROLE CURRENT_USER RESET timezone")
    found = {row.persistence_id: (row.ticks, row.time_bucket, row.timestamp) for row in rows}
    wanted = {}
    for pid, at in second.items():
        micros = START_MS * 1000 + round(at * 1_000_000)
        ticks = keys.UUID_EPOCH_TICKS + micros * 10
        bucket = micros // 1000 - micros // 1000 % HOUR_MS
        wanted[pid] = (ticks, bucket, keys.ticks_timeuuid(ticks, clock_sequence=0, node=0))
    assert found == wanted


def test_names_of_tables_with_odd_characters(
    spark: SparkSession, plugin: R2dbcJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = """Ev'ent "J"?\\é"""
    plugin.insert(event("A|1", 1, 1), event("A|1", 2, 2))
    quoted = '"' + name.replace('"', '""') + '"'
    with plugin.database.session() as opened:
        opened.execute(f"ALTER TABLE event_journal RENAME TO {quoted}".encode())
    monkeypatch.setenv("TIDEMARK_R2DBC_JOURNAL_TABLE", name)
    tables.require_journal(Settings())
    assert events_of(frames.all_events(spark, Settings(), "event")) == [("A|1", 1), ("A|1", 2)]
    wanted = spark.createDataFrame([("A|1", 2, 9)], ddl(RANGES))
    assert events_of(frames.rows_of(wanted, Settings(), "event")) == [("A|1", 2)]
    assert frames.deleted(wanted.select("persistence_id"), Settings()).isEmpty()
    monkeypatch.setenv("TIDEMARK_R2DBC_JOURNAL_TABLE", "100%")
    with pytest.raises(InvalidInput, match="the name '100%' has a %"):
        tables.require_journal(Settings())


@pytest.mark.parametrize("plugin", [1, 4], indirect=True)
def test_rows_by_key(spark: SparkSession, plugin: R2dbcJournal) -> None:
    ids = [f"Alpha|p-{nr}" for nr in range(30)]
    plugin.insert(*(event(pid, number, 1) for pid in ids for number in range(1, 6)))
    plugin.delete_to(ids[0], 4, 99)
    wanted = [(pid, 2, 3) for pid in ids] + [("Alpha|absent", 1, 9)]
    ranges = spark.createDataFrame(wanted, "persistence_id string, first_nr bigint, last_nr bigint")
    found = frames.rows_of(ranges, Settings(), "event")
    assert events_of(found) == [(pid, number) for pid in sorted(ids[1:]) for number in (2, 3)]
    deleted = frames.deleted(ranges.select("persistence_id"), Settings())
    assert [tuple(row) for row in deleted.collect()] == [(ids[0], 4)]


def test_the_password_is_in_no_plan(
    spark: SparkSession, plugin: R2dbcJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin.insert(event("A|1", 1, 1))
    wanted = spark.createDataFrame([("A|1", 1, 9)], ddl(RANGES))
    password = plugin.database.endpoint.password
    assert password
    for frame in (
        frames.events_between(spark, Settings(), *DAY, "event"),
        frames.rows_of(wanted, Settings()),
    ):
        execution = frame._jdf.queryExecution()
        assert any(read in execution.toString() for read in ("event_journal", "MapInArrow"))
        assert password not in execution.toString()
        assert password not in execution.logical().toJSON()


@pytest.mark.parametrize("plugin", [1, 4], indirect=True)
def test_snapshots(spark: SparkSession, plugin: R2dbcJournal) -> None:
    plugin.insert_snapshot("Alpha|a", 3, 1, b"old")
    plugin.insert_snapshot("Alpha|a", 5, 2, b"new")
    plugin.insert_snapshot("Alpha|b", 1, 3, b"other")
    every = [("Alpha|a", 5, START_MS + 2000), ("Alpha|b", 1, START_MS + 3000)]
    index = snapshots.index(spark, Settings()).select("persistence_id", "snapshot_nr", "epoch_ms")
    assert sorted(tuple(row) for row in index.collect()) == every
    own = keys.slice_of("Alpha|b")
    of_slices = snapshots.index(spark, Settings(), slices=SliceRange(own, own))
    assert [row.persistence_id for row in of_slices.collect()] == ["Alpha|b"]
    wanted = spark.createDataFrame(
        [("Alpha|a", 5), ("Alpha|b", 9)], "persistence_id string, sequence_nr bigint"
    )
    assert [tuple(row) for row in snapshots.index(spark, Settings(), wanted).collect()]
    rows = snapshots.payloads(wanted, Settings()).collect()
    assert [(row.persistence_id, bytes(row.event)) for row in rows] == [("Alpha|a", b"new")]


@pytest.mark.parametrize("plugin", [1, 4], indirect=True)
def test_entity_types_and_times(plugin: R2dbcJournal) -> None:
    assert (frames.read_entity_types(Settings()), frames.read_times(Settings())) == ([], None)
    plugin.insert(*(event(f"{kind}|{nr}", 1, 5 + nr) for kind in "BCA" for nr in range(20)))
    plugin.insert(event("plain", 1, 99), event("Rep|p|R1", 1, 3.0015))
    # Of several entity types of one slice, none is skipped.
    of_same_slice = [
        pid for nr in range(9999) if keys.slice_of(pid := f"Z|{nr}") == keys.slice_of("A|0")
    ]
    plugin.insert(event(of_same_slice[0], 1, 6))
    assert frames.read_entity_types(Settings()) == ["", "A", "B", "C", "Rep", "Z"]
    assert frames.read_times(Settings()) == (START_MS + 3001, START_MS + 99_000)
    # The first and the last row are of one slice and entity type.
    plugin.insert(event("A|0", 2, 200), event("A|0", 3, 1))
    assert frames.read_times(Settings()) == (START_MS + 1000, START_MS + 200_000)


@pytest.mark.parametrize("plugin", [1, 4], indirect=True)
def test_pages_of_large_payloads_have_fewer_rows(plugin: R2dbcJournal) -> None:
    settings = Settings()
    assert frames._page_rows(settings, ["event"]) == 1000
    if plugin.partitions > 1:
        plugin.insert(*(event(f"B|{nr}", 1, 1) for nr in range(20)))
        large = plugin.table("A|1")
        plugin.database.execute(f"DELETE FROM {large}")
    plugin.insert(*(R2dbcEvent("A|1", nr, nr, b"x" * (1 << 20)) for nr in range(1, 4)))
    assert frames._page_rows(settings, ["event"]) == 16
    assert frames._page_rows(settings, []) == 1000


def _nodes(plan: Any) -> list[str]:
    return [plan["Node Type"], *(n for child in plan.get("Plans", []) for n in _nodes(child))]


def test_every_read_uses_an_index(plugin: R2dbcJournal) -> None:
    # So few rows that the planner would prefer to read them all, if it were free to choose.
    plugin.insert(*(event(f"A|{nr}", 1, nr) for nr in range(20)))
    plugin.database.execute("ANALYZE event_journal")
    settings = Settings()
    journal, ids = tables.journal_tables(settings), ["A|1", "A|2"]
    name = journal[0].name
    by_time = queries.between(journal, *DAY, ALL, ["A"], ["event"], with_markers=True, parts=4)
    statements: list[tuple[str, list[Any], str]] = [(by_time[0], [], queries.BY_INDEX)]
    statements += [
        (queries.by_key(name, ["event"]), [ids, [1, 1], [2, 2]], queries.BY_KEY),
        (queries.lowest(name), [ids], queries.BY_KEY),
        (queries.entity_types(name), [], queries.BY_INDEX),
        (queries.times(name), [], queries.BY_INDEX),
    ]
    for statement, values, options in statements:
        with session(tables.journal_connection(settings), options=options) as opened:
            explained = f"EXPLAIN (FORMAT JSON) {statement}".encode()
            row = opened.execute(explained, values or None).fetchone()
        assert row is not None
        nodes = _nodes(row[0][0]["Plan"])
        assert "Seq Scan" not in nodes
        assert any("Index" in node for node in nodes)


def test_a_whole_journal_passes(plugin: R2dbcJournal) -> None:
    tables.require_journal(Settings())
    tables.require_snapshots(Settings())


def test_an_unusable_journal_is_one_line(
    plugin: R2dbcJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = plugin.database.execute
    execute("DROP INDEX event_journal_slice_idx")
    with pytest.raises(SchemaMismatch, match=r"no index on slice, .* MiB") as failed:
        tables.require_journal(Settings())
    statement = failed.value.do.partition(";")[0]
    assert statement.startswith("CREATE INDEX CONCURRENTLY")
    for other in (
        "lower(writer), entity_type, db_timestamp)",
        "entity_type) INCLUDE (db_timestamp)",
        "db_timestamp, entity_type)",
        "entity_type, db_timestamp) WHERE NOT deleted",
    ):
        execute(f"CREATE INDEX other ON event_journal (slice, {other}")
        with pytest.raises(SchemaMismatch, match="no index on slice"):
            tables.require_journal(Settings())
        execute("DROP INDEX other")
    # What is left of an index that could not be built.
    plugin.insert(event("A|1", 1, 1), event("A|1", 2, 1))
    name, columns = "event_journal_slice_idx", "(slice, entity_type, db_timestamp)"
    with pytest.raises(psycopg.errors.UniqueViolation):
        execute(f"CREATE UNIQUE INDEX CONCURRENTLY {name} ON event_journal {columns}")
    with pytest.raises(SchemaMismatch, match=f"{name} .* is not complete") as unusable:
        tables.require_journal(Settings())
    execute("DELETE FROM event_journal WHERE seq_nr = 2")
    execute(unusable.value.do.rpartition(": ")[2])
    tables.require_journal(Settings())
    execute(f"DROP INDEX {name}")
    execute(statement)
    tables.require_journal(Settings())
    execute("ALTER TABLE event_journal DROP COLUMN tags, ALTER COLUMN seq_nr TYPE int")
    with pytest.raises(SchemaMismatch, match="seq_nr is integer and not bigint, tags is absent"):
        tables.require_journal(Settings())
    monkeypatch.setenv("TIDEMARK_R2DBC_JOURNAL_TABLE", "nowhere")
    with pytest.raises(SchemaMismatch, match=r"\.nowhere does not exist"):
        tables.require_journal(Settings())
    monkeypatch.setenv("TIDEMARK_R2DBC_DATA_PARTITIONS", "3")
    with pytest.raises(InvalidInput, match="3 data partitions cannot share 1024 slices"):
        tables.require_journal(Settings())


@pytest.mark.parametrize("plugin", [4], indirect=True)
def test_every_data_partition_is_required(plugin: R2dbcJournal) -> None:
    plugin.database.execute("DROP INDEX event_journal_3_slice_idx")
    with pytest.raises(SchemaMismatch, match=r"event_journal_3 has no index on slice"):
        tables.require_journal(Settings())
    plugin.database.execute("DROP TABLE event_journal_2")
    with pytest.raises(SchemaMismatch, match=r"event_journal_2 does not exist"):
        tables.require_journal(Settings())


@pytest.mark.parametrize("plugin", [1, 4], indirect=True)
def test_a_user_without_rights(
    plugin: R2dbcJournal, postgres: PostgresEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = plugin.database.schema
    role = f"r_{schema}"
    execute = plugin.database.execute
    execute(f"CREATE ROLE {role} LOGIN PASSWORD 'weak'")
    try:
        url = f"postgresql://{role}@{postgres.host}:{postgres.port}/{postgres.database}"
        monkeypatch.setenv("TIDEMARK_POSTGRES_JOURNAL_URL", url)
        monkeypatch.setenv("TIDEMARK_POSTGRES_JOURNAL_PASSWORD", "weak")
        refused = []
        for _ in range(1 + plugin.partitions):
            with pytest.raises(InvalidInput, match="may not read the") as failed:
                tables.require_journal(Settings())
            refused.append(failed.value.what.partition("may not read ")[2])
            execute(failed.value.do)
        names = [f"the table {table.name}" for table in tables.journal_tables(Settings())]
        assert refused == [f"the schema {schema}", *names]
        tables.require_journal(Settings())
        with pytest.raises(InvalidInput, match="may not read the table"):
            tables.require_snapshots(Settings())
    finally:
        execute(f"DROP OWNED BY {role}")
        execute(f"DROP ROLE {role}")


@dataclass(frozen=True)
class Case:
    """A case of a spec of akka-persistence-r2dbc, read with pages of four rows.

    Attributes:
        rows: the rows of the journal.
        after: seconds since START after which events are read, exclusive.
        wanted: the events that are read, by time and sequence nr; of equal ones in any order.
    """

    rows: Sequence[R2dbcEvent]
    wanted: Sequence[tuple[str, int]]
    after: float = -1


def _of(pid: str, numbers: range, seconds: float | None = None) -> list[R2dbcEvent]:
    return [event(pid, nr, nr if seconds is None else seconds) for nr in numbers]


def _keys(rows: Sequence[R2dbcEvent]) -> list[tuple[str, int]]:
    return [(row.persistence_id, row.sequence_nr) for row in rows]


_T1 = [*_of("o|A", range(1, 7), 1), *_of("o|B", range(3, 5), 1), *_of("o|C", range(3, 4), 1)]
CASES = {
    "EventsBySliceSpec: all 20 events for NoOffset": Case(
        _of("o|1", range(1, 21)), _keys(_of("o|1", range(1, 21)))
    ),
    "EventsBySliceSpec: only 11..20 after offset of #10": Case(
        _of("o|1", range(1, 21)), _keys(_of("o|1", range(11, 21))), after=10
    ),
    "EventsBySliceSpec: read 100 events in chunks, buffer 4": Case(
        _of("o|1", range(1, 101)), _keys(_of("o|1", range(1, 101)))
    ),
    "EventsBySliceSpec: 10 events on one timestamp": Case(
        _of("o|1", range(1, 11), 5), _keys(_of("o|1", range(1, 11)))
    ),
    "EventsBySliceSpec: 9 events on t1 from 3 persistence ids and 3 on t2": Case(
        [*_T1, *_of("o|D", range(1, 4), 2)],
        [
            *[("o|A", 1), ("o|A", 2), ("o|A", 3), ("o|B", 3), ("o|C", 3), ("o|A", 4), ("o|B", 4)],
            *[("o|A", 5), ("o|A", 6), ("o|D", 1), ("o|D", 2), ("o|D", 3)],
        ],
    ),
    "EventsBySliceBacktrackingSpec: buffer-size events on one timestamp": Case(
        [*_of("o|1", range(1, 5), 5), *_of("o|2", range(1, 2), 6)],
        [*_keys(_of("o|1", range(1, 5))), ("o|2", 1)],
    ),
    "EventsBySliceBacktrackingSpec: the same with two persistence ids": Case(
        [*_of("o|1", range(1, 8), 5), *_of("o|2", range(1, 4), 5), *_of("o|2", range(4, 5), 6)],
        [
            *[(pid, nr) for nr in range(1, 4) for pid in ("o|1", "o|2")],
            *[("o|1", 4), ("o|1", 5), ("o|1", 6), ("o|1", 7), ("o|2", 4)],
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_named_case(
    spark: SparkSession, plugin: R2dbcJournal, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(jdbc, "FETCH_ROWS", 4)
    case = CASES[name]
    plugin.insert(*case.rows)
    first_ms = START_MS + int(case.after * 1000) + 1
    read = frames.events_between(spark, Settings(), first_ms, DAY[1], "event")
    ordered = read.orderBy("ticks", "sequence_nr", "persistence_id").collect()
    assert [(row.persistence_id, row.sequence_nr) for row in ordered] == list(case.wanted)


def test_a_failed_job_is_an_outage_in_one_line(spark: SparkSession, plugin: R2dbcJournal) -> None:
    plugin.insert(event("A|1", 1, 1))
    ranges = spark.createDataFrame([("A|1", 1, 9)], ddl(RANGES))
    by_time = frames.events_between(spark, Settings(), *DAY, entity_types=["A"])
    by_key = frames.rows_of(ranges, Settings())
    plugin.database.execute("DROP TABLE event_journal")
    for frame in (by_time, by_key):
        with pytest.raises((Py4JJavaError, PySparkException)) as failed:
            frame.collect()
        outage = outage_of(failed.value)
        assert outage is not None
        assert "PostgreSQL failed a Spark job" in str(outage)
        assert "does not exist" in str(outage)
        assert "\n" not in str(outage)
