"""The history of a new projection: the time buckets before its first window.

As in Akka and Pekko, a projection begins with the first event of the journal, unless its definition
has `from`. A projection has begun once a run has started one of its pieces with events to read.
"""

from __future__ import annotations

from tidemark.context import RunContext
from tidemark.journals.kafka.first_event import first_event_ms
from tidemark.ledger import applications
from tidemark.ledger.frontier.state import LedgerState
from tidemark.ledger.piece import Reason, State
from tidemark.ledger.pieces import Pieces
from tidemark.ledger.purged import emptied_buckets
from tidemark.partitioning import keys
from tidemark.partitioning.keys import BucketSize
from tidemark.project.definition.model import Definition
from tidemark.project.definition.source import KafkaJournal
from tidemark.window import from_millis, iso, to_millis

ALL = -(2**63)
"""The begin of a projection that processes the complete history."""


def begin_of(definition: Definition, size: BucketSize) -> int:
    """Return the first time bucket that a definition allows (epoch ms); ALL without `from`.

    Raises:
        DefinitionError: `from` does not begin a time bucket.
    """
    if definition.begin is None:
        return ALL
    begin = to_millis(definition.begin)
    bucket = keys.time_bucket(begin, size)
    if bucket != begin:
        raise definition.error(
            f"{iso(definition.begin)} is within a {size} bucket",
            f"write the begin of one, such as `{iso(from_millis(bucket))}`",
            definition.header_lines["from"],
        )
    return begin


def has_begun(state: LedgerState) -> bool:
    """Return whether a run has started a piece; pieces that only wait for validate do not count."""
    return bool(state.spans) or any(
        # A restated piece was done; it has no counts if purge deleted its row from the ledger.
        entry.counts
        or entry.state not in (State.PLANNED, State.HELD)
        or entry.reason == Reason.RESTATED
        for entry in state.rows
    )


def find(
    run: RunContext, definition: Definition, state: LedgerState, first_in_window: int
) -> list[int]:
    """Return the history of a projection that has not begun, in epoch ms, ascending.

    For a Pekko journal, these are the time buckets in validate's ledger, passed or not. If the
    source reads tag views, time buckets up to the last one that purge has emptied are left out:
    they read as empty, and later events must not wait for their numbers.
    """
    if has_begun(state):
        return []
    begin = begin_of(definition, run.settings.bucket_size)
    if definition.source.reads_tag_views:
        emptied = emptied_buckets(run.control, run.settings)
        last = emptied.within(ALL, first_in_window).last
        begin = begin if last is None else max(begin, last + 1)
    return [bucket for bucket in _known(run, definition, first_in_window) if bucket >= begin]


def _known(run: RunContext, definition: Definition, end: int) -> list[int]:
    settings = run.settings
    if isinstance(definition.source, KafkaJournal):
        first_ms = first_event_ms(run.control, settings, definition.source.topic)
        if first_ms is None:
            return []
        first = keys.time_bucket(first_ms, settings.bucket_size)
        return list(range(first, end, settings.bucket_size.milliseconds))
    validate = Pieces.of(run.control, settings, applications.VALIDATE)
    return list(validate.standing(before=end).known)
