"""The choice of the pieces that a run does now, and of the strategy that finds their events."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tidemark.ledger.pieces import Piece, Reason
from tidemark.partitioning.keys import BucketSize
from tidemark.partitioning.time_buckets import Range, TimeBuckets
from tidemark.window import from_millis


class Strategy(StrEnum):
    """The way in which a run finds its events."""

    SCAN = "scan"
    """Read all keys of messages."""
    TAILS = "tails"
    """Look behind the last complete event of every persistence id."""
    INDEX = "index"
    """Like TAILS, but only for the persistence ids that the index on `timestamp` names."""


MANY_IDS = 50_000
"""Above this number of ids, the index names those with new events faster than reads by key do."""
FEW_EVENTS = 20
"""Below this many events per persistence id a scan is cheaper than asking each."""
MUCH = 0.1
"""From this part of the journal on, a scan of all is preferred: it keeps no payloads in memory."""
NEWS_SHARE = 4
"""The index is asked first if at most one time bucket in this number is to be done."""
LITTLE = 10_000
"""Up to this number, events are read by key whatever part of the journal they are."""


_AGAIN = (Reason.FORCED, Reason.CHANGED)


@dataclass(frozen=True)
class Journal:
    """The facts about a journal on which the choice of a strategy depends.

    Attributes:
        known_ids: persistence ids whose last complete event is known.
        events: the number of events that any table records, at most.
        unread_events: those of them after the last complete event of their persistence id. Each
            of them is read by key, whatever the window.
        all_are_listed: all_persistence_ids names every known id that still has messages.
        has_index: messages has a storage-attached index on timestamp.
    """

    known_ids: int
    events: int
    unread_events: int
    all_are_listed: bool
    has_index: bool


def is_little(requested: Strategy | None, pieces: Sequence[Piece], done: Collection[int]) -> bool:
    """Return whether only the persistence ids that the index names need be asked about."""
    is_again = any(piece.reason in _AGAIN for piece in pieces)
    is_little_time = len(pieces) * NEWS_SHARE <= len(done)
    return requested in (None, Strategy.INDEX) and not is_again and is_little_time


def choose(
    requested: Strategy | None, journal: Journal, pieces: Sequence[Piece]
) -> tuple[Strategy, str]:
    """Return the strategy, and the reason for it as a clause of the report.

    Whatever was requested, only a scan rewrites events that are complete or numbers a journal of
    which nothing is known, and tails does not find persistence ids that all_persistence_ids does
    not list.
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
    many = journal.has_index and journal.known_ids > MANY_IDS
    return (Strategy.INDEX if many else Strategy.TAILS), size


def _only_a_scan(journal: Journal, pieces: Sequence[Piece]) -> str:
    if any(piece.reason in _AGAIN for piece in pieces):
        return "pieces are written again"
    if not journal.known_ids:
        return "nothing is known of this journal yet"
    return ""


def indexed_ranges(pieces: Sequence[Piece], size: BucketSize, look_back: int) -> list[Range]:
    """Return the ranges of time buckets in which the index is read: not those between the pieces.

    Args:
        pieces: the pieces of the run.
        size: the bucket size.
        look_back: seconds before each piece.
    """
    step = size.milliseconds
    before = -(-look_back * 1000 // step) * step
    spans = ((piece.time_bucket - before, piece.time_bucket + step) for piece in pieces)
    return TimeBuckets(spans, step).ranges


def end_of(pieces: Sequence[Piece], done: Collection[int], size: BucketSize) -> int:
    """Return the end (epoch ms) of the last piece and of the done time buckets that follow it.

    Their events let the progress go on once those before them are written.
    """
    end = max(piece.time_bucket for piece in pieces) + size.milliseconds
    while end in done:
        end += size.milliseconds
    return end


def in_reach(pieces: Sequence[Piece], size: BucketSize, now: datetime) -> list[Piece]:
    """Return the pieces that live readers may look back at: from the previous time bucket on.

    A reader that has not met a persistence id and sees a row of it with a number above 1 there
    demands all numbers from 1, and fails if they lie further back (docs/real-systems.md, "A foreign
    writer's risks").
    """
    return [piece for piece in pieces if out_of_reach_at(piece.time_bucket, size) > now]


def out_of_reach_at(time_bucket: int, size: BucketSize) -> datetime:
    """Return when live readers stop looking back at the time bucket (epoch ms)."""
    return from_millis(time_bucket + 2 * size.milliseconds)
