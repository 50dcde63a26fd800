"""How the Python driver connects, and what its requests may take."""

from __future__ import annotations

from cassandra import ConsistencyLevel
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import RetryPolicy
from cassandra.query import dict_factory

from tidemark.settings import Settings

ONCE = "once"
"""The profile of transactions: one that is sent again may meet its own first effect."""
EVERYWHERE = "everywhere"
"""The profile of locks: at QUORUM of all data centres, whatever consistency level is set."""


class _NotResent(RetryPolicy):  # type: ignore[misc]
    """A retry policy that does not resend a request after an error, since it may have run."""

    def on_request_error(self, *args: object, **kwargs: object) -> tuple[int, None]:
        return self.RETHROW, None


def cluster(settings: Settings) -> Cluster:
    """Return the driver's cluster, which is not connected yet."""
    password = settings.cassandra_password.get_secret_value()
    level = ConsistencyLevel.name_to_value[settings.cassandra_consistency]

    def profile(level: int, retry_policy: RetryPolicy) -> ExecutionProfile:
        return ExecutionProfile(
            consistency_level=level,
            retry_policy=retry_policy,
            request_timeout=settings.cassandra_timeout,
            row_factory=dict_factory,
        )

    return Cluster(
        contact_points=settings.contact_points,
        port=settings.contact_points[0][1],
        auth_provider=(
            PlainTextAuthProvider(settings.cassandra_username, password)
            if settings.cassandra_username
            else None
        ),
        execution_profiles={
            EXEC_PROFILE_DEFAULT: profile(level, RetryPolicy()),
            ONCE: profile(level, _NotResent()),
            EVERYWHERE: profile(ConsistencyLevel.QUORUM, RetryPolicy()),
        },
        connect_timeout=settings.cassandra_timeout,
        # The driver's default of 2 s is too short for a busy server.
        control_connection_timeout=settings.cassandra_timeout,
        # Schema queries read system_schema. The driver would fetch the metadata of all tables of
        # all keyspaces at each start and after each DDL statement.
        schema_metadata_enabled=False,
    )
