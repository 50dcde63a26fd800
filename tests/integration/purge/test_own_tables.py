"""What purge deletes of persistence ids that no longer exist, and of numbers skipped by hand.

Each persistence id has left a trace in one table only, or in none.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from embedded.postgres.server import PostgresEndpoint
from tests.integration.postgres.databases import new_schema
from tests.integration.postgres.read_models import READ_MODELS
from tests.integration.project.projections import TOTALS, TOTALS_TABLE, Projections
from tests.integration.project.test_sources import LOG, LOG_TABLE
from tests.integration.support import Journal
from tests.integration.tag_write.test_tag_write import message
from tidemark.cassandra.schema import SCHEMA_DIR, create_tables, table
from tidemark.partitioning.keys import slice_of
from tidemark.postgres.connections import connection
from tidemark.project.postgres.place import PostgresPlace, make_own_tables
from tidemark.purge.own_tables.skipped import NUMBERS, OFFSETS, SKIPS, unneeded
from tidemark.spark.local_rows import local_rows

NOW = datetime.now(UTC)
OLD, YOUNG = NOW - timedelta(days=100), NOW - timedelta(days=1)
KEPT = ("event", "deleted", "listed", "snapshot", "tagged", "young", "mixed")
"""Persistence ids that are somewhere, by a row of one table, or of which something is young."""
POLICIES = """\
policies:
  - {name: tails, target: tails, keep-days: 90}
  - {name: offsets, target: offsets, keep-days: 90}
  - {name: skipped, target: skipped, keep-days: 90}
"""


@pytest.fixture
def journal(make_journal: Callable[..., Journal], tmp_path: Path) -> Journal:
    """Return a journal with traces of persistence ids, and three projections of three sources."""
    (tmp_path / "retention.yaml").write_text(POLICIES)
    journal = make_journal(
        PROJECTIONS_DIR=str(tmp_path), RETENTION_FILE=str(tmp_path / "retention.yaml")
    )
    names = ("TIDEMARK_KAFKA_JOURNAL_KEYSPACE", "TIDEMARK_SNAPSHOT_KEYSPACE")
    journal.environment = {**journal.environment, **dict.fromkeys(names, journal.keyspace)}
    for tables in ("kafka_journal.cql", "pekko_snapshot.cql"):
        create_tables(journal.control, SCHEMA_DIR / tables, journal.keyspace)
    projections = Projections(journal, tmp_path)
    projections.define(TOTALS, TOTALS_TABLE, file="totals.sql")
    projections.define(LOG, LOG_TABLE, file="log.sql")
    journal.insert("messages", [message("event", 7, 1, set())])
    journal.insert("metadata", [{"persistence_id": "deleted", "deleted_to": 3}])
    journal.insert("all_persistence_ids", [{"persistence_id": "listed"}])
    journal.insert("snapshots", [{"persistence_id": "snapshot", "sequence_nr": 3, "timestamp": 1}])
    tagged = message("tagged", 3, 1, set())
    row = {name: tagged[name] for name in ("persistence_id", "sequence_nr", "timestamp", "event")}
    view = {**row, "tag_name": "red", "timebucket": 1_709_254_800_000, "tag_pid_sequence_nr": 3}
    journal.insert("tag_views", [view])
    head = {"topic": "orders", "segment": 1, "id": "headed", "seq_nr": 3}
    journal.insert("metajournal", [head])
    journal.insert("journal", [{**head, "id": "eventful", "timestamp": OLD}])
    return journal


def put(journal: Journal, name: str, row: dict[str, Any], at: datetime | None = None) -> None:
    columns, marks = ", ".join(row), ", ".join("?" * len(row))
    using = "" if at is None else f" USING TIMESTAMP {int(at.timestamp() * 1_000_000)}"
    journal.control.execute(
        f"INSERT INTO {journal.own_keyspace}.{name} ({columns}) VALUES ({marks}){using}",
        list(row.values()),
    )


def put_offset(journal: Journal, projection: str, pid: str, at: datetime, tag: str = "") -> None:
    key = {"projection": f"{journal.keyspace}/{projection}", "slice": slice_of(pid)}
    number = {"sequence_nr": 3, "tag_pid_sequence_nr": 3, "consumed_at": at}
    put(journal, "projection_offset", {**key, "persistence_id": pid, "tag": tag, **number})


def ids(journal: Journal, name: str, projection: str = "") -> set[str]:
    return {
        row["persistence_id"]
        for row in journal.own_rows(name)
        if not projection or row["projection"] == f"{journal.keyspace}/{projection}"
    }


@pytest.mark.long
def test_tails_and_offsets_of_ids_that_are_nowhere_go(journal: Journal) -> None:
    def remember(pid: str, tag: str, at: datetime) -> None:
        key = {"journal_keyspace": journal.keyspace, "persistence_id": pid, "sequence_nr": 3}
        put(journal, "validate_tail", {**key, "tag": tag}, at)
        put(journal, "tag_write_tail", {**key, "series": 1}, at)
        put_offset(journal, "totals", pid, at, tag)

    for pid in (*KEPT, "gone"):
        remember(pid, "red", YOUNG if pid == "young" else OLD)
    remember("mixed", "blue", YOUNG)
    other = {"journal_keyspace": "other", "persistence_id": "gone", "tag": "red"}
    put(journal, "validate_tail", {**other, "sequence_nr": 3}, OLD)
    # Of a topic only what is in kafka-journal counts.
    for pid in ("headed", "eventful", "event"):
        put_offset(journal, "log", pid, OLD)
    put_offset(journal, "without-file", "gone", OLD)

    planned = journal.run("purge", "--explain")
    assert planned.status == 0, planned.stderr
    assert "keep-days: 90, from " in planned.stdout
    assert (
        "validate_tail: deletes state of 1 persistence ids that no longer exist" in planned.stdout
    )
    assert "gone" in ids(journal, "projection_offset", "totals")
    applied = journal.run("purge", "--apply")
    assert applied.status == 0, applied.stderr
    counts = applied.report["counts"]
    assert (counts["tail_deletes"], counts["offset_deletes"]) == (2, 2)
    assert (counts["partitions_deleted"], counts["ranges_deleted"]) == (2, 2)
    assert {
        row["persistence_id"]
        for row in journal.own_rows("validate_tail")
        if row["journal_keyspace"] == journal.keyspace
    } == set(KEPT)
    assert "gone" in ids(journal, "validate_tail")
    assert ids(journal, "tag_write_tail") == set(KEPT)
    assert ids(journal, "projection_offset", "totals") == set(KEPT)
    assert ids(journal, "projection_offset", "log") == {"headed", "eventful"}
    assert ids(journal, "projection_offset", "without-file") == {"gone"}
    assert journal.run("purge", "--apply").report["state"] == "nothing-to-do"


def test_offsets_in_postgres_of_ids_that_are_nowhere_go(
    journal: Journal, tmp_path: Path, postgres: PostgresEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in postgres.environment().items():
        monkeypatch.setenv(name, value)
    with new_schema(postgres) as database:
        definition = READ_MODELS["upsert"].of_postgres(database)
        Projections(journal, tmp_path).define(definition, file="latest.sql")
        subject = f"{journal.keyspace}/latest"
        server = connection(journal.settings(), "embedded")
        make_own_tables(PostgresPlace(server, database.schema, "latest", subject))
        database.execute(
            "INSERT INTO tidemark_projection (projection, definition_version)"
            " VALUES (%s, 1), ('other', 1)",
            subject,
        )
        for projection, pid, at in (
            *((subject, pid, YOUNG if pid == "young" else OLD) for pid in ("event", "young")),
            *((name, pid, OLD) for name in (subject, "other") for pid in ("gone", "lost")),
        ):
            database.execute(
                "INSERT INTO tidemark_projection_offset SELECT projection_id, %s, %s, '', 3, NULL,"
                " NULL, %s, NULL FROM tidemark_projection WHERE projection = %s",
                *(slice_of(pid), pid, at, projection),
            )
        database.execute(
            "INSERT INTO tidemark_projection_fence (projection_id, first_slice, last_slice, owner)"
            " SELECT projection_id, 0, 1023, 'asleep' FROM tidemark_projection"
        )
        offsets = (
            "SELECT projection, persistence_id FROM tidemark_projection_offset"
            " JOIN tidemark_projection USING (projection_id) ORDER BY 2, 1"
        )
        stored = database.rows(offsets)
        planned = journal.run("purge", "--policy", "offsets")
        assert planned.status == 0, planned.stderr
        assert f"offsets of {subject}: 2 persistence ids that are nowhere" in planned.stdout
        assert database.rows(offsets) == stored
        applied = journal.run("purge", "--policy", "offsets", "--apply")
        assert applied.status == 0, applied.stderr
        assert applied.report["counts"]["offset_deletes"] == 2
        assert set(database.rows(offsets)) == {
            *((subject, pid) for pid in ("event", "young")),
            *(("other", pid) for pid in ("gone", "lost")),
        }
        # A run that was suspended, and whose lock purge has, would write their offsets again.
        owners = "SELECT projection FROM tidemark_projection_fence JOIN tidemark_projection"
        assert database.rows(f"{owners} USING (projection_id)") == [("other",)]
        tables = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        assert not [name for (name,) in database.rows(tables) if "staging" in name]
        assert {row["application"] for row in journal.own_rows("audit")} == {"purge"}


@pytest.mark.long
def test_skips_go_that_no_projection_can_meet_again(journal: Journal) -> None:
    def skip(projection: str, pid: str, first: int, at: datetime, tag: str = "") -> None:
        key = {"projection": f"{journal.keyspace}/{projection}", "persistence_id": pid, "tag": tag}
        numbers = {"first_number": first, "last_number": first + 1, "skipped_at": at}
        put(journal, "projection_skipped", {**key, **numbers})

    skip("totals", "gone", 1, OLD, "red")
    skip("totals", "gone", 5, YOUNG, "red")
    # Number 3 is there, so what lies before it goes, and what includes it stays.
    skip("totals", "tagged", 1, OLD, "red")
    skip("totals", "tagged", 3, OLD, "red")
    skip("log", "headed", 1, OLD)
    skip("log", "eventful", 2, OLD)
    for projection, pid, tag in (("totals", "tagged", "red"), ("log", "eventful", "")):
        put_offset(journal, projection, pid, YOUNG, tag)
    applied = journal.run("purge", "--apply", "--policy", "skipped")
    assert applied.status == 0, applied.stderr
    assert applied.report["counts"]["skipped_deletes"] == 2
    rows = journal.own_rows("projection_skipped")
    left = {(row["persistence_id"], row["first_number"]) for row in rows}
    # Of `headed` no event is left, but the projection has not come so far.
    assert left == {("gone", 5), ("tagged", 3), ("headed", 1), ("eventful", 2)}
    assert applied.report["counts"]["rows_deleted"] == 2


def test_event_groups_that_ended_long_ago_go_with_all_that_is_theirs(
    journal: Journal, tmp_path: Path
) -> None:
    policies = "policies: [{name: groups, target: event-groups, keep-days: 90}]"
    (tmp_path / "retention.yaml").write_text(policies)
    for sequence, (name, ended) in enumerate([("old", OLD), ("young", YOUNG), ("stuck", None)]):
        group = {"stream": "s", "id": name}
        of_group = {"stream": "s", "group_id": name, "event": "e"}
        put(journal, "event_group", {**group, "sequence": sequence, "ended_at": ended})
        put(journal, "event_group_order", {**group, "sequence": sequence}, ended)
        put(journal, "group_event", of_group, ended)
        put(journal, "before_image", {**of_group, "number": 0}, ended)
        many = {**of_group, "kind": "result"}
        put(journal, "named_result_size", {**many, "parts": 2}, ended)
        for part in range(2):
            put(journal, "named_result", {**many, "part": part, "id": "i"}, ended)
    assert journal.run("purge").report["counts"]["event_groups_deleted"] == 0
    result = journal.run("purge", "--apply")
    assert result.report["counts"]["event_groups_deleted"] == 1, result.stderr
    for name in ("event_group", "event_group_order"):
        assert {row["id"] for row in journal.own_rows(name)} == {"young", "stuck"}
    for name in ("group_event", "before_image", "named_result", "named_result_size"):
        assert {row["group_id"] for row in journal.own_rows(name)} == {"young", "stuck"}


def test_the_newest_group_of_a_stream_stays_while_an_earlier_one_is_open(
    journal: Journal, tmp_path: Path
) -> None:
    """Else the next one gets its place, of which a run has kept that it has ended."""
    policies = "policies: [{name: groups, target: event-groups, keep-days: 90}]"
    (tmp_path / "retention.yaml").write_text(policies)
    ended = {"stuck": None, "old": OLD, "newest": OLD}
    for sequence, (name, time) in enumerate(ended.items(), start=1):
        group = {"stream": "s", "id": name, "sequence": sequence}
        put(journal, "event_group", {**group, "ended_at": time})
        put(journal, "event_group_order", group, time)
    assert journal.run("purge", "--apply").report["counts"]["event_groups_deleted"] == 1
    assert {row["id"] for row in journal.own_rows("event_group")} == {"stuck", "newest"}
    settled = {"stream": "s", "id": "stuck", "sequence": 1, "ended_at": OLD}
    put(journal, "event_group", settled)
    put(journal, "event_group_order", {"stream": "s", "sequence": 1, "id": "stuck"}, OLD)
    put(journal, "event_group_order", {"stream": "s", "sequence": 1, "open_from": 4})
    assert journal.run("purge", "--apply").report["counts"]["event_groups_deleted"] == 2
    assert journal.own_rows("event_group") == []


def test_the_place_of_another_group_stays(journal: Journal, tmp_path: Path) -> None:
    """A submission that died has a number whose place another group has taken."""
    policies = "policies: [{name: groups, target: event-groups, keep-days: 90}]"
    (tmp_path / "retention.yaml").write_text(policies)
    for name, time in {"died": OLD, "other": None}.items():
        group = {"stream": "s", "id": name, "sequence": 1, "ended_at": time}
        put(journal, "event_group", group)
    put(journal, "event_group_order", {"stream": "s", "sequence": 1, "id": "other"})
    put(journal, "event_group_order", {"stream": "s", "sequence": 2, "id": "newest"})
    assert journal.run("purge", "--apply").report["counts"]["event_groups_deleted"] == 1
    assert {row["id"] for row in journal.own_rows("event_group")} == {"other"}
    assert {row["id"] for row in journal.own_rows("event_group_order")} == {"other", "newest"}


def test_reports_expire_by_themselves(journal: Journal) -> None:
    name = table(journal.own_keyspace, "run")
    for days in (7, 0):
        run_id = journal.run("purge", KEEP_REPORTS_DAYS=str(days)).report["run_id"]
        [row] = journal.control.execute(
            f"SELECT TTL(report) AS left FROM {name} WHERE run_id = ?", (run_id,)
        )
        assert row["left"] == (pytest.approx(days * 86_400, abs=3600) if days else None)


@pytest.mark.long
def test_old_ranges_of_offsets_go_but_for_the_newest(journal: Journal, tmp_path: Path) -> None:
    policies = "policies: [{name: ranges, target: offset-ranges, keep-days: 90}]"
    (tmp_path / "retention.yaml").write_text(policies)
    ended: dict[tuple[str, int], list[datetime | None]] = {
        ("all old", 0): [OLD, OLD, OLD],
        ("all old", 1): [OLD, YOUNG, OLD, YOUNG],
        ("begun", 0): [OLD, OLD, None],
        ("one", 0): [OLD],
    }
    for (topic, partition), times in ended.items():
        for number, at in enumerate(times):
            key = {"journal_keyspace": "k", "topic": topic, "partition": partition}
            own = {"number": number * 10, "finished_at": at}
            put(journal, "offset_range", {**key, **own})
    assert journal.run("purge").report["counts"]["offset_ranges_deleted"] == 0
    assert len(journal.own_rows("offset_range")) == 11
    result = journal.run("purge", "--apply")
    assert result.report["counts"]["offset_ranges_deleted"] == 5, result.stderr
    left: dict[tuple[str, int], list[int]] = {}
    for row in journal.own_rows("offset_range"):
        left.setdefault((row["topic"], row["partition"]), []).append(row["number"])
    assert left == {
        ("all old", 0): [20],
        ("all old", 1): [30, 20, 10],
        ("begun", 0): [20],
        ("one", 0): [0],
    }
    assert journal.run("purge", "--apply").report["state"] == "nothing-to-do"


def test_a_skip_is_needed_until_it_is_passed_and_nothing_before_it_is_left(
    spark: SparkSession,
) -> None:
    skips = [("p", "", first, first + 1) for first in (1, 3, 5)]
    # Is the persistence id gone, the offset, the first number left: which skips go.
    cases: list[tuple[bool, int | None, int | None, list[int]]] = [
        (False, None, None, []),
        (False, 4, None, [1, 3]),
        (False, 9, None, [1, 3, 5]),
        (False, 9, 4, [1]),
        (False, 9, 5, [1, 3]),
        (False, 3, 5, [1]),
        (True, None, None, [1, 3, 5]),
        (True, 1, None, [1, 3, 5]),
    ]

    def frame(shape: dict[str, str], rows: list[tuple[Any, ...]]) -> Any:
        return local_rows(spark, rows, ", ".join(f"{name} {kind}" for name, kind in shape.items()))

    for is_gone, offset, first_left, expected in cases:
        found = unneeded(
            frame(dict(SKIPS), skips),
            frame(dict(NUMBERS), [] if first_left is None else [("p", "", first_left)]),
            frame(dict(OFFSETS), [] if offset is None else [("p", "", offset)]),
            frame({"persistence_id": "string"}, [("p",)] if is_gone else []),
        )
        assert sorted(row.first_number for row in found.collect()) == expected, (offset, first_left)
