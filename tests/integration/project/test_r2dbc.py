"""Projections over a journal of akka-persistence-r2dbc, in a real PostgreSQL and Cassandra.

Mode fold lists every folded sequence nr, in folding order, so that no event is lost, repeated or
out of order without notice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from tests.integration.postgres.r2dbc_journal import R2dbcEvent, R2dbcJournal, event
from tests.integration.project import fold_books
from tests.integration.project.fold_books import fold
from tests.integration.project.projections import HOUR_MS, START_MS, Projections
from tests.integration.support import Journal
from tidemark.partitioning import keys
from tidemark.project.sources import read

HOUR = 3600
MINUTE = 60

COUNTS = """\
/*---
name: counts
version: 1
source: {journal: default, entity-types: [Order]}
mode: bucket
target: {keyspace}.counts
event: kind STRING, amount INT
---*/

SELECT time_bucket, count(*) AS n, sum(amount) AS total, max(size(tags)) AS tags
FROM events
GROUP BY time_bucket
"""
COUNTS_TABLE = """\
CREATE TABLE {keyspace}.counts (time_bucket bigint PRIMARY KEY, n bigint, total bigint, tags int)"""

LOG = """\
/*---
name: log
version: 1
source: messages
mode: append
target: {keyspace}.log
event: kind STRING, amount INT
---*/

SELECT persistence_id, sequence_nr, kind FROM events
"""
LOG_TABLE = """\
CREATE TABLE {keyspace}.log (persistence_id text, sequence_nr bigint, kind text,
    PRIMARY KEY ((persistence_id), sequence_nr))"""


WINDOW = ("--window-start", "2024-03-01T00:00:00Z", "--window-end", "2024-03-01T01:00:00Z")


def move(pid: str, number: int, seconds: float, *tags: str) -> R2dbcEvent:
    return event(pid, number, seconds, *tags, kind="in", amount=1)


def folded(projections: Projections) -> Mapping[str, list[int]]:
    """Return the folded sequence nrs of each persistence id, in folding order."""
    return {row["persistence_id"]: list(row["folded"]) for row in projections.journal.rows("books")}


def logged(projections: Projections) -> list[tuple[str, int]]:
    rows = projections.journal.rows("log")
    return sorted((row["persistence_id"], row["sequence_nr"]) for row in rows)


def counted(projections: Projections) -> dict[int, int]:
    """Return the number of events in each hour."""
    rows = projections.journal.rows("counts")
    return {(row["time_bucket"] - START_MS) // HOUR_MS: row["n"] for row in rows}


def define(projections: Projections, text: str = fold()) -> None:
    fold_books.define(projections, text, fold_books.TABLE)


def run(projections: Projections, first: int, end: int, *options: str) -> None:
    projections.validated(*range(first, end))
    result = projections.run(first, end, *options)
    assert result.status == 0, result.stderr


@pytest.mark.parametrize("plugin", [1, 4], indirect=True)
def test_the_history_and_then_what_is_new(plugin: R2dbcJournal, projections: Projections) -> None:
    projections.define(COUNTS, COUNTS_TABLE)
    ids = [f"Order|{nr}" for nr in range(12)]
    plugin.insert(*(move(pid, number, number * 1000, "red") for pid in ids for number in (1, 2, 4)))
    plugin.insert(*(move(pid, 3, 3000) for pid in ids), move("Cart|1", 1, 5))
    run(projections, 0, 2)
    plugin.insert(*(move(pid, 5, 2.5 * HOUR) for pid in ids))
    run(projections, 2, 3)
    rows = {
        (row["time_bucket"] - START_MS) // HOUR_MS: (row["n"], row["total"], row["tags"])
        for row in projections.journal.rows("counts")
    }
    assert rows == {0: (36, 36, 1), 1: (12, 12, 1), 2: (12, 12, 0)}
    offsets = projections.offsets()
    assert {number for _, number, _ in offsets.values()} == {5}
    expected = keys.ticks_timeuuid(
        keys.epoch_ms_ticks(START_MS + int(2.5 * HOUR_MS)), clock_sequence=0, node=0
    )
    assert {str(moment) for _, _, moment in offsets.values()} == {expected}


LATE: Mapping[str, tuple[Sequence[R2dbcEvent], Sequence[R2dbcEvent]]] = {
    # Committed after the run of its hour, a minute later than it was stamped.
    "a minute": ([move("o|1", 1, 10)], [move("o|1", 2, HOUR - MINUTE)]),
    # The last event of a persistence id within the look-back, next to nothing that is new.
    "no further event": ([move("o|2", 1, 10)], [move("o|1", 1, HOUR - 599)]),
    # Out of order: the later number was there first.
    "out of order": ([move("o|1", 2, 20)], [move("o|1", 1, 10)]),
    # Far before the look-back: the next event shows the gap.
    "shown by a gap": ([move("o|1", 1, 10)], [move("o|1", 2, 20), move("o|1", 3, HOUR + 5)]),
    # Far before the look-back: another late event shows the gap.
    "shown by a late event": (
        [move("o|1", 1, 10)],
        [move("o|1", 2, HOUR - 1000), move("o|1", 3, HOUR - 100)],
    ),
    # A transaction that began before the one of its predecessor.
    "clocks that disagree": (
        [move("o|1", 1, HOUR - 30)],
        [move("o|1", 2, HOUR - 700), move("o|1", 3, HOUR + 1)],
    ),
}


@pytest.mark.parametrize("case", LATE)
def test_late_commits(plugin: R2dbcJournal, projections: Projections, case: str) -> None:
    define(projections)
    before, late = LATE[case]
    plugin.insert(*before)
    run(projections, 0, 1)
    plugin.insert(*late)
    projections.validated(1)
    result = projections.run(1, 2)
    assert result.status == 0, result.stderr
    # No consumed event is read again.
    assert result.report["counts"]["duplicate"] == 0
    wanted: dict[str, list[int]] = {}
    for row in sorted([*before, *late], key=lambda row: row.sequence_nr):
        wanted.setdefault(row.persistence_id, []).append(row.sequence_nr)
    assert folded(projections) == wanted
    run(projections, 2, 3)
    assert folded(projections) == wanted


def test_late_commits_change_the_results_of_time_buckets(
    plugin: R2dbcJournal, projections: Projections
) -> None:
    accept = COUNTS.replace("mode: bucket", "mode: bucket\ndeleted-before-consumed: accept")
    projections.define(accept, COUNTS_TABLE)
    before, late = (
        [
            replace(row, persistence_id=row.persistence_id.replace("o", f"Order|{nr}-"))
            for nr, rows in enumerate(cases)
            for row in rows
        ]
        for cases in zip(*LATE.values(), strict=True)
    )
    plugin.insert(*before)
    run(projections, 0, 1)
    plugin.insert(*late, *(move("Order|d", number, HOUR + number) for number in (1, 2, 3, 4)))
    # No reader has seen the events that are deleted.
    plugin.delete_to("Order|d", 2, HOUR + 50)
    run(projections, 1, 2)
    hours = Counter(row.seconds // HOUR for row in (*before, *late))
    assert counted(projections) == {0: hours[0], 1: hours[1] + 2}
    run(projections, 2, 3)
    assert counted(projections) == {0: hours[0], 1: hours[1] + 2}


def test_time_buckets_that_are_far_apart(
    plugin: R2dbcJournal, projections: Projections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "MOST_RANGES", 1)
    projections.define(COUNTS, COUNTS_TABLE)
    define(projections)
    plugin.insert(*(move("Order|1", hour + 1, hour * HOUR) for hour in range(5)))
    plugin.insert(*(move(f"Order|{hour}-", 1, hour * HOUR) for hour in range(5)))
    projections.validated(0, 2, 4)
    projections.run(0, 5)
    assert counted(projections) == {0: 2, 2: 1, 4: 1}
    run(projections, 0, 5)
    assert counted(projections) == dict.fromkeys(range(5), 2)
    assert folded(projections)["Order|1"] == [1, 2, 3, 4, 5]


def test_a_late_last_event_before_the_look_back_is_found_with_the_next(
    plugin: R2dbcJournal, projections: Projections
) -> None:
    define(projections)
    plugin.insert(move("o|1", 1, 10))
    run(projections, 0, 1)
    plugin.insert(move("o|1", 2, HOUR - 601))
    run(projections, 1, 2)
    assert folded(projections) == {"o|1": [1]}
    plugin.insert(move("o|1", 3, 2 * HOUR))
    run(projections, 2, 3)
    assert folded(projections) == {"o|1": [1, 2, 3]}


def test_a_late_event_that_waited_for_a_later_commit(
    plugin: R2dbcJournal, projections: Projections
) -> None:
    define(projections)
    plugin.insert(move("o|1", 1, 10), move("o|2", 1, 10))
    run(projections, 0, 1)
    # Both are of an hour that is done, and the younger event is committed first.
    plugin.insert(move("o|1", 3, HOUR - 30))
    projections.validated(1)
    projections.run(1, 2)
    assert folded(projections) == {"o|1": [1], "o|2": [1]}
    plugin.insert(move("o|1", 2, HOUR - 40))
    run(projections, 2, 3)
    assert folded(projections) == {"o|1": [1, 2, 3], "o|2": [1]}
    assert set(projections.states()) == {("books", hour, "done", None) for hour in range(3)}


def test_more_equal_timestamps_than_a_page(plugin: R2dbcJournal, projections: Projections) -> None:
    define(projections)
    plugin.insert(*(move("o|1", number, 10) for number in range(1, 1204)))
    plugin.insert(*(move("o|2", number, 10) for number in range(1, 31)), move("o|1", 1204, 11))
    run(projections, 0, 1)
    assert folded(projections) == {
        "o|1": list(range(1, 1205)),
        "o|2": list(range(1, 31)),
    }


def test_a_row_from_the_future_holds_its_successors(
    plugin: R2dbcJournal, projections: Projections
) -> None:
    # Each write is stamped at least 1 µs after the one before, whatever the clock says.
    define(projections)
    plugin.insert(move("o|1", 1, 10), *(move("o|1", n, 2 * HOUR + n * 1e-6) for n in (2, 3, 4)))
    run(projections, 0, 1)
    assert folded(projections) == {"o|1": [1]}
    run(projections, 1, 3)
    assert folded(projections) == {"o|1": [1, 2, 3, 4]}


def test_deletion_markers_are_no_events(plugin: R2dbcJournal, projections: Projections) -> None:
    accept = LOG.replace("mode: append", "mode: append\ndeleted-before-consumed: accept")
    projections.define(accept, LOG_TABLE)
    plugin.insert(*(move("o|1", number, number) for number in range(1, 11)))
    plugin.insert(*(move("o|2", number, number) for number in range(1, 5)))
    # The marker of o|1 is younger than the events 6..10, and in a later time bucket.
    plugin.delete_to("o|1", 5, 1.5 * HOUR)
    run(projections, 0, 1)
    first = [*(("o|1", number) for number in range(6, 11)), *(("o|2", n) for n in range(1, 5))]
    assert logged(projections) == first
    # Consumed events are deleted, then such as were not consumed.
    plugin.delete_to("o|1", 10, 1.6 * HOUR)
    plugin.insert(move("o|1", 11, 1.7 * HOUR), move("o|2", 5, HOUR), move("o|2", 6, HOUR + 1))
    plugin.delete_to("o|2", 5, HOUR + 2)
    run(projections, 1, 3)
    assert logged(projections) == sorted([*first, ("o|1", 11), ("o|2", 6)])
    assert {state for _, _, state, _ in projections.states()} == {"done"}


def test_numbers_that_begin_again(plugin: R2dbcJournal, projections: Projections) -> None:
    reset = COUNTS.replace("mode: bucket", "mode: bucket\naccept-sequence-number-reset-after: 10 s")
    projections.define(reset, COUNTS_TABLE)
    plugin.insert(*(move("Order|1", number, number) for number in range(1, 6)))
    run(projections, 0, 1)
    plugin.delete_all("Order|1")
    plugin.insert(*(move("Order|1", number, HOUR + number) for number in range(1, 4)))
    run(projections, 1, 2)
    assert {number for _, number, _ in projections.offsets().values()} == {3}
    plugin.insert(move("Order|1", 4, 2 * HOUR))
    run(projections, 2, 3)
    rows = {row["time_bucket"]: row["n"] for row in projections.journal.rows("counts")}
    assert [rows[START_MS + hour * HOUR_MS] for hour in (1, 2)] == [3, 1]


@pytest.mark.long
def test_4_then_8_then_2_ranges_reuse_offsets(
    plugin: R2dbcJournal, projections: Projections
) -> None:
    define(projections)
    ids = [f"p|{nr}" for nr in range(20)]
    for hour, ranges in enumerate((4, 8, 2)):
        numbers = range(hour * 3 + 1, hour * 3 + 4)
        plugin.insert(*(move(pid, nr, hour * HOUR + nr) for pid in ids for nr in numbers))
        projections.validated(hour)
        width = keys.NUMBER_OF_SLICES // ranges
        for first in range(0, keys.NUMBER_OF_SLICES, width):
            result = projections.run(hour, hour + 1, "--slices", f"{first}-{first + width - 1}")
            assert result.status == 0, result.stderr
    assert folded(projections) == {pid: list(range(1, 10)) for pid in ids}
    assert set(projections.states()) == {("books", hour, "done", None) for hour in range(3)}


def test_start_from_snapshots(plugin: R2dbcJournal, projections: Projections) -> None:
    define(projections, fold(start="snapshot"))
    plugin.insert(*(move("o|1", number, number) for number in range(1, 6)), move("o|2", 1, 7))
    plugin.insert_snapshot("o|1", 3, 3.5, b'{"kind": "in", "amount": 30}')
    run(projections, 0, 1)
    # The fold also appends the number of the snapshot.
    assert folded(projections) == {"o|1": [-1, 3, 4, 5], "o|2": [1]}
    plugin.insert(move("o|1", 6, HOUR))
    plugin.insert_snapshot("o|1", 6, HOUR + 1, b'{"kind": "in", "amount": 60}')
    plugin.insert(*(move("o|3", number, HOUR + number) for number in (1, 2, 3)))
    plugin.insert_snapshot("o|3", 2, HOUR + 2, b'{"kind": "in", "amount": 20}')
    run(projections, 1, 2)
    assert folded(projections) == {"o|1": [-1, 3, 4, 5, 6], "o|2": [1], "o|3": [-1, 2, 3]}


def test_a_persistence_id_of_late_events_begins_with_its_snapshot(
    plugin: R2dbcJournal, projections: Projections
) -> None:
    define(projections, fold(start="snapshot"))
    plugin.insert(move("o|2", 1, 7))
    run(projections, 0, 1)
    plugin.insert(*(move("o|1", number, HOUR - 50 + number) for number in range(1, 6)))
    plugin.insert_snapshot("o|1", 3, HOUR - 46, b'{"kind": "in", "amount": 30}')
    plugin.delete_to("o|1", 2, HOUR - 40)
    run(projections, 1, 2)
    assert folded(projections) == {"o|1": [-1, 3, 4, 5], "o|2": [1]}


@pytest.mark.long
def test_a_new_version_folds_the_history_anew(
    plugin: R2dbcJournal, projections: Projections
) -> None:
    define(projections)
    plugin.insert(move("o|1", 1, 1), move("o|1", 2, 2), move("o|2", 1, 3))
    run(projections, 0, 1)
    fold_books.define(projections, fold(version=2, factor=5))
    plugin.insert(move("o|1", 3, HOUR))
    run(projections, 1, 2)
    rows = {row["persistence_id"]: row["balance"] for row in projections.journal.rows("books")}
    assert rows["o|1"] == 15
    assert folded(projections)["o|1"] == [1, 2, 3]


def test_some_persistence_ids(plugin: R2dbcJournal, projections: Projections) -> None:
    some = LOG.replace("source: messages", "source: {persistence-ids: ['o|1', 'o|3']}")
    projections.define(some, LOG_TABLE)
    plugin.insert(*(move(f"o|{pid}", nr, nr) for pid in (1, 2, 3) for nr in (1, 2, 3)))
    plugin.delete_to("o|3", 1, 50)
    run(projections, 0, 1)
    first = [("o|1", 1), ("o|1", 2), ("o|1", 3), ("o|3", 2), ("o|3", 3)]
    assert logged(projections) == first
    plugin.insert(move("o|1", 4, HOUR), move("o|2", 4, HOUR))
    run(projections, 1, 2)
    assert logged(projections) == sorted([*first, ("o|1", 4)])


def test_unknown_persistence_ids_and_sources_are_rejected(
    plugin: R2dbcJournal, projections: Projections
) -> None:
    plugin.insert(move("o|1", 1, 1))
    projections.validated(0)
    for source, problem in (
        ("{persistence-ids: ['o|1', 'o|9']}", "has no persistence id 'o|9'"),
        ("{tags: [red]}", "is in PostgreSQL and has no tag views"),
        ("{kafka-journal: orders}", "is in PostgreSQL, where kafka-journal has no tables"),
        ("{journal: orders-r2dbc}", "in the journal orders-r2dbc, and the journal of the run is"),
    ):
        projections.define(COUNTS.replace("{journal: default, entity-types: [Order]}", source))
        result = projections.run(0, 1)
        assert result.status == 2
        assert problem in "\n".join(result.error_lines)
        assert len(result.error_lines) == 1


@pytest.mark.long
def test_offsets_by_hand_and_the_lag(plugin: R2dbcJournal, projections: Projections) -> None:
    define(projections)
    plugin.insert(*(move("o|1", number, number) for number in range(1, 6)))
    run(projections, 0, 1)
    plugin.insert(move("o|1", 6, HOUR), move("o|1", 7, HOUR + 1))
    lag = projections.manage("status", "books", "--exact")
    assert lag.status == 0, lag.stderr
    moved = projections.manage(
        "set-offset", "books", "--persistence-id", "o|1", "--to", "6", "--apply"
    )
    assert moved.status == 0, moved.stderr
    run(projections, 1, 2)
    assert folded(projections) == {"o|1": [1, 2, 3, 4, 5, 7]}
    back = projections.manage(
        "set-offset", "books", "--persistence-id", "o|1", "--to", "2", "--apply"
    )
    assert back.status == 0, back.stderr
    run(projections, 2, 3)
    assert folded(projections)["o|1"] == [1, 2, 3, 4, 5, 6, 7]
    unknown = projections.manage("set-offset", "books", "--persistence-id", "o|1", "--to", "99")
    assert unknown.status == 2


def offset_rows(plugin: R2dbcJournal) -> list[tuple[str, str, int, str, int, float]]:
    return plugin.database.rows(
        "SELECT projection_name, projection_key, slice, persistence_id, seq_nr,"
        f" extract(epoch FROM timestamp_offset)::float8 - {START_MS // 1000}"
        " FROM akka_projection_timestamp_offset_store ORDER BY persistence_id, seq_nr"
    )


def consumed_by_other(plugin: R2dbcJournal, *rows: R2dbcEvent) -> None:
    for row in rows:
        plugin.database.execute(
            "INSERT INTO akka_projection_timestamp_offset_store VALUES"
            " ('orders', '0-511', %s, %s, %s, %s, now())",
            *(keys.slice_of(row.persistence_id), row.persistence_id, row.sequence_nr, row.moment),
        )


def test_take_over_and_hand_over(plugin: R2dbcJournal, projections: Projections) -> None:
    projections.define(LOG, LOG_TABLE)
    # Three persistence ids of one slice, so that the newest row of one is that of all.
    first, second, third = [pid for nr in range(99_999) if keys.slice_of(pid := f"o|{nr}") == 7][:3]
    events = [move(first, number, 1000 * number) for number in (1, 2, 3, 4)]
    quiet, unseen = move(second, 1, 10), move(third, 1, 2999)
    plugin.insert(*events, quiet, unseen, move("o|x", 1, 5))
    # The other has deleted the row of `quiet`, as it is 300 s older than its newest row of the
    # slice, and has not seen `unseen`, nor any event of the slice of o|x.
    consumed_by_other(plugin, *events[:3])
    for options in ([], ["--apply"]):
        took = projections.manage("take-over", "log", "--other", "orders", *options)
        assert took.status == 0, took.stderr
        assert took.report["counts"]["offsets_taken_over"] == 2
    run(projections, 0, 2)
    assert logged(projections) == sorted([(first, 4), (third, 1), ("o|x", 1)])
    # Nothing moves back.
    again = projections.manage("take-over", "log", "--other", "orders", "--apply")
    assert again.report["counts"]["offsets_taken_over"] == 0
    gave = projections.manage("hand-over", "log", "--other", "orders", "--apply")
    assert gave.status == 0, gave.stderr
    key = ("orders", "0-1023")
    assert offset_rows(plugin) == sorted(
        [
            (*key, 7, first, 4, 4000.0),
            (*key, 7, second, 1, 10.0),
            (*key, 7, third, 1, 2999.0),
            (*key, keys.slice_of("o|x"), "o|x", 1, 5.0),
        ],
        key=lambda row: row[3:5],
    )
    plugin.insert(move(first, 6, 2 * HOUR))
    projections.validated(2)
    projections.run(2, 3)
    held = projections.manage("hand-over", "log", "--other", "orders", "--apply")
    assert held.status == 3
    assert "log has 1 time bucket to do" in "".join(held.error_lines)
    unknown = projections.manage("take-over", "log", "--other", "nobody")
    assert "there are no offsets of a projection nobody" in "".join(unknown.error_lines)


@pytest.mark.parametrize(
    ("application", "arguments", "problem"),
    [
        ("tag_write", WINDOW, "tag-write writes the tag views of a journal in Cassandra"),
        ("replicate", (), "replicate writes tables of kafka-journal in Cassandra"),
        ("reconcile", ("check", "--all"), "reconcile corrects tables of a journal in Cassandra"),
        ("purge", WINDOW, "the policies old-tag-views are for tables of a journal in Cassandra"),
    ],
)
def test_applications_on_tables_of_cassandra_reject_the_journal(
    plugin: R2dbcJournal, journal: Journal, application: str, arguments: Sequence[str], problem: str
) -> None:
    result = journal.run(application, *arguments)
    assert result.status == 2
    assert [problem in line for line in result.error_lines] == [True]
    assert "is in PostgreSQL" in result.error_lines[0]


def test_purge_of_tidemarks_own_tables(plugin: R2dbcJournal, journal: Journal) -> None:
    result = journal.run("purge", "--policy", "old-event-groups")
    assert result.status == 0, result.stderr
