"""The audit trail of destructive work: a row before it starts and a row when it has ended."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table


def record(
    control: Control,
    keyspace: str,
    *,
    application: str,
    operation: str,
    subject: str,
    owner: str,
    run_id: str,
    dry_run: bool,
    plan: str,
    counts: Mapping[str, int],
) -> None:
    """Append one row under today's UTC day.

    Args:
        control: the session to Cassandra.
        keyspace: Tidemark's own keyspace.
        application: which application did it.
        operation: what it did, such as `purge`, and `purge started` before the first write.
        subject: the journal keyspace that it touched.
        owner: who, as `host:pid:run id`.
        run_id: the run.
        dry_run: True if nothing was to be touched.
        plan: what was to be touched, for people.
        counts: what was touched, by kind.

    Raises:
        CassandraUnavailable: the statement failed.
    """
    control.execute(
        f"INSERT INTO {table(keyspace, 'audit')} (day, at, application, operation, subject, owner,"
        " run_id, dry_run, plan, counts) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            f"{datetime.now(UTC):%Y-%m-%d}",
            uuid.uuid1(),
            application,
            operation,
            subject,
            owner,
            run_id,
            dry_run,
            plan,
            dict(counts),
        ),
    )
