"""Acceptance of events: late events, gaps, missed schedules, and events deleted too early."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame

from tests.integration.project.projections import (
    HOUR_MS,
    START,
    START_MS,
    TOTALS_TABLE,
    Projections,
    counts,
    event,
    totals,
)
from tests.integration.support import Journal
from tests.integration.tag_write.tags_and_messages import (
    BOTH,
    EVERY,
    both,
    both_sources,
    pieces,
    reached,
    red,
    results,
)
from tidemark.journals.pekko import frames
from tidemark.project.sources.messages import MessagesSource


@pytest.fixture
def projections(make_journal: Callable[..., Journal], tmp_path: Path) -> Projections:
    """Return projections with the same result from both sources: every event has a tag."""
    return both_sources(make_journal, tmp_path)


def test_late_events_in_done_buckets_reopen_those_buckets_only(projections: Projections) -> None:
    """a|1 2 is the last event of a quiet id: no event after it shows that it was missing."""
    early = [red("a|1", 1, 0.1), red("b|1", 1, 0.2), red("b|1", 2, 1.2)]
    late, next_ones = red("a|1", 2, 0.5), [red("b|1", 3, 3.1), red("c|1", 1, 3.2)]
    # No progress is known of this event, but it is within the look-back.
    near = red("d|1", 1, 2.5)
    projections.insert(*early)
    projections.list_persistence_ids()
    projections.validated(0, 1, 2)
    assert projections.run(0, 3).report["pieces"]["done"] == 6
    assert results(projections) == both(early)

    projections.insert(late, near, *next_ones)
    projections.insert_progress(late)
    projections.list_persistence_ids()
    projections.validated(3)
    result = projections.run(3, 4)
    assert result.status == 0, result.stderr
    assert result.report["pieces"] == {"planned": 6, "done": 6, "held": 0, "failed": 0}
    # Each projection has two new and two late events; a|1 1 and b|1 1 again with their bucket.
    assert result.report["counts"] == counts(
        events_read=12, rows_written=6, accepted=8, duplicate=4
    )
    assert pieces(projections) == {
        (name, hour): piece
        for name in BOTH
        for hour, piece in {
            0: ("done", "late", 2),
            1: ("done", "new", 1),
            2: ("done", "late", 2),
            3: ("done", "new", 1),
        }.items()
    }
    assert results(projections) == both([*early, late, near, *next_ones])
    assert projections.run(0, 4).report["state"] == "nothing-to-do"
    forced = projections.run(3, 4, "--force")
    assert forced.report["counts"] == counts(events_read=4, rows_written=2, duplicate=4)
    assert results(projections) == both([*early, late, near, *next_ones])


def test_gap_is_held_with_its_numbers_and_heals_when_the_missing_event_appears(
    projections: Projections,
) -> None:
    first, missing = red("a|1", 1, 0.1), [red("a|1", 2, 0.4), red("a|1", 3, 0.9)]
    behind, other = [red("a|1", 4, 1.1), red("a|1", 5, 2.1)], red("b|1", 1, 1.2)
    projections.history.update(missing)
    projections.insert(first, *behind, other)
    projections.validated(0, 1, 2)

    strict = projections.run(0, 3, "--strict", "--projection", "every")
    assert strict.status == 3
    (line,) = strict.error_lines
    assert "2 time buckets with events held back; gap: a|1 2..3 missing (every)" in line
    assert {state for _, _, state, _ in projections.states()} == {"failed"}
    assert results(projections) == both([])
    assert projections.offsets() == {}

    result = projections.run(0, 3)
    assert result.status == 0, result.stderr
    assert result.report["pieces"] == {"planned": 6, "done": 2, "held": 4, "failed": 0}
    assert result.report["counts"] == counts(
        events_read=4, rows_written=4, accepted=4, rejected_seq_nr=4
    )
    assert projections.states() == [
        (name, hour, state, error)
        for name, gap in (
            ("every", "gap: a|1 2..3 missing"),
            ("totals", "gap: a|1 red 2..3 missing"),
        )
        for hour, state, error in ((0, "done", None), (1, "held", gap), (2, "held", gap))
    ]
    assert "every: 2024-03-01 01:00 held: gap: a|1 2..3 missing" in result.stdout
    assert results(projections) == both([first, other])
    assert reached(projections) == {(name, pid): 1 for name in BOTH for pid in ("a|1", "b|1")}

    assert waits_for(projections) == {
        (hour, "a|1", tag, 2, 3) for hour in (1, 2) for tag in ("", "red")
    }
    status = projections.manage("status")
    assert "1 range of missing numbers, in the table projection_gap:" in status.stdout
    assert [projection["missing"] for projection in status.report["details"]["projections"]] == [
        [{"persistence_id": "a|1", "tag": tag, "first": 2, "last": 3}] for tag in ("", "red")
    ]

    projections.insert(missing[0])
    part = projections.run(2, 3)
    assert part.report["pieces"] == {"planned": 6, "done": 2, "held": 4, "failed": 0}
    assert results(projections) == both([first, missing[0], other])

    assert {numbers for *_, first, last in waits_for(projections) for numbers in (first, last)} == {
        3
    }
    projections.insert(missing[1])
    healed = projections.run(2, 3)
    assert healed.report["pieces"] == {"planned": 6, "done": 6, "held": 0, "failed": 0}
    assert results(projections) == both([first, *missing, *behind, other])
    assert reached(projections)["totals", "a|1"] == 5
    assert waits_for(projections) == set()


def waits_for(projections: Projections) -> set[tuple[int, str, str, int, int]]:
    return {
        (
            (row["time_bucket"] - START_MS) // HOUR_MS,
            row["persistence_id"],
            row["tag"],
            row["first_number"],
            row["last_number"],
        )
        for row in projections.journal.own_rows("projection_gap")
    }


@pytest.mark.long
def test_skewed_clocks_and_missed_schedules_heal(projections: Projections) -> None:
    """3, 4 and 5 of c|1 were written by a clock that was ahead; hours 1 and 2 get no run."""
    before = [red("c|1", 1, 0.1), red("c|1", 2, 0.2)]
    ahead = [red("c|1", number, 1.0 + number / 10) for number in (3, 4, 5)]
    after = [red("c|1", 6, 0.6), red("c|1", 7, 0.7)]
    later = [red("c|1", 8, 2.1), red("c|1", 9, 3.1)]
    events = [*before, *ahead, *after, *later]
    old = red("z|1", 1, -2), red("z|1", 2, 0.5)
    projections.insert(*events, *old)
    projections.validated(0)
    first = projections.run(0, 1)
    assert first.status == 0, first.stderr
    assert projections.states() == [
        ("every", 0, "held", "gap: c|1 3 held"),
        ("totals", 0, "held", "gap: c|1 red 3..5 missing"),
    ]
    # Events before the projection's first bucket do not count.
    assert results(projections) == both([*before, old[1]])
    projections.validated(-2, 1, 2, 3)
    # The event follows consumed ones, by a clock behind by more than the projection's age.
    behind = red("z|1", 3, -0.5)
    projections.insert(behind)
    healed = projections.run(3, 4)
    assert "totals: warning: 1 series have events before" in healed.stdout
    assert "every: warning" not in healed.stdout
    assert healed.report["pieces"] == {"planned": 9, "done": 9, "held": 0, "failed": 0}
    assert projections.journal.rows("totals") == totals([*events, old[1]])
    assert projections.journal.rows("every") == totals([*events, old[1], behind])
    assert pieces(projections)["every", 2] == ("done", "missed", 1)
    assert pieces(projections)["every", -1] == ("done", "late", 1)
    assert not {("every", -2), ("totals", -1)} & pieces(projections).keys()


def test_events_deleted_before_they_were_consumed_hold_their_persistence_id_alone(
    projections: Projections,
) -> None:
    first = red("p|1", 1, 0.1)
    projections.insert(first)
    projections.validated(0, 1, 2)
    only = ("--projection", "every")
    assert projections.run(0, 1, *only).status == 0
    left = [red("p|1", 4, 1.1), red("p|2", 1, 1.2), red("p|3", 1, 2.1)]
    projections.insert(*left)
    projections.journal.insert("metadata", [{"persistence_id": "p|1", "deleted_to": 3}])
    held = projections.run(0, 3, *only)
    assert held.status == 0
    assert (
        "warning: events were deleted before the projection consumed them: p|1 2..3;"
        " bring them back, or give them up with --accept-purged-id" in held.stdout
    )
    assert held.report["pieces"] == {"planned": 2, "done": 1, "held": 1, "failed": 0}
    assert projections.journal.rows("every") == totals([first, *left[1:]])
    other = projections.run(0, 3, *only, "--accept-purged-id", "p|2")
    assert other.report["pieces"]["held"] == 1
    given_up = projections.run(0, 3, *only, "--accept-purged-id", "p|1")
    assert given_up.report["pieces"] == {"planned": 1, "done": 1, "held": 0, "failed": 0}
    assert projections.journal.rows("every") == totals([first, *left])


@pytest.mark.long
def test_events_deleted_before_they_were_consumed_are_a_loud_error(
    projections: Projections,
) -> None:
    projections.insert(red("p|1", 1, 0.1))
    projections.validated(0, 1)
    only = ("--projection", "every")
    projections.define(
        EVERY.replace("source:", "deleted-before-consumed: fail\nsource:"), file="two.sql"
    )
    assert projections.run(0, 1, *only).status == 0
    kept = [red("p|1", 4, 1.1), red("q|1", 3, 1.2)]
    late = red("r|1", 1, 0.5)
    projections.insert(*kept)
    projections.journal.insert(
        "metadata",
        [{"persistence_id": "p|1", "deleted_to": 3}, {"persistence_id": "q|1", "deleted_to": 2}],
    )
    refused = projections.run(1, 2, *only)
    assert refused.status == 3
    (line,) = refused.error_lines
    assert "events were deleted before the projection consumed them: p|1 2..3 (every)" in line
    assert projections.journal.rows("every") == totals([red("p|1", 1, 0.1)])
    given_up = projections.run(1, 2, *only, "--accept-purged")
    assert given_up.report["pieces"]["done"] == 1
    assert given_up.report["counts"] == counts(
        events_read=2, rows_written=1, accepted=2, first_encounters=1
    )
    assert projections.journal.rows("every") == totals([red("p|1", 1, 0.1), *kept])

    # A late event would replace hour 0 by the events that are left of it.
    keyspace = projections.journal.keyspace
    projections.journal.control.execute(
        f"DELETE FROM {keyspace}.messages WHERE persistence_id = ? AND partition_nr = 0"
        " AND sequence_nr = 1",
        ("p|1",),
    )
    projections.insert(late)
    projections.validated(2)
    refused = projections.run(2, 3, *only)
    (line,) = refused.error_lines
    message = (
        "1 of 2 buckets (1 reopened by late events), 2024-03-01 00:00: 1 of the 1 event that its"
    )
    assert message in line
    assert pieces(projections)["every", 0] == ("failed", "late", 2)
    assert pieces(projections)["every", 2] == ("done", "new", 1)
    assert projections.journal.rows("every") == totals([red("p|1", 1, 0.1), *kept])
    assert projections.run(2, 3, *only, "--accept-purged").report["pieces"]["done"] == 1
    assert projections.journal.rows("every") == totals([late, *kept])


@pytest.mark.long
def test_projection_that_starts_behind_purged_tag_views_begins_with_what_is_there(
    projections: Projections,
) -> None:
    journal, left = projections.journal, [red("p|1", 2, 1.1), red("p|1", 3, 1.2)]
    projections.insert(red("p|1", 1, 0.1), *left)
    projections.validated(1)
    only = ("--projection", "totals")
    journal.control.execute(
        f"DELETE FROM {journal.keyspace}.tag_views WHERE tag_name = ? AND timebucket = ?",
        ("red", START_MS),
    )
    strict = projections.run(1, 2, *only, "--strict")
    assert "gap: p|1 red 1 missing" in strict.error_lines[0]
    projections.purged(0)
    result = projections.run(1, 2, *only, "--strict")
    assert result.report["counts"] == counts(
        events_read=2, rows_written=1, accepted=2, first_encounters=1
    )
    assert projections.journal.rows("totals") == totals(left)


def test_what_waits_for_validate_is_not_taken_for_purged(projections: Projections) -> None:
    """Event 2 is in a time bucket that validate has passed, event 1 in one it has not passed."""
    first, second = red("p|1", 1, 1.1), red("p|1", 2, 3.1)
    projections.insert(first, second, red("q|1", 2, 3.2))
    projections.validated(0, 3)
    journal, only = projections.journal, ("--projection", "totals")
    projections.purged(-1)
    waiting = projections.run(0, 4, *only)
    assert waiting.report["pieces"] == {"planned": 4, "done": 1, "held": 3, "failed": 0}
    assert waiting.report["counts"]["accepted"] == 1
    projections.validated(1, 2)
    assert projections.run(0, 4, *only, "--strict").report["counts"]["accepted"] == 2
    assert journal.rows("totals") == totals([first, second, red("q|1", 2, 3.2)])


def test_a_late_event_that_vanishes_before_it_is_read_holds_its_persistence_id(
    projections: Projections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The actor deletes it between the look for late events and the read of its time bucket."""
    first, late, later = red("a|1", 1, 0.1), red("a|1", 2, 0.5), red("a|1", 3, 1.5)
    projections.insert(first)
    projections.list_persistence_ids()
    projections.validated(0, 1)
    only = ("--projection", "every")
    assert projections.run(0, 1, *only).status == 0
    projections.insert(late, later)
    journal, rows_of = projections.journal, MessagesSource.rows

    def rows(source: MessagesSource, time_buckets: Sequence[int]) -> DataFrame:
        if list(time_buckets) == [START_MS]:
            journal.control.execute(
                f"DELETE FROM {journal.keyspace}.messages"
                " WHERE persistence_id = 'a|1' AND partition_nr = 0 AND sequence_nr = 2"
            )
            journal.insert("metadata", [{"persistence_id": "a|1", "deleted_to": 2}])
        return rows_of(source, time_buckets)

    monkeypatch.setattr(MessagesSource, "rows", rows)
    result = projections.run(1, 2, *only)
    assert result.report["pieces"] == {"planned": 1, "done": 0, "held": 1, "failed": 0}
    assert "deleted before the projection consumed them: a|1 2;" in result.stdout
    assert projections.journal.rows("every") == totals([first])


@pytest.mark.long
def test_a_persistence_id_that_was_cleaned_up_for_good_causes_no_scan(
    projections: Projections, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = red("a|1", 1, 0.1), [red("b|1", 1, 0.2), red("c|1", 1, 1.2)]
    projections.insert(old, *new[:1])
    projections.list_persistence_ids()
    projections.validated(0, 1)
    only = ("--projection", "every")
    assert projections.run(0, 1, *only).status == 0
    journal = projections.journal
    for table in ("messages", "all_persistence_ids"):
        partition = " AND partition_nr = 0" if table == "messages" else ""
        journal.control.execute(
            f"DELETE FROM {journal.keyspace}.{table} WHERE persistence_id = 'a|1'{partition}"
        )
    projections.history.discard(old)
    projections.insert(*new[1:])
    projections.list_persistence_ids()
    monkeypatch.setattr(frames, "message_index", None)
    assert projections.run(1, 2, *only).report["counts"]["accepted"] == 1


@pytest.mark.long
def test_where_events_expire_a_projection_begins_with_what_is_left(
    projections: Projections,
) -> None:
    """What comes after the TTL has a beginning that expired; what is older never had a TTL."""
    left, waiting = [red("a|1", 3, 2.1), red("a|1", 4, 3.1)], [red("c|1", 3, 4.1)]
    unexplained = [red("b|1", 2, 1.1), red("b|1", 3, 3.2), red("d|1", 6, 3.5)]
    projections.insert(*left, *waiting, *unexplained, red("c|1", 4, 3.3), red("d|1", 4, 2.5))
    # By a clock that is ahead, event 3 lies behind event 4; there are too many to read all.
    projections.insert(red("e|1", 3, 5.1), red("e|1", 4, 4.2))
    many = [event("e|1", number, 5.2, "red", kind="in", amount=1) for number in range(5, 45)]
    projections.insert(*many)
    projections.list_persistence_ids()
    projections.validated(1, 2, 3)
    only = ("--projection", "every")
    journal = projections.journal

    young = projections.run(1, 4, *only)
    assert young.report["counts"]["accepted"] == 0
    # As if written before the table had a TTL; its rows expire by the clock of today.
    age = datetime.now(UTC) - (START + timedelta(hours=2, minutes=30))
    journal.control.execute_ddl(
        f"ALTER TABLE {journal.keyspace}.messages"
        f" WITH default_time_to_live = {int(age.total_seconds())}"
    )
    begun = projections.run(1, 4, *only)
    assert begun.status == 0, begun.stderr
    assert begun.report["counts"]["accepted"] == 3
    assert begun.report["counts"]["first_encounters"] == 2
    assert [state for _, _, state, _ in projections.states()] == ["held", "done", "held"]
    assert projections.states()[2][3] == "gap: b|1 1 missing, c|1 3 held, d|1 5 missing"
    projections.validated(4)
    assert projections.run(4, 5, *only).report["counts"]["accepted"] == 2
    projections.validated(5)
    assert projections.run(5, 6, *only).report["counts"]["accepted"] == 42


@pytest.mark.long
def test_a_new_persistence_id_before_the_first_time_bucket_is_processed_or_named(
    projections: Projections,
) -> None:
    """Events of another system are imported with their old times."""
    since = EVERY.replace("every", "since").replace("mode:", "from: 2024-03-01\nmode:")
    projections.define(since, TOTALS_TABLE.replace("totals", "since"), file="one.sql")
    old, first, new = red("o|1", 1, -3.5), red("a|1", 1, 0.1), red("b|1", 1, 1.1)
    projections.insert(old, first)
    projections.list_persistence_ids()
    projections.validated(0, 1)
    begun = projections.run(0, 1)
    assert "warning: " not in begun.stdout
    imported = [red("n|1", 1, -5.2), red("n|1", 2, -5.1), red("n|1", 3, 1.2)]
    late = red("a|1", 2, -4.5)
    projections.insert(*imported, late, new)
    projections.list_persistence_ids()
    result = projections.run(1, 2)
    assert result.status == 0, result.stderr
    assert "since: warning: 2 series have events before" in result.stdout
    assert "every: warning" not in result.stdout
    assert projections.journal.rows("since") == totals([first, imported[2], new])
    assert projections.journal.rows("every") == totals([first, *imported, late, new])
    assert pieces(projections)["every", -6] == ("done", "late", 1)
    assert projections.run(1, 2).report["state"] == "nothing-to-do"


@pytest.mark.long
def test_a_number_that_is_nowhere_is_searched_once_in_a_run(
    make_journal: Callable[..., Journal], tmp_path: Path
) -> None:
    projections = both_sources(make_journal, tmp_path, PROJECT_MAX_ROWS="2")
    projections.history.add(red("a|1", 2, 0.2))
    held, later = red("a|1", 3, 0.3), [red("b|1", hour + 1, hour + 0.5) for hour in range(4)]
    projections.insert(red("a|1", 1, 0.1), held, *later)
    projections.validated(0, 1, 2, 3)
    result = projections.run(0, 4, "--projection", "totals")
    assert result.report["pieces"] == {"planned": 4, "done": 3, "held": 1, "failed": 0}
    first_batch, later_batches = result.stderr.split("batch 2,")
    assert "for missing numbers" in first_batch
    assert "for missing numbers" not in later_batches
    missing = red("a|1", 2, 0.2)
    projections.insert(missing)
    assert projections.run(0, 4, "--projection", "totals").report["pieces"]["done"] == 1
    assert projections.journal.rows("totals") == totals([red("a|1", 1, 0.1), missing, held, *later])
