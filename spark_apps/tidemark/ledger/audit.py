"""The audit trail of destructive work: a row before it starts and a row when it has ended."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from tidemark import clock
from tidemark.cassandra.schema import table
from tidemark.context import RunContext


def record(
    run: RunContext,
    operation: str,
    subject: str,
    lines: Sequence[str],
    counts: Mapping[str, int],
    *,
    dry_run: bool = False,
) -> None:
    """Append one row under today's UTC day.

    Args:
        run: who does it: application, owner and run id.
        operation: what it did, such as `purge`, and `purge started` before the first write.
        subject: what it touched, such as the journal keyspace.
        lines: what was to be touched, for people.
        counts: what was touched, by kind.
        dry_run: True if nothing was to be touched.
    """
    run.control.execute(
        f"INSERT INTO {table(run.settings.keyspace, 'audit')} (day, at, application, operation,"
        " subject, owner, run_id, dry_run, plan, counts) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            f"{clock.now():%Y-%m-%d}",
            uuid.uuid1(),
            run.application,
            operation,
            subject,
            run.owner,
            run.run_id,
            dry_run,
            "\n".join(lines),
            dict(counts),
        ),
    )
