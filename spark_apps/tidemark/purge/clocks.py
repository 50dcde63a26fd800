"""Checks of this machine's clock: a clock that is ahead makes young data look old."""

from __future__ import annotations

from datetime import UTC, timedelta

from tidemark import clock
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.errors import TidemarkError
from tidemark.ledger import applications
from tidemark.ledger.pieces import Pieces
from tidemark.purge.policies.pieces import PolicyPieces
from tidemark.window import from_millis, iso

TOLERANCE = timedelta(minutes=5)
"""Clocks of a cluster differ by less; otherwise its write times are useless, too."""
_DO = "set this machine's clock right; nothing was planned"


def require_sane_clock(run: RunContext) -> None:
    """Require a clock that is not ahead of Cassandra's, nor before what purges have recorded.

    Raises:
        TidemarkError: the clock is wrong.
    """
    now = clock.now()
    [row] = run.control.execute("SELECT toTimestamp(now()) AS now FROM system.local")
    server = row["now"].replace(tzinfo=UTC)
    if now > server + TOLERANCE:
        raise TidemarkError(
            f"the clock says {iso(now)}, and Cassandra's {iso(server)}",
            where="clock",
            do=_DO,
        )
    ledger_state = Pieces.of(run.control, run.settings, applications.PURGE).standing()
    ended = [from_millis(span.ended_last) for span in ledger_state.spans]
    ended += [at.replace(tzinfo=UTC) for piece in ledger_state.rows if (at := piece.touched_at)]
    ended += [piece.touched_at for piece in PolicyPieces(run).entries().values()]
    newest = max(ended, default=now)
    if newest > now + TOLERANCE:
        raise TidemarkError(
            f"the clock says {iso(now)}, and a purge ended at {iso(newest)}", where="clock", do=_DO
        )
    # The audit has a partition for each day on which something was changed.
    audited = run.control.execute(
        f"SELECT DISTINCT day FROM {table(run.settings.keyspace, 'audit')}"
    )
    latest = max((row["day"] for row in audited), default="")
    if latest > f"{now + TOLERANCE:%Y-%m-%d}":
        raise TidemarkError(
            f"the clock says {iso(now)}, and the audit has rows of {latest}", where="clock", do=_DO
        )
