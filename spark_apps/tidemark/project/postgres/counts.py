"""Counts of the rows of a read model in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.postgres.session import session
from tidemark.postgres.statements import statement
from tidemark.project.postgres.place import PostgresPlace


def by_time_bucket(place: PostgresPlace, time_buckets: Sequence[int]) -> dict[int, int]:
    """Count the rows of time buckets (epoch ms), leaving out those without rows."""
    with session(place.connection) as opened:
        rows = opened.execute(
            statement(
                "SELECT time_bucket, count(*) FROM {table} WHERE time_bucket = ANY(%s)"
                " GROUP BY time_bucket ORDER BY time_bucket",
                table=place.target,
            ),
            ([*time_buckets],),
        )
        return dict(rows.fetchall())
