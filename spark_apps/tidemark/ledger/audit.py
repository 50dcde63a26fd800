"""The audit trail of destructive work: a row before the work starts and a row after its end."""

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
        run: the context of the run: application, owner and run id.
        operation: name of the operation, such as `purge`, or `purge started` before its first
            write.
        subject: object of the operation, such as the journal keyspace.
        lines: the plan, for people.
        counts: numbers of affected rows or other units, by kind.
        dry_run: whether the run only shows its plan.
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
