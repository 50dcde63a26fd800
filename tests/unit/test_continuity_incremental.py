"""The new part of a history, and the little around it, shows all that the whole history would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.unit.conftest import Examples
from tests.unit.stored_history_frames import BOUNDS, bounds_of_buckets, findings_of, keys_of
from tests.unit.stored_history_model import HOUR, START_MS, Event, History, Progress, Row
from tidemark.continuity.findings.tag_sequence import with_is_removed
from tidemark.continuity.reading import incremental, tails
from tidemark.continuity.tag_views.bounds import Bounds
from tidemark.continuity.tag_views.expected import REMOVED
from tidemark.continuity.tag_views.suspicions import NewPart, suspicions
from tidemark.journal.frames import placed
from tidemark.ledger.purged import Removed
from tidemark.partitioning import columns

OLD, NEW = ([START_MS + hour * HOUR for hour in hours] for hours in (range(1, 4), range(4, 7)))
PURGED = frozenset(OLD[:2])
Lives = Mapping[str, tuple[History, History]]
"""By persistence id, its history when the old time buckets passed, and its present history."""
WHOLE = History.whole((1, "a"), (2, "ab"), (3, ""), (4, "a"), (5, "b"))
"""Tag a has the numbers 1, 2, 3 on events 1, 2, 4; tag b has 1, 2 on events 2, 5."""
A2, A3, B2 = WHOLE.row("a", 2), WHOLE.row("a", 3), WHOLE.row("b", 2)


def bounds_of(removed: frozenset[int], new: Sequence[int] = NEW) -> Bounds:
    return bounds_of_buckets(
        new, replace(BOUNDS, removed=Removed(removed), emptied_buckets=removed)
    )


def new_part(
    spark: SparkSession, lives: Lives, new_buckets: Sequence[int], bounds: Bounds
) -> tuple[NewPart, DataFrame]:
    """Return what `incremental.inspect` reads, with joins, and the tails that are overlapped."""
    before = keys_of(spark, {pid: was for pid, (was, _) in lives.items()})
    last_rows = tails.last_rows(before.rows, min(new_buckets) - HOUR)
    keys = keys_of(spark, {pid: now for pid, (_, now) in lives.items()})
    deleted = keys.deleted.where(F.col("deleted_to") < REMOVED)
    index = keys.index.withColumn("pending_tags", F.array().cast("array<string>"))
    new = index.where(F.col("time_bucket").isin(*new_buckets)).localCheckpoint()
    progress = placed(keys.progress, bounds.bucket_size)
    named = incremental.told_of(progress, keys.scanning, new_buckets)
    asked = incremental.asked_for(new, named)
    near = index.join(asked, on=["persistence_id", "sequence_nr"], how="left_semi")
    ids = incremental.unreached(named, near, deleted)
    around = near.join(ids, on="persistence_id", how="left_anti").unionByName(
        index.join(ids, on="persistence_id", how="left_semi")
    )
    places = incremental.partitions(new, progress, new_buckets).toDF("tag", "time_bucket")
    rows = keys.rows.join(places, on=["tag", "time_bucket"], how="left_semi").localCheckpoint()
    first = incremental.first_rows(rows)
    part = NewPart(
        new,
        rows,
        before=_as_they_are(incremental.preceding(first, last_rows), keys.rows, bounds),
        around=around.localCheckpoint(),
        progress=keys.progress,
        scanning=keys.scanning,
        deleted=deleted,
        listed=keys.listed,
    )
    return part, incremental.overlapping(first, last_rows)


def suspected(
    spark: SparkSession,
    lives: Lives,
    removed: frozenset[int] = frozenset(),
    new: Sequence[int] = NEW,
) -> set[str]:
    """Return the ids that a look at the new buckets suspects."""
    bounds = bounds_of(removed, new)
    part, overlapped = new_part(spark, lives, new, bounds)
    suspects = suspicions(part, new, bounds).select("persistence_id")
    overlaps = overlapped.select("persistence_id")
    return {row.persistence_id for row in suspects.unionByName(overlaps).distinct().collect()}


def _as_they_are(last_rows: DataFrame, rows: DataFrame, bounds: Bounds) -> DataFrame:
    """Return the last rows that still exist, and unchanged those that were removed on purpose."""
    key = ["persistence_id", "tag", "tag_pid_sequence_nr", "timestamp"]
    there = rows.join(last_rows.select(key), on=key, how="left_semi")
    epoch_ms = columns.timeuuid_epoch_ms(F.col("timestamp"))
    marked = with_is_removed(
        last_rows.withColumns(
            {
                "ticks": columns.timeuuid_ticks(F.col("timestamp")),
                "time_bucket": columns.time_bucket(epoch_ms, bounds.bucket_size),
            }
        ),
        "time_bucket",
        bounds.removed,
    ).localCheckpoint()
    gone = marked.where("is_removed").join(there.select(key), on=key, how="left_anti")
    return there.unionByName(gone.select(*rows.columns)).localCheckpoint()


def purged(history: History, buckets: frozenset[int] = PURGED) -> History:
    return history.without_rows(*(row for row in history.rows if row.time_bucket in buckets))


def test_only_what_is_damaged_is_suspected(spark: SparkSession) -> None:
    deleted = replace(WHOLE.without_events(*range(6)), deleted_to=5)
    sound = {
        "whole": WHOLE,
        "quiet": History.whole((1, "a"), (2, "a")),
        "awake again": History.whole((1, "a"), (6, "a")),
        "new": History.whole((5, "a"), (6, "ab")),
        "untagged": History.whole((2, ""), (5, "")),
        "clock that went back": History.whole((1, "a"), (5, "a"), (4, "a")),
        "deleted head": WHOLE.deleted(2),
        "all but the last deleted": WHOLE.deleted(4),
        "everything deleted": deleted,
        "cleaned up": WHOLE.without_events(*range(6)),
        # It lags in an old time bucket.
        "progress that lags": replace(
            WHOLE.with_progress("a", Progress(1, 1, WHOLE.row("a", 1).event.timestamp)),
            scanned_to=None,
        ),
        "more than is new": replace(History.whole((4, "a"), (7, "a")), scanned_to=2),
        "damage that had passed": WHOLE.without_events(1),
    }
    a4 = A3._replace(number=4)
    broken = {
        "gap": WHOLE.without_events(4),
        "the event before": WHOLE.without_events(3),
        "gap of two": WHOLE.without_events(3, 4),
        "tail": WHOLE.without_events(5),
        "tail that had passed": replace(
            History.whole((1, "")).without_events(1), scanned_to=1, is_listed=True
        ),
        "tail that only scanning knows": replace(WHOLE, scanned_to=7),
        "second writer": replace(WHOLE, events=WHOLE.events | {Event(2, 5)}),
        "wrong partition": replace(WHOLE, misplaced=frozenset({4})),
        "lost row": WHOLE.without_rows(A3),
        "row twice": WHOLE.with_rows(Row("a", 2, Event(9, 6), NEW[2])),
        "first number again": WHOLE.with_rows(Row("a", 1, Event(1, 6), NEW[2])),
        "event of before again": WHOLE.with_rows(Row("a", 4, Event(1, 6), NEW[2])),
        "renumbered": WHOLE.with_rows(a4),
        "another number": WHOLE.without_rows(A3).with_rows(a4),
        "another time bucket": WHOLE.without_rows(A3).with_rows(A3._replace(time_bucket=NEW[2])),
        "a tag that the event has not": WHOLE.with_rows(B2._replace(tag="a", number=4)),
        "a tag that nothing has": replace(
            WHOLE.with_rows(B2._replace(tag="c", number=1)),
            progress={**WHOLE.progress, "c": Progress(5, 1, B2.event.timestamp)},
        ),
        "the row before": WHOLE.without_rows(A2),
        "the row before, of a deleted event": WHOLE.deleted(2).without_rows(A2),
        "everything": replace(WHOLE.without_events(*range(6)), is_listed=True),
        "no progress": WHOLE.with_progress("a", None),
        "progress with another number": WHOLE.with_progress(
            "a", Progress(4, 2, A3.event.timestamp)
        ),
        "progress at another time": WHOLE.with_progress("a", Progress(4, 3, B2.event.timestamp)),
        "progress ahead": WHOLE.with_progress("a", Progress(9, 3, A3.event.timestamp)),
        "progress behind": History.whole((1, "a"), (4, "a"), (5, "a")).with_progress(
            "a", Progress(2, 2, Event(2, 4).timestamp)
        ),
    }
    as_it_was = {name: replace(WHOLE, is_listed=now.is_listed) for name, now in broken.items()}
    as_it_was["progress behind"] = History.whole((1, "a"), (4, "a"), (5, "a"))

    suspects = suspected(
        spark,
        {name: (history, history) for name, history in sound.items()}
        | {name: (as_it_was[name], history) for name, history in broken.items()},
    )

    assert suspects == set(broken)


def test_what_was_removed_is_taken_for_what_it_was(spark: SparkSession) -> None:
    late = History.whole((1, "a"), (2, "a"), (5, "a"))
    lives = {
        "purged": (late, purged(late)),
        "purged and deleted": (late, purged(late.deleted(2))),
        "lost beside the purge": (WHOLE, purged(WHOLE).without_rows(A3)),
    }

    assert suspected(spark, lives, PURGED) == {"lost beside the purge"}


@st.composite
def life(draw: st.DrawFn) -> tuple[History, History]:
    """Draw a history that was whole, and what has become of its new part."""
    hours = st.floats(1, 6.99, allow_nan=False).map(lambda hour: round(hour * 4) / 4)
    was = History.whole(
        *draw(
            st.lists(
                st.tuples(hours, st.sampled_from(["", "a", "b", "ab"])), min_size=1, max_size=6
            )
        )
    )
    deleted_to = draw(st.sampled_from([0, 0, 0, 1, 3]))
    now = was.deleted(deleted_to) if deleted_to else was
    fresh = sorted(row for row in now.rows if row.time_bucket in NEW)
    for row in draw(st.sets(st.sampled_from(fresh), max_size=2)) if fresh else ():
        now = now.without_rows(row)
        if draw(st.booleans()):
            other = draw(st.sampled_from([row.number, row.number + 1, max(row.number - 1, 1)]))
            now = now.with_rows(
                row._replace(
                    number=other,
                    tag=draw(st.sampled_from([row.tag, row.tag, "a", "c"])),
                    time_bucket=draw(st.sampled_from([row.time_bucket, *NEW])),
                )
            )
        if draw(st.booleans()):
            now = now.with_rows(row)
    lost = {event.number for event in now.events if event.time_bucket in NEW}
    if lost and draw(st.integers(0, 3)) == 0:
        now = now.without_events(draw(st.sampled_from(sorted(lost))))
    for tag, at in was.progress.items():
        change = draw(st.sampled_from(["none", "none", "lose", "number", "sequence_nr", "back"]))
        rows = [row for row in was.rows if row.tag == tag]
        if change == "lose":
            now = now.with_progress(tag, None)
        elif change == "back":
            row = draw(st.sampled_from(sorted(rows)))
            now = now.with_progress(
                tag, Progress(row.event.number, row.number, row.event.timestamp)
            )
        elif change != "none":
            off = max(getattr(at, change) + draw(st.sampled_from([-1, 1, 3])), 1)
            now = now.with_progress(tag, at._replace(**{change: off}))
    scanned = draw(st.sampled_from([now.scanned_to, now.scanned_to, None, 1, 12]))
    return was, replace(now, scanned_to=scanned, is_listed=draw(st.booleans()))


@pytest.mark.parametrize(
    "removed", [PURGED, pytest.param(frozenset(), marks=pytest.mark.soak)], ids=["purged", "all"]
)
def test_whatever_the_comparison_finds_in_new_buckets_is_suspected(
    spark: SparkSession, examples: Examples, removed: frozenset[int]
) -> None:
    drawn = examples(life(), 150)
    lives = {f"id-{place}": (was, purged(now, removed)) for place, (was, now) in enumerate(drawn)}
    # Under a tag that neither progress nor a new event knows, only a look at everything finds rows.
    lives["knows tag c"] = (History.whole((3, "c")),) * 2
    found = findings_of(spark, {pid: now for pid, (_, now) in lives.items()}, bounds_of(removed))
    expected = {finding["persistence_id"] for finding in found}

    missed = expected - suspected(spark, lives, removed)

    assert [
        (lives[pid], [row for row in found if row["persistence_id"] == pid]) for pid in missed
    ] == []
