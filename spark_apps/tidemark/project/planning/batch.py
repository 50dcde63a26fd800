"""The time buckets of a plan that are processed together; made by the run that processes them."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, replace

from tidemark.ledger.pieces import Piece, Reason
from tidemark.partitioning.keys import SliceRange
from tidemark.project.definition.model import Definition
from tidemark.project.planning.plan import ProjectionPlan
from tidemark.settings import Settings

_PROCESSED_AGAIN = frozenset({Reason.CHANGED, Reason.FORCED, Reason.RESTATED})


@dataclass(frozen=True)
class Batch:
    """Some time buckets of a plan, and what is known of the others while they are processed.

    Attributes:
        plan: the plan of which the batch is a part.
        slices: the slices whose events are read.
        pieces: to do; none of them is held.
        done: the time buckets that are done as far as this batch is concerned.
        end: events at or behind it (epoch ms) count as absent; None if nothing comes later in the
            plan.
        unsettled: the time buckets of earlier batches that hold events back.
        left_out: the planned time buckets whose result cannot be made again.
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
        """Return the batch of all that is to do."""
        return cls(plan, plan.slices, plan.ready, plan.done)

    @property
    def definition(self) -> Definition:
        """The projection."""
        return self.plan.definition

    @property
    def time_buckets(self) -> list[int]:
        """The time buckets to process, ascending."""
        return [piece.time_bucket for piece in self.pieces]

    @property
    def processed_again(self) -> list[int]:
        """The time buckets of which events that count as consumed are processed, ascending."""
        known_from = self.plan.known_from
        return [
            piece.time_bucket
            for piece in self.pieces
            if piece.reason in _PROCESSED_AGAIN
            or (known_from is not None and piece.time_bucket < known_from)
        ]

    @property
    def takes_older(self) -> bool:
        """Whether events before the projection's first time bucket are late once it has begun.

        Without `from` it began with all the history that there was. Of tag views a run reads only a
        part, and kafka-journal's time buckets are ready by their time alone: one event with a wrong
        time would make pieces of all time buckets since then. Of other slices nothing may be known.
        """
        source = self.definition.source
        has_all = source.reads_journal and not source.reads_tag_views
        return has_all and self.definition.begin is None and self.plan.slicing is None

    @property
    def planned(self) -> frozenset[int]:
        """The time buckets to process."""
        return frozenset(self.time_buckets)

    def look_back(self, settings: Settings) -> list[int]:
        """Return the time buckets that may hold late events: before planned ones, and unsettled."""
        size = settings.bucket_size.milliseconds
        own = self.definition.look_back
        number = settings.project_look_back if own is None else own
        steps = range(size, (number + 1) * size, size)
        around = {*self.time_buckets, *self.left_out}
        before = {bucket - step for bucket in around for step in steps}
        # What lies in those left out waits, and is not missing.
        return sorted(before | self.left_out | self.unsettled)

    def part(
        self,
        now: Collection[int],
        later: Collection[int],
        unsettled: Collection[int],
        end: int | None,
    ) -> Batch:
        """Return the batch of some of these time buckets.

        The time buckets of earlier batches count as done: an event that one of them held back, and
        whose predecessor is in this batch, is late there. The time buckets of later batches count
        as absent, even if they were done before; their events cannot be accepted before they are
        processed.
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
        """Return the batch without time buckets that cannot be made again from what is there."""
        return replace(
            self,
            pieces=[piece for piece in self.pieces if piece.time_bucket not in time_buckets],
            done=self.done - time_buckets,
            left_out=self.left_out | time_buckets,
        )

    def not_reopening(self, time_buckets: Set[int]) -> Batch:
        """Return the batch to which these time buckets are not done: nothing is late there."""
        return replace(self, done=self.done - time_buckets)
