"""The choice of the pieces that a run does, and of the strategy that finds their events."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tidemark.ledger.piece import Piece, Reason
from tidemark.partitioning.keys import BucketSize
from tidemark.partitioning.time_buckets import Range, TimeBuckets
from tidemark.window import from_millis


class Strategy(StrEnum):
    """The way in which a run finds its events."""

    SCAN = "scan"
    """Read all keys of messages."""
    TAILS = "tails"
    """Read the messages after the last complete event of every persistence id."""
    INDEX = "index"
    """Like TAILS, but only for the persistence ids that the index on `timestamp` finds."""


MANY_IDS = 50_000
"""Above this number of ids, the index finds those with new events faster than reads by key."""
FEW_EVENTS = 20
"""Below this many events per persistence id a scan is cheaper than reads by key."""
MUCH = 0.1
"""From this share of the journal on, a scan is preferred: it keeps no payloads in memory."""
NEWS_SHARE = 4
"""The index is read first if at most one time bucket in this number is to be done."""
LITTLE = 10_000
"""Up to this number, new events are read by key, whatever share of the journal they are."""


_REWRITE_REASONS = (Reason.FORCED, Reason.CHANGED)


@dataclass(frozen=True)
class Journal:
    """The facts about a journal on which the choice of a strategy depends.

    Attributes:
        known_ids: persistence ids whose last complete event is known.
        events: the largest number of events that the tables record.
        unread_events: the number of events after the last complete event of their persistence id.
            Each is read by key, whatever the window.
        all_are_listed: all_persistence_ids names every known id that still has messages.
        has_index: messages has a storage-attached index on timestamp.
    """

    known_ids: int
    events: int
    unread_events: int
    all_are_listed: bool
    has_index: bool


def is_little(requested: Strategy | None, pieces: Sequence[Piece], done: Collection[int]) -> bool:
    """Return whether it is enough to read the persistence ids that the index finds."""
    is_rewrite = any(piece.reason in _REWRITE_REASONS for piece in pieces)
    is_little_time = len(pieces) * NEWS_SHARE <= len(done)
    return requested in (None, Strategy.INDEX) and not is_rewrite and is_little_time


def choose(
    requested: Strategy | None, journal: Journal, pieces: Sequence[Piece]
) -> tuple[Strategy, str]:
    """Return the strategy, and the reason for it as a clause of the report.

    Whatever was requested: only a scan can rewrite complete events or number a journal without
    tails, and TAILS does not find persistence ids that all_persistence_ids does not list.
    """
    if reason := _only_a_scan(journal, pieces):
        return Strategy.SCAN, reason
    if not journal.all_are_listed and requested is not Strategy.SCAN:
        reason = "all_persistence_ids does not list every persistence id"
        return (Strategy.INDEX if journal.has_index else Strategy.SCAN), reason
    if requested is Strategy.INDEX and not journal.has_index:
        return Strategy.TAILS, "asked for index, but messages has none on timestamp"
    if requested is not None:
        return requested, "asked for"
    return _by_size(journal)


def _by_size(journal: Journal) -> tuple[Strategy, str]:
    if journal.unread_events > max(LITTLE, MUCH * journal.events):
        return Strategy.SCAN, f"{journal.unread_events:,} of {journal.events:,} events are new"
    size = f"{journal.known_ids:,} persistence ids hold {journal.events:,} events"
    if journal.events < FEW_EVENTS * journal.known_ids:
        return (Strategy.INDEX if journal.has_index else Strategy.SCAN), size
    is_index_faster = journal.has_index and journal.known_ids > MANY_IDS
    return (Strategy.INDEX if is_index_faster else Strategy.TAILS), size


def _only_a_scan(journal: Journal, pieces: Sequence[Piece]) -> str:
    if any(piece.reason in _REWRITE_REASONS for piece in pieces):
        return "pieces are written again"
    if not journal.known_ids:
        return "nothing is known of this journal yet"
    return ""


def indexed_ranges(pieces: Sequence[Piece], size: BucketSize, look_back: int) -> list[Range]:
    """Return the time ranges (epoch ms) in which the index is read, without those between pieces.

    `look_back`: seconds before each piece that are read, too.
    """
    step = size.milliseconds
    look_back_ms = -(-look_back * 1000 // step) * step
    spans = ((piece.time_bucket - look_back_ms, piece.time_bucket + step) for piece in pieces)
    return TimeBuckets(spans, step).ranges


def end_of(pieces: Sequence[Piece], done: Collection[int], size: BucketSize) -> int:
    """Return the end (epoch ms) of the last piece and of the done time buckets that follow it.

    Their events let progress advance once the events before them are written.
    """
    end = max(piece.time_bucket for piece in pieces) + size.milliseconds
    while end in done:
        end += size.milliseconds
    return end


def in_reach(pieces: Sequence[Piece], size: BucketSize, now: datetime) -> list[Piece]:
    """Return the pieces that live readers may still read: from the previous time bucket on.

    A reader that finds there a first row of a persistence id with a number above 1 demands all
    numbers from 1, and fails if they are further back (docs/real-systems.md, "A foreign writer's
    risks").
    """
    return [piece for piece in pieces if out_of_reach_at(piece.time_bucket, size) > now]


def out_of_reach_at(time_bucket: int, size: BucketSize) -> datetime:
    """Return when live readers stop reading the time bucket (epoch ms)."""
    return from_millis(time_bucket + 2 * size.milliseconds)
