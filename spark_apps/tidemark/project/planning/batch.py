"""The time buckets of a plan that a run processes together."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, replace

from tidemark.ledger.piece import Piece, Reason
from tidemark.partitioning.keys import SliceRange
from tidemark.project.definition.model import Definition
from tidemark.project.planning.plan import ProjectionPlan
from tidemark.settings import Settings

_PROCESSED_AGAIN = frozenset({Reason.CHANGED, Reason.FORCED, Reason.RESTATED})


@dataclass(frozen=True)
class Batch:
    """Some time buckets of a plan, and the state of the others while they are processed.

    Attributes:
        slices: the slices whose events are read.
        pieces: the pieces to process; none of them is held.
        done: time buckets that count as done for this batch.
        end: events at or after this time (epoch ms) count as absent; None for the last batch.
        unsettled: time buckets of earlier batches in which events are held back.
        left_out: planned time buckets whose result cannot be made again.
    """

    plan: ProjectionPlan
    slices: SliceRange
    pieces: Sequence[Piece]
    done: Set[int]
    end: int | None = None
    unsettled: frozenset[int] = frozenset()
    left_out: frozenset[int] = frozenset()

    @classmethod
    def whole(cls, plan: ProjectionPlan) -> Batch:
        """Return the batch of all pieces that are ready."""
        return cls(plan, plan.slices, plan.ready, plan.done)

    @property
    def definition(self) -> Definition:
        """The definition of the projection."""
        return self.plan.definition

    @property
    def time_buckets(self) -> list[int]:
        """The time buckets to process, ascending."""
        return [piece.time_bucket for piece in self.pieces]

    @property
    def processed_again(self) -> list[int]:
        """The time buckets whose consumed events are processed again, ascending."""
        known_from = self.plan.known_from
        return [
            piece.time_bucket
            for piece in self.pieces
            if piece.reason in _PROCESSED_AGAIN
            or (known_from is not None and piece.time_bucket < known_from)
        ]

    @property
    def takes_older(self) -> bool:
        """Whether events before the projection's first time bucket count as late events.

        Without `from`, the projection began with the complete history. Not with tag views, of which
        a run reads only a part; nor with kafka-journal, whose time buckets are ready by time alone,
        so that one event with a wrong time would make pieces of all time buckets since then; nor
        with some slices, as the state of the others may be unknown.
        """
        source = self.definition.source
        reads_all = source.reads_journal and not source.reads_tag_views
        return reads_all and self.definition.begin is None and self.plan.slicing is None

    @property
    def planned(self) -> frozenset[int]:
        """The time buckets to process."""
        return frozenset(self.time_buckets)

    def look_back(self, settings: Settings) -> list[int]:
        """Return the time buckets that may have late events: unsettled or before planned ones."""
        size = settings.bucket_size.milliseconds
        own_look_back = self.definition.look_back
        look_back = settings.project_look_back if own_look_back is None else own_look_back
        steps = range(size, (look_back + 1) * size, size)
        planned = {*self.time_buckets, *self.left_out}
        before = {bucket - step for bucket in planned for step in steps}
        # Events in the buckets left out wait; they are not missing.
        return sorted(before | self.left_out | self.unsettled)

    def part(
        self,
        now: Collection[int],
        later: Collection[int],
        unsettled: Collection[int],
        end: int | None,
    ) -> Batch:
        """Return the batch of some of these time buckets.

        Time buckets of earlier batches count as done: an event that one of them held back is late
        if its predecessor is in this batch. Time buckets of later batches count as absent, even if
        they were done before; their events cannot be accepted before they are processed.
        """
        chosen, rest = frozenset(now), frozenset(later)
        return replace(
            self,
            pieces=[piece for piece in self.pieces if piece.time_bucket in chosen],
            done=(self.done | self.planned) - chosen - rest | (self.done & chosen),
            unsettled=frozenset(unsettled),
            end=end,
        )

    def leaving_out(self, time_buckets: Set[int]) -> Batch:
        """Return the batch without time buckets whose result cannot be made again."""
        return replace(
            self,
            pieces=[piece for piece in self.pieces if piece.time_bucket not in time_buckets],
            done=self.done - time_buckets,
            left_out=self.left_out | time_buckets,
        )

    def not_reopening(self, time_buckets: Set[int]) -> Batch:
        """Return the batch in which these time buckets are not done and have no late events."""
        return replace(self, done=self.done - time_buckets)
