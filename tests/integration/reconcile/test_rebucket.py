"""The operation rebucket of reconcile: a copy in another bucket size, cell for cell."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.integration.pekko_journals import DAY_MS, HOUR_MS, epoch_ms, tag_rows, write_as_pekko
from tests.integration.project.projections import LATEST, LATEST_TABLE
from tests.integration.reconcile.test_delete import state, three_ids
from tests.integration.support import Journal, Result, pekko_sample, wait_until
from tests.integration.tag_write.test_tag_write import START, message, window

MINUTE_MS = 60_000
SIZES = {"Minute": MINUTE_MS, "Hour": HOUR_MS, "Day": DAY_MS}
KEYS = ("tag_name", "timebucket", "timestamp", "persistence_id", "tag_pid_sequence_nr")
START_OF_DAY = message("", 0, 0, set())["timestamp"]
NEW = {"EVENTS_BY_TAG_TABLE": "tag_views_day", "BUCKET_SIZE": "Day"}


@pytest.fixture
def written(journal: Journal) -> Journal:
    write_as_pekko(journal, three_ids())
    return journal


def planned(journal: Journal, *arguments: str, **variables: str) -> Result:
    return journal.run("reconcile", "rebucket", *arguments, **variables)


def rebucket(journal: Journal, *arguments: str, **variables: str) -> Result:
    return planned(journal, *arguments, "--apply", **variables)


def rebucketed(journal: Journal, *arguments: str, **variables: str) -> dict[str, int]:
    result = rebucket(journal, *arguments, **variables)
    assert result.status == 0, result.stderr
    counts: dict[str, int] = result.report["counts"]
    return counts


def in_size(rows: list[Any], bucket_ms: int) -> list[Any]:
    """Return the rows under other time buckets, in the order of `Journal.rows`."""
    moved = [
        {**row, "timebucket": epoch_ms(row["timestamp"]) // bucket_ms * bucket_ms} for row in rows
    ]
    return sorted(moved, key=lambda row: str(sorted(row.items())))


def an_event(journal: Journal, number: int, hours: float) -> dict[str, Any]:
    """Write another event of a|1 to messages, and return its tag-view row as Pekko makes it."""
    event = message("a|1", number, hours, {"red"})
    journal.insert("messages", [event])
    [row] = tag_rows([event], HOUR_MS)
    return {**row, "tag_pid_sequence_nr": number}


def hours_since_start() -> float:
    """Return the hours from START to now."""
    return (datetime.now(UTC) - START) / timedelta(hours=1)


def schema(journal: Journal, table: str) -> tuple[list[Any], dict[str, Any]]:
    """Return columns and options of a table, without its name and id."""
    where = " WHERE keyspace_name = ? AND table_name = ?"
    values = (journal.keyspace, table)
    columns = journal.control.execute(f"SELECT * FROM system_schema.columns{where}", values)
    [options] = journal.control.execute(f"SELECT * FROM system_schema.tables{where}", values)
    for row in (*columns, options):
        del row["table_name"]
    del options["id"]
    return columns, options


@pytest.mark.parametrize(
    ("source", "to"), [("Hour", "Day"), ("Hour", "Minute"), ("Day", "Hour"), ("Minute", "Day")]
)
def test_every_row_is_copied_cell_by_cell(
    make_journal: Callable[..., Journal], source: str, to: str
) -> None:
    journal = make_journal(BUCKET_SIZE=source)
    write_as_pekko(journal, three_ids(), SIZES[source])
    before = state(journal)
    rows = len(before["tag_views"])
    expected = {"rows_copied": rows, "rows_deleted": 0, "rows_verified": rows}
    assert rebucketed(journal, "--to", to) == expected
    assert journal.rows(f"tag_views_{to.lower()}") == in_size(before["tag_views"], SIZES[to])
    assert state(journal) == before


def test_rows_of_the_real_plugin_stay_as_they_are(journal: Journal) -> None:
    """The metadata columns are set on a row and unset on the others."""
    sample = pekko_sample()["tag_views"]
    metadata = {"meta": b"\x00m", "meta_ser_id": 7, "meta_ser_manifest": "m"}
    journal.insert("tag_views", [{**sample[0], **metadata}, *sample[1:]])
    rebucketed(journal, "--to", "Day")
    assert journal.rows("tag_views_day") == in_size(journal.rows("tag_views"), DAY_MS)


def test_dry_run_is_the_default_and_says_how_to_switch(written: Journal) -> None:
    before = state(written)
    plan = planned(written, "--to", "Day")
    assert plan.report["state"] == "planned"
    for line in (
        'pekko.persistence.cassandra.events-by-tag.table = "tag_views_day"',
        'pekko.persistence.cassandra.events-by-tag.bucket-size = "Day"',
        "TIDEMARK_EVENTS_BY_TAG_TABLE=tag_views_day TIDEMARK_BUCKET_SIZE=Day",
    ):
        assert line in plan.stdout
    assert written.control.table_columns(written.keyspace, "tag_views_day") is None
    assert state(written) == before
    [audited] = written.own_rows("audit")
    assert (audited["operation"], audited["dry_run"]) == ("rebucket", True)
    assert rebucketed(written, "--to", "Day")["rows_copied"] == plan.report["counts"]["rows_copied"]


@pytest.mark.long
def test_the_new_table_has_the_options_and_columns_of_the_old_one(written: Journal) -> None:
    alter = f"ALTER TABLE {written.keyspace}.tag_views"
    written.control.execute_ddl(f"{alter} ADD note text")
    written.control.execute_ddl(f"{alter} ADD marks map<text, int>")
    written.control.execute_ddl(
        f"{alter} WITH default_time_to_live = 8640000 AND comment = 'the user''s own'"
        " AND compaction = {'class': 'UnifiedCompactionStrategy'}"
    )
    [row, *_] = written.rows("tag_views")
    written.insert("tag_views", [{**row, "note": "kept", "marks": {"a": 1}}])
    rebucketed(written, "--to", "Day")
    assert schema(written, "tag_views_day") == schema(written, "tag_views")
    assert written.rows("tag_views_day") == in_size(written.rows("tag_views"), DAY_MS)


@pytest.mark.long
def test_rows_keep_the_time_that_they_have_left_to_live(journal: Journal) -> None:
    journal.control.execute_ddl(
        f"ALTER TABLE {journal.keyspace}.tag_views WITH default_time_to_live = 8640000"
    )
    insert = (
        f"INSERT INTO {journal.keyspace}.tag_views ({', '.join(KEYS)}, sequence_nr)"
        " VALUES (?, ?, ?, 'p', 1, 1) USING TTL ?"
    )
    for tag, ttl in (("short", 5000), ("default", 8640000), ("for ever", 0)):
        values = (tag, epoch_ms(START_OF_DAY), START_OF_DAY, ttl)
        journal.control.execute(insert, values)
    rebucketed(journal, "--to", "Day")
    left = {
        row["tag_name"]: row["left"]
        for row in journal.control.execute(
            f"SELECT tag_name, ttl(sequence_nr) AS left FROM {journal.keyspace}.tag_views_day"
        )
    }
    assert left["for ever"] is None
    assert 4000 < left["short"] <= 5000
    assert 8639000 < left["default"] <= 8640000


def test_run_again_catches_up(written: Journal) -> None:
    rebucketed(written, "--to", "Day")
    assert rebucket(written, "--to", "Day").report["state"] == "nothing-to-do"
    rows = written.rows("tag_views")
    late, changed, gone = an_event(written, 13, 1.5), rows[3], rows[5]
    written.insert("tag_views", [late, {**changed, "event": b"updated", "meta": b"new"}])
    written.control.execute(
        f"DELETE FROM {written.keyspace}.tag_views WHERE tag_name = ? AND timebucket = ?"
        " AND timestamp = ?",
        (gone["tag_name"], gone["timebucket"], gone["timestamp"]),
    )
    counts = rebucketed(written, "--to", "Day", "--recheck")
    assert counts == {"rows_copied": 2, "rows_deleted": 2, "rows_verified": len(rows)}
    assert written.rows("tag_views_day") == in_size(written.rows("tag_views"), DAY_MS)
    written.insert("tag_views", [changed])
    written.control.execute(
        f"DELETE meta FROM {written.keyspace}.tag_views WHERE tag_name = ? AND timebucket = ?"
        " AND timestamp = ? AND persistence_id = ? AND tag_pid_sequence_nr = ?",
        [changed[name] for name in KEYS],
    )
    assert rebucketed(written, "--to", "Day", "--recheck")["rows_copied"] == 1
    assert written.rows("tag_views_day") == in_size(written.rows("tag_views"), DAY_MS)


@pytest.mark.long
def test_catching_up_reads_what_is_new_and_with_recheck_everything(journal: Journal) -> None:
    """A short last step misses late rows far behind the last run; the drop sees them."""
    now = hours_since_start()
    events = [message("p", number, now - 100 + 10 * number, {"red"}) for number in range(1, 10)]
    write_as_pekko(journal, events)
    rebucketed(journal, "--to", "Day")
    recent, late = an_event(journal, 13, now - 1), an_event(journal, 14, now - 99)
    journal.insert("tag_views", [recent, late])
    result = rebucket(journal, "--to", "Day")
    assert result.report["counts"]["rows_copied"] == 1
    assert result.report["counts"]["rows_verified"] < len(events)
    refused = rebucket(journal, "--drop-old", "tag_views", **NEW)
    assert (refused.status, len(refused.error_lines)) == (3, 1)
    assert "1 rows of tag_views are not in tag_views_day" in refused.error_lines[0]
    assert rebucketed(journal, "--to", "Day", "--recheck")["rows_copied"] == 1
    assert journal.rows("tag_views_day") == in_size(journal.rows("tag_views"), DAY_MS)


@pytest.mark.long
def test_young_events_are_left_to_the_next_run(journal: Journal) -> None:
    now = hours_since_start()
    write_as_pekko(journal, [message("p", 1, now - 30, {"red"}), message("p", 2, now, {"red"})])
    delay = {"EVENTS_BY_TAG_EVENTUAL_CONSISTENCY_DELAY": "3600"}
    assert rebucketed(journal, "--to", "Day", **delay)["rows_copied"] == 1

    def is_caught_up() -> bool:
        counts = rebucketed(journal, "--to", "Day")
        return counts["rows_verified"] == 2

    wait_until("the event to be old enough", is_caught_up)


def test_old_tag_views_are_dropped_after_the_switch_only(written: Journal) -> None:
    before = state(written)
    rebucketed(written, "--to", "Day")
    refused = rebucket(written, "--drop-old", "tag_views")
    assert (refused.status, len(refused.error_lines)) == (2, 1)
    event = {**an_event(written, 13, 9), "timebucket": epoch_ms(START_OF_DAY)}
    written.insert("tag_views_day", [event])

    plan = planned(written, "--drop-old", "tag_views", **NEW)
    assert plan.report["state"] == "planned"
    assert len(written.rows("tag_views")) == len(before["tag_views"])
    assert rebucketed(written, "--drop-old", "tag_views", **NEW) == {
        "rows_verified": len(before["tag_views"]),
        "tables_dropped": 1,
    }
    assert written.control.table_columns(written.keyspace, "tag_views") is None
    assert len(written.rows("tag_views_day")) == len(before["tag_views"]) + 1
    assert written.rows("tag_write_progress") == before["tag_write_progress"]
    assert written.rows("tag_scanning") == before["tag_scanning"]
    assert rebucket(written, "--drop-old", "tag_views", **NEW).status == 2


@pytest.mark.long
def test_the_other_applications_go_on_with_the_new_table(written: Journal) -> None:
    rebucketed(written, "--to", "Day")
    checked = written.run("reconcile", "check", **NEW)
    assert checked.status == 0, checked.stderr
    wrong = written.run("reconcile", "check", BUCKET_SIZE="Day")
    assert wrong.status == 3
    assert "bucket size Day is not that of the existing tag views" in wrong.error_lines[0]


@pytest.mark.long
def test_what_the_old_ledger_left_open_is_not_forgotten(journal: Journal, tmp_path: Path) -> None:
    """Every application of the chain runs before and after the switch: an Hour is not its Day."""
    (tmp_path / "latest.sql").write_text(LATEST.format(keyspace=journal.keyspace))
    journal.control.execute_ddl(LATEST_TABLE.format(keyspace=journal.keyspace))
    own = {"DATA_DOCS_DIR": str(tmp_path / "docs"), "PROJECTIONS_DIR": str(tmp_path)}
    events = [{**row, "event": b"{}"} for row in three_ids()]
    write_as_pekko(journal, events)
    # The switch comes in the first hour of day 2; of day 1 validate has failed an hour.
    assert journal.run("tag_write", *window(0, 25)).status == 0
    lost = next(row for row in journal.rows("tag_views") if row["sequence_nr"] == 5)
    journal.control.execute(
        f"DELETE FROM {journal.keyspace}.tag_views WHERE "
        + " AND ".join(f"{name} = ?" for name in KEYS),
        [lost[name] for name in KEYS],
    )
    failed = journal.run("validate", *window(0, 25), **own)
    assert failed.status == 3, failed.stderr
    assert journal.run("project", *window(0, 25), **own).report["pieces"]["held"] > 0
    rebucketed(journal, "--to", "Day")

    switched = {**own, **NEW}
    event = {**message("a|1", 13, 30, {"red"}), "event": b"{}"}
    journal.insert("messages", [event])
    tagged = journal.run("tag_write", *window(24, 48), **switched)
    assert tagged.report["pieces"]["done"] == 1, tagged.stderr
    assert tagged.report["counts"]["tag_rows_written"] == 1
    assert tagged.report["counts"]["late_tag_rows"] == 0
    still = journal.run("validate", *window(24, 48), **switched)
    assert still.status == 3, still.stdout
    assert still.report["pieces"] == {"planned": 2, "done": 1, "held": 0, "failed": 1}

    assert journal.run("reconcile", "repair", "--apply", **switched).status == 0
    passed = journal.run("validate", *window(24, 48), **switched)
    assert passed.status == 0, passed.stderr
    projected = journal.run("project", *window(24, 48), **switched)
    assert projected.status == 0, projected.stderr
    assert projected.report["pieces"]["held"] == 0
    latest = {row["persistence_id"]: row["sequence_nr"] for row in journal.rows("latest")}
    assert latest == {"a|1": 13, "a|2": 12, "ünï ✓": 12}
    assert journal.run("purge", *window(0, 48), **switched).status == 0
    of_days = {
        (row["application"], row["time_bucket"] % DAY_MS, row["state"])
        for row in journal.own_rows("piece")
        if row["bucket_size"] == "Day"
    }
    assert of_days == {(name, 0, "done") for name in ("tag-write", "validate", "project")}


@pytest.mark.long
def test_a_table_in_use_is_not_brought_up_to_the_old_one(written: Journal) -> None:
    """A user of the old settings would delete the rows written since the switch."""
    rebucketed(written, "--to", "Day")
    event = {**an_event(written, 13, 9), "timebucket": epoch_ms(START_OF_DAY)}
    written.insert("tag_views_day", [event])
    before = written.rows("tag_views_day")
    refused = rebucket(written, "--to", "Day", "--recheck")
    assert (refused.status, len(refused.error_lines)) == (3, 1)
    assert "tag_views_day is in use: it has rows that are newer" in refused.error_lines[0]
    # Without a row of its own: tag-write has recorded that it writes there.
    written.insert("tag_views", [an_event(written, 14, 10)])
    window = ("--window-start", "2024-03-01T00:00:00Z", "--window-end", "2024-03-02T00:00:00Z")
    assert written.run("tag_write", *window, **NEW).status == 0
    refused = rebucket(written, "--to", "Day")
    assert "tag_views_day is in use: tag-write or reconcile wrote" in refused.error_lines[0]
    assert [row for row in before if row not in written.rows("tag_views_day")] == []
    rebucketed(written, "--to", "Hour", "--table", "tag_views", **NEW)


@pytest.mark.long
def test_the_way_back(written: Journal) -> None:
    rebucketed(written, "--to", "Day")
    event = {**an_event(written, 13, 9), "timebucket": epoch_ms(START_OF_DAY)}
    written.insert("tag_views_day", [event])
    rebucketed(written, "--to", "Hour", "--table", "tag_views", **NEW)
    assert written.rows("tag_views") == in_size(written.rows("tag_views_day"), HOUR_MS)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--to", "Hour"), "have bucket size Hour already"),
        (("--to", "Week"), "unknown bucket size 'Week'"),
        (("--to", "Day", "--table", "tag_views"), "already"),
        (("--to", "Day", "--table", "messages"), "table messages exists"),
        (("--to", "Day", "--table", "no; name"), "not a name Cassandra accepts"),
        ((), "--to, --drop-old"),
        (("--drop-old", "messages"), "was not re-bucketed from messages"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(
    written: Journal, arguments: tuple[str, ...], says: str
) -> None:
    before = state(written)
    result = rebucket(written, *arguments)
    assert result.status == 2
    [line] = result.error_lines
    assert says in line
    assert state(written) == before
