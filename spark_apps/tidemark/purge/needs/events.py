"""The sequence nr from which readers of `messages` still need each persistence id's events."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.journals.pekko import frames
from tidemark.journals.pekko.shapes import SCANNING
from tidemark.ledger import applications
from tidemark.ledger.pieces import Pieces
from tidemark.partitioning.slice_ranges import ALL as ALL_SLICES
from tidemark.project.offset_store.consumption import stored_offsets
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.planning import history
from tidemark.purge.needs import shapes
from tidemark.purge.needs.consumers import consumers_of
from tidemark.purge.needs.numbered import (
    again_from_of,
    first_numbers,
    from_time,
    lowest,
    needs_of,
    none,
    of_ids,
    restarted,
)
from tidemark.purge.needs.readers import ReaderSource, lines, readers_of
from tidemark.purge.needs.tag_views import absent_lines
from tidemark.spark.shapes import shaped

TAG_WRITE = "tag-write"
"""tag-write as a reader, of journals whose tag views Tidemark has built."""


@dataclass(frozen=True)
class EventNeeds:
    """The needs of the readers of `messages`.

    Attributes:
        per_id: by persistence id, the lowest sequence nr that a reader still needs; in memory.
        everything: a line for each reader that needs all existing events, and why.
        notices: lines on readers that hold back some events and may no longer exist.
    """

    per_id: DataFrame
    everything: tuple[str, ...]
    notices: tuple[str, ...] = ()


@shaped(ids=shapes.ID)
def needed(run: RunContext, ids: DataFrame, given_up: Collection[str] = ()) -> EventNeeds:
    """Find which events of some persistence ids readers need.

    Readers are the projections of sources `messages` and `persistence-ids`, paused and lagging
    ones included, tag-write, and the registered readers of source `messages`. A reader without an
    offset of a persistence id needs it from 1, or from its first event in the reader's time
    buckets. A deletion may go up to, and not including, `needed_from`, whatever is appended
    meanwhile. Projections without a file, and other readers, whose names are in `given_up` need
    nothing.
    """
    unique_ids = ids.select("persistence_id").distinct().localCheckpoint()
    consumers = consumers_of(run, lambda definition: definition.source.reads_journal)
    registered = [
        reader
        for reader in readers_of(run.control, run.settings, given_up)
        if reader.source in (ReaderSource.MESSAGES, None)
    ]
    of_all = [reader for reader in registered if not reader.persistence_id or reader.source is None]
    index = frames.message_index(run.spark, run.settings)
    offsets = {
        consumer.name: stored_offsets(
            OffsetStore.of(run, consumer.definition), run.spark, ALL_SLICES
        )
        for consumer in consumers
    }
    moments = {
        consumer.name: again_from_of(consumer, index, offsets[consumer.name])
        for consumer in consumers
    }
    starts = {moment for moment in moments.values() if moment is not None}
    starts |= {consumer.begin for consumer in consumers if consumer.begin != history.ALL}
    starts |= {reader.begin(run.settings.bucket_size) for reader in of_all if not reader.problem}
    # The journal is read once for all readers, and not at all where offsets suffice.
    read = index if starts else index.limit(0)
    firsts = first_numbers(
        read.join(unique_ids, on="persistence_id", how="left_semi"), starts
    ).localCheckpoint()
    needs = [
        needs_of(consumer, unique_ids, offsets[consumer.name], firsts, moments[consumer.name])
        for consumer in consumers
    ]
    needs += [
        restarted(consumer, unique_ids, offsets[consumer.name], index)
        for consumer in consumers
        if consumer.definition.reset_after is not None
    ]
    needs += [
        from_time(reader, unique_ids, firsts, run.settings.bucket_size)
        for reader in of_all
        if not reader.problem
    ]
    if len(of_all) < len(registered):
        needs.append(of_ids([reader for reader in registered if reader not in of_all], unique_ids))
    if Pieces.of(run.control, run.settings, applications.TAG_WRITE).standing():
        needs.append(untagged(unique_ids, frames.scanning(run.spark, run.settings)))
    broken = [reader for reader in of_all if reader.problem]
    return EventNeeds(
        lowest(needs or [none(unique_ids)]).localCheckpoint(),
        everything=(*absent_lines(run, given_up), *lines(broken)),
        notices=tuple(lines([reader for reader in registered if reader not in broken])),
    )


@shaped(ids=shapes.ID, scanning=SCANNING, returns=shapes.EVENT_NEEDS)
def untagged(ids: DataFrame, scanning: DataFrame) -> DataFrame:
    """Find the needs of tag-write: the events after those that tag_scanning has passed."""
    written = F.coalesce(F.col("scanned_to"), F.lit(0))
    return ids.join(scanning, on="persistence_id", how="left").select(
        "persistence_id",
        (written + 1).cast("bigint").alias("needed_from"),
        F.lit(TAG_WRITE).alias("reader"),
    )
