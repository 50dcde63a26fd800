"""How the Python driver connects, where, and what its requests may take."""

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
"""The profile of transactions: one that is sent again may meet its own first effect."""
EVERYWHERE = "everywhere"
"""The profile of locks: at QUORUM and SERIAL, of all data centres, whatever levels are set."""


class _AskedAgain(RetryPolicy):  # type: ignore[misc]
    """A retry policy that asks once more when a read times out, since reading is harmless.

    Until a node that has gone is known to be gone, others wait for it in vain. It asks the same
    node, which has answered and knows by now which of the others has not.
    """

    def on_read_timeout(self, *args: object, retry_num: int, **kwargs: object) -> tuple[int, None]:
        return (self.RETHROW if retry_num else self.RETRY), None


class _NotResent(RetryPolicy):  # type: ignore[misc]
    """A retry policy that does not resend a request after an error, since it may have run."""

    def on_request_error(self, *args: object, **kwargs: object) -> tuple[int, None]:
        return self.RETHROW, None


def cluster(settings: Settings, write_times: WriteTimes) -> Cluster:
    """Return the driver's cluster, which is not connected yet and takes its write times from there.

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
            # Empty, it is the data centre of the contact point that answers first.
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
            EXEC_PROFILE_DEFAULT: profile(level, _AskedAgain()),
            ONCE: profile(level, _NotResent(), serial_level),
            EVERYWHERE: profile(ConsistencyLevel.QUORUM, _AskedAgain()),
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
    """Return the names of the data centres that a connected cluster has told of."""
    return sorted({host.datacenter for host in connected.metadata.all_hosts() if host.datacenter})


def require_data_center(connected: Cluster, settings: Settings) -> None:
    """Refuse a data centre that is none of the cluster's, and levels of a local one that is unset.

    Raises:
        InvalidInput: names the data centres that there are.
    """
    known = data_centers(connected)
    named = settings.cassandra_local_dc
    if named and known and named not in known:
        raise InvalidInput(
            f"there is no data centre {named!r}; there are {', '.join(known)}",
            where="TIDEMARK_CASSANDRA_LOCAL_DC",
            do="name one of these",
        )
    if settings.cassandra_local_levels and not named and len(known) > 1:
        raise InvalidInput(
            f"{settings.cassandra_local_levels[0]} holds in one data centre, and the cluster has"
            f" {', '.join(known)}: each run could use another, and miss what the last one wrote",
            where="TIDEMARK_CASSANDRA_LOCAL_DC",
            do="name the one of all runs over this journal",
        )


def clock_offsets(session: Session) -> dict[str, float]:
    """Return by how many seconds the clocks of nodes are ahead of this machine's, by address.

    It asks those that the session is connected to. Negative ones are behind; what the way of the
    question may have taken is not counted.
    """
    asked = SimpleStatement("SELECT toUnixTimestamp(now()) AS millis FROM system.local")
    offsets = {}
    for node in session.get_pool_state():
        begun = clock.machine_micros()
        found = session.execute(asked, host=node).one()["millis"] * 1000
        ended = clock.machine_micros()
        offsets[str(node.endpoint)] = (found - min(max(found, begun), ended)) / 1e6
    return offsets
