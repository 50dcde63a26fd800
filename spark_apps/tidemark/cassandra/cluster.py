"""The Python driver's connection to the cluster: nodes, timeouts, retries, consistency levels."""

from __future__ import annotations

from typing import Any

from cassandra import ConsistencyLevel
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, Session
from cassandra.policies import DCAwareRoundRobinPolicy, RetryPolicy, TokenAwarePolicy
from cassandra.query import SimpleStatement, dict_factory

from tidemark import clock
from tidemark.cassandra import tls
from tidemark.errors import InvalidInput
from tidemark.settings import Settings
from tidemark.write_times import WriteTimes

ONCE = "once"
"""The profile of transactions, which are never resent: the second could meet the first's effect."""
EVERYWHERE = "everywhere"
"""The profile of locks: QUORUM and SERIAL over all data centres, whatever levels are set."""


class _ReadRetried(RetryPolicy):  # type: ignore[misc]
    """A retry policy that repeats a read once when it times out, since reading is harmless.

    Until the cluster notices that a node is down, other nodes wait for it in vain. The policy asks
    the same node again, which by now knows which of the replicas does not answer.
    """

    def on_read_timeout(self, *args: object, retry_num: int, **kwargs: object) -> tuple[int, None]:
        return (self.RETHROW if retry_num else self.RETRY), None


class _NotResent(RetryPolicy):  # type: ignore[misc]
    """A retry policy that does not resend a request after an error, since it may have run."""

    def on_request_error(self, *args: object, **kwargs: object) -> tuple[int, None]:
        return self.RETHROW, None


def cluster(settings: Settings, write_times: WriteTimes) -> Cluster:
    """Return the driver's cluster, not connected yet; its statements get their `write_times`.

    Raises:
        InvalidInput: a store of certificates cannot be used.
    """
    password = settings.cassandra_password.get_secret_value()
    level = ConsistencyLevel.name_to_value[settings.cassandra_consistency]
    serial_level = ConsistencyLevel.name_to_value[settings.cassandra_serial_consistency]

    def profile(
        level: int, retry_policy: RetryPolicy, serial_level: int = ConsistencyLevel.SERIAL
    ) -> ExecutionProfile:
        return ExecutionProfile(
            # If empty, the driver takes the data centre of the contact point that answers first.
            load_balancing_policy=TokenAwarePolicy(
                DCAwareRoundRobinPolicy(settings.cassandra_local_dc)
            ),
            consistency_level=level,
            serial_consistency_level=serial_level,
            retry_policy=retry_policy,
            request_timeout=settings.cassandra_timeout,
            row_factory=dict_factory,
        )

    return Cluster(
        **_nodes(settings),
        port=settings.contact_points[0][1],
        auth_provider=(
            PlainTextAuthProvider(settings.cassandra_username, password)
            if settings.cassandra_username
            else None
        ),
        execution_profiles={
            EXEC_PROFILE_DEFAULT: profile(level, _ReadRetried()),
            ONCE: profile(level, _NotResent(), serial_level),
            EVERYWHERE: profile(ConsistencyLevel.QUORUM, _ReadRetried()),
        },
        timestamp_generator=write_times,
        connect_timeout=settings.cassandra_timeout,
        # The driver's default of 2 s is too short for a busy server.
        control_connection_timeout=settings.cassandra_timeout,
        # Schema queries read system_schema. The driver would fetch the metadata of all tables of
        # all keyspaces at each start and after each DDL statement.
        schema_metadata_enabled=False,
    )


def _nodes(settings: Settings) -> dict[str, Any]:
    if not settings.is_cassandra_encrypted:
        return {"contact_points": settings.contact_points}
    nodes = tls.NamedEndPoints(settings)
    return {
        "contact_points": nodes.contact_points,
        "endpoint_factory": nodes,
        "ssl_context": tls.context(settings),
    }


def data_centers(connected: Cluster) -> list[str]:
    """Return the names of the data centres of a connected cluster."""
    return sorted({host.datacenter for host in connected.metadata.all_hosts() if host.datacenter})


def require_data_center(connected: Cluster, settings: Settings) -> None:
    """Reject a data centre that the cluster does not have, and LOCAL levels without a data centre.

    Raises:
        InvalidInput: names the data centres of the cluster.
    """
    existing = data_centers(connected)
    configured = settings.cassandra_local_dc
    if configured and existing and configured not in existing:
        raise InvalidInput(
            f"there is no data centre {configured!r}; there are {', '.join(existing)}",
            where="TIDEMARK_CASSANDRA_LOCAL_DC",
            do="name one of these",
        )
    if settings.cassandra_local_levels and not configured and len(existing) > 1:
        raise InvalidInput(
            f"{settings.cassandra_local_levels[0]} holds in one data centre, and the cluster has"
            f" {', '.join(existing)}: each run could use another, and miss what the last one wrote",
            where="TIDEMARK_CASSANDRA_LOCAL_DC",
            do="name the one of all runs over this journal",
        )


def clock_offsets(session: Session) -> dict[str, float]:
    """Return by how many seconds nodes' clocks are ahead of this machine's, by address.

    Negative numbers mean that a clock is behind. Differences that the time of the request itself
    can explain count as 0. Only nodes to which the session is connected are asked.
    """
    statement = SimpleStatement("SELECT toUnixTimestamp(now()) AS millis FROM system.local")
    offsets = {}
    for node in session.get_pool_state():
        begun = clock.machine_micros()
        node_micros = session.execute(statement, host=node).one()["millis"] * 1000
        ended = clock.machine_micros()
        offsets[str(node.endpoint)] = (node_micros - min(max(node_micros, begun), ended)) / 1e6
    return offsets
