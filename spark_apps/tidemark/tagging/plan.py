"""The choice of the pieces that a run does now, and of the strategy that finds their events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tidemark.ledger.pieces import Piece, Reason
from tidemark.partitioning.keys import BucketSize
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
"""Below this many events per persistence id a scan of their keys is cheaper than asking each."""


@dataclass(frozen=True)
class Journal:
    """The facts about a journal on which the choice of a strategy depends.

    Attributes:
        known_ids: persistence ids whose last complete event is known.
        known_events: the number of events up to those, at most.
        all_are_listed: all_persistence_ids names every known id that still has messages.
        has_index: messages has a storage-attached index on timestamp.
    """

    known_ids: int
    known_events: int
    all_are_listed: bool
    has_index: bool


def choose(
    requested: Strategy | None, journal: Journal, pieces: Sequence[Piece]
) -> tuple[Strategy, str]:
    """Return the strategy, and the reason for it as a clause of the report.

    Whatever was requested, only a scan rewrites events that are complete, numbers a journal of
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
    """Return the pieces that live readers may look back at: from the previous time bucket on.

    A reader that has not met a persistence id and sees a row of it with a number above 1 there
    demands all numbers from 1, and fails if they lie further back (docs/real-systems.md, "A foreign
    writer's risks").
    """
    return [piece for piece in pieces if out_of_reach_at(piece.time_bucket, size) > now]


def out_of_reach_at(time_bucket: int, size: BucketSize) -> datetime:
    """Return when live readers stop looking back at the time bucket (epoch ms)."""
    return from_millis(time_bucket + 2 * size.milliseconds)
