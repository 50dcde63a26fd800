"""The new part of a history, and the little around it, shows all that the whole history would."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.unit.conftest import Examples
from tests.unit.project.stored_history_frames import BOUNDS, bounds_of_buckets, findings_of
from tests.unit.project.stored_history_model import HOUR, START_MS, Event, History, Progress, Row
from tests.unit.validate.inspection_in_memory import inspected
from tidemark.ledger.purged import Removed
from tidemark.validate.tag_views.bounds import Bounds

OLD, NEW = ([START_MS + hour * HOUR for hour in hours] for hours in (range(1, 4), range(4, 7)))
PURGED = frozenset(OLD[:2])
WHOLE = History.whole((1, "a"), (2, "ab"), (3, ""), (4, "a"), (5, "b"))
"""Tag a has the numbers 1, 2, 3 on events 1, 2, 4; tag b has 1, 2 on events 2, 5."""
A2, A3, B2 = WHOLE.row("a", 2), WHOLE.row("a", 3), WHOLE.row("b", 2)


def bounds_of(removed: frozenset[int], new: Sequence[int] = NEW) -> Bounds:
    return bounds_of_buckets(
        new, replace(BOUNDS, removed=Removed(removed), emptied_buckets=removed)
    )


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

    lives = {name: (history, history) for name, history in sound.items()}
    lives |= {name: (as_it_was[name], history) for name, history in broken.items()}
    suspects, _ = inspected(spark, lives, NEW)

    assert suspects == set(broken)


def test_what_was_removed_is_taken_for_what_it_was(spark: SparkSession) -> None:
    late = History.whole((1, "a"), (2, "a"), (5, "a"))
    lives = {
        "purged": (late, purged(late)),
        "purged and deleted": (late, purged(late.deleted(2))),
        "lost beside the purge": (WHOLE, purged(WHOLE).without_rows(A3)),
    }

    assert inspected(spark, lives, NEW, PURGED)[0] == {"lost beside the purge"}


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

    missed = expected - inspected(spark, lives, NEW, removed)[0]

    assert [
        (lives[pid], [row for row in found if row["persistence_id"] == pid]) for pid in missed
    ] == []
