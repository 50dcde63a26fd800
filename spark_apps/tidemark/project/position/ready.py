"""The time buckets that projections may process; without Spark."""

from __future__ import annotations

from datetime import timedelta

from tidemark import clock
from tidemark.context import RunContext
from tidemark.ledger import applications
from tidemark.ledger.pieces import Pieces
from tidemark.partitioning.time_buckets import TimeBuckets
from tidemark.project.definition.model import Definition
from tidemark.project.definition.source import KafkaJournal
from tidemark.replicate.progress import replicated_to
from tidemark.settings import Settings
from tidemark.window import to_millis


def ready_buckets(run: RunContext, definition: Definition, first: int, end: int) -> TimeBuckets:
    """Find the time buckets from `first` to `end` (epoch ms) that may be processed.

    Time buckets of a Pekko journal may be processed when validate is done with them; older and
    newer ones are returned too. Time buckets of kafka-journal are not validated: they may be
    processed when they are replicated, or, with another replicator, when they ended longer ago than
    TIDEMARK_KAFKA_JOURNAL_DELAY.
    """
    source = definition.source
    if not isinstance(source, KafkaJournal):
        return validated_buckets(run, run.settings)
    replicated_until = replicated_to.read(run, source.topic)
    delay = timedelta(seconds=run.settings.kafka_journal_delay)
    until = clock.now() - delay if replicated_until is None else replicated_until
    return ended_buckets(run.settings, first, end, to_millis(until))


def ended_buckets(settings: Settings, first: int, end: int, until: int) -> TimeBuckets:
    """Return the time buckets from `first` to `end` that have ended by `until`; all epoch ms."""
    size = settings.bucket_size.milliseconds
    newest = until - size
    ended = range(first, min(end, newest + 1), size)
    return TimeBuckets([(ended.start, ended[-1] + size)] if ended else [], size)


def validated_buckets(run: RunContext, settings: Settings) -> TimeBuckets:
    """Read the time buckets that validate is done with."""
    return Pieces.of(run.control, settings, applications.VALIDATE).done()
