"""From which sequence nr on the readers of `messages` still need each persistence id's events."""

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
    behind,
    first_numbers,
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
"""The reader that tag-write is where Tidemark has built tag views of the journal."""


@dataclass(frozen=True)
class EventNeeds:
    """What the readers of `messages` still need.

    Attributes:
        per_id: by persistence id, the lowest sequence nr that a reader still needs; in memory.
        everything: a line for each reader that needs all events there are, and why.
        told: lines on readers that hold back some of them, and may be gone.
    """

    per_id: DataFrame
    everything: tuple[str, ...]
    told: tuple[str, ...] = ()


@shaped(ids=shapes.ID)
def needed(run: RunContext, ids: DataFrame, given_up: Collection[str] = ()) -> EventNeeds:
    """Find what must stay of some persistence ids' events.

    Readers are the projections of sources `messages` and `persistence-ids`, paused and lagging
    ones included, tag-write, and the registered readers of source `messages`. A reader that has not
    met a persistence id needs it from 1, or from its first event in the time buckets that the
    reader has. A deletion may go up to, and not including, `needed_from`, whatever is appended
    meanwhile.

    Args:
        run: the context of the run.
        ids: persistence ids; rows may repeat.
        given_up: the names of projections without a file, and of other readers, that need nothing.

    Raises:
        InvalidInput: there is no directory of projection files.
        DefinitionError: a projection file cannot be used, so that its needs are unknown.
    """
    wanted = ids.select("persistence_id").distinct().localCheckpoint()
    consumers = consumers_of(run, lambda definition: definition.source.reads_journal)
    others = [
        reader
        for reader in readers_of(run.control, run.settings, given_up)
        if reader.source in (ReaderSource.MESSAGES, None)
    ]
    of_all = [reader for reader in others if not reader.persistence_id or reader.source is None]
    index = frames.message_index(run.spark, run.settings)
    stored = {
        consumer.name: stored_offsets(
            OffsetStore.of(run, consumer.definition), run.spark, ALL_SLICES
        )
        for consumer in consumers
    }
    moments = {
        consumer.name: again_from_of(consumer, index, stored[consumer.name])
        for consumer in consumers
    }
    asked = {moment for moment in moments.values() if moment is not None}
    asked |= {consumer.begin for consumer in consumers if consumer.begin != history.ALL}
    asked |= {reader.begin(run.settings.bucket_size) for reader in of_all if not reader.problem}
    # The journal is read once for all readers, and not at all where offsets say everything.
    read = index if asked else index.limit(0)
    firsts = first_numbers(
        read.join(wanted, on="persistence_id", how="left_semi"), asked
    ).localCheckpoint()
    needs = [
        needs_of(consumer, wanted, stored[consumer.name], firsts, moments[consumer.name])
        for consumer in consumers
    ]
    needs += [
        restarted(consumer, wanted, stored[consumer.name], index)
        for consumer in consumers
        if consumer.definition.reset_after is not None
    ]
    needs += [
        behind(reader, wanted, firsts, run.settings.bucket_size)
        for reader in of_all
        if not reader.problem
    ]
    if len(of_all) < len(others):
        needs.append(of_ids([reader for reader in others if reader not in of_all], wanted))
    if Pieces.of(run.control, run.settings, applications.TAG_WRITE).standing():
        needs.append(untagged(wanted, frames.scanning(run.spark, run.settings)))
    lost = [reader for reader in of_all if reader.problem]
    return EventNeeds(
        lowest(needs or [none(wanted)]).localCheckpoint(),
        everything=(*absent_lines(run, given_up), *lines(lost)),
        told=tuple(lines([reader for reader in others if reader not in lost])),
    )


@shaped(ids=shapes.ID, scanning=SCANNING, returns=shapes.EVENT_NEEDS)
def untagged(ids: DataFrame, scanning: DataFrame) -> DataFrame:
    """Find what tag-write needs: the events behind those that tag_scanning says are written."""
    written = F.coalesce(F.col("scanned_to"), F.lit(0))
    return ids.join(scanning, on="persistence_id", how="left").select(
        "persistence_id",
        (written + 1).cast("bigint").alias("needed_from"),
        F.lit(TAG_WRITE).alias("reader"),
    )
