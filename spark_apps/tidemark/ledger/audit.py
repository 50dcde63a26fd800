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

    `operation` is a name such as `purge`, or `purge started` before the first write. `subject` is
    its object, such as the journal keyspace. `lines` are the plan, for people. `counts` are numbers
    of affected rows or other units, by kind.
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
