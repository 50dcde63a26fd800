"""At most so many time buckets in one run; the rest stays planned in the ledger."""

from __future__ import annotations

from dataclasses import replace

from tidemark.ledger.pieces import Piece, Reason
from tidemark.projection.planning.plan import Work


def limit_pieces(work: Work, most: int) -> Work:
    """The oldest pieces, at most `most`; those that wait for validate are not counted.

    Pieces with a gap come after the others, those tried least first: should the gap never close,
    they must not keep a run from what is new. No I/O.
    """
    ready = [piece for piece in work.pieces if piece.time_bucket not in work.held]
    if len(ready) <= most:
        return work
    chosen = {piece.time_bucket for piece in sorted(ready, key=_turn)[:most]}
    kept = chosen | work.held
    return replace(
        work,
        pieces=[piece for piece in work.pieces if piece.time_bucket in kept],
        postponed=[
            *work.postponed,
            *(piece for piece in ready if piece.time_bucket not in chosen),
        ],
    )


def postpone(work: Work, owner: str) -> None:
    """Write in the ledger what was left out, for the next run whose window ends after it.

    Raises:
        LockLost: another run has started one of these pieces.
    """
    work.ledger.note(piece for piece in work.postponed if piece.reason is Reason.NEW)
    again = (Reason.CHANGED, Reason.FORCED)
    work.ledger.restate([piece for piece in work.postponed if piece.reason in again], owner=owner)


def _turn(piece: Piece) -> tuple[bool, int, int]:
    has_gap = piece.reason is Reason.GAP
    return has_gap, piece.attempt if has_gap else 0, piece.time_bucket
