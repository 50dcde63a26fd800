"""tag-write from plan to report."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from pyspark.storagelevel import StorageLevel

from tidemark import preflight
from tidemark.application import DONE, NOTHING, PLANNED, Outcome, Run
from tidemark.errors import JournalDamaged
from tidemark.journal import frames, tables
from tidemark.ledger import applications
from tidemark.ledger.claim import Claim, claim
from tidemark.ledger.pieces import Pieces, State, describe
from tidemark.settings import Settings
from tidemark.tagging import layout, store, transform
from tidemark.window import Window

APPLICATION = applications.TAG_WRITE
COUNTS = ("events_read", "tag_rows_written", "late_tag_rows")


def ledger(run: Run) -> Pieces:
    """The pieces of tag-write: one for each time bucket of the journal, all tags together."""
    return Pieces(run.control, run.settings.keyspace, APPLICATION, run.settings.journal_keyspace)


def run_window(run: Run, window: Window, *, force: bool, dry_run: bool) -> Outcome:
    """Write the tag views, the progress and the scanning of the window's events.

    Args:
        run: the application's frame.
        window: whole time buckets that are over.
        force: also do buckets that are done.
        dry_run: plan only.

    Raises:
        InvalidInput: the window does not fit the bucket size, or lies in the future.
        SchemaMismatch: the journal's tables are missing or of another shape.
        BucketSizeMismatch: the existing tag views have another bucket size.
        JournalDamaged: progress and messages contradict each other.
        LockHeld: another run works on one of the days.
    """
    settings = run.settings
    preflight.check(run, window)
    pieces_ledger = ledger(run)
    pieces = pieces_ledger.plan(window.buckets(settings.bucket_size), force=force)
    if not pieces:
        return Outcome(NOTHING, lines=[f"every {settings.bucket_size} bucket is done"])
    if dry_run:
        return Outcome(PLANNED, {"planned": len(pieces)}, lines=describe(pieces))
    run.say(f"{len(pieces)} {settings.bucket_size.value} buckets to do")
    with claim(
        run.control,
        settings,
        pieces_ledger,
        pieces,
        resource=f"{tables.TAG_VIEWS}/{settings.journal_keyspace}",
        owner=run.owner,
        run_id=run.run_id,
        on_lost=run.stop_jobs,
    ) as claimed:
        layout.record_bucket_size(run.control, settings)
        counts = _write(run, claimed, pieces_ledger.done())
        claimed.finish(State.DONE, counts)
    totals = {name: sum(each[name] for each in counts.values()) for name in COUNTS}
    return Outcome(DONE, {"planned": len(pieces), "done": len(pieces)}, totals)


def _write(run: Run, claimed: Claim, done: set[int]) -> dict[int, dict[str, int]]:
    spark, settings = run.spark, run.settings
    planned = {piece.time_bucket for piece in claimed.pieces}
    marked = transform.mark_covered(
        transform.number_tagged(
            frames.message_index(spark, settings), frames.write_progress(spark, settings)
        ),
        _buckets(spark, planned, done),
    ).persist(StorageLevel.MEMORY_AND_DISK)
    run.say("numbering the tagged events")
    found = transform.counts_by_bucket(marked).collect()  # one row for each bucket
    counts = {row.time_bucket: {name: row[name] for name in COUNTS} for row in found}
    _require_numbers([row.lowest_number for row in found], settings)
    rows = sum(each["tag_rows_written"] for each in counts.values())
    if rows:
        run.say(f"writing {rows:,} rows of tag_views")
        with_rows = [bucket for bucket, each in counts.items() if each["tag_rows_written"]]
        messages = frames.messages_between(
            spark, settings, min(with_rows), max(with_rows) + settings.bucket_size.milliseconds
        )
        claimed.check()
        view_rows = transform.tag_view_rows(transform.to_write(marked), messages)
        with _damage_in_one_line(settings):
            store.write_tag_views(view_rows, settings)
    run.say("writing tag_write_progress and tag_scanning")
    _write_completeness(run, claimed, marked)
    marked.unpersist()
    return counts


def _write_completeness(run: Run, claimed: Claim, marked: DataFrame) -> None:
    claimed.check()
    store.write_progress(transform.progress_rows(marked), run.settings)
    claimed.check()
    scanning = frames.scanning(run.spark, run.settings)
    store.write_scanning(transform.scanning_rows(marked, scanning), run.settings)


@contextmanager
def _damage_in_one_line(settings: Settings) -> Iterator[None]:
    """Turn what a transformation refused inside a Spark job into our own error."""
    try:
        yield
    except Exception as error:
        refused = re.search(rf"{transform.REFUSED}([^\n]+)", str(error))
        if refused is None:
            raise
        raise JournalDamaged(
            refused[1].strip(),
            where=f"{settings.journal_keyspace}.{tables.MESSAGES}",
            do="every reader of its tags would fail on it: repair or delete that message",
        ) from error


def _buckets(spark: SparkSession, planned: set[int], done: set[int]) -> DataFrame:
    rows = [(bucket, bucket in planned) for bucket in sorted(planned | done)]
    return spark.createDataFrame(rows, "time_bucket bigint, is_planned boolean")


def _require_numbers(lowest: Sequence[int | None], settings: Settings) -> None:
    numbers = [number for number in lowest if number is not None]
    if numbers and min(numbers) < 1:
        raise JournalDamaged(
            f"an event would get tag pid sequence nr {min(numbers)}: tag_write_progress counts"
            " fewer tagged events than messages holds up to it",
            where=settings.journal_keyspace,
            do="rebuild the tag views of the persistence ids that validate names",
        )
