"""The new part of a history, and the little around it, shows all that the whole history would."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.unit.continuity_model import (
    TARGET_PARTITION_SIZE,
    Event,
    History,
    Row,
    expected_findings,
    keys_of,
)
from tests.unit.test_continuity import PURGED, WHOLE, damaged, whole
from tidemark.continuity.findings.all_findings import suspicions
from tidemark.continuity.findings.extra_rows import rows_in_doubt
from tidemark.continuity.findings.tag_sequence import absent_events, with_is_removed
from tidemark.continuity.plan import Owed
from tidemark.continuity.reading import incremental, tails
from tidemark.ledger.purged import Removed

OLD, NEW = range(1, 4), [4, 5, 6]
NONE: frozenset[int] = frozenset()
Lives = Mapping[str, tuple[History, History]]
"""By persistence id, its history when the old time buckets passed, and its present history."""


def suspected(spark: SparkSession, lives: Lives, removed: frozenset[int] = NONE) -> set[str]:
    """Return the ids that a look at the new buckets suspects: `incremental.inspect` with joins."""
    before = keys_of(spark, {pid: was for pid, (was, _) in lives.items()})
    last_rows = tails.last_rows(before.rows, max(OLD))
    keys = keys_of(spark, {pid: now for pid, (_, now) in lives.items()})
    gone = Removed(removed)
    new = keys.index.where(F.col("time_bucket").isin(NEW)).localCheckpoint()
    series = incremental.told_of(keys.progress, keys.scanning, NEW)
    asked = incremental.asked_for(new, series)
    index = keys.index.join(asked, on=["persistence_id", "sequence_nr"], how="left_semi")
    ids = incremental.unreached(series, index, keys.deleted)
    around = index.join(ids, on="persistence_id", how="left_anti").unionByName(
        keys.index.join(ids, on="persistence_id", how="left_semi")
    )
    places = incremental.partitions(new, keys.progress, NEW).toDF("tag", "time_bucket")
    rows = keys.rows.join(places, on=["tag", "time_bucket"], how="left_semi").localCheckpoint()
    absent = absent_events(new, rows, gone, Owed())
    first = incremental.first_rows(rows)
    before_it = incremental.preceding(first, last_rows)
    read = replace(
        keys,
        index=around.localCheckpoint(),
        placed=new,
        extra=rows_in_doubt(rows, new, [new, around, keys.deleted, keys.listed], keys.deleted),
        rows=rows.unionByName(_as_they_are(before_it, keys.rows, gone)).localCheckpoint(),
    )
    suspects = suspicions(read, absent, gone, NEW, TARGET_PARTITION_SIZE).select("persistence_id")
    overlaps = incremental.overlapping(first, last_rows).select("persistence_id")
    return {row.persistence_id for row in suspects.unionByName(overlaps).collect()}


def _as_they_are(last_rows: DataFrame, rows: DataFrame, gone: Removed) -> DataFrame:
    """Return the last rows that still exist, and unchanged those that were removed on purpose."""
    bucket = F.split("timestamp", " ")[0].cast("bigint")
    placed = last_rows.withColumns({"ticks": bucket * 10, "time_bucket": bucket})
    marked = with_is_removed(placed, "time_bucket", gone)
    key = ["persistence_id", "tag", "tag_pid_sequence_nr", "timestamp"]
    left = rows.join(marked.where(~F.col("is_removed")), on=key, how="left_semi")
    return left.unionByName(marked.where("is_removed").select(*rows.columns))


def test_only_what_is_damaged_is_suspected(spark: SparkSession) -> None:
    sound = {
        "whole": WHOLE,
        "quiet": History.whole((1, "a"), (2, "a")),
        "awake again": History.whole((1, "a"), (6, "a")),
        "new": History.whole((5, "a"), (6, "ab")),
        "untagged": History.whole((2, ""), (5, "")),
        "clock that went back": History.whole((1, "a"), (5, "a"), (4, "a")),
        "deleted head": replace(WHOLE.without_events(1, 2), deleted_to=2),
        "all but the last deleted": replace(WHOLE.without_events(1, 2, 3, 4), deleted_to=4),
        "everything deleted": replace(WHOLE.without_events(*range(6)), deleted_to=5),
        "cleaned up": replace(WHOLE.without_events(*range(6)), is_listed=False),
        "progress that lags": replace(WHOLE, progress={"a": (1, 1, 1)}, scanned_to=None),
        "more than is new": replace(History.whole((4, "a"), (7, "a")), scanned_to=2),
        "damage that had passed": WHOLE.without_events(1),
    }
    a_row_less = replace(WHOLE, rows=tuple(row for row in WHOLE.rows if row != Row("a", 2, 2, 2)))
    broken = {
        "gap": WHOLE.without_events(4),
        "the event before": WHOLE.without_events(3),
        "gap of two": WHOLE.without_events(3, 4),
        "tail": WHOLE.without_events(5),
        "tail that had passed": replace(History.whole((1, "")).without_events(1), scanned_to=1),
        "tail of an id that is not listed": replace(
            History.whole((1, ""), (2, "")).without_events(2), is_listed=False
        ),
        "second writer": replace(WHOLE, events=(*WHOLE.events, Event(2, 5, copy=1))),
        "wrong partition": replace(
            WHOLE, events=tuple(replace(e, is_misplaced=e.number == 4) for e in WHOLE.events)
        ),
        "lost row": WHOLE.without_rows(3),
        "row twice": replace(WHOLE, rows=(*WHOLE.rows, Row("a", 2, 9, 6))),
        "first number again": replace(WHOLE, rows=(*WHOLE.rows, Row("a", 1, 1, 6))),
        "event of before again": replace(WHOLE, rows=(*WHOLE.rows, Row("a", 4, 1, 6))),
        "renumbered": replace(WHOLE, rows=(*WHOLE.rows, Row("a", 4, 4, 4, copy=1))),
        "the row before": a_row_less,
        "the row before, of a deleted event": replace(a_row_less, deleted_to=2),
        "everything": WHOLE.without_events(*range(6)),
    }
    as_they_were = dict.fromkeys(broken, WHOLE)

    suspects = suspected(
        spark,
        {name: (history, history) for name, history in sound.items()}
        | {name: (as_they_were[name], history) for name, history in broken.items()},
    )

    assert suspects == set(broken)


def test_what_was_removed_is_taken_for_what_it_was(spark: SparkSession) -> None:
    late = History.whole((1, "a"), (2, "a"), (5, "a"))
    lives = {
        "purged": (late, late.purged(1, 2)),
        "purged and deleted": (late, replace(late.purged(1, 2).without_events(1, 2), deleted_to=2)),
        "lost beside the purge": (WHOLE, WHOLE.purged(1, 2).without_rows(3)),
    }

    assert suspected(spark, lives, PURGED) == {"lost beside the purge"}


@settings(
    max_examples=3,
    deadline=None,
    # An example is a dozen Spark jobs however many histories it has, and the first example has only
    # empty ones. So the examples are few and large; the assertion names the history.
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.data(), st.sampled_from([NONE, PURGED]))
def test_whatever_the_model_finds_in_new_buckets_is_suspected(
    spark: SparkSession, data: st.DataObject, removed: frozenset[int]
) -> None:
    life = whole().flatmap(lambda was: st.tuples(st.just(was), damaged(was)))
    drawn = data.draw(st.lists(life, min_size=160, max_size=160))
    lives = {f"id-{place}": life for place, life in enumerate(drawn)}
    expected = {
        pid
        for pid, (was, now) in lives.items()
        if not _is_only_for_everything(was, now, removed)
        and any(finding[4] in NEW for finding in expected_findings(now, removed, NONE, max(NEW)))
    }

    missed = expected - suspected(spark, lives, removed)

    assert [lives[pid] for pid in missed] == []


def _is_only_for_everything(was: History, now: History, removed: frozenset[int]) -> bool:
    """Return whether only a look at everything finds the damage.

    These are rows that turned up in old time buckets, and events that were lost there after their
    rows had been removed. Beside them it accuses, since it cannot know better, a series whose
    clock went back into a removed time bucket, if the events there are deleted: the last row that
    an earlier run has seen is enough to know that nothing is missing.
    """
    turned_up = any(row.bucket in OLD for row in set(now.rows) - set(was.rows))
    lost = {event.number for event in was.events} - {event.number for event in now.events}
    kept_to = now.deleted_to or 0
    return turned_up or any(
        event.bucket in removed
        and event.number in lost
        and (event.number > kept_to or _clock_went_back_to(event, was))
        for event in was.events
    )


def _clock_went_back_to(event: Event, history: History) -> bool:
    return any(
        other.number < event.number and other.bucket > event.bucket for other in history.events
    )


def test_the_last_row_of_before_tells_what_lay_in_a_removed_bucket(spark: SparkSession) -> None:
    """A look at everything would accuse it: the row before lies in a later time bucket."""
    was = History.whole((3, "a"), (2, "a"), (5, "a"))
    now = replace(was.purged(1, 2).without_events(2), deleted_to=2)

    assert {finding[0] for finding in expected_findings(now, PURGED, NONE, max(NEW))} == {
        "tag_pid_sequence_nr_gap"
    }
    assert suspected(spark, {"clock that went back": (was, now)}, PURGED) == set()
