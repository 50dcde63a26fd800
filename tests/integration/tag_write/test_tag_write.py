"""The application tag-write in a real Cassandra, against Pekko's rows and a brute-force model."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.integration.support import Journal, pekko_sample
from tidemark.cassandra.control import Row
from tidemark.cassandra.schema import table

pytestmark = pytest.mark.usefixtures("production")

HOUR = ("--window-start", "2026-11-21T02:00:00Z", "--window-end", "2026-11-21T03:00:00Z")
START = datetime(2024, 3, 1, tzinfo=UTC)
GREGORIAN = datetime(1582, 10, 15, tzinfo=UTC)


def window(first_hour: int, end_hour: int) -> tuple[str, ...]:
    """Return the options of a window, in hours since START."""
    bounds = [START + timedelta(hours=hour) for hour in (first_hour, end_hour)]
    return ("--window-start", bounds[0].isoformat(), "--window-end", bounds[1].isoformat())


def message(pid: str, number: int, hours: float, tags: set[str], **extra: Any) -> dict[str, Any]:
    """Return a row of messages at START + hours; its timeuuid is unique by id and number."""
    ticks = (START + timedelta(hours=hours) - GREGORIAN) // timedelta(microseconds=1) * 10 + number
    low, mid, high = ticks & 0xFFFFFFFF, ticks >> 32 & 0xFFFF, ticks >> 48
    event_uuid = uuid.UUID(fields=(low, mid, 0x1000 | high, 0x80, 0, sum(map(ord, pid))))
    return {
        "persistence_id": pid,
        "partition_nr": 0,
        "sequence_nr": number,
        "timestamp": event_uuid,
        "timebucket": "0",
        "writer_uuid": "w",
        "ser_id": 20,
        "ser_manifest": "",
        "event_manifest": "",
        "event": f"{pid}#{number}".encode(),
        "tags": tags or None,
        **extra,
    }


def expected_tag_views(messages: list[dict[str, Any]]) -> list[Row]:
    """Compute by loops every tag row of messages, numbered per id and tag in sequence nr order."""
    rows = []
    numbers: dict[tuple[str, str], int] = {}
    for row in sorted(messages, key=lambda row: row["sequence_nr"]):
        for tag in row["tags"] or ():
            key = (row["persistence_id"], tag)
            numbers[key] = numbers.get(key, 0) + 1
            ms = (row["timestamp"].time - 0x01B21DD213814000) // 10_000
            rows.append(
                {
                    **{
                        k: v
                        for k, v in row.items()
                        if k not in ("tags", "timebucket", "partition_nr")
                    },
                    "tag_name": tag,
                    "timebucket": ms - ms % 3_600_000,
                    "tag_pid_sequence_nr": numbers[key],
                }
            )
    return rows


def comparable(rows: list[Row]) -> list[str]:
    """Return rows without their unset columns, sorted."""
    present = ({k: v for k, v in row.items() if v is not None} for row in rows)
    return sorted(str(sorted(row.items())) for row in present)


def a_small_journal() -> list[dict[str, Any]]:
    """Return five ids over six hours: tagged twice, once, never; unicode; at bucket edges."""
    tags: list[set[str]] = [{"red"}, {"red", "blue"}, set(), {"grün ✓"}, {"blue"}]
    return [
        message(
            pid, number, hours=(number - 1) * 0.5 + place * 0.1, tags=tags[(number + place) % 5]
        )
        for place, pid in enumerate(["a|1", "a|2", "no-type", "ünï|✓", "b|x|replica"])
        for number in range(1, 12)
    ]


def test_rows_equal_those_of_the_real_plugin(journal: Journal) -> None:
    """The plugin's own messages and progress in, the plugin's own tag rows out, cell by cell."""
    sample = pekko_sample()
    for name in ("messages", "metadata", "all_persistence_ids", "tag_write_progress"):
        journal.insert(name, sample[name])
    result = journal.run("tag_write", *HOUR)
    assert result.status == 0, result.stderr
    held = {(row["persistence_id"], row["sequence_nr"]) for row in sample["messages"]}
    of_the_plugin = [
        row for row in sample["tag_views"] if (row["persistence_id"], row["sequence_nr"]) in held
    ]
    assert len(of_the_plugin) == 12
    assert comparable(journal.rows("tag_views")) == comparable(of_the_plugin)
    assert comparable(journal.rows("tag_write_progress")) == comparable(
        sample["tag_write_progress"]
    )
    assert comparable(journal.rows("tag_scanning")) == comparable(sample["tag_scanning"])


@pytest.mark.long
def test_rows_of_very_many_partitions_are_numbered_as_those_of_few(journal: Journal) -> None:
    """More partitions than a task collects batches for are written in another way."""
    messages = [
        message(pid, number, hours=number - 1, tags={"red", "blue"})
        for pid in ("a|1", "a|2")
        for number in range(1, 551)
    ]
    journal.insert("messages", messages)
    journal.insert("all_persistence_ids", [{"persistence_id": pid} for pid in ("a|1", "a|2")])
    result = journal.run("tag_write", *window(0, 550))
    assert result.status == 0, result.stderr
    expected = comparable(expected_tag_views(messages))
    assert len(expected) == 2200
    assert comparable(journal.rows("tag_views")) == expected
    written = journal.tag_tables()
    rebuilt = journal.run("reconcile", "rebuild", "--all", "--apply")
    assert rebuilt.status == 0, rebuilt.stderr
    assert journal.tag_tables() == written


def test_window_is_numbered_from_one_and_progress_points_at_the_last_event(
    journal: Journal,
) -> None:
    messages = a_small_journal()
    journal.insert("messages", messages)
    result = journal.run("tag_write", *window(0, 6))
    assert result.status == 0, result.stderr
    expected = expected_tag_views(messages)
    assert comparable(journal.rows("tag_views")) == comparable(expected)
    last: dict[tuple[str, str], Mapping[str, Any]] = {}
    for row in expected:
        last[row["persistence_id"], row["tag_name"]] = row
    assert {
        (row["persistence_id"], row["tag"]): (
            row["sequence_nr"],
            row["tag_pid_sequence_nr"],
            row["offset"],
        )
        for row in journal.rows("tag_write_progress")
    } == {
        key: (row["sequence_nr"], row["tag_pid_sequence_nr"], row["timestamp"])
        for key, row in last.items()
    }
    assert {row["persistence_id"]: row["sequence_nr"] for row in journal.rows("tag_scanning")} == {
        row["persistence_id"]: 11 for row in messages
    }
    assert result.report["counts"]["tag_rows_written"] == len(expected)
    assert result.report["pieces"] == {"planned": 6, "done": 6, "held": 0, "failed": 0}


def test_run_twice_changes_nothing(journal: Journal) -> None:
    journal.insert("messages", a_small_journal())
    assert journal.run("tag_write", *window(0, 6)).status == 0
    before = journal.tag_tables()
    again = journal.run("tag_write", *window(0, 6))
    assert again.report["state"] == "nothing-to-do"
    forced = journal.run("tag_write", *window(0, 6), "--force")
    assert forced.report["pieces"]["done"] == 6
    assert journal.tag_tables() == before


@pytest.mark.long
def test_windows_in_any_order_give_the_same_tables(make_journal: Callable[..., Journal]) -> None:
    """Backfills run backwards too: numbers must not depend on the rows written before."""
    forwards, backwards = make_journal(), make_journal()
    for journal, windows in (
        (forwards, [(0, 6)]),
        (backwards, [(3, 6), (0, 1), (1, 3)]),
    ):
        journal.insert("messages", a_small_journal())
        for first, end in windows:
            assert journal.run("tag_write", *window(first, end)).status == 0
    assert backwards.tag_tables() == forwards.tag_tables()


def test_progress_never_leads_over_an_unwritten_window(journal: Journal) -> None:
    """When windows are written out of order, an id's progress waits for its earlier events."""
    journal.insert("messages", a_small_journal())
    assert journal.run("tag_write", *window(3, 6)).status == 0
    assert journal.rows("tag_write_progress") == []
    assert journal.rows("tag_scanning") == []


def test_late_event_of_a_done_bucket_is_written_by_the_next_run(journal: Journal) -> None:
    messages = a_small_journal()
    late = message("a|1", 12, hours=0.2, tags={"red"})
    journal.insert("messages", messages)
    assert journal.run("tag_write", *window(0, 6)).status == 0
    journal.insert("messages", [late])
    result = journal.run("tag_write", *window(6, 7))
    assert result.report["counts"]["late_tag_rows"] == 1
    assert comparable(journal.rows("tag_views")) == comparable(
        expected_tag_views([*messages, late])
    )


def test_numbering_continues_from_progress_when_messages_were_deleted(journal: Journal) -> None:
    """An actor's deleteMessages leaves tag rows and progress; a rebuild must not count anew."""
    journal.insert("messages", [message("p", number, 0.1 * number, {"t"}) for number in (8, 9, 10)])
    journal.insert(
        "tag_write_progress",
        [
            {
                "persistence_id": "p",
                "tag": "t",
                "sequence_nr": 9,
                "tag_pid_sequence_nr": 9,
                "offset": message("p", 9, 0.9, {"t"})["timestamp"],
            }
        ],
    )
    assert journal.run("tag_write", *window(0, 2)).status == 0
    numbers = {row["sequence_nr"]: row["tag_pid_sequence_nr"] for row in journal.rows("tag_views")}
    assert numbers == {8: 8, 9: 9, 10: 10}


@pytest.mark.long
def test_metadata_columns_are_copied_or_left_unset(journal: Journal) -> None:
    with_meta = {"meta_ser_id": 33, "meta_ser_manifest": "M", "meta": b"\x01"}
    journal.insert(
        "messages",
        [message("p", 1, 0.1, {"t"}, **with_meta), message("p", 2, 0.2, {"t"})],
    )
    assert journal.run("tag_write", *window(0, 1)).status == 0
    by_number = {row["sequence_nr"]: row for row in journal.rows("tag_views")}
    assert {key: by_number[1][key] for key in with_meta} == with_meta
    written = journal.control.execute(
        f"SELECT writetime(meta) AS at FROM {journal.keyspace}.tag_views"
        " WHERE tag_name = 't' AND timebucket = ? AND timestamp = ?",
        (by_number[2]["timebucket"], by_number[2]["timestamp"]),
    )
    assert written == [{"at": None}]
    # Nor was a null written: it reads as the same, and is a tombstone.
    assert tombstones(journal, "tag_views") == 0
    key = {name: by_number[2][name] for name in ("timebucket", "timestamp", "persistence_id")}
    conditions = " AND ".join(f"{name} = ?" for name in key)
    journal.control.execute(
        f"UPDATE {journal.keyspace}.tag_views SET meta = null"
        f" WHERE tag_name = 't' AND tag_pid_sequence_nr = 2 AND {conditions}",
        list(key.values()),
    )
    assert tombstones(journal, "tag_views") == 1


def tombstones(journal: Journal, name: str) -> int:
    """Return how many tombstones Cassandra meets when it reads a table, as it tells in a trace."""
    cql = f"SELECT * FROM {table(journal.keyspace, name)}"
    read = journal.control._session.execute(cql, trace=True)
    says = [one.description for one in read.get_query_trace(max_wait_sec=60).events]
    counts = re.findall(r"^Read \d+ live rows and (\d+) tombstone", "\n".join(says), re.MULTILINE)
    assert counts, says
    return sum(map(int, counts))


def progress_of(pid: str, tag: str, at: dict[str, Any], number: int) -> dict[str, Any]:
    """Return a row of tag_write_progress at a message."""
    return {
        "persistence_id": pid,
        "tag": tag,
        "sequence_nr": at["sequence_nr"],
        "tag_pid_sequence_nr": number,
        "offset": at["timestamp"],
    }


@pytest.mark.long
@pytest.mark.parametrize(
    ("at", "number", "complaint"),
    [
        (4, 2, "tag pid sequence nr 2 at sequence nr 4, messages up to 5 count 4"),
        (4, 9, "tag pid sequence nr 9 at sequence nr 4, messages up to 5 count 4"),
        (7, 7, "tag pid sequence nr 7 at sequence nr 7, messages up to 5 count 5"),
    ],
    ids=["behind", "ahead", "beyond the last event"],
)
def test_progress_that_contradicts_the_messages_holds_that_id_only(
    journal: Journal, at: int, number: int, complaint: str
) -> None:
    """The id's next numbers would be wrong, whichever of the two is right; other ids go on."""
    messages = [message("p", place, 0.1 * place, {"t"}) for place in range(1, 6)]
    other = message("q", 1, 1.1, {"t"})
    journal.insert("messages", [*messages, other])
    journal.insert(
        "tag_write_progress", [progress_of("p", "t", message("p", at, 0.1 * at, {"t"}), number)]
    )
    result = journal.run("tag_write", *window(0, 2))
    assert result.status == 3
    assert f"contradict each other: p tag t: progress says {complaint}" in result.error_lines[0]
    assert "`spark_apps/reconcile.py repair --apply`" in result.error_lines[0]
    assert {row["persistence_id"] for row in journal.rows("tag_views")} == {"q"}
    assert {row["persistence_id"] for row in journal.rows("tag_scanning")} == {"q"}
    assert sorted(row["state"] for row in journal.own_rows("piece")) == ["done", "held"]
    assert result.report["counts"]["ids_held"] == 1


@pytest.mark.parametrize(
    ("broken", "cause"),
    [
        ({"event": None}, "no payload"),
        ({"ser_id": None}, "no serializer id"),
        ({"timestamp": uuid.UUID("00000000-0000-1000-8000-000000000001")}, "before 1970"),
        ({"timestamp": uuid.UUID("00000000-0000-1fff-8000-000000000001")}, "after 2099"),
    ],
    ids=["payload", "serializer", "clock", "clock of the far future"],
)
def test_event_that_no_reader_could_read_is_quarantined_and_takes_no_number(
    journal: Journal, broken: dict[str, Any], cause: str
) -> None:
    messages = [message("p", place, 0.1 * place, {"t"}) for place in (1, 2, 3)]
    journal.insert("messages", [messages[0], {**messages[1], **broken}, messages[2]])
    result = journal.run("tag_write", *window(0, 1))
    assert result.status == 0, result.stderr
    assert result.report["counts"]["quarantined"] == 1
    numbers = {row["sequence_nr"]: row["tag_pid_sequence_nr"] for row in journal.rows("tag_views")}
    assert numbers == {1: 1, 3: 2}
    (evidence,) = journal.own_rows("quarantine")
    assert (evidence["persistence_id"], evidence["sequence_nr"]) == ("p", 2)
    assert cause in evidence["cause"]
    assert evidence["source"] == f"{journal.keyspace}.messages"


@pytest.mark.long
def test_failed_piece_is_taken_up_by_a_later_window(journal: Journal) -> None:
    """Gaps heal by themselves: nobody has to remember the window that failed."""
    first = message("p", 1, 0.1, {"t"})
    journal.insert("messages", [first])
    wrong = progress_of("p", "t", first, 5)
    journal.insert("tag_write_progress", [wrong])
    assert journal.run("tag_write", *window(0, 1)).status == 3
    journal.insert("tag_write_progress", [{**wrong, "tag_pid_sequence_nr": 1}])
    healed = journal.run("tag_write", *window(1, 2))
    assert healed.report["pieces"]["done"] == 2
    assert [row["sequence_nr"] for row in journal.rows("tag_views")] == [1]


@pytest.mark.long
def test_what_the_first_run_of_all_was_refused_is_the_next_ones(journal: Journal) -> None:
    journal.insert("messages", [message("p", 1, 0.1, {"t"})])
    assert journal.run("tag_write", *window(0, 1), "--dry-run").status == 0
    journal.control.execute(
        f"INSERT INTO {journal.own_keyspace}.lock (resource, owner, taken_at) VALUES (?, ?, ?)",
        (f"tag_views/{journal.keyspace}/2024-03-01", "other-host:7:nightly", START),
    )
    assert journal.run("tag_write", *window(0, 1)).status == 1

    journal.control.execute(f"TRUNCATE {journal.own_keyspace}.lock")
    assert journal.run("tag_write", *window(2, 3)).report["pieces"]["done"] == 3
    assert [row["sequence_nr"] for row in journal.rows("tag_views")] == [1]


def test_second_run_of_a_locked_day_is_refused_and_says_whom(journal: Journal) -> None:
    journal.insert("messages", a_small_journal())
    assert journal.run("tag_write", *window(0, 1)).status == 0
    journal.control.execute(
        f"INSERT INTO {journal.own_keyspace}.lock (resource, owner, taken_at) VALUES (?, ?, ?)",
        (f"tag_views/{journal.keyspace}/2024-03-01", "other-host:7:nightly", START),
    )
    result = journal.run("tag_write", *window(1, 2))
    assert result.status == 1
    assert result.error_lines == [
        f"tag-write: error: tag_views/{journal.keyspace}/2024-03-01 is held by"
        " other-host:7:nightly since 2024-03-01T00:00:00Z;"
        " wait for it to end; if it died, its lock expires within 600 s"
    ]
    assert {row["state"] for row in journal.own_rows("piece")} == {"done"}

    # The next run does the refused hour, and hour 2, which nobody ran.
    journal.control.execute(f"TRUNCATE {journal.own_keyspace}.lock")
    plan = journal.run("tag_write", *window(3, 6), "--dry-run")
    for line in ("2024-03-01 01:00  missed", "2024-03-01 02:00  missed", "2024-03-01 03:00  new"):
        assert line in plan.stdout
    bounded = journal.run("tag_write", *window(3, 6), CATCH_UP_BUCKETS="2")
    assert bounded.status == 0, bounded.stderr
    assert bounded.report["pieces"]["done"] == 2
    assert "2 time buckets missed: no run had begun them" in bounded.stdout
    assert "3 time buckets more left for the next run" in bounded.stdout
    assert journal.run("tag_write", *window(3, 6)).report["pieces"]["done"] == 3
    assert comparable(journal.rows("tag_views")) == comparable(
        expected_tag_views(a_small_journal())
    )


def test_dry_run_shows_the_plan_and_writes_nothing(journal: Journal) -> None:
    journal.insert("messages", a_small_journal())
    result = journal.run("tag_write", *window(0, 2), "--dry-run")
    assert result.report["state"] == "planned"
    assert "2024-03-01 01:00  new" in result.stdout
    assert journal.tag_tables() == {"tag_views": [], "tag_write_progress": [], "tag_scanning": []}
    assert journal.own_rows("piece") == []


@pytest.mark.parametrize("size", ["Minute", "Day"])
def test_other_bucket_size_than_the_rows_is_refused(journal: Journal, size: str) -> None:
    """Pekko checks nothing, and its reader then sees no rows."""
    journal.insert("tag_views", pekko_sample()["tag_views"])
    options = ("--window-start", "2026-11-20T00:00:00Z", "--window-end", "2026-11-21T00:00:00Z")
    result = journal.run("tag_write", *options, BUCKET_SIZE=size)
    assert result.status == 3
    assert f"bucket size {size} is not that of the existing tag views" in result.error_lines[0]
    assert "which is right for Hour" in result.error_lines[0]


def test_other_bucket_size_than_recorded_is_refused(journal: Journal) -> None:
    """The refusal also holds for empty views, since readers are still set to the old size."""
    assert journal.run("tag_write", *window(0, 1)).status == 0
    result = journal.run("tag_write", *window(0, 24), BUCKET_SIZE="Day")
    assert result.status == 3
    assert "Tidemark built them with Hour" in result.error_lines[0]
