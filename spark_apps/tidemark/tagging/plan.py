"""Which pieces a run does now, which it leaves for later, and how it finds their events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tidemark.ledger.pieces import Piece, Reason
from tidemark.partitioning.keys import BucketSize
from tidemark.window import from_millis


class Strategy(StrEnum):
    """How the events of a run are found."""

    SCAN = "scan"
    """Read all keys of messages."""
    TAILS = "tails"
    """Look behind the last complete event of every persistence id."""
    INDEX = "index"
    """The same, but only for the persistence ids that the index on `timestamp` names."""


MANY_IDS = 50_000
"""Above this an index names the ids with news faster than all of them can be asked."""
FEW_EVENTS = 20
"""Below this many events per persistence id a scan of their keys is cheaper than asking each."""


@dataclass(frozen=True)
class Journal:
    """What the choice depends on.

    Attributes:
        known_ids: persistence ids whose last complete event is known.
        known_events: the events up to those, at most.
        all_are_listed: all_persistence_ids names every one of them that still has messages.
        has_index: messages has a storage-attached index on timestamp.
    """

    known_ids: int
    known_events: int
    all_are_listed: bool
    has_index: bool


def choose(
    requested: Strategy | None, journal: Journal, pieces: Sequence[Piece]
) -> tuple[Strategy, str]:
    """The strategy, and why, for the report.

    Whatever was asked for, only a scan rewrites events that are complete, numbers a journal of
    which nothing is known, or finds persistence ids that all_persistence_ids does not list.
    """
    if reason := _only_a_scan(journal, pieces):
        return Strategy.SCAN, reason
    if requested is Strategy.INDEX and not journal.has_index:
        return Strategy.TAILS, "asked for index, but messages has none on timestamp"
    if requested is not None:
        return requested, "asked for"
    size = f"{journal.known_ids:,} persistence ids hold {journal.known_events:,} events"
    if journal.known_events < FEW_EVENTS * journal.known_ids:
        return (Strategy.INDEX if journal.has_index else Strategy.SCAN), size
    many = journal.has_index and journal.known_ids > MANY_IDS
    return (Strategy.INDEX if many else Strategy.TAILS), size


def _only_a_scan(journal: Journal, pieces: Sequence[Piece]) -> str:
    if any(piece.reason in (Reason.FORCED, Reason.CHANGED) for piece in pieces):
        return "pieces are written again"
    if not journal.known_ids:
        return "nothing is known of this journal yet"
    if not journal.all_are_listed:
        return "all_persistence_ids does not list every persistence id"
    return ""


def in_reach(pieces: Sequence[Piece], size: BucketSize, now: datetime) -> list[Piece]:
    """The pieces that a live reader may be looking back at: those of the previous bucket and on.

    A reader that has not met a persistence id and sees a row of it with a number above 1 there
    demands all numbers from 1, and fails if they lie further back (docs/real-systems.md, "A foreign
    writer's risks").
    """
    return [piece for piece in pieces if out_of_reach_at(piece.time_bucket, size) > now]


def out_of_reach_at(time_bucket: int, size: BucketSize) -> datetime:
    """When no live reader looks back at the time bucket (epoch ms) any more."""
    return from_millis(time_bucket + 2 * size.milliseconds)
