"""Limits the time buckets of one run; the rest stays planned in the ledger."""

from __future__ import annotations

from dataclasses import replace

from tidemark.ledger.piece import Piece, Reason
from tidemark.ledger.pieces import Pieces
from tidemark.project.planning.plan import ProjectionPlan


def limit_pieces(plan: ProjectionPlan, most: int) -> ProjectionPlan:
    """Keep the oldest pieces, at most `most`, not counting held pieces. No I/O.

    Pieces of a changed definition come after the others. Pieces with a gap come last, fewest
    attempts first: a gap that never closes must not keep a run from new events.
    """
    ready = plan.ready
    if len(ready) <= most:
        return plan
    chosen = {piece.time_bucket for piece in sorted(ready, key=_turn)[:most]}
    kept_buckets = chosen | plan.held
    return replace(
        plan,
        pieces=[piece for piece in plan.pieces if piece.time_bucket in kept_buckets],
        postponed=[
            *plan.postponed,
            *(piece for piece in ready if piece.time_bucket not in chosen),
        ],
    )


def postpone(plan: ProjectionPlan, pieces_ledger: Pieces, owner: str) -> None:
    """Write postponed pieces to the ledger, for the next run whose window ends after them.

    Raises:
        LockLost: another run has started one of these pieces.
    """
    never_started = (Reason.NEW, Reason.HISTORY)
    pieces_ledger.note(piece for piece in plan.postponed if piece.reason in never_started)
    # The next plan finds the time buckets of `changed` itself.
    to_redo = [
        piece
        for piece in plan.postponed
        if piece.reason is Reason.FORCED
        or (piece.reason is Reason.CHANGED and piece.time_bucket not in plan.changed)
    ]
    pieces_ledger.restate(to_redo, owner=owner)


def _turn(piece: Piece) -> tuple[bool, bool, int, int]:
    has_gap = piece.reason is Reason.GAP
    is_changed = piece.reason is Reason.CHANGED
    return has_gap, is_changed, piece.attempt if has_gap else 0, piece.time_bucket
